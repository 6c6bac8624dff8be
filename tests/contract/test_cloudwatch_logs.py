"""CloudWatch Logs as a target, against the fake of the unit tests, moto and ministack: the events read back equal those sent."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from chalicelib.aws.clock import SystemClock
from chalicelib.aws.cloudwatch_logs import CloudWatchLogsTarget, stream_name
from chalicelib.events.event import Annotation, Event, Loggable
from chalicelib.events.forwarding import Forwarder
from chalicelib.events.targets.document import document
from chalicelib.ports import Run
from tests.contract.conftest import client_of
from tests.vendors import LogsClient

LOGGABLE = Loggable.of_run(Run("svc:orders*", "run-1"), "here")


@pytest.fixture
def client(endpoint_url: str | None) -> Iterator[Any]:
    if endpoint_url is None:
        yield LogsClient(SystemClock())
        return
    with closing(client_of("logs", endpoint_url)) as made:
        yield made


def read(client: Any, group: str) -> list[tuple[int, str]]:
    """All stored events, page by page."""
    where = {"logGroupName": group, "logStreamName": stream_name(LOGGABLE), "startFromHead": True}
    rows: list[tuple[int, str]] = []
    token: dict[str, Any] = {}
    while True:
        page = client.get_log_events(**where, **token)
        rows += [(row["timestamp"], row["message"]) for row in page["events"]]
        if token.get("nextToken") == page["nextForwardToken"]:
            return rows
        token = {"nextToken": page["nextForwardToken"]}


def events_of(count: int) -> list[Event]:
    """Recent events, three per millisecond, with varied texts."""
    now, texts = SystemClock().now_ms() - 60_000, ["plain", "ünï \U0001f600", "two\nlines\r\n", "", '{"a": "\\u0000"}', "x" * 2000]
    data = LOGGABLE.mandatory_data("build")
    note = (Annotation(position=1, note={"url": "https://a"}),)
    return [
        Event(
            id=number, message=f"{texts[number % 6]}", timestamp=now + number // 3, data=data, writer="w", level="INFO",
            annotations=note if number % 5 == 0 else (),
        )
        for number in range(count)
    ]  # fmt: skip


def test_sent_events_are_read_back(client: Any) -> None:
    events = events_of(1_000)
    forwarder = Forwarder(CloudWatchLogsTarget(client, "runs-json"), LOGGABLE, SystemClock())
    for number, event in enumerate(events):
        forwarder.add(event)
        if number in (10, 500):
            forwarder.flush()
    forwarder.flush()
    assert (forwarder.figures.taken, forwarder.figures.refused, forwarder.figures.requests) == (1_000, 0, 3)
    assert [(at, json.loads(text)) for at, text in read(client, "runs-json")] == [
        (event.timestamp, json.loads(json.dumps(document(event)))) for event in events
    ]


def test_messages_alone(client: Any) -> None:
    events = events_of(30)
    assert CloudWatchLogsTarget(client, "runs-text", "text").send(LOGGABLE, events) == ()
    assert read(client, "runs-text") == [(event.timestamp, event.message or " ") for event in events]


def test_existing_group_is_used(client: Any) -> None:
    client.create_log_group(logGroupName="runs-there")
    for _ in range(2):
        CloudWatchLogsTarget(client, "runs-there").send(LOGGABLE, events_of(1))
    assert len(read(client, "runs-there")) == 2

"""The live stream over HTTP: frames for a plain ``EventSource``, each line once, an end, and recovery from failures."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from chalicelib.errors import StoreUnavailableError
from chalicelib.runlog.following import HOLD_S
from tests.faults.interception import Intercepted
from tests.functional.gateway import Answer, Context, get, installed, post
from tests.world import World

RUN_PATH, STREAM = "svc.pipe/run-1", "svc.pipe/stream/run-1"
LAMBDA_BYTES = 6 * 1024 * 1024


@dataclass
class EventSource:
    """A browser's ``EventSource`` by the standard: fields, the last event id, dispatched events."""

    url: str = STREAM
    last_event_id: str = ""
    retry_ms: int = 3000
    events: list[dict[str, Any]] = field(default_factory=list)
    comments: list[str] = field(default_factory=list)

    def connect(self, **options: Any) -> Answer:
        headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": self.last_event_id} if self.last_event_id else {})
        answer = get(self.url, headers=headers, **options)
        assert answer.status == 200 and answer.headers["Content-Type"].startswith("text/event-stream")
        assert len(json.dumps({"body": answer.body})) < LAMBDA_BYTES
        self._read(answer.body)
        return answer

    def _read(self, body: str) -> None:
        data: list[str] = []
        for line in re.split("\r\n|\n|\r", body):
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            match name:
                case "" if line:
                    self.comments.append(value)
                case "" if data:
                    self.events.append(json.loads("\n".join(data)))
                    data = []
                case "data":
                    data.append(value)
                case "id":
                    self.last_event_id = value
                case "retry":
                    self.retry_ms = int(value)
        assert not data, "an event that no empty line ends is not dispatched"

    @property
    def lines(self) -> list[str]:
        return [line for event in self.events for line in event.get("logs", "").split("\n")[:-1]]


@pytest.fixture
def world() -> Iterator[World]:
    with installed(World()) as world:
        yield world


@pytest.mark.behavior("A live run can be followed to its end with server-sent events.")
def test_a_run_is_followed_to_its_end(world: World) -> None:
    source = EventSource()
    source.connect()
    assert (source.events, source.comments, source.last_event_id, source.retry_ms) == ([], ["heartbeat"], "0", 250)
    post(RUN_PATH, '"one\\ntwo"')
    source.connect()
    assert source.events == [
        {"eventType": "logs", "runId": "run-1", "logs": "one\ntwo\n", "after": "2", "replay": True, "truncated": False}
    ]
    assert source.last_event_id == "2"
    source.connect()
    assert (len(source.events), source.comments) == (1, ["heartbeat"] * 2)
    post(RUN_PATH, '"three"')
    post(f"{RUN_PATH}/close")
    source.connect()
    assert source.lines == ["one", "two", "three"]
    assert source.events[-1] == {"eventType": "complete", "runId": "run-1", "after": "3", "reason": "runFinished"}


def test_the_frames_letter_by_letter(world: World) -> None:
    post(RUN_PATH, '"a\\rb\\u2028c"')
    post(f"{RUN_PATH}/close")
    answer = get(STREAM)
    assert answer.body == (
        "retry: 250\n\n"
        'id: 1\ndata: {"eventType":"logs","runId":"run-1","logs":"a\\rb\\u2028c\\n","after":"1","replay":true,"truncated":false}\n\n'
        'id: 1\ndata: {"eventType":"complete","runId":"run-1","after":"1","reason":"runFinished"}\n\n'
    )
    assert answer.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize(
    ("query", "last_event_id", "told"),
    [
        ("", None, ["0", "1", "2", "3"]),
        ("?after=1", None, ["1", "2", "3"]),
        ("?after=1", "3", ["3"]),
        ("?after=1", "0", ["0", "1", "2", "3"]),
        ("?after=1", "nonsense", ["1", "2", "3"]),
        ("?after=nonsense", None, ["0", "1", "2", "3"]),
        ("?tail=2", None, ["2", "3"]),
        ("?tail=2", "1", ["1", "2", "3"]),
        ("?tail=0", None, []),
    ],
)
def test_where_a_viewer_begins(world: World, query: str, last_event_id: str | None, told: list[str]) -> None:
    post(RUN_PATH, '"0\\n1\\n2\\n3"')
    source = EventSource(STREAM + query, last_event_id or "")
    source.connect()
    assert source.lines == told and source.last_event_id == "4"


def test_stream_waits_no_longer_than_the_functions_time(world: World) -> None:
    EventSource().connect()
    assert world.clock.monotonic_s() == HOLD_S
    EventSource().connect(context=Context(remaining_ms=10_000))
    assert world.clock.monotonic_s() == HOLD_S + 7
    EventSource().connect(context=Context(remaining_ms=500))
    assert world.clock.monotonic_s() == HOLD_S + 7


@pytest.mark.slow
@pytest.mark.parametrize(
    "line", ["x" * 1_000_000, "\x01" * 700_000, "😀" * 250_000, "\u2028" * 300_000, "\r" * 1000, "data: x\\n\\n"]
)
def test_large_and_odd_lines_fit_an_answer(world: World, line: str) -> None:
    post(RUN_PATH, json.dumps("before"))
    source = EventSource()
    source.connect()
    for _ in range(6):
        post(RUN_PATH, json.dumps(line))
    while len(source.lines) < 7:
        source.connect()
    assert source.lines == ["before"] + [line] * 6


def test_it_comes_back_at_once_while_more_is_there(world: World) -> None:
    post(RUN_PATH, json.dumps("\n".join("x" * 1000 for _ in range(4000))))
    source = EventSource()
    source.connect()
    assert source.retry_ms == 0 and 0 < len(source.lines) < 4000
    source.connect()
    assert source.retry_ms == 250 and len(source.lines) == 4000


def test_stream_ends_for_an_idle_run_and_at_until() -> None:
    with installed(World(), viewer_idle_minutes=1) as world:
        post(RUN_PATH, '"one"')
        source = EventSource(f"{STREAM}?until={world.clock.now_ms() + 10_000}")
        source.connect()
        source.connect()
        assert [event.get("reason") for event in source.events] == [None, "maxDuration"]
        source = EventSource(last_event_id="1")
        for _ in range(4):
            source.connect()
        assert source.events[-1]["reason"] == "idleTimeout"


def test_failure_of_the_store_is_reported_in_the_stream_and_the_viewer_keeps_its_position() -> None:
    """An ``EventSource`` does not reconnect after a 503."""
    world, is_away = World(), [False]

    def gate(_: str, call: Any) -> Any:
        if is_away[0]:
            raise StoreUnavailableError("the store is away")
        return call()

    with installed(world, store=Intercepted(world.store, gate)):
        post(RUN_PATH, '"one"')
        source = EventSource()
        source.connect()
        is_away[0] = True
        source.connect()
        assert source.events[-1] == {"eventType": "error", "runId": "run-1", "message": "the store is away"}
        assert (source.last_event_id, source.retry_ms) == ("1", 1000)
        is_away[0] = False
        post(RUN_PATH, '"two"')
        source.connect()
        assert source.lines == ["one", "two"]


@pytest.mark.parametrize("path", ["a%00b/stream/run-1", "svc/stream/a%2Fb", "svc/stream/last", "%FF/stream/run-1"])
def test_names_that_cannot_be(world: World, path: str) -> None:
    answer = get(path)
    assert (answer.status, answer.json["code"]) == (400, 400)


@pytest.mark.parametrize("fqn", ["a/b.c", "a%2Fb.c"])
def test_names_with_slashes(world: World, fqn: str) -> None:
    post(f"{fqn}/run-1", '"one"')
    source = EventSource(f"{fqn}/stream/run-1")
    source.connect()
    assert source.lines == ["one"]

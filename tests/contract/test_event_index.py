"""The index of events behaves alike in memory and on DynamoDB tables, and does not affect the rows of segments in the same
table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from chalicelib.aws.database import DynamoDbDatabase, Schema
from chalicelib.aws.dynamodb import Table
from chalicelib.aws.segment_index import DynamoDbSegmentIndex
from chalicelib.events.index import EVENTS, EventIndex
from chalicelib.events.sidecar import Sidecar, SidecarEntry
from chalicelib.events.step_segments import step_segments_of
from chalicelib.ports import Run, SegmentEntry
from glue_jobs.catalog.run_items import DynamoDbRunItems
from tests.contract.conftest import KEEP_S, create_table
from tests.support.clock import ManualClock
from tests.support.database import InMemoryDatabase
from tests.world import START_MS

RUN = Run("a/b c#", "run~1")


def sidecar(sequence: int, *events: SidecarEntry, writer: str = "w") -> Sidecar:
    return Sidecar(sequence, sequence * 100, sequence * 1000, 100, 1000, writer, "house", START_MS, events)


def noted(sequence: int, at: int, step: str | None = None, id: int | None = None) -> SidecarEntry:
    return SidecarEntry(sequence * 100 + at, sequence * 1000 + at * 10, 1, 9, START_MS + at, id=id, step=step, error=at == 1)


SIDECARS = [
    sidecar(0, noted(0, 0, "a", 0), noted(0, 1, "a", 1), noted(0, 2, "b/ä#", 2)),
    sidecar(1, noted(1, 0, "b/ä#", 3), noted(1, 1, None, 4), noted(1, 2, "a", 5)),
    sidecar(2, noted(2, 0, "a", 0), writer="x"),
    sidecar(11, noted(11, 0, "a"), writer=""),
]


@pytest.fixture
def index(endpoint_url: str | None, dynamodb_of: Callable[[str], Any]) -> EventIndex:
    clock = ManualClock(START_MS)
    if endpoint_url is None:
        return EventIndex(InMemoryDatabase(), clock, KEEP_S)
    client = dynamodb_of(endpoint_url)
    schema = Schema(create_table(client, "SegmentsTable"), "run", "at")
    return EventIndex(DynamoDbDatabase(client, {EVENTS: schema}), clock, KEEP_S)


def test_parts_come_back_in_order_whatever_the_order_of_their_writes(index: EventIndex) -> None:
    index.put(RUN, SIDECARS[2:])
    index.put(RUN, SIDECARS[:2])
    index.put(RUN, SIDECARS)
    expected = [part for each in SIDECARS for part in step_segments_of(each)]
    assert list(index.step_segments(RUN, "a")) == [part for part in expected if part.step == "a"]
    assert list(index.step_segments(RUN, "a", 1)) == [part for part in expected if part.step == "a" and part.sequence >= 1]
    assert list(index.step_segments(RUN, "b")) == [] and list(index.step_segments(Run("a/b c", "run~1"), "a")) == []
    assert sorted(index.step_segments(RUN), key=lambda part: (part.sequence, part.step)) == sorted(
        expected, key=lambda part: (part.sequence, part.step)
    )
    assert (index.indexed(RUN, 0), index.indexed(RUN, 2)) == ({0, 1, 2, 11}, {2, 11})


def test_visible_ids_are_merged(index: EventIndex) -> None:
    assert index.visible(RUN) == {}
    for each in (SIDECARS[1], SIDECARS[2], SIDECARS[0], SIDECARS[1]):
        index.put(RUN, [each])
    found = index.visible(RUN)
    assert {name: each.ranges for name, each in found.items()} == {"w": ((0, 5),), "x": ((0, 0),)}
    assert found["w"].last_ms == START_MS + 2


def test_older_step_update_is_ignored(index: EventIndex) -> None:
    index.put_step_update(RUN, "b/ä#", {"name": "two", "version": 2}, 2)
    index.put_step_update(RUN, "b/ä#", {"name": "one", "version": 1}, 1)
    assert index.step_updates(RUN) == {"b/ä#": {"name": "two", "version": 2}}
    index.put_step_update(RUN, "b/ä#", {"name": None, "version": 3}, 3)
    assert index.step_updates(RUN)["b/ä#"]["name"] is None


@pytest.mark.parametrize("kind", ["moto"], indirect=True)
def test_rows_of_segments_are_unaffected(endpoint_url: str, dynamodb_of: Callable[[str], Any]) -> None:
    client = dynamodb_of(endpoint_url)
    name = create_table(client, "SegmentsTable")
    events = EventIndex(DynamoDbDatabase(client, {EVENTS: Schema(name, "run", "at")}), ManualClock(START_MS), KEEP_S)
    segments = DynamoDbSegmentIndex(Table(client, name), KEEP_S)
    entry = SegmentEntry(0, "data", 1, 0, 0, 100, 1000, "s", 0, "d", START_MS, events=3)
    segments.put(RUN, [entry])
    events.put(RUN, SIDECARS)
    events.put_step_update(RUN, "a", {"version": 1}, 1)
    assert segments.last(RUN) == entry and segments.at_line(RUN, 10**15) == entry
    assert segments.rows_from(RUN, 0, 0, 100) == [entry]
    items = DynamoDbRunItems(Table(client, create_table(client, "RunsTable")), Table(client, name))
    assert [item["at"] for item in items.segments(RUN)] == [f"{0:016d}#{0:010d}"]

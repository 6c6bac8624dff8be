"""Structured events in a pipeline: one record each, with step and data; plain lines among them are unaffected."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pytest

from chalicelib.deadline import Deadline
from chalicelib.errors import PreconditionFailedError
from chalicelib.events import bundling
from chalicelib.pipelines.ordering import PendingEvent
from chalicelib.pipelines.rows import EventPosition
from chalicelib.pipelines.run_event_reader import RunEventReader
from chalicelib.pipelines.sidecar_reader import StoredSidecarReader
from chalicelib.ports import PutOptions, Run
from tests.events_harness import EventParts, event_parts, make_event
from tests.pipelines_harness import START_MS, PipelinesHarness, RecordingHandler, line, pipeline

A = Run("svc.a", "r1")
Told = tuple[int, str, int, str, str, Any]


@pytest.fixture
def world() -> Iterator[PipelinesHarness]:
    RecordingHandler.forget()
    yield PipelinesHarness()
    RecordingHandler.forget()


def catalogued(world: PipelinesHarness, run: Run = A) -> None:
    last = world.index.last(run)
    entry = last or world.parts().writer.tails.segment(run, 0)
    world.runs.record_segment(run, entry)


def mixed(world: PipelinesHarness, parts: EventParts) -> list[Told]:
    """A log of plain lines and structured events, and the records that handlers should receive."""
    world.write(A, [line(START_MS, "plain"), "  goes on"])
    parts.log.append(
        A,
        [
            make_event("of two\n  lines", "extract", level="warn", timestamp=START_MS + 1, data={"rows": 3, "logger": "app.x"}),
            make_event("", timestamp=START_MS + 2),
            make_event(line(START_MS + 99, "looks like a line", "ERROR"), timestamp=START_MS + 3, level="notice"),
            make_event("    indented", "load", timestamp=START_MS + 4, level="DEBUG"),
        ],
    )
    world.write(A, ["    of nobody", line(START_MS + 5, "plain again", "ERROR")])
    return [
        (0, "INFO", START_MS, "plain\n  goes on", "", {}),
        (2, "WARNING", START_MS + 1, "of two\n  lines", "extract", {"rows": 3, "logger": "app.x"}),
        (4, "INFO", START_MS + 2, "", "", {}),
        (5, "INFO", START_MS + 3, line(START_MS + 99, "looks like a line", "ERROR"), "", {}),
        (6, "DEBUG", START_MS + 4, "    indented", "load", {}),
        (7, "INFO", START_MS + 4, "    of nobody", "", {}),
        (8, "ERROR", START_MS + 5, "plain again", "", {}),
    ]


def told() -> list[Told]:
    return [
        (
            each.runlake_line,  # type: ignore[attr-defined]
            each.levelname,
            each.runlake_time_ms,  # type: ignore[attr-defined]
            each.getMessage(),
            each.runlake_step,  # type: ignore[attr-defined]
            {name: value for name, value in each.runlake_data.items() if name in ("rows", "logger")},  # type: ignore[attr-defined]
        )
        for each in RecordingHandler.records.get("all", ())
    ]


@pytest.mark.parametrize("state", ["live", "ended"])
def test_each_is_one_record_with_what_it_said(world: PipelinesHarness, state: str) -> None:
    parts = event_parts(world)
    wanted = mixed(world, parts)
    if state == "ended":
        world.end(A)
    worker = world.worker(pipeline(), sidecars=world.sidecars(parts))
    worker.start()
    world.work(worker)
    worker.stop()
    assert told() == wanted
    assert [each.name for each in RecordingHandler.records["all"]][1] == "app.x"


def reader(
    world: PipelinesHarness,
    sidecars: StoredSidecarReader,
    fetch_bytes: int,
    place: EventPosition | None = None,
    patience_ms: int = 0,
) -> RunEventReader:
    return RunEventReader(
        world.parts().reader,
        A,
        place or EventPosition(),
        "",
        fetch_bytes=fetch_bytes,
        patience_ms=patience_ms,
        clock=world.clock,
        sidecars=sidecars,
    )


def rest(reading: RunEventReader) -> list[PendingEvent]:
    """The events from here to the end of the log."""
    found: list[PendingEvent] = []
    for _ in range(1000):
        fetched = reading.fetch()
        found += fetched.events
        if fetched.at_end:
            return found
    raise AssertionError("no end")


def fed(world: PipelinesHarness, parts: EventParts, fetch_bytes: int, place: EventPosition | None = None) -> list[tuple[int, str]]:
    reading = reader(world, world.sidecars(parts), fetch_bytes, place, patience_ms=2000)
    return [(each.line, each.parsed.message) for each in rest(reading)]


@pytest.mark.parametrize("fetch_bytes", [20, 47, 100, 10_000])
def test_pieces_of_any_size_and_from_any_border_give_the_same(world: PipelinesHarness, fetch_bytes: int) -> None:
    parts = event_parts(world)
    wanted = [(at, message) for at, _, _, message, _, _ in mixed(world, parts)]
    world.end(A)
    assert fed(world, parts, fetch_bytes) == wanted
    for each in reader(world, world.sidecars(parts), 10_000).fetch().events:
        assert fed(world, parts, fetch_bytes, EventPosition(each.line, each.byte, START_MS)) == [
            one for one in wanted if one[0] >= each.line
        ]


@pytest.mark.parametrize("is_compacted", [False, True])
def test_a_batch_that_is_being_written_holds_back_what_follows(world: PipelinesHarness, is_compacted: bool) -> None:
    parts = event_parts(world)
    world.write(A, [line(START_MS, "before")])
    put = world.store.put

    def broken(key: str, *given: Any) -> Any:
        if "/events/" in key:
            raise PreconditionFailedError("not now")
        return put(key, *given)

    world.store.put = broken  # type: ignore[method-assign]
    parts.log.append(A, [make_event("an\n event", "s", timestamp=START_MS + 1)])
    world.store.put = put  # type: ignore[method-assign]
    world.write(A, [line(START_MS + 2, "behind")])
    if is_compacted:
        world.parts().compactor.compact(A, world.deadline())
    world.clock.advance(10)
    assert fed(world, parts, 10_000) == [(0, "before")]
    world.clock.advance(60)  # nobody writes it any more
    found = fed(world, parts, 10_000)
    assert (found[0], found[-1]) == ((0, "before"), (3, "behind"))


def test_a_sidecar_that_is_damaged_leaves_plain_lines(world: PipelinesHarness) -> None:
    parts = event_parts(world)
    wanted = mixed(world, parts)
    world.store.put(world.layout.sidecar(A, 1), b"no gzip", PutOptions())
    world.end(A)
    found = fed(world, parts, 10_000)
    assert found[0][0] == 0 and found[-1] == (8, wanted[-1][3])


def test_no_more_sidecars_are_held_than_twice_those_that_a_piece_has(world: PipelinesHarness) -> None:
    parts = event_parts(world)
    for number in range(100):
        parts.log.append(A, [make_event(f"event {number:03d}", "s", timestamp=START_MS + number)])
    world.end(A)
    source = world.sidecars(parts)
    reading = reader(world, source, 100)  # ten events a piece
    found: list[PendingEvent] = []
    with patch.object(source, "sidecars", wraps=source.sidecars) as read:
        while not (fetched := reading.fetch()).at_end:
            counts = [len(each.args[1]) for each in read.call_args_list]
            assert max(counts) <= 16 and sum(counts) <= 2 * 11
            read.reset_mock()
            found += fetched.events
    found += fetched.events
    assert [each.parsed.message for each in found] == [f"event {number:03d}" for number in range(100)]
    assert {each.context.step for each in found if each.context} == {"s"}


def test_events_of_a_run_that_is_bundled_between_two_pieces_are_complete(world: PipelinesHarness) -> None:
    parts = event_parts(world)
    for number in range(20):
        parts.log.append(A, [make_event(f"event {number:02d}", "s", timestamp=START_MS + number)])
    world.end(A)
    world.clock.advance(1300)
    reading = reader(world, world.sidecars(parts), 50)  # five events a piece
    found = [*reading.fetch().events]
    with patch.object(bundling, "MAX_SIDECARS", 7):
        assert parts.bundler.bundle(A, Deadline(world.clock)) == bundling.Bundled(20, 3)
    found += rest(reading)
    assert [each.parsed.message for each in found] == [f"event {number:02d}" for number in range(20)]
    assert {each.context.step for each in found if each.context} == {"s"}

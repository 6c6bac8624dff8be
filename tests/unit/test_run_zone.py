"""The zone of a run: settled by its first segment or its start, and read wherever its lines have times without one."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count

import pytest

from chalicelib.errors import InvalidInputError, OtherZoneError, UnavailableError
from chalicelib.lines.time_search import first_and_last_ms
from chalicelib.ports import LINES, Run
from chalicelib.runlog.artifact import find_artifact
from chalicelib.runlog.attempts import Attempt, Attempts, StartRequest
from chalicelib.runlog.batch import Batch
from chalicelib.runlog.log_end import delete_all, list_all
from chalicelib.runlog.reader import PageRequest
from chalicelib.runlog.writer import Appended
from chalicelib.runlog.zone import MAX_ZONE_CHARS, checked_zone, tz_of
from tests.faults.interception import FAULTS, Crash, Intercepted, StopAt
from tests.faults.stepping import Actor
from tests.support.segment_index import InMemorySegmentIndex
from tests.world import RUN, START_MS, World

BERLIN, LINE = "Europe/Berlin", "2026-09-21 14:13:20 INFO one\n"
"""A line of the time at which the world begins, in UTC."""
HOUR_MS = 3_600_000


def batch(zone: str = "", text: str = LINE) -> Batch:
    return replace(Batch.from_text(text), zone=zone)


def append(world: World, zone: str = "", position: str | None = None, run: Run = RUN, text: str = LINE) -> Appended:
    return world.parts().writer.append(run, batch(zone, text), position=position)


def start(world: World, start_id: str, zone: str = "", *, is_joining: bool = False) -> Attempt:
    request = StartRequest(start_id, is_joining=is_joining, zone=zone)
    return Attempts(world.store, world.layout, world.parts().writer, world.clock).start(RUN, request)


def zone_of_next_line(world: World, run: Run = RUN) -> str:
    entry = append(world, run=run).entry
    assert entry
    return entry.zone


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).astimezone(UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("zone", "line", "at"),
    [
        ("", "2026-03-28 12:00:00 INFO x", "2026-03-28T12:00Z"),
        ("UTC", "2026-03-28 12:00:00 INFO x", "2026-03-28T12:00Z"),
        ("-03:30", "2026-03-28 12:00:00 INFO x", "2026-03-28T15:30Z"),
        (BERLIN, "2026-03-28 12:00:00 INFO x", "2026-03-28T11:00Z"),
        (BERLIN, "2026-03-30 12:00:00 INFO x", "2026-03-30T10:00Z"),
        (BERLIN, "2026-03-29 02:30:00 INFO in the hour that is left out", "2026-03-29T01:30Z"),
        (BERLIN, "2026-10-25 02:30:00 INFO in the hour that comes twice", "2026-10-25T00:30Z"),
        (BERLIN, "2026-03-30 12:00:00+05:00 INFO with its own", "2026-03-30T07:00Z"),
        ("America/New_York", "2026-03-28 12:00:00 INFO x", "2026-03-28T16:00Z"),
        ("Asia/Kolkata", '{"time": "2026-03-28T12:00:00", "msg": "x"}', "2026-03-28T06:30Z"),
    ],
)
def test_times_without_zone_have_that_of_the_run(zone: str, line: str, at: str) -> None:
    appended_ms = ms("2026-12-01T00:00Z")
    assert first_and_last_ms(line.encode(), appended_ms, tz_of(zone)) == (ms(at), ms(at))


@pytest.mark.parametrize("zone", [" Europe/Berlin ", "+01", "-0330", "UTC", "America/Argentina/Buenos_Aires"])
def test_names_and_offsets_are_zones(zone: str) -> None:
    assert checked_zone(zone) == zone.strip()


@pytest.mark.parametrize(
    "zone",
    ["Europe/Berlín", "Mars/Base", "+25:00", "+01:60", "../etc/passwd", "/etc/localtime", "x\n", "", "A" * (MAX_ZONE_CHARS + 1)],
)
def test_unknown_zone_is_refused(zone: str) -> None:
    with pytest.raises(InvalidInputError, match="unknown zone"):
        checked_zone(zone)


@pytest.mark.parametrize(
    ("first", "second", "known"),
    [
        (BERLIN, BERLIN, BERLIN),
        (BERLIN, "", BERLIN),
        ("", "", ""),
        (BERLIN, "UTC", None),
        ("", BERLIN, None),
        ("", "UTC", None),  # a default of a reader does not apply to a run that states UTC
    ],
)
@pytest.mark.parametrize("is_warm", [True, False])
def test_first_batch_settles_the_zone(first: str, second: str, known: str | None, is_warm: bool) -> None:
    world = World()
    position = append(world, first).position
    if known is None:
        with pytest.raises(OtherZoneError, match="the zone of a run cannot change"):
            append(world, second, position if is_warm else None)
        assert world.read_all() == [LINE.strip()]
        return
    appended = append(world, second, position if is_warm else None)
    assert appended.entry and appended.entry.zone == known
    assert zone_of_next_line(world) == known


@pytest.mark.parametrize("age_s", [0, 61, 7200])
def test_session_keeps_the_zone_that_it_began_with(age_s: int) -> None:
    world = World()
    position = world.parts().writer.append(RUN, replace(Batch.from_bytes(b""), zone=BERLIN)).position
    world.clock.advance(age_s)
    entry = append(world, "", position).entry
    assert entry and entry.zone == zone_of_next_line(world) == BERLIN
    with pytest.raises(OtherZoneError):
        world.parts().writer.append(RUN, replace(Batch.from_bytes(b""), zone="UTC"))


def test_zone_costs_no_request() -> None:
    counts = []
    for zone in ("", BERLIN):
        world, steps = World(), count()
        store = Intercepted(world.store, lambda _, call, steps=steps: (next(steps), call())[1])
        writer = world.parts(store).writer
        position = writer.append(RUN, batch(zone)).position
        writer.append(RUN, batch(zone), position=position)
        writer.append(RUN, batch())
        counts.append(next(steps))
    assert counts[0] == counts[1]


@pytest.mark.parametrize("steps", range(6))
def test_one_of_two_zones_wins_the_race(steps: int) -> None:
    world = World()
    first = Actor("first", lambda wrap: world.parts(wrap(world.store)).writer.append(RUN, batch(BERLIN)))
    second = Actor("second", lambda wrap: world.parts(wrap(world.store)).writer.append(RUN, batch("+09:00", LINE * 2)))
    for _ in range(steps):
        if not first.done:
            first.step()
    second.finish()
    first.finish()
    (winner,) = [each for each in (first, second) if each.error is None]
    (loser,) = [each for each in (first, second) if each.error]
    assert isinstance(loser.error, OtherZoneError)
    assert zone_of_next_line(world) == winner.result.entry.zone
    assert len(world.read_all()) == winner.result.entry.lines + 1


@pytest.mark.parametrize(("moment", "how"), FAULTS)
def test_repeated_batch_with_zone_is_stored_once(moment: str, how: str) -> None:
    for at in count():
        world = World()
        position = world.parts().writer.append(RUN, Batch.from_bytes(b"")).position
        stop = StopAt(at, moment, how)
        with suppress(Crash, UnavailableError):
            world.parts(Intercepted(world.store, stop)).writer.append(RUN, batch(BERLIN), position=position)
        assert append(world, BERLIN, position).entry
        assert world.read_all() == [LINE.strip()] and zone_of_next_line(world) == BERLIN
        if not stop.fired:
            return


def test_every_object_of_a_run_has_its_zone() -> None:
    world = World()
    append(world, BERLIN)
    append(world)
    parts = world.parts()
    parts.compactor.compact(RUN, world.deadline())
    partial = find_artifact(world.store, world.layout.partial(RUN))
    assert partial and partial.zone == BERLIN
    world.clock.advance(21 * 60)
    parts.compactor.compact(RUN, world.deadline())
    assert [each.zone for each in world.retired_entries()] == [BERLIN]
    segments = [each.key for each in list_all(world.store, world.layout.segments(RUN))]
    delete_all(world.store, segments)  # expired
    world.index = InMemorySegmentIndex()
    assert zone_of_next_line(world) == BERLIN
    parts = world.parts()
    parts.finalizer.close(RUN)
    logs = find_artifact(world.store, world.layout.logs(RUN))
    assert logs and logs.zone == BERLIN
    assert parts.reader.read_end(RUN, 100).end.zone == BERLIN


@pytest.mark.parametrize(
    ("steps", "zone", "known"),
    [
        (["start "], BERLIN, BERLIN),
        (["start " + BERLIN], "", BERLIN),
        (["start " + BERLIN], BERLIN, BERLIN),
        (["start " + BERLIN], "+09:00", None),
        (["start "], "", ""),
        (["write ", "join "], "", ""),
        (["write " + BERLIN, "join "], "", BERLIN),
        (["write " + BERLIN, "join " + BERLIN], "", BERLIN),
        (["write ", "join " + BERLIN], "", None),
        (["write ", "start " + BERLIN], "", None),
        (["write " + BERLIN, "start " + BERLIN], "", BERLIN),
        (["start " + BERLIN, "join +09:00"], "", None),
        (["start " + BERLIN, "join "], "", BERLIN),
        (["start ", "join " + BERLIN], "", BERLIN),
    ],
)
def test_start_states_the_zone_of_its_attempt(steps: list[str], zone: str, known: str | None) -> None:
    world, position = World(), None

    def take() -> str:
        nonlocal position
        for each in steps:
            action, stated = each.split(" ")
            if action == "write":
                append(world, stated)
            else:
                position = start(world, each, stated, is_joining=action == "join").position
        return next(entry.zone for each in (append(world, zone, position),) if (entry := each.entry))

    if known is None:
        with pytest.raises(OtherZoneError):
            take()
        return
    assert take() == zone_of_next_line(world) == known


def test_writer_without_a_position_finds_the_zone_of_the_start() -> None:
    world = World()
    start(world, "a", BERLIN)
    assert zone_of_next_line(world) == BERLIN


def test_attempts_have_zones_of_their_own() -> None:
    world = World()
    start(world, "a", BERLIN)
    second = start(world, "b", "+09:00")
    assert second.run != RUN and append(world, "", second.position, second.run).entry
    assert (zone_of_next_line(world), zone_of_next_line(world, second.run)) == (BERLIN, "+09:00")
    assert start(world, "b", "+09:00").run == second.run


def test_start_of_a_run_with_another_zone_stores_nothing() -> None:
    world = World()
    append(world)
    before = world.names()
    with pytest.raises(OtherZoneError):
        start(world, "a", BERLIN)
    assert world.names() == before
    assert start(world, "a").run == RUN


def test_lines_since_a_time_in_the_zone_of_the_run() -> None:
    world = World()
    text = "".join(f"2026-09-21 {hour:02}:13:20 INFO {hour}\n" for hour in range(10, 18))
    world.clock.advance(2 * HOUR_MS // 1000)
    entry = append(world, BERLIN, text=text).entry
    assert entry and entry.time_range_ms == (START_MS - 6 * HOUR_MS, START_MS + HOUR_MS)
    world.index.put(RUN, [entry])
    page = world.parts().reader.page(RUN, PageRequest(since_ms=START_MS, clock=LINES))
    assert page.logs.startswith("2026-09-21 16:13:20")

"""One run as events: complete, the same from any position, bounded."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chalicelib.errors import StoreUnavailableError
from chalicelib.events.sidecar import Sidecar, SidecarEntry
from chalicelib.events.sidecar_bundle import SidecarGroup, group_sidecars
from chalicelib.lines.events import events
from chalicelib.lines.format_detection import detect_format
from chalicelib.lines.formats import PLAIN
from chalicelib.pipelines import run_event_reader as feeds
from chalicelib.pipelines.rows import EventPosition
from chalicelib.pipelines.run_event_reader import RunEventReader
from chalicelib.ports import Run
from chalicelib.runlog.log_end import LogEnd
from chalicelib.runlog.reader import LogRange
from tests.pipelines_harness import START_MS, PipelinesHarness, line

A = Run("svc.a", "r1")
LINES = [
    line(START_MS, "begins", "ERROR"),
    "Traceback (most recent call last):",
    '  File "x.py", line 1, in f',
    "ValueError: no",
    line(START_MS + 5, "goes on", "WARNING"),
    "    indented",
    line(START_MS + 9, "ends"),
]


class Text:
    """A log with bytes of the test."""

    def __init__(self, body: bytes, *, sealed: bool = True, appended_ms: int = START_MS, zone: str = "") -> None:
        self.body, self.sealed, self.appended_ms, self.longest, self.zone = body, sealed, appended_ms, 0, zone

    def read_range(self, run: Run, start: int, length: int) -> LogRange:
        self.longest = max(self.longest, length)
        seal = "closed" if self.sealed else ""
        end = LogEnd(1, self.body.count(b"\n"), len(self.body), seal=seal, appended_ms=self.appended_ms, zone=self.zone)
        return LogRange(self.body[start : start + length], end)


def feed(text: Text, place: EventPosition | None = None, fetch_bytes: int = 1024, now_ms: int = START_MS) -> RunEventReader:
    world = PipelinesHarness()
    world.clock.advance((now_ms - START_MS) / 1000)
    return RunEventReader(
        text, A, place or EventPosition(0, 0, START_MS), "", fetch_bytes=fetch_bytes, patience_ms=2000, clock=world.clock
    )


def all_of(reading: RunEventReader) -> list[tuple[int, str]]:
    found = []
    for _ in range(10_000):
        fetched = reading.fetch()
        found += [(each.line, each.parsed.message) for each in fetched.events]
        if fetched.at_end:
            return found
    raise AssertionError("no end")


def expected(body: bytes) -> list[tuple[int, str]]:
    lines = body.removesuffix(b"\n").split(b"\n")
    return [(each.line, each.parsed.message) for each in events(enumerate(lines), detect_format(lines))]


def test_a_run_gives_the_events_of_its_lines() -> None:
    body = ("\n".join(LINES) + "\n").encode()
    assert all_of(feed(Text(body))) == expected(body)
    assert len(expected(body)) == 3


@settings(deadline=None)
@given(st.lists(st.sampled_from(LINES), min_size=1, max_size=60), st.integers(40, 400))
def test_pieces_of_any_size_give_the_same_events(lines: list[str], fetch_bytes: int) -> None:
    body = ("\n".join([LINES[0], *lines]) + "\n").encode()
    reading = feed(Text(body), fetch_bytes=fetch_bytes)
    reading.format = detect_format(body.split(b"\n")).name
    assert all_of(reading) == expected(body)
    assert reading.position.byte == len(body)


def test_reading_goes_on_from_any_place_with_the_same_format() -> None:
    body = ("\n".join(LINES * 50) + "\n").encode()
    whole = all_of(feed(Text(body)))
    reading = feed(Text(body), fetch_bytes=500)
    places = [reading.position]
    while not reading.fetch().at_end:
        places.append(reading.position)
    for place in places:
        assert all_of(feed(Text(body), place)) == [each for each in whole if each[0] >= place.line]


def test_the_last_event_of_a_run_that_goes_on_waits_for_what_may_follow() -> None:
    body = ("\n".join(LINES[:2]) + "\n").encode()
    assert all_of(feed(Text(body, sealed=False))) == []
    late = feed(Text(body, sealed=False), now_ms=START_MS + 2000)
    assert [at for at, _ in all_of(late)] == [0]
    assert [at for at, _ in all_of(feed(Text(body)))] == [0]


@pytest.mark.parametrize(("zone", "ahead_ms"), [("", 0), ("Asia/Tokyo", 9 * 3_600_000), ("-02:00", -2 * 3_600_000)])
def test_times_are_in_the_zone_of_the_run(zone: str, ahead_ms: int) -> None:
    body = b"2026-09-21 14:13:20 INFO one\n2026-09-21 14:13:20+00:00 INFO two\n"
    found = feed(Text(body, zone=zone)).fetch().events
    assert [each.time_ms for each in found] == [START_MS - ahead_ms, START_MS]


def test_a_line_without_a_time_has_that_of_the_one_before() -> None:
    body = f"plain before\n{LINES[0]}\nplain behind\n".encode()
    found = feed(Text(body), EventPosition(0, 0, 17)).fetch().events
    assert [each.time_ms for each in found] == [17, START_MS, START_MS]


def test_an_event_from_the_future_counts_as_one_of_now_where_the_run_goes_on() -> None:
    body = (line(START_MS + 60_000, "too early") + "\n").encode()
    [found] = feed(Text(body, sealed=False, appended_ms=START_MS - 5000)).fetch().events
    assert (found.order_ms, found.time_ms) == (START_MS, START_MS + 60_000)
    [found] = feed(Text(body)).fetch().events
    assert found.order_ms == START_MS + 60_000


def test_a_line_longer_than_the_longest_piece_is_cut_and_the_next_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "MAX_PIECE_BYTES", 4096)
    body = b"short\n" + b"x" * 20_000 + b"\nbehind\n"
    text = Text(body)
    reading = feed(text, fetch_bytes=1024)
    reading.format = PLAIN.name
    found = all_of(reading)
    assert [(at, len(raw)) for at, raw in found] == [(0, 5), (1, 4096), (2, 6)]
    assert text.longest == 4096


class FailsOnce(Text):
    """A log whose nth read fails, once."""

    def __init__(self, body: bytes, number: int) -> None:
        super().__init__(body)
        self.reads, self.number = 0, number

    def read_range(self, run: Run, start: int, length: int) -> LogRange:
        self.reads += 1
        assert self.reads < 1000, "it reads on without a pause"
        if self.reads == self.number:
            raise StoreUnavailableError("throttled")
        return super().read_range(run, start, length)


def read_with_retries(text: Text) -> list[tuple[int, int]]:
    reading = feed(text, fetch_bytes=1024)
    reading.format = PLAIN.name
    events: list[tuple[int, int]] = []
    for _ in range(100):
        try:
            fetched = reading.fetch()
        except StoreUnavailableError:
            continue
        events += [(each.line, len(each.parsed.message)) for each in fetched.events]
        if fetched.at_end:
            assert reading.position == EventPosition(len(events), len(text.body), START_MS)
            return events
    raise AssertionError("no end")


def test_failed_read_after_overlong_line_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "MAX_PIECE_BYTES", 4096)
    body = b"short\n" + b"x" * 20_000 + b"\nbehind\n" + b"y" * 9000 + b"\nlast\n"
    expected = [(0, 5), (1, 4096), (2, 6), (3, 4096), (4, 4)]
    undisturbed = FailsOnce(body, 0)
    assert read_with_retries(undisturbed) == expected
    assert undisturbed.reads > 8
    for number in range(1, undisturbed.reads + 1):
        assert read_with_retries(FailsOnce(body, number)) == expected, f"read {number} fails"


class UnderWay:
    """The ``SidecarReader`` of a run in which a batch of events is being written from a line on."""

    def __init__(self, line: int | None) -> None:
        self.line = line

    def groups(self, run: Run, first: int) -> Iterator[SidecarGroup]:
        return iter(())

    def sidecars(self, run: Run, groups: list[SidecarGroup]) -> list[tuple[int, Sidecar | None]]:
        return []

    def number_at(self, run: Run, line: int) -> int:
        return 0

    def first_unsettled_line(self, run: Run, appended_ms: int) -> int | None:
        return self.line


@pytest.mark.parametrize("lines", [10, 100, 2000])
@pytest.mark.parametrize("first", [0, 3])
def test_batch_under_way_ends_a_piece_after_bounded_reads(monkeypatch: pytest.MonkeyPatch, lines: int, first: int) -> None:
    monkeypatch.setattr(feeds, "MAX_PIECE_BYTES", 4096)
    text = FailsOnce(b"a line of the log\n" * lines, 0)
    text.sealed = False
    under_way, clock = UnderWay(first), PipelinesHarness().clock
    clock.advance(3)
    reading = RunEventReader(
        text, A, EventPosition(0, 0, START_MS), PLAIN.name, fetch_bytes=1024, patience_ms=2000, clock=clock, sidecars=under_way
    )
    events = [each.line for _ in range(2) for each in reading.fetch().events]
    assert events == list(range(first))
    assert text.reads <= 10
    fetched = reading.fetch()
    assert (fetched.at_end, fetched.final, list(fetched.events)) == (True, False, [])
    under_way.line = None
    text.sealed = True
    assert [at for at, _ in all_of(reading)] == list(range(first, lines))


def test_overlong_line_of_a_batch_under_way_is_not_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "MAX_PIECE_BYTES", 4096)
    under_way = UnderWay(0)
    text = Text(b"x" * 9000 + b"\nbehind\n", sealed=False)
    reading = RunEventReader(
        text,
        A,
        EventPosition(0, 0, START_MS),
        PLAIN.name,
        fetch_bytes=1024,
        patience_ms=2000,
        clock=PipelinesHarness().clock,
        sidecars=under_way,
    )
    assert reading.fetch().at_end
    assert reading.position == EventPosition(0, 0, START_MS)
    under_way.line, text.sealed = None, True
    assert [(at, len(message)) for at, message in all_of(reading)] == [(0, 4096), (1, 6)]


class Damaged(UnderWay):
    """A sidecar whose event has more lines than the log."""

    def groups(self, run: Run, first: int) -> Iterator[SidecarGroup]:
        return group_sidecars(range(first, 1), ())

    def sidecars(self, run: Run, groups: list[SidecarGroup]) -> list[tuple[int, Sidecar | None]]:
        noted = SidecarEntry(line=1, byte=6, lines=3, bytes=30, timestamp=START_MS)
        return [(0, Sidecar(0, 1, 6, 3, 30, "", "", START_MS, [noted])) for _ in groups]


def test_sidecar_beyond_the_end_of_a_finished_log_leaves_plain_lines() -> None:
    text = FailsOnce(b"first\nsecond\nthird\n", 0)
    clock = PipelinesHarness().clock
    reading = RunEventReader(
        text, A, EventPosition(0, 0, START_MS), PLAIN.name, fetch_bytes=1024, patience_ms=2000, clock=clock, sidecars=Damaged(None)
    )
    assert all_of(reading) == [(0, "first"), (1, "second"), (2, "third")]
    assert reading.position.byte == len(text.body)


def test_piece_is_limited_by_max_bytes() -> None:
    text = Text(("\n".join(LINES * 500) + "\n").encode())
    reading = feed(text, fetch_bytes=2048)
    reading.format = detect_format(text.body.split(b"\n")).name
    all_of(reading)
    assert text.longest == 2048


@pytest.mark.parametrize("state", ["segments", "compacted", "finalized"])
def test_it_is_the_same_wherever_the_bytes_lie(state: str) -> None:
    world = PipelinesHarness()
    for number in range(20):
        world.write(A, [line(START_MS + number, f"line {number}")])
    if state == "compacted":
        world.parts().compactor.compact(A, world.deadline())
    if state == "finalized":
        world.end(A)
    world.clock.advance(10)
    reading = RunEventReader(world.parts().reader, A, EventPosition(), "", fetch_bytes=1024, patience_ms=2000, clock=world.clock)
    assert [at for at, _ in all_of(reading)] == list(range(20))

"""Histogram of a run's lines over time: every line in one bucket, at a bounded cost; and the definition of an error."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chalicelib.aws.segment_index import entry_of_row, segment_rows
from chalicelib.lines.events import events
from chalicelib.lines.formats import ANY
from chalicelib.lines.levels import is_error
from chalicelib.lines.text import number_lines
from chalicelib.ports import ARRIVAL, LINES, SegmentEntry
from chalicelib.runlog.batch import Batch
from chalicelib.runlog.histogram import MAX_ROWS, SAMPLES, Bucket, Histogram, histogram
from chalicelib.runlog.segment import DATA, SEAL, entry_of, errors_of, metadata_of
from tests.sampling import examples
from tests.support.segment_index import InMemorySegmentIndex
from tests.unit.test_request_budgets import Counted
from tests.world import RUN, World

START_MS = 1_000_000


def rows(*each: tuple[int, int, int | None], first: int = 0) -> list[SegmentEntry]:
    """Segments from (ms after the start, lines, errors)."""
    made, line = [], first
    for number, (at_ms, lines, errors) in enumerate(each):
        made.append(SegmentEntry(number, DATA, 1, line, line, lines, lines, "s", 0, "d", START_MS + at_ms, errors=errors))
        line += lines
    return made


def timed(*each: tuple[int, tuple[int, int] | None, int]) -> list[SegmentEntry]:
    """Segments from (arrival in ms after the start, times of the lines likewise, lines)."""
    found = rows(*((at_ms, lines, 0) for at_ms, _, lines in each))
    own = [None if times is None else (START_MS + times[0], START_MS + times[1]) for _, times, _ in each]
    return [replace(row, first_ms=times and times[0], last_ms=times and times[1]) for row, times in zip(found, own, strict=True)]


def of(entries: list[SegmentEntry], buckets: int) -> Histogram:
    index = InMemorySegmentIndex()
    index.put(RUN, entries)
    return histogram(index, RUN, buckets)


def test_lines_and_errors_by_time() -> None:
    found = of(rows((0, 5, 1), (10, 2, 0), (59, 3, None), (99, 1, 0)), 4)
    assert found == Histogram(
        [
            Bucket(START_MS, START_MS + 25, 0, 7, 1),
            Bucket(START_MS + 25, START_MS + 50, 7, 0, 0),
            Bucket(START_MS + 50, START_MS + 75, 7, 3, None),
            Bucket(START_MS + 75, START_MS + 100, 10, 1, 0),
        ]
    )


@pytest.mark.parametrize(
    ("segments", "clock", "lines"),
    [
        ([(1000, (0, 39), 40), (1001, (40, 79), 40)], LINES, [20, 20, 20, 20]),  # stored long after
        ([(0, (3600, 3619), 1), (20, (3620, 3639), 1)], LINES, [0, 1, 0, 1]),  # an hour off: only lines within the histogram
        ([(0, (0, 0), 5), (40, None, 2), (79, (79, 79), 5)], LINES, [5, 0, 2, 5]),  # none of its own: as long behind as it came
        ([(0, None, 2), (40, (1040, 1040), 5), (79, (1079, 1079), 5)], LINES, [2, 0, 5, 5]),
        ([(0, (50, 79), 8), (1, (0, 0), 8)], LINES, [2, 2, 2, 10]),  # no earlier than the lines before
        ([(0, None, 5), (79, (1000, 1000), 5)], ARRIVAL, [5, 0, 0, 5]),  # most must know theirs
    ],
)
def test_times_of_the_lines(segments: list[tuple[int, tuple[int, int] | None, int]], clock: str, lines: list[int]) -> None:
    found = of(timed(*segments), 4)
    assert (found.clock, [each.lines for each in found.buckets]) == (clock, lines)
    assert not found.is_partial and all(each.errors == 0 for each in found.buckets)


_DAY, _YEARS = 86_400_000, 7 * 365 * 86_400_000


@pytest.mark.parametrize("own", [(-_YEARS, -_YEARS), (-2 * _DAY, 50), (20, -_YEARS), (40, _DAY), (_DAY, _DAY)], ids=str)
@pytest.mark.parametrize("at", range(4))
def test_one_segment_whose_lines_state_another_date(own: tuple[int, int], at: int) -> None:
    segments: list[tuple[int, tuple[int, int] | None, int]] = [(each, (each, each), 2) for each in (0, 26, 52, 79)]
    segments[at] = (segments[at][0], own, 2)
    found = of(timed(*segments), 4)
    assert (found.clock, [each.lines for each in found.buckets]) == (LINES, [2, 2, 2, 2])


@pytest.mark.parametrize(
    ("segments", "lines"),
    [
        ([(10 * _DAY, (0, 4 * _DAY - 1), 4)], [1, 1, 1, 1]),  # days are stored at once, in one segment
        ([(10 * _DAY + each, (each * _DAY, (each + 1) * _DAY - 1), 1) for each in range(8)], [2, 2, 2, 2]),  # or in several
        ([(72_000_000, (0, 17_999_999), 1), *((at, (at, at), 1) for at in (72_000_000, 71_999_999))], [1, 0, 0, 2]),  # an outage
        ([(0, (_DAY // 2, _DAY // 2), 1), (79, (_DAY // 2 + 79, _DAY // 2 + 79), 1)], [1, 0, 0, 1]),  # a zone that is not named
    ],
)  # fmt: skip
def test_plausible_late_and_early_times_count(segments: list[tuple[int, tuple[int, int] | None, int]], lines: list[int]) -> None:
    found = of(timed(*segments), 4)
    assert (found.clock, [each.lines for each in found.buckets]) == (LINES, lines)


def test_errors_are_spread_as_the_lines_are() -> None:
    (row,) = timed((0, (0, 79), 80))
    assert [each.errors for each in of([replace(row, errors=8)], 4).buckets] == [2, 2, 2, 2]


def test_single_moment_is_one_bucket_and_unknown_run_has_none() -> None:
    assert of(rows((0, 5, 0)), 60).buckets == [Bucket(START_MS, START_MS + 1, 0, 5, 0)]
    assert of([], 60) == Histogram()


def test_seal_is_no_line_and_missing_lines_are_reported() -> None:
    seal = SegmentEntry(1, SEAL, 1, 5, 5, 0, 0, "s", 0, "", START_MS + 10**9, reason="closed")
    assert of([*rows((0, 5, 0)), seal], 60) == Histogram([Bucket(START_MS, START_MS + 1, 0, 5, 0)])
    assert of(rows((0, 5, 0), first=7), 60).is_partial


@settings(max_examples=examples(200), deadline=None)
@given(
    given_rows=st.lists(st.tuples(st.integers(-5, 500), st.integers(1, 9), st.none() | st.integers(0, 3)), min_size=1, max_size=30),
    buckets=st.integers(1, 40),
)
def test_every_line_is_in_one_bucket(given_rows: list[tuple[int, int, int | None]], buckets: int) -> None:
    found = of(rows(*given_rows), buckets)
    assert len(found.buckets) <= buckets and not found.is_partial
    assert sum(each.lines for each in found.buckets) == sum(lines for _, lines, _ in given_rows)
    line = 0
    for each, following in zip(found.buckets, [*found.buckets[1:], None], strict=True):
        assert each.line == line and each.from_ms < each.to_ms
        assert following is None or following.from_ms == each.to_ms
        line += each.lines
    counted = [errors for _, _, errors in given_rows]
    if None not in counted:
        assert sum(each.errors or 0 for each in found.buckets) == sum(errors or 0 for errors in counted)


def test_a_run_of_very_many_segments_is_sampled() -> None:
    counted = Counted()
    counted.world.index.put(RUN, rows(*((number * 10, 3, 1) for number in range(MAX_ROWS + 5000))))
    index = counted.parts.writer.tails.index
    found = Histogram()

    def ask() -> None:
        nonlocal found
        found = histogram(index, RUN, 10)

    _, queries = counted.cost(ask)
    assert queries <= SAMPLES + 2
    assert found.is_partial and len(found.buckets) == 10
    assert sum(each.lines for each in found.buckets) == 3 * (MAX_ROWS + 5000)
    assert all(4400 <= each.lines <= 4600 and each.errors is None for each in found.buckets)


@pytest.mark.parametrize(
    ("line", "is_error"),
    [
        ("2026-11-21 03:12:45 ERROR it broke", True),
        ("02:00:04  1 of 3 ERROR creating sql table model shop.orders", True),
        ("E1121 03:12:45.123456    1234 controller.go:12] it broke", True),
        ("<11>Nov 21 03:12:45 host app: it broke", True),
        ("<139>Nov 21 03:12:45 host app: it broke", True),
        ("<12>Nov 21 03:12:45 host app: it is late", False),
        ("<134>Nov 21 03:12:45 host app: it is done", False),
        ('{"level":50,"time":1795231965000,"msg":"it broke"}', True),
        ("[2026-11-21 03:12:45] [error] it broke", True),
        ("2026-11-21 03:12:45 INFO 0 ERROR records", False),
        ('{"level": "info", "error": "level=error"}', False),
        ("a list of ERROR codes", False),
        ("[FATAL] gone", True),
        ("CRITICAL:root:x", True),
        ("SEVERE: x", True),
        ('{"level": "error", "message": "x"}', True),
        ('{"severity":"critical"}', True),
        ("ts=1 level=error msg=x", True),
        ("INFO no error", False),
        ("0 ERRORS", False),
        ('{"error": null, "level": "info"}', False),
        ("terror", False),
        ("", False),
    ],
)
def test_definition_of_an_error(line: str, is_error: bool) -> None:
    assert errors_of(f"{line}\nbehind\n".encode()) == is_error
    assert errors_of(f"{line}\n{line}".encode()) == 2 * is_error


_TRACE = 'Traceback (most recent call last):\n  File "a.py", line 1\nValueError: x'
_STACK = "java.io.IOException: x\n\tat a.B.c(D.java:1)\nCaused by: a.b.E: y\n\tat a.B.c(D.java:1)"


@pytest.mark.parametrize(
    "trace", [_TRACE, f"{_TRACE}\n\nDuring handling of the above exception, another exception occurred:\n\n{_TRACE}", _STACK]
)
@pytest.mark.parametrize(
    ("before", "errors"),
    [("2026-11-21 03:12:45 INFO a", 1), ("2026-11-21 03:12:45 ERROR a", 1), ("2026-11-21 03:12:45 WARNING a\n  more", 1), ("said", 1),
     ("03:12:45 ERROR a\n  more", 1)],
)  # fmt: skip
def test_errors_of_traces(before: str, errors: int, trace: str) -> None:
    """One record each, whether it is a trace or contains one; a segment that begins with a trace cannot decide, and counts it."""
    assert errors_of(f"{before}\n{trace}\n".encode()) == errors
    assert errors_of(f"{before}\n{trace}\n2026-11-21 03:12:46 INFO b\n{before}\n{trace}".encode()) == 2 * errors
    assert errors_of(f"{trace}\n".encode()) == 1


PIECES = st.sampled_from(
    [
        "2026-11-21 03:12:45 INFO a",
        "2026-11-21 03:12:45 ERROR a",
        "INFO:a:b",
        "said",
        "  more",
        "",
        *_TRACE.split("\n"),
        *_STACK.split("\n"),
    ]
)


@settings(deadline=None, max_examples=examples(200))
@given(st.lists(PIECES, max_size=20))
def test_errors_of_a_segment_are_those_of_its_events(lines: list[str]) -> None:
    body = "\n".join(lines).encode()
    records = events(number_lines([body]), ANY)
    assert errors_of(body) == sum(is_error(record.parsed.level) for record in records)


def test_error_count_is_in_metadata_row_and_retired_entry() -> None:
    world = World()
    parts = world.parts()
    for _ in range(3):
        parts.writer.append(RUN, Batch.from_text("fine\nERROR\nlevel=fatal\n"))
    parts.writer.append(RUN, Batch.from_text("fine\n"))
    entries = [parts.writer.tails.segment(RUN, number) for number in range(4)]
    assert [entry.errors for entry in entries] == [2, 2, 2, 0]
    for entry in entries:
        assert entry_of(entry.sequence, metadata_of(entry), entry.bytes) == entry
        assert entry_of_row(segment_rows(RUN, entry, 60)[0]) == entry
    parts.compactor.compact(RUN, world.deadline())
    world.clock.advance(21 * 60)
    parts.compactor.compact(RUN, world.deadline())
    assert [entry.errors for entry in world.retired_entries()] == [2, 2, 2]


def test_segment_without_a_count_of_errors_has_none() -> None:
    metadata = {
        "kind": DATA, "epoch": "1", "first-line": "0", "first-byte": "0", "lines": "1", "session": "s", "base": "0", "digest": "d",
        "appended-ms": "5",
    }  # fmt: skip
    entry = entry_of(0, metadata, 3)
    assert entry.errors is None and metadata_of(entry) == metadata
    assert "errors" not in segment_rows(RUN, entry, 60)[0]

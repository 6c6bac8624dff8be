"""Histogram of a run's lines over time: counts in equal intervals, from the catalog's rows of its segments. The log itself is not read.

Times are those in the lines, if most lines are in segments with times, else the arrival times by the writers' clocks. Times are ignored if
the segment arrived much later or sooner after them than most do (``delays``). A segment without times has the time of the one before plus the
time between their arrivals. If clocks differ, a line is not earlier than the lines before it. Lines are spread evenly between the first and
the last time of their segment. Of a run with very many segments, rows are sampled, and lines are spread evenly between two of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise

from chalicelib.ports import ARRIVAL, LINES, Run, SegmentEntry, SegmentIndex
from chalicelib.runlog.delays import ArrivalDelays
from chalicelib.runlog.segment import DATA

MAX_ROWS = 10_000
"""Above this number of segments, ``SAMPLES`` rows are read with a query each; else all rows, 1 MB per query."""
SAMPLES = 200
_THREADS = 8


@dataclass(frozen=True, slots=True)
class Bucket:
    """Lines in [``from_ms``, ``to_ms``). ``line``: the first of them, also if there are none. ``errors``: number of error records; None if they
    were not counted."""

    from_ms: int
    to_ms: int
    line: int
    lines: int
    errors: int | None


@dataclass(frozen=True, slots=True)
class Histogram:
    """``is_partial``: lines are missing (not catalogued yet, or stored by OpenMetadata), or estimated from samples. ``clock``: the source of the
    times, ``LINES`` or ``ARRIVAL``."""

    buckets: Sequence[Bucket] = ()
    is_partial: bool = False
    clock: str = ARRIVAL


@dataclass(frozen=True, slots=True)
class _Span:
    """``lines`` lines from ``line`` on between two moments."""

    from_ms: int
    to_ms: int
    line: int
    lines: int
    errors: int | None


def histogram(index: SegmentIndex, run: Run, buckets: int) -> Histogram:
    """At most ``buckets`` buckets, of equal length except the last; none for an unknown run. Raises UnavailableError."""
    last = index.last(run)
    if last is None or not last.end_line:
        return Histogram()
    is_sampled = last.sequence >= MAX_ROWS
    rows = _sampled(index, run, last.end_line) if is_sampled else _all(index, run)
    rows = _believed(rows)
    clock = _clock_of(rows)
    spans = list(_between(rows, clock, last.end_line) if is_sampled else _of_each(rows, clock))
    is_whole = sum(each.lines for each in spans) == last.end_line
    return Histogram(_buckets(spans, buckets), is_sampled or not is_whole, clock)


def _believed(rows: Sequence[SegmentEntry]) -> list[SegmentEntry]:
    delays = ArrivalDelays.of(rows)
    return [row if delays.trusts(row) else replace(row, first_ms=None, last_ms=None) for row in rows]


def _clock_of(rows: Sequence[SegmentEntry]) -> str:
    """The source of the times of most lines."""
    known = sum(row.lines for row in rows if row.clock == LINES)
    return LINES if 2 * known > sum(row.lines for row in rows) else ARRIVAL


def _times_ms(rows: Sequence[SegmentEntry], clock: str) -> Iterator[tuple[int, int]]:
    """The times of each row's first and last line, not decreasing."""
    first = next((row for row in rows if row.clock == clock), None)
    ahead_ms = first.time_range_ms[0] - first.appended_ms if first and clock == LINES else 0
    now_ms = 0
    for row in rows:
        is_known = clock == LINES and row.clock == LINES
        begin_ms, end_ms = row.time_range_ms if is_known else (row.appended_ms + ahead_ms,) * 2
        ahead_ms = end_ms - row.appended_ms
        begin_ms = max(now_ms, begin_ms)
        now_ms = max(begin_ms, end_ms)
        yield begin_ms, now_ms


def _all(index: SegmentIndex, run: Run) -> list[SegmentEntry]:
    rows: list[SegmentEntry] = []
    line = sequence = 0
    while page := index.rows_from(run, line, sequence, MAX_ROWS):
        rows += page
        line, sequence = page[-1].line, page[-1].sequence + 1
    return [row for row in rows if row.kind == DATA]


def _sampled(index: SegmentIndex, run: Run, total: int) -> list[SegmentEntry]:
    lines = sorted({total * sample // SAMPLES for sample in range(SAMPLES)} | {total - 1})
    with ThreadPoolExecutor(_THREADS) as threads:
        found = threads.map(lambda line: index.at_line(run, line), lines)
    by_place = {row.sequence: row for row in found if row and row.kind == DATA}
    return [by_place[sequence] for sequence in sorted(by_place)]


def _of_each(rows: Sequence[SegmentEntry], clock: str) -> Iterator[_Span]:
    for row, (begin_ms, end_ms) in zip(rows, _times_ms(rows, clock), strict=True):
        yield _Span(begin_ms, end_ms, row.line, row.lines, row.errors)


def _between(rows: Sequence[SegmentEntry], clock: str, total: int) -> Iterator[_Span]:
    times_ms = [*_times_ms(rows, clock)]
    for (row, (begin_ms, _)), (following, (next_ms, _)) in pairwise(zip(rows, times_ms, strict=True)):
        yield _Span(begin_ms, next_ms, row.line, following.line - row.line, None)
    if rows:
        yield _Span(*times_ms[-1], rows[-1].line, total - rows[-1].line, None)


def _buckets(spans: Sequence[_Span], count: int) -> list[Bucket]:
    if not spans:
        return []
    from_ms, to_ms = spans[0].from_ms, spans[-1].to_ms + 1
    width = -(-(to_ms - from_ms) // count)
    edges = [*range(from_ms, to_ms, width), to_ms]
    lines, errors = [0] * (len(edges) - 1), list[int | None]([0] * (len(edges) - 1))
    for each in spans:
        for at, share in _shares(each, each.lines, from_ms, width):
            lines[at] += share
        for at, share in _shares(each, each.errors or 0, from_ms, width):
            known = errors[at]
            errors[at] = None if known is None or each.errors is None else known + share
    line, found = spans[0].line, []
    for at, (begins_ms, ends_ms) in enumerate(pairwise(edges)):
        found.append(Bucket(begins_ms, ends_ms, line, lines[at], errors[at]))
        line += lines[at]
    return found


def _shares(each: _Span, total: int, from_ms: int, width: int) -> Iterator[tuple[int, int]]:
    """(bucket, count) of its lines, or errors, in proportion to the time; the counts sum up to ``total``."""
    first, last = (each.from_ms - from_ms) // width, (each.to_ms - from_ms) // width
    span_ms, assigned = each.to_ms - each.from_ms, 0
    for at in range(first, last):
        upto = total * (from_ms + (at + 1) * width - each.from_ms) // span_ms
        yield at, upto - assigned
        assigned = upto
    yield last, total - assigned

"""A run's lines over time: counted in equal spans, from the catalog's rows of its segments. The log itself is not read.

Times are those of the lines, if most lines stand in segments that know them, else those of arrival, by the writers' clocks. Where a segment
arrived much later after its times, or sooner, than most do, its times count as none (``delays``). Of a segment without times, time passed since
the one before as it did on arrival. Where clocks differ, a line counts as no earlier than the lines before it. Lines of a segment are spread
evenly between its first and its last time. Of a run with very many segments rows are sampled, and lines between two of them are spread evenly.
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
"""Of a run with more segments ``SAMPLES`` rows are read, each by a query; of others all, 1 MB a query."""
SAMPLES = 200
_THREADS = 8


@dataclass(frozen=True, slots=True)
class Bucket:
    """Lines of [``from_ms``, ``to_ms``). ``line``: the first of them, or that would be. ``errors``: records that are errors; None where they
    were not counted."""

    from_ms: int
    to_ms: int
    line: int
    lines: int
    errors: int | None


@dataclass(frozen=True, slots=True)
class Histogram:
    """``is_partial``: lines are missing (not catalogued yet, or OpenMetadata's own), or spread by samples. ``clock``: whose times these
    are, ``LINES`` or ``ARRIVAL``."""

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
    """At most so many buckets, of the same length but for the last; none of a run that is not known. Raises UnavailableError."""
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
    """Whose times most lines have."""
    known = sum(row.lines for row in rows if row.clock == LINES)
    return LINES if 2 * known > sum(row.lines for row in rows) else ARRIVAL


def _times_ms(rows: Sequence[SegmentEntry], clock: str) -> Iterator[tuple[int, int]]:
    """The times of each row's first and last line, none before another."""
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
    """How many of its lines, or errors, fall into which bucket: in proportion to the time, and in all ``total``."""
    first, last = (each.from_ms - from_ms) // width, (each.to_ms - from_ms) // width
    span_ms, given = each.to_ms - each.from_ms, 0
    for at in range(first, last):
        upto = total * (from_ms + (at + 1) * width - each.from_ms) // span_ms
        yield at, upto - given
        given = upto
    yield last, total - given

"""When a run's lines came: counted in equal spans of time, from the catalog's rows of its segments. The log itself is not read.

A row tells when its lines came, by its writer's clock; where several writers' clocks differ, a line counts as no earlier than the lines
before it. Of a run with very many segments rows are sampled, and lines between two of them are spread evenly.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise

from chalicelib.ports import Run, SegmentEntry, SegmentIndex
from chalicelib.runlog.segment import DATA

MAX_ROWS = 10_000
"""Of a run with more segments ``SAMPLES`` rows are read, each by a query; of others all, 1 MB a query."""
SAMPLES = 200
_THREADS = 8


@dataclass(frozen=True, slots=True)
class Bucket:
    """Lines that came in [``from_ms``, ``to_ms``). ``line``: the first of them, or that would be. ``errors``: lines that tell of errors;
    None where they were not counted."""

    from_ms: int
    to_ms: int
    line: int
    lines: int
    errors: int | None


@dataclass(frozen=True, slots=True)
class Histogram:
    """``is_partial``: lines are missing (not catalogued yet, or OpenMetadata's own), or spread by samples."""

    buckets: Sequence[Bucket] = ()
    is_partial: bool = False


@dataclass(frozen=True, slots=True)
class _Arrival:
    """``lines`` lines from ``line`` on that came between two moments."""

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
    arrivals = list(_between(rows, last.end_line)) if is_sampled else list(_of_each(rows))
    is_whole = sum(each.lines for each in arrivals) == last.end_line
    return Histogram(_buckets(arrivals, buckets), is_sampled or not is_whole)


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


def _of_each(rows: Iterable[SegmentEntry]) -> Iterator[_Arrival]:
    now_ms = 0
    for row in rows:
        now_ms = max(now_ms, row.appended_ms)
        yield _Arrival(now_ms, now_ms, row.line, row.lines, row.errors)


def _between(rows: Sequence[SegmentEntry], total: int) -> Iterator[_Arrival]:
    now_ms = rows[0].appended_ms if rows else 0
    for row, following in pairwise(rows):
        was_ms, now_ms = now_ms, max(now_ms, following.appended_ms)
        yield _Arrival(was_ms, now_ms, row.line, following.line - row.line, None)
    if rows:
        yield _Arrival(now_ms, now_ms, rows[-1].line, total - rows[-1].line, None)


def _buckets(arrivals: Sequence[_Arrival], count: int) -> list[Bucket]:
    if not arrivals:
        return []
    from_ms, to_ms = arrivals[0].from_ms, arrivals[-1].to_ms + 1
    width = -(-(to_ms - from_ms) // count)
    edges = [*range(from_ms, to_ms, width), to_ms]
    lines, errors = [0] * (len(edges) - 1), list[int | None]([0] * (len(edges) - 1))
    for each in arrivals:
        for at, share in _shares(each, from_ms, width):
            lines[at] += share
            known = errors[at]
            errors[at] = None if known is None or each.errors is None else known + each.errors
    line, found = arrivals[0].line, []
    for at, (begins_ms, ends_ms) in enumerate(pairwise(edges)):
        found.append(Bucket(begins_ms, ends_ms, line, lines[at], errors[at]))
        line += lines[at]
    return found


def _shares(each: _Arrival, from_ms: int, width: int) -> Iterator[tuple[int, int]]:
    """How many of its lines fall into which bucket: in proportion to the time, and in all as many as there are."""
    first, last = (each.from_ms - from_ms) // width, (each.to_ms - from_ms) // width
    span_ms, given = each.to_ms - each.from_ms, 0
    for at in range(first, last):
        upto = each.lines * (from_ms + (at + 1) * width - each.from_ms) // span_ms
        yield at, upto - given
        given = upto
    yield last, each.lines - given

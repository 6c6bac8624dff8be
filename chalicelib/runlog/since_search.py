"""The line that a page since a time begins with: by the times of lines, by those of arrival, or the earlier line of the two.

Where nothing is asked for it is the earlier one: what arrived since is never left out, though its times are of another zone, or one of
its lines begins with a date that it is about. "Go to time" asks by the lines alone, as the histogram shows them.
"""

from __future__ import annotations

from collections.abc import Callable

from chalicelib.ports import ARRIVAL, LINES, Run, SegmentEntry, SegmentIndex
from chalicelib.runlog.delays import ArrivalDelays, sampled_delays

MAX_TIMED_BYTES = 8 * 1024 * 1024
"""In a larger segment no line is looked for by its time: a page since then begins with the segment."""
_MAX_ROWS_BEFORE = 3  # a segment of a long stack trace alone does not know when it was

ReadBytes = Callable[[Run, int, int], bytes]
"""Bytes of a run's log from a place on, so many of them."""


class SinceSearch:
    """Searches the catalog by halves, one query a step; of a segment that the time is inside of, its lines are read."""

    def __init__(self, index: SegmentIndex, bytes_of: ReadBytes) -> None:
        self._index, self._bytes_of = index, bytes_of

    def line(self, run: Run, since_ms: int, clock: str | None = None) -> tuple[int, str]:
        """The first line of a time or later, and whose times were compared: ``ARRIVAL`` where those of the lines are not known. ``clock``:
        whose are to be; None: both, and the line is the earlier one."""
        last = self._index.last(run)
        if last is None:
            return 0, ARRIVAL
        delays = sampled_delays(self._index, run, last) if clock != ARRIVAL else ArrivalDelays.of(())
        newest = self._believed(run, last, delays)
        arrived = 0 if newest and clock == LINES else self._arrived(run, last, since_ms)
        if newest is None:
            return arrived, ARRIVAL
        if newest.time_range_ms[1] < since_ms:
            return (last.end_line if clock == LINES else arrived), LINES
        line, row = self._first(
            run, newest, lambda row: self._believed(run, row, delays) or row, lambda row: _last_ms(row, delays) >= since_ms
        )
        if clock is None and arrived <= line:
            return arrived, LINES
        is_inside = row.line == line and delays.trusts(row) and row.time_range_ms[0] < since_ms
        line = self._line_inside(run, row, since_ms) if is_inside else line
        return (line if clock == LINES else min(line, arrived)), LINES

    def _arrived(self, run: Run, last: SegmentEntry, since_ms: int) -> int:
        if last.appended_ms < since_ms:
            return last.end_line
        return self._first(run, last, lambda row: row, lambda row: row.appended_ms >= since_ms)[0]

    def _first(
        self,
        run: Run,
        first_late: SegmentEntry,
        as_known: Callable[[SegmentEntry], SegmentEntry],
        is_late: Callable[[SegmentEntry], bool],
    ) -> tuple[int, SegmentEntry]:
        """The line that the first late row begins with, and that row, which begins in [low, high]. ``found``: the last one, which is late."""
        low, high = 0, first_late.line
        while low < high:
            middle = (low + high) // 2
            row = self._index.at_line(run, middle)
            row = row and as_known(row)
            if row is None or not is_late(row):
                low = max(row.end_line if row else 0, middle + 1)
            else:
                first_late, high = row, row.line
        return min(low, high), first_late

    def _believed(self, run: Run, row: SegmentEntry, delays: ArrivalDelays) -> SegmentEntry | None:
        """The row, or the one nearest before it whose times are believed; None where none of them is."""
        for _ in range(_MAX_ROWS_BEFORE):
            if delays.trusts(row) or not row.line or not (before := self._index.at_line(run, row.line - 1)):
                break
            row = before
        return row if delays.trusts(row) else None

    def _line_inside(self, run: Run, entry: SegmentEntry, since_ms: int) -> int:
        """The first line of a segment that states a time or a later one."""
        if entry.bytes > MAX_TIMED_BYTES:
            return entry.line
        # Here, for formats of lines take time to compile: pages without a time do without.
        from chalicelib.lines.time_search import first_line_at

        return entry.line + first_line_at(self._bytes_of(run, entry.byte, entry.bytes), since_ms, entry.appended_ms)


def _last_ms(row: SegmentEntry, delays: ArrivalDelays) -> int:
    """The time of a row's last line; where it is not believed that of arrival."""
    return row.time_range_ms[1] if delays.trusts(row) else row.appended_ms

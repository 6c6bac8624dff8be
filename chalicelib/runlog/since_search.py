"""Finds the first line since a time: by the times in the lines, by the arrival times, or the earlier of both results.

The default is the earlier one: it never omits lines that arrived since, even if their times are in another zone, or a line begins with a
date from its message. "Go to time" in the viewer uses only the times in the lines, as the histogram does.
"""

from __future__ import annotations

from collections.abc import Callable

from chalicelib.ports import ARRIVAL, LINES, Run, SegmentEntry, SegmentIndex
from chalicelib.runlog.delays import ArrivalDelays, sampled_delays
from chalicelib.runlog.zone import tz_of

MAX_TIMED_BYTES = 8 * 1024 * 1024
"""A larger segment is not searched: the page begins with its first line."""
_MAX_ROWS_BEFORE = 3  # a segment that only contains a part of a stack trace has no times

ReadBytes = Callable[[Run, int, int], bytes]
"""Reads bytes of a run's log: run, start offset, length."""


class SinceSearch:
    """Binary search in the catalog, one query per step; then reads the lines of the segment that contains the time."""

    def __init__(self, index: SegmentIndex, bytes_of: ReadBytes) -> None:
        self._index, self._bytes_of = index, bytes_of

    def line(self, run: Run, since_ms: int, clock: str | None = None) -> tuple[int, str]:
        """The first line at or after a time, and the compared times: ``ARRIVAL`` if the lines have none. ``clock``: the times to compare; None:
        both, which returns the earlier line."""
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
        """The first line of the first row for which ``is_late``, and that row. ``first_late``: the last row, for which it holds."""
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
        """The row, or the nearest one before it with plausible times; None if there is none among ``_MAX_ROWS_BEFORE``."""
        for _ in range(_MAX_ROWS_BEFORE):
            if delays.trusts(row) or not row.line or not (before := self._index.at_line(run, row.line - 1)):
                break
            row = before
        return row if delays.trusts(row) else None

    def _line_inside(self, run: Run, entry: SegmentEntry, since_ms: int) -> int:
        """The first line of a segment with this time or a later one."""
        if entry.bytes > MAX_TIMED_BYTES:
            return entry.line
        # Imported here: line formats take time to compile, and pages without a time do not need them.
        from chalicelib.lines.time_search import first_line_at

        body = self._bytes_of(run, entry.byte, entry.bytes)
        return entry.line + first_line_at(body, since_ms, entry.appended_ms, tz_of(entry.zone))


def _last_ms(row: SegmentEntry, delays: ArrivalDelays) -> int:
    """The time of a row's last line if it is plausible, else the arrival time."""
    return row.time_range_ms[1] if delays.trusts(row) else row.appended_ms

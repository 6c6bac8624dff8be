"""Times of events for a filter by time. An event without a time gets one from the event before it (decision 0043)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from chalicelib.errors import UnavailableError
from chalicelib.events.event_view import EventView
from chalicelib.ports import Clock, Run, SegmentEntry, SegmentIndex
from chalicelib.runlog.delays import DEFAULT_DELAYS, ArrivalDelays, sampled_delays

LOOK_BACK_LINES = 256
"""Lines within which an event inherits a time from the last event that states one. Bounds the lines that a page reads before its
first one."""
_ROWS = 1000


@dataclass(frozen=True, slots=True)
class StatedTime:
    """The time that the event at a line states."""

    line: int
    time_ms: int


class EventTimes:
    """Assigns times to the events of a page, which are recorded in order. The result does not depend on the page: ``stated_before``
    returns the last time stated before the page's first line, and is called at most once."""

    def __init__(
        self, run: Run, index: SegmentIndex, clock: Clock, first_line: int, stated_before: Callable[[int], StatedTime | None]
    ) -> None:
        self._run, self._index, self._clock, self._first_line = run, index, clock, first_line
        self._rows, self._stated_before = _Rows(run, index), stated_before
        self._stated: StatedTime | None = None
        self._is_before_known = first_line == 0
        self._row_of_stated: SegmentEntry | None = None
        self._delays: ArrivalDelays | None = None

    def record(self, event: EventView) -> None:
        """Use this event's time for the events that follow it."""
        if event.timestamp is not None:
            self._record(StatedTime(event.line, event.timestamp))

    def time_of(self, event: EventView) -> int | None:
        """The event's time. Without one: the last stated time, at most ``LOOK_BACK_LINES`` lines before it, plus the difference
        between the times at which both arrived; if there is none that is plausible, the time of arrival. None if the catalog has no
        row for it either.

        Two queries for a page with such an event, one or two more for each 1,000 segments; five more if the log arrived a day late.
        """
        if event.timestamp is not None:
            return event.timestamp
        stated = self._last_stated(event.line)
        try:
            return self._arrived(event.line) if stated is None else self._following(stated, event.line)
        except UnavailableError:
            return stated.time_ms if stated else None

    def _arrived(self, line: int) -> int | None:
        row = self._rows.at(line)
        return row.appended_ms if row else None

    def _following(self, stated: StatedTime, line: int) -> int:
        before = self._row_of_stated = self._row_of_stated or self._rows.at(stated.line)
        if before is None:
            return stated.time_ms
        arrived_ms = self._arrived(line) or self._clock.now_ms()  # a segment without a row was appended just now
        is_believed = self._believes(stated.time_ms, before.appended_ms)
        return arrived_ms + (stated.time_ms - before.appended_ms if is_believed else 0)

    def _believes(self, time_ms: int, appended_ms: int) -> bool:
        if DEFAULT_DELAYS.allows(time_ms, appended_ms):
            return True
        if self._delays is None:
            last = self._index.last(self._run)
            self._delays = sampled_delays(self._index, self._run, last) if last else DEFAULT_DELAYS
        return self._delays.allows(time_ms, appended_ms)

    def _last_stated(self, line: int) -> StatedTime | None:
        if self._stated is None and not self._is_before_known and line - self._first_line < LOOK_BACK_LINES:
            self._is_before_known = True
            if found := self._stated_before(self._first_line):
                self._record(found)
        return self._stated if self._stated and line - self._stated.line <= LOOK_BACK_LINES else None

    def _record(self, stated: StatedTime) -> None:
        self._stated, self._row_of_stated = stated, None


class _Rows:
    """Rows of the catalog by line, for ascending lines."""

    def __init__(self, run: Run, index: SegmentIndex) -> None:
        self._run, self._index = run, index
        self._rows: Sequence[SegmentEntry] = ()
        self._begin, self._end = 0, 0.0

    def at(self, line: int) -> SegmentEntry | None:
        """The row that has a line, or None. Raises UnavailableError."""
        if not self._begin <= line < self._end:
            self._load(line)
        place = bisect_right(self._rows, line, key=lambda row: row.line)
        return self._rows[place - 1] if place and line < self._rows[place - 1].end_line else None

    def _load(self, line: int) -> None:
        first = self._index.at_line(self._run, line)
        self._begin = first.line if first else line
        self._rows = self._index.rows_from(self._run, self._begin, first.sequence if first else 0, _ROWS)
        end = self._rows[-1].end_line if self._rows else 0
        self._end = end if end > line else float("inf")  # the catalog has no later rows

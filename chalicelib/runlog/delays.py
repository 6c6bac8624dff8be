"""Which segments' own times are believed: those that arrived about as long after them as most segments of the run did.

A line may begin with a date that it is about, and such a line at an end of a batch would be taken for its time (decision 0043).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from chalicelib.ports import LINES, SegmentEntry

MAX_AHEAD_MS = 10 * 60_000
"""So much sooner than most a segment may arrive after its times, or before them: clocks differ."""
MAX_LATER_MS = 24 * 3_600_000
"""So much later than twice as late as most it may arrive: a log that is stored when all of it is written has its first lines last, and an
outage makes a part of it late."""


@dataclass(frozen=True, slots=True)
class Delays:
    """Least and most time from a line to its arrival, in ms; less than 0 where clocks are ahead, or are of a zone that the lines do not name."""

    least_ms: int
    most_ms: int

    @classmethod
    def of(cls, rows: Iterable[SegmentEntry]) -> Delays:
        """By some rows of a run, of which most are to be believed; of one row, or two, by the one that arrived nearer to its time."""
        known = [_of(row) for row in rows if row.clock == LINES]
        if not known:
            return cls(0, 0)
        least, most = sorted(each[0] for each in known), sorted(each[1] for each in known)
        middle = len(known) // 2
        return cls(min(0, least[middle]) - MAX_AHEAD_MS, 2 * max(0, most[(len(known) - 1) // 2]) + MAX_LATER_MS)

    def has(self, row: SegmentEntry) -> bool:
        """Whether a segment knows its times, and they are believed."""
        if row.clock != LINES:
            return False
        least_ms, most_ms = _of(row)
        return self.least_ms <= least_ms and most_ms <= self.most_ms


def _of(row: SegmentEntry) -> tuple[int, int]:
    """The shorter one and the longer one of its two ends."""
    delays = [row.appended_ms - each for each in row.shown_ms]
    return min(delays), max(delays)

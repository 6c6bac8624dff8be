"""Which segments' own times are believed: those that arrived about as long after them as most segments of the run did.

A line may begin with a date that it is about, and such a line at an end of a batch would be taken for its time (decision 0043).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from chalicelib.ports import LINES, Run, SegmentEntry, SegmentIndex

MAX_AHEAD_MS = 10 * 60_000
"""So much sooner than most a segment may arrive after its times, or before them: clocks differ."""
MAX_LATER_MS = 24 * 3_600_000
"""So much later than twice as late as most it may arrive: a log that is stored when all of it is written has its first lines last, and an
outage makes a part of it late."""
_SAMPLES = 4
"""So many rows besides the last one tell how long lines take to arrive."""


@dataclass(frozen=True, slots=True)
class ArrivalDelays:
    """Least and most time from a line to its arrival, in ms; less than 0 where clocks are ahead, or are of a zone that the lines do not name."""

    least_ms: int
    most_ms: int

    @classmethod
    def of(cls, rows: Iterable[SegmentEntry]) -> ArrivalDelays:
        """By some rows of a run, of which most are to be believed; of one row, or two, by the one that arrived nearer to its time."""
        known = [_of(row) for row in rows if row.clock == LINES]
        if not known:
            return cls(0, 0)
        least, most = sorted(each[0] for each in known), sorted(each[1] for each in known)
        middle = len(known) // 2
        return cls(min(0, least[middle]) - MAX_AHEAD_MS, 2 * max(0, most[(len(known) - 1) // 2]) + MAX_LATER_MS)

    def trusts(self, row: SegmentEntry) -> bool:
        """Whether a segment knows its times, and they are believed."""
        if row.clock != LINES:
            return False
        least_ms, most_ms = _of(row)
        return self.least_ms <= least_ms and most_ms <= self.most_ms

    def allows(self, time_ms: int, appended_ms: int) -> bool:
        """Whether a line that arrived then may be of this time."""
        return self.least_ms <= appended_ms - time_ms <= self.most_ms


DEFAULT_DELAYS = ArrivalDelays(-MAX_AHEAD_MS, MAX_LATER_MS)
"""Delays that are believed in every run."""


def sampled_delays(index: SegmentIndex, run: Run, last: SegmentEntry) -> ArrivalDelays:
    """Of a run by its last row and four others, a query for each of those. Raises UnavailableError."""
    lines = sorted({last.end_line * sample // _SAMPLES for sample in range(_SAMPLES)})
    return ArrivalDelays.of([*(row for line in lines if (row := index.at_line(run, line)) and row.sequence != last.sequence), last])


def _of(row: SegmentEntry) -> tuple[int, int]:
    """The shorter one and the longer one of its two ends."""
    delays = [row.appended_ms - each for each in row.time_range_ms]
    return min(delays), max(delays)

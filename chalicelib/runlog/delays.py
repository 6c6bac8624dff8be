"""Plausibility of the timestamps that lines state: a segment's times count if its arrival delay is near that of most segments of the run.

A line may begin with a date from its message; at the start or end of a batch, this date would pass for the time of the line (decision 0043).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from chalicelib.ports import LINES, Run, SegmentEntry, SegmentIndex

MAX_AHEAD_MS = 10 * 60_000
"""Tolerance for a segment that arrives sooner after its times than most do, or before them: clocks differ."""
MAX_LATER_MS = 24 * 3_600_000
"""Tolerance beyond twice the usual delay: a log that is uploaded once it is complete has old first lines, and an outage delays a part of it."""
_SAMPLES = 4
"""Rows read besides the last one to estimate the delay."""


@dataclass(frozen=True, slots=True)
class ArrivalDelays:
    """Range of plausible times from a line to its arrival, in ms; negative if a clock is ahead, or its time zone is missing from the lines."""

    least_ms: int
    most_ms: int

    @classmethod
    def of(cls, rows: Iterable[SegmentEntry]) -> ArrivalDelays:
        """Estimate from some rows of a run, most of which must be right; from one or two rows, the one that arrived closer to its time counts."""
        known = [_of(row) for row in rows if row.clock == LINES]
        if not known:
            return cls(0, 0)
        least, most = sorted(each[0] for each in known), sorted(each[1] for each in known)
        middle = len(known) // 2
        return cls(min(0, least[middle]) - MAX_AHEAD_MS, 2 * max(0, most[(len(known) - 1) // 2]) + MAX_LATER_MS)

    def trusts(self, row: SegmentEntry) -> bool:
        """Whether the lines of a segment state times, and these are plausible."""
        if row.clock != LINES:
            return False
        least_ms, most_ms = _of(row)
        return self.least_ms <= least_ms and most_ms <= self.most_ms

    def allows(self, time_ms: int, appended_ms: int) -> bool:
        """Whether this time is plausible for a line that arrived at ``appended_ms``."""
        return self.least_ms <= appended_ms - time_ms <= self.most_ms


DEFAULT_DELAYS = ArrivalDelays(-MAX_AHEAD_MS, MAX_LATER_MS)
"""Delays that are plausible in every run."""


def sampled_delays(index: SegmentIndex, run: Run, last: SegmentEntry) -> ArrivalDelays:
    """Estimate for a run from its last row and up to four others, one query each. Raises UnavailableError."""
    lines = sorted({last.end_line * sample // _SAMPLES for sample in range(_SAMPLES)})
    return ArrivalDelays.of([*(row for line in lines if (row := index.at_line(run, line)) and row.sequence != last.sequence), last])


def _of(row: SegmentEntry) -> tuple[int, int]:
    """The shorter one and the longer one of its two ends."""
    delays = [row.appended_ms - each for each in row.time_range_ms]
    return min(delays), max(delays)

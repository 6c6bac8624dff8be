"""The periods by which files roll: a file has the events of one period, by the events' times (UTC).

A period is given as ``daily``, ``hourly``, or a pattern with the directives ``%Y %m %d %H %M``: the finest one is the period, a day
at most, since rows are found by day.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime

from chalicelib.errors import InvalidConfigurationError
from chalicelib.pipelines.files.key_layout import DAY_MS

HOUR_MS, MINUTE_MS = 3_600_000, 60_000
_NAMED = {"daily": "%Y-%m-%d", "hourly": "%Y-%m-%d_%H"}
_PATTERN = re.compile(r"(?:[A-Za-z0-9_=.-]|%[YmdHM])+")
_MAX_PATTERN_CHARS = 60


@dataclass(frozen=True, slots=True)
class RollingPeriod:
    """``pattern``: the text of a period, as of ``strftime``. ``length_ms``: a day, an hour or a minute."""

    pattern: str
    length_ms: int

    def text(self, time_ms: int) -> str:
        """A time by the pattern."""
        return datetime.fromtimestamp(time_ms // 1000, UTC).strftime(self.pattern)


def parse_period(roll: str) -> RollingPeriod:
    """Raises InvalidConfigurationError."""
    pattern = _NAMED.get(roll, roll)
    if len(pattern) > _MAX_PATTERN_CHARS or not _PATTERN.fullmatch(pattern) or "%" not in pattern:
        raise InvalidConfigurationError(
            f"roll must be {', '.join(_NAMED)} or a pattern of %Y %m %d %H %M and letters, digits and ._=- roll={roll[:100]!r}"
        )
    return RollingPeriod(pattern, MINUTE_MS if "%M" in pattern else HOUR_MS if "%H" in pattern else DAY_MS)

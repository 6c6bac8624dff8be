"""One row of the table of measurements."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Measure:
    """One row of the table."""

    what: str
    reach: str
    measured: str
    reached: bool

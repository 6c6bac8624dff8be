"""Metrics that handlers record with ``HandlerContext.metric``: aggregated in memory, and reported at each checkpoint.

A handler has at most ``MAX_METRICS`` names, so memory and CloudWatch's price are bounded. What is invalid is counted and dropped: a metric never
fails an event. An event that is delivered again is recorded again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf
from threading import Lock
from typing import Any

MAX_METRICS = 20
"""The number of distinct names of a handler, for as long as its worker runs."""
MAX_VALUE = 2.0**360
"""CloudWatch rejects values beyond this, of either sign."""
RESERVED = frozenset({"pipeline", "handler"})
"""The dimensions, which are fields of the same line as the metrics."""
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,99}")


@dataclass(slots=True)
class Statistics:
    """The values of a metric since the last report."""

    count: int = 0
    sum: float = 0.0
    min: float = inf
    max: float = -inf

    def add(self, other: Statistics) -> None:
        """Add the values of another."""
        self.min = min(self.min, other.min)
        self.max = max(self.max, other.max)
        self.count += other.count
        self.sum += other.sum

    def document(self) -> dict[str, float]:
        """For JSON."""
        return {"count": self.count, "sum": self.sum, "min": self.min, "max": self.max}


@dataclass(frozen=True, slots=True)
class MetricsReport:
    """The metrics of a handler since the last report, by name. ``refused``: values that were dropped, ``reason`` of the first one."""

    pipeline: str
    handler: str
    metrics: Mapping[str, Statistics]
    refused: int = 0
    reason: str = ""


OnMetrics = Callable[[MetricsReport], None]


def ignore_metrics(_: MetricsReport) -> None:
    """For workers whose metrics nobody reads."""


@dataclass(slots=True)
class HandlerMetrics:
    """The metrics of one handler. Its own threads may record too."""

    _values: dict[str, Statistics] = field(default_factory=dict)
    _names: set[str] = field(default_factory=set)
    _refused: int = 0
    _reason: str = ""
    _lock: Lock = field(default_factory=Lock)

    def record(self, name: Any, value: Any) -> None:
        """Add a value. Never raises."""
        number = _number_of(value)  # outside of the lock: it runs code of the value
        with self._lock:
            reason = self._problem(name, number)
            if number is None or reason:
                self._refused += 1
                self._reason = self._reason or reason
                return
            self._names.add(name)
            self._values.setdefault(name, Statistics()).add(Statistics(1, number, number, number))

    def take(self, pipeline: str, handler: str) -> MetricsReport | None:
        """What was recorded since the last call; None if nothing was."""
        with self._lock:
            if not self._values and not self._refused:
                return None
            report = MetricsReport(pipeline, handler, self._values, self._refused, self._reason)
            self._values, self._refused, self._reason = {}, 0, ""
            return report

    def _problem(self, name: Any, number: float | None) -> str:
        """Why a value is dropped; empty if it is not."""
        if not isinstance(name, str) or not _NAME.fullmatch(name) or name in RESERVED:
            return "a name must be a letter and at most 99 letters, digits and ._-, and not pipeline or handler"
        if name not in self._names and len(self._names) >= MAX_METRICS:
            return f"a handler has at most {MAX_METRICS} metrics"
        return "a value must be a finite number" if number is None else ""


def _number_of(value: Any) -> float | None:
    """None: not a finite number that CloudWatch accepts."""
    try:
        number = None if isinstance(value, bool | str | bytes) else float(value)
    except Exception:  # the value's own __float__ may raise anything
        return None
    return number if number is not None and -MAX_VALUE <= number <= MAX_VALUE else None  # false for NaN

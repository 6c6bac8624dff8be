"""A measured figure, and the measurement that yields it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Measure:
    """One row of a table. With an empty ``goal`` and ``reached`` None the figure is reported without a goal."""

    what: str
    goal: str
    measured: str
    reached: bool | None


def cpu_s(work: Callable[[], object]) -> float:
    """Processor seconds of this process for some work."""
    started_s = time.process_time()
    work()
    return time.process_time() - started_s


def reported(what: str, measured: str) -> Measure:
    """A figure without a goal."""
    return Measure(what, "", measured, None)


@dataclass(frozen=True)
class Measurement:
    """``run(*world, **sizes)`` yields the rows.

    ``code``: files and folders, relative to the project, whose change makes the rows stale. ``small``: sizes for CI, which checks
    only that the measurement works; such rows are never stored.
    """

    name: str
    run: Callable[..., list[Measure]]
    code: tuple[str, ...]
    small: Mapping[str, Any] = field(default_factory=dict)

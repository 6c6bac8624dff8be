"""When a person is told that something is waited for."""

from __future__ import annotations

import time
from collections.abc import Callable
from math import inf


class WaitNotices:
    """Due after ``first_s`` in which nothing moved, and then not before ``next_s`` have passed."""

    def __init__(self, first_s: float, next_s: float, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._first_s, self._next_s, self._clock_s = first_s, next_s, clock_s
        self._earliest_s = -inf
        self.progressed()

    @property
    def left_s(self) -> float:
        """Seconds until one is due."""
        return max(self._due_s - self._clock_s(), 0.0)

    def progressed(self) -> None:
        """Something moved just now."""
        self._due_s = max(self._clock_s() + self._first_s, self._earliest_s)

    def take(self) -> bool:
        """Whether one is due; then it counts as given."""
        if self.left_s:
            return False
        self._earliest_s = self._due_s = self._clock_s() + self._next_s
        return True

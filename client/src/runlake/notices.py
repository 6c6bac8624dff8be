"""When to notify a person that the program waits."""

from __future__ import annotations

import time
from collections.abc import Callable
from math import inf


class WaitNotices:
    """Due after ``first_s`` without progress, and at most once per ``next_s``."""

    def __init__(self, first_s: float, next_s: float, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._first_s, self._next_s, self._clock_s = first_s, next_s, clock_s
        self._earliest_s = -inf
        self.progressed()

    @property
    def left_s(self) -> float:
        """Seconds until the next one is due."""
        return max(self._due_s - self._clock_s(), 0.0)

    def progressed(self) -> None:
        """Restart the wait: there was progress."""
        self._due_s = max(self._clock_s() + self._first_s, self._earliest_s)

    def take(self) -> bool:
        """Whether a notice is due; True counts as sent."""
        if self.left_s:
            return False
        self._earliest_s = self._due_s = self._clock_s() + self._next_s
        return True

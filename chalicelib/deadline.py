"""Deadlines: the remaining time of a function."""

from __future__ import annotations

from chalicelib.errors import DeadlineExceededError
from chalicelib.ports import Clock


class Deadline:
    """A point in time by the monotonic clock. Work checks it between its steps, each of which can be repeated."""

    def __init__(self, clock: Clock, seconds: float = float("inf")) -> None:
        self._clock = clock
        self._end_s = clock.monotonic_s() + seconds

    def remaining_s(self) -> float:
        """Seconds left; negative after the deadline."""
        return self._end_s - self._clock.monotonic_s()

    def check(self) -> None:
        """Raises DeadlineExceededError when no time is left."""
        if self.remaining_s() <= 0:
            raise DeadlineExceededError("no time left: the next invocation continues")

"""How long there is: the remaining time of a function behind one small object."""

from __future__ import annotations

from chalicelib.errors import DeadlineExceededError
from chalicelib.ports import Clock


class Deadline:
    """A point in time by the monotonic clock. Work asks it between steps; what was begun by then is repeatable."""

    def __init__(self, clock: Clock, seconds: float = float("inf")) -> None:
        self._clock = clock
        self._end_s = clock.monotonic_s() + seconds

    def remaining_s(self) -> float:
        """Seconds left; negative when it has passed."""
        return self._end_s - self._clock.monotonic_s()

    def check(self) -> None:
        """Raises DeadlineExceededError when no time is left."""
        if self.remaining_s() <= 0:
            raise DeadlineExceededError("no time left: the work goes on next time")

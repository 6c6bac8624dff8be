"""Waits between retries."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from runlake.errors import UnavailableError

TRIES = 8
"""Tries of a request, or of a transfer, until it is given up."""
_Result = TypeVar("_Result")


@dataclass
class Backoff:
    """Waits that double from ``first_s`` to ``most_s``, with jitter between half and all of each, so that clients do not synchronize."""

    first_s: float = 0.25
    most_s: float = 10.0
    chance: random.Random = field(default_factory=random.Random)
    _tries: int = 0

    def next_s(self, at_least_s: float = 0.0) -> float:
        """The next wait in seconds; at least ``at_least_s``, which the server asked for."""
        wait_s = min(self.first_s * 2.0**self._tries, self.most_s)
        self._tries = min(self._tries + 1, 30)
        return max(wait_s * (0.5 + self.chance.random() / 2), at_least_s)

    def reset(self) -> None:
        """Start again from ``first_s``, after a success."""
        self._tries = 0


def retried(
    attempt: Callable[[], _Result], pause: Callable[[float], object], notice: Callable[[str], object] = lambda text: None
) -> _Result:
    """The result of ``attempt``, tried again after each UnavailableError. ``notice`` gets a message after the first. Raises that of the last of
    ``TRIES`` tries."""
    backoff = Backoff()
    for number in range(TRIES - 1):
        try:
            return attempt()
        except UnavailableError as error:
            if number == 0:
                notice(f"{error}: retrying")
            pause(backoff.next_s(error.retry_after_s))
    return attempt()

"""Signs of life of a run that sends nothing: they tell a command that prints nothing from one that is dead.

A thread of its own sends them, so that a slow response delays neither lines nor the exit. A heartbeat that fails is not repeated: the next
one comes in time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class Heartbeats:
    """Calls ``send`` whenever nothing was sent for ``interval_s`` (0: never), until it returns False or ``stop`` is called. ``send`` does not
    raise. ``wait``: until ``stop``, so many seconds at most; True: it was called."""

    def __init__(
        self,
        interval_s: float,
        send: Callable[[], bool],
        clock_s: Callable[[], float] = time.monotonic,
        wait: Callable[[float], bool] | None = None,
    ) -> None:
        self._interval_s, self._send, self._clock_s = interval_s, send, clock_s
        self._stopped = threading.Event()
        self._wait = wait or self._stopped.wait
        self._last_s = clock_s()

    def start(self, name: str) -> None:
        """Begin, in a thread. An interpreter that is going down starts none: it needs no more heartbeats."""
        if self._interval_s and not self._stopped.is_set():
            self.sent()
            try:
                threading.Thread(target=self.run, name=name, daemon=True).start()
            except RuntimeError:
                return

    def sent(self) -> None:
        """Something was sent just now: it is a sign of life too."""
        self._last_s = self._clock_s()

    def stop(self) -> None:
        """No more. Does not wait for one that is under way."""
        self._stopped.set()

    def run(self) -> None:
        """What the thread does."""
        while not self._wait(max(self._left_s(), 0)):
            if self._left_s() <= 0:
                self.sent()
                if not self._send():
                    return

    def _left_s(self) -> float:
        return self._last_s + self._interval_s - self._clock_s()

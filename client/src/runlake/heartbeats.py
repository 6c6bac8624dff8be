"""Heartbeats of a run without new lines: they distinguish a command that prints nothing from one that is dead.

They have their own thread, so that a slow response delays neither lines nor the exit. A failed heartbeat is not repeated: the next one
follows after the interval.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class Heartbeats:
    """Calls ``send`` after each ``interval_s`` without requests (0: never), until ``stop`` is called. ``send`` must not raise. ``wait``: blocks
    until ``stop``, at most so many seconds; True: stopped."""

    def __init__(
        self,
        interval_s: float,
        send: Callable[[], None],
        clock_s: Callable[[], float] = time.monotonic,
        wait: Callable[[float], bool] | None = None,
    ) -> None:
        self._interval_s, self._send, self._clock_s = interval_s, send, clock_s
        self._stopped = threading.Event()
        self._wait = wait or self._stopped.wait
        self._last_s = clock_s()

    def start(self, name: str) -> None:
        """Start the thread, which a shutting-down interpreter refuses: it needs no more heartbeats."""
        if self._interval_s and not self._stopped.is_set():
            self.sent()
            try:
                threading.Thread(target=self.run, name=name, daemon=True).start()
            except RuntimeError:
                return

    def sent(self) -> None:
        """Restart the interval: a request was sent, which shows that the process is alive."""
        self._last_s = self._clock_s()

    def stop(self) -> None:
        """Stop. Does not wait for a heartbeat that is being sent."""
        self._stopped.set()

    def run(self) -> None:
        """The loop of the thread."""
        while not self._wait(max(self._left_s(), 0)):
            if self._left_s() <= 0:
                self.sent()
                self._send()

    def _left_s(self) -> float:
        return self._last_s + self._interval_s - self._clock_s()

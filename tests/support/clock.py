"""A clock that its owner advances: no call waits."""

from __future__ import annotations

from threading import Lock


class ManualClock:
    """``ports.Clock`` that stands still until ``advance``; ``sleep`` advances it. A simulation in one thread may set ``elapsed_s``."""

    def __init__(self, now_ms: int = 0) -> None:
        self._start_ms, self.elapsed_s = now_ms, 0.0
        self._lock = Lock()

    def now_ms(self) -> int:
        """See the port."""
        return self._start_ms + int(self.elapsed_s * 1000)

    def monotonic_s(self) -> float:
        """See the port."""
        return self.elapsed_s

    def sleep(self, seconds: float) -> None:
        """See the port: advances the time without waiting."""
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        """Advance the time."""
        with self._lock:
            self.elapsed_s += seconds

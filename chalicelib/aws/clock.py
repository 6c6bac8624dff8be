"""``ports.Clock`` with the system's time."""

from __future__ import annotations

import time


class SystemClock:
    """The system's clock."""

    def now_ms(self) -> int:
        """See the port."""
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        """See the port."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """See the port."""
        time.sleep(seconds)

"""What another serves and seldom changes: an issuer's keys, a policy. Kept, read anew, and for a while used on when the other is away."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

from chalicelib.errors import IdentityUnavailableError, UnavailableError
from chalicelib.ports import Clock

T = TypeVar("T")
FRESH_MS = 5 * 60_000
"""So long it is used without asking: what was taken back holds no longer than this, and the life of a request."""
KEPT_MS = 60 * 60_000
"""So long it is used when it cannot be read anew."""
PAUSE_MS = 10_000
"""Between two reads, failed ones too, whatever is asked meanwhile: no flood of requests becomes a flood of reads."""
FIRST_PAUSE_MS = 1_000
"""The same while there is nothing yet to go on with."""


class Kept(Generic[T]):
    """``read`` raises UnavailableError. Any thread may ask; one reads."""

    def __init__(self, read: Callable[[], T], clock: Clock, what: str, on_failure: Callable[[UnavailableError], None]) -> None:
        self._read, self._clock, self._what, self._on_failure = read, clock, what, on_failure
        self._lock = Lock()
        self._value: T | None = None
        self._read_ms = self._tried_ms = -(10**15)

    def get(self) -> T:
        """The value. Raises IdentityUnavailableError."""
        with self._lock:
            if self._value is None or self._age_ms() >= FRESH_MS:
                self._renew()
            if self._value is None or self._age_ms() >= KEPT_MS:
                raise IdentityUnavailableError(f"{self._what} cannot be read")
            return self._value

    def get_newer(self) -> T:
        """The value, read anew unless that was just tried: for whoever misses something in it. Raises IdentityUnavailableError."""
        with self._lock:
            self._renew()
        return self.get()

    def _renew(self) -> None:
        now_ms = self._clock.now_ms()
        if 0 <= now_ms - self._tried_ms < (FIRST_PAUSE_MS if self._value is None else PAUSE_MS):
            return
        self._tried_ms = now_ms
        try:
            self._value = self._read()
        except UnavailableError as error:
            self._on_failure(error)
        else:
            self._read_ms = now_ms

    def _age_ms(self) -> int:
        return abs(self._clock.now_ms() - self._read_ms)

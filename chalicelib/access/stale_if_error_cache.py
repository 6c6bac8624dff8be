"""TTL cache for remote documents that seldom change, such as the issuer's keys and the policy. Serves stale values for a limited time
if the source is unavailable."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

from chalicelib.errors import IdentityUnavailableError, UnavailableError
from chalicelib.ports import Clock

T = TypeVar("T")
FRESH_MS = 5 * 60_000
"""A value is used this long without a read, so a revocation takes effect within this time plus the duration of a request."""
MAX_STALE_MS = 60 * 60_000
"""Maximum age of a value that cannot be read again."""
MIN_READ_INTERVAL_MS = 10_000
"""Minimum time between two reads, failed ones included: a flood of requests does not become a flood of reads."""
MIN_FIRST_READ_INTERVAL_MS = 1_000
"""The same while no value has been read."""


class StaleIfErrorCache(Generic[T]):
    """``read`` raises UnavailableError. Thread-safe; one thread reads at a time."""

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
            if self._value is None or self._age_ms() >= MAX_STALE_MS:
                raise IdentityUnavailableError(f"{self._what} cannot be read")
            return self._value

    def refresh(self) -> T:
        """The value, read again unless the last read is too recent, for callers that miss an entry. Raises IdentityUnavailableError."""
        with self._lock:
            self._renew()
        return self.get()

    def _renew(self) -> None:
        now_ms = self._clock.now_ms()
        if 0 <= now_ms - self._tried_ms < (MIN_FIRST_READ_INTERVAL_MS if self._value is None else MIN_READ_INTERVAL_MS):
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

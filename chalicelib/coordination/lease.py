"""A lease is the right to work on a partition for a limited time."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from threading import RLock
from typing import Any, TypeVar, cast
from uuid import uuid4

from chalicelib.coordination.partition import Partition
from chalicelib.errors import DamagedPartitionError, InvalidConfigurationError, LeaseError, PartitionNotOwnedError
from chalicelib.ports import Clock

_MOST_MARGIN_S = 5.0


@dataclass(frozen=True, slots=True)
class LeaseTerms:
    """``timeout_s``: duration of a lease after each write. ``skew_s``: how long others wait past the deadline, because their clocks may be
    ahead. Holders stop ``margin_s`` before it by their monotonic clock, so two clocks may differ by the sum of both."""

    timeout_s: float = 600.0
    skew_s: float = 5.0

    def __post_init__(self) -> None:
        if not (self.timeout_s > 0 and self.skew_s >= 0):
            raise InvalidConfigurationError(
                f"a lease must have a timeout above 0 and a skew of at least 0 timeout_s={self.timeout_s} skew_s={self.skew_s}"
            )

    @property
    def margin_s(self) -> float:
        """How long before the deadline a holder stops: a tenth of the timeout, at most 5 s."""
        return min(_MOST_MARGIN_S, self.timeout_s / 10)

    @property
    def timeout_ms(self) -> int:
        """``timeout_s`` in ms."""
        return round(self.timeout_s * 1000)

    @property
    def skew_ms(self) -> int:
        """``skew_s`` in ms."""
        return round(self.skew_s * 1000)


class Lease:
    """An acquired partition. ``fence`` is the item's version right after the acquisition: a sink that remembers the highest fence and
    rejects lower ones is safe from a holder that lost its lease. Fences grow as long as the item exists.

    Only the coordinator that acquired it changes it, under ``lock``: ``renewal_error`` is the error of the last renewal, ``unconfirmed``
    a write whose outcome is unknown.
    """

    def __init__(self, partition: Partition, trusted_until_s: float, clock: Clock) -> None:
        self.key = partition.key
        self.fence = partition.version
        self.owner = partition.owner
        self.lock = RLock()
        self.renewal_error: Exception | None = None
        self.unconfirmed: Partition | None = None
        self._partition, self._trusted_until_s, self._clock = partition, trusted_until_s, clock
        self._written_s = clock.monotonic_s()
        self._over: LeaseError | None = None

    @property
    def partition(self) -> Partition:
        """The item of this holder's last write."""
        return self._partition

    @property
    def state(self) -> Any:
        """The state that was saved last, by this holder or an earlier one, decoded from JSON; None if there is none.

        Raises DamagedPartitionError.
        """
        text = self._partition.state
        try:
            return None if text is None else json.loads(text)
        except ValueError as error:
            raise DamagedPartitionError(f"the state is not JSON key={self.key}") from error

    @property
    def closed_count(self) -> int:
        """How many times the partition was closed."""
        return self._partition.closed_count

    @property
    def is_over(self) -> bool:
        """Whether it was ended (completed, closed, released) or lost."""
        return self._over is not None

    def remaining_s(self) -> float:
        """Seconds for which the holder may trust it without a renewal; negative afterwards."""
        return self._trusted_until_s - self._clock.monotonic_s()

    def age_s(self) -> float:
        """Seconds since the last write."""
        return self._clock.monotonic_s() - self._written_s

    def check(self) -> None:
        """Call before each step that is visible to others. Raises PartitionNotOwnedError (PartitionNotFoundError) when the lease is over or
        was not renewed in time: stop the work. No request."""
        self.check_not_over()
        if self.remaining_s() <= 0:
            raise PartitionNotOwnedError(
                f"the lease was not renewed in time key={self.key} fence={self.fence}"
            ) from self.renewal_error

    def check_not_over(self) -> None:
        """Raises the error of ``check`` when the lease is over. One that was not renewed in time may still be valid: the store decides."""
        if self._over:
            raise type(self._over)(str(self._over)) from self._over

    def mark_written(self, partition: Partition, trusted_until_s: float) -> None:
        """The coordinator wrote the item and this holder still owns it."""
        self._partition, self._trusted_until_s, self.renewal_error = partition, trusted_until_s, None
        self._written_s = self._clock.monotonic_s()

    def mark_ended(self, partition: Partition) -> None:
        """The holder ended the lease."""
        self._partition = partition
        self._over = PartitionNotOwnedError(f"the lease was ended key={self.key} fence={self.fence}")

    def mark_lost(self, error: LeaseError) -> None:
        """By the store, the partition has another owner or was deleted."""
        self._over = error


def new_owner() -> str:
    """A unique owner for one acquisition, with host and process for operators: ``host:pid:uuid``."""
    return f"{socket.gethostname()}:{os.getpid()}:{uuid4().hex}"


Port = TypeVar("Port")


class _LeaseChecked:
    def __init__(self, port: Any, lease: Lease) -> None:
        self._port, self._lease = port, lease

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._port, name)
        return self._checked(found) if callable(found) else found

    def _checked(self, call: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(call)
        def checked(*args: Any, **options: Any) -> Any:
            self._lease.check()
            return call(*args, **options)

        return checked


def lease_checked(port: Port, lease: Lease) -> Port:
    """``port`` with ``lease.check()`` before every call: once the lease is lost, a call raises PartitionNotOwnedError instead."""
    return cast(Port, _LeaseChecked(port, lease))

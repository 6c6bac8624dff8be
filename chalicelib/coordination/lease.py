"""A lease: the right to work a partition, for a time."""

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
    """``timeout_s``: how long a partition is its owner's after each write. ``skew_s``: how far past the deadline others wait, because
    their clocks may be ahead. Holders stop ``margin_s`` before it, by their monotonic clock, so two clocks may differ by the sum."""

    timeout_s: float = 600.0
    skew_s: float = 5.0

    def __post_init__(self) -> None:
        if not (self.timeout_s > 0 and self.skew_s >= 0):
            raise InvalidConfigurationError(f"a lease lasts timeout_s={self.timeout_s} skew_s={self.skew_s}")

    @property
    def margin_s(self) -> float:
        """How long before the deadline a holder stops."""
        return min(_MOST_MARGIN_S, self.timeout_s / 10)

    @property
    def timeout_ms(self) -> int:
        """In ms, as it is stored."""
        return round(self.timeout_s * 1000)

    @property
    def skew_ms(self) -> int:
        """In ms."""
        return round(self.skew_s * 1000)


class Lease:
    """What an acquisition gives. ``fence`` is the item's version right after it: a sink that remembers the highest one it saw, and
    refuses lower ones, is safe from a holder that was overtaken. It grows as long as the item exists.

    Only the coordinator that gave it changes it, under ``lock``: ``renewal_error`` is why it could not be renewed, ``unconfirmed`` a write of which
    nobody knows whether it was applied.
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
        """The item as this holder last wrote it."""
        return self._partition

    @property
    def state(self) -> Any:
        """The progress that was saved last, by whoever had the partition: what JSON can say; None if there is none."""
        text = self._partition.state
        try:
            return None if text is None else json.loads(text)
        except ValueError as error:
            raise DamagedPartitionError(f"a state is no json key={self.key}") from error

    @property
    def closed_count(self) -> int:
        """How many times the partition was closed."""
        return self._partition.closed_count

    @property
    def is_over(self) -> bool:
        """Whether it was ended (completed, closed, given up) or lost."""
        return self._over is not None

    def remaining_s(self) -> float:
        """Seconds for which the holder may trust it, unless it is renewed; negative when that is past."""
        return self._trusted_until_s - self._clock.monotonic_s()

    def age_s(self) -> float:
        """Seconds since it was last written."""
        return self._clock.monotonic_s() - self._written_s

    def check(self) -> None:
        """Ask before each step that others can see. Raises PartitionNotOwnedError (PartitionNotFoundError) when the lease is over, or
        was not renewed in time: stop the work. No request."""
        self.check_not_over()
        if self.remaining_s() <= 0:
            raise PartitionNotOwnedError(
                f"the lease was not renewed in time key={self.key} fence={self.fence}"
            ) from self.renewal_error

    def check_not_over(self) -> None:
        """Raises the error of ``check`` when the lease is over. One that was not renewed in time may still be ours: the store knows."""
        if self._over:
            raise type(self._over)(str(self._over)) from self._over

    def mark_written(self, partition: Partition, trusted_until_s: float) -> None:
        """The coordinator wrote the item, and it is still this holder's."""
        self._partition, self._trusted_until_s, self.renewal_error = partition, trusted_until_s, None
        self._written_s = self._clock.monotonic_s()

    def mark_ended(self, partition: Partition) -> None:
        """The holder let go of it."""
        self._partition = partition
        self._over = PartitionNotOwnedError(f"the lease was ended key={self.key} fence={self.fence}")

    def mark_lost(self, error: LeaseError) -> None:
        """The store says that it is another's, or gone."""
        self._over = error


def new_owner() -> str:
    """Who takes a partition: the host and the process for people to see, and what makes it unique for each acquisition."""
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
    """``port``, whose every call first asks ``lease.check()``: PartitionNotOwnedError, and the call is not made."""
    return cast(Port, _LeaseChecked(port, lease))

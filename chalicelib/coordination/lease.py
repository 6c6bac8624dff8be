"""A lease is the right to work on a partition for a limited time.

``LeaseWriter`` has the writes of a partition from its acquisition to its end; ``Heartbeat`` is the thread that renews leases meanwhile.
"""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import wraps
from threading import RLock
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar, cast
from uuid import uuid4

from chalicelib.coordination.metrics import Metric, Metrics
from chalicelib.coordination.partition import Partition, new_partition
from chalicelib.coordination.store import ConditionFailed, PartitionStore, in_parallel, resolve_outcome
from chalicelib.errors import (
    DamagedPartitionError,
    InvalidConfigurationError,
    LeaseError,
    OutcomeUnknownError,
    PartitionNotFoundError,
    PartitionNotOwnedError,
    PartitionUpdateError,
    RunlakeError,
    StoreUnavailableError,
    UnavailableError,
)
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


MAX_STATE_BYTES = 300_000
"""An item of DynamoDB has at most 400 KB."""
RENEWALS_PER_LEASE = 3
"""Renewals during the timeout of a lease."""
RETRY_SPEEDUP = 5
"""After a failed renewal the next one follows in a fifth of the interval."""
_MAX_REBASES = 3
_MAX_TRIES = 4

Change = Callable[[Partition], Partition]


class LeaseWriter:
    """Conditional writes with a certain outcome (``resolve_outcome``). Each lease has the item of its last write, the next one's condition."""

    def __init__(
        self, store: PartitionStore, terms: LeaseTerms, clock: Clock, metrics: Metrics, new_owner: Callable[[], str]
    ) -> None:
        self._store, self._terms, self._clock, self._metrics, self._new_owner = store, terms, clock, metrics, new_owner

    def acquire(self, free: Partition) -> Lease | None:
        """Lease an item if it is unchanged since it was read; otherwise None. One request."""
        trusted_until_s, timeout_ms = self._from_now()
        taken = self._stamped(free.assigned(self._new_owner(), timeout_ms))
        refused = resolve_outcome(lambda: self._store.replace(free, taken), lambda current: current == taken, self._clock)
        return None if refused else Lease(taken, trusted_until_s, self._clock)

    def create_acquired(self, new: Partition) -> Lease | ConditionFailed:
        """Create an item together with its lease. One request."""
        trusted_until_s, timeout_ms = self._from_now()
        taken = self._stamped(new.assigned(self._new_owner(), timeout_ms))
        refused = resolve_outcome(lambda: self._store.create(taken), lambda current: current == taken, self._clock)
        return refused or Lease(taken, trusted_until_s, self._clock)

    def acquire_by_key(self, source: str, key: str, is_free: Callable[[Partition], bool]) -> Lease | Partition:
        """The lease of the partition of this key, which is created if there is none: one request, or two if it exists and is free.
        Otherwise the unchanged partition. Raises InvalidInputError, and StoreUnavailableError if it keeps changing."""
        for _ in range(_MAX_TRIES):
            created = self.create_acquired(new_partition(source, key, self._clock.now_ms() * 1000))
            if isinstance(created, Lease):
                return created
            current = created.current
            if current is None:
                continue  # deleted since
            if not is_free(current):
                return current
            if lease := self.acquire(current):
                return lease
        raise StoreUnavailableError(f"the partition keeps changing key={key} tries={_MAX_TRIES}")

    def renew(self, lease: Lease) -> None:
        """Extend the lease by ``timeout_s`` from now. One request; none for a lease that is over."""
        with lease.lock:
            if not lease.is_over:
                self._extend(lease, lambda partition: partition, None)

    def save(self, lease: Lease, state: str) -> None:
        """Store a state and renew the lease. One request."""
        with lease.lock:
            lease.check_not_over()
            self._check_size(lease, state, Metric.SAVE_STATE_ERRORS)
            self._extend(lease, lambda partition: partition.with_state(state), Metric.SAVE_STATE_ERRORS)

    def end(self, lease: Lease, change: Change, errors: Metric | None = None) -> Partition:
        """End the lease with ``change``. If the outcome stays unknown, the same call again resolves it."""
        with lease.lock:
            lease.check_not_over()
            ended = self._write(lease, change, errors)
            lease.mark_ended(ended)
            return ended

    def delete(self, lease: Lease) -> None:
        """End the lease by deleting the item; one that does not exist any more is a success."""
        with lease.lock:
            lease.check_not_over()
            old = lease.partition
            for _ in range(_MAX_REBASES):
                refused = self._removed(old)
                if refused is None:
                    lease.mark_ended(old)
                    return
                old = self._still_ours(lease, refused.current)
            raise self._update_error(lease, None)

    def _removed(self, old: Partition) -> ConditionFailed | None:
        def is_gone(current: Partition | None) -> bool:
            """Versions only grow, so a lower one is that of a new item."""
            return current is None or current.version < old.version

        return resolve_outcome(lambda: self._store.delete(old), is_gone, self._clock)

    def _extend(self, lease: Lease, change: Change, errors: Metric | None) -> None:
        trusted_until_s, timeout_ms = self._from_now()
        written = self._write(lease, lambda partition: change(partition).renewed(timeout_ms), errors)
        lease.mark_written(written, trusted_until_s)

    def _write(self, lease: Lease, change: Change, errors: Metric | None) -> Partition:
        old = lease.partition
        for _ in range(_MAX_REBASES):
            new = self._stamped(change(old))
            refused = self._replaced(lease, old, new, errors)
            if refused is None:
                return new
            old = self._still_ours(lease, refused.current)
        raise self._update_error(lease, errors)

    def _replaced(self, lease: Lease, old: Partition, new: Partition, errors: Metric | None) -> ConditionFailed | None:
        def is_ours(current: Partition | None) -> bool:
            """Whether this call wrote it, or an earlier one ended the lease and its response was lost."""
            return current is not None and (current == new or (current == lease.unconfirmed and _same_ending(current, new)))

        try:
            return resolve_outcome(lambda: self._store.replace(old, new), is_ours, self._clock)
        except UnavailableError as error:
            if isinstance(error, OutcomeUnknownError):
                lease.unconfirmed = new
            self._count(errors)
            raise

    def _still_ours(self, lease: Lease, current: Partition | None) -> Partition:
        """The item to build the next write on. Owners are unique to an acquisition, so an item with ours was written here and the response
        was lost. Otherwise the lease is lost: raises its error."""
        if current is not None and current.owner == lease.owner:
            return current
        error: LeaseError
        if current is None:
            self._count(Metric.NOT_FOUND)
            error = PartitionNotFoundError(f"the partition is gone key={lease.key} fence={lease.fence}")
        else:
            self._count(Metric.NOT_OWNED)
            now = f"status={current.status} version={current.version} owner={current.owner}"
            error = PartitionNotOwnedError(f"another worker changed the partition key={lease.key} fence={lease.fence} {now}")
        lease.mark_lost(error)
        raise error

    def _update_error(self, lease: Lease, errors: Metric | None) -> PartitionUpdateError:
        self._count(errors)
        return PartitionUpdateError(f"the item keeps changing key={lease.key} fence={lease.fence}")

    def _check_size(self, lease: Lease, state: str, errors: Metric | None) -> None:
        if (size := len(state.encode())) > MAX_STATE_BYTES:
            self._count(errors)
            raise PartitionUpdateError(f"a state must have at most {MAX_STATE_BYTES} bytes key={lease.key} bytes={size}")

    def _count(self, metric: Metric | None) -> None:
        if metric:
            self._metrics.count(metric)

    def _from_now(self) -> tuple[float, int]:
        """When the holder stops to trust a lease that is written now, by the monotonic clock, and the timeout to store. Read before the
        request is sent."""
        trusted_s = self._terms.timeout_s - self._terms.margin_s
        return self._clock.monotonic_s() + trusted_s, self._clock.now_ms() + self._terms.timeout_ms

    def _stamped(self, partition: Partition) -> Partition:
        return self._store.item_ttl.stamped(partition, self._clock.now_ms())


def _same_ending(one: Partition, other: Partition) -> bool:
    """Whether both end the lease with the same status; times may differ."""
    return one.owner is None and other.owner is None and one.status is other.status


class StopSignal(Protocol):
    """Ends the wait of a heartbeat; ``threading.Event`` is one."""

    def wait(self, timeout: float) -> bool:
        """True once it is set, False after ``timeout`` seconds."""

    def set(self) -> None:
        """End the wait."""


class Heartbeat:
    """Context manager with a thread that renews ``leases()`` three times during their timeout.

    A failed renewal is soon repeated; the work learns of a lost or expired lease by ``Lease.check``. The thread raises no error.
    """

    def __init__(
        self, renew: Callable[[Lease], None], leases: Callable[[], Iterable[Lease]], timeout_s: float, stop: StopSignal
    ) -> None:
        self._renew, self._leases, self._interval_s, self._stop = renew, leases, timeout_s / RENEWALS_PER_LEASE, stop
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join()

    def renew_due(self) -> bool:
        """Renew each lease whose last write is older than half an interval. False if one has to be retried soon."""
        due = [lease for lease in self._leases() if not lease.is_over and lease.age_s() >= self._interval_s / 2]
        return all(in_parallel(self._try, sorted(due, key=Lease.remaining_s)))

    def _run(self) -> None:
        well = True
        while not self._stop.wait(self._interval_s if well else self._interval_s / RETRY_SPEEDUP):
            well = self.renew_due()

    def _try(self, lease: Lease) -> bool:
        try:
            self._renew(lease)
        except RunlakeError as error:
            lease.renewal_error = error
            return lease.is_over  # no retry for a lost lease
        return True

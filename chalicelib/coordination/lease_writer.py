"""What is written of a partition from the moment that a node takes it until it lets go."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Protocol, Self

from chalicelib.coordination.lease import Lease, LeaseTerms
from chalicelib.coordination.metrics import Metric, Metrics
from chalicelib.coordination.partition import Partition, new_partition
from chalicelib.coordination.store import ConditionFailed, PartitionStore, in_parallel, resolve_outcome
from chalicelib.errors import (
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

MAX_STATE_BYTES = 300_000
"""An item of DynamoDB has 400 KB."""
_MAX_REBASES = 3
_MAX_TRIES = 4

Change = Callable[[Partition], Partition]


class LeaseWriter:
    """Conditional writes, each certain of its outcome; every lease knows what was last written under it."""

    def __init__(
        self, store: PartitionStore, terms: LeaseTerms, clock: Clock, metrics: Metrics, new_owner: Callable[[], str]
    ) -> None:
        self._store, self._terms, self._clock, self._metrics, self._new_owner = store, terms, clock, metrics, new_owner

    def acquire(self, free: Partition) -> Lease | None:
        """A lease of exactly this item, as it was read; None: it has changed since. One request."""
        trusted_until_s, timeout_ms = self._from_now()
        taken = self._stamped(free.assigned(self._new_owner(), timeout_ms))
        refused = resolve_outcome(lambda: self._store.replace(free, taken), lambda current: current == taken, self._clock)
        return None if refused else Lease(taken, trusted_until_s, self._clock)

    def create_acquired(self, new: Partition) -> Lease | ConditionFailed:
        """A lease of an item that is made with it. One request."""
        trusted_until_s, timeout_ms = self._from_now()
        taken = self._stamped(new.assigned(self._new_owner(), timeout_ms))
        refused = resolve_outcome(lambda: self._store.create(taken), lambda current: current == taken, self._clock)
        return refused or Lease(taken, trusted_until_s, self._clock)

    def acquire_by_key(self, source: str, key: str, is_free: Callable[[Partition], bool]) -> Lease | Partition:
        """The lease of the partition of this key, which is created if there is none: one request, or two if it exists and is free.
        Otherwise the partition as it is. Raises InvalidInputError, and StoreUnavailableError if others keep changing it."""
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
        raise StoreUnavailableError(f"others keep changing the partition key={key} tries={_MAX_TRIES}")

    def renew(self, lease: Lease) -> None:
        """Hold it for another ``timeout_s``. One request; none for a lease that is over."""
        with lease.lock:
            if not lease.is_over:
                self._extend(lease, lambda partition: partition, None)

    def save(self, lease: Lease, state: str) -> None:
        """Store a state, and renew."""
        with lease.lock:
            lease.check_not_over()
            self._check_size(lease, state, Metric.SAVE_STATE_ERRORS)
            self._extend(lease, lambda partition: partition.with_state(state), Metric.SAVE_STATE_ERRORS)

    def end(self, lease: Lease, change: Change, errors: Metric | None = None) -> Partition:
        """Let go of it by ``change``. If the answer is lost for good, the same call again finds out what became of it."""
        with lease.lock:
            lease.check_not_over()
            ended = self._write(lease, change, errors)
            lease.mark_ended(ended)
            return ended

    def delete(self, lease: Lease) -> None:
        """Let go of it by removing the item; one that is gone already is a success."""
        with lease.lock:
            lease.check_not_over()
            old = lease.partition
            for _ in range(_MAX_REBASES):
                refused = self._removed(old)
                if refused is None:
                    lease.mark_ended(old)
                    return
                old = self._still_ours(lease, refused.current)
            raise self._stubborn(lease, None)

    def _removed(self, old: Partition) -> ConditionFailed | None:
        def is_gone(current: Partition | None) -> bool:
            """Versions only grow: a lower one is of an item that was created since."""
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
        raise self._stubborn(lease, errors)

    def _replaced(self, lease: Lease, old: Partition, new: Partition, errors: Metric | None) -> ConditionFailed | None:
        def is_ours(current: Partition | None) -> bool:
            """What this call wrote, or what an earlier one let go of without learning it."""
            return current is not None and (current == new or (current == lease.unconfirmed and _are_alike(current, new)))

        try:
            return resolve_outcome(lambda: self._store.replace(old, new), is_ours, self._clock)
        except UnavailableError as error:
            if isinstance(error, OutcomeUnknownError):
                lease.unconfirmed = new
            self._count(errors)
            raise

    def _still_ours(self, lease: Lease, current: Partition | None) -> Partition:
        """What to go on from: an owner is one acquisition's alone, so what bears it was written here, and its answer was lost."""
        if current is not None and current.owner == lease.owner:
            return current
        error: LeaseError
        if current is None:
            self._count(Metric.NOT_FOUND)
            error = PartitionNotFoundError(f"the partition is gone key={lease.key} fence={lease.fence}")
        else:
            self._count(Metric.NOT_OWNED)
            now = f"status={current.status} version={current.version} owner={current.owner}"
            error = PartitionNotOwnedError(f"the partition is not ours any more key={lease.key} fence={lease.fence} {now}")
        lease.mark_lost(error)
        raise error

    def _stubborn(self, lease: Lease, errors: Metric | None) -> PartitionUpdateError:
        self._count(errors)
        return PartitionUpdateError(f"the item keeps changing under its owner key={lease.key} fence={lease.fence}")

    def _check_size(self, lease: Lease, state: str, errors: Metric | None) -> None:
        if (size := len(state.encode())) > MAX_STATE_BYTES:
            self._count(errors)
            raise PartitionUpdateError(f"a state has at most {MAX_STATE_BYTES} bytes key={lease.key} bytes={size}")

    def _count(self, metric: Metric | None) -> None:
        if metric:
            self._metrics.count(metric)

    def _from_now(self) -> tuple[float, int]:
        """Until when a lease written now is trusted, and what is stored as its timeout. Taken before the request is sent."""
        trusted_s = self._terms.timeout_s - self._terms.margin_s
        return self._clock.monotonic_s() + trusted_s, self._clock.now_ms() + self._terms.timeout_ms

    def _stamped(self, partition: Partition) -> Partition:
        return self._store.item_ttl.stamped(partition, self._clock.now_ms())


def _are_alike(one: Partition, other: Partition) -> bool:
    """Whether both let go of the partition in the same way; when exactly does not matter."""
    return one.owner is None and other.owner is None and one.status is other.status


RENEWALS_PER_LEASE = 3
"""Renewals in the time of a lease."""
RETRY_SPEEDUP = 5
"""How much sooner the next one comes after one that failed."""


class StopSignal(Protocol):
    """How a heartbeat waits: as ``threading.Event`` does."""

    def wait(self, timeout: float) -> bool:
        """True at once when it was set, False after ``timeout`` seconds."""

    def set(self) -> None:
        """No more waiting."""


class Heartbeat:
    """A context: inside it, a thread renews ``leases()`` three times in the time of a lease.

    A renewal that fails is tried again soon, until the lease can't be trusted any more; a lease that is lost stays lost. Either way the
    work learns it from ``Lease.check``. Nothing is raised from here.
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
        """Renew what was not written lately. Whether all went well."""
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
            return lease.is_over  # a lost lease needs no haste
        return True

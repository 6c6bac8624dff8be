"""Shares the partitions of a source among nodes: only the holder of a partition's lease works on it. See docs/decisions/0012."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from datetime import timedelta
from random import Random
from typing import Any

from chalicelib.coordination.candidates import Candidate, CandidatePool, SearchBudget
from chalicelib.coordination.creation import PartitionCreator, Supplier
from chalicelib.coordination.lease import Change, Heartbeat, Lease, LeaseTerms, LeaseWriter, StopSignal, new_owner
from chalicelib.coordination.metrics import Metric, Metrics, RecordMetric
from chalicelib.coordination.partition import Partition, Status, WorkSource, encode_state
from chalicelib.coordination.store import PartitionStore, in_parallel
from chalicelib.errors import LeaseError, NotInitializedError, RunlakeError
from chalicelib.ports import Clock


class SourceCoordinator:
    """Coordinator of one node for one source. Thread-safe. ``record`` receives the metrics.

    Every method raises StoreUnavailableError when the store does not respond (nothing was done), OutcomeUnknownError when a write may have
    been applied (the same call again resolves it), NotInitializedError before ``initialize`` and after ``shutdown``. Methods with a lease
    raise PartitionNotOwnedError or PartitionNotFoundError when it is lost, and PartitionUpdateError when the store rejects the write
    although the lease is valid; the latter does not end the lease.
    """

    def __init__(
        self,
        store: PartitionStore,
        source: WorkSource,
        clock: Clock,
        record: RecordMetric,
        *,
        terms: LeaseTerms | None = None,
        random: Random | None = None,
        owner_factory: Callable[[], str] = new_owner,
        stop_factory: Callable[[], StopSignal] = threading.Event,
    ) -> None:
        self._store, self._partitions, self._clock, self._stops = store, source.partitions, clock, stop_factory
        self._terms = terms or LeaseTerms()
        self._metrics = Metrics(source.name, record)
        self._writer = LeaseWriter(store, self._terms, clock, self._metrics, owner_factory)
        self._candidates = CandidatePool(store, source.partitions, self._terms, clock, random or Random())
        self._creator = PartitionCreator(
            store, source, self._writer, clock, self._metrics, self._candidates.is_free, self.heartbeat
        )
        self._leases: set[Lease] = set()
        self._lock = threading.Lock()
        self._is_ready = False

    def initialize(self) -> None:
        """Prepare the store and the source's global item; safe to repeat and to run on several nodes at once. One read if both exist.
        Raises InvalidConfigurationError."""
        self._store.initialize()
        self._creator.ensure_global_item()
        self._is_ready = True

    def next_partition(self, supplier: Supplier | None = None) -> Lease | None:
        """Acquire a free partition; None when there is none.

        If none is free and no other node runs the supplier, the supplier runs with the map that all nodes share, under a separate lease.
        Partitions are created for its keys, which may repeat earlier ones, and the map is saved, but not if it raises. Raises
        PartitionNotOwnedError when that lease was lost meanwhile: the created partitions remain, the map was not saved.
        """
        self._check_ready()
        budget = SearchBudget()
        leases = self._acquire(1, budget)
        if not leases and supplier and not budget.is_exhausted:
            leases = self._acquire_or_create(supplier)
        self._count_acquired(leases)
        return leases[0] if leases else None

    def run_supplier(self, supplier: Supplier) -> bool:
        """Run the supplier and create its partitions even if others are free. False if another node runs one now; then it did not run."""
        self._check_ready()
        with self._creator.creation_lease() as lock:
            if lock is None:
                return False
            self._creator.run_supplier(lock, supplier)
        return True

    def acquire_many(self, count: int) -> list[Lease]:
        """Acquire up to ``count`` free partitions. A query of the index serves 25 of them; writes are parallel. If one fails, the acquired
        leases are released and its error is raised."""
        self._check_ready()
        leases = self._acquire(count, SearchBudget())
        self._count_acquired(leases)
        return leases

    def acquire(self, key: str, may_take: Callable[[Partition], bool] = lambda _: False) -> Lease | Partition:
        """Acquire the partition of this key, which is created if there is none: one write, or two if it exists and is free or ``may_take``
        allows to take it nevertheless. Otherwise returns the partition: leased by another, completed, or closed."""
        self._check_ready()

        def is_free(partition: Partition) -> bool:
            return self._candidates.is_free(partition) or may_take(partition)

        acquired = self._writer.acquire_by_key(self._partitions, key, is_free)
        if isinstance(acquired, Lease):
            self._track_or_release([acquired])
        self._count_acquired([acquired] if isinstance(acquired, Lease) else [])
        return acquired

    def create_partitions(self, keys: Iterable[str]) -> list[str]:
        """Create waiting partitions for those keys that have no item in any status, and return these keys. One write each, in parallel;
        after an error some may exist: repeat the call. Raises InvalidInputError."""
        self._check_ready()
        return self._creator.create(keys)

    def save_state(self, lease: Lease, state: Any) -> None:
        """Store progress (a JSON value of up to 300 KB) for the next holder of the partition, and renew the lease."""
        self._check_ready()
        self._write(lease, lambda: self._writer.save(lease, encode_state(state)))
        self._metrics.count(Metric.STATES_SAVED)

    def renew(self, lease: Lease) -> None:
        """Extend the lease by ``timeout_s`` from now."""
        self._check_ready()
        self._write(lease, lambda: self._writer.renew(lease))

    def complete(self, lease: Lease) -> None:
        """Complete the partition. A repeat with the same lease is a no-op."""
        self._check_ready()
        if lease.is_over and lease.partition.status is Status.COMPLETED:
            return
        self._end(lease, lambda partition: partition.completed(), Metric.COMPLETE_ERRORS)
        self._metrics.count(Metric.COMPLETED)

    def close(self, lease: Lease, reopen_after: timedelta, max_closed: int, state: Any = None) -> Status:
        """Close the partition until ``reopen_after`` has passed, or complete it the ``max_closed``th time, and return the new status. A
        ``state`` is stored with the same write; None leaves the stored one."""
        self._check_ready()
        reopen_ms = self._clock.now_ms() + reopen_after // timedelta(milliseconds=1)
        text = None if state is None else encode_state(state)

        def closed(partition: Partition) -> Partition:
            return (partition if text is None else partition.with_state(text)).closed(reopen_ms, max_closed)

        status = self._end(lease, closed, Metric.CLOSE_ERRORS)
        self._metrics.count(Metric.CLOSED if status is Status.CLOSED else Metric.COMPLETED)
        return status

    def release(self, lease: Lease) -> bool:
        """Return the partition unfinished: free for any node at once, behind all waiting ones. False if the lease was already over."""
        self._check_ready()
        return self._release(lease)

    def complete_and_delete(self, lease: Lease) -> None:
        """Complete the work and delete the item, so that the key can be created again. The fences of a new item start from the beginning."""
        self._check_ready()
        self._write(lease, lambda: self._writer.delete(lease))
        self._candidates.removed(lease.key)
        self._metrics.count(Metric.COMPLETED)

    def leases(self) -> list[Lease]:
        """The current leases of this node."""
        with self._lock:
            self._leases = {lease for lease in self._leases if not lease.is_over}
            return list(self._leases)

    def heartbeat(self, *leases: Lease) -> Heartbeat:
        """Context manager with a thread that renews these leases, or by default all of this node."""
        return Heartbeat(self._writer.renew, (lambda: leases) if leases else self.leases, self._terms.timeout_s, self._stops())

    def shutdown(self) -> None:
        """Release all leases, then raise the first error. Leases that could not be released expire."""
        with self._lock:
            self._is_ready = False
        errors = [error for error in in_parallel(self._release_quietly, self.leases()) if error]
        if errors:
            raise errors[0]

    def _acquire(self, count: int, budget: SearchBudget) -> list[Lease]:
        taken: list[Lease] = []

        def take(candidate: Candidate) -> None:
            if lease := self._take(candidate):
                taken.append(lease)

        try:
            while len(taken) < count and (batch := self._candidates.take(count - len(taken), budget)):
                try:
                    in_parallel(take, batch)
                finally:
                    self._candidates.done(batch)
        except BaseException:
            in_parallel(self._release_quietly, taken)
            raise
        self._track_or_release(taken)
        return taken

    def _track_or_release(self, taken: list[Lease]) -> None:
        try:
            self._track(taken)
        except NotInitializedError:
            in_parallel(self._release_quietly, taken)
            raise

    def _track(self, taken: list[Lease]) -> None:
        with self._lock:
            self._check_ready()  # a concurrent shutdown did not release these
            self._leases.update(taken)

    def _take(self, candidate: Candidate) -> Lease | None:
        lease = None if self._is_outdated(candidate) else self._writer.acquire(candidate.partition)
        (self._candidates.won if lease else self._candidates.lost)(candidate)
        return lease

    def _is_outdated(self, candidate: Candidate) -> bool:
        """Under contention, a read before the write costs less than a rejected write."""
        if not candidate.scan.is_contested:
            return False
        seen = candidate.partition
        now = self._store.get(seen.source, seen.key)
        return now is None or now.version != seen.version

    def _acquire_or_create(self, supplier: Supplier) -> list[Lease]:
        leases: list[Lease] = []
        try:
            with self._creator.creation_lease() as lock:
                if lock is None:
                    return []
                leases = self._acquire(1, SearchBudget(checked_urgent=True))  # created by another node before this lease
                if not leases:
                    self._creator.run_supplier(lock, supplier)
        except BaseException:
            in_parallel(self._release_quietly, leases)
            raise
        return leases or self._acquire(1, SearchBudget(checked_urgent=True))

    def _count_acquired(self, leases: list[Lease]) -> None:
        self._metrics.count(Metric.ACQUIRED, len(leases))
        if not leases:
            self._metrics.count(Metric.NONE_ACQUIRED)

    def _end(self, lease: Lease, change: Change, errors: Metric) -> Status:
        self._write(lease, lambda: self._writer.end(lease, change, errors))
        return lease.partition.status

    def _release(self, lease: Lease) -> bool:
        try:
            self._write(lease, lambda: self._writer.end(lease, lambda partition: partition.released(self._clock.now_ms())))
        except LeaseError:
            if not lease.is_over:
                raise
            return False
        self._metrics.count(Metric.RELEASED)
        return True

    def _release_quietly(self, lease: Lease) -> RunlakeError | None:
        try:
            self._release(lease)
        except RunlakeError as error:
            return error
        return None

    def _write(self, lease: Lease, write: Callable[[], object]) -> None:
        try:
            write()
        finally:
            if lease.is_over:
                with self._lock:
                    self._leases.discard(lease)

    def _check_ready(self) -> None:
        if not self._is_ready:
            raise NotInitializedError("the coordinator was not initialized, or was shut down")

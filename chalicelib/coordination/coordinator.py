"""Work is partitions; whoever holds the lease of one works it, and nobody else. See docs/decisions/0012."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from datetime import timedelta
from random import Random
from typing import Any

from chalicelib.coordination.candidates import Candidate, CandidatePool, SearchBudget
from chalicelib.coordination.creation import PartitionCreator, Supplier
from chalicelib.coordination.lease import Lease, LeaseTerms, new_owner
from chalicelib.coordination.lease_writer import Change, Heartbeat, LeaseWriter, StopSignal
from chalicelib.coordination.metrics import Metric, Metrics, RecordMetric
from chalicelib.coordination.partition import Partition, Status, WorkSource
from chalicelib.coordination.schema import encode_state
from chalicelib.coordination.store import PartitionStore, in_parallel
from chalicelib.errors import LeaseError, NotInitializedError, RunlakeError
from chalicelib.ports import Clock


class SourceCoordinator:
    """One node's part in sharing out the work of a source. Threads may share it. ``record`` takes the figures.

    Every method raises StoreUnavailableError when the store does not answer (nothing was done), OutcomeUnknownError when a write may have
    been applied (the same call again finds out), NotInitializedError before ``initialize`` and after ``shutdown``. Those that take a
    lease raise PartitionNotOwnedError, PartitionNotFoundError when it is lost, PartitionUpdateError when the store refuses what is to be
    written although it holds; the last leaves the lease as it is.
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
        """Make the store and the source's global item ready. Any number of nodes may, at once and again. Raises
        InvalidConfigurationError. A read, where all is there."""
        self._store.initialize()
        self._creator.ensure_global_item()
        self._is_ready = True

    def next_partition(self, supplier: Supplier | None = None) -> Lease | None:
        """The lease of a partition that is free; None when there is none.

        If nothing is free and nobody else does so, the supplier is run with the map that all nodes share, under a lease of its own; the
        partitions that it names are created, the map is saved. If it raises, the map stays as it was. Its names may come again.
        Raises PartitionNotOwnedError when that lease was lost meanwhile: what was created counts, the map was not saved.
        """
        self._check_ready()
        search = SearchBudget()
        found = self._acquire(1, search)
        if not found and supplier and not search.is_contested:
            found = self._acquire_or_create(supplier)
        self._count_acquired(found)
        return found[0] if found else None

    def run_supplier(self, supplier: Supplier) -> bool:
        """Create what the supplier names, whatever is free already. False when another node is at it, and it was not run."""
        self._check_ready()
        with self._creator.creation_lease() as lock:
            if lock is None:
                return False
            self._creator.run_supplier(lock, supplier)
        return True

    def acquire_many(self, count: int) -> list[Lease]:
        """Leases of up to ``count`` partitions that are free. A look at the index serves 25; the writes go beside each other. If one of
        them fails, what was acquired is given up, and the error raised."""
        self._check_ready()
        found = self._acquire(count, SearchBudget())
        self._count_acquired(found)
        return found

    def acquire(self, key: str, may_take: Callable[[Partition], bool] = lambda _: False) -> Lease | Partition:
        """The lease of the partition of this key, which is made if there is none: one write; two where it is there and free, or ``may_take``
        says that it can be had all the same. Else the partition as it is: another's, completed, or to be opened later."""
        self._check_ready()

        def is_free(partition: Partition) -> bool:
            return self._candidates.is_free(partition) or may_take(partition)

        found = self._writer.acquire_by_key(self._partitions, key, is_free)
        if isinstance(found, Lease):
            self._keep_or_give_up([found])
        self._count_acquired([found] if isinstance(found, Lease) else [])
        return found

    def create_partitions(self, keys: Iterable[str]) -> list[str]:
        """Partitions that wait, for those keys that have none yet, whatever its status. Answers the keys that were created. One write
        each, a few at once; after an error some may be created: repeat it. Raises InvalidInputError."""
        self._check_ready()
        return self._creator.create(keys)

    def save_state(self, lease: Lease, state: Any) -> None:
        """Store progress (what JSON can say, up to 300 KB) for whoever works the partition next, and renew the lease."""
        self._check_ready()
        self._tracked(lease, lambda: self._writer.save(lease, encode_state(state)))
        self._metrics.count(Metric.STATES_SAVED)

    def renew(self, lease: Lease) -> None:
        """Hold on to it for another ``timeout_s``."""
        self._check_ready()
        self._tracked(lease, lambda: self._writer.renew(lease))

    def complete(self, lease: Lease) -> None:
        """The work is done. Once more with the same lease is a no-op."""
        self._check_ready()
        if lease.is_over and lease.partition.status is Status.COMPLETED:
            return
        self._end(lease, lambda partition: partition.completed(), Metric.COMPLETE_ERRORS)
        self._metrics.count(Metric.COMPLETED)

    def close(self, lease: Lease, reopen_after: timedelta, max_closed: int, state: Any = None) -> Status:
        """Not now: free again after ``reopen_after``. The ``max_closed``th time it is completed instead. Answers which of the two. A
        ``state`` is stored along with it, in the same write; None leaves the one that is there."""
        self._check_ready()
        reopen_ms = self._clock.now_ms() + reopen_after // timedelta(milliseconds=1)
        text = None if state is None else encode_state(state)

        def closed(partition: Partition) -> Partition:
            return (partition if text is None else partition.with_state(text)).closed(reopen_ms, max_closed)

        status = self._end(lease, closed, Metric.CLOSE_ERRORS)
        self._metrics.count(Metric.CLOSED if status is Status.CLOSED else Metric.COMPLETED)
        return status

    def release(self, lease: Lease) -> bool:
        """Free for anybody at once, behind what waits. False when it was not held any more."""
        self._check_ready()
        return self._give_up(lease)

    def complete_and_delete(self, lease: Lease) -> None:
        """The work is done, and may come again under the same key: the item is removed. Fences begin anew with the next one."""
        self._check_ready()
        self._tracked(lease, lambda: self._writer.delete(lease))
        self._candidates.removed(lease.key)
        self._metrics.count(Metric.COMPLETED)

    def leases(self) -> list[Lease]:
        """The leases that this node has now."""
        with self._lock:
            self._leases = {lease for lease in self._leases if not lease.is_over}
            return list(self._leases)

    def heartbeat(self, *leases: Lease) -> Heartbeat:
        """A context: inside it a thread renews these leases, or all that this node holds, until it is left."""
        return Heartbeat(self._writer.renew, (lambda: leases) if leases else self.leases, self._terms.timeout_s, self._stops())

    def shutdown(self) -> None:
        """Give up everything held. Each is tried; then the first error is raised. What could not be given up ends by itself."""
        with self._lock:
            self._is_ready = False
        errors = [error for error in in_parallel(self._give_up_quietly, self.leases()) if error]
        if errors:
            raise errors[0]

    def _acquire(self, count: int, search: SearchBudget) -> list[Lease]:
        taken: list[Lease] = []

        def take(candidate: Candidate) -> None:
            if lease := self._take(candidate):
                taken.append(lease)

        try:
            while len(taken) < count and (batch := self._candidates.take(count - len(taken), search)):
                try:
                    in_parallel(take, batch)
                finally:
                    self._candidates.done(batch)
        except BaseException:
            in_parallel(self._give_up_quietly, taken)
            raise
        self._keep_or_give_up(taken)
        return taken

    def _keep_or_give_up(self, taken: list[Lease]) -> None:
        try:
            self._keep(taken)
        except NotInitializedError:
            in_parallel(self._give_up_quietly, taken)
            raise

    def _keep(self, taken: list[Lease]) -> None:
        with self._lock:
            self._check_ready()  # a shutdown meanwhile saw none of these
            self._leases.update(taken)

    def _take(self, candidate: Candidate) -> Lease | None:
        lease = None if self._is_gone(candidate) else self._writer.acquire(candidate.partition)
        (self._candidates.won if lease else self._candidates.lost)(candidate)
        return lease

    def _is_gone(self, candidate: Candidate) -> bool:
        """Where many are at the same candidates, a read before the write costs less than a write that is refused."""
        if not candidate.scan.is_contested:
            return False
        seen = candidate.partition
        now = self._store.get(seen.source, seen.key)
        return now is None or now.version != seen.version

    def _acquire_or_create(self, supplier: Supplier) -> list[Lease]:
        found: list[Lease] = []
        try:
            with self._creator.creation_lease() as lock:
                if lock is None:
                    return []
                found = self._acquire(1, SearchBudget(checked_urgent=True))  # what another created before this turn
                if not found:
                    self._creator.run_supplier(lock, supplier)
        except BaseException:
            in_parallel(self._give_up_quietly, found)
            raise
        return found or self._acquire(1, SearchBudget(checked_urgent=True))

    def _count_acquired(self, found: list[Lease]) -> None:
        self._metrics.count(Metric.ACQUIRED, len(found))
        if not found:
            self._metrics.count(Metric.NONE_ACQUIRED)

    def _end(self, lease: Lease, change: Change, errors: Metric) -> Status:
        self._tracked(lease, lambda: self._writer.end(lease, change, errors))
        return lease.partition.status

    def _give_up(self, lease: Lease) -> bool:
        try:
            self._tracked(lease, lambda: self._writer.end(lease, lambda partition: partition.released(self._clock.now_ms())))
        except LeaseError:
            if not lease.is_over:
                raise
            return False
        self._metrics.count(Metric.RELEASED)
        return True

    def _give_up_quietly(self, lease: Lease) -> RunlakeError | None:
        try:
            self._give_up(lease)
        except RunlakeError as error:
            return error
        return None

    def _tracked(self, lease: Lease, write: Callable[[], object]) -> None:
        try:
            write()
        finally:
            if lease.is_over:
                with self._lock:
                    self._leases.discard(lease)

    def _check_ready(self) -> None:
        if not self._is_ready:
            raise NotInitializedError("the coordinator was not initialized, or was shut down")

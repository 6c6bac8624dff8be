"""Creation of partitions: from a list of keys, or by a supplier that one node at a time may run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from chalicelib.coordination.lease import Heartbeat, Lease, LeaseWriter
from chalicelib.coordination.metrics import Metric, Metrics
from chalicelib.coordination.partition import GLOBAL_KEY, Partition, WorkSource, encode_state, new_partition
from chalicelib.coordination.store import PartitionStore, in_parallel, resolve_outcome
from chalicelib.errors import LeaseError, RunlakeError
from chalicelib.ports import Clock

Supplier = Callable[[dict[str, Any]], Iterable[str]]
"""Returns the keys of all partitions to create, in the order of their work. It may change its argument, the map that nodes share."""


class PartitionCreator:
    """``is_free``: whether the global item may be leased; ``heartbeat`` renews that lease."""

    def __init__(
        self,
        store: PartitionStore,
        source: WorkSource,
        writer: LeaseWriter,
        clock: Clock,
        metrics: Metrics,
        is_free: Callable[[Partition], bool],
        heartbeat: Callable[[Lease], Heartbeat],
    ) -> None:
        self._store, self._source, self._writer, self._clock, self._metrics = store, source, writer, clock, metrics
        self._is_free, self._heartbeat = is_free, heartbeat

    def create(self, keys: Iterable[str]) -> list[str]:
        """Create the partitions that do not exist yet and return their keys in order. Raises InvalidInputError before any request."""
        first_us = self._clock.now_ms() * 1000
        unique = list(dict.fromkeys(keys))
        wanted = [new_partition(self._source.partitions, key, first_us + number) for number, key in enumerate(unique)]
        created = in_parallel(self._created, wanted)
        self._metrics.count(Metric.CREATED, sum(created))
        return [partition.key for partition, is_new in zip(wanted, created, strict=True) if is_new]

    def ensure_global_item(self) -> Partition:
        """The global item, created if there is none."""
        source = self._source.global_state
        while not (found := self._store.get(source, GLOBAL_KEY)):
            self._created(new_partition(source, GLOBAL_KEY, self._clock.now_ms() * 1000))
        return found

    @contextmanager
    def creation_lease(self) -> Iterator[Lease | None]:
        """Context of the lease on the right to create partitions; None when another node has it."""
        item = self.ensure_global_item()
        lock = self._writer.acquire(item) if self._is_free(item) else None
        try:
            yield lock
        except BaseException as error:
            if lock and not lock.is_over:
                self._release_after(error, lock)
            raise
        if lock and not lock.is_over:
            self._release(lock)

    def run_supplier(self, lock: Lease, supplier: Supplier) -> None:
        """Run the supplier, create its partitions, save the map and release the lease."""
        state = lock.state
        shared = dict(state) if isinstance(state, dict) else {}
        with self._heartbeat(lock):
            self._metrics.count(Metric.SUPPLIER_INVOCATIONS)
            self.create(supplier(shared))
        text = encode_state(shared)
        self._writer.end(lock, lambda item: item.with_state(text).released(self._clock.now_ms()))

    def _created(self, new: Partition) -> bool:
        stamped = self._store.item_ttl.stamped(new, self._clock.now_ms())
        return resolve_outcome(lambda: self._store.create(stamped), lambda current: current == stamped, self._clock) is None

    def _release(self, lock: Lease) -> None:
        with suppress(LeaseError):  # lost to another node
            self._writer.end(lock, lambda item: item.released(self._clock.now_ms()))

    def _release_after(self, error: BaseException, lock: Lease) -> None:
        try:
            self._release(lock)
        except RunlakeError as second:
            error.add_note(f"the lease on the creation of partitions could not be released and has to expire: {second}")

"""The lease of a partition that is known by its key: for who plans the work itself, and takes it in an order of its own."""

from __future__ import annotations

from collections.abc import Callable

from chalicelib.coordination.lease import Lease
from chalicelib.coordination.partition import Partition, new_partition
from chalicelib.coordination.tenure import LeaseWriter
from chalicelib.errors import StoreUnavailableError
from chalicelib.ports import Clock

_TRIES = 4


def acquire_by_key(
    writer: LeaseWriter, source: str, key: str, is_free: Callable[[Partition], bool], clock: Clock
) -> Lease | Partition:
    """The lease of this partition, which is made if there is none: one request; two where it is there and free. Else the partition as it
    is. Raises InvalidInputError, and StoreUnavailableError when others keep changing it."""
    for _ in range(_TRIES):
        begun = writer.create_acquired(new_partition(source, key, clock.now_ms() * 1000))
        if isinstance(begun, Lease):
            return begun
        current = begun.current
        if current is None:
            continue  # gone since
        if not is_free(current):
            return current
        if lease := writer.acquire(current):
            return lease
    raise StoreUnavailableError(f"others keep changing the partition key={key} tries={_TRIES}")

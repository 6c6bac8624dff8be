"""Source coordination: leases that share partitions of work among nodes, in items compatible with Data Prepper. See docs/decisions/0012."""

from __future__ import annotations

from chalicelib.coordination.administration import Administration
from chalicelib.coordination.coordinator import SourceCoordinator
from chalicelib.coordination.lease import Lease, LeaseTerms
from chalicelib.coordination.memory import InMemoryPartitionStore
from chalicelib.coordination.partition import ItemTtl, Partition, Status, WorkSource
from chalicelib.errors import (
    NotInitializedError,
    PartitionNotFoundError,
    PartitionNotOwnedError,
    PartitionUpdateError,
    StoreUnavailableError,
)

__all__ = [
    "Administration",
    "InMemoryPartitionStore",
    "ItemTtl",
    "Lease",
    "LeaseTerms",
    "NotInitializedError",
    "Partition",
    "PartitionNotFoundError",
    "PartitionNotOwnedError",
    "PartitionUpdateError",
    "SourceCoordinator",
    "Status",
    "StoreUnavailableError",
    "WorkSource",
]

"""Source coordination: which node works which partition of work, item-compatible with Data Prepper. See docs/decisions/0012."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from chalicelib.coordination.dynamodb import DynamoDbPartitionStore

__all__ = [
    "Administration",
    "DynamoDbPartitionStore",
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


def __getattr__(name: str) -> Any:
    """``DynamoDbPartitionStore`` when it is asked for: boto3 is most of a cold start."""
    if name == "DynamoDbPartitionStore":
        from chalicelib.coordination.dynamodb import DynamoDbPartitionStore

        return DynamoDbPartitionStore
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

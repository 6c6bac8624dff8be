"""Source coordination: which node works which partition of work, item-compatible with Data Prepper. See docs/decisions/0012."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chalicelib.coordination.administration import Administration
from chalicelib.coordination.coordinator import SourceCoordinator
from chalicelib.coordination.lease import Lease, LeaseTerms
from chalicelib.coordination.memory import InMemoryStore
from chalicelib.coordination.partition import Partition, Retention, Source, Status
from chalicelib.errors import (
    NotInitializedError,
    PartitionNotFoundError,
    PartitionNotOwnedError,
    PartitionUpdateError,
    StoreUnavailableError,
)

if TYPE_CHECKING:
    from chalicelib.coordination.dynamodb import DynamoDbStore

__all__ = [
    "Administration",
    "DynamoDbStore",
    "InMemoryStore",
    "Lease",
    "LeaseTerms",
    "NotInitializedError",
    "Partition",
    "PartitionNotFoundError",
    "PartitionNotOwnedError",
    "PartitionUpdateError",
    "Retention",
    "Source",
    "SourceCoordinator",
    "Status",
    "StoreUnavailableError",
]


def __getattr__(name: str) -> Any:
    """``DynamoDbStore`` when it is asked for: boto3 is most of a cold start."""
    if name == "DynamoDbStore":
        from chalicelib.coordination.dynamodb import DynamoDbStore

        return DynamoDbStore
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

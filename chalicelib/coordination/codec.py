"""Partitions as rows of the table, attribute by attribute as Data Prepper lays them out. Attributes without a value are left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chalicelib.coordination.instants import format_timestamp, parse_timestamp_ms
from chalicelib.coordination.partition import Partition, Status
from chalicelib.errors import DamagedPartitionError

SOURCE, KEY = "sourceIdentifier", "sourcePartitionKey"
COMBINATION, PRIORITY = "sourceStatusCombinationKey", "partitionPriority"
STATUS, OWNER, VERSION = "sourcePartitionStatus", "partitionOwner", "version"
TIMEOUT, REOPEN = "partitionOwnershipTimeout", "reOpenAt"
STATE, CLOSED_COUNT, EXPIRATION = "partitionProgressState", "closedCount", "expirationTime"
INDEX = "source-status"
_OURS = frozenset({
    SOURCE, KEY, COMBINATION, PRIORITY, STATUS, OWNER, VERSION, TIMEOUT, REOPEN, STATE, CLOSED_COUNT, EXPIRATION,
})  # fmt: skip

Row = Mapping[str, Any]


def index_key(source: str, status: Status) -> str:
    """The hash key of the index."""
    return f"{source}|{status}"


def to_row(partition: Partition) -> dict[str, Any]:
    """What is stored of a partition."""
    row = {
        SOURCE: partition.source,
        KEY: partition.key,
        COMBINATION: index_key(partition.source, partition.status),
        PRIORITY: partition.priority or None,
        STATUS: str(partition.status),
        OWNER: partition.owner,
        TIMEOUT: _instant(partition.timeout_ms),
        REOPEN: _instant(partition.reopen_ms),
        STATE: partition.state,
        CLOSED_COUNT: partition.closed_count,
        VERSION: partition.version,
        EXPIRATION: partition.expires_s,
    }
    return {**partition.other, **{name: value for name, value in row.items() if value is not None}}


def from_row(row: Row) -> Partition:
    """The partition that a row tells of. Raises DamagedPartitionError."""
    try:
        return Partition(
            source=row[SOURCE],
            key=row[KEY],
            status=Status(row[STATUS]),
            priority=row.get(PRIORITY) or "",
            owner=row.get(OWNER),
            timeout_ms=_parsed(row.get(TIMEOUT)),
            reopen_ms=_parsed(row.get(REOPEN)),
            state=row.get(STATE),
            closed_count=int(row.get(CLOSED_COUNT) or 0),
            version=int(row[VERSION]),
            expires_s=row.get(EXPIRATION),
            other={name: value for name, value in row.items() if name not in _OURS},
        )
    except (KeyError, ValueError, TypeError) as error:
        where = f"source={row.get(SOURCE)!r} key={row.get(KEY)!r}"
        raise DamagedPartitionError(f"an item cannot be read: {type(error).__name__} {error} {where}") from error


def _instant(ms: int | None) -> str | None:
    return None if ms is None else format_timestamp(ms)


def _parsed(text: str | None) -> int | None:
    return None if text is None else parse_timestamp_ms(text)

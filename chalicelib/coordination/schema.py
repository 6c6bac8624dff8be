"""The DynamoDB table in Data Prepper's layout: attributes, rows, the ``create_table`` request and the permissions that it needs.

A partition's attribute without a value is left out of its row.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chalicelib.coordination.partition import Partition, Status, format_timestamp, parse_timestamp_ms
from chalicelib.errors import DamagedPartitionError

SOURCE, KEY = "sourceIdentifier", "sourcePartitionKey"
COMBINATION, PRIORITY = "sourceStatusCombinationKey", "partitionPriority"
STATUS, OWNER, VERSION = "sourcePartitionStatus", "partitionOwner", "version"
TIMEOUT, REOPEN = "partitionOwnershipTimeout", "reOpenAt"
STATE, CLOSED_COUNT, EXPIRATION = "partitionProgressState", "closedCount", "expirationTime"
INDEX = "source-status"
_ATTRIBUTES = frozenset({
    SOURCE, KEY, COMBINATION, PRIORITY, STATUS, OWNER, VERSION, TIMEOUT, REOPEN, STATE, CLOSED_COUNT, EXPIRATION,
})  # fmt: skip

Row = Mapping[str, Any]


def index_key(source: str, status: Status) -> str:
    """The hash key of the index."""
    return f"{source}|{status}"


def to_row(partition: Partition) -> dict[str, Any]:
    """The row of a partition."""
    row = {
        SOURCE: partition.source,
        KEY: partition.key,
        COMBINATION: index_key(partition.source, partition.status),
        PRIORITY: partition.priority or None,
        STATUS: str(partition.status),
        OWNER: partition.owner,
        TIMEOUT: _timestamp(partition.timeout_ms),
        REOPEN: _timestamp(partition.reopen_ms),
        STATE: partition.state,
        CLOSED_COUNT: partition.closed_count,
        VERSION: partition.version,
        EXPIRATION: partition.expires_s,
    }
    return {**partition.other, **{name: value for name, value in row.items() if value is not None}}


def from_row(row: Row) -> Partition:
    """The partition of a row. Raises DamagedPartitionError."""
    try:
        return Partition(
            source=row[SOURCE],
            key=row[KEY],
            status=Status(row[STATUS]),
            priority=row.get(PRIORITY) or "",
            owner=row.get(OWNER),
            timeout_ms=_parse(row.get(TIMEOUT)),
            reopen_ms=_parse(row.get(REOPEN)),
            state=row.get(STATE),
            closed_count=int(row.get(CLOSED_COUNT) or 0),
            version=int(row[VERSION]),
            expires_s=row.get(EXPIRATION),
            other={name: value for name, value in row.items() if name not in _ATTRIBUTES},
        )
    except (KeyError, ValueError, TypeError) as error:
        where = f"source={row.get(SOURCE)!r} key={row.get(KEY)!r}"
        raise DamagedPartitionError(f"the item is damaged: {type(error).__name__} {error} {where}") from error


def _timestamp(ms: int | None) -> str | None:
    return None if ms is None else format_timestamp(ms)


def _parse(text: str | None) -> int | None:
    return None if text is None else parse_timestamp_ms(text)


TTL_ATTRIBUTE = EXPIRATION
DEFAULT_CAPACITY_UNITS = 10


@dataclass(frozen=True, slots=True)
class Capacity:
    """Provisioned capacity of the table, and the same again of its index. None in its place means on demand."""

    read_units: int = DEFAULT_CAPACITY_UNITS
    write_units: int = DEFAULT_CAPACITY_UNITS


def create_table_request(name: str, capacity: Capacity | None) -> dict[str, Any]:
    """The arguments of ``create_table``."""
    provisioned = (
        {"ProvisionedThroughput": {"ReadCapacityUnits": capacity.read_units, "WriteCapacityUnits": capacity.write_units}}
        if capacity
        else {}
    )
    return {
        "TableName": name,
        "AttributeDefinitions": [{"AttributeName": each, "AttributeType": "S"} for each in (SOURCE, KEY, COMBINATION, PRIORITY)],
        "KeySchema": _keys(SOURCE, KEY),
        "GlobalSecondaryIndexes": [
            {
                "IndexName": INDEX,
                "KeySchema": _keys(COMBINATION, PRIORITY),
                "Projection": {"ProjectionType": "ALL"},
                **provisioned,
            }
        ],
        "BillingMode": "PROVISIONED" if capacity else "PAY_PER_REQUEST",
        **provisioned,
    }


def _keys(hash_: str, range_: str) -> list[dict[str, str]]:
    return [{"AttributeName": hash_, "KeyType": "HASH"}, {"AttributeName": range_, "KeyType": "RANGE"}]


def encode_state(state: Any) -> str:
    """A state as JSON text. Raises TypeError or ValueError for a value without JSON form: a mistake of the program."""
    return json.dumps(state, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


ACTIONS = (
    "dynamodb:DescribeTimeToLive",
    "dynamodb:UpdateTimeToLive",
    "dynamodb:DescribeTable",
    "dynamodb:CreateTable",
    "dynamodb:GetItem",
    "dynamodb:PutItem",
    "dynamodb:DeleteItem",  # ours: complete_and_delete() removes items
    "dynamodb:Query",
)
SETUP_ACTIONS = frozenset(ACTIONS[:4])
"""Needed only if the coordinator creates the table or ``ttl`` is set."""


def permissions(region: str, account: str, table: str, *, partition: str = "aws") -> dict[str, Any]:
    """The policy statement for a role that creates and uses the table: Data Prepper's, and ``DeleteItem``."""
    arn = f"arn:{partition}:dynamodb:{region}:{account}:table/{table}"
    return {
        "Sid": "ReadWriteSourceCoordinationDynamoStore",
        "Effect": "Allow",
        "Action": list(ACTIONS),
        "Resource": [arn, f"{arn}/index/{INDEX}"],
    }

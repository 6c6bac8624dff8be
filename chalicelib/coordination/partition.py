"""Partitions of work as immutable items, their changes, and their rows in the DynamoDB table, which has Data Prepper's layout.

A change is a new item with the next version; a conditional write (``store``) decides whether it takes effect. Times are ms since the
epoch, UTC. Priorities follow Data Prepper: the present on creation, the ownership timeout while assigned, ``reopen_ms`` while closed,
unchanged on completion. Only a released partition differs: it gets the present, because with its old timeout it would sort behind the
new partitions of the next ten minutes.

Timestamps are ISO-8601 in UTC with ``Z`` and always six digits, so that their texts sort as the times do.

A partition's attribute without a value is left out of its row.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from chalicelib.errors import DamagedPartitionError, InvalidConfigurationError, InvalidInputError
from chalicelib.ports import MAX_SORT_KEY_BYTES, is_sort_key

GLOBAL_KEY = "GLOBAL_STATE_SOURCE_PARTITION_KEY_FOR_CREATING_PARTITIONS"
"""Key of the item whose lease is the right to create partitions. Its state is the map that all suppliers share."""
_MAX_NAME_CHARS = 255
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Status(StrEnum):
    """Status of a partition: waiting, leased, waiting for a later time, done."""

    UNASSIGNED = "UNASSIGNED"
    ASSIGNED = "ASSIGNED"
    CLOSED = "CLOSED"
    COMPLETED = "COMPLETED"


@dataclass(frozen=True, slots=True)
class WorkSource:
    """A source of work: the name of a (sub-)pipeline, and a prefix that separates clusters with a common store."""

    name: str
    prefix: str = ""

    def __post_init__(self) -> None:
        for part in (self.name, self.prefix):
            if "|" in part or len(part) > _MAX_NAME_CHARS:
                raise InvalidConfigurationError(
                    f"a source name must have at most {_MAX_NAME_CHARS} characters, without | name={part!r}"
                )
        if not self.name:
            raise InvalidConfigurationError("a source needs a name name=''")

    @property
    def partitions(self) -> str:
        """The ``sourceIdentifier`` of its partitions."""
        return self._identifier("PARTITION")

    @property
    def global_state(self) -> str:
        """The ``sourceIdentifier`` of its global item."""
        return self._identifier("GLOBAL_STATE")

    def _identifier(self, type_: str) -> str:
        return "|".join(part for part in (self.prefix, self.name, type_) if part)


@dataclass(frozen=True, slots=True)
class Partition:
    """One item. ``state`` is JSON text; ``expires_s`` seconds since the epoch; ``other`` has foreign attributes, which writes preserve."""

    source: str
    key: str
    status: Status
    priority: str
    owner: str | None = None
    timeout_ms: int | None = None
    reopen_ms: int | None = None
    state: str | None = None
    closed_count: int = 0
    version: int = 0
    expires_s: int | None = None
    other: Mapping[str, Any] = field(default_factory=dict)

    def assigned(self, owner: str, timeout_ms: int) -> Partition:
        """Leased by ``owner`` until ``timeout_ms``."""
        return self._next(
            status=Status.ASSIGNED, owner=owner, timeout_ms=timeout_ms, reopen_ms=None, priority=format_timestamp(timeout_ms)
        )

    def renewed(self, timeout_ms: int) -> Partition:
        """Leased for longer; the timeout never moves back."""
        until_ms = max(timeout_ms, self.timeout_ms or 0)
        return self._next(timeout_ms=until_ms, priority=format_timestamp(until_ms))

    def with_state(self, state: str) -> Partition:
        """With another state and the same version, for use in a further change."""
        return replace(self, state=state)

    def completed(self) -> Partition:
        """Done."""
        return self._released(Status.COMPLETED)

    def closed(self, reopen_ms: int, max_closed: int) -> Partition:
        """Closed until ``reopen_ms``; completed instead when this is the ``max_closed``th time."""
        counted = replace(self, closed_count=self.closed_count + 1)
        if counted.closed_count >= max_closed:
            return counted.completed()
        return counted._released(Status.CLOSED, reopen_ms=reopen_ms, priority=format_timestamp(reopen_ms))

    def released(self, now_ms: int) -> Partition:
        """Free for any node, behind all partitions that wait now."""
        return self._released(Status.UNASSIGNED, priority=format_timestamp(now_ms))

    def retried(self, now_ms: int) -> Partition:
        """Free for any node, closed 0 times, with its state."""
        return replace(self.released(now_ms), closed_count=0)

    def _released(self, status: Status, **changes: Any) -> Partition:
        return self._next(**{"status": status, "owner": None, "timeout_ms": None, "reopen_ms": None} | changes)

    def _next(self, **changes: Any) -> Partition:
        return replace(self, version=self.version + 1, **changes)


def new_partition(source: str, key: str, now_us: int) -> Partition:
    """A new unassigned partition. Raises InvalidInputError for a key that DynamoDB cannot store."""
    if not is_sort_key(key):
        raise InvalidInputError(f"a partition key must have 1 to {MAX_SORT_KEY_BYTES} bytes of UTF-8 key={key[:80]!r}")
    return Partition(source, key, Status.UNASSIGNED, format_timestamp_us(now_us))


@dataclass(frozen=True, slots=True)
class ItemTtl:
    """DynamoDB's time to live of items: ``ttl_s`` after their last change, for completed partitions, or for all if ``everything``.

    The global item never expires. Without ``ttl_s`` no item does, and the application has to delete completed ones.
    """

    ttl_s: int | None = None
    everything: bool = False

    def stamped(self, partition: Partition, now_ms: int) -> Partition:
        """The partition with the time after which DynamoDB may delete it, or with none."""
        expires = self.ttl_s is not None and (partition.status is Status.COMPLETED or self.everything)
        expires = expires and partition.key != GLOBAL_KEY
        return replace(partition, expires_s=now_ms // 1000 + (self.ttl_s or 0) if expires else None)


def format_timestamp(ms: int) -> str:
    """A time in ms as a timestamp."""
    return format_timestamp_us(ms * 1000)


def format_timestamp_us(us: int) -> str:
    """A time in microseconds as a timestamp."""
    return (_EPOCH + timedelta(microseconds=us)).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def upper_bound(ms: int) -> str:
    """A text that sorts at or behind every timestamp up to this time, those of Java included, which omit a fraction of zero: ``Z`` sorts
    behind a point. Later timestamps of the same second sort before it too."""
    return format_timestamp(ms)[:19] + "Z"


def parse_timestamp_us(text: str) -> int:
    """A timestamp in microseconds; further digits are cut (Java writes up to nine). Raises ValueError."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"the time has no time zone: {text!r}")
    return (moment - _EPOCH) // _MICROSECOND


def parse_timestamp_ms(text: str) -> int:
    """The inverse of ``format_timestamp``."""
    return parse_timestamp_us(text) // 1000


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

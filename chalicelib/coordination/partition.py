"""A partition of work as an immutable item, its changes, and timestamps as items store them.

A change is a new item with the next version; whether it takes effect is up to a conditional write (``store``). Times are ms since the
epoch, UTC. Priorities are Data Prepper's: now on creation, the ownership timeout while assigned, ``reopen_ms`` while closed, as it was
on completion; but now for a released one, which would sort behind new partitions of the next ten minutes.

Timestamps are ISO-8601 in UTC with ``Z`` and always six digits, so that their texts sort as the times do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from chalicelib.errors import InvalidConfigurationError, InvalidInputError
from chalicelib.ports import MAX_SORT_KEY_BYTES, is_sort_key

GLOBAL_KEY = "GLOBAL_STATE_SOURCE_PARTITION_KEY_FOR_CREATING_PARTITIONS"
"""The key of the one item that nodes take to create partitions; its state is the map that they share."""
_MAX_NAME_CHARS = 255
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Status(StrEnum):
    """Where a partition stands: waiting, being worked, waiting for a later time, done."""

    UNASSIGNED = "UNASSIGNED"
    ASSIGNED = "ASSIGNED"
    CLOSED = "CLOSED"
    COMPLETED = "COMPLETED"


@dataclass(frozen=True, slots=True)
class WorkSource:
    """Whose work: a (sub-)pipeline, and a prefix that tells clusters apart that share a store."""

    name: str
    prefix: str = ""

    def __post_init__(self) -> None:
        for part in (self.name, self.prefix):
            if "|" in part or len(part) > _MAX_NAME_CHARS:
                raise InvalidConfigurationError(
                    f"a source's name is at most {_MAX_NAME_CHARS} characters, none of them | name={part!r}"
                )
        if not self.name:
            raise InvalidConfigurationError("a source has a name name=''")

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
    """One item. ``state`` is JSON text; ``expires_s`` seconds since the epoch; ``other``: attributes that are not ours, kept as they are."""

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
        """Taken by ``owner`` until then."""
        return self._next(
            status=Status.ASSIGNED, owner=owner, timeout_ms=timeout_ms, reopen_ms=None, priority=format_timestamp(timeout_ms)
        )

    def renewed(self, timeout_ms: int) -> Partition:
        """Its owner's for longer; never for a shorter time than before."""
        until_ms = max(timeout_ms, self.timeout_ms or 0)
        return self._next(timeout_ms=until_ms, priority=format_timestamp(until_ms))

    def with_state(self, state: str) -> Partition:
        """With another state, not yet written: the version stays."""
        return replace(self, state=state)

    def completed(self) -> Partition:
        """Done."""
        return self._released(Status.COMPLETED)

    def closed(self, reopen_ms: int, max_closed: int) -> Partition:
        """Put off until then; done when that has happened ``max_closed`` times."""
        counted = replace(self, closed_count=self.closed_count + 1)
        if counted.closed_count >= max_closed:
            return counted.completed()
        return counted._released(Status.CLOSED, reopen_ms=reopen_ms, priority=format_timestamp(reopen_ms))

    def released(self, now_ms: int) -> Partition:
        """Anybody's, behind all that waits now."""
        return self._released(Status.UNASSIGNED, priority=format_timestamp(now_ms))

    def retried(self, now_ms: int) -> Partition:
        """As if new, but with its state."""
        return replace(self.released(now_ms), closed_count=0)

    def _released(self, status: Status, **changes: Any) -> Partition:
        return self._next(**{"status": status, "owner": None, "timeout_ms": None, "reopen_ms": None} | changes)

    def _next(self, **changes: Any) -> Partition:
        return replace(self, version=self.version + 1, **changes)


def new_partition(source: str, key: str, now_us: int) -> Partition:
    """A partition that waits. Raises InvalidInputError for a key that DynamoDB cannot hold."""
    if not is_sort_key(key):
        raise InvalidInputError(f"a partition's key has 1 to {MAX_SORT_KEY_BYTES} bytes of utf-8 key={key[:80]!r}")
    return Partition(source, key, Status.UNASSIGNED, format_timestamp_us(now_us))


@dataclass(frozen=True, slots=True)
class ItemTtl:
    """How long items are kept: for ``ttl_s`` after their last change, only completed ones unless ``everything``. The global item stays.

    Without ``ttl_s`` nothing expires: whoever is done with completed items removes them.
    """

    ttl_s: int | None = None
    everything: bool = False

    def stamped(self, partition: Partition, now_ms: int) -> Partition:
        """The partition with the time at which DynamoDB may remove it, or without."""
        expires = self.ttl_s is not None and (partition.status is Status.COMPLETED or self.everything)
        expires = expires and partition.key != GLOBAL_KEY
        return replace(partition, expires_s=now_ms // 1000 + (self.ttl_s or 0) if expires else None)


def format_timestamp(ms: int) -> str:
    """A time in ms as text."""
    return format_timestamp_us(ms * 1000)


def format_timestamp_us(us: int) -> str:
    """A time in microseconds as text."""
    return (_EPOCH + timedelta(microseconds=us)).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def upper_bound(ms: int) -> str:
    """A text at or behind the texts of all instants up to this one, whoever wrote them: Java leaves out a fraction of zero, and ``Z``
    sorts behind a point. Later ones of the same second are before it too."""
    return format_timestamp(ms)[:19] + "Z"


def parse_timestamp_us(text: str) -> int:
    """The inverse: microseconds; further digits (Java writes up to nine) are cut. Raises ValueError."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"no zone: {text!r}")
    return (moment - _EPOCH) // _MICROSECOND


def parse_timestamp_ms(text: str) -> int:
    """The inverse of ``format_timestamp``."""
    return parse_timestamp_us(text) // 1000

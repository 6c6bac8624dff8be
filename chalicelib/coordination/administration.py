"""Operations on partitions for operators: list, retry, release. They need neither ``initialize`` nor a lease."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from chalicelib.coordination.partition import Partition, Status, WorkSource
from chalicelib.coordination.store import PAGE_SIZE, ConditionFailed, IndexPosition, PartitionQuery, PartitionStore, resolve_outcome
from chalicelib.errors import InvalidCursorError, PartitionNotFoundError, PartitionUpdateError
from chalicelib.ports import Clock, is_sort_key

_MAX_TRIES = 5


@dataclass(frozen=True, slots=True)
class PartitionPage:
    """Partitions in order of priority; ``cursor`` of the next page, None if this is the last."""

    partitions: Sequence[Partition]
    cursor: str | None


class Administration:
    """Operations on the partitions of one source."""

    def __init__(self, store: PartitionStore, source: WorkSource, clock: Clock) -> None:
        self._store, self._source, self._clock = store, source.partitions, clock

    def list(self, status: Status, *, limit: int = PAGE_SIZE, cursor: str | None = None) -> PartitionPage:
        """Partitions of a status, oldest priority first, from the index, which may lag behind recent changes. One request. Raises
        InvalidCursorError."""
        after = read_cursor(cursor) if cursor else None
        found, more = self._store.query(PartitionQuery(self._source, status, after=after, limit=limit))
        return PartitionPage(found, write_cursor(more) if more else None)

    def get(self, key: str) -> Partition:
        """The current partition. Raises PartitionNotFoundError."""
        if is_sort_key(key) and (found := self._store.get(self._source, key)):
            return found
        raise PartitionNotFoundError(f"no such partition key={key}")

    def retry(self, key: str) -> Partition:
        """Make a closed or completed partition available at once, with its state and a closed count of 0; a waiting or leased one does not
        change. Returns the resulting partition. Raises PartitionNotFoundError."""
        return self._changed(key, (Status.CLOSED, Status.COMPLETED), Partition.retried)

    def release(self, key: str) -> Partition:
        """Take an assigned partition from its owner, whose later writes fail; any other does not change. Returns the resulting partition.
        Raises PartitionNotFoundError."""
        return self._changed(key, (Status.ASSIGNED,), Partition.released)

    def _changed(self, key: str, statuses: tuple[Status, ...], change: Callable[[Partition, int], Partition]) -> Partition:
        current: Partition | None = self.get(key)
        for _ in range(_MAX_TRIES):
            if current is None:
                raise PartitionNotFoundError(f"no such partition key={key}")
            if current.status not in statuses:
                return current
            now_ms = self._clock.now_ms()
            old, new = current, self._store.item_ttl.stamped(change(current, now_ms), now_ms)
            refused = self._replaced(old, new)
            if not refused:
                return new
            current = refused.current
        raise PartitionUpdateError(f"the partition keeps changing key={key}")

    def _replaced(self, old: Partition, new: Partition) -> ConditionFailed | None:
        return resolve_outcome(lambda: self._store.replace(old, new), lambda current: current == new, self._clock)


def write_cursor(position: IndexPosition) -> str:
    """A position as an opaque text."""
    return urlsafe_b64encode(json.dumps([position.priority, position.key]).encode()).decode().rstrip("=")


def read_cursor(cursor: str) -> IndexPosition:
    """The position of a cursor. Raises InvalidCursorError."""
    try:
        priority, key = json.loads(urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        if is_sort_key(priority) and is_sort_key(key):
            return IndexPosition(priority, key)
    except (ValueError, TypeError, RecursionError):
        pass
    raise InvalidCursorError(f"invalid cursor: omit it to start from the first page cursor={cursor[:40]!r}")

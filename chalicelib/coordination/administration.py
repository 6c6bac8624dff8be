"""What an operator does with partitions: look, try again, take away. It needs no ``initialize`` and takes no lease."""

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
    """Partitions in order of priority; ``cursor`` leads to the next page, None: there is none."""

    partitions: Sequence[Partition]
    cursor: str | None


class Administration:
    """Over the partitions of one source."""

    def __init__(self, store: PartitionStore, source: WorkSource, clock: Clock) -> None:
        self._store, self._source, self._clock = store, source.partitions, clock

    def list(self, status: Status, *, limit: int = PAGE_SIZE, cursor: str | None = None) -> PartitionPage:
        """Partitions of a status, oldest priority first, by the index: what changed a moment ago may be missing or old. One request.
        Raises InvalidCursorError."""
        after = read_cursor(cursor) if cursor else None
        found, more = self._store.query(PartitionQuery(self._source, status, after=after, limit=limit))
        return PartitionPage(found, write_cursor(more) if more else None)

    def get(self, key: str) -> Partition:
        """A partition as it is now. Raises PartitionNotFoundError."""
        if is_sort_key(key) and (found := self._store.get(self._source, key)):
            return found
        raise PartitionNotFoundError(f"no such partition key={key}")

    def retry(self, key: str) -> Partition:
        """Let a closed or completed partition be worked again at once, counted from 0, with the state that it has; one that waits or is
        worked stays as it is. Answers what is there then. Raises PartitionNotFoundError."""
        return self._changed(key, (Status.CLOSED, Status.COMPLETED), Partition.retried)

    def release(self, key: str) -> Partition:
        """Take an assigned partition from its owner, whose later writes fail; any other stays as it is. Answers what is there then.
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


def write_cursor(place: IndexPosition) -> str:
    """A place as an opaque text."""
    return urlsafe_b64encode(json.dumps([place.priority, place.key]).encode()).decode().rstrip("=")


def read_cursor(cursor: str) -> IndexPosition:
    """The inverse. Raises InvalidCursorError."""
    try:
        priority, key = json.loads(urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        if is_sort_key(priority) and is_sort_key(key):
            return IndexPosition(priority, key)
    except (ValueError, TypeError, RecursionError):
        pass
    raise InvalidCursorError(f"the cursor was not made here: leave it out to begin anew cursor={cursor[:40]!r}")

"""The default partition store: in memory, for one process. Same semantics as the DynamoDB table; partitions are copies of its rows."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any

from chalicelib.coordination.partition import COMBINATION, KEY, PRIORITY, SOURCE, ItemTtl, Partition, from_row, index_key, to_row
from chalicelib.coordination.store import ConditionFailed, IndexPosition, PartitionQuery

_Entry = tuple[str, str]
_LAST = "\U0010ffff"


class InMemoryPartitionStore:
    """Rows by source and key, and an index by status that never lags. One lock makes each write atomic."""

    def __init__(self, item_ttl: ItemTtl | None = None) -> None:
        self._retention = item_ttl or ItemTtl()
        self._rows: dict[tuple[str, str], dict[str, Any]] = {}
        self._index: dict[str, list[_Entry]] = defaultdict(list)
        self._lock = Lock()

    @property
    def item_ttl(self) -> ItemTtl:
        """See the port."""
        return self._retention

    def initialize(self) -> None:
        """See the port: nothing to do."""

    def get(self, source: str, key: str) -> Partition | None:
        """See the port."""
        with self._lock:
            return self._get(source, key)

    def query(self, query: PartitionQuery) -> tuple[Sequence[Partition], IndexPosition | None]:
        """See the port."""
        with self._lock:
            entries = self._index[index_key(query.source, query.status)]
            page, more = _page(entries, *_bounds(entries, query), query)
            partitions = [from_row(self._rows[query.source, key]) for _, key in page]
        return partitions, IndexPosition(*page[-1]) if more and page else None

    def create(self, new: Partition) -> ConditionFailed | None:
        """See the port."""
        with self._lock:
            if current := self._get(new.source, new.key):
                return ConditionFailed(current)
            self._put(to_row(new))
            return None

    def replace(self, old: Partition, new: Partition) -> ConditionFailed | None:
        """See the port."""
        with self._lock:
            current = self._get(old.source, old.key)
            if not _is_same(current, old):
                return ConditionFailed(current)
            self._put(to_row(new))
            return None

    def delete(self, old: Partition) -> ConditionFailed | None:
        """See the port."""
        with self._lock:
            current = self._get(old.source, old.key)
            if not _is_same(current, old):
                return ConditionFailed(current)
            self._remove(old.source, old.key)
            return None

    def rows(self) -> list[dict[str, Any]]:
        """All rows, as in the table."""
        with self._lock:
            return [dict(row) for row in self._rows.values()]

    def put_row(self, row: Mapping[str, Any]) -> None:
        """Store any row unchanged."""
        with self._lock:
            self._put(dict(row))

    def _get(self, source: str, key: str) -> Partition | None:
        row = self._rows.get((source, key))
        return from_row(row) if row else None

    def _put(self, row: dict[str, Any]) -> None:
        self._remove(row[SOURCE], row[KEY])
        self._rows[row[SOURCE], row[KEY]] = row
        if row.get(COMBINATION) and row.get(PRIORITY):
            insort(self._index[row[COMBINATION]], (row[PRIORITY], row[KEY]))

    def _remove(self, source: str, key: str) -> None:
        old = self._rows.pop((source, key), None)
        if old and old.get(COMBINATION) and old.get(PRIORITY):
            entries = self._index[old[COMBINATION]]
            entries.pop(bisect_left(entries, (old[PRIORITY], key)))


def _is_same(current: Partition | None, old: Partition) -> bool:
    """Whether a partition is unchanged. The version is not enough: a later item of the same key may have the same one."""
    return current is not None and (current.version, current.owner, current.priority) == (old.version, old.owner, old.priority)


def _bounds(entries: list[_Entry], query: PartitionQuery) -> tuple[int, int]:
    first = 0 if query.first is None else bisect_left(entries, (query.first, ""))
    last = len(entries) if query.last is None else bisect_right(entries, (query.last, _LAST))
    if query.after and query.newest_first:
        return first, min(last, bisect_left(entries, (query.after.priority, query.after.key)))
    if query.after:
        return max(first, bisect_right(entries, (query.after.priority, query.after.key))), last
    return first, last


def _page(entries: list[_Entry], first: int, last: int, query: PartitionQuery) -> tuple[list[_Entry], bool]:
    more = last - first > query.limit
    if query.newest_first:
        return entries[max(first, last - query.limit) : max(first, last)][::-1], more
    return entries[first : min(last, first + query.limit)], more

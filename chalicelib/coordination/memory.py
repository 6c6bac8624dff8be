"""``Store`` in one process's memory: the semantics of the table, for one node and for tests. It holds rows, and hands out no object of its own."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any

from chalicelib.coordination.codec import COMBINATION, KEY, PRIORITY, SOURCE, combination, from_row, to_row
from chalicelib.coordination.partition import Partition, Retention
from chalicelib.coordination.store import Look, Place, Refused

_Entry = tuple[str, str]
_LAST = "\U0010ffff"


class InMemoryStore:
    """Rows by source and key, and an index by status that never lags. One lock makes each write atomic."""

    def __init__(self, retention: Retention | None = None) -> None:
        self._retention = retention or Retention()
        self._rows: dict[tuple[str, str], dict[str, Any]] = {}
        self._index: dict[str, list[_Entry]] = defaultdict(list)
        self._lock = Lock()

    @property
    def retention(self) -> Retention:
        """See the port."""
        return self._retention

    def initialize(self) -> None:
        """See the port: nothing to do."""

    def get(self, source: str, key: str) -> Partition | None:
        """See the port."""
        with self._lock:
            return self._found(source, key)

    def look(self, look: Look) -> tuple[Sequence[Partition], Place | None]:
        """See the port."""
        with self._lock:
            entries = self._index[combination(look.source, look.status)]
            page, more = _page(entries, *_bounds(entries, look), look)
            found = [from_row(self._rows[look.source, key]) for _, key in page]
        return found, Place(*page[-1]) if more and page else None

    def create(self, new: Partition) -> Refused | None:
        """See the port."""
        with self._lock:
            if current := self._found(new.source, new.key):
                return Refused(current)
            self._put(to_row(new))
            return None

    def replace(self, old: Partition, new: Partition) -> Refused | None:
        """See the port."""
        with self._lock:
            current = self._found(old.source, old.key)
            if not _is_same(current, old):
                return Refused(current)
            self._put(to_row(new))
            return None

    def delete(self, old: Partition) -> Refused | None:
        """See the port."""
        with self._lock:
            current = self._found(old.source, old.key)
            if not _is_same(current, old):
                return Refused(current)
            self._remove(old.source, old.key)
            return None

    def rows(self) -> list[dict[str, Any]]:
        """Every row, as the table would hold it."""
        with self._lock:
            return [dict(row) for row in self._rows.values()]

    def put_row(self, row: Mapping[str, Any]) -> None:
        """Store a row as it is, whoever laid it out."""
        with self._lock:
            self._put(dict(row))

    def _found(self, source: str, key: str) -> Partition | None:
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
    """Whether a partition is still what was read: a version alone could be that of a later item of the same key."""
    return current is not None and (current.version, current.owner, current.priority) == (old.version, old.owner, old.priority)


def _bounds(entries: list[_Entry], look: Look) -> tuple[int, int]:
    first = 0 if look.first is None else bisect_left(entries, (look.first, ""))
    last = len(entries) if look.last is None else bisect_right(entries, (look.last, _LAST))
    if look.after and look.newest_first:
        return first, min(last, bisect_left(entries, (look.after.priority, look.after.key)))
    if look.after:
        return max(first, bisect_right(entries, (look.after.priority, look.after.key))), last
    return first, last


def _page(entries: list[_Entry], first: int, last: int, look: Look) -> tuple[list[_Entry], bool]:
    more = last - first > look.limit
    if look.newest_first:
        return entries[max(first, last - look.limit) : max(first, last)][::-1], more
    return entries[first : min(last, first + look.limit)], more

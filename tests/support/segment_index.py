"""``SegmentIndex`` in memory: the rows and order of the DynamoDB table."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import replace
from threading import Lock

from chalicelib.errors import RunDeletedError
from chalicelib.ports import DELETED, KeyClaim, Run, SegmentEntry, run_key
from tests.support.database import InMemoryDatabase
from tests.support.failures import Failures, can_fail

_LAST = 10**20


class InMemorySegmentIndex:
    """Rows by (line, segment number) for each run, and by session for batches with an Idempotency-Key. ``database`` has the rows of events, which
    are in the same table."""

    def __init__(self, database: InMemoryDatabase | None = None) -> None:
        self._database = database
        self._order: dict[Run, list[tuple[int, int]]] = {}
        self.failures = Failures()
        self._rows: dict[tuple[Run, int, int], SegmentEntry] = {}
        self._keyed: dict[tuple[Run, str], KeyClaim | SegmentEntry] = {}
        self._lock = Lock()

    def clear(self) -> None:
        """Delete all rows, as if the table was lost."""
        with self._lock:
            self._order.clear()
            self._rows.clear()
            self._keyed.clear()

    @can_fail
    def put(self, run: Run, entries: Sequence[SegmentEntry]) -> None:
        """See the port."""
        with self._lock:
            for entry in (replace(each, end=None) for each in entries):
                if (run, entry.line, entry.sequence) not in self._rows:
                    insort(self._order.setdefault(run, []), (entry.line, entry.sequence))
                self._rows[run, entry.line, entry.sequence] = entry
                if entry.is_keyed:
                    self._keyed[run, entry.session] = entry

    @can_fail
    def last(self, run: Run) -> SegmentEntry | None:
        """See the port."""
        return self._at_line(run, _LAST)

    @can_fail
    def at_line(self, run: Run, line: int) -> SegmentEntry | None:
        """See the port."""
        return self._at_line(run, line)

    @can_fail
    def rows_from(self, run: Run, line: int, sequence: int, limit: int) -> Sequence[SegmentEntry]:
        """See the port."""
        with self._lock:
            return [self._checked(run, place) for place in self._places(run, line, sequence, limit)]

    @can_fail
    def positions_from(self, run: Run, line: int, sequence: int, limit: int) -> Sequence[tuple[int, int]]:
        """See the port."""
        with self._lock:
            return [place for place in self._places(run, line, sequence, limit) if self._rows[run, *place].reason != DELETED]

    @can_fail
    def claim(self, run: Run, claim: KeyClaim, instead_of: int | None = None) -> KeyClaim | SegmentEntry:
        """See the port."""
        with self._lock:
            row = self._keyed.get((run, claim.session))
            if row is None or (isinstance(row, KeyClaim) and row.sequence == instead_of):
                row = self._keyed[run, claim.session] = claim
            return row

    @can_fail
    def forget(self, run: Run) -> int:
        """See the port."""
        with self._lock:
            places = [place for place in self._order.get(run, []) if self._rows[run, *place].reason != DELETED]
            keyed = [key for key in self._keyed if key[0] == run]
            for place in places:
                del self._rows[run, *place]
                self._order[run].remove(place)
            for key in keyed:
                del self._keyed[key]
            events = self._database.forget("events", run_key(run)) if self._database else 0
            return len(places) + len(keyed) + events

    def _at_line(self, run: Run, line: int) -> SegmentEntry | None:
        with self._lock:
            order = self._order.get(run, [])
            following = bisect_left(order, (line, _LAST))
            return self._checked(run, order[following - 1]) if following else None

    def _checked(self, run: Run, place: tuple[int, int]) -> SegmentEntry:
        entry = self._rows[run, *place]
        if entry.reason == DELETED:
            raise RunDeletedError(run.fqn, run.run_id)
        return entry

    def _places(self, run: Run, line: int, sequence: int, limit: int) -> Sequence[tuple[int, int]]:
        order = self._order.get(run, [])
        first = bisect_left(order, (line, sequence))
        return order[first : first + limit]

"""The latest file of each source, in a row of its own: one read, however old the file.

The row changes in the same transactions as the files. A writer that adds a file puts the row if the file is the latest, else it
checks that it is not: either way the transaction fails if the row has changed since it was read. A writer that removes the latest
file deletes the row, or puts an older version of the file, and settles the row afterwards: it puts the newest listed file, if that
is newer than the row's. Decision 0008 has the unsafe sequences.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from chalicelib.catalog.file_state import file_key
from chalicelib.catalog.files import FileRecord, latest_key
from chalicelib.catalog.search import FileQuery, Search
from chalicelib.catalog.timestamps import DAY_MS
from chalicelib.errors import PreconditionFailedError, WriteConflictError
from chalicelib.ports import Check, Clause, Database, Delete, Put, RowCondition, Write

AHEAD_MS = DAY_MS
"""A file that starts further ahead of now is not yet the latest: clocks are skewed, and start times come from clients."""
ATTEMPTS = 8
Source = tuple[str, str]
"""What and where."""
DocumentFilter = Callable[[dict[str, Any]], bool]

_START = ("metadata", "start")
_ID = ("metadata", "id")
_CREATED = ("create_time",)
_NONE: RowCondition = ((Clause(("what_where_key",), "absent"),),)


def _any_file(_: dict[str, Any]) -> bool:
    return True


class LatestFiles:
    """The table ``latest``; ``search`` finds the successor of a latest file that was removed."""

    def __init__(self, database: Database, search: Search) -> None:
        self._database, self._search = database, search

    def find(self, what: str, where: str, now_ms: int, is_visible: DocumentFilter = _any_file) -> FileRecord | None:
        """The record with the latest start that is at most a day ahead of ``now_ms``. One read; a query or two if the stored one
        is further ahead, or missing. ``is_visible`` accepts or rejects a document: if the latest is rejected, the first accepted
        one of the hundred newest."""
        record = self._stored([(what, where)]).get((what, where))
        if record is None or record.metadata.start > now_ms + AHEAD_MS:
            record = self._search.newest(what, where, now_ms + AHEAD_MS)
        return record if record is None or is_visible(record.document()) else self._newest_visible(what, where, now_ms, is_visible)

    def _newest_visible(self, what: str, where: str, now_ms: int, is_visible: DocumentFilter) -> FileRecord | None:
        query = FileQuery((what,), where, end_ms=now_ms + AHEAD_MS, newest_first=True)
        seen = [FileRecord.from_document(each) for each in self._search.page(query).documents if is_visible(each)]
        return max(seen, key=_age, default=None)

    def writes(self, gained: Sequence[FileRecord], lost: Sequence[FileRecord]) -> list[Write]:
        """Writes for the transaction that adds records (``gained``) and removes or backdates others (``lost``). One read."""
        sources = {record.source for record in (*gained, *lost)}
        stored = self._stored(sources)
        return [
            _write(
                source,
                stored.get(source),
                max((record for record in gained if record.source == source), key=_age, default=None),
                {record.id for record in gained if record.source == source},
                {record.id for record in lost if record.source == source},
            )
            for source in sorted(sources)
        ]

    def settle(self, what: str, where: str) -> None:
        """Put the newest listed file in the row. Raises WriteConflictError if the row keeps changing."""
        for _ in range(ATTEMPTS):
            stored, newest = self._stored([(what, where)]).get((what, where)), self._search.newest(what, where)
            if newest is None or (stored and stored.age >= newest.age):
                return
            is_listed: RowCondition = ((Clause(("document",), "=", newest.text()),),)
            try:
                self._database.transact([
                    Put(latest_key(what, where), newest.latest_row(), _is_stored(stored) if stored else _NONE),
                    Check(file_key(newest.id), is_listed),
                ])  # fmt: skip
                return
            except (PreconditionFailedError, WriteConflictError):
                continue
        raise WriteConflictError(f"the row of the latest file keeps changing what={what} where={where}")

    def _stored(self, sources: Iterable[Source]) -> dict[Source, FileRecord]:
        keys = {latest_key(*source): source for source in sources}
        rows = self._database.get_many(list(keys)) if keys else {}
        return {keys[key]: FileRecord.from_text(row["document"]) for key, row in rows.items()}


def _write(source: Source, stored: FileRecord | None, best: FileRecord | None, gained: set[str], lost: set[str]) -> Write:
    key = latest_key(*source)
    if stored is None:
        return Put(key, best.latest_row(), _NONE) if best else Check(key, _NONE)
    if stored.id in gained | lost:
        return Put(key, best.latest_row(), _is_stored(stored)) if best else Delete(key, _is_stored(stored))
    if best and best.age > stored.age:
        return Put(key, best.latest_row(), _is_stored(stored))
    is_other = tuple(Clause(_ID, "!=", each) for each in sorted(lost))
    return Check(key, tuple((*newer, *is_other) for newer in _not_older(best)) if best else (is_other,))


def _is_stored(stored: FileRecord) -> RowCondition:
    clauses = (
        Clause(_ID, "=", stored.id),
        Clause(_START, "=", stored.metadata.start),
        Clause(_CREATED, "=", stored.create_time),
    )
    return (clauses,)


def _not_older(best: FileRecord) -> RowCondition:
    """The row's file is at least as new as a record that is added."""
    same_start = Clause(_START, "=", best.metadata.start)
    return (
        (Clause(_START, ">", best.metadata.start),),
        (same_start, Clause(_CREATED, ">", best.create_time)),
        (same_start, Clause(_CREATED, "=", best.create_time)),
    )


def _age(record: FileRecord) -> tuple[int, int]:
    return record.age

"""Letting a file go: its row says so first, then the object goes, then the row. Broken off anywhere, the same again finishes it."""

from __future__ import annotations

from chalicelib.pipelines.files.rows import CONDEMNED, FileRow
from chalicelib.pipelines.files.table import applied
from chalicelib.ports import Database, ObjectStore


class Removal:
    """Removes files of one base."""

    def __init__(self, store: ObjectStore, database: Database) -> None:
        self._store, self._database = store, database

    def remove(self, row: FileRow) -> bool:
        """Remove a file, as far as nobody has changed its row meanwhile; False: somebody has, look again. At most three requests.

        As long as the row is there no other file takes its number, so the object that goes is the one that the row means."""
        if row.state != CONDEMNED:
            condemned, write = row.written(state=CONDEMNED, staged=None)
            if not applied(self._database, write):
                return False
            row = condemned
        self._store.delete(row.object_key)
        return applied(self._database, row.removed())

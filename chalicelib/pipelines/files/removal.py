"""Letting a file go: its row says so first, then the object goes, then the row. Broken off anywhere, the same again finishes it."""

from __future__ import annotations

from chalicelib.errors import ObjectNotFoundError, PreconditionFailedError
from chalicelib.pipelines.files.rows import CONDEMNED, FileRow
from chalicelib.pipelines.files.table import apply_write
from chalicelib.ports import Clock, Database, ObjectStore


class FileRemoval:
    """Removes files of one base."""

    def __init__(self, store: ObjectStore, database: Database, clock: Clock) -> None:
        self._store, self._database, self._clock = store, database, clock

    def remove(self, row: FileRow) -> bool:
        """Remove a file, as far as nobody has changed its row meanwhile; False: somebody has, look again. Three requests, five where the
        object is not as long as its row says.

        As long as the row is there no other file takes its number, so the object that goes is the one that the row means. It is deleted by its
        ETag: a request that S3 applies late, when the row is gone and the number is taken again, finds another object and leaves it."""
        if row.state != CONDEMNED:
            condemned, write = row.written(state=CONDEMNED, staged=None)
            if not apply_write(self._database, self._clock, write):
                return False
            row = condemned
        return self._delete_object(row) and apply_write(self._database, self._clock, row.removed())

    def _delete_object(self, row: FileRow) -> bool:
        if row.contents.etag:
            try:
                self._store.delete(row.object_key, if_match=row.contents.etag)
                return True
            except PreconditionFailedError:
                pass  # it goes on behind what counts, or it is gone
        try:
            self._store.delete(row.object_key, if_match=self._store.head(row.object_key).etag)
        except ObjectNotFoundError:
            return True
        except PreconditionFailedError:
            return False
        return True

"""Removes a file: first its row is marked as expiring, then the object is deleted, then the row. After an interruption, the same
call completes it.
"""

from __future__ import annotations

from chalicelib.errors import ObjectNotFoundError, PreconditionFailedError
from chalicelib.pipelines.files.rows import EXPIRING, FileRow
from chalicelib.pipelines.transactions import apply_write
from chalicelib.ports import Clock, Database, ObjectStore


class FileRemoval:
    """Removes files of one output set. ``has_versions``: their old versions and open uploads too; not of buckets that need a role, whose
    owners decide."""

    def __init__(self, store: ObjectStore, database: Database, clock: Clock, *, has_versions: bool = False) -> None:
        self._store, self._database, self._clock, self._has_versions = store, database, clock, has_versions

    def remove(self, row: FileRow) -> bool:
        """Remove a file, unless its row has changed meanwhile; False: it has, read it again. Three requests, five if the object's
        size differs from its row's.

        While the row exists no other file takes its number, so the deleted object is the row's. It is deleted by its ETag: a
        request that S3 applies late, after the row was removed and the number reused, meets another object and has no effect."""
        if row.state != EXPIRING:
            expiring, write = row.written(state=EXPIRING, staged=None)
            if not apply_write(self._database, self._clock, write):
                return False
            row = expiring
        if not self._delete_object(row):
            return False
        if self._has_versions:
            self._delete_versions(row.object_key)
            self._abort_uploads(row.object_key)
        return apply_write(self._database, self._clock, row.removed())

    def _delete_versions(self, key: str) -> None:
        """A LIST, and a request for 1,000."""
        while versions := [each for each in self._store.old_versions(key) if each.key == key]:
            self._store.delete_versions(versions)

    def _abort_uploads(self, key: str) -> None:
        """Of a handler that was killed while it appended to a large file: its part has the new events. A LIST, and a request for each."""
        for upload in self._store.open_uploads(key):
            if upload.key == key:
                self._store.abort_multipart(key, upload.upload_id)

    def _delete_object(self, row: FileRow) -> bool:
        if row.contents.etag:
            try:
                self._store.delete(row.object_key, if_match=row.contents.etag)
                return True
            except PreconditionFailedError:
                pass  # the object has uncommitted bytes, or is gone
        try:
            self._store.delete(row.object_key, if_match=self._store.head(row.object_key).etag)
        except ObjectNotFoundError:
            return True
        except PreconditionFailedError:
            return False
        return True

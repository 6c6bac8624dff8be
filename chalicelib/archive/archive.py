"""Files by their id: read from S3 under the datalake's key ``{id}/data``, even before ingestion, else by the catalog. The id of a catalogued
run's log is that log, whatever object claims it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from chalicelib.archive.contents import Contents, contents_of
from chalicelib.archive.objects import (
    ANNOUNCED_BYTES,
    DELETED,
    DELETED_TAGS,
    UPLOADED_BYTES,
    ArchiveObjects,
    metadata_of_object,
    object_ref,
)
from chalicelib.archive.uploads import EXPIRES_S
from chalicelib.catalog.file_ids import data_key, has_data_key, is_file_id
from chalicelib.catalog.file_state import FileState
from chalicelib.catalog.files import location_of
from chalicelib.catalog.metadata import NAME, Metadata, with_changes
from chalicelib.catalog.registration import Description, FileCatalogWriter
from chalicelib.deadline import Deadline
from chalicelib.errors import (
    InvalidMetadataError,
    NoSuchFileError,
    NotChangeableError,
    ObjectNotFoundError,
    PreconditionFailedError,
    StoreUnavailableError,
)
from chalicelib.ports import Clock, Condition, ObjectInfo, ObjectStore, PutOptions

_REWRITTEN_BYTES = 5 * 1024**2
"""Objects up to this size are read and rewritten; S3 copies larger ones: it accepts no smaller source of a part."""
_COPIED_BYTES = 1024**3
_FIXED = ("version", "id", "hash")
_LINK_MS = EXPIRES_S * 1000 + 300_000
"""How long after an upload its link may still work, by clocks that differ."""

Permit = Callable[[str, Metadata], None]
"""Called with a file's S3 URL and metadata before any effect or response. Its exceptions propagate."""


@dataclass(frozen=True, slots=True)
class _ArchivedObject:
    """A file's object and metadata."""

    bucket: str
    store: ObjectStore
    info: ObjectInfo
    metadata: Metadata


class Archive:
    """``stores`` by bucket: that of the archive, and that of the run logs, which are files too."""

    def __init__(
        self, objects: ArchiveObjects, stores: Mapping[str, ObjectStore], registration: FileCatalogWriter, clock: Clock
    ) -> None:
        self._objects, self._stores, self._registration, self._clock = objects, stores, registration, clock

    def metadata(self, file_id: str, permit: Permit) -> Metadata:
        """A file's metadata. A read of the catalog and one HEAD; a second one if the key is not ``{id}/data``. Raises
        ObjectNotFoundError."""
        return self._find(file_id, permit).metadata

    def contents(self, file_id: str, permit: Permit) -> Contents:
        """A file's bytes, or a URL for them. Raises ObjectNotFoundError."""
        file = self._find(file_id, permit)
        return contents_of(file.store, file.info, file.metadata)

    def change(self, file_id: str, changes: Mapping[str, Any], permit: Permit, permit_new: Callable[[Metadata], None]) -> Metadata:
        """Change a file's metadata: rewrites the object, with a server-side copy if it is large, and catalogues it at once.
        Calls ``permit`` with the current metadata and ``permit_new`` with the new. Raises InvalidMetadataError,
        ObjectNotFoundError, NotChangeableError, PreconditionFailedError (a concurrent writer was faster)."""
        file = self._changeable(file_id, permit)
        if fixed := [name for name in _FIXED if name in changes]:
            raise InvalidMetadataError(f"the field identifies the file and cannot be changed field={fixed[0]}")
        metadata = with_changes(file.metadata, changes, self._clock.now_ms())
        permit_new(metadata)
        kept = {UPLOADED_BYTES if name == ANNOUNCED_BYTES else name: value for name, value in file.info.metadata.items()}
        options = PutOptions(kept | {NAME: metadata.text()}, content_type=file.info.content_type or "binary/octet-stream")
        self._rewrite(file, options)
        self._catalogue(file)
        return metadata

    def delete(self, file_id: str, permit: Permit) -> None:
        """Delete a file for good, also a rejected upload, and its catalog rows at once. An empty object with the mark ``DELETED`` takes
        the place of an upload whose link may still work. Raises ObjectNotFoundError, NotChangeableError, PreconditionFailedError (the
        object was written again, or replaced)."""
        file = self._changeable(file_id, permit, verified=False)
        is_upload = bool({ANNOUNCED_BYTES, UPLOADED_BYTES} & file.info.metadata.keys())
        if is_upload and self._clock.now_ms() < file.info.last_modified_ms + _LINK_MS:
            options = PutOptions({DELETED: "1"}, tags=DELETED_TAGS)
            file.store.put(file.info.key, b"", options, Condition(if_match=file.info.etag))
        else:
            file.store.delete(file.info.key, if_match=file.info.etag)
        if self._catalogue(file).record:
            raise PreconditionFailedError(f"the object was written again while it was deleted id={file_id}")

    def _changeable(self, file_id: str, permit: Permit, *, verified: bool = True) -> _ArchivedObject:
        file = self._find(file_id, permit, verified=verified)
        if file.bucket != self._objects.bucket:
            raise NotChangeableError(f"the log of a run cannot be changed or deleted as a file id={file_id}")
        return file

    def _find(self, file_id: str, permit: Permit, *, verified: bool = True) -> _ArchivedObject:
        file = self._locate(file_id, verified=verified)
        permit(_url(file), file.metadata)
        return file

    def _locate(self, file_id: str, *, verified: bool) -> _ArchivedObject:
        if not is_file_id(file_id):
            raise NoSuchFileError(file_id)
        state = self._registration.find(file_id)
        has_key = has_data_key(file_id) and not (state and state.is_run_log(self._objects.bucket))
        file = self._find_by_key(file_id) if has_key else None
        if file and verified and ANNOUNCED_BYTES in file.info.metadata:
            _require_verified(file_id, state)
        return file or self._find_in_catalog(file_id, state)

    def _find_by_key(self, file_id: str) -> _ArchivedObject | None:
        """The object under the file's own key. None if there is no object, or that of another file."""
        store = self._stores[self._objects.bucket]
        try:
            info = store.head(data_key(file_id))
        except ObjectNotFoundError:
            return None
        if DELETED in info.metadata:
            return None
        metadata = self._metadata_of(info, file_id)
        if metadata.id != file_id:
            return None
        return _ArchivedObject(self._objects.bucket, store, info, metadata)

    def _metadata_of(self, info: ObjectInfo, file_id: str) -> Metadata:
        try:
            return metadata_of_object(self._objects.bucket, info)
        except InvalidMetadataError as error:
            raise NoSuchFileError(file_id, f"its object has no valid metadata: {error}") from error

    def _find_in_catalog(self, file_id: str, state: FileState | None) -> _ArchivedObject:
        """The file's object by its row: an object under another key, which may be another file since, or a run's log, whose metadata only
        the catalog has."""
        if state is None or state.record is None:
            raise NoSuchFileError(file_id)
        bucket, key = location_of(state.url)
        if bucket not in self._stores:
            raise NoSuchFileError(file_id, f"its bucket is not configured bucket={bucket}")
        info, metadata = self._stores[bucket].head(key), state.record.metadata
        if bucket == self._objects.bucket:
            metadata = self._metadata_of(info, file_id)
            if metadata.id != file_id:
                raise NoSuchFileError(file_id, "its object is another file now")
        return _ArchivedObject(bucket, self._stores[bucket], info, metadata)

    def _rewrite(self, file: _ArchivedObject, options: PutOptions) -> None:
        store, info = file.store, file.info
        same = Condition(if_match=info.etag)
        if info.size <= _REWRITTEN_BYTES:
            body = store.get(info.key, 0, info.size, if_match=info.etag).body if info.size else b""
            store.put(info.key, body, options, same)
            return
        upload_id = store.create_multipart(info.key, options)
        try:
            starts = enumerate(range(0, info.size, _COPIED_BYTES), 1)
            ends = ((number, start, min(start + _COPIED_BYTES, info.size)) for number, start in starts)
            parts = [
                (number, store.copy_part(info.key, upload_id, number, info.key, start, end, if_match=info.etag))
                for number, start, end in ends
            ]
            store.complete_multipart(info.key, upload_id, parts, same)
        except Exception:
            store.abort_multipart(info.key, upload_id)
            raise

    def _catalogue(self, file: _ArchivedObject) -> Description:
        """The object's current state, catalogued at once for readers that follow; the notification would do it later."""
        ref = object_ref(file.bucket, file.info.key)
        deadline = Deadline(self._clock)

        outcome = self._registration.update([ref], lambda each: self._objects.describe(each, deadline))[ref]
        if outcome.error:
            raise StoreUnavailableError(f"the object was changed but not catalogued yet: {outcome.error}") from outcome.error
        return outcome.description


def _require_verified(file_id: str, state: FileState | None) -> None:
    """An upload is a file only after its hash was verified. Raises ObjectNotFoundError."""
    if state is None or state.record is None:
        reason = state.problem if state and state.problem else "its upload is not checked yet"
        raise NoSuchFileError(file_id, reason)


def _url(file: _ArchivedObject) -> str:
    return f"s3://{file.bucket}/{file.info.key}"

"""Describe an object of the archive's bucket: a file, or not to be listed, with the reason.

Its metadata decides; the key is ``{id}/data`` by convention (``catalog.file_ids``). An object of a presigned upload
(``archive.uploads``) is listed only if its bytes match the announced size and hash, since no client with AWS credentials has vouched for
them.
"""

from __future__ import annotations

import re
from hashlib import blake2b

from chalicelib.archive.hashing import content_hash
from chalicelib.catalog.file_ids import id_of_key
from chalicelib.catalog.files import FileRecord
from chalicelib.catalog.metadata import NAME, Metadata, parse_metadata
from chalicelib.catalog.registration import Description, ObjectRef
from chalicelib.deadline import Deadline
from chalicelib.errors import InvalidMetadataError, ObjectNotFoundError
from chalicelib.ports import ObjectInfo, ObjectStore

ANNOUNCED_BYTES = "runlake-upload-bytes"
"""User metadata of an object of a presigned upload: the announced size in bytes."""
UPLOADED_BYTES = "runlake-uploaded-bytes"
"""The same once its metadata was changed: its bytes need no check any more."""
DELETED = "runlake-deleted"
"""User metadata of an empty object in the place of a deleted upload: its link, which may still work, creates objects only where there is
none. For readers there is no object."""
DELETED_TAGS = {"runlake": "deleted"}
"""Of these objects: a rule of the bucket's lifecycle removes them after a day."""

_HEX_ID = re.compile(r"[0-9a-f]{32}")
"""An id as the datalake makes it: taken from the key for a document without an id."""


def object_ref(bucket: str, key: str) -> ObjectRef:
    """The reference of an object, with the file's id if the key is ``{id}/data``."""
    return ObjectRef(bucket, key, id_of_key(key))


def metadata_of_object(bucket: str, info: ObjectInfo) -> Metadata:
    """The metadata document of an object. A document without an id gets one of 32 hex digits: that in the key, or else the hash of the URL.
    Raises InvalidMetadataError, ObjectNotFoundError for one in the place of a deleted upload."""
    if DELETED in info.metadata:
        raise ObjectNotFoundError(f"the file was deleted key={info.key}")
    ref = object_ref(bucket, info.key)
    default_id = ref.id if ref.id and _HEX_ID.fullmatch(ref.id) else blake2b(ref.url.encode(), digest_size=16).hexdigest()
    return parse_metadata(info.metadata.get(NAME), default_id)


class ArchiveObjects:
    """Reads objects of the archive's bucket."""

    def __init__(self, store: ObjectStore, bucket: str) -> None:
        self._store, self.bucket = store, bucket

    def describe(self, ref: ObjectRef, deadline: Deadline) -> Description:
        """The object's file, or why it is not to be listed; neither if there is no object. One HEAD; of an upload, the contents are read too.
        Raises UnavailableError."""
        try:
            info = self._store.head(ref.key)
            metadata = metadata_of_object(self.bucket, info)
            metadata.days()
            if problem := self._upload_problem(info, metadata, deadline):
                return Description(problem=f"{problem} id={metadata.id}", rejected_id=metadata.id)
        except ObjectNotFoundError:
            return Description()
        except InvalidMetadataError as error:
            return Description(problem=f"{error} url={ref.url}")
        record = FileRecord(ref.url, info.size, info.last_modified_ms, metadata)
        return Description(record, by_presigned_url=ANNOUNCED_BYTES in info.metadata)

    def _upload_problem(self, info: ObjectInfo, metadata: Metadata, deadline: Deadline) -> str:
        """How an upload differs from what was announced; empty if it does not, or the object is no upload."""
        announced = info.metadata.get(ANNOUNCED_BYTES)
        if announced is None:
            return ""
        if announced != str(info.size):
            return f"the upload's size differs from the announced one bytes={info.size} announced={announced}"
        found = content_hash(self._store, info, deadline)
        if found == metadata.hash:
            return ""
        return f"the upload's hash differs from the announced one hash={found} announced={metadata.hash}"

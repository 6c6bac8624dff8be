"""Presigned uploads for clients without AWS credentials: metadata is checked and signed here, the bytes go directly to S3.

The signature binds the key, the metadata and the size, and can create the object only once. S3 cannot compute blake2b, so ingestion
checks the hash: before that, and for good if it is wrong, the file is not listed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chalicelib.archive.objects import ANNOUNCED_BYTES
from chalicelib.catalog.file_ids import data_key
from chalicelib.catalog.metadata import NAME, Metadata, metadata_of
from chalicelib.errors import InvalidMetadataError, UploadTooLargeError
from chalicelib.ports import Clock, ObjectStore, PutOptions, SignedRequest

MAX_BYTES = 5 * 1024**3
"""The largest file that ingestion can hash within its time limit."""
PART_BYTES = 100 * 1024**2
"""A larger file is sent in parts of this size, as by the datalake's client."""
EXPIRES_S = 3600
CONTENT_TYPE = "application/octet-stream"


@dataclass(frozen=True, slots=True)
class PresignedPart:
    """One part of a large file: PUT exactly ``size`` bytes to ``url`` and keep the ETag of the response."""

    number: int
    url: str
    size: int


@dataclass(frozen=True, slots=True)
class PresignedMultipart:
    """A large file: PUT the parts, then POST their numbers and ETags to ``complete_url`` (S3's CompleteMultipartUpload)."""

    parts: Sequence[PresignedPart]
    complete_url: str
    abort_url: str


@dataclass(frozen=True, slots=True)
class Upload:
    """The target of a file's upload, valid until ``expires_ms``. The file is not listed before its bytes are stored."""

    metadata: Metadata
    key: str
    request: SignedRequest | PresignedMultipart
    expires_ms: int


class Uploads:
    """``new_id`` generates an id of 32 hex digits."""

    def __init__(self, store: ObjectStore, clock: Clock, new_id: Callable[[], str]) -> None:
        self._store, self._clock, self._new_id = store, clock, new_id

    def begin(self, fields: Mapping[str, Any], permit: Callable[[Metadata], None]) -> Upload:
        """Check and sign an upload: metadata without ``id``, and ``size`` in bytes. Calls ``permit`` before it signs; its
        exceptions propagate. No request; one for a file over 100 MiB. Raises InvalidMetadataError, UploadTooLargeError."""
        now_ms = self._clock.now_ms()
        announced = dict(fields)
        size = _size(announced.pop("size", None))
        if taken := {"id", ANNOUNCED_BYTES} & announced.keys():
            raise InvalidMetadataError(f"the archive sets this field itself field={min(taken)}")
        metadata = metadata_of({"version": 0, **announced, "id": self._new_id()}, now_ms)
        permit(metadata)
        key = data_key(metadata.id)
        stored = {NAME: metadata.text(), ANNOUNCED_BYTES: str(size)}
        if size <= PART_BYTES:
            request: SignedRequest | PresignedMultipart = self._store.presign_put(key, size, stored, expires_s=EXPIRES_S)
        else:
            request = self._multipart(key, size, stored)
        return Upload(metadata, key, request, now_ms + EXPIRES_S * 1000)

    def _multipart(self, key: str, size: int, stored: Mapping[str, str]) -> PresignedMultipart:
        upload_id = self._store.create_multipart(key, PutOptions(stored, content_type=CONTENT_TYPE))
        sizes = [min(PART_BYTES, size - start) for start in range(0, size, PART_BYTES)]
        parts = [
            PresignedPart(number, self._store.presign_part(key, upload_id, number, part, expires_s=EXPIRES_S), part)
            for number, part in enumerate(sizes, 1)
        ]
        complete = self._store.presign_complete(key, upload_id, expires_s=EXPIRES_S)
        return PresignedMultipart(parts, complete, self._store.presign_abort(key, upload_id, expires_s=EXPIRES_S))


def _size(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise InvalidMetadataError('"size" must be the number of bytes, an integer of at least 0')
    if value > MAX_BYTES:
        raise UploadTooLargeError(
            f"an upload can have at most 5 GiB; use the datalake's client for larger files bytes={value} limit={MAX_BYTES}"
        )
    return value

"""``ObjectStore`` in memory, with S3's semantics: conditions, multipart rules, order of listings, limits of keys, parts and
metadata.

It counts its calls, and any call can be made to fail as on S3 (``failures``). A request that S3 would reject raises
``RequestRejectedError``, so that no test passes with it.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import md5
from threading import RLock
from urllib.parse import quote, urlencode

from chalicelib.errors import ObjectNotFoundError, PreconditionFailedError, RangeNotSatisfiableError, WriteConflictError
from chalicelib.ports import (
    ANY,
    Clock,
    Condition,
    Folders,
    ListedObject,
    Listing,
    ObjectInfo,
    ObjectVersion,
    OpenUpload,
    PutOptions,
    SignedRequest,
    StoredObject,
    after_folder,
)
from tests.support.failures import Failures, RequestRejectedError, can_fail
from tests.support.rope import Rope

MIN_PART_BYTES = 5 * 1024 * 1024
MAX_PART_BYTES = 5 * 1024 * 1024 * 1024
MAX_PARTS = 10_000
MAX_METADATA_BYTES = 2048
MAX_KEY_BYTES = 1024
MAX_OBJECT_BYTES = 5 * 1024 * 1024 * 1024
"""The limit of one PUT."""
MAX_LISTED = 1000


@dataclass(frozen=True, slots=True)
class _Object:
    info: ObjectInfo
    rope: Rope
    options: PutOptions


@dataclass(slots=True)
class _Upload:
    key: str
    options: PutOptions
    parts: dict[int, tuple[str, Rope]] = field(default_factory=dict)


class InMemoryObjectStore:
    """One bucket. ``calls`` counts requests by operation, ``uploaded_bytes`` the bytes in bodies of requests. ``is_versioned``: old versions are
    preserved."""

    is_versioned = False

    def __init__(self, clock: Clock) -> None:
        self.calls: Counter[str] = Counter()
        self.uploaded_bytes = 0
        self._clock = clock
        self._objects: dict[str, _Object] = {}
        self._uploads: dict[str, _Upload] = {}
        self._old: dict[ObjectVersion, _Object | None] = {}
        self._ids = itertools.count(1)
        self._lock = RLock()
        self.failures = Failures()

    def conflict_next(self, times: int, matches: Callable[[str], bool] = lambda _: True) -> None:
        """Answer 409 to the next conditional writes of matching keys."""

        def is_conditional(key: str, *arguments: object) -> bool:
            return matches(key) and any(isinstance(each, Condition) and each != ANY for each in arguments)

        self.failures.schedule("put", "complete_multipart", error=WriteConflictError, times=times, matches=is_conditional)

    def put_repeated(self, key: str, pattern: bytes, size: int, metadata: Mapping[str, str]) -> str:
        """Put an object of any size that needs only the memory of its pattern."""
        with self._lock:
            return self._store(key, Rope.repeated(pattern, size), PutOptions(metadata), f"{next(self._ids):032x}")

    def storage_class(self, key: str) -> str | None:
        """The storage class of an object."""
        return self._object(key).options.storage_class

    @property
    def uploads(self) -> int:
        """The number of multipart uploads that are neither completed nor aborted."""
        return len(self._uploads)

    def everything(self) -> list[tuple[str, Mapping[str, str], bytes]]:
        """Key, metadata and bytes of all objects, of their old versions, and of the parts of open uploads."""
        parts = [(each.key, each.options.metadata, rope) for each in self._uploads.values() for _, rope in each.parts.values()]
        objects = [(key, each.info.metadata, each.rope) for key, each in self._objects.items()]
        old = [(version.key, each.info.metadata, each.rope) for version, each in self._old.items() if each]
        return [(key, metadata, rope.materialize()) for key, metadata, rope in objects + parts + old]

    @can_fail
    def put(self, key: str, body: bytes, options: PutOptions, condition: Condition = ANY) -> str:
        """See the port."""
        with self._lock:
            self.calls["put"] += 1
            _check_key(key)
            _check_metadata(options.metadata)
            if len(body) > MAX_OBJECT_BYTES:
                raise RequestRejectedError(f"a put has at most 5 GiB size={len(body)}")
            self._check(key, condition)
            self.uploaded_bytes += len(body)
            return self._store(key, Rope.of(bytes(body)), options, md5(body, usedforsecurity=False).hexdigest())

    @can_fail
    def get(self, key: str, start: int | None = None, end: int | None = None, *, if_match: str | None = None) -> StoredObject:
        """See the port."""
        with self._lock:
            self.calls["get"] += 1
            _check_key(key)
            stored = self._object(key)
        if if_match is not None and stored.info.etag != if_match:
            raise PreconditionFailedError(f"the object has another etag key={key}")
        first, last = start or 0, stored.info.size if end is None else end
        if first < 0 or (end is not None and end <= first):
            raise ValueError(f"a range must contain at least one byte start={start} end={end}")
        if first >= stored.info.size and (start, end) != (None, None):
            raise RangeNotSatisfiableError(f"the range begins after the end key={key} start={start}")
        return StoredObject(stored.info, stored.rope.cut(first, last).materialize())

    @can_fail
    def head(self, key: str) -> ObjectInfo:
        """See the port."""
        with self._lock:
            self.calls["head"] += 1
            _check_key(key)
            return self._object(key).info

    @can_fail
    def list(self, prefix: str, *, start_after: str = "", limit: int = MAX_LISTED) -> Listing:
        """See the port."""
        with self._lock:
            self.calls["list"] += 1
            _check_page(prefix, start_after, limit)
            keys = [key for key in self._objects if key.startswith(prefix) and key.encode() > start_after.encode()]
            keys.sort(key=str.encode)
            page = keys[: min(limit, MAX_LISTED)]
            rows = [self._objects[key].info for key in page]
            return Listing([ListedObject(row.key, row.size, row.etag, row.last_modified_ms) for row in rows], len(keys) > len(page))

    @can_fail
    def list_folders(self, prefix: str, *, start_after: str = "", limit: int = MAX_LISTED) -> Folders:
        """See the port."""
        with self._lock:
            self.calls["list"] += 1
            _check_page(prefix, start_after, limit)
            keys = [key for key in self._objects if key.startswith(prefix) and key.encode() > start_after.encode()]
        folders = sorted({_folder_of(key, prefix) for key in keys}, key=str.encode)
        page, more = folders[: min(limit, MAX_LISTED)], len(folders) > min(limit, MAX_LISTED)
        last = page[-1] if page else ""
        base = prefix[: prefix.rfind("/") + 1]
        names = [each.removeprefix(base).removesuffix("/") for each in page if each.endswith("/")]
        return Folders(names, (after_folder(last) if last.endswith("/") else last) if more else None)

    @can_fail
    def delete(self, key: str, *, if_match: str | None = None) -> None:
        """See the port."""
        with self._lock:
            self.calls["delete"] += 1
            _check_key(key)
            if key in self._objects:
                self._check(key, Condition(if_match=if_match))
                self._remove(key)

    @can_fail
    def delete_many(self, keys: Sequence[str]) -> None:
        """See the port."""
        if not 0 < len(keys) <= MAX_LISTED:
            raise ValueError(f"a request must delete 1 to 1,000 keys count={len(keys)}")
        with self._lock:
            self.calls["delete_many"] += 1
            for key in keys:
                _check_key(key)
            for key in keys:
                self._remove(key)

    @can_fail
    def old_versions(self, prefix: str, limit: int = MAX_LISTED) -> Sequence[ObjectVersion]:
        """See the port."""
        with self._lock:
            self.calls["old_versions"] += 1
            found = [each for each in self._old if each.key.startswith(prefix)]
            return sorted(found, key=lambda each: self._old[each] is None)[:limit]

    @can_fail
    def delete_versions(self, versions: Sequence[ObjectVersion]) -> None:
        """See the port."""
        with self._lock:
            self.calls["delete_versions"] += 1
            for each in versions:
                self._old.pop(each, None)
            for key in {each.key for each in versions} - set(self._objects):
                self._restore(key)

    @can_fail
    def open_uploads(self, prefix: str) -> Sequence[OpenUpload]:
        """See the port."""
        with self._lock:
            self.calls["open_uploads"] += 1
            return [OpenUpload(each.key, id) for id, each in self._uploads.items() if each.key.startswith(prefix)]

    @can_fail
    def create_multipart(self, key: str, options: PutOptions) -> str:
        """See the port."""
        with self._lock:
            self.calls["create_multipart"] += 1
            _check_key(key)
            _check_metadata(options.metadata)
            upload_id = f"upload-{next(self._ids)}"
            self._uploads[upload_id] = _Upload(key, options)
            return upload_id

    @can_fail
    def upload_part(self, key: str, upload_id: str, number: int, body: bytes) -> str:
        """See the port."""
        with self._lock:
            self.calls["upload_part"] += 1
            self.uploaded_bytes += len(body)
            return self._add_part(key, upload_id, number, Rope.of(bytes(body)))

    @can_fail
    def copy_part(self, key: str, upload_id: str, number: int, source: str, start: int, end: int, *, if_match: str) -> str:
        """See the port."""
        with self._lock:
            self.calls["copy_part"] += 1
            _check_key(source)
            stored = self._object(source)
            if stored.info.etag != if_match:
                raise PreconditionFailedError(f"the source has another etag key={source}")
            if stored.info.size <= MIN_PART_BYTES or not 0 <= start < end <= stored.info.size:
                raise RequestRejectedError(
                    f"not a range that can be copied key={source} start={start} end={end} size={stored.info.size}"
                )
            return self._add_part(key, upload_id, number, stored.rope.cut(start, end))

    @can_fail
    def complete_multipart(self, key: str, upload_id: str, parts: Sequence[tuple[int, str]], condition: Condition = ANY) -> str:
        """See the port."""
        with self._lock:
            self.calls["complete_multipart"] += 1
            upload = self._upload(key, upload_id)
            ropes = _checked_parts(upload, parts)
            self._check(key, condition)
            del self._uploads[upload_id]
            digest = md5("".join(etag for _, etag in parts).encode(), usedforsecurity=False).hexdigest()
            return self._store(key, Rope.joined(ropes), upload.options, f"{digest}-{len(parts)}")

    @can_fail
    def abort_multipart(self, key: str, upload_id: str) -> None:
        """See the port."""
        with self._lock:
            self.calls["abort_multipart"] += 1
            self._uploads.pop(upload_id, None)

    def presign_get(self, key: str, *, expires_s: int, content_type: str, filename: str = "", content_encoding: str = "") -> str:
        """See the port."""
        return _link("get", key, expires_s, filename=filename, content_type=content_type, content_encoding=content_encoding)

    def presign_put(self, key: str, size: int, metadata: Mapping[str, str], *, expires_s: int) -> SignedRequest:
        """See the port."""
        _check_metadata(metadata)
        headers = {f"x-amz-meta-{name}": value for name, value in metadata.items()}
        return SignedRequest(_link("put", key, expires_s), headers | {"If-None-Match": "*", "Content-Length": str(size)})

    def presign_part(self, key: str, upload_id: str, number: int, size: int, *, expires_s: int) -> str:
        """See the port."""
        self._upload(key, upload_id)
        return _link("part", key, expires_s, upload=upload_id, number=number, size=size)

    def presign_complete(self, key: str, upload_id: str, *, expires_s: int) -> str:
        """See the port."""
        return _link("complete", key, expires_s, upload=upload_id)

    def presign_abort(self, key: str, upload_id: str, *, expires_s: int) -> str:
        """See the port."""
        return _link("abort", key, expires_s, upload=upload_id)

    def _object(self, key: str) -> _Object:
        try:
            return self._objects[key]
        except KeyError:
            raise ObjectNotFoundError(f"no such object key={key}") from None

    def _upload(self, key: str, upload_id: str) -> _Upload:
        upload = self._uploads.get(upload_id)
        if upload is None or upload.key != key:
            raise ObjectNotFoundError(f"no such upload key={key} upload_id={upload_id}")
        return upload

    def _check(self, key: str, condition: Condition) -> None:
        stored = self._objects.get(key)
        if condition.if_none_match and stored:
            raise PreconditionFailedError(f"the object exists key={key}")
        if condition.if_match is not None and (stored is None or stored.info.etag != condition.if_match):
            raise PreconditionFailedError(f"the object has another etag, or does not exist key={key}")

    def _store(self, key: str, rope: Rope, options: PutOptions, etag: str) -> str:
        info = ObjectInfo(key, rope.size, etag, self._clock.now_ms(), dict(options.metadata), options.content_type)
        self._preserve(key)
        self._objects[key] = _Object(info, rope, options)
        return etag

    def _remove(self, key: str) -> None:
        self._preserve(key)
        if self._objects.pop(key, None) and self.is_versioned:
            self._old[ObjectVersion(key, f"marker-{next(self._ids)}")] = None

    def _preserve(self, key: str) -> None:
        if self.is_versioned and key in self._objects:
            self._old[ObjectVersion(key, f"version-{next(self._ids)}")] = self._objects[key]

    def _restore(self, key: str) -> None:
        """Without its delete marker, the last old version of a key is current again."""
        old = [each for each in self._old if each.key == key]
        if old and (last := self._old[old[-1]]):
            self._objects[key] = last
            del self._old[old[-1]]

    def _add_part(self, key: str, upload_id: str, number: int, rope: Rope) -> str:
        upload = self._upload(key, upload_id)
        if not 1 <= number <= MAX_PARTS or rope.size > MAX_PART_BYTES:
            raise RequestRejectedError(f"invalid part number={number} size={rope.size}")
        etag = f"{next(self._ids):032x}"
        upload.parts[number] = (etag, rope)
        return etag


def _folder_of(key: str, prefix: str) -> str:
    """The key up to the first slash after the prefix; the whole key if there is none."""
    slash = key.find("/", len(prefix))
    return key if slash < 0 else key[: slash + 1]


def _link(operation: str, key: str, expires_s: int, **arguments: object) -> str:
    return f"memory:///{quote(key)}?{urlencode({'operation': operation, 'expires': expires_s, **arguments})}"


def _checked_parts(upload: _Upload, parts: Sequence[tuple[int, str]]) -> list[Rope]:
    numbers = [number for number, _ in parts]
    if not numbers or numbers != sorted(set(numbers)):
        raise RequestRejectedError(f"parts are named once each, in order numbers={numbers[:10]}")
    if any(upload.parts.get(number, ("",))[0] != etag for number, etag in parts):
        raise RequestRejectedError(f"a part was not uploaded key={upload.key}")
    ropes = [upload.parts[number][1] for number in numbers]
    if any(rope.size < MIN_PART_BYTES for rope in ropes[:-1]):
        raise RequestRejectedError(f"every part but the last has at least 5 MiB sizes={[rope.size for rope in ropes][:10]}")
    return ropes


def _check_key(key: str) -> None:
    if not key or _size(key) > MAX_KEY_BYTES:
        raise RequestRejectedError(f"a key has 1 to 1,024 bytes size={_size(key)}")


def _check_page(prefix: str, start_after: str, limit: int) -> None:
    if limit < 1 or max(_size(prefix), _size(start_after)) > MAX_KEY_BYTES:
        raise RequestRejectedError(
            f"invalid arguments of a listing limit={limit} prefix={prefix[:100]!r} start_after={start_after[:100]!r}"
        )


def _size(key: str) -> int:
    try:
        return len(key.encode())
    except UnicodeEncodeError as error:
        raise RequestRejectedError(f"a key must be valid utf-8 key={key[:100]!r}") from error


def _check_metadata(metadata: Mapping[str, str]) -> None:
    size = sum(len(name) + len(value) for name, value in metadata.items())
    if size > MAX_METADATA_BYTES or not all(f"{name}{value}".isascii() for name, value in metadata.items()):
        raise RequestRejectedError(f"metadata must be ascii and at most 2 KB size={size}")
    if any(value != value.strip() for value in metadata.values()):
        raise RequestRejectedError("a header's value neither begins nor ends with a space")
    if any(name != name.lower() for name in metadata):
        raise RequestRejectedError(f"names of metadata must be lowercase names={list(metadata)}")

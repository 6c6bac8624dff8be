"""One file that is being written: what of it is on S3, what waits in memory, and how the one becomes the other.

A file grows by whole objects: the new one is the old one with more behind it, and replaces exactly that old one (``If-Match``). So each
beginning that a row was committed for stays what it was, whoever writes, and a writer that another has overtaken cannot harm it: it finds
another ETag, and goes on in a file of its own. Decision 0029.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from chalicelib.errors import ObjectNotFoundError, PreconditionFailedError, RunlakeError, WriteConflictError
from chalicelib.pipelines.files.formats import FileFormat
from chalicelib.pipelines.files.rows import CLOSED, NOTHING, OPEN, FileContents, FileRow
from chalicelib.pipelines.ports import Fence
from chalicelib.ports import ABSENT, Condition, ObjectStore, PutOptions

COPY_FROM_BYTES = 5 * 1024 * 1024
"""S3 copies a part of an object that is larger than this; a smaller one is read and written again."""
MAX_LANDMARKS = 24
_TRIES = 10


class FileGroup(NamedTuple):
    """Whose events a file has. ``day`` in days since the epoch."""

    namespace: str
    app: str
    program: str
    fqn: str
    generation: str
    day: int


class SupersededError(Exception):
    """The object is not what it was when this writer saw it last: the file ends where it is, what waits goes into another."""


class AppendableFile:
    """``row`` is the file's row as the table has it (None: there is none), ``contents`` what of it is on S3 by this writer, ``waiting`` encoded
    bytes that are not; ``after`` the file of the same group whose number comes before. Not shared by threads."""

    __slots__ = (
        "_disorder_ms", "_encoder", "_events", "_from_ms", "_to_ms", "active_ms", "buffered_bytes", "contents", "created_ms", "first_ms",
        "format", "group", "is_closed", "is_superseded", "needs_lookup", "predecessor", "row", "sequence", "waiting",
    )  # fmt: skip

    def __init__(self, group: FileGroup, format_: FileFormat, now_ms: int, first_ms: int) -> None:
        self.group, self.format, self.created_ms, self.first_ms = group, format_, now_ms, first_ms
        self.row: FileRow | None = None
        self.contents = NOTHING
        self.waiting = b""
        self.buffered_bytes = 0
        self.is_closed = self.is_superseded = False
        self.needs_lookup = True  # nobody has looked yet whether there is one to go on with
        self.predecessor: AppendableFile | None = None
        self.active_ms = now_ms
        self.sequence = 0
        self._encoder = format_.encoder()
        self._events = self._disorder_ms = 0
        self._from_ms = self._to_ms = first_ms

    def add(self, record: logging.LogRecord, text: str, time_ms: int) -> int:
        """One event more; the answer is what it takes of memory, in bytes."""
        size = self._encoder.add(record, text, time_ms)
        self._events += 1
        if time_ms >= self._to_ms:
            self._to_ms = time_ms
        else:
            self._disorder_ms = max(self._disorder_ms, self._to_ms - time_ms)
            self._from_ms = min(self._from_ms, time_ms)
        self.buffered_bytes += size
        return size

    @property
    def size(self) -> int:
        """About how long the file is, with all that waits."""
        return self.contents.size + self.buffered_bytes

    @property
    def is_dirty(self) -> bool:
        """Whether there is anything that its row does not say yet."""
        if self.row is None:
            return self.contents is not NOTHING
        return self.contents != self.row.contents or (self.state != self.row.state and not self.is_superseded)

    @property
    def state(self) -> str:
        """Of its row."""
        return CLOSED if self.is_closed else OPEN

    def resume(self, row: FileRow) -> None:
        """Make it the continuation of a file that this or another process has begun."""
        self.row, self.contents, self.sequence = row, row.contents, row.sequence
        self.created_ms, self.first_ms = row.created_ms, row.first_ms
        self._disorder_ms = max(self._disorder_ms, row.contents.to_ms - self._from_ms)
        self._to_ms = max(self._to_ms, row.contents.to_ms)

    def drop(self) -> int:
        """Forget what waits; the answer is how many events it was."""
        dropped, self._events, self.buffered_bytes, self.waiting = self._events, 0, 0, b""
        self._encoder = self.format.encoder()
        return dropped

    def successor(self, now_ms: int) -> AppendableFile:
        """Another file for what waits; this one is over."""
        other = AppendableFile(self.group, self.format, now_ms, self._from_ms)
        other.waiting, other.buffered_bytes, other._encoder = self.waiting, self.buffered_bytes, self._encoder
        other._events, other._disorder_ms = self._events, self._disorder_ms
        other._from_ms, other._to_ms = self._from_ms, self._to_ms
        other.active_ms, other.needs_lookup, other.sequence = self.active_ms, False, self.sequence + 1
        self._events, self.buffered_bytes, self.waiting = 0, 0, b""
        self.is_closed = self.is_superseded = True  # where nothing of ours is in it, its row is another's to write
        return other

    def publish(self, store: ObjectStore, fence: Fence, key_of: Callable[[int], str], now_ms: int) -> None:
        """Bring all that waits onto S3. It is not seen before its row is committed. A PUT for a new file; a GET and a PUT for one of up
        to 5 MiB; else four requests, and none of the old bytes through here. When it fails all still waits, and it can be repeated.

        Raises SupersededError, LeaseError, UnavailableError."""
        self.waiting += self._encoder.take()
        if not self.waiting:
            return
        etag = self._begin(store, fence, key_of) if self.contents is NOTHING else self._extend(store, fence, key_of(self.sequence))
        self.contents = self._grown(etag, now_ms)
        self.waiting, self.buffered_bytes, self._events = b"", 0, 0
        if not self.format.grows:
            self.is_closed = True

    def _grown(self, etag: str, now_ms: int) -> FileContents:
        old = self.contents
        if old is NOTHING:
            size = len(self.format.header) + len(self.waiting)
            landmarks = ((self._to_ms, size),)
            return FileContents(size, etag, self._events, self._from_ms, self._to_ms, self._disorder_ms, now_ms, landmarks)
        return replace(
            old,
            size=old.size + len(self.waiting),
            etag=etag,
            events=old.events + self._events,
            from_ms=min(old.from_ms, self._from_ms),
            to_ms=max(old.to_ms, self._to_ms),
            disorder_ms=max(old.disorder_ms, self._disorder_ms),
            changed_ms=now_ms,
            landmarks=thinned((*old.landmarks, (max(old.to_ms, self._to_ms), old.size + len(self.waiting)))),
        )

    def _begin(self, store: ObjectStore, fence: Fence, key_of: Callable[[int], str]) -> str:
        """Take the next number that is free. Whoever took one keeps it: two writers never share a file."""
        body = self.format.header + self.waiting
        while True:
            fence()
            try:
                return _repeated(lambda: store.put(key_of(self.sequence), body, self._options(), ABSENT))
            except PreconditionFailedError:
                self.sequence += 1

    def _extend(self, store: ObjectStore, fence: Fence, key: str) -> str:
        try:
            if self.contents.size <= COPY_FROM_BYTES:
                old = store.get(key, if_match=self.contents.etag).body
                fence()
                still = Condition(if_match=self.contents.etag)
                return _repeated(lambda: store.put(key, old + self.waiting, self._options(), still))
            return _repeated(lambda: self._append_by_copy(store, fence, key))
        except (PreconditionFailedError, ObjectNotFoundError) as error:
            raise SupersededError(key) from error

    def _append_by_copy(self, store: ObjectStore, fence: Fence, key: str) -> str:
        upload, etag = store.create_multipart(key, self._options()), self.contents.etag
        try:
            parts = [(1, store.copy_part(key, upload, 1, key, 0, self.contents.size, if_match=etag))]
            parts.append((2, store.upload_part(key, upload, 2, self.waiting)))
            fence()
            return store.complete_multipart(key, upload, parts, Condition(if_match=etag))
        except RunlakeError:
            with suppress(RunlakeError):
                store.abort_multipart(key, upload)
            raise

    def _options(self) -> PutOptions:
        """The generation stands on the object too: it can be told whose an object without a row is."""
        return PutOptions({"generation": self.group.generation[:100]}, content_type=self.format.content_type)


def thinned(landmarks: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
    """At most ``MAX_LANDMARKS``, about as far apart from each other everywhere: the one goes that stands closest to its neighbours."""
    if len(landmarks) <= MAX_LANDMARKS:
        return landmarks
    gaps = [(landmarks[at + 1][1] - landmarks[at - 1][1] if at else landmarks[1][1], at) for at in range(len(landmarks) - 1)]
    gone = min(gaps)[1]
    return landmarks[:gone] + landmarks[gone + 1 :]


def _repeated(put: Callable[[], str]) -> str:
    """Conditional writes that race are answered 409: S3 wants them again."""
    for _ in range(_TRIES - 1):
        try:
            return put()
        except WriteConflictError:
            continue
    return put()

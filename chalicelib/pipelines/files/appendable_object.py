"""A file that a handler writes: the bytes that are on S3, the events that wait in memory, and how they are appended.

S3 objects are immutable, so a file grows by replacement: the new object is the old one with more bytes at its end, and replaces
only that version (``If-Match``). So each prefix that a row was committed for stays unchanged, and a writer that lost a race
cannot damage it: its condition fails, and it continues in a file of its own. Decision 0029.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from chalicelib.errors import ObjectNotFoundError, PreconditionFailedError, RunlakeError, WriteConflictError
from chalicelib.pipelines.files.formats import FileFormat
from chalicelib.pipelines.files.key_layout import DAY_MS
from chalicelib.pipelines.files.rows import CLOSED, NOTHING, OPEN, FileContents, FileRow
from chalicelib.pipelines.ports import Fence
from chalicelib.ports import ABSENT, Condition, ObjectStore, PutOptions

COPY_FROM_BYTES = 5 * 1024 * 1024
"""S3 copies a part of an object that is larger than this; a smaller object is read and written again."""
MAX_LANDMARKS = 24
BASE_METADATA = "base"
_TRIES = 10


class FileGroup(NamedTuple):
    """The key of a group of events that share files: those of a period that begins at ``start_ms``, and of a
    level if they are in files of their own ("": they are not)."""

    namespace: str
    app: str
    program: str
    fqn: str
    generation: str
    start_ms: int
    level: str

    @property
    def day(self) -> int:
        """Days since the epoch."""
        return self.start_ms // DAY_MS


class SupersededError(Exception):
    """The object has changed since this writer last wrote it: the file ends there, and waiting events go into another."""


class AppendableFile:
    """``row`` is the file's row as stored (None: there is none), ``contents`` the part that this writer has stored on S3,
    ``waiting`` encoded bytes that are not stored; ``predecessor`` the file of the same group with the preceding number. Not
    thread-safe."""

    __slots__ = (
        "_disorder_ms", "_encoder", "_events", "_from_ms", "_to_ms", "active_ms", "base", "buffered_bytes", "contents", "created_ms", "first_ms",
        "format", "group", "is_closed", "is_superseded", "needs_lookup", "predecessor", "row", "sequence", "waiting",
    )  # fmt: skip

    def __init__(self, base: str, group: FileGroup, format_: FileFormat, now_ms: int, first_ms: int) -> None:
        self.base, self.group, self.format, self.created_ms, self.first_ms = base, group, format_, now_ms, first_ms
        self.row: FileRow | None = None
        self.contents = NOTHING
        self.waiting = b""
        self.buffered_bytes = 0
        self.is_closed = self.is_superseded = False
        self.needs_lookup = True  # it is not known yet whether there is a file to continue
        self.predecessor: AppendableFile | None = None
        self.active_ms = now_ms
        self.sequence = 0
        self._encoder = format_.encoder()
        self._events = self._disorder_ms = 0
        self._from_ms = self._to_ms = first_ms

    def add(self, record: logging.LogRecord, text: str, time_ms: int) -> int:
        """Add an event. Returns the bytes of memory that it takes."""
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
        """The approximate size of the file, including waiting events."""
        return self.contents.size + self.buffered_bytes

    @property
    def is_dirty(self) -> bool:
        """Whether its row is out of date."""
        if self.row is None:
            return self.contents is not NOTHING
        return self.contents != self.row.contents or (self.state != self.row.state and not self.is_superseded)

    @property
    def state(self) -> str:
        """The state for its row."""
        return CLOSED if self.is_closed else OPEN

    def resume(self, row: FileRow) -> None:
        """Continue a file that this or another process began."""
        self.row, self.contents, self.sequence = row, row.contents, row.sequence
        self.created_ms, self.first_ms = row.created_ms, row.first_ms
        self._disorder_ms = max(self._disorder_ms, row.contents.to_ms - self._from_ms)
        self._to_ms = max(self._to_ms, row.contents.to_ms)

    def drop(self) -> int:
        """Drop waiting events. Returns their number."""
        dropped, self._events, self.buffered_bytes, self.waiting = self._events, 0, 0, b""
        self._encoder = self.format.encoder()
        return dropped

    def successor(self, now_ms: int) -> AppendableFile:
        """Close this file and return another one for the waiting events."""
        other = AppendableFile(self.base, self.group, self.format, now_ms, self._from_ms)
        other.waiting, other.buffered_bytes, other._encoder = self.waiting, self.buffered_bytes, self._encoder
        other._events, other._disorder_ms = self._events, self._disorder_ms
        other._from_ms, other._to_ms = self._from_ms, self._to_ms
        other.active_ms, other.needs_lookup, other.sequence = self.active_ms, False, self.sequence + 1
        self._events, self.buffered_bytes, self.waiting = 0, 0, b""
        self.is_closed = self.is_superseded = True  # the row of a file without our events belongs to another writer
        return other

    def publish(self, store: ObjectStore, fence: Fence, key_of: Callable[[int], str], now_ms: int) -> None:
        """Write all waiting events to S3. They are invisible until the row is committed. A PUT for a new file; a GET and a PUT
        for one of up to 5 MiB; else four requests, without transferring the old bytes. If it fails, all events still wait, and
        it can be repeated.

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
        """Create the object with the next free number. The first writer of a number keeps it: two writers never share a file."""
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
        """The object's metadata contains the generation and the base, so that an object without a row can be attributed."""
        return PutOptions(
            {"generation": self.group.generation[:100], BASE_METADATA: self.base}, content_type=self.format.content_type
        )


def thinned(landmarks: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
    """At most ``MAX_LANDMARKS``, about evenly spaced: removes the one that is closest to its neighbours."""
    if len(landmarks) <= MAX_LANDMARKS:
        return landmarks
    gaps = [(landmarks[at + 1][1] - landmarks[at - 1][1] if at else landmarks[1][1], at) for at in range(len(landmarks) - 1)]
    gone = min(gaps)[1]
    return landmarks[:gone] + landmarks[gone + 1 :]


def _repeated(put: Callable[[], str]) -> str:
    """Retry a conditional write that S3 answered with 409 because of a concurrent one."""
    for _ in range(_TRIES - 1):
        try:
            return put()
        except WriteConflictError:
            continue
    return put()

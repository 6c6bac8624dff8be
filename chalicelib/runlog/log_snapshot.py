"""A snapshot of a run's log: the objects that contain its bytes at one moment, and reads of these bytes in order.

``logs.txt`` and ``partial.txt`` contain prefixes of the same byte stream, segments the rest; a byte offset maps to the object that
contains it now. If a compaction changes the objects between two requests of a snapshot, a missing number reveals it, and the caller retries.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from chalicelib.errors import (
    ObjectNotFoundError,
    RangeNotSatisfiableError,
    RunDeletedError,
    SnapshotChangedError,
    StoreConditionError,
)
from chalicelib.ports import DELETED, ListedObject, ObjectStore, Run, StoredObject
from chalicelib.read_ahead import ReadAhead
from chalicelib.runlog.artifact import Artifact, Extent, artifact_of, closed_if_legacy, extent_of, find_artifact, read_chunks
from chalicelib.runlog.concatenation import READERS
from chalicelib.runlog.layout import Layout
from chalicelib.runlog.legacy import check_shared_access, find_legacy, find_shared
from chalicelib.runlog.log_end import LogEnd, LogEndFinder
from chalicelib.runlog.segment import CLOSED

_PIECE_BYTES = 5 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class LogSnapshot:
    """``artifact`` contains bytes [0, ``extent.bytes``), ``segments`` the rest.

    ``head``: bytes of the artifact from ``head_start`` on, from the same GET as its metadata.
    """

    artifact: Artifact | None
    extent: Extent
    segments: Sequence[ListedObject]
    head: bytes = b""
    head_start: int = 0

    @property
    def end_byte(self) -> int:
        """Bytes of the log."""
        return self.extent.bytes + sum(found.size for found in self.segments)

    def object_before(self, byte: int) -> tuple[int, str]:
        """Start of the object that contains the byte before this one, and its ETag if it is a segment that ends exactly here, else empty."""
        start, end = 0, self.extent.bytes
        for found in self.segments:
            if byte <= end:
                break
            start, end = end, end + found.size
            if byte == end:
                return start, found.etag
        return start, ""


@dataclass(frozen=True, slots=True)
class SnapshotReader:
    """Takes snapshots, and reads their bytes."""

    store: ObjectStore
    layout: Layout
    tails: LogEndFinder

    def take(self, run: Run, start: int = 0, length: int = 1) -> LogSnapshot:
        """A snapshot whose ``head`` is bytes [start, start + length) of its artifact. Requests: one GET for a finalized log; otherwise a
        GET of logs.txt (404), a GET of partial.txt and a LIST; for a run without objects also a query. Raises SnapshotChangedError,
        ForbiddenError, RunDeletedError."""
        logs = self._read(self.layout.logs(run), start, length)
        if logs and (logs[0].is_deleted or logs[0].reason == DELETED):
            raise RunDeletedError(run.fqn, run.run_id)
        if logs and (logs[0].reason == CLOSED or logs[0].is_legacy):
            check_shared_access(run, logs[0])
            return LogSnapshot(closed_if_legacy(logs[0]), extent_of(self.store, logs[0]), (), logs[1], start)
        if logs and logs[0].reason:
            return self._after_abandoned(run, logs, start, length)
        partial = logs or self._read(self.layout.partial(run), start, length)
        if partial is None:
            return self._without_artifact(run)
        artifact, body = partial
        check_shared_access(run, artifact)
        segments = self._following(run, artifact, self.tails.list_segments(run, artifact.next_segment))
        return LogSnapshot(artifact, extent_of(self.store, artifact), segments, body, start)

    def read(self, snapshot: LogSnapshot, start: int, end: int) -> Iterator[bytes]:
        """Bytes [start, end) of the log in pieces of at most 8 MiB, in order. Each iteration may raise SnapshotChangedError."""
        try:
            yield from self._read_artifact(snapshot, start, min(end, snapshot.extent.bytes))
            yield from self._read_segments(snapshot, start, end)
        except StoreConditionError as error:
            raise SnapshotChangedError(str(error)) from error

    def _read_artifact(self, snapshot: LogSnapshot, start: int, end: int) -> Iterator[bytes]:
        artifact = snapshot.artifact
        if artifact is None or start >= end:
            return
        head_end = snapshot.head_start + len(snapshot.head)
        if snapshot.head_start <= start < head_end:
            yield snapshot.head[start - snapshot.head_start : end - snapshot.head_start]
            start = min(head_end, end)
        stored_end = min(end, artifact.bytes)
        yield from read_chunks(self.store, artifact, start, stored_end)
        if end > artifact.bytes:
            yield b"\n"  # OpenMetadata's objects may lack the final newline

    def _read_segments(self, snapshot: LogSnapshot, start: int, end: int) -> Iterator[bytes]:
        """Segments in parallel: first 1, then 2, 4, … so that a short page reads few and a long one does not wait for each."""
        pending = list(_overlapping(snapshot.segments, snapshot.extent.bytes, start, end))
        width = 1
        with ReadAhead(READERS) as readers:
            while pending:
                yield from readers.map(lambda part: self.store.get(*part).body, pending[:width])
                pending, width = pending[width:], min(width * 2, READERS)

    def _read(self, key: str, start: int, length: int) -> tuple[Artifact, bytes] | None:
        try:
            stored: StoredObject = self.store.get(key, start, start + length)
            return artifact_of(stored.info), stored.body
        except RangeNotSatisfiableError:
            artifact = find_artifact(self.store, key)
            return (artifact, b"") if artifact else None
        except ObjectNotFoundError:
            return None

    def _following(self, run: Run, artifact: Artifact, listed: Iterable[ListedObject]) -> list[ListedObject]:
        """The listed segments that the artifact does not contain. Raises SnapshotChangedError if the first of them is missing."""
        first = artifact.next_segment
        segments = [found for found in listed if self.layout.sequence_of(run, found.key) >= first]
        if segments and self.layout.sequence_of(run, segments[0].key) != first:
            raise SnapshotChangedError(
                f"a compaction ran meanwhile run={run.fqn}/{run.run_id} expected={first} first={segments[0].key}"
            )
        return segments

    def _after_abandoned(self, run: Run, logs: tuple[Artifact, bytes], start: int, length: int) -> LogSnapshot:
        """logs.txt of an abandoned run is complete while its seal is the last segment, which one LIST shows. Otherwise the run was reopened, or
        its segments have expired: partial.txt may contain more, and the segments between the two may be deleted."""
        seal = logs[0].next_segment - 1
        listed = list(self.tails.list_segments(run, seal))
        is_last = [self.layout.sequence_of(run, found.key) for found in listed] == [seal]
        partial = None if is_last else self._read(self.layout.partial(run), start, length)
        reaches_further = partial is not None and partial[0].next_segment > logs[0].next_segment
        artifact, body = partial if partial and reaches_further else logs
        segments = self._following(run, artifact, listed)
        return LogSnapshot(artifact, extent_of(self.store, artifact), segments, body, start)

    def _without_artifact(self, run: Run) -> LogSnapshot:
        """Only segments, or an object of OpenMetadata and the segments appended to it, or nothing."""
        segments = list(self.tails.list_segments(run))
        if not segments:
            self.tails.check_deleted(run)
        first = self.layout.sequence_of(run, segments[0].key) if segments else 0
        if first:
            raise SnapshotChangedError(f"a compaction ran meanwhile run={run.fqn}/{run.run_id} first={first}")
        legacy = self._legacy_beginning(run) if segments else find_shared(self.store, self.layout, run)
        return LogSnapshot(legacy, extent_of(self.store, legacy), segments)

    def _legacy_beginning(self, run: Run) -> Artifact | None:
        """OpenMetadata's object, if the run's first segment continues it. One more HEAD if there is one."""
        legacy = find_legacy(self.store, self.layout, run)
        return legacy if legacy and self.tails.listed_segment(run, 0).byte else None

    def tail(self, run: Run, snapshot: LogSnapshot) -> LogEnd:
        """The end of the log, including its line and seal. One HEAD if segments follow the artifact. Raises SnapshotChangedError."""
        if snapshot.segments:
            return self.tails.after_listing(run, snapshot.segments)
        artifact = snapshot.artifact
        sequence, reason, zone = (artifact.next_segment, artifact.reason, artifact.zone) if artifact else (0, "", "")
        return LogEnd(sequence, snapshot.extent.lines, snapshot.extent.bytes, seal=reason, zone=zone)


def _overlapping(segments: Sequence[ListedObject], at: int, start: int, end: int) -> Iterator[tuple[str, int, int]]:
    """(key, first, last) of each segment's bytes in [start, end) of a log whose segments begin at byte ``at``. Segments are split into
    pieces of at most 5 MiB."""
    for found in segments:
        first, last = max(start - at, 0), min(end - at, found.size)
        at += found.size
        for piece in range(first, last, _PIECE_BYTES):
            yield found.key, piece, min(piece + _PIECE_BYTES, last)

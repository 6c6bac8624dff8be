"""The end of a run's log: the next sequence number, its line and byte, and whether the log is sealed.

The highest-numbered segment, which is never retired, is the source of truth. To find it takes one LIST and at most one HEAD; the catalog
only supplies the key where the LIST starts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace

from chalicelib.errors import MissingSegmentError, ObjectNotFoundError, RunDeletedError, UnavailableError
from chalicelib.ports import DELETED, ListedObject, ObjectInfo, ObjectStore, Run, SegmentEntry, SegmentIndex, after_folder
from chalicelib.runlog.artifact import Artifact, artifact_of, closed_if_legacy, extent_of, furthest
from chalicelib.runlog.conflicts import retry_on_change
from chalicelib.runlog.deletion_marks import is_marked
from chalicelib.runlog.layout import Layout
from chalicelib.runlog.legacy import check_shared_access, find_shared
from chalicelib.runlog.position import Position
from chalicelib.runlog.segment import SEAL, entry_of
from chalicelib.runlog.zone import zone_of_start

FIRST_EPOCH = 1
_MAX_DELETED = 1000


@dataclass(frozen=True, slots=True)
class LogEnd:
    """The number, line and byte of the next segment. ``seal``: the reason if the last segment is a seal, else empty.

    ``appended_ms``: when the last segment was written, by its writer's clock; 0 if there is none. ``zone``: the run's, see ``SegmentEntry``;
    before the first segment that of its start.
    """

    sequence: int = 0
    line: int = 0
    byte: int = 0
    epoch: int = FIRST_EPOCH
    seal: str = ""
    appended_ms: int = 0
    zone: str = ""

    @property
    def exists(self) -> bool:
        """Whether the run has a segment, a byte or a seal."""
        return self.sequence > 0 or self.byte > 0 or bool(self.seal)

    @classmethod
    def after(cls, entry: SegmentEntry) -> LogEnd:
        """The log end after a segment."""
        seal = entry.reason if entry.kind == SEAL else ""
        return cls(entry.sequence + 1, entry.end_line, entry.end_byte, entry.epoch, seal, entry.appended_ms, entry.zone)

    @classmethod
    def at(cls, position: Position) -> LogEnd:
        """The log end that a position recorded."""
        return cls(position.sequence, position.line, position.byte, position.epoch, zone=position.zone)


@dataclass(frozen=True, slots=True)
class ListedEnd:
    """The number of the next segment, as a LIST shows it. ``end``: the log end, if it is known without a HEAD of the last segment."""

    sequence: int
    end: LogEnd | None = None


@dataclass(frozen=True, slots=True)
class LogEndFinder:
    """Finds the end of a log. If ``index`` is unavailable, the LIST begins at the run's first segment, and a HEAD finds the mark of a deleted
    run. Its seal or its mark raises RunDeletedError."""

    store: ObjectStore
    index: SegmentIndex
    layout: Layout

    def segment(self, run: Run, sequence: int) -> SegmentEntry:
        """The segment with this number. One HEAD. Raises ObjectNotFoundError."""
        return self.entry(run, sequence, self.store.head(self.layout.segment(run, sequence)))

    @staticmethod
    def entry(run: Run, sequence: int, info: ObjectInfo) -> SegmentEntry:
        """The entry in the metadata of a segment object. Raises DamagedLogError, RunDeletedError."""
        entry = entry_of(sequence, info.metadata, info.size)
        if entry.reason == DELETED:
            raise RunDeletedError(run.fqn, run.run_id)
        return entry

    def check_deleted(self, run: Run) -> None:
        """Raises RunDeletedError if the run was deleted. One query."""
        self._last_indexed(run)

    def list_segments(self, run: Run, first: int = 0) -> Iterator[ListedObject]:
        """Segments from number ``first`` on, ascending. One LIST per 1,000."""
        listed = list_all(self.store, self.layout.segments(run), self.layout.before_segment(run, first))
        return self.layout.segments_among(run, listed)

    def listed_segment(self, run: Run, sequence: int) -> SegmentEntry:
        """The segment with a number that a LIST returned. One HEAD. Raises MissingSegmentError."""
        try:
            return self.segment(run, sequence)
        except ObjectNotFoundError as error:
            raise MissingSegmentError(f"a listed segment is gone run={run.fqn}/{run.run_id} sequence={sequence}") from error

    def find(self, run: Run, listed: ListedEnd | None = None) -> LogEnd:
        """The log end of any run: one query, one LIST, and one HEAD (for a new run, another LIST instead, and a HEAD if it has a start). Repeated
        if a concurrent compaction retires the segment between LIST and HEAD. ``listed``: result of ``list_end``, which leaves the HEAD only.
        Raises UnavailableError, DamagedLogError."""
        first = iter([listed] if listed else [])
        return retry_on_change(lambda: self._end_of(run, next(first, None) or self.list_end(run)))

    def list_end(self, run: Run) -> ListedEnd:
        """The number of the next segment: as ``find``, without the HEAD of the last segment."""
        known = self._last_indexed(run)
        # The highest-numbered segment is never retired: a LIST that begins at a known one returns it, or a higher one.
        listed = list(self.list_segments(run, known.sequence)) if known else []
        if not (known and listed):
            return self._list_end_in(run, list_log(self.store, self.layout, run))
        end = self._listed_end(run, listed)
        return replace(end, end=LogEnd.after(known)) if end.sequence == known.sequence + 1 else end

    def after_listing(self, run: Run, listed: Sequence[ListedObject]) -> LogEnd:
        """The log end after listed segments (at least one). One HEAD. Raises MissingSegmentError: list again, because others may follow the
        missing one."""
        return self._end_of(run, self._listed_end(run, listed))

    def _listed_end(self, run: Run, listed: Sequence[ListedObject]) -> ListedEnd:
        return ListedEnd(self.layout.sequence_of(run, listed[-1].key) + 1)

    def _end_of(self, run: Run, listed: ListedEnd) -> LogEnd:
        return listed.end or LogEnd.after(self.listed_segment(run, listed.sequence - 1))

    def _last_indexed(self, run: Run) -> SegmentEntry | None:
        try:
            return self.index.last(run)
        except UnavailableError:
            if is_marked(self.store, run):
                raise RunDeletedError(run.fqn, run.run_id) from None
            return None

    def _list_end_in(self, run: Run, objects: Iterable[ListedObject]) -> ListedEnd:
        listed = list(objects)
        if segments := list(self.layout.segments_among(run, listed)):
            return self._listed_end(run, segments)
        end = self._without_segments(run, {found.key for found in listed})
        return ListedEnd(end.sequence, end)

    def _without_segments(self, run: Run, keys: Set[str]) -> LogEnd:
        """A new run, a run of OpenMetadata, or one whose segments expired before its artifact."""
        artifact = self._own_artifact(run, keys) or self._legacy(run)
        if artifact is None:
            start = self.layout.start(run)
            return LogEnd(zone=zone_of_start(self.store.head(start)) if start in keys else "")
        extent = extent_of(self.store, artifact)
        epoch = max(artifact.epoch, FIRST_EPOCH)
        return LogEnd(artifact.next_segment, extent.lines, extent.bytes, epoch, artifact.reason, zone=artifact.zone)

    def _own_artifact(self, run: Run, keys: Set[str]) -> Artifact | None:
        """One HEAD per listed artifact. Raises ForbiddenError."""
        logs, partial = (
            artifact_of(self.store.head(key)) if key in keys else None for key in (self.layout.logs(run), self.layout.partial(run))
        )
        if logs and logs.is_deleted:
            raise RunDeletedError(run.fqn, run.run_id)
        for artifact in (logs, partial):
            check_shared_access(run, artifact)
        return furthest(closed_if_legacy(logs) if logs else None, partial)

    def _legacy(self, run: Run) -> Artifact | None:
        shared = self.layout.legacy_run_prefix(run) == self.layout.run_prefix(run)
        return None if shared else find_shared(self.store, self.layout, run)


def list_log(store: ObjectStore, layout: Layout, run: Run) -> Iterator[ListedObject]:
    """A run's keys, ascending; skips the keys under ``events/`` after the first page. One LIST per 1,000."""
    prefix, events = layout.run_prefix(run), layout.events(run)
    start_after = ""
    while True:
        page = store.list(prefix, start_after=start_after)
        yield from page.objects
        if not page.truncated:
            return
        last = page.objects[-1].key
        start_after = after_folder(events) if last.startswith(events) else last


def list_all(store: ObjectStore, prefix: str, start_after: str = "") -> Iterator[ListedObject]:
    """Every key under a prefix, ascending. One LIST per 1,000."""
    while True:
        page = store.list(prefix, start_after=start_after)
        yield from page.objects
        if not page.truncated:
            return
        start_after = page.objects[-1].key


def delete_all(store: ObjectStore, keys: Sequence[str]) -> None:
    """Delete any number of keys, in order. One DeleteObjects per 1,000."""
    for first in range(0, len(keys), _MAX_DELETED):
        store.delete_many(keys[first : first + _MAX_DELETED])

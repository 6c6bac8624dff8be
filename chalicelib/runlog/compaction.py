"""Compaction: concatenates segments into one object, ``partial.txt`` while the run is running, ``logs.txt`` at its end.

A pass reads the run's state, plans, writes once, conditional on the target's ETag, and only then deletes anything. Of two concurrent
compactors only one succeeds; the other reads the state again and has nothing to do. A crash at any point leaves the old state or the new one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import takewhile

from chalicelib.deadline import Deadline
from chalicelib.errors import DamagedLogError, MissingSegmentError, StoreConditionError, StoreUnavailableError
from chalicelib.ports import (
    ABSENT,
    Clock,
    Condition,
    EventIndexer,
    ListedObject,
    ObjectStore,
    PutOptions,
    Run,
    SegmentEntry,
    SegmentIndex,
)
from chalicelib.runlog.artifact import Artifact, Extent, artifact_metadata, extent_of, find_artifact, furthest
from chalicelib.runlog.concatenation import READERS, ConcatenationResult, Concatenator, parts_of
from chalicelib.runlog.conflicts import Outcome, retry_on_change
from chalicelib.runlog.layout import Layout
from chalicelib.runlog.legacy import find_legacy, find_shared
from chalicelib.runlog.log_end import LogEndFinder, list_log
from chalicelib.runlog.multipart_plan import SourceRange, UploadPart
from chalicelib.runlog.segment import SEAL
from chalicelib.runlog.segment_gc import SegmentGc
from chalicelib.runlog.unfinished_uploads import UnfinishedUpload, UnfinishedUploadStore, plan_id

RETIRE_AFTER_MS = 20 * 60_000
"""A compacted segment is deleted no sooner than this after it was written (decision 0001: 60 s + 30 s + 15 min are less)."""
RETIRABLE_MS = RETIRE_AFTER_MS + 60_000
"""All segments of a run can be retired this long after its last line: S3's clock and the writer's may differ slightly."""
RETIRE_TOGETHER = 100
"""Minimum number of segments of a running run to retire at once: a few requests for all of them, and one object of entries."""
EVENTS_LOOK_BACK = 1000
"""Segments before the artifact's end whose sidecars may have been written after it: an append takes seconds."""
BUNDLED_BYTES = 256 * 1024
"""Larger sidecars stay single objects."""
BUNDLE_FROM = 16
"""Fewer sidecars of an ended run stay single objects."""
_ATTEMPTS = 4
_ROWS = 1000
_PLACES = 10_000
"""More than a response of DynamoDB contains (1 MB of rows, about 4,000), so the number of queries is minimal."""


@dataclass(frozen=True, slots=True)
class RunState:
    """A run's objects at one moment. ``base``: the artifact with the log's beginning (None: no artifact); ``pending``: the segments after it, up
    to ``last``. ``has_events``: ``events/`` contains more than the start (decision 0022). ``oldest``: the listed object under ``events/`` or
    ``retired/`` that was written first; of events only the first page is listed. ``unfinished``: an upload that an earlier pass began.
    ``single_sidecars``: of a finalized run, those of at most ``BUNDLED_BYTES`` among the first 1,000 keys."""

    partial: Artifact | None
    logs: Artifact | None
    base: Artifact | None
    extent: Extent
    segments: Sequence[ListedObject]
    pending: Sequence[ListedObject]
    last: SegmentEntry | None
    has_events: bool = False
    oldest: ListedObject | None = None
    unfinished: UnfinishedUpload | None = None
    single_sidecars: int = 0

    @property
    def pending_bytes(self) -> int:
        """Bytes of the log that only segments contain."""
        return sum(found.size for found in self.pending)


@dataclass(frozen=True, slots=True)
class Compaction:
    """Result of a pass. ``lines`` and ``bytes``: extent of the written object; ``seal``: the reason of the seal at the log's end.
    ``awaits_bundles``: the run is finalized and has single sidecars to bundle (decision 0048)."""

    lines: int
    bytes: int
    next_segment: int
    epoch: int
    seal: str = ""
    compacted_segments: int = 0
    uploaded_bytes: int = 0
    copied_bytes: int = 0
    retired_segments: int = 0
    awaits_bundles: bool = False


class Compactor:
    """Compacts runs. Only retirement depends on the injected clock; the stored objects decide everything else. ``readers``: see
    ``Concatenator``. ``event_indexer``: for runs with events; None leaves them to the notifications."""

    def __init__(
        self,
        store: ObjectStore,
        index: SegmentIndex,
        layout: Layout,
        clock: Clock,
        readers: int = READERS,
        event_indexer: EventIndexer | None = None,
    ) -> None:
        self.layout = layout
        self._event_indexer = event_indexer
        self._store, self._index, self._clock = store, index, clock
        self._tails = LogEndFinder(store, index, layout)
        self._gc = SegmentGc(store, index, layout, self._tails)
        self._concatenator = Concatenator(store, readers)
        self._unfinished = UnfinishedUploadStore(store, layout)

    def read_state(self, run: Run) -> RunState:
        """Read a run's objects: a LIST (per 1,000), a HEAD per artifact and for the last segment after them; another LIST and HEAD if the run may
        have objects of OpenMetadata. Repeated if a concurrent compaction retires that segment. Raises UnavailableError, DamagedLogError."""
        return retry_on_change(lambda: self._read_state(run))

    def _read_state(self, run: Run) -> RunState:
        listed = list(list_log(self._store, self.layout, run))
        keys = {found.key for found in listed}
        artifacts = (key if key in keys else None for key in (self.layout.partial(run), self.layout.logs(run)))
        partial_, logs = (find_artifact(self._store, key) if key else None for key in artifacts)
        base = furthest(logs, partial_)
        segments = list(self.layout.segments_among(run, listed))
        first = base.next_segment if base else 0
        pending = [found for found in segments if self.layout.sequence_of(run, found.key) >= first]
        last = self._tails.listed_segment(run, self.layout.sequence_of(run, pending[-1].key)) if pending else None
        if base is None and last is None:
            base = find_shared(self._store, self.layout, run)
        elif base is None and last and last.end_byte != sum(found.size for found in pending):
            base = find_legacy(self._store, self.layout, run)  # the segments continue it
        has_events = any(key.startswith(self.layout.events(run)) and key != self.layout.start(run) for key in keys)
        auxiliary = (self.layout.events(run), self.layout.all_retired(run))
        oldest = min((found for found in listed if found.key.startswith(auxiliary)), key=_written_ms, default=None)
        unfinished = self._unfinished.find(run) if self.layout.unfinished(run) in keys else None
        extent = extent_of(self._store, base)
        is_final = base is not None and base is logs and not pending
        sidecars = sum(map(self._may_be_bundled, listed)) if is_final and has_events else 0
        return RunState(partial_, logs, base, extent, segments, pending, last, has_events, oldest, unfinished, sidecars)

    def _may_be_bundled(self, listed: ListedObject) -> bool:
        parsed = self.layout.parse(listed.key) if 0 < listed.size <= BUNDLED_BYTES else None
        return parsed is not None and parsed.sidecar is not None

    def compact(self, run: Run, deadline: Deadline) -> Compaction:
        """Extend ``partial.txt`` to the log's end and retire old segments; a sealed log is left to the finalizer (see ``Compaction.seal``).

        Idempotent. Raises UnavailableError (no data is lost, repeat it), DeadlineExceededError, DamagedLogError.
        """
        return retry_on_condition(lambda: self.compact_state(run, self.read_state(run), deadline))

    def write(
        self, run: Run, state: RunState, last: SegmentEntry | None, options: PutOptions, deadline: Deadline
    ) -> ConcatenationResult:
        """Write the log up to ``last`` into logs.txt (if the metadata contains a reason) or partial.txt, conditional on the ETag in ``state``."""
        final = "reason" in options.metadata
        key, seen = (self.layout.logs(run), state.logs) if final else (self.layout.partial(run), state.partial)
        condition = Condition(if_match=seen.etag) if seen else ABSENT
        parts = self.parts(state)
        plan, begun = plan_id(key, parts), state.unfinished
        if begun and begun.plan != plan:
            self._unfinished.abort(run, begun)
            begun = None

        def save_upload(upload_id: str, done: Sequence[tuple[int, str]]) -> None:
            through = self.layout.sequence_of(run, state.pending[-1].key)
            self._unfinished.save(run, UnfinishedUpload(upload_id, key, plan, through, tuple(done)))

        try:
            written = self._concatenator.concatenate(key, parts, options, condition, deadline, begun, save_upload)
        except StoreConditionError as error:
            if begun is None:
                raise
            self._unfinished.abort(run, begun)
            raise StoreUnavailableError(
                f"cannot resume an unfinished upload, the next pass starts over key={key} reason={error}"
            ) from error
        if begun:
            self._unfinished.forget(run)
        return written

    def parts(self, state: RunState) -> list[UploadPart]:
        """The multipart plan for the log of a run state."""
        return parts_of(list(_sources(state)))

    def last_pending(self, run: Run, state: RunState) -> SegmentEntry | None:
        """The log's last segment, after a check that numbers have no gap and that sizes add up to its end."""
        last = state.last
        if last is None:
            return None
        numbers = [self.layout.sequence_of(run, found.key) for found in state.pending]
        first = state.base.next_segment if state.base else 0
        if numbers[0] != first or numbers[-1] - first + 1 != len(numbers):
            # A concurrent pass may have extended the artifact: the caller reads the state again before it reports damage.
            raise MissingSegmentError(
                f"segments are not consecutive run={run.fqn}/{run.run_id}"
                f" expected={first} first={numbers[0]} last={numbers[-1]} count={len(numbers)}"
            )
        if last.end_byte != state.extent.bytes + state.pending_bytes:
            raise DamagedLogError(
                f"segment sizes do not add up run={run.fqn}/{run.run_id} sequence={last.sequence} end={last.end_byte}"
            )
        return last

    def index_pending(self, run: Run, state: RunState) -> None:
        """Write the catalog rows that ingestion has not written yet: all segments in partial.txt must have a row."""
        pending = {self.layout.sequence_of(run, found.key) for found in state.pending}
        missing = sorted(pending - self._indexed(run, state))
        with ThreadPoolExecutor(READERS) as readers:
            for first in range(0, len(missing), _ROWS):
                self._index.put(run, list(readers.map(partial(self._tails.segment, run), missing[first : first + _ROWS])))
        self._bring_events_up_to_date(run, state)

    def retire(self, run: Run, segments: Sequence[ListedObject], below: int) -> int:
        """Write the entries of segments that are numbered less than ``below`` and old enough, then delete them in order; never the
        highest-numbered segment. Waits for ``RETIRE_TOGETHER`` of them while younger ones remain. Returns the number of deleted segments."""
        before_ms = self._clock.now_ms() - RETIRE_AFTER_MS

        def is_due(segment: ListedObject) -> bool:
            return self.layout.sequence_of(run, segment.key) < below and segment.last_modified_ms <= before_ms

        over = list(takewhile(is_due, segments[:-1]))
        is_worth_it = len(over) >= RETIRE_TOGETHER or len(over) == len(segments) - 1
        return self._gc.retire(run, over) if is_worth_it else 0

    def compact_state(self, run: Run, state: RunState, deadline: Deadline) -> Compaction:
        """``compact`` for a state that was read before. Raises StoreConditionError if the run has changed since: read it again."""
        last = self.last_pending(run, state)
        if last is None or last.kind == SEAL:
            return self._nothing_to_write(run, state, last)
        if state.unfinished:
            state, last = self._as_begun(run, state, state.unfinished, last)
        self.index_pending(run, state)
        metadata = artifact_metadata(last.end_line, last.end_byte, last.sequence + 1, last.epoch, zone=last.zone)
        written = self.write(run, state, last, PutOptions(metadata), deadline)
        if state.partial is None:
            self._drop_if_finalized(run, written.etag, last)
        return Compaction(
            last.end_line,
            last.end_byte,
            last.sequence + 1,
            last.epoch,
            compacted_segments=len(state.pending),
            uploaded_bytes=written.uploaded_bytes,
            copied_bytes=written.copied_bytes,
            retired_segments=self.retire(run, state.segments, below=last.sequence + 1),
        )

    def _as_begun(self, run: Run, state: RunState, begun: UnfinishedUpload, last: SegmentEntry) -> tuple[RunState, SegmentEntry]:
        """The state that an unfinished upload of partial.txt was planned for, and its last segment; later segments are left to the next pass.
        The unchanged state if that upload was planned for another one."""
        pending = [found for found in state.pending if self.layout.sequence_of(run, found.key) <= begun.through]
        then = replace(state, pending=pending)
        if not pending or plan_id(self.layout.partial(run), self.parts(then)) != begun.plan:
            return state, last
        return then, self._tails.segment(run, begun.through)

    def _nothing_to_write(self, run: Run, state: RunState, seal: SegmentEntry | None) -> Compaction:
        base = state.base
        below = base.next_segment if base else 0
        epoch = base.epoch if base else 0
        reason = seal.reason if seal else (base.reason if base else "")
        if len(state.segments) > 1:  # one of the next passes retires them: until then sidecars may be written
            self._bring_events_up_to_date(run, state)
        retired = self.retire(run, state.segments, below)
        awaits_bundles = state.single_sidecars >= BUNDLE_FROM
        return Compaction(
            state.extent.lines, state.extent.bytes, below, epoch, reason, retired_segments=retired, awaits_bundles=awaits_bundles
        )

    def _bring_events_up_to_date(self, run: Run, state: RunState) -> None:
        """Also for the segments of the last pass: a sidecar may have been written after it."""
        if state.has_events and self._event_indexer:
            self._event_indexer.index_from(run, max(0, (state.base.next_segment if state.base else 0) - EVENTS_LOOK_BACK))

    def _drop_if_finalized(self, run: Run, etag: str, last: SegmentEntry) -> None:
        """The first partial.txt has no older version for a condition: delete it if a finalizer was faster."""
        logs = find_artifact(self._store, self.layout.logs(run))
        if logs and logs.next_segment > last.sequence:
            self._store.delete(self.layout.partial(run), if_match=etag)

    def _indexed(self, run: Run, state: RunState) -> set[int]:
        line, sequence = state.extent.lines, state.base.next_segment if state.base else 0
        found: set[int] = set()
        last = self.layout.sequence_of(run, state.pending[-1].key) if state.pending else -1
        while sequence <= last and (places := self._index.positions_from(run, line, sequence, _PLACES)):
            found.update(number for _, number in places)
            line, sequence = places[-1][0], places[-1][1] + 1
        return found


def retry_on_condition(attempt: Callable[[], Outcome]) -> Outcome:
    """Repeat an attempt, which must read the state again each time, while its conditions fail. Raises StoreUnavailableError, DamagedLogError."""
    return retry_on_change(attempt, changes=StoreConditionError, attempts=_ATTEMPTS)


def _written_ms(listed: ListedObject) -> int:
    return listed.last_modified_ms


def _sources(state: RunState) -> Iterator[SourceRange]:
    if state.base:
        yield SourceRange(state.base.key, 0, state.base.bytes, state.base.bytes, state.base.etag)
        if state.extent.lacks_newline:
            yield SourceRange("", 0, 1, 1, literal=b"\n")
    for found in state.pending:
        yield SourceRange(found.key, 0, found.size, found.size, found.etag)

"""Ends a run's log: writes a seal, then ``logs.txt``.

The seal takes a sequence number like any segment, so close and append are linearizable: earlier appends are in the log, later ones are
rejected (closed) or reopen the run with the next epoch (abandoned). The run has ended once the seal is stored, even if this process crashes;
any process can repeat the write of ``logs.txt``.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

from chalicelib.deadline import Deadline
from chalicelib.errors import ObjectNotFoundError, RunlakeError, UnavailableError
from chalicelib.ports import LOST, Clock, ObjectStore, PutOptions, Run, RunEnd, SegmentEntry
from chalicelib.runlog.artifact import Artifact, artifact_metadata
from chalicelib.runlog.attempts import read_start
from chalicelib.runlog.compaction import Compaction, Compactor, RunState, retry_on_condition
from chalicelib.runlog.log_end import LogEnd
from chalicelib.runlog.renewal import Renewal
from chalicelib.runlog.segment import ABANDONED, CLOSED, SEAL
from chalicelib.runlog.writer import Writer

INLINE_UPLOADED_BYTES = 16 * 1024 * 1024
"""Upload limit of a close request. The schedule finalizes larger logs, so that the response is in time for any size."""
INLINE_COPIED_BYTES = 256 * 1024 * 1024
"""Server-side copy limit of a close request."""
INLINE_SEGMENTS = 1000
"""Segment limit of a close request."""


FindEnd = Callable[[Run, LogEnd], RunEnd | None]
"""Finds the end of the run whose next segment goes to the given log end."""


@dataclass(frozen=True, slots=True)
class Finalization:
    """Progress of ending a log. ``sealed``: the reason of its seal, else empty; ``finalized``: logs.txt contains all of it."""

    sealed: str
    finalized: bool
    lines: int = 0
    bytes: int = 0
    next_segment: int = 0
    epoch: int = 0
    uploaded_bytes: int = 0
    copied_bytes: int = 0


class Finalizer:
    """Ends logs: on request (close), for idle runs (abandon), and completes what either left unfinished (compact_and_finalize).
    ``removes_markers``: costs a LIST per finalized run; False for callers that remove markers themselves. ``expiration_ms``: see ``Renewal``."""

    def __init__(
        self,
        store: ObjectStore,
        compactor: Compactor,
        writer: Writer,
        clock: Clock,
        storage_class: str | None = None,
        *,
        removes_markers: bool = True,
        expiration_ms: int = 0,
    ) -> None:
        self._store, self._compactor, self._writer, self._clock = store, compactor, writer, clock
        self._layout = compactor.layout
        self._storage_class = storage_class
        self._looks_for_markers = removes_markers
        self._renewal = Renewal(store, self._layout, clock, expiration_ms)

    def close(
        self, run: Run, position: str | None = None, end: RunEnd | None = None, find_end: FindEnd | None = None
    ) -> Finalization:
        """End a log permanently. Once it returns, no line can follow; ``logs.txt`` exists too, unless the log is too large: then the schedule
        writes it. Idempotent, also for concurrent closes: the ``end`` of the first one is stored. ``find_end`` is called if the client reports no
        end. Raises UnavailableError: repeat it."""
        tail = self._writer.presented_tail(run, position)
        while tail.seal != CLOSED:
            found = end or (find_end(run, tail) if find_end else None)
            tail = self._writer.seal(run, CLOSED, tail, found) or self._behind(run, tail)
        try:
            return self.finalize(run, Deadline(self._clock), inline=True)
        except UnavailableError:
            return Finalization(CLOSED, finalized=False)  # the seal is stored: the schedule does the rest

    def abandon(
        self, run: Run, idle_before_ms: int, deadline: Deadline, find_end: FindEnd | None = None, alive_ms: int = 0
    ) -> Finalization:
        """End a log whose last line was written before ``idle_before_ms``, or which was started before then and has no line. An append that
        wins the race keeps the run open and is in the log; a later one reopens the run. ``find_end``: see ``close``; if it returns None, the
        outcome is lost. ``alive_ms``: the last heartbeat."""
        tail = self._writer.tails.find(run)
        last_ms = tail.appended_ms if tail.exists else self._registered_ms(run)
        if not tail.seal:
            if not 0 < last_ms < idle_before_ms:
                return Finalization("", finalized=False)
            end = (find_end(run, tail) if find_end else None) or RunEnd(LOST)
            if not self._writer.seal(run, ABANDONED, tail, replace(end, ended_ms=max(last_ms, alive_ms))):
                return Finalization("", finalized=False)
        return self.finalize(run, deadline)

    def compact_and_finalize(self, run: Run, deadline: Deadline, seen: RunState | None = None) -> tuple[Compaction, Finalization]:
        """The schedule's work for a run: compact it, and finalize it if it is sealed. ``seen``: a run state that was read just now."""
        looks = iter([seen] if seen else [])

        def once() -> tuple[Compaction, Finalization]:
            state = next(looks, None) or self._compactor.read_state(run)
            compaction = self._compactor.compact_state(run, state, deadline)
            if compaction.seal:
                return compaction, self._finalize_seen(run, state, deadline)
            if state.oldest and self._renewal.is_due(state.oldest):
                self._renewal.renew(run, state.oldest, deadline)
            return compaction, Finalization("", finalized=False)

        return retry_on_condition(once)

    def finalize(self, run: Run, deadline: Deadline, *, inline: bool = False) -> Finalization:
        """Write ``logs.txt`` of a sealed log and remove ``partial.txt`` and the markers. Idempotent. ``inline``: only within the limits of a
        close request. Raises UnavailableError, DeadlineExceededError, DamagedLogError; no error loses data."""
        return retry_on_condition(lambda: self._finalize_seen(run, self._compactor.read_state(run), deadline, inline=inline))

    def _finalize_seen(self, run: Run, state: RunState, deadline: Deadline, *, inline: bool = False) -> Finalization:
        seal = self._compactor.last_pending(run, state)
        if seal is None:
            return self._clean_up(run, state, state.logs)
        if seal.kind != SEAL:
            return Finalization("", finalized=False)
        if inline and not self._is_little(state):
            return Finalization(seal.reason, finalized=False)
        if state.oldest and self._renewal.is_due_at_end(state.oldest):
            self._renewal.renew(run, state.oldest, deadline)
        self._compactor.index_pending(run, state)
        written = self._compactor.write(run, state, seal, self._options(seal), deadline)
        self._remove_partial(run, state.partial)
        if self._looks_for_markers:
            self._remove_markers(run)
        return Finalization(
            sealed=seal.reason,
            finalized=True,
            lines=seal.end_line,
            bytes=seal.end_byte,
            next_segment=seal.sequence + 1,
            epoch=seal.epoch,
            uploaded_bytes=written.uploaded_bytes,
            copied_bytes=written.copied_bytes,
        )

    def _registered_ms(self, run: Run) -> int:
        start = read_start(self._store, self._layout, run)
        return start.registered_ms if start else 0

    def _behind(self, run: Run, tail: LogEnd) -> LogEnd:
        """The log end after the write that took the number."""
        try:
            return LogEnd.after(self._writer.tails.segment(run, tail.sequence))
        except ObjectNotFoundError:
            return self._writer.tails.find(run)

    def _options(self, seal: SegmentEntry) -> PutOptions:
        reached = (seal.end_line, seal.end_byte, seal.sequence + 1, seal.epoch)
        metadata = artifact_metadata(*reached, seal.reason, seal.end, zone=seal.zone)
        return PutOptions(metadata, storage_class=self._storage_class)

    def _is_little(self, state: RunState) -> bool:
        parts = self._compactor.parts(state)
        uploaded = sum(part.size for part in parts if not part.copied)
        copied = sum(part.size for part in parts if part.copied)
        if self._renewal.is_due_at_end(state.oldest):
            return False
        return uploaded <= INLINE_UPLOADED_BYTES and copied <= INLINE_COPIED_BYTES and len(state.pending) <= INLINE_SEGMENTS

    def _clean_up(self, run: Run, state: RunState, logs: Artifact | None) -> Finalization:
        """Without pending segments the run is running, or already finalized; then remove a leftover ``partial.txt``."""
        if logs is None or state.base is not logs or not logs.reason:
            return Finalization("", finalized=False)
        if state.partial:
            self._remove_partial(run, state.partial)
        return Finalization(logs.reason, True, logs.lines or 0, logs.bytes, logs.next_segment, logs.epoch)

    def _remove_partial(self, run: Run, seen: Artifact | None) -> None:
        """Delete only the version that was read. A newer one proves a concurrent write (PreconditionFailedError: read the state again)."""
        if seen:
            self._store.delete(self._layout.partial(run), if_match=seen.etag)

    def _remove_markers(self, run: Run) -> None:
        """Markers are only for diagnostics, so errors are ignored."""
        with suppress(RunlakeError):
            markers = [found.key for found in self._store.list(self._layout.markers(run)).objects]
            if markers:
                self._store.delete_many(markers)

"""The end of a run's log: a seal, then ``logs.txt``.

The seal takes a number like any segment, so closing is linear with appends: what came before is in, what comes after is refused
(closed) or reopens the run with the next epoch (abandoned). Once the seal stands the run has ended, whatever happens to this process;
writing ``logs.txt`` is work that anybody can repeat.
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
"""What a close uploads itself. More is left to the schedule, so that the answer comes in time whatever the log's size."""
INLINE_COPIED_BYTES = 256 * 1024 * 1024
"""What a close copies itself, server-side."""
INLINE_SEGMENTS = 1000
"""How many segments a close reads itself."""


FindEnd = Callable[[Run, LogEnd], RunEnd | None]
"""The end of the log whose next segment goes to a tail."""


@dataclass(frozen=True, slots=True)
class Finalization:
    """How far ending a log has come. ``sealed``: it has an end, with this reason; ``finalized``: logs.txt holds all of it."""

    sealed: str
    finalized: bool
    lines: int = 0
    bytes: int = 0
    next_segment: int = 0
    epoch: int = 0
    uploaded_bytes: int = 0
    copied_bytes: int = 0


class Finalizer:
    """Ends logs: on request (close), for runs that nobody ends (abandon), and what either of them left half done (settle).
    ``removes_markers``: a LIST for each run that it finalizes; who knows of all markers already can do without. ``expiration_ms``:
    see ``Renewal``."""

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
        """End a log for good. Once it returns no line can follow; ``logs.txt`` is there too, or comes with the schedule when the log is too
        large to wait for. Twice is harmless, as are concurrent closes: the ``end`` of the first one holds; ``find_end`` finds it where the client
        reports none. Raises UnavailableError: repeat it."""
        tail = self._writer.presented_tail(run, position)
        while tail.seal != CLOSED:
            found = end or (find_end(run, tail) if find_end else None)
            tail = self._writer.seal(run, CLOSED, tail, found) or self._behind(run, tail)
        try:
            return self.finalize(run, Deadline(self._clock), inline=True)
        except UnavailableError:
            return Finalization(CLOSED, finalized=False)  # the seal stands: the schedule does the rest

    def abandon(
        self, run: Run, idle_before_ms: int, deadline: Deadline, find_end: FindEnd | None = None, alive_ms: int = 0
    ) -> Finalization:
        """End a log whose last line was written before a time, or that was started before it and has no line. An append that comes first
        keeps the run open and is in it; one that comes after reopens the run. ``find_end`` as of ``close``; None of it: the run is
        lost. ``alive_ms``: its last heartbeat."""
        tail = self._writer.tails.find(run)
        last_ms = tail.appended_ms if tail.exists else self._registered_ms(run)
        if not tail.seal:
            if not 0 < last_ms < idle_before_ms:
                return Finalization("", finalized=False)
            end = (find_end(run, tail) if find_end else None) or RunEnd(LOST)
            if not self._writer.seal(run, ABANDONED, tail, replace(end, last_sign_ms=max(last_ms, alive_ms))):
                return Finalization("", finalized=False)
        return self.finalize(run, deadline)

    def compact_and_finalize(self, run: Run, deadline: Deadline, seen: RunState | None = None) -> tuple[Compaction, Finalization]:
        """What the schedule does with a run: compact it, and finalize it when it has a seal. ``seen``: a look that was taken just now."""
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
        """Write ``logs.txt`` of a sealed log and remove ``partial.txt`` and the markers. Idempotent. ``inline``: only if it is little
        work. Raises UnavailableError, DeadlineExceededError, DamagedLogError; nothing is lost by any of them."""
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
        """Another write took the number: the tail behind it."""
        try:
            return LogEnd.after(self._writer.tails.segment(run, tail.sequence))
        except ObjectNotFoundError:
            return self._writer.tails.find(run)

    def _options(self, seal: SegmentEntry) -> PutOptions:
        metadata = artifact_metadata(seal.end_line, seal.end_byte, seal.sequence + 1, seal.epoch, seal.reason, seal.end)
        return PutOptions(metadata, storage_class=self._storage_class)

    def _is_little(self, state: RunState) -> bool:
        parts = self._compactor.parts(state)
        uploaded = sum(part.size for part in parts if not part.copied)
        copied = sum(part.size for part in parts if part.copied)
        if self._renewal.is_due_at_end(state.oldest):
            return False
        return uploaded <= INLINE_UPLOADED_BYTES and copied <= INLINE_COPIED_BYTES and len(state.pending) <= INLINE_SEGMENTS

    def _clean_up(self, run: Run, state: RunState, logs: Artifact | None) -> Finalization:
        """Nothing is pending: the run is open, or it was finalized before and something may have been left behind."""
        if logs is None or state.base is not logs or not logs.reason:
            return Finalization("", finalized=False)
        if state.partial:
            self._remove_partial(run, state.partial)
        return Finalization(logs.reason, True, logs.lines or 0, logs.bytes, logs.next_segment, logs.epoch)

    def _remove_partial(self, run: Run, seen: Artifact | None) -> None:
        """Only the version that was read: a newer one means that somebody wrote meanwhile (PreconditionFailedError: look again)."""
        if seen:
            self._store.delete(self._layout.partial(run), if_match=seen.etag)

    def _remove_markers(self, run: Run) -> None:
        """Markers are for diagnostics: failing to remove them fails nothing."""
        with suppress(RunlakeError):
            markers = [found.key for found in self._store.list(self._layout.markers(run)).objects]
            if markers:
                self._store.delete_many(markers)

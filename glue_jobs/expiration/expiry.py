"""Expires one run: checks it again, closes it, writes a tombstone, removes it. Readers see a complete log until the last request.

Every step can be repeated, and the schedule continues a removal that was interrupted::

    check        if the run differs from the plan, it is left unchanged
    close        an abandoned run gets a closed seal, which takes a number as an append does: either the seal was first, or the
                 append. The run can be removed 20 minutes later, when no writer that read the log before the seal can still be
                 writing (decision 0001)
    tombstone    before the removal
    removal      see ``removal.run_removal``
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from chalicelib.deadline import Deadline
from chalicelib.errors import ObjectNotFoundError
from chalicelib.ports import Clock, ListedObject, ObjectStore, Run
from chalicelib.removal.run_removal import RunRemoval
from chalicelib.runlog.artifact import Artifact, find_artifact
from chalicelib.runlog.compaction import RETIRE_AFTER_MS
from chalicelib.runlog.layout import Layout
from chalicelib.runlog.log_end import LogEnd, list_all
from chalicelib.runlog.segment import ABANDONED, CLOSED
from chalicelib.runlog.tombstones import Tombstone, put_tombstone
from chalicelib.runlog.writer import Writer


class Outcome(StrEnum):
    """Result for a run of the plan. ``closing``: apply the plan again 20 minutes later. ``changed``: the run was reopened or
    replaced by another one, and is left unchanged. ``gone``: it had no objects."""

    EXPIRED = "expired"
    CLOSING = "closing"
    CHANGED = "changed"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class ExpiringRun:
    """A run of the plan, as listed (see ``transforms.retention.RUNS``)."""

    fqn: str
    run_id: str
    reason: str
    rule: int
    ended_ms: int
    bytes: int
    objects: int
    log_bytes: int
    tail: int

    @property
    def run(self) -> Run:
        """The run's name."""
        return Run(self.fqn, self.run_id)


@dataclass(frozen=True, slots=True)
class _RunState:
    """A run's current objects."""

    objects: Sequence[ListedObject]
    logs: Artifact | None
    tail: ListedObject | None
    tail_number: int

    @property
    def newest_ms(self) -> int:
        return max(each.last_modified_ms for each in self.objects)


class Expiry:
    """Expires the runs of a plan. ``clock`` is compared with the store's times; the 20 minutes allow for minutes of difference."""

    def __init__(self, store: ObjectStore, removal: RunRemoval, writer: Writer, layout: Layout, clock: Clock, plan: str) -> None:
        self._store, self._removal, self._writer = store, removal, writer
        self._layout, self._clock, self._plan = layout, clock, plan

    def expire(self, expiring: ExpiringRun) -> Outcome:
        """Remove a run if it still is as planned, or if its removal was begun. At most twelve requests for a run of fewer than 1,000
        objects and 25 segment rows.

        Raises UnavailableError (repeat the call), DamagedLogError (the run is left unchanged).
        """
        run = expiring.run
        state = self._look(run)
        if not state.objects:
            return Outcome.GONE
        if not _is_as_planned(expiring, state):
            return Outcome.EXPIRED if self._removal.is_expiring(run) and self._continue(run) else Outcome.CHANGED
        outcome = self._closed(run, state)
        if outcome is not None:
            return outcome
        put_tombstone(self._store, self._layout, self._tombstone(expiring, state))
        self._removal.expire(run, Deadline(self._clock))
        return Outcome.EXPIRED

    def _continue(self, run: Run) -> bool:
        return self._removal.proceed(run, Deadline(self._clock)) and not self._look(run).objects

    def _look(self, run: Run) -> _RunState:
        objects = list(list_all(self._store, self._layout.run_prefix(run)))
        segments = list(self._layout.segments_among(run, objects))
        tail = segments[-1] if segments else None
        has_logs = any(each.key == self._layout.logs(run) for each in objects)
        logs = find_artifact(self._store, self._layout.logs(run)) if has_logs else None
        return _RunState(objects, logs, tail, self._layout.sequence_of(run, tail.key) if tail else -1)

    def _closed(self, run: Run, state: _RunState) -> Outcome | None:
        """None if no append can follow, and none that began before the seal can still be writing."""
        logs = state.logs
        assert logs
        if state.tail_number >= logs.next_segment:
            tail = self._behind(run, state.tail_number)
            if tail is None or (tail.seal, tail.sequence, tail.byte) != (CLOSED, logs.next_segment + 1, logs.bytes):
                return Outcome.CHANGED  # appended to, or OpenMetadata's own log followed by our segments
        elif logs.reason == ABANDONED:
            end = LogEnd(logs.next_segment, logs.lines or 0, logs.bytes, logs.epoch, ABANDONED, zone=logs.zone)
            return Outcome.CLOSING if self._writer.seal(run, CLOSED, end) else Outcome.CHANGED
        is_settled = state.newest_ms <= self._clock.now_ms() - RETIRE_AFTER_MS
        return None if is_settled else Outcome.CLOSING

    def _behind(self, run: Run, number: int) -> LogEnd | None:
        try:
            return LogEnd.after(self._writer.tails.segment(run, number))
        except ObjectNotFoundError:
            return None

    def _tombstone(self, expiring: ExpiringRun, state: _RunState) -> Tombstone:
        logs = state.logs
        assert logs
        return Tombstone(
            fqn=expiring.fqn,
            run_id=expiring.run_id,
            reason=expiring.reason,
            rule=expiring.rule,
            plan=self._plan,
            expired_ms=self._clock.now_ms(),
            ended_ms=expiring.ended_ms,
            lines=-1 if logs.lines is None else logs.lines,
            bytes=logs.bytes,
            objects=len(state.objects),
        )


def _is_as_planned(expiring: ExpiringRun, state: _RunState) -> bool:
    """Bytes of a log never change, so a log of the same length is the same log."""
    return state.logs is not None and not state.logs.is_deleted and state.logs.bytes == expiring.log_bytes

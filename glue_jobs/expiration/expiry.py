"""The end of one run's objects: looked at once more, closed for good, written down, deleted; whole for its readers until the last request.

Every step can be repeated, and a deletion that broke off anywhere goes on with the same end::

    look         anything else than what the plan saw: the run is left as it is
    close        an abandoned run gets a closed seal, which takes a number as an append does: either it was first, or the append was. It
                 may go 20 minutes later, when no writer that had looked before can still be under way (decision 0001)
    tombstone    before anything goes
    rows         lists name the run no more
    objects      all but logs.txt and the tail, which is what appends and readers look at; then those two, by one request
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from chalicelib.errors import ObjectNotFoundError
from chalicelib.ports import Clock, ListedObject, ObjectStore, Run
from chalicelib.runlog.artifact import Artifact, find_artifact
from chalicelib.runlog.compaction import RETIRE_AFTER_MS
from chalicelib.runlog.layout import Layout
from chalicelib.runlog.log_end import LogEnd, list_all
from chalicelib.runlog.segment import ABANDONED, CLOSED
from chalicelib.runlog.tombstones import Tombstone, find_tombstone, put_tombstone
from chalicelib.runlog.writer import Writer
from glue_jobs.transforms.retention import UNFINISHED

_DELETE_MANY = 1000


class Outcome(StrEnum):
    """What became of a run of the plan. ``closing``: apply the plan again, 20 minutes later. ``changed``: it was reopened, or is another
    run by now; it is left. ``gone``: nothing of it was there."""

    EXPIRED = "expired"
    CLOSING = "closing"
    CHANGED = "changed"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class ExpiringRun:
    """A run of the plan, as the listing had it (see ``transforms.retention.RUNS``)."""

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
        """Which."""
        return Run(self.fqn, self.run_id)


class CatalogRows(Protocol):
    """The catalog's rows of a run."""

    def forget(self, run: Run) -> None:
        """Delete them, those that lists are made of first. None there is a success. Raises UnavailableError."""


@dataclass(frozen=True, slots=True)
class _RunState:
    """A run's objects, as they are now."""

    objects: Sequence[ListedObject]
    logs: Artifact | None
    tail: ListedObject | None
    tail_number: int

    @property
    def newest_ms(self) -> int:
        return max(each.last_modified_ms for each in self.objects)


class Expiry:
    """Expires runs of a plan. ``clock`` against the store's own times: they may differ by the minutes that the 20 have to spare."""

    def __init__(self, store: ObjectStore, rows: CatalogRows, writer: Writer, layout: Layout, clock: Clock, plan: str) -> None:
        self._store, self._rows, self._writer, self._layout, self._clock, self._plan = store, rows, writer, layout, clock, plan

    def expire(self, expiring: ExpiringRun) -> Outcome:
        """Delete a run, if it is still what the plan saw. At most nine requests for a run of fewer than 1,000 objects and 25 segments' rows.

        Raises UnavailableError (repeat it), DamagedLogError (the run is left)."""
        run = expiring.run
        state = self._look(run)
        if not state.objects:
            return Outcome.GONE
        if not self._was_begun(run, state):
            if not _is_as_planned(expiring, state):
                return Outcome.CHANGED
            outcome = self._closed(run, state)
            if outcome is not None:
                return outcome
            self._write_down(expiring, state)
        self._rows.forget(run)
        self._delete(run, state)
        return Outcome.EXPIRED

    def _look(self, run: Run) -> _RunState:
        objects = list(list_all(self._store, self._layout.run_prefix(run)))
        segments = [each for each in objects if each.key.startswith(self._layout.segments(run))]
        tail = segments[-1] if segments else None
        has_logs = any(each.key == self._layout.logs(run) for each in objects)
        logs = find_artifact(self._store, self._layout.logs(run)) if has_logs else None
        return _RunState(objects, logs, tail, self._layout.sequence_of(run, tail.key) if tail else -1)

    def _was_begun(self, run: Run, state: _RunState) -> bool:
        """Whether these are leftovers, which logs.txt or the tail are the last of."""
        if state.logs and state.tail:
            return False  # nothing that counts is gone: as good as not begun
        tombstone = find_tombstone(self._store, self._layout, run)
        if tombstone is None:
            return False
        if state.logs:
            return tombstone.logs_etag == state.logs.etag
        if state.tail:
            return (tombstone.tail, tombstone.tail_ms) == (state.tail_number, state.tail.last_modified_ms)
        return all(each.key != self._layout.partial(run) for each in state.objects)  # nothing of a log, of this run or another

    def _closed(self, run: Run, state: _RunState) -> Outcome | None:
        """None when no append can follow any more, nor one that looked before still be under way."""
        logs = state.logs
        assert logs
        if state.tail_number >= logs.next_segment:
            tail = self._behind(run, state.tail_number)
            if tail is None or (tail.seal, tail.sequence, tail.byte) != (CLOSED, logs.next_segment + 1, logs.bytes):
                return Outcome.CHANGED  # appended to, or OpenMetadata's own log with segments of ours behind it
        elif logs.reason == ABANDONED:
            end = LogEnd(logs.next_segment, logs.lines or 0, logs.bytes, logs.epoch, ABANDONED)
            return Outcome.CLOSING if self._writer.seal(run, CLOSED, end) else Outcome.CHANGED
        is_settled = state.newest_ms <= self._clock.now_ms() - RETIRE_AFTER_MS
        return None if is_settled else Outcome.CLOSING

    def _behind(self, run: Run, number: int) -> LogEnd | None:
        try:
            return LogEnd.after(self._writer.tails.segment(run, number))
        except ObjectNotFoundError:
            return None

    def _write_down(self, expiring: ExpiringRun, state: _RunState) -> None:
        """The first reason stays."""
        is_known = expiring.reason == UNFINISHED and find_tombstone(self._store, self._layout, expiring.run)
        if not is_known:
            put_tombstone(self._store, self._layout, self._tombstone(expiring, state))

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
            tail=state.tail_number,
            tail_ms=state.tail.last_modified_ms if state.tail else -1,
            logs_etag=logs.etag,
        )

    def _delete(self, run: Run, state: _RunState) -> None:
        last = [each.key for each in (state.logs, state.tail) if each]
        first = [each.key for each in state.objects if each.key not in last]
        first += [each.key for each in list_all(self._store, self._layout.markers(run))]
        for start in range(0, len(first), _DELETE_MANY):
            self._store.delete_many(first[start : start + _DELETE_MANY])
        if last:
            self._store.delete_many(last)


def _is_as_planned(expiring: ExpiringRun, state: _RunState) -> bool:
    """A log's bytes never change, so one of the same length is the same."""
    return state.logs is not None and state.logs.bytes == expiring.log_bytes

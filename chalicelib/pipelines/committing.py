"""Commits a worker's progress: the checkpoints of its runs, handlers' rows, changed handler states and the status row."""

from __future__ import annotations

from collections.abc import Callable

from chalicelib.errors import LeaseError
from chalicelib.pipelines.active_runs import ActiveRuns
from chalicelib.pipelines.checkpoints import Checkpoints
from chalicelib.pipelines.context import Caught
from chalicelib.pipelines.deletions import DeletionNotifier
from chalicelib.pipelines.delivery import EventDelivery
from chalicelib.pipelines.handler_rows import checked_writes
from chalicelib.pipelines.pipeline_state import DISABLED, REPLAYING, DesiredState, HandlerState, PipelineStateStore, handler_row
from chalicelib.pipelines.ports import CommitsWithCheckpoint, Fence
from chalicelib.pipelines.rows import RunCheckpoint
from chalicelib.pipelines.run_scheduler import RunScheduler
from chalicelib.pipelines.shards import ONLY, Shard, shards
from chalicelib.ports import Clock, Put, Row, Run, Write

QUIET_STATUS_MS = 60_000
"""A worker reports its status at least this often when nothing moves."""
_NOTHING = RunCheckpoint()
Status = Callable[[int], Put]
"""Builds the status row of a worker's shard for a time."""


def reported_caught_up(row: Row, layout: str) -> dict[str, int]:
    """The handlers that a shard reports as caught up, if it reports under this layout."""
    stored = row.get("caught_up", {}) if row.get("layout") == layout else {}
    return {name: int(since_ms) for name, since_ms in stored.items()}


class Committer:
    """``unsaved``: handler states that the next commit stores. ``catching_up``: handlers that receive the events they missed;
    ``caught_up``: those that have received them from this shard, with the time of their state. ``committing``: handlers whose
    rows are in the last commit. ``status``, ``deletions`` None: for a part of a job, which reports no status and notifies of no deletions."""

    def __init__(
        self,
        name: str,
        checkpoints: Checkpoints,
        active_runs: ActiveRuns,
        scheduler: RunScheduler,
        delivery: EventDelivery,
        clock: Clock,
        fence: Fence,
        status: Status | None,
        deletions: DeletionNotifier | None = None,
        shard: Shard = ONLY,
    ) -> None:
        self._deletions = deletions
        self._name, self._checkpoints, self._active_runs = name, checkpoints, active_runs
        self._scheduler, self._delivery = scheduler, delivery
        self._clock, self._fence, self._status, self._shard = clock, fence, status, shard
        self.unsaved: dict[str, HandlerState] = {}
        self.known: dict[str, HandlerState] = {}
        self.catching_up: set[str] = set()
        self.caught_up: dict[str, int] = {}
        self.committing: list[str] = []
        self._saving: dict[str, HandlerState] = {}
        self._moving: dict[Run, RunCheckpoint] = {}
        self._reported_ms = 0

    def set_handler_state(self, state: HandlerState) -> None:
        """Apply a handler's state with the next commit: events that it has missed until then are caught up under this state."""
        self.unsaved[state.handler] = state
        self.catching_up.discard(state.handler)
        self.caught_up.pop(state.handler, None)

    def settle(self) -> None:
        """Resolve a commit in doubt. Raises like ``Checkpoints.settle``."""
        if self._checkpoints.in_doubt and self._checkpoints.settle():
            self._committed()

    def commit(self, states: PipelineStateStore) -> bool:
        """One transaction if anything changed, none if a handler failed to return its rows; then clear the states of handlers
        that have caught up. Returns whether all that handlers received is committed. Raises like ``Checkpoints.commit``."""
        receiving, committed = self._delivery.receiving, self._checkpoints.active()
        moved: dict[Run, RunCheckpoint] = {}
        for run, active in self._active_runs.checkpointed():
            checkpoint = active.current_checkpoint(receiving)
            if run not in committed or checkpoint != committed[run]:
                moved[run] = checkpoint  # also if nothing of the run was read yet: an active run is not discovered again
        writes = self._writes()
        if writes is None:
            return False
        writes += self._deletions.writes() if self._deletions else []
        self._note_caught_up()
        now_ms = self._clock.now_ms()
        is_quiet = self._status is None or now_ms - self._reported_ms < QUIET_STATUS_MS
        has_backlog = self._checkpoints.has_backlog and bool(self._scheduler.forced)
        is_settled = not moved and has_backlog == self._checkpoints.has_backlog
        if is_settled and not writes and not self.unsaved and is_quiet:
            self._clear_caught_up(states)
            return True
        status = [self._status(now_ms)] if self._status else []
        changed = [Put(*handler_row(self._name, state)) for state in self.unsaved.values()]
        self._saving = dict(self.unsaved)
        self._moving = moved
        self._fence()
        looked_ms = self._scheduler.discovered_until_ms
        self._checkpoints.commit(moved, [*status, *changed, *writes], looked_ms=looked_ms, has_backlog=has_backlog)
        self._committed()
        self._clear_caught_up(states)
        return True

    def _note_caught_up(self) -> None:
        """Record which handlers have received all events that they missed."""
        if not self.catching_up or self._scheduler.forced:
            return
        behind = {name for active in self._active_runs.runs.values() for name in active.checkpoint.lagging}
        for name in self.catching_up - behind:
            self.caught_up[name] = self.known[name].since_ms
        self.catching_up &= behind

    def _clear_caught_up(self, states: PipelineStateStore) -> None:
        """Clear the states of handlers that have received their missed events from every shard, unless an operator has changed
        them meanwhile. These events are committed: without the state they are not delivered again. The leading shard does
        this, since a shard that starts later has to know. One read while there are such handlers and other shards. Raises
        UnavailableError."""
        if not self.caught_up or not self._shard.leads:
            return
        others = shards(self._shard.count)[1:]
        rows = states.shard_status(self._name, others) if others else {}
        layout = self._checkpoints.layout
        for name, since_ms in list(self.caught_up.items()):
            if all(reported_caught_up(rows.get(other, {}), layout).get(name) == since_ms for other in others):
                states.clear_handler(self._name, self.known[name])
                del self.caught_up[name]
                self.known.pop(name)

    def _writes(self) -> list[Write] | None:
        """The rows of handlers; None if one of them failed to return them. Raises LeaseError."""
        writes: list[Write] = []
        self.committing = []
        for name, handler in self._delivery.context.handlers.items():
            if not self._delivery.receiving.get(name) or not isinstance(handler, CommitsWithCheckpoint):
                continue
            self._delivery.progress.note_call(name)
            try:
                pending = checked_writes(handler.pending_writes(), writes)
            except LeaseError:
                raise  # its fence raised: the worker stops, and commits nothing
            except Caught as error:
                self._delivery.count_error(name, error)
                return None
            finally:
                self._delivery.progress.note_call("")
            if pending:
                writes += pending
                self.committing.append(name)
        return writes

    def _committed(self) -> None:
        """Update the state in memory after the last commit was stored."""
        for run, active in self._active_runs.checkpointed():
            active.checkpoint = self._moving.get(run, active.checkpoint)
        for name, state in self._saving.items():
            if self.unsaved.get(name) == state:
                del self.unsaved[name]
            self.known.pop(name, None)
            if state.state:
                self.known[name] = state
        self._moving, self._saving = {}, {}
        if self._deletions:
            self._deletions.committed()
        self._reported_ms = self._clock.now_ms()
        for name in self.committing:
            handler = self._delivery.context.handlers[name]
            assert isinstance(handler, CommitsWithCheckpoint)
            self._delivery.progress.note_call(name)
            try:
                handler.committed()
            except LeaseError:
                raise
            except Caught as error:
                self._delivery.count_error(name, error)
            self._delivery.progress.note_call("")
        self.committing = []

    def release_done(self) -> None:
        """Release runs that are done: ended ones, and running ones while other runs wait for room. Raises like
        ``Checkpoints.release``."""
        crowded = self._scheduler.is_full
        done = [
            run
            for run, active in self._active_runs.runs.items()
            if active.is_done
            and (active.final or crowded)
            and active.current_checkpoint(self._delivery.receiving) == self._checkpoints.active().get(run, _NOTHING)
        ]
        if not done:
            return
        self._checkpoints.release(done)
        for run in done:
            self._scheduler.mark_caught_up(self._active_runs.runs[run].known)
            self._active_runs.drop(run)

    def has_operator_change(self, states: PipelineStateStore, desired: DesiredState) -> bool:
        """Whether an operator has changed the pipeline's or a handler's state. One Query."""
        now, handlers = states.read(self._name)
        ours = {name for name, each in (self.known | self.unsaved).items() if each.state == DISABLED}
        theirs = {name for name, each in handlers.items() if each.state == DISABLED}
        enabled = {
            name for name, each in handlers.items() if each.state == REPLAYING and not self._delivery.receiving.get(name, True)
        }
        return now != desired or bool(theirs - ours) or bool(enabled)

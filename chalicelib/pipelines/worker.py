"""The worker of a pipeline, in one thread: start, then steps of reading, ordering, delivering, flushing and checkpointing, then
stop.

::

    discover runs ► make them active ► read a piece of each ► ordering buffer ► handlers ► flush ► checkpoint ► release done runs

A crash anywhere loses nothing: processing resumes at the last checkpoint, so each event reaches each handler at least once. An
unavailable store delays checkpoints and reading, never events in the buffer.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from chalicelib.errors import LeaseError, PreconditionFailedError, UnavailableError
from chalicelib.pipelines.active_runs import ActiveRuns, GenerationLookup
from chalicelib.pipelines.allowed_modules import DEFAULTS_ONLY, names_in
from chalicelib.pipelines.checkpoints import MAX_RUNS, Checkpoints, JobPart, Replay
from chalicelib.pipelines.committing import Committer, reported_caught_up
from chalicelib.pipelines.configuration import PipelineFile
from chalicelib.pipelines.context import Caught, LoggingContext, build_logging
from chalicelib.pipelines.dead_letters import DeadLetters
from chalicelib.pipelines.deletions import DeletionNotifier, ListDeletions, no_deletions
from chalicelib.pipelines.delivery import EventDelivery, Progress
from chalicelib.pipelines.files.bucket_location import BucketLocation
from chalicelib.pipelines.handler_metrics import HandlerMetrics, OnMetrics, ignore_metrics
from chalicelib.pipelines.ordering import OrderingBuffer, PendingEvent
from chalicelib.pipelines.pipeline_state import (
    DISABLED,
    FAILED,
    REPLAYING,
    DesiredState,
    HandlerState,
    PipelineStateStore,
    replay_done,
    status_key,
)
from chalicelib.pipelines.ports import LINE, Fence, HandlerContext, MakeTarget, TakesContext
from chalicelib.pipelines.resending import Resender, ResendRequests
from chalicelib.pipelines.rows import RunCheckpoint, row_at
from chalicelib.pipelines.run_discovery import RunDiscovery
from chalicelib.pipelines.run_event_reader import LogSource, SegmentSource
from chalicelib.pipelines.run_scheduler import RunScheduler
from chalicelib.pipelines.shards import ONLY, Shard
from chalicelib.pipelines.sidecar_reader import SidecarReader
from chalicelib.pipelines.wheels import WheelProblem
from chalicelib.ports import Clock, Database, ObjectStore, Put, Run

Warn = Callable[..., None]
"""Logs a warning: a message, and facts by name."""
BATCH = 500
RESEND_EVERY_MS = 10_000
"""Between two looks for requests to send dead letters again: a Query each."""
RESUME_AFTER_MS = 60_000
"""A suspended handler is tried again after this time."""
_REASON_CHARS = 300
_TRIED = (REPLAYING, FAILED)
"""States of handlers that receive events, first those that they missed."""


@dataclass(frozen=True, slots=True)
class WorkerDependencies:
    """The collaborators of a worker. ``buffer_bytes``: the default if the file sets no size; ``generation`` returns None for
    deleted generations; ``part``: for a job, which processes only the runs of ``discovery``; ``sidecars`` None: all lines are
    plain text; ``segments`` None: running runs are not followed; ``shard``: the shard to process; ``make_target``,
    ``instance_id``: see ``HandlerContext``; ``on_metrics`` is called with each handler's metrics at each checkpoint;
    ``wheel_problems``: added to the reasons of handlers that cannot be built; ``deletions``: see ``ListDeletions``."""

    logs: LogSource
    discovery: RunDiscovery
    store: ObjectStore
    database: Database
    clock: Clock
    keep_s: int
    buffer_bytes: int
    warn: Warn
    generation: GenerationLookup = lambda _: ""
    stores: Callable[[BucketLocation], ObjectStore] | None = None
    max_runs: int = MAX_RUNS
    part: JobPart | None = None
    sidecars: SidecarReader | None = None
    segments: SegmentSource | None = None
    shard: Shard = ONLY
    make_target: MakeTarget | None = None
    instance_id: str = ""
    on_metrics: OnMetrics = ignore_metrics
    wheel_problems: Sequence[WheelProblem] = ()
    deletions: ListDeletions = no_deletions


class Worker:
    """One pipeline, processed by one thread under one lease. ``fence`` raises LeaseError if the lease is lost; ``owner``: the
    lease's owner.

    ``progress`` may be read by other threads. ``wants_restart``: an operator has changed the state since the start."""

    def __init__(self, file: PipelineFile, parts: WorkerDependencies, fence: Fence, owner: str) -> None:
        self.file, self._parts, self._fence, self._owner = file, parts, fence, owner
        self.name = file.name
        self._clock = parts.clock
        self._states = PipelineStateStore(parts.database, parts.clock)
        self._shard = parts.shard
        self.checkpoints = Checkpoints(parts.database, self.name, parts.clock, parts.keep_s, parts.part, parts.shard)
        self.buffer = OrderingBuffer(file.properties.event_delay_ms, file.properties.buffer_bytes or parts.buffer_bytes)
        self.active_runs = ActiveRuns(
            parts.logs,
            self.buffer,
            file.properties,
            parts.clock,
            parts.generation,
            self._warn_of_run,
            parts.sidecars,
            parts.segments,
        )
        self.progress = Progress()
        self.wants_restart = False
        self.processed = 0
        self._committed_ms = self._resent_ms = 0
        self._suspended_ms: int | None = None
        self._metrics: dict[str, HandlerMetrics] = {}
        self.scheduler = RunScheduler(
            parts.discovery, file.source, self.checkpoints, self.active_runs, parts.clock, parts.max_runs, parts.shard
        )

    def start(self) -> None:
        """Take the pipeline over, and build and start its handlers, without those that are disabled. A handler that fails is
        reported, and the rest are started. Raises InvalidConfigurationError, LeaseError, UnavailableError."""
        self._fence()
        self._desired, known = self._states.read(self.name)
        self._take_over()
        disabled = {name for name, state in known.items() if state.state == DISABLED}
        begin_call = self.progress.begin_call
        context = build_logging(self.file.logging, self.file.properties, self._clock.now_ms, begin_call, disabled)
        failures = {name: self._with_wheels(name, reason) for name, reason in context.failures.items()}
        parts = self._parts
        handed = HandlerContext(
            parts.store, parts.database, self._clock, self.name, self._fence, parts.stores,
            make_target=parts.make_target, instance_id=parts.instance_id,
        )  # fmt: skip
        self._metrics = {name: HandlerMetrics() for name in context.handlers}
        for name, handler in context.handlers.items():
            if isinstance(handler, TakesContext):
                begin_call(name)
                try:
                    handler.use(replace(handed, metrics=self._metrics[name]))
                except Caught as error:
                    failures[name] = f"{type(error).__name__}: {error}"[:500]
        begin_call("")
        self._set_up_delivery(context, failures, known)
        for name, reason in failures.items():
            self._parts.warn(
                "a handler could not be started: the other handlers continue", pipeline=self.name, handler=name, reason=reason
            )
            self.committer.set_handler_state(HandlerState(name, FAILED, reason, self._clock.now_ms()))
        self._resume()

    def _with_wheels(self, handler: str, reason: str) -> str:
        """The reason why a handler could not be built, with the wheels that are not used: its module may be in one of them."""
        problems, named = self._parts.wheel_problems, names_in(self.file.logging.handlers[handler])
        if not problems or not DEFAULTS_ONLY.missing(list(named)):
            return reason
        return f"{reason[:_REASON_CHARS]}; wheels not used: {', '.join(f'{each.wheel}: {each.reason}' for each in problems)}"[:1000]

    def _set_up_delivery(self, context: LoggingContext, failures: Mapping[str, str], known: dict[str, HandlerState]) -> None:
        named = {name for _, logger in self.file.logging.each_logger() for name in logger.get("handlers") or ()}
        attached = {*context.attached(), *failures, *(name for name in named if name not in context.handlers)}
        receiving = {name: name not in failures and (name not in known or known[name].state in _TRIED) for name in attached}
        dead = DeadLetters(self._parts.store, self.name, self._clock)
        self.context = context
        self.delivery = EventDelivery(
            context, self.file.errors, dead, self._clock, self._disable_handler, receiving, self.progress, self._suspend_handler,
            {name for name, state in known.items() if state.state == FAILED}, self.file.handler_errors(),
        )  # fmt: skip
        status = None if self._parts.part else self._status_row
        self._deletions = None if self._parts.part else self._deletion_notifier()
        self.committer = Committer(
            self.name,
            self.checkpoints,
            self.active_runs,
            self.scheduler,
            self.delivery,
            self._clock,
            self._fence,
            status,
            self._deletions,
            self._shard,
        )
        self.committer.known = known
        requests = ResendRequests(self._parts.database, self.name, self._clock)
        self.resender = Resender(requests, self.delivery, self._parts.generation, self._shard, self._warn_of_letter)

    def _deletion_notifier(self) -> DeletionNotifier:
        parts, handlers = self._parts, self.file.logging.handlers
        return DeletionNotifier(
            parts.database, self.name, handlers, self._shard, parts.deletions, self.delivery, self.active_runs, self._fence
        )

    def _take_over(self) -> None:
        """Take over, with a requested replay if there is one: the leading shard marks the runs of all shards."""
        desired = self._desired
        if desired.replay_ms is None or self._parts.part is not None or not self._shard.leads:
            self.checkpoints.take_over(self._owner)
            return
        self.checkpoints.take_over(self._owner, Replay(desired.replay_ms, replay_done(self.name, desired)))
        self._desired = DesiredState(desired.enabled, None, desired.asked_ms)

    def _resume(self) -> None:
        for run, checkpoint in self.checkpoints.active().items():
            self.scheduler.force(run, checkpoint)
        if self._parts.part is not None:
            return
        catching_up = self._catching_up()
        if catching_up or self.checkpoints.has_backlog:
            for row in self.checkpoints.released():
                is_due = (row.unfinished and self.checkpoints.has_backlog) or catching_up & set(row.checkpoint.lagging)
                if is_due and self._shard.has(row.run.fqn) and row.run not in self.checkpoints.active():
                    self.scheduler.force(row.run, row.checkpoint)
        self.committer.catching_up = catching_up
        self.scheduler.list_since(self.checkpoints.looked_ms)

    def _catching_up(self) -> set[str]:
        """The handlers that receive missed events, without those that have already received them from this shard."""
        receiving, known = self.delivery.receiving, self.committer.known
        catching_up = {name: state.since_ms for name, state in known.items() if receiving.get(name) and state.state in _TRIED}
        if not catching_up or self._shard.count < 2:
            return set(catching_up)
        row = self._states.shard_status(self.name, [self._shard]).get(self._shard, {})
        caught_up = reported_caught_up(row, self.checkpoints.layout)
        self.committer.caught_up = {name: since_ms for name, since_ms in catching_up.items() if caught_up.get(name) == since_ms}
        return set(catching_up) - set(self.committer.caught_up)

    def step(self) -> bool:
        """Do the work that is due, once. Returns whether there was any: if not, wait. Raises LeaseError, UnavailableError (the
        next step continues; active runs are processed even while new ones cannot be discovered)."""
        self._fence()
        away: UnavailableError | None = None
        try:
            self.scheduler.discover()
            self.scheduler.admit(self.delivery.receiving)
        except UnavailableError as error:
            away = error
        came = self.active_runs.read()
        done = self._process()
        now_ms = self._clock.now_ms()
        self.context.forget_routes(now_ms)
        is_due = now_ms - self._committed_ms >= self.file.properties.checkpoint_interval_ms or self.scheduler.is_crowded
        if now_ms - self._resent_ms >= RESEND_EVERY_MS:
            done += self._resend()
            self._resent_ms = now_ms
        flushed = self.delivery.flush()
        if is_due:
            self._notify_of_deletions()
            self._report_metrics()
            self._checkpoint(flushed)
        if away is not None:
            raise away
        return bool(came or done)

    @property
    def is_idle(self) -> bool:
        """Whether all known runs were processed, and no handler waits for its destination."""
        nothing_waits = (
            not self.delivery.is_waiting and not self.scheduler.waiting and self.scheduler.listed and not self.buffer.count
        )
        return nothing_waits and all(active.is_done for active in self.active_runs.runs.values())

    def stop(self, *, lost: bool = False) -> None:
        """Flush, checkpoint, and close the handlers. ``lost``: without a checkpoint, which now belongs to another worker. Raises
        only exceptions that end a process."""
        try:
            if not lost:
                self._fence()
                self._checkpoint(self.delivery.flush(at_once=True))
        except (LeaseError, UnavailableError) as error:
            self._parts.warn("the last checkpoint failed: events since the one before are processed again", **self._about(error))
        finally:
            for name, why in self.context.close(self.progress.note_call):
                self._parts.warn("a handler could not be closed", handler=name, **self._about(why))
            self._report_metrics()

    def _process(self) -> int:
        """Drain a full buffer to half, then deliver the events that are due."""
        count = 0
        if self.buffer.is_full:
            while taken := self.buffer.drain(BATCH):
                count += self._deliver_batch(taken)
        while taken := self.buffer.take(self._clock.now_ms(), BATCH):
            count += self._deliver_batch(taken)
        return count

    def _deliver_batch(self, taken: list[PendingEvent]) -> int:
        now_ms = self._clock.now_ms()
        deliver, run_of = self.delivery.deliver, self.active_runs.run_of
        for at, pending in enumerate(taken):
            active = run_of(pending)
            behind, skip = _already_received(active.checkpoint, pending)
            if not skip and active.make is not None:
                try:
                    deliver(active.make(pending), behind, now_ms)
                except UnavailableError:
                    self.buffer.put_back(taken[at:])
                    raise
            del active.unprocessed[pending.line]
        self.processed += len(taken)
        return len(taken)

    def _resend(self) -> int:
        """Send requested dead letters again; tasks of a job do not."""
        if self._parts.part is not None:
            return 0
        try:
            return self.resender.deliver()
        except UnavailableError as error:
            self._parts.warn("dead letters could not be sent again: it is retried", **self._about(error))
            return 0

    def _checkpoint(self, flushed: bool) -> None:
        """Commit the checkpoints of runs, unless a flush failed, which is reported. Raises LeaseError; an unavailable store is
        reported, and the commit is retried."""
        if not flushed:  # nor is a status stored: only the log says why the pipeline lags
            self._parts.warn(
                "handlers could not be flushed: there is no checkpoint, and it is retried",
                pipeline=self.name,
                handlers=sorted(self.delivery.failed_flush),
                error=self.delivery.last_error,
            )
        try:
            self.committer.settle()
            if flushed and self.committer.commit(self._states):
                self.resender.committed()
            self._committed_ms = self._clock.now_ms()
            self.committer.release_done()
            self.delivery.on_trial &= self.committer.known.keys()
            self.wants_restart = self.wants_restart or self._has_reason_to_restart()
        except UnavailableError as error:
            self._committed_ms = self._clock.now_ms()
            self._parts.warn("a checkpoint failed: processing continues, and it is retried", **self._about(error))
        except PreconditionFailedError as error:
            self._committed_ms = self._clock.now_ms()
            for name in self.committer.committing:
                self.delivery.count_error(name, error)
            self._parts.warn("a handler's rows were refused: nothing was checkpointed", **self._about(error))

    def _notify_of_deletions(self) -> None:
        """Raises LeaseError."""
        if self._deletions is None:
            return
        try:
            self._deletions.notify()
        except UnavailableError as error:
            self._parts.warn("handlers could not be notified of deletions: it is retried", **self._about(error))

    def _report_metrics(self) -> None:
        if self.progress.is_detached:
            return  # nothing that this thread does counts any longer
        for name, metrics in self._metrics.items():
            report = metrics.take(self.name, name)
            if report is None:
                continue
            if report.refused:
                self._parts.warn(
                    "metrics of a handler were refused",
                    pipeline=self.name,
                    handler=name,
                    refused=report.refused,
                    reason=report.reason,
                )
            if report.metrics:
                self._parts.on_metrics(report)

    def _has_reason_to_restart(self) -> bool:
        is_due = self._suspended_ms is not None and self._clock.now_ms() - self._suspended_ms >= RESUME_AFTER_MS
        return is_due or self.committer.has_operator_change(self._states, self._desired)

    def _disable_handler(self, name: str, reason: str, record: logging.LogRecord | None) -> None:
        about = (record.pathname, int(record.__dict__[LINE])) if record is not None else ("", 0)
        self.committer.set_handler_state(HandlerState(name, DISABLED, reason, self._clock.now_ms(), *about))
        self._parts.warn(
            "a handler is disabled: it fails too often",
            pipeline=self.name,
            handler=name,
            reason=reason,
            run=about[0],
            line=about[1],
        )

    def _suspend_handler(self, name: str, reason: str) -> None:
        """The next start of a worker delivers the events that the handler misses from its last checkpoint on."""
        self._suspended_ms = self._clock.now_ms()
        self.committer.set_handler_state(HandlerState(name, FAILED, reason, self._suspended_ms))
        self._parts.warn("a handler is suspended: its destination is unavailable", pipeline=self.name, handler=name, reason=reason)

    def status(self, now_ms: int) -> dict[str, Any]:
        """The status of the pipeline: lag in events (lines) and ms, errors, late events, dead letters."""
        lag_events, lag_ms = self.active_runs.lag(now_ms)
        waiting = sum(known.lines for known in self.scheduler.waiting.values())
        return {
            "told_ms": now_ms,
            "looked_ms": self.scheduler.discovered_until_ms,
            "lag_events": lag_events + waiting,
            "lag_ms": lag_ms,
            "runs": len(self.active_runs),
            "processed": self.processed,
            "late": self.buffer.late,
            "dropped": self.active_runs.dropped,
            "dead": self.delivery.dead.count,
            "errors": dict(self.delivery.budget.total),
            "last_error": self.delivery.last_error,
        }

    def _status_row(self, now_ms: int) -> Put:
        """The report of this shard. ``caught_up``: handlers that have received from it the events that they missed before a time."""
        key = status_key(self.name, self._shard)
        sharded = {"layout": self.checkpoints.layout, "caught_up": self.committer.caught_up} if self._shard.count > 1 else {}
        return Put(key, row_at(key, **self.status(now_ms), **sharded))

    def _warn_of_run(self, message: str, run: Run, error: Exception) -> None:
        self._parts.warn(message, fqn=run.fqn, run_id=run.run_id, **self._about(error))

    def _warn_of_letter(self, key: str, error: str) -> None:
        self._parts.warn("a dead letter cannot be sent again", pipeline=self.name, key=key, error=error)

    def _about(self, error: BaseException) -> dict[str, str]:
        return {"pipeline": self.name, "error": f"{type(error).__name__}: {error}"[:500]}


def _already_received(checkpoint: RunCheckpoint, pending: PendingEvent) -> tuple[Callable[[str], bool] | None, bool]:
    """A function that returns whether a handler has already received an event (None: no handler has), and whether a replay skips
    it."""
    line = pending.line
    skip = line < checkpoint.replay_line and pending.time_ms < checkpoint.replay_ms
    if not checkpoint.lagging and line >= checkpoint.position.line:
        return None, skip
    return (lambda name: line < checkpoint.line_of(name)), skip

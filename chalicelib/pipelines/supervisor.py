"""Runs pipelines in parallel: each in a thread and under a lease of its own, watched by a watchdog.

A thread cannot be stopped from outside. If a handler blocks, its thread is abandoned: the handler is disabled with the reason,
the lease is released, so nothing that the thread does later takes effect, and the pipeline continues without that handler. The
cost: a thread, and its worker's memory (at most its buffer), until the call returns or the process ends.

A memory leak cannot be attributed to a handler within one process: when memory runs out, all pipelines are stopped in an orderly
way, and the caller starts a fresh process. On Lambda each pipeline has an invocation of its own while there are at most
``max_workers``; beyond that several share one, and a leak in one of them affects all.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from chalicelib.coordination.coordinator import SourceCoordinator
from chalicelib.coordination.lease import Lease
from chalicelib.deadline import Deadline
from chalicelib.errors import LeaseError, PartitionNotOwnedError, UnavailableError
from chalicelib.pipelines.checkpoints import LayoutChangedError
from chalicelib.pipelines.configuration import PipelineFile
from chalicelib.pipelines.delivery import Progress
from chalicelib.pipelines.pipeline_state import DISABLED, HandlerState, PipelineStateStore
from chalicelib.pipelines.ports import Fence
from chalicelib.pipelines.shards import ONLY, Shard, shards
from chalicelib.pipelines.worker import Warn, Worker
from chalicelib.ports import Clock

BLOCKED_AFTER_S = 60.0
IDLE_S = 0.5
GRACE_S = 5.0
_LOOK_S = 0.5
_AGAIN_S = 5.0

LAYOUT_PATIENCE_S = 30.0
"""How long a shard waits for the leading one to distribute the runs."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """The work of one worker: a pipeline, or one of its shards. ``name``: the name of its lease and its outcome."""

    file: PipelineFile
    shard: Shard = ONLY

    @property
    def name(self) -> str:
        """The pipeline's name; for a shard that does not lead, with its number."""
        return self.file.name + self.shard.suffix


def assignments(file: PipelineFile) -> list[Assignment]:
    """All assignments of a pipeline."""
    return [Assignment(file, shard) for shard in shards(file.shards)]


MakeWorker = Callable[[Assignment, Fence, str], Worker]


class PipelineOutcome(StrEnum):
    """The outcome of a pipeline in one run of a supervisor."""

    STOPPED = "stopped"
    BUSY = "busy"
    DISABLED = "disabled"
    LOST = "lost"
    FAILED = "failed"
    BLOCKED = "blocked"


class CallWatchdog:
    """Detects a call of a handler that takes too long, by the clock of the watching thread: the watched one has no overhead."""

    def __init__(self, clock: Clock, after_s: float) -> None:
        self._clock, self._after_s = clock, after_s
        self._calls, self._since_s = -1, clock.monotonic_s()

    def blocked(self, progress: Progress) -> str:
        """The handler whose call has exceeded the limit; empty: none."""
        calls, calling = progress.calls, progress.calling
        now_s = self._clock.monotonic_s()
        if calls != self._calls or not calling:
            self._calls, self._since_s = calls, now_s
            return ""
        return calling if now_s - self._since_s >= self._after_s else ""


@dataclass(slots=True)
class _Seat:
    """The thread of an assignment, and its state for other threads. ``left``: the supervisor has abandoned it."""

    assignment: Assignment
    watch: CallWatchdog
    lease: Lease | None = None
    worker: Worker | None = None
    outcome: PipelineOutcome | None = None
    left: bool = False
    thread: threading.Thread | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)


@dataclass(slots=True)
class Supervisor:
    """``forever``: restart pipelines that end; ``until_idle``: stop them when there is nothing to do.

    ``is_short``: whether the process runs out of memory. ``pause``: how a worker waits if there is nothing to do (None: the clock
    sleeps)."""

    coordinator: SourceCoordinator
    states: PipelineStateStore
    make: MakeWorker
    clock: Clock
    warn: Warn
    blocked_after_s: float = BLOCKED_AFTER_S
    forever: bool = False
    until_idle: bool = False
    is_short: Callable[[], bool] = lambda: False
    pause: Callable[[float], None] | None = None
    stopping: threading.Event = field(default_factory=threading.Event)
    was_short: bool = False

    def run(self, pipelines: Sequence[PipelineFile | Assignment], deadline: Deadline) -> dict[str, PipelineOutcome]:
        """Process these pipelines, or assignments, until the deadline, or until all are done; ``stopping`` ends it sooner.
        Returns the outcome of each assignment. No error of a pipeline affects another one or the caller."""
        self.coordinator.initialize()
        all_assignments = [
            assignment for each in pipelines for assignment in ([each] if isinstance(each, Assignment) else assignments(each))
        ]
        seats = {assignment.name: self._seat(assignment) for assignment in all_assignments}
        with self.coordinator.heartbeat():
            while deadline.remaining_s() > GRACE_S and not self.stopping.is_set() and any(map(_is_alive, seats.values())):
                self._wait(_LOOK_S)
                self._watch(seats)
                if self.is_short():
                    self.was_short = True
                    self.warn("memory runs out: all pipelines are being stopped")
                    break
            self.stopping.set()
            while deadline.remaining_s() > 0 and any(map(_is_alive, seats.values())):
                self._wait(min(_LOOK_S, max(0.01, deadline.remaining_s())))
                self._watch(seats)
            for seat in seats.values():
                if _is_alive(seat):
                    self._leave(seat, seat.worker.progress.calling if seat.worker else "", "it did not come back in time")
        try:
            self.coordinator.shutdown()
        except (LeaseError, UnavailableError) as error:
            self.warn("could not release leases: they expire", error=str(error))
        return {name: seat.outcome or PipelineOutcome.BLOCKED for name, seat in seats.items()}

    def _wait(self, seconds: float) -> None:
        (self.pause or self.clock.sleep)(seconds)

    def _seat(self, assignment: Assignment) -> _Seat:
        seat = _Seat(assignment, CallWatchdog(self.clock, self.blocked_after_s))
        seat.thread = threading.Thread(target=self._work, args=(seat,), name=f"pipeline {assignment.name}", daemon=True)
        seat.thread.start()
        return seat

    def _watch(self, seats: dict[str, _Seat]) -> None:
        for name, seat in seats.items():
            if not _is_alive(seat) or seat.worker is None:
                continue
            handler = seat.watch.blocked(seat.worker.progress)
            if handler:
                self._leave(seat, handler, f"it did not come back for {self.blocked_after_s:.0f} s")
                if self.forever and not self.stopping.is_set():
                    seats[name] = self._seat(seat.assignment)

    def _leave(self, seat: _Seat, handler: str, reason: str) -> None:
        """Abandon a thread: its later writes are rejected by the fence."""
        with seat.lock:
            seat.left, seat.outcome = True, PipelineOutcome.BLOCKED
            lease = seat.lease
            if seat.worker is not None:
                seat.worker.progress.abandoned = True
        self.warn("a pipeline blocks: its thread is abandoned", pipeline=seat.assignment.name, handler=handler, reason=reason)
        try:
            if handler:
                self.states.set_handler(
                    seat.assignment.file.name, HandlerState(handler, DISABLED, f"blocked: {reason}", self.clock.now_ms())
                )
            if lease is not None:
                self.coordinator.give_up(lease)
        except (LeaseError, UnavailableError) as error:
            self.warn("could not store which handler blocks", pipeline=seat.assignment.name, error=str(error))

    def _work(self, seat: _Seat) -> None:
        """The main function of a pipeline's thread."""
        while True:
            try:
                outcome = self._once(seat)
            except (LeaseError, PartitionNotOwnedError):
                outcome = PipelineOutcome.LOST
            except UnavailableError as error:
                self.warn("could not start a pipeline", pipeline=seat.assignment.name, error=str(error))
                outcome = PipelineOutcome.FAILED
            except (Exception, SystemExit) as error:
                self.warn(
                    "a pipeline failed: other pipelines continue",
                    pipeline=seat.assignment.name,
                    error=f"{type(error).__name__}: {error}",
                )
                outcome = PipelineOutcome.FAILED
            with seat.lock:
                if seat.left:
                    return
                seat.outcome = outcome
            if not self.forever or self.stopping.is_set():
                return
            self._idle(seat, _AGAIN_S)
            if seat.left or self.stopping.is_set():
                return

    def _idle(self, seat: _Seat, seconds: float) -> None:
        end = Deadline(self.clock, seconds)
        while end.remaining_s() > 0 and not self.stopping.is_set() and not seat.left:
            self._wait(min(IDLE_S, max(0.01, end.remaining_s())))

    def _once(self, seat: _Seat) -> PipelineOutcome:
        name = seat.assignment.file.name
        desired, _ = self.states.read(name)
        if not desired.enabled:
            return PipelineOutcome.DISABLED
        found = self.coordinator.acquire(seat.assignment.name)
        if not isinstance(found, Lease):
            return PipelineOutcome.BUSY
        with seat.lock:
            if seat.left:
                self.coordinator.give_up(found)
                return PipelineOutcome.BLOCKED
            seat.lease = found
        try:
            patience = Deadline(self.clock, LAYOUT_PATIENCE_S)
            while True:
                try:
                    again = self._session(seat, found)
                except LayoutChangedError:
                    if patience.remaining_s() <= 0 or self.stopping.is_set() or seat.left:
                        return PipelineOutcome.BUSY
                    self._wait(IDLE_S)
                    continue
                if not again:
                    return PipelineOutcome.STOPPED
                if not self.states.read(name)[0].enabled:
                    return PipelineOutcome.DISABLED
        finally:
            seat.worker = None
            if not found.is_over:
                self.coordinator.give_up(found)

    def _session(self, seat: _Seat, lease: Lease) -> bool:
        """Run a worker from its start to its stop. Returns whether to start again, because an operator has changed the state."""

        def fence() -> None:
            if seat.left:
                raise PartitionNotOwnedError(f"the pipeline has abandoned this thread pipeline={seat.assignment.name}")
            lease.check()

        worker = self.make(seat.assignment, fence, lease.owner or "")
        worker.start()
        seat.worker = worker
        lost = True
        try:
            while not self.stopping.is_set() and not worker.wants_restart:
                try:
                    busy = worker.step()
                except UnavailableError as error:
                    self.warn("a pipeline waits for an unavailable store", pipeline=seat.assignment.name, error=str(error))
                    busy = False
                if not busy:
                    if self.until_idle and worker.is_idle:
                        break
                    self._wait(IDLE_S)
            lost = False
        finally:
            worker.stop(lost=lost)
        return worker.wants_restart and not self.stopping.is_set()


def _is_alive(seat: _Seat) -> bool:
    return not seat.left and seat.thread is not None and seat.thread.is_alive()

"""Runs pipelines in parallel: each in a thread and under a lease of its own, watched by a watchdog.

A thread cannot be stopped from outside. If a handler blocks, its thread is detached: the handler is disabled with the reason,
the lease is released, so nothing that the thread does later takes effect, and the pipeline continues without that handler. The
cost: a thread, and its worker's memory (at most its buffer), until the call returns or the process ends.

A memory leak cannot be attributed to a handler within one process: when memory runs out, all pipelines are stopped in an orderly
way, and the caller starts a fresh process. On Lambda each pipeline has an invocation of its own while there are at most
``max_workers``; beyond that several share one, and a leak in one of them affects all.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
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
GRACE_S = 20.0
"""For the last call of each handler, a flush and a checkpoint: a handler that is being called after it is disabled."""
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
class _Slot:
    """The thread of an assignment, and its state for other threads. ``is_detached``: the supervisor no longer waits for it."""

    assignment: Assignment
    watch: CallWatchdog
    lease: Lease | None = None
    worker: Worker | None = None
    outcome: PipelineOutcome | None = None
    is_detached: bool = False
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
        slots_by_name = {assignment.name: self._start(assignment) for assignment in all_assignments}
        with self.coordinator.heartbeat():
            while deadline.remaining_s() > GRACE_S and not self.stopping.is_set() and any(map(_is_alive, slots_by_name.values())):
                self._wait(_LOOK_S)
                self._watch(slots_by_name)
                if self.is_short():
                    self.was_short = True
                    self.warn("memory runs out: all pipelines are being stopped")
                    break
            self.stopping.set()
            while deadline.remaining_s() > 0 and any(map(_is_alive, slots_by_name.values())):
                self._wait(min(_LOOK_S, max(0.01, deadline.remaining_s())))
                self._watch(slots_by_name)
            for slot in slots_by_name.values():
                if _is_alive(slot):
                    self._detach(slot, slot.worker.progress.calling if slot.worker else "", "it did not come back in time")
        try:
            self.coordinator.shutdown()
        except (LeaseError, UnavailableError) as error:
            self.warn("could not release leases: they expire", error=str(error))
        return {name: slot.outcome or PipelineOutcome.BLOCKED for name, slot in slots_by_name.items()}

    def _wait(self, seconds: float) -> None:
        (self.pause or self.clock.sleep)(seconds)

    def _start(self, assignment: Assignment) -> _Slot:
        slot = _Slot(assignment, CallWatchdog(self.clock, self.blocked_after_s))
        slot.thread = threading.Thread(target=self._work, args=(slot,), name=f"pipeline {assignment.name}", daemon=True)
        slot.thread.start()
        return slot

    def _watch(self, slots_by_name: dict[str, _Slot]) -> None:
        for name, slot in slots_by_name.items():
            worker = slot.worker  # its thread sets it to None
            if not _is_alive(slot) or worker is None:
                continue
            handler = slot.watch.blocked(worker.progress)
            if handler:
                self._detach(slot, handler, f"it did not come back for {self.blocked_after_s:.0f} s")
                # Formatters and filters cannot be left out: they would block each time.
                if self.forever and not self.stopping.is_set() and handler in slot.assignment.file.logging.handlers:
                    slots_by_name[name] = self._start(slot.assignment)

    def _detach(self, slot: _Slot, handler: str, reason: str) -> None:
        """Detach a thread: its later writes are rejected by the fence."""
        with slot.lock:
            slot.is_detached, slot.outcome = True, PipelineOutcome.BLOCKED
            lease = slot.lease
            if slot.worker is not None:
                slot.worker.progress.is_detached = True
        self.warn("a handler blocks: its thread is detached", pipeline=slot.assignment.name, handler=handler, reason=reason)
        try:
            self._disable(slot, handler, f"blocked: {reason}")
            if lease is not None:
                self.coordinator.release(lease)
        except (LeaseError, UnavailableError) as error:
            self.warn("could not store which handler blocks", pipeline=slot.assignment.name, error=str(error))

    def _disable(self, slot: _Slot, handler: str, reason: str) -> None:
        """Disable a handler, unless this is another part of the pipeline. Raises UnavailableError."""
        if handler in slot.assignment.file.logging.handlers:
            self.states.set_handler(slot.assignment.file.name, HandlerState(handler, DISABLED, reason, self.clock.now_ms()))

    @contextmanager
    def _disabling(self, slot: _Slot, worker: Worker) -> Iterator[None]:
        """Disables a handler that raises what is neither an Exception nor SystemExit, such as ``asyncio.CancelledError``: libraries define
        such errors to end a thread, and each further worker would end at the same event."""
        try:
            yield
        except (Exception, SystemExit):
            raise
        except BaseException as error:
            try:
                self._disable(slot, worker.progress.calling, f"{type(error).__name__}: {error}"[:500])
            except UnavailableError as away:
                self.warn("could not store which handler failed", pipeline=slot.assignment.name, error=str(away))
            raise

    def _work(self, slot: _Slot) -> None:
        """The main function of a pipeline's thread."""
        while True:
            try:
                outcome = self._run_leased(slot)
            except (LeaseError, PartitionNotOwnedError):
                outcome = PipelineOutcome.LOST
            except UnavailableError as error:
                self.warn("could not start a pipeline", pipeline=slot.assignment.name, error=str(error))
                outcome = PipelineOutcome.FAILED
            except BaseException as error:  # the thread's only caller is threading
                self.warn(
                    "a pipeline failed: other pipelines continue",
                    pipeline=slot.assignment.name,
                    error=f"{type(error).__name__}: {error}",
                )
                outcome = PipelineOutcome.FAILED
            with slot.lock:
                if slot.is_detached:
                    return
                slot.outcome = outcome
            if not self.forever or self.stopping.is_set():
                return
            self._idle(slot, _AGAIN_S)
            if slot.is_detached or self.stopping.is_set():
                return

    def _idle(self, slot: _Slot, seconds: float) -> None:
        end = Deadline(self.clock, seconds)
        while end.remaining_s() > 0 and not self.stopping.is_set() and not slot.is_detached:
            self._wait(min(IDLE_S, max(0.01, end.remaining_s())))

    def _run_leased(self, slot: _Slot) -> PipelineOutcome:
        if not self.states.is_enabled(slot.assignment.file):
            return PipelineOutcome.DISABLED
        found = self.coordinator.acquire(slot.assignment.name)
        if not isinstance(found, Lease):
            return PipelineOutcome.BUSY
        with slot.lock:
            if slot.is_detached:
                self.coordinator.release(found)
                return PipelineOutcome.BLOCKED
            slot.lease = found
        try:
            patience = Deadline(self.clock, LAYOUT_PATIENCE_S)
            while True:
                try:
                    again = self._session(slot, found)
                except LayoutChangedError:
                    if patience.remaining_s() <= 0 or self.stopping.is_set() or slot.is_detached:
                        return PipelineOutcome.BUSY
                    self._wait(IDLE_S)
                    continue
                if not again:
                    return PipelineOutcome.STOPPED
                if not self.states.is_enabled(slot.assignment.file):
                    return PipelineOutcome.DISABLED
        finally:
            slot.worker = None
            if not found.is_over:
                self.coordinator.release(found)

    def _session(self, slot: _Slot, lease: Lease) -> bool:
        """Run a worker from its start to its stop. Returns whether to start again, because an operator has changed the state."""

        def fence() -> None:
            if slot.is_detached:
                raise PartitionNotOwnedError(f"the supervisor no longer waits for this thread pipeline={slot.assignment.name}")
            lease.check()

        worker = self.make(slot.assignment, fence, lease.owner or "")
        slot.worker = worker  # watched from here on: a handler may block in its import or constructor
        with self._disabling(slot, worker):
            worker.start()
        lost = True
        try:
            with self._disabling(slot, worker):
                self._step_to_the_end(slot, worker)
            lost = False
        finally:
            with self._disabling(slot, worker):
                worker.stop(lost=lost)
        return worker.wants_restart and not self.stopping.is_set()

    def _step_to_the_end(self, slot: _Slot, worker: Worker) -> None:
        while not self.stopping.is_set() and not worker.wants_restart:
            try:
                busy = worker.step()
            except UnavailableError as error:
                self.warn("a pipeline waits for an unavailable store", pipeline=slot.assignment.name, error=str(error))
                busy = False
            if not busy:
                if self.until_idle and worker.is_idle:
                    return
                self._wait(IDLE_S)


def _is_alive(slot: _Slot) -> bool:
    return not slot.is_detached and slot.thread is not None and slot.thread.is_alive()

"""One Spark task: runs a pipeline worker over its runs in a separate, watched thread.

A handler that does not return is disabled and its thread detached, as under the schedule; the task continues with a new thread.
The detached thread cannot commit, because its head has another owner. Other tasks of the job notice the change at their next
checkpoint.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import uuid4

from chalicelib.composition import Services
from chalicelib.composition.pipelines import worker_dependencies
from chalicelib.errors import LeaseError, PartitionNotOwnedError, UnavailableError
from chalicelib.pipelines.checkpoints import JobPart
from chalicelib.pipelines.configuration import PipelineFile
from chalicelib.pipelines.handler_metrics import MetricsReport, Statistics
from chalicelib.pipelines.pipeline_state import DISABLED, HandlerState, PipelineStateStore
from chalicelib.pipelines.run_discovery import KnownRun
from chalicelib.pipelines.supervisor import BLOCKED_AFTER_S, CallWatchdog
from chalicelib.pipelines.worker import Warn, Worker, WorkerDependencies
from glue_jobs.pipelines.pipeline_lease import FixedRuns

_TRIES = 20
_PAUSE_S = 2.0
_LOOK_S = 0.5
_MOST_NAMED = 10


@dataclass(frozen=True, slots=True)
class TaskResult:
    """Counts of a task. ``events``: passed to handlers; ``problem``: why work is left undone; ``metrics``: of each handler, a JSON
    object of the statistics by handler and name."""

    runs: int
    events: int
    dead: int
    errors: int
    problem: str | None = None
    metrics: str = "{}"


class TaskMetrics:
    """The metrics of a task's handlers, or of a job's tasks."""

    def __init__(self) -> None:
        self._by_handler: dict[str, dict[str, Statistics]] = {}

    def add(self, handler: str, metrics: Mapping[str, Statistics]) -> None:
        """Add the metrics of one handler."""
        known = self._by_handler.setdefault(handler, {})
        for name, values in metrics.items():
            known.setdefault(name, Statistics()).add(values)

    def add_report(self, report: MetricsReport) -> None:
        """Add a report of a worker."""
        self.add(report.handler, report.metrics)

    def add_text(self, text: str) -> None:
        """Add the metrics of a task's result."""
        for handler, metrics in json.loads(text).items():
            self.add(handler, {name: Statistics(**values) for name, values in metrics.items()})

    def document(self) -> dict[str, dict[str, dict[str, float]]]:
        """For JSON: the statistics by handler and name."""
        return {handler: {name: each.document() for name, each in known.items()} for handler, known in self._by_handler.items()}


def work(
    services: Services, file: PipelineFile, part: JobPart, runs: Sequence[KnownRun], buffer_bytes: int, warn: Warn
) -> TaskResult:
    """Process these runs to their ends. A repeated call, after a kill at any point, continues from the last commit. Errors other
    than those of a handler, a store or a lease are raised: Spark then repeats the task."""
    switches = PipelineStateStore(services.database, services.clock)
    workers: list[Worker] = []
    problem: str | None = None
    metrics = TaskMetrics()
    try:
        while problem is None:
            if not switches.is_enabled(file):
                problem = "the pipeline was disabled"
                break
            session = _Session(services, file, part, runs, buffer_bytes, warn, metrics)
            workers.append(session.worker)
            blocking = session.run(CallWatchdog(services.clock, BLOCKED_AFTER_S))
            if blocking and blocking not in file.logging.handlers:
                problem = f"{blocking} do not come back"
            elif blocking:
                reason = f"blocked: it did not come back for {BLOCKED_AFTER_S:.0f} s"
                warn("a handler does not come back: it is disabled, and its thread is left", pipeline=file.name, handler=blocking)
                switches.set_handler(file.name, HandlerState(blocking, DISABLED, reason, services.clock.now_ms()))
            elif not session.worker.wants_restart:
                problem = _undone(session.worker)
                break
    except (LeaseError, UnavailableError) as error:
        problem = f"{type(error).__name__}: {error}"
    return replace(_done(workers, runs, problem), metrics=json.dumps(metrics.document()))


class _Session:
    """A worker from start to stop."""

    def __init__(
        self,
        services: Services,
        file: PipelineFile,
        part: JobPart,
        runs: Sequence[KnownRun],
        buffer_bytes: int,
        warn: Warn,
        metrics: TaskMetrics,
    ) -> None:
        parts: WorkerDependencies = replace(
            worker_dependencies(services, file, buffer_bytes, warn),
            discovery=FixedRuns(runs),
            part=part,
            on_metrics=metrics.add_report,
        )
        self.worker = Worker(file, parts, self._fence, f"{part.name}:{uuid4().hex}")
        self._clock, self._warn = services.clock, warn
        self._error: BaseException | None = None

    def run(self, watch: CallWatchdog) -> str:
        """The name of a handler that did not return, or an empty string. Raises the worker's error."""
        thread = threading.Thread(target=self._work, name=f"pipeline {self.worker.name}", daemon=True)
        thread.start()
        progress = self.worker.progress
        while thread.is_alive():
            thread.join(_LOOK_S)
            if thread.is_alive() and (blocking := watch.blocked(progress)):
                progress.is_detached = True
                return blocking
        if self._error is not None:
            raise self._error
        return ""

    def _fence(self) -> None:
        if self.worker.progress.is_detached:
            raise PartitionNotOwnedError(f"the task goes on without this thread pipeline={self.worker.name}")

    def _work(self) -> None:
        worker = self.worker
        try:
            worker.start()
            try:
                self._to_the_end()
            finally:
                worker.stop(lost=worker.progress.is_detached)
            if not worker.wants_restart:
                worker.checkpoints.finish_part(unfinished=not worker.is_idle, skipped=worker.active_runs.skipped)
        except BaseException as error:  # raised by run()
            self._error = error

    def _to_the_end(self) -> None:
        worker, left = self.worker, _TRIES
        while not worker.is_idle and not worker.wants_restart and left:
            try:
                busy = worker.step()
            except UnavailableError as error:
                self._warn("a store is away: the task goes on when it is back", error=str(error))
                busy = False
            left = _TRIES if busy else left - 1
            if not busy and not worker.is_idle:
                self._clock.sleep(_PAUSE_S)


def _undone(worker: Worker) -> str | None:
    if not worker.is_idle:
        return "not all was processed: a store was away, or a flush failed"
    if skipped := [f"{run.fqn}/{run.run_id}" for run in worker.active_runs.skipped]:
        return f"runs whose logs are damaged, {len(skipped)} in all: {', '.join(skipped[:_MOST_NAMED])}"
    without = sorted(name for name, gets in worker.delivery.receiving.items() if not gets)
    return f"handlers that get no events: {', '.join(without)}" if without else None


def _done(workers: Sequence[Worker], runs: Sequence[KnownRun], problem: str | None) -> TaskResult:
    started = [worker.delivery for worker in workers if hasattr(worker, "delivery")]
    errors = sum(sum(each.budget.total.values()) for each in started)
    events = sum(worker.processed for worker in workers)
    return TaskResult(len(runs), events, sum(each.dead.count for each in started), errors, problem)

"""The scheduled function of pipelines: each log pipeline continues from its checkpoint, until nothing is left or the function's
time is over.

Each pipeline, and each shard of one, has an invocation of its own, up to ``max_workers``, so that the handlers of one cannot
exhaust the memory or break the process of another. Those that share an invocation have a thread each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chalicelib.composition import Services
from chalicelib.composition.pipelines import installed_pipelines, load_wheels, supervisor
from chalicelib.deadline import Deadline
from chalicelib.errors import RunlakeError, UnavailableError
from chalicelib.observability import (
    PIPELINE_DEAD_LETTERS,
    PIPELINE_ERRORS,
    PIPELINE_EVENTS,
    PIPELINE_HANDLERS_OFF,
    PIPELINE_LAG_EVENTS,
    PIPELINE_LAG_MS,
    PIPELINE_PROBLEMS,
    PIPELINES_FAILED,
    logger,
    record,
    record_statistics,
)
from chalicelib.pipelines.configuration import PipelineFile
from chalicelib.pipelines.handler_metrics import MetricsReport
from chalicelib.pipelines.memory import memory_bytes, shortage, used_bytes
from chalicelib.pipelines.ordering import automatic_bytes
from chalicelib.pipelines.pipeline_state import PipelineStateStore
from chalicelib.pipelines.supervisor import Assignment, PipelineOutcome, assignments

STOP_BEFORE_S = 5.0
_WELL = (PipelineOutcome.STOPPED, PipelineOutcome.BUSY, PipelineOutcome.DISABLED)


def work_pipelines(services: Services, remaining_ms: int, worker: int = 0) -> dict[str, str]:
    """Process the pipelines that are assigned to this invocation. Returns the outcome of each. ``worker``: 0 is the schedule's
    own invocation, which starts all further workers. Raises InvalidConfigurationError if the built-in pipeline is missing."""
    deadline = Deadline(services.clock, remaining_ms / 1000 - STOP_BEFORE_S)
    scanned = installed_pipelines(services)
    for problem in scanned.problems:
        logger.warning("a pipeline's file is skipped", extra={"file": problem.location, "reason": problem.reason})
    unused = load_wheels(services)
    for wheel in unused:
        logger.warning("a wheel is not used", extra={"wheel": wheel.wheel, "reason": wheel.reason})
    record(PIPELINE_PROBLEMS, len(scanned.problems) + len(unused))
    ours = _ours(services, scanned.pipelines, worker)
    fetch_bytes = services.settings.pipeline_fetch_bytes
    buffer_bytes = automatic_bytes(memory_bytes(), fetch_bytes, len(ours), used_bytes())
    watching = supervisor(services, buffer_bytes, log_warning, record_metrics, until_idle=True, is_short=shortage(memory_bytes()))
    outcomes = watching.run(ours, deadline)
    measure(services, [assignment.file for assignment in ours if assignment.shard.leads])
    record(PIPELINES_FAILED, sum(outcome not in _WELL for outcome in outcomes.values()))
    return {name: outcome.value for name, outcome in outcomes.items()}


def log_warning(message: str, **facts: Any) -> None:
    """Log a warning of a pipeline."""
    logger.warning(message, extra=facts)


def record_metrics(report: MetricsReport) -> None:
    """Record a handler's metrics: one line."""
    dimensions = {"pipeline": report.pipeline, "handler": report.handler}
    record_statistics(dimensions, {name: each.document() for name, each in report.metrics.items()})


def measure(services: Services, files: Sequence[PipelineFile]) -> None:
    """Record metrics of each pipeline: lag, errors and handlers that receive no events; an alarm uses the maximum."""
    states = PipelineStateStore(services.database, services.clock)
    try:
        statuses = states.status([file.name for file in files], {file.name: file.shards for file in files})
        off = [sum(not each.receives_events for each in states.read(file.name)[1].values()) for file in files]
    except UnavailableError as error:
        logger.warning("could not read pipeline status", extra={"error": str(error)})
        return
    for status in statuses.values():
        record(PIPELINE_LAG_EVENTS, int(status["lag_events"]))
        record(PIPELINE_LAG_MS, int(status["lag_ms"]))
        record(PIPELINE_EVENTS, int(status["processed"]))
        record(PIPELINE_DEAD_LETTERS, int(status["dead"]))
        record(PIPELINE_ERRORS, sum(map(int, status["errors"].values())))
    record(PIPELINE_HANDLERS_OFF, sum(off))


def _ours(services: Services, pipelines: Sequence[PipelineFile], worker: int) -> Sequence[Assignment]:
    """Every ``count``th assignment, from this worker's on; all if no other worker can be started."""
    all_assignments = [assignment for file in pipelines for assignment in assignments(file)]
    count = min(services.settings.max_workers, len(all_assignments)) if services.workers else 1
    if worker == 0 and services.workers:
        for number in range(1, count):
            try:
                services.workers.start(number)
            except RunlakeError as error:
                logger.warning("could not start another worker: this one does its work too", extra={"error": str(error)})
                return [assignment for at, assignment in enumerate(all_assignments) if at % count in (0, *range(number, count))]
    return [assignment for at, assignment in enumerate(all_assignments) if at % count == worker % count]

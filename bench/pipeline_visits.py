"""Requests of a pipeline's visit to a running run that it has read to its end, as they leave the process."""

from __future__ import annotations

from bench.bench_world import Function
from bench.measure import Measure
from chalicelib.composition.pipelines import worker_dependencies
from chalicelib.events.event import NewEvent
from chalicelib.pipelines.active_runs import ActiveRuns
from chalicelib.pipelines.configuration import parse_pipeline_file
from chalicelib.pipelines.ordering import OrderingBuffer
from chalicelib.pipelines.rows import RunCheckpoint
from chalicelib.pipelines.run_discovery import KnownRun
from chalicelib.ports import Run
from chalicelib.runlog.batch import Batch

MOST = 4
_BUFFER_BYTES = 16 * 1024 * 1024
_PIPELINE = "logging: {version: 1, handlers: {h: {class: logging.NullHandler}}, root: {handlers: [h]}}"


class VisitedRun:
    """A running run, and the active runs of a worker, which are only this one. ``has_events``: of structured events."""

    def __init__(self, function: Function, run: Run, *, has_events: bool, batches: int) -> None:
        self._function, self._services, self._run, self._has_events = function, function.services, run, has_events
        file = parse_pipeline_file(_PIPELINE, "bench")
        parts = worker_dependencies(self._services, file, _BUFFER_BYTES, _warn)
        buffer = OrderingBuffer(file.properties.event_delay_ms, _BUFFER_BYTES)
        self._runs = ActiveRuns(
            parts.logs, buffer, file.properties, parts.clock, lambda _: "", _on_error, parts.sidecars, parts.segments
        )
        self._append(batches)
        self._runs.add(self._known(), RunCheckpoint(), {})
        self.visit(0)

    def visit(self, batches: int) -> int:
        """Append batches, of which the catalog knows, and visit the run. Returns the number of requests to S3 and DynamoDB."""
        self._append(batches)
        list(self._runs.update([self._known()]))
        self._runs.runs[self._run].not_before_ms = 0
        before = self._function.requests.by_service.copy()
        self._runs.read()
        return self._function.requests.since(before).total()

    def _append(self, batches: int) -> None:
        now_ms = self._services.clock.now_ms()
        for _ in range(batches):
            if self._has_events:
                self._services.events.log.append(self._run, [NewEvent(message="an event", step="load", timestamp=now_ms)])
            else:
                self._services.writer.append(self._run, Batch.from_text("2026-11-27 03:12:45,123 INFO app - a line\n"))

    def _known(self) -> KnownRun:
        end = self._services.writer.tails.find(self._run)
        return KnownRun(self._run, end.byte, end.line, False, 0)


def pipeline_visits(function: Function, batches: int = 20) -> list[Measure]:
    """Of runs of this many batches. Discovery and checkpoints, which all runs share, are not part of a visit."""
    names = {"lines": False, "events": True}
    runs = [VisitedRun(function, Run("svc.visits", name), has_events=each, batches=batches) for name, each in names.items()]
    spent = [run.visit(new) for new in (1, 2) for run in runs]
    return [
        Measure(
            "requests of a pipeline's visit to a running run: a new batch of lines; of events; two of lines; of events",
            f"at most {MOST}",
            "; ".join(map(str, spent)),
            max(spent) <= MOST,
        ),
    ]


def _warn(message: str, **facts: object) -> None:
    raise RuntimeError(f"{message} {facts}")


def _on_error(message: str, run: Run, error: Exception) -> None:
    raise error

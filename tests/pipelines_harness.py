"""An in-memory world with pipelines: runs, workers that process them, and handlers that record their events."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import yaml

from chalicelib.events.snapshots import LogSnapshots
from chalicelib.events.tail import EventTails
from chalicelib.pipelines.allowed_modules import AllowedModules
from chalicelib.pipelines.configuration import PipelineFile, parse_pipeline_file
from chalicelib.pipelines.ports import HandlerContext
from chalicelib.pipelines.run_discovery import CatalogRunDiscovery
from chalicelib.pipelines.sidecar_reader import StoredSidecarReader
from chalicelib.pipelines.worker import Worker, WorkerDependencies
from chalicelib.ports import Run
from chalicelib.runlog.batch import Batch
from chalicelib.runlog.log_end import list_all
from chalicelib.runlog.new_segments import NewSegmentReader
from tests.events_harness import EventParts, event_parts, make_event
from tests.faults.interception import Call, Intercepted
from tests.support.run_catalog import InMemoryRunCatalog
from tests.world import START_MS, World

RECORDS = "tests.pipelines_harness.RecordingHandler"
MEASURES = "tests.pipelines_harness.MeasuringHandler"
MODULES = AllowedModules(("tests.*",))
"""Lets pipelines of tests name handlers of tests."""


class RecordingHandler(logging.Handler):
    """Records its events by name, for assertions. ``fail``: a function that may raise."""

    records: dict[str, list[logging.LogRecord]] = {}  # noqa: RUF012
    fails: dict[str, Callable[[logging.LogRecord], None]] = {}  # noqa: RUF012
    flushes: dict[str, list[int]] = {}  # noqa: RUF012
    fail_flush: dict[str, Callable[[], None]] = {}  # noqa: RUF012

    def __init__(self, to: str = "all") -> None:
        super().__init__()
        self.to = to

    def handle(self, record: logging.LogRecord) -> bool:
        """Raises to the framework."""
        if self.filter(record):
            self.fails.get(self.to, _succeed)(record)
            self.records.setdefault(self.to, []).append(record)
        return True

    def flush(self) -> None:
        self.fail_flush.get(self.to, lambda: None)()
        self.flushes.setdefault(self.to, []).append(len(self.records.get(self.to, ())))

    @classmethod
    def forget(cls) -> None:
        for each in (cls.records, cls.fails, cls.flushes, cls.fail_flush):
            each.clear()

    @classmethod
    def messages(cls, to: str = "all") -> list[str]:
        return [record.getMessage() for record in cls.records.get(to, ())]


class MeasuringHandler(RecordingHandler):
    """Records the length of each message as a metric, and an invalid metric."""

    def use(self, context: HandlerContext) -> None:
        self.context = context

    def handle(self, record: logging.LogRecord) -> bool:
        self.context.metric("length", len(record.getMessage()))
        self.context.metric("no name", 1)
        return super().handle(record)


def _succeed(_: logging.LogRecord) -> None:
    """Does not fail."""


def pipeline(name: str = "test", *, to: Sequence[str] = ("all",), cls: str = RECORDS, **sections: Any) -> PipelineFile:
    """A pipeline with a recording handler for each of ``to``, with the same name."""
    return pipeline_of({each: {"class": cls, "to": each} for each in to}, name, **sections)


def pipeline_of(handlers: Mapping[str, Any], name: str = "test", **sections: Any) -> PipelineFile:
    """A pipeline with these handlers, which get all events in this order; ``sections`` replace and add sections of its file."""
    logging_ = {"version": 1, "handlers": handlers, "root": {"level": "NOTSET", "handlers": list(handlers)}}
    return parse_pipeline_file(yaml.safe_dump({"name": name, "logging": logging_} | sections), name, modules=MODULES)


class PipelinesHarness(World):
    """Adds runs to the catalog when they are written."""

    def __init__(self) -> None:
        super().__init__()
        self.runs = InMemoryRunCatalog()
        self.told: list[dict[str, Any]] = []

    def write(self, run: Run, lines: Iterable[str]) -> None:
        """Append a batch."""
        text = "".join(f"{line}\n" for line in lines)
        entry = self.parts().writer.append(run, Batch.from_text(text)).entry
        assert entry
        self.runs.record_segment(run, entry)

    def end(self, run: Run) -> None:
        """Close and finalize a run."""
        self.parts().finalizer.close(run)
        last = self.index.last(run)
        if last is not None:
            self.runs.record_segment(run, last)

    def leave_index(self, run: Run) -> None:
        """Finalize an ended run, and remove it from the activity index: only a listing of the catalog finds it."""
        row = self.runs.get(run)
        assert row is not None
        self.runs.record_finalization(run, row.lines, row.bytes, row.segments, self.clock.now_ms())
        self.runs.mark_retired(run, row.segments)
        assert run not in {each.run for each in self.runs.active(1 << 60)}

    def worker(self, file: PipelineFile, *, owner: str = "w1", **changes: Any) -> Worker:
        """A worker that is not started yet."""
        names = sorted({row.run.fqn for row in self.runs.active(1 << 60)})
        parts = self.parts(changes.get("store"))
        given = {
            "logs": parts.reader,
            "segments": None if "logs" in changes else NewSegmentReader(parts.writer.tails),
            "discovery": CatalogRunDiscovery(self.runs, lambda _: (names, None), file.source, self.clock),
            "store": self.store,
            "database": self.database,
            "clock": self.clock,
            "keep_s": 86_400,
            "buffer_bytes": 64 * 1024 * 1024,
            "warn": lambda message, **facts: self.told.append({"message": message, **facts}),
        } | changes
        fence = given.pop("fence", lambda: None)
        return Worker(file, WorkerDependencies(**given), fence, owner)

    def sidecars(self, parts: EventParts, port: Callable[[Any], Any] = lambda inner: inner) -> StoredSidecarReader:
        """The reader of structured events; ``port`` wraps each port except the clock, as for ``event_parts``."""
        store, index = port(self.store), port(self.index)
        tails = EventTails(LogSnapshots(store, index, self.layout), parts.indexing, parts.index, self.clock)
        return StoredSidecarReader(parts.indexing, tails, index, self.clock)

    def recorded(self, run: Run, on_request: Callable[[str], object]) -> Callable[[Any], Any]:
        """Wraps ports: ``on_request`` gets each request before it is made, as its operation and its key below the run's prefix."""

        def gate(operation: str, call: Callable[[], Any]) -> Any:
            assert isinstance(call, Call)
            on_request(f"{operation} {str(call.arguments[0]).removeprefix(self.layout.run_prefix(run))}")
            return call()

        return lambda port: Intercepted(port, gate)

    def dead_letters(self) -> list[dict[str, Any]]:
        """The documents of all dead letters."""
        return [json.loads(self.store.get(found.key).body) for found in list_all(self.store, "_dead/")]

    def work(self, worker: Worker, steps: int = 20) -> None:
        """Steps, a second apart, until no work is left."""
        for _ in range(steps):
            busy = worker.step()
            if not busy and worker.is_idle:
                return
            self.clock.advance(1)


class LiveRun:
    """A running run that a worker has read to its end, and the requests that a visit makes: all but those of checkpoints, which are
    the same for any number of runs. ``has_events``: of structured events."""

    run = Run("svc.live", "r1")

    def __init__(self, *, has_events: bool = False, is_compacted: bool = False, batches: int = 120) -> None:
        self.world = PipelinesHarness()
        self.written = 0
        self._has_events, self._parts = has_events, event_parts(self.world)
        self._requests: list[str] = []
        port = self.world.recorded(self.run, self._requests.append)
        parts = self.world.parts(port(self.world.store), port(self.world.index))
        self.append(batches)
        if is_compacted:
            self._parts.compactor.compact(self.run, self.world.deadline())
        self.worker = self.world.worker(
            pipeline(),
            logs=parts.reader,
            segments=NewSegmentReader(parts.writer.tails),
            sidecars=self.world.sidecars(event_parts(self.world, port), port),
        )
        self.worker.start()
        self.world.work(self.worker)

    def append(self, batches: int) -> None:
        """Batches of one line, or event, each; the catalog knows of them."""
        for _ in range(batches):
            self.written += 1
            now_ms, text = self.world.clock.now_ms(), f"event {self.written}"
            if self._has_events:
                self._parts.log.append(self.run, [make_event(text, "step", timestamp=now_ms)])
                self.world.runs.record_segment(self.run, self._parts.writer.tails.segment(self.run, self.written - 1))
            else:
                self.world.write(self.run, [line(now_ms, text)])

    def visit(self, batches: int = 0) -> list[str]:
        """The requests of the next visit, right after this many new batches: each operation, with its key below the run's prefix."""
        self.world.clock.advance(5)
        self.append(batches)
        self._requests.clear()
        self.worker.step()
        return list(self._requests)


def line(at_ms: int, text: str, level: str = "INFO", logger: str = "app") -> str:
    """A line of a log with a time."""
    from datetime import UTC, datetime

    stamp = datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S") + f",{at_ms % 1000:03d}"
    return f"{stamp} {level:<8} {logger} - {text}"


__all__ = [
    "MEASURES",
    "MODULES",
    "RECORDS",
    "START_MS",
    "LiveRun",
    "PipelinesHarness",
    "RecordingHandler",
    "line",
    "pipeline",
    "pipeline_of",
]

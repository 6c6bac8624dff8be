"""``python -m bench.pipeline_shards``: the share of late events of a pipeline with live runs, and how many a shard keeps up with.

A simulation of the worker (its real code) of one shard, the one with the median number of runs, by a clock that advances with the
requests that the worker makes and with the processor time that it takes. Nothing waits. The other shards do not slow it: on AWS each
has a function of its own.

- A request to S3 takes 15 ms and one to DynamoDB 4 ms, as docs/performance.md assumes. Parallel requests take the time of their pool's threads.
- Processor time is that of the worker's thread on this machine, with in-memory stores instead of boto3; reading the activity index
  takes, for each row, what decoding one takes here.
- Each run gets one structured event a second, in a batch of its own. They are stored when the worker looks at the run, with the times
  that they would have: runs that it does not look at cost nothing.

An event is late if it is read after ``event_delay_ms``: too late to be put in order. So are events that are this old and not read at
the end. The first seconds, in which the worker takes over and reads all runs for the first time, do not count.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from functools import partial
from io import StringIO
from time import thread_time
from typing import Any, Self

import yaml
from boto3.dynamodb.types import TypeDeserializer, TypeSerializer
from pydantic import SecretStr

from bench.figures import save
from bench.measure import Measure, reported
from chalicelib import composition
from chalicelib.aws.run_catalog import THREADS, row_of
from chalicelib.catalog.runs import SHARDS, RunRow
from chalicelib.composition.pipelines import worker_dependencies
from chalicelib.events.event import NewEvent
from chalicelib.lines.formats import PLAIN
from chalicelib.pipelines.allowed_modules import AllowedModules
from chalicelib.pipelines.checkpoints import MAX_RUNS, Checkpoints
from chalicelib.pipelines.configuration import PipelineFile, parse_pipeline_file
from chalicelib.pipelines.ordering import PendingEvent
from chalicelib.pipelines.rows import EventPosition, RunCheckpoint
from chalicelib.pipelines.run_discovery import CatalogRunDiscovery
from chalicelib.pipelines.shards import Shard, shards
from chalicelib.pipelines.supervisor import IDLE_S
from chalicelib.pipelines.worker import Worker
from chalicelib.ports import Run
from chalicelib.settings import Settings
from tests.support.clock import ManualClock
from tests.support.database import InMemoryDatabase
from tests.support.object_store import InMemoryObjectStore
from tests.support.segment_index import InMemorySegmentIndex

CODE = ("chalicelib/pipelines", "chalicelib/runlog", "chalicelib/events", "bench/pipeline_shards.py")
START_MS = 1_790_000_000_000
S3_S, DYNAMODB_S = 0.015, 0.004
DELAY_MS, LONG_DELAY_MS = 2000, 15_000
BUFFER_BYTES = 256 * 1024 * 1024
_MESSAGE = "a structured event of some 120 bytes, as a task of a pipeline writes it while it copies rows".ljust(110, ".")
EVENT_BYTES = len(_MESSAGE) + 10
HISTORY = 200
"""Events that each run has, and that the pipeline has processed, when the simulation begins: the runs are in progress."""


_POOLS = {"ThreadPoolExecutor", "ReadAhead"}


class Metered:
    """Advances a clock by a worker's processor time and by its requests; ``requests``: their number by operation."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock, self.requests, self.cpu_s = clock, Counter[str](), 0.0
        self._since_s = thread_time()

    def charge_cpu(self) -> None:
        """Advance by the processor time since the last call."""
        now_s = thread_time()
        self.clock.elapsed_s += now_s - self._since_s
        self.cpu_s += now_s - self._since_s
        self._since_s = now_s

    def uncharged(self, work: Callable[[], Any]) -> Any:
        """The result of work that is not the worker's."""
        self.charge_cpu()
        try:
            return work()
        finally:
            self._since_s = thread_time()

    def request(self, name: str, seconds: float, work: Callable[[], Any], count: int = 1) -> Any:
        """A request, or several in sequence."""
        self.requests[name] += count
        try:
            return self.uncharged(work)
        finally:
            self.clock.elapsed_s += count * seconds


class MeteredPort:
    """A port whose calls are requests. ``before`` is called with the first argument of each."""

    def __init__(
        self, inner: Any, metered: Metered, service: str, seconds: float, before: Callable[[Any], None] = lambda _: None
    ) -> None:
        self._inner, self._metered, self._service, self._seconds, self._before = inner, metered, service, seconds, before

    def __getattr__(self, operation: str) -> Any:
        method = getattr(self._inner, operation)

        def call(*arguments: Any, **options: Any) -> Any:
            def work() -> Any:
                self._before(arguments[0])
                return method(*arguments, **options)

            return self._metered.request(f"{self._service} {operation}", self._seconds, work)

        return call


class SimulatedPool:
    """Takes the place of thread pools: tasks run at once, each at the time at which one of the threads would be free."""

    clock: ManualClock

    def __init__(self, threads: int) -> None:
        self._free_s = [0.0] * threads

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def submit(self, call: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """See ``Executor``; ``result`` advances the clock to the end of the task."""
        clock, thread = self.clock, min(range(len(self._free_s)), key=self._free_s.__getitem__)
        now_s = clock.elapsed_s
        clock.elapsed_s = max(now_s, self._free_s[thread])
        task = _Task(clock)
        try:
            task.set_result(call(*arguments))
        except Exception as error:
            task.set_exception(error)
        task.end_s = self._free_s[thread] = clock.elapsed_s
        clock.elapsed_s = now_s
        return task

    def map(self, call: Callable[..., Any], *arguments: Iterable[Any]) -> Iterator[Any]:
        """See ``Executor``."""
        tasks = [self.submit(call, *each) for each in zip(*arguments, strict=False)]
        return (task.result() for task in tasks)


class _Task(Future[Any]):
    def __init__(self, clock: ManualClock) -> None:
        super().__init__()
        self._clock, self.end_s = clock, 0.0

    def result(self, timeout: float | None = None) -> Any:
        self._clock.elapsed_s = max(self._clock.elapsed_s, self.end_s)
        return super().result(timeout)


class LiveRuns:
    """Runs with an event a second, and the rows of the catalog. ``runs``: all of the pipeline; only those that are read have objects."""

    def __init__(self, runs: list[Run], metered: Metered) -> None:
        self._metered, self._runs = metered, {run: number for number, run in enumerate(runs)}
        self._clock = ManualClock(START_MS)
        self.store, self.index = InMemoryObjectStore(self._clock), InMemorySegmentIndex()
        ports = composition.Ports(self.store, self.store, self.index, self, InMemoryDatabase(), None, self._clock)  # type: ignore[arg-type]
        self._services = composition.assemble(SETTINGS, ports)
        self._written: dict[Run, tuple[int, str | None]] = {}
        self._by_prefix = {self._services.layout.run_prefix(run): run for run in runs}
        self._row_cpu_s = decoding_cpu_s()

    def event_s(self, run: Run, number: int) -> float:
        """The time of a run's event: runs do not write at the same moment."""
        return number + self._runs[run] / len(self._runs)

    def events_before(self, run: Run, at_s: float) -> int:
        """How many events a run has at a time."""
        return max(0, int(at_s - self._runs[run] / len(self._runs)) + 1)

    def write_due(self, key: Any) -> None:
        """Store the events that the run of a key has by now."""
        run = self._run_of(str(key))
        if run is None:
            return
        written, position = self._written.get(run, (0, None))
        due = self.events_before(run, self._metered.clock.elapsed_s)
        while written < due:
            count = 1 if written else HISTORY
            self._clock.elapsed_s = self.event_s(run, written + count - 1)
            events = [self._event(run, number) for number in range(written, written + count)]
            position = self._services.events.log.append(run, events, position=position).position
            written += count
        self._written[run] = (due, position)

    def _event(self, run: Run, number: int) -> NewEvent:
        at_ms = START_MS + int(self.event_s(run, number) * 1000)
        return NewEvent(message=f"{_MESSAGE} {number:08d}", level="INFO", timestamp=at_ms)

    def processed(self, run: Run) -> RunCheckpoint:
        """The checkpoint after the run's history."""
        last_ms = START_MS + int(self.event_s(run, HISTORY - 1) * 1000)
        return RunCheckpoint(EventPosition(HISTORY, HISTORY * EVENT_BYTES, last_ms), PLAIN.name)

    def _run_of(self, key: str) -> Run | None:
        parts = key.split("/")
        prefixes = ("/".join(parts[:count]) + "/" for count in range(len(parts), 0, -1))
        return next((self._by_prefix[prefix] for prefix in prefixes if prefix in self._by_prefix), None)

    # ``RunCatalog``, as far as a pipeline uses it.

    def active(self, before_ms: int) -> Iterator[RunRow]:
        """See the port: 64 Queries, eight at a time, and the decoding of the rows."""
        rows = self._metered.request("DynamoDB query", 0, lambda: [self._row(run) for run in self._runs], SHARDS)
        self._metered.clock.elapsed_s += SHARDS / THREADS * DYNAMODB_S + len(rows) * self._row_cpu_s
        self._metered.cpu_s += len(rows) * self._row_cpu_s
        return iter(rows)

    def get(self, run: Run) -> RunRow:
        """See the port."""
        row: RunRow = self._metered.request("DynamoDB get", DYNAMODB_S, lambda: self._row(run))
        return row

    def forget(self, run: Run) -> None:
        """See the port: nothing is deleted here."""

    def _row(self, run: Run) -> RunRow:
        events = self.events_before(run, self._metered.clock.elapsed_s)
        at_ms = START_MS + int(self._metered.clock.elapsed_s * 1000)
        return RunRow(run=run, segments=events, lines=events, bytes=events * EVENT_BYTES, started_ms=START_MS, last_append_ms=at_ms)


SETTINGS = Settings(bucket_name="bucket", archive_bucket_name="archive", position_keys=SecretStr("0123456789abcdef"))


class SilentHandler(logging.Handler):
    """Does nothing with an event."""

    def handle(self, record: logging.LogRecord) -> bool:
        """See ``logging``."""
        return True


def decoding_cpu_s(rows: int = 2000) -> float:
    """Processor time of decoding a row of the activity index: JSON, DynamoDB's types, and the row."""
    item = {"fqn": "svc.pipeline", "run_id": "0f1e2d3c-0000-4000-8000-000000000001", "activity_shard": "open#1", "seal": ""}
    numbers = dict.fromkeys(("segments", "lines", "bytes", "epoch", "started_ms", "last_append_ms", "expires_at"), 1790000000000)
    text = json.dumps({name: TypeSerializer().serialize(value) for name, value in (item | numbers).items()})
    deserializer = TypeDeserializer()
    started_s = thread_time()
    for _ in range(rows):
        row_of({name: deserializer.deserialize(value) for name, value in json.loads(text).items()})
    return (thread_time() - started_s) / rows


@dataclass(frozen=True, slots=True)
class ShardResult:
    """One shard's window. ``late`` of ``events``; ``disordered``: those of all ``read`` events that the worker counts as late; ages in
    s at reading; ``visits``: pieces that were read; ``requests`` of the worker."""

    events: int
    late: int
    disordered: int
    read: int
    ages_s: list[float]
    visits: int
    requests: int
    cpu_s: float
    seconds: float


def pipeline_file(count: int, delay_ms: int) -> PipelineFile:
    """A pipeline with the default properties but for the delay."""
    handlers = {"h": {"class": f"{__name__}.SilentHandler"}}
    config = {"version": 1, "handlers": handlers, "root": {"level": "DEBUG", "handlers": ["h"]}}
    document = {"shards": count, "properties": {"event_delay_ms": delay_ms}, "logging": config}
    return parse_pipeline_file(yaml.safe_dump(document), "bench", modules=AllowedModules((__name__,)))


def simulate(runs: list[Run], file: PipelineFile, shard: Shard, seconds: float, warm_up_s: float) -> ShardResult:
    """Simulate the worker of one shard of a pipeline."""
    clock = ManualClock(START_MS)
    clock.elapsed_s = begun_s = float(HISTORY)
    metered = Metered(clock)
    live = LiveRuns(runs, metered)
    SimulatedPool.clock = clock
    for module in [each for name, each in sys.modules.items() if name.startswith("chalicelib.")]:
        for pool in _POOLS & vars(module).keys():
            setattr(module, pool, SimulatedPool)
    database = InMemoryDatabase()
    ports = composition.Ports(
        MeteredPort(live.store, metered, "S3", S3_S, live.write_due),
        live.store,
        MeteredPort(live.index, metered, "DynamoDB", DYNAMODB_S),
        live,  # type: ignore[arg-type]
        MeteredPort(database, metered, "DynamoDB", DYNAMODB_S),
        None,
        clock,
    )
    given = worker_dependencies(composition.assemble(SETTINGS, ports), file, BUFFER_BYTES, _warn)
    discovery = CatalogRunDiscovery(live, lambda _: ((), None), file.source, clock)  # type: ignore[arg-type]
    for number in dict.fromkeys((0, shard.number)):
        before = Checkpoints(database, file.name, clock, given.keep_s, shard=Shard(number, shard.count))
        before.take_over("before")
    ours = [run for run in runs if shard.has(run.fqn)]
    before.commit({run: live.processed(run) for run in ours[:MAX_RUNS]}, looked_ms=clock.now_ms(), has_backlog=False)
    before.put_rows({run: live.processed(run) for run in ours[MAX_RUNS:]})
    worker = Worker(file, replace(given, discovery=discovery, shard=shard), lambda: None, "bench")
    since_s = begun_s + warm_up_s
    ages = _watch_reading(worker, clock, since_s)
    worker.start()
    visits, earlier = _count_visits(worker, clock, since_s), 0
    while clock.elapsed_s < begun_s + seconds:
        if not earlier and clock.elapsed_s >= since_s:
            earlier = metered.requests.total()
        is_busy = worker.step()
        metered.charge_cpu()
        if not is_busy:
            clock.sleep(IDLE_S)
    delay_s = file.properties.event_delay_ms / 1000
    due = sum(live.events_before(run, clock.elapsed_s - delay_s) - live.events_before(run, since_s) for run in ours)
    on_time = sum(age <= delay_s for age in ages.counted)
    return ShardResult(
        due,
        max(0, due - on_time),
        worker.buffer.late,
        ages.read,
        ages.counted,
        visits[0],
        metered.requests.total() - earlier,
        metered.cpu_s,
        clock.elapsed_s - since_s,
    )


def _warn(message: str, **facts: Any) -> None:
    print(message, facts, file=sys.stderr)


class _Ages:
    def __init__(self) -> None:
        self.counted: list[float] = []
        self.read = 0


def _watch_reading(worker: Worker, clock: ManualClock, since_s: float) -> _Ages:
    ages, add = _Ages(), worker.buffer.add

    def watched(pending: PendingEvent) -> None:
        ages.read += 1
        event_s = (pending.time_ms - START_MS) / 1000
        if event_s >= since_s:
            ages.counted.append(clock.elapsed_s - event_s)
        add(pending)

    worker.buffer.add = watched  # type: ignore[method-assign]
    return ages


def _count_visits(worker: Worker, clock: ManualClock, since_s: float) -> list[int]:
    visits, settle = [0], worker.buffer.settle

    def watched(*arguments: Any, **options: Any) -> None:
        visits[0] += clock.elapsed_s >= since_s
        settle(*arguments, **options)

    worker.buffer.settle = watched  # type: ignore[method-assign]
    return visits


def simulated(count: int, delay_ms: int, runs: int, seconds: float, warm_up_s: float) -> ShardResult:
    """The result of the shard with the median number of runs."""
    everything = [Run(f"svc.pipeline{number}", "0f1e2d3c-0000-4000-8000-000000000001") for number in range(runs)]
    by_size = sorted(shards(count), key=lambda shard: sum(shard.has(run.fqn) for run in everything))
    with redirect_stdout(StringIO()):  # metrics
        return simulate(everything, pipeline_file(count, delay_ms), by_size[count // 2], seconds, warm_up_s)


def late_events(count: int, runs: int, seconds: float, warm_up_s: float, delay_ms: int = DELAY_MS) -> Measure:
    """The share of late events with a number of shards."""
    result = simulated(count, delay_ms, runs, seconds, warm_up_s)
    ages = sorted(result.ages_s)
    figures = (
        f"{result.late / result.events:.0%} of {result.events:,}; out of order {result.disordered / max(1, result.read):.0%} of those"
        f" that were read; read after {_at(ages, 0.5):.1f} s (p50), {_at(ages, 0.99):.1f} s (p99);"
        f" a worker reads {result.visits / result.seconds:.1f} runs a second, with {result.requests / max(1, result.visits):.0f} requests each"
    )
    named = f"{count} shards" if count > 1 else "one shard"
    return reported(f"late events of {runs:,} live runs, one event/s each, {named}, delay {delay_ms / 1000:g} s", figures)


def capacity(seconds: float, warm_up_s: float, delay_ms: int = LONG_DELAY_MS) -> Measure:
    """The number of runs that one shard keeps up with: the last of 10, 20, 40, … of which at most a hundredth of the events is late."""
    runs, best = 10, ""
    while True:
        result = simulated(1, delay_ms, runs, seconds, warm_up_s)
        if 100 * result.late > result.events:
            break
        ages = sorted(result.ages_s)
        best = f"{runs} (read after {_at(ages, 0.5):.1f} s (p50), {_at(ages, 0.99):.1f} s (p99))"
        runs *= 2
    figures = f"{best or 'fewer than 10'}; of {runs}, {result.late / result.events:.0%} are late"
    return reported(f"live runs, one event/s each, of which a shard delivers 99% in time, delay {delay_ms / 1000:g} s", figures)


def _at(ages: list[float], share: float) -> float:
    return ages[min(len(ages) - 1, int(share * len(ages)))] if ages else 0.0


def main() -> None:
    """Print the figures, or store them."""
    parser = argparse.ArgumentParser(prog="python -m bench.pipeline_shards", description=__doc__)
    parser.add_argument("--shards", type=int, default=1)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=100)
    parser.add_argument("--warm-up", type=float, default=50)
    parser.add_argument("--write", action="store_true", help="store the figures in docs/figures.json")
    options = parser.parse_args()
    window = options.seconds, options.warm_up
    rows = []
    for measure in (partial(late_events, options.shards, options.runs, *window), partial(capacity, *window)):
        rows.append(measure())
        print(f"{rows[-1].what}: {rows[-1].measured}", flush=True)
    if options.write:
        save(rows, "pipelines", "shards of a pipeline", CODE)


if __name__ == "__main__":
    main()

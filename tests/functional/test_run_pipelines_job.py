"""A task of the job without Spark: partitions by run, fenced by the driver's epoch, and the next worker."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from logging import LogRecord
from threading import Event
from threading import enumerate as threads
from typing import Any

import pytest

from chalicelib import composition
from chalicelib.composition.pipelines import worker_dependencies
from chalicelib.coordination import InMemoryPartitionStore, Lease, LeaseTerms, SourceCoordinator, WorkSource
from chalicelib.pipelines.checkpoints import Checkpoints, JobPart
from chalicelib.pipelines.pipeline_state import PipelineStateStore
from chalicelib.pipelines.run_discovery import KnownRun
from chalicelib.pipelines.worker import Worker
from chalicelib.ports import PutOptions, Run
from glue_jobs.pipelines.pipeline_lease import LEASE_S, PATIENCE_S, FixedRuns, due, hold_pipeline
from glue_jobs.pipelines.task import work
from glue_jobs.run_pipelines import _summed, main, planned
from tests.functional.gateway import installed
from tests.pipelines_harness import MEASURES, START_MS, PipelinesHarness, RecordingHandler, line, pipeline

RUNS = [Run(f"svc.p{number}", "r1") for number in range(5)]
FILE = pipeline()


@pytest.fixture
def world() -> Iterator[PipelinesHarness]:
    RecordingHandler.forget()
    made = PipelinesHarness()
    store = InMemoryPartitionStore()
    made.work_sources = lambda source: (store, WorkSource(source))
    for number, run in enumerate(RUNS):
        made.write(run, [line(START_MS + at, f"{number}.{at}") for at in range(3)])
        made.end(run)
    with installed(made, runs=made.runs):
        yield made
    RecordingHandler.forget()


EXPECTED = [f"{number}.{at}" for number in range(5) for at in range(3)]


def silent(message: str, **facts: object) -> None:
    """Discard a warning."""


def known(world: PipelinesHarness) -> list[KnownRun]:
    return list(due(composition.services(), FILE, 0))


@pytest.mark.behavior("A job processes old runs in parallel, and the schedule continues after it.")
def test_tasks_work_runs_of_their_own_and_the_schedule_goes_on_behind_them(world: PipelinesHarness) -> None:
    services, runs = composition.services(), known(world)
    assert {each.run for each in runs} == set(RUNS)
    with hold_pipeline(services, FILE) as epoch:
        assert epoch is not None
        assert work(services, FILE, JobPart("j.0", epoch), runs[:2], 1 << 20, silent).events == 6
        assert work(services, FILE, JobPart("j.1", epoch), runs[2:], 1 << 20, silent).problem is None
    assert sorted(RecordingHandler.messages()) == EXPECTED
    assert not [row for row in world.database.rows("pipelines") if row["at"].startswith("checkpoint#")]
    worker = world.worker(FILE)
    worker.start()
    world.work(worker)
    assert sorted(RecordingHandler.messages()) == EXPECTED


def test_result_of_a_task_has_the_metrics_of_handlers(world: PipelinesHarness) -> None:
    file = pipeline(cls=MEASURES)
    with hold_pipeline(composition.services(), file) as epoch:
        assert epoch is not None
        done = work(composition.services(), file, JobPart("j.0", epoch), known(world)[:2], 1 << 20, silent)
    metrics = {"all": {"length": {"count": 6, "sum": 18.0, "min": 3.0, "max": 3.0}}}
    assert json.loads(done.metrics) == metrics
    assert _summed([asdict(done)])["metrics"] == metrics


def test_meanwhile_the_pipeline_is_the_jobs(world: PipelinesHarness) -> None:
    services = composition.services()
    with hold_pipeline(services, FILE) as epoch, hold_pipeline(services, FILE) as second:
        assert epoch is not None and second is None
    with hold_pipeline(services, FILE) as third:
        assert third is not None and third > epoch


def test_task_of_a_killed_job_commits_nothing_and_its_runs_are_taken_over(world: PipelinesHarness) -> None:
    services, runs = composition.services(), known(world)
    with hold_pipeline(services, FILE) as epoch:
        assert epoch is not None
        parts = worker_dependencies(services, FILE, 1 << 20, silent)
        from dataclasses import replace

        killed = Worker(FILE, replace(parts, discovery=FixedRuns(runs[:2]), part=JobPart("j.0", epoch)), lambda: None, "task")
        killed.start()
        killed.step()
        world.clock.advance(11)
        killed.step()  # committed
        other = Worker(FILE, replace(parts, discovery=FixedRuns(runs[2:]), part=JobPart("j.1", epoch)), lambda: None, "task")
        other.start()
    assert len(RecordingHandler.messages()) == 6
    done = work(services, FILE, JobPart("j.2", epoch), runs[2:], 1 << 20, silent)
    assert done.problem and "PartitionNotOwnedError" in done.problem
    RecordingHandler.forget()
    worker = world.worker(FILE)
    worker.start()
    world.work(worker)
    worker.stop()
    assert len(RecordingHandler.messages()) == 9  # of the runs that the killed task had not committed
    assert not [row for row in world.database.rows("pipelines") if row["at"].startswith("checkpoint#")]


def test_a_task_that_is_begun_again_goes_on(world: PipelinesHarness) -> None:
    services, runs = composition.services(), known(world)
    with hold_pipeline(services, FILE) as epoch:
        assert epoch is not None
        first = Checkpoints(world.database, FILE.name, world.clock, 10, JobPart("j.0", epoch))
        first.take_over("first try")
        assert work(services, FILE, JobPart("j.0", epoch), runs, 1 << 20, silent).events == 15
        assert work(services, FILE, JobPart("j.0", epoch), runs, 1 << 20, silent).events == 0
    assert sorted(RecordingHandler.messages()) == EXPECTED


def test_task_reports_damaged_logs_and_processes_them_after_repair(world: PipelinesHarness) -> None:
    services, runs = composition.services(), known(world)
    key = world.layout.logs(RUNS[0])
    logs = world.store.get(key)
    world.store.put(key, b"shorter", PutOptions(logs.info.metadata))
    with hold_pipeline(services, FILE) as epoch:
        assert epoch is not None
        done = work(services, FILE, JobPart("j.0", epoch), runs, 1 << 20, silent)
    assert done.problem == "runs whose logs are damaged, 1 in all: svc.p0/r1"
    assert sorted(RecordingHandler.messages()) == EXPECTED[3:]
    world.store.put(key, logs.body, PutOptions(logs.info.metadata))
    world.runs.mark_retired(RUNS[0], 99)
    worker = world.worker(FILE, discovery=FixedRuns([]))
    worker.start()
    world.work(worker)
    assert sorted(RecordingHandler.messages()) == EXPECTED


def test_a_job_that_is_begun_again_waits_for_the_lease_of_the_one_that_was_killed(world: PipelinesHarness) -> None:
    services = composition.services()
    killed = SourceCoordinator(*services.work_sources("pipelines"), world.clock, lambda *_: None, terms=LeaseTerms(LEASE_S))
    killed.initialize()
    assert isinstance(killed.acquire(FILE.name), Lease)
    with hold_pipeline(services, FILE) as epoch:
        assert epoch is None
    with hold_pipeline(services, FILE, PATIENCE_S) as epoch:
        assert epoch is not None


@pytest.mark.slow
def test_a_handler_that_does_not_come_back_is_disabled_and_the_task_goes_on_without_it(world: PipelinesHarness) -> None:
    services, file, runs = composition.services(), pipeline(to=("all", "stuck")), known(world)
    released, switches = Event(), PipelineStateStore(world.database, world.clock)

    def block(_: LogRecord) -> None:
        while not released.wait(0.005):
            world.clock.advance(1)

    RecordingHandler.fails["stuck"] = block
    head = Checkpoints(world.database, file.name, world.clock, 10)
    head.take_over("driver")
    done = work(services, file, JobPart("j.0", head.epoch), runs, 1 << 20, silent)
    assert done.problem == "handlers that get no events: stuck"
    assert set(RecordingHandler.messages()) == set(EXPECTED)
    assert switches.read(file.name)[1]["stuck"].reason == "blocked: it did not come back for 60 s"
    released.set()
    for thread in threads():
        if thread.name == f"pipeline {file.name}":
            thread.join(10)
    assert len(RecordingHandler.messages("stuck")) == 1, "what it was blocked at, and no more"
    assert not [row for row in world.database.rows("pipelines") if row["at"].startswith("checkpoint#")]


@pytest.mark.parametrize(
    ("section", "key", "problem"),
    [("handlers", "class", "handlers that get no events: stuck"), ("filters", "()", "formatters and filters do not come back")],
)
def test_what_blocks_while_it_is_built_ends_with_its_problem(
    world: PipelinesHarness, monkeypatch: pytest.MonkeyPatch, section: str, key: str, problem: str
) -> None:
    """The constructor of a handler, without which the task goes on; that of a filter, without which it cannot."""
    released = Event()

    class Stuck(RecordingHandler):
        """Its constructor returns when the test lets it; meanwhile the clock goes on."""

        def __init__(self) -> None:
            super().__init__()
            while not released.wait(0.005):
                world.clock.advance(1)

    Stuck.__module__ = __name__
    monkeypatch.setattr(sys.modules[__name__], "Stuck", Stuck, raising=False)
    file, services = pipeline(), composition.services()
    parts: dict[str, dict[str, Any]] = {"handlers": dict(file.logging.handlers), "filters": {}}
    parts[section]["stuck"] = {key: f"{__name__}.Stuck"}
    file = pipeline(logging={"version": 1, **parts, "root": {"handlers": [*parts["handlers"]]}})
    head = Checkpoints(world.database, file.name, world.clock, 10)
    head.take_over("driver")
    assert work(services, file, JobPart("j.0", head.epoch), known(world), 1 << 20, silent).problem == problem
    assert set(RecordingHandler.messages()) == (set(EXPECTED) if section == "handlers" else set())
    released.set()


def test_an_operator_stops_it(world: PipelinesHarness) -> None:
    services = composition.services()
    PipelineStateStore(world.database, world.clock).set_enabled(FILE.name, False)
    with hold_pipeline(services, FILE) as epoch:
        assert epoch is not None
        assert work(services, FILE, JobPart("j.0", epoch), known(world), 1 << 20, silent).problem == "the pipeline was disabled"
    assert RecordingHandler.messages() == []


def test_the_plan_gives_each_run_to_one_task_the_largest_to_each() -> None:
    runs = [KnownRun(Run("f", str(number)), number * 10, number, True, 0) for number in range(10)]
    plan = planned(runs, 3)
    assert sorted(row[2] for row in plan) == sorted(str(number) for number in range(10))
    weights = [sum(row[3] for row in plan if row[0] == task) for task in range(3)]
    assert max(weights) - min(weights) <= 90
    assert planned(runs, 3) == plan


@pytest.mark.parametrize(
    ("only", "message"),
    [
        ("runlake,nobody", "no such pipeline: nobody; there are runlake\n"),
        (
            "output.copy",
            "no such pipeline: output.copy; there are runlake; outputs of RUNLAKE_EVENTS are delivered by the schedule, also those of old runs\n",
        ),
    ],
)
def test_unknown_names_and_outputs_are_refused(
    world: PipelinesHarness, capsys: pytest.CaptureFixture[str], only: str, message: str
) -> None:
    with installed(world, runs=world.runs, events="outputs: [{name: copy, kind: logstash, url: 'https://h'}]"):
        assert main(["--dry-run", "--only", only]) == 2
        assert capsys.readouterr().err == f"run_pipelines: {message}"
        assert main(["--dry-run", "--config", "s3://nowhere/x"]) == 2
        assert capsys.readouterr().err.startswith("run_pipelines: pipelines are read from one of these buckets: ")
        assert main(["--dry-run"]) == 0
        assert list(json.loads(capsys.readouterr().out.splitlines()[-1])["pipelines"]) == ["runlake"]

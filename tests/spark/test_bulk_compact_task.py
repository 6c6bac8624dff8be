"""One task of bulk compaction over stores in memory: no Spark, no waiting."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from pydantic import SecretStr

from chalicelib import composition
from chalicelib.catalog.runs import partition_key
from chalicelib.coordination import InMemoryPartitionStore, LeaseTerms, Partition, SourceCoordinator, Status, WorkSource
from chalicelib.coordination.worker_pool import Backoff
from chalicelib.errors import StoreUnavailableError
from chalicelib.ports import FAILED, PutOptions, Run, RunEnd
from chalicelib.runlog.batch import Batch
from chalicelib.runlog.compaction import RETIRE_AFTER_MS
from chalicelib.settings import Settings
from chalicelib.triggers import schedules
from glue_jobs.compaction.due_runs import by_catalog
from glue_jobs.compaction.task import LEASE_S, Attempt, PlannedRun, Result, Task
from tests.faults.interception import Intercepted
from tests.support.run_catalog import InMemoryRunCatalog
from tests.world import World

SEALED, OPEN, OTHER = (Run("svc.pipe", name) for name in ("sealed", "open", "other"))
SOURCE = WorkSource("compaction")
Gate = Callable[[str, Callable[[], Any]], Any]


class Work(InMemoryPartitionStore):
    """Records which partitions were created."""

    def __init__(self, created: list[str]) -> None:
        super().__init__()
        self._created = created

    def create(self, new: Partition) -> Any:
        self._created.append(new.key)
        return super().create(new)


class Stage:
    """Runs in memory, the lines appended to them, and tasks over them."""

    def __init__(self) -> None:
        self.created: list[str] = []
        self.world, self.runs, self.work = World(), InMemoryRunCatalog(), Work(self.created)
        self.parts = self.world.parts()
        self.logs: dict[Run, bytes] = {}
        self.calls: Counter[str] = Counter()

    def services(self, gate: Gate | None = None) -> composition.Services:
        ports = composition.Ports(
            store=Intercepted(self.world.store, gate or self._count),
            archive_store=self.world.archive_store,
            index=self.world.index,
            runs=self.runs,
            database=self.world.database,
            publisher=None,
            clock=self.world.clock,
            work_sources=lambda source: (self.work, WorkSource(source)),
        )
        settings = Settings(bucket_name="bucket", archive_bucket_name="archive", position_keys=SecretStr("0123456789abcdef"))
        return composition.assemble(settings, ports)

    def append(self, run: Run, *texts: str, close: bool = False) -> None:
        position: str | None = None
        for text in texts:
            appended = self.parts.writer.append(run, Batch.from_text(text), position=position)
            position = appended.position
            assert appended.entry
            self.runs.record_segment(run, appended.entry)
            self.world.index.put(run, [appended.entry])
            self.logs[run] = self.logs.get(run, b"") + text.encode()
        if close:
            tail = self.parts.writer.tails.find(run)
            seal = self.parts.writer.seal(run, "closed", tail)
            assert seal
            entry = self.parts.writer.tails.segment(run, tail.sequence)
            self.runs.record_segment(run, entry)
            self.world.index.put(run, [entry])

    def due(self) -> list[PlannedRun]:
        return [PlannedRun(Run(fqn, run_id), *rest) for fqn, run_id, _, _, *rest in by_catalog(self.services(), "", 0)]  # type: ignore[arg-type]

    def task(self, number: int = 0, *, job: str = "job", gate: Gate | None = None, dry_run: bool = False) -> dict[Run, Result]:
        """Work the due runs; returns the result of each."""
        self.calls.clear()
        task = Task(self.services(gate), Attempt(job, 7, number), threads=2, dry_run=dry_run)
        return {result.run: result for result in task.work(self.due())}

    def node(self, seconds: float = 600.0) -> SourceCoordinator:
        """Another worker, like the schedule's function."""
        node = SourceCoordinator(self.work, SOURCE, self.world.clock, lambda *_: None, terms=LeaseTerms(seconds))
        node.initialize()
        return node

    def partition(self, run: Run) -> Any:
        return self.work.get(SOURCE.partitions, partition_key(run))

    def stored(self, run: Run) -> tuple[str, bytes]:
        """The one artifact of a run, and its bytes."""
        (name,) = (name for name in self.world.names(run) if name in ("logs.txt", "partial.txt"))
        return name, self.world.body(name, run)

    def _count(self, operation: str, call: Callable[[], Any]) -> Any:
        self.calls[operation] += 1
        return call()


@pytest.fixture
def stage() -> Stage:
    made = Stage()
    made.append(SEALED, "one\n", "two\n", close=True)
    made.append(OPEN, "three\n", "four\n")
    return made


def outcomes(results: dict[Run, Result]) -> dict[Run, str]:
    return {run: result.outcome for run, result in results.items()}


def test_sealed_runs_are_finalized_and_open_ones_compacted(stage: Stage) -> None:
    results = stage.task()
    assert outcomes(results) == {SEALED: "finalized", OPEN: "compacted"}
    assert [(results[run].segments, results[run].uploaded_bytes) for run in (SEALED, OPEN)] == [(3, 8), (2, 11)]
    assert stage.stored(SEALED) == ("logs.txt", stage.logs[SEALED])
    assert stage.stored(OPEN) == ("partial.txt", stage.logs[OPEN])
    assert stage.partition(SEALED) is stage.partition(OPEN) is None, "no lease is left"
    assert (stage.due(), stage.task()) == ([], {}), "a second run has nothing to do"


def test_a_sealed_run_costs_a_listing_a_head_a_get_for_each_segment_and_a_put(stage: Stage) -> None:
    stage.runs = InMemoryRunCatalog()
    stage.append(OTHER, *["line\n"] * 20, close=True)
    stage.task()
    assert stage.calls == {"list": 1 + 1, "head": 1, "get": 20, "put": 1}, "and a listing of all markers, for all runs"


def test_a_task_that_is_begun_again_looks_at_what_is_done_and_no_more(stage: Stage) -> None:
    planned = stage.due()
    for expected in ({"finalized", "compacted"}, {"unchanged"}):
        stage.calls.clear()
        created = len(stage.created)
        results = list(Task(stage.services(), Attempt("job", 7, 0), threads=2).work(planned))
        assert {result.outcome for result in results} == expected
    assert stage.calls == {"list": 2, "head": 2} and len(stage.created) == created


def test_a_dry_run_says_the_same_and_does_nothing(stage: Stage) -> None:
    before = {key: stage.world.store.head(key).etag for key in listed(stage)}
    forecast = stage.task(dry_run=True)
    assert set(stage.calls) <= {"list", "head"}
    assert {key: stage.world.store.head(key).etag for key in listed(stage)} == before
    assert stage.work.get(SOURCE.global_state, "x") is None and list(stage.work.rows()) == []
    done = stage.task()
    assert outcomes(forecast) == outcomes(done)
    assert [(each.segments, each.uploaded_bytes) for each in forecast.values()] == [
        (done[run].segments, done[run].uploaded_bytes) for run in forecast
    ]


def test_markers_go_with_the_run_that_has_them(stage: Stage) -> None:
    for run in (SEALED, OTHER):
        stage.world.store.put(stage.world.layout.marker(run, "pod-1"), b"", PutOptions())
    stage.task()
    assert [key for key in listed(stage) if "/.active/" in key] == [stage.world.layout.marker(OTHER, "pod-1")]


def test_a_run_that_another_has_is_waited_for(stage: Stage) -> None:
    """The schedule's function releases it a while later, before the second check."""
    node = stage.node()
    lease = node.acquire(partition_key(OPEN))
    looks: Counter[str] = Counter()

    def gate(operation: str, call: Callable[[], Any]) -> Any:
        if operation == "list" and stage.world.clock.monotonic_s() > 3 and not looks["given up"]:
            looks["given up"] += 1
            node.release(lease)  # type: ignore[arg-type]
        return call()

    assert outcomes(stage.task(gate=gate)) == {SEALED: "finalized", OPEN: "compacted"}
    assert looks["given up"]


def test_a_run_that_another_keeps_is_left_to_it_and_said(stage: Stage) -> None:
    stage.node().acquire(partition_key(OPEN))
    results = stage.task()
    assert outcomes(results) == {SEALED: "finalized", OPEN: "busy"}
    assert "leased by another worker" in (results[OPEN].problem or "")
    assert stage.world.clock.monotonic_s() < LEASE_S + 15


def test_what_a_killed_job_had_is_taken_when_its_lease_has_ended(stage: Stage) -> None:
    killed = SourceCoordinator(
        stage.work,
        SOURCE,
        stage.world.clock,
        lambda *_: None,
        terms=LeaseTerms(LEASE_S),
        owner_factory=Attempt("older", 7, 0).owner,
    )
    killed.initialize()
    killed.acquire(partition_key(SEALED))
    assert outcomes(stage.task()) == {SEALED: "finalized", OPEN: "compacted"}
    assert stage.world.clock.monotonic_s() >= LEASE_S


def test_what_an_earlier_try_of_the_same_task_had_is_taken_at_once(stage: Stage) -> None:
    killed = SourceCoordinator(stage.work, SOURCE, stage.world.clock, lambda *_: None, owner_factory=Attempt("job", 7, 0).owner)
    killed.initialize()
    killed.acquire(partition_key(SEALED))
    assert outcomes(stage.task(number=1)) == {SEALED: "finalized", OPEN: "compacted"}
    assert stage.world.clock.monotonic_s() == 0


@pytest.mark.parametrize("other", [Attempt("job", 8, 0), Attempt("job", 7, 1), Attempt("another", 7, 0), Attempt("job", 7, 2)])
def test_a_try_inherits_from_none_but_earlier_tries_of_its_own_task(other: Attempt) -> None:
    stage = Stage()
    node = SourceCoordinator(stage.work, SOURCE, stage.world.clock, lambda *_: None, owner_factory=other.owner)
    node.initialize()
    node.acquire("svc.pipe/run")
    held = stage.work.get(SOURCE.partitions, "svc.pipe/run")
    assert held and not Attempt("job", 7, 1).inherits(held)
    assert not Attempt("job", 7, 1).inherits(replace(held, owner=None))


@pytest.mark.behavior("A damaged run is reported and stops no other.")
def test_a_damaged_run_is_said_and_put_off_and_stops_no_other(stage: Stage) -> None:
    stage.append(OTHER, "a\n", "b\n", "c\n")
    stage.world.store.delete(stage.world.layout.segment(OTHER, 1))
    results = stage.task()
    assert outcomes(results) == {SEALED: "finalized", OPEN: "compacted", OTHER: "failed"}
    assert "svc.pipe/other: DamagedLogError: segments are not consecutive" in (results[OTHER].problem or "")
    assert (stage.partition(OTHER).status, stage.partition(OTHER).closed_count) == (Status.CLOSED, 1)
    assert outcomes(stage.task()) == {OTHER: "failed"}, "it is tried at once, whatever the schedule waits for"
    assert stage.partition(OTHER).closed_count == 2


def test_quarantined_run_is_left_and_reported(stage: Stage) -> None:
    node = stage.node()
    lease = node.acquire(partition_key(OPEN))
    node.close(lease, Backoff(1).delay(1), 1)  # type: ignore[arg-type]
    results = stage.task()
    assert outcomes(results) == {SEALED: "finalized", OPEN: "set_aside"}
    assert "quarantined" in (results[OPEN].problem or "")


def test_a_store_that_fails_for_a_while_is_asked_again(stage: Stage) -> None:
    failures = Counter[str]()

    def gate(operation: str, call: Callable[[], Any]) -> Any:
        failures[operation] += 1
        if operation in ("get", "put", "head") and failures[operation] <= 2:
            raise StoreUnavailableError(f"injected operation={operation}")
        return call()

    assert outcomes(stage.task(gate=gate)) == {SEALED: "finalized", OPEN: "compacted"}
    assert stage.stored(SEALED) == ("logs.txt", stage.logs[SEALED])
    assert stage.partition(SEALED) is stage.partition(OPEN) is None


def test_a_store_that_stays_away_is_said(stage: Stage) -> None:
    def gate(operation: str, call: Callable[[], Any]) -> Any:
        if operation == "put":
            raise StoreUnavailableError("injected")
        return call()

    results = stage.task(gate=gate)
    assert outcomes(results) == {SEALED: "failed", OPEN: "failed"}
    assert outcomes(stage.task()) == {SEALED: "finalized", OPEN: "compacted"}, "and nothing keeps a later job from it"


def test_the_schedule_overtakes_between_the_look_and_the_lease(stage: Stage) -> None:
    """The read state is then out of date, and all writes based on it fail."""
    overtaken = Counter[str]()

    def gate(operation: str, call: Callable[[], Any]) -> Any:
        if operation == "get" and not overtaken["done"]:
            overtaken["done"] += 1
            for run in (SEALED, OPEN):
                stage.parts.finalizer.compact_and_finalize(run, stage.world.deadline())
        return call()

    results = stage.task(gate=gate)
    assert set(outcomes(results).values()) <= {"unchanged", "finalized", "compacted"}
    assert stage.stored(SEALED) == ("logs.txt", stage.logs[SEALED])
    assert stage.stored(OPEN) == ("partial.txt", stage.logs[OPEN])
    assert stage.due() == []


def test_catalog_that_missed_the_end_is_updated(stage: Stage) -> None:
    for run in (SEALED, OPEN):
        stage.parts.finalizer.compact_and_finalize(run, stage.world.deadline())
    assert len(stage.due()) == 2
    assert outcomes(stage.task()) == {SEALED: "unchanged", OPEN: "unchanged"}
    assert stage.due() == []


def test_old_segments_of_finished_runs_are_retired(stage: Stage) -> None:
    stage.task()
    stage.world.clock.advance(RETIRE_AFTER_MS / 1000 + 61)
    results = stage.task()
    assert results[SEALED] == Result(SEALED, "retired", retired_segments=2)
    assert stage.stored(SEALED) == ("logs.txt", stage.logs[SEALED])
    assert stage.due() == []


def test_failed_run_is_not_retired_before_the_schedule_has_explained_it(stage: Stage) -> None:
    stage.parts.finalizer.close(OPEN, end=RunEnd(FAILED))
    stage.runs.record_segment(OPEN, stage.parts.writer.tails.segment(OPEN, 2))
    stage.task()
    stage.world.clock.advance(RETIRE_AFTER_MS / 1000 + 61)
    assert [each.run for each in stage.due()] == [SEALED]
    stage.runs.record_explanation(OPEN, 3, "{}")
    assert {each.run for each in stage.due()} == {SEALED, OPEN}


def test_a_tick_of_the_schedule_and_a_task_leave_the_same_bytes(stage: Stage) -> None:
    """In either order, each completes the remaining work."""
    for first in (True, False):
        runs = [Run(f"svc.both-{first}", f"run-{number}") for number in range(6)]
        for number, run in enumerate(runs):
            stage.append(run, f"{number}\n", "more\n", close=number % 2 == 0)
        turns: list[Callable[[], object]] = [lambda: schedules.compact(stage.services(), 840_000), stage.task]
        for turn in turns if first else turns[::-1]:
            turn()
        assert [stage.stored(run)[1] for run in runs] == [stage.logs[run] for run in runs]
    assert stage.due() == [] and list(stage.work.rows()) != []


def listed(stage: Stage) -> list[str]:
    return [found.key for found in stage.world.store.list("").objects]

"""Work that is only in memory for a while: runs that are becoming active, or replayed. At any failed call or crash, this worker
or the next one processes each run, although it has left the activity index.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from chalicelib.errors import LeaseError, StoreUnavailableError, UnavailableError
from chalicelib.pipelines.checkpoints import Checkpoints, Replay
from chalicelib.pipelines.pipeline_state import PipelineStateStore, replay_done
from chalicelib.pipelines.rows import EventPosition, RunCheckpoint
from chalicelib.pipelines.run_discovery import CatalogRunDiscovery
from chalicelib.pipelines.worker import Worker
from chalicelib.ports import Run
from tests.faults.interception import Crash, Intercepted
from tests.pipelines_harness import START_MS, PipelinesHarness, RecordingHandler, line, pipeline

RUNS = [Run(f"svc.{name}", f"r{number}") for name in "ab" for number in range(3)]
EXPECTED = sorted(f"{run.fqn} {run.run_id} {at}" for run in RUNS for at in range(2))
FILE = pipeline(properties={"checkpoint_interval_ms": 1000})
TICKS = 8


class Gate:
    """Counts the reads of all stores and of the catalog, and fails one of them: throttled, or the process dies there."""

    def __init__(self, number: int, error: Callable[[], BaseException] = lambda: StoreUnavailableError("throttled")) -> None:
        self.reads, self._number, self._error = 0, number, error
        self._is_dead = False

    def __call__(self, operation: str, call: Callable[[], Any]) -> Any:
        if self._is_dead:
            raise Crash(operation)
        if operation not in ("put", "put_many", "transact"):
            self.reads += 1
            if self.reads == self._number:
                error = self._error()
                self._is_dead = isinstance(error, Crash)
                raise error
        return call()


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    RecordingHandler.forget()
    yield
    RecordingHandler.forget()


def finished_runs(world: PipelinesHarness, *, leave: bool = True) -> None:
    """Finalized, catalogued, and no longer in the activity index."""
    for run in RUNS:
        world.write(run, [line(START_MS + at, f"{run.fqn} {run.run_id} {at}") for at in range(2)])
        world.end(run)
        if leave:
            world.leave_index(run)


def worker_of(world: PipelinesHarness, gate: Gate, owner: str, **changes: Any) -> Worker:
    runs: Any = Intercepted(world.runs, gate)

    def names(after: str) -> tuple[list[str], str | None]:
        pages: dict[str, tuple[list[str], str | None]] = {"": (["svc.a"], "svc.a"), "svc.a": (["svc.b"], None)}
        return gate("names", lambda: pages[after])  # type: ignore[no-any-return]

    parts = {
        "discovery": CatalogRunDiscovery(runs, names, FILE.source, world.clock),
        "store": Intercepted(world.store, gate),
        "database": Intercepted(world.database, gate),
        "generation": lambda run: gate("generation", lambda: ""),
    }
    return world.worker(FILE, owner=owner, **parts | changes)


def tick(world: PipelinesHarness, gate: Gate, owner: str, steps: int = 12, pause_s: int = 1, **changes: Any) -> None:
    """The life of a worker: one minute of the schedule. Killed: it does not stop in an orderly way."""
    try:
        worker = worker_of(world, gate, owner, **changes)
        worker.start()
        for _ in range(steps):
            with suppress(UnavailableError):  # the supervisor continues
                worker.step()
            world.clock.advance(pause_s)
        worker.stop()
    except (Crash, LeaseError, UnavailableError):
        pass  # the next tick starts again
    world.clock.advance(20)


def reads_of(steps: int, **changes: Any) -> int:
    world, gate = PipelinesHarness(), Gate(0)
    finished_runs(world)
    tick(world, gate, "counting", steps, **changes)
    RecordingHandler.forget()
    return gate.reads


@pytest.mark.sampled(default=30)
@pytest.mark.parametrize("max_runs", [2, 100])
@pytest.mark.parametrize("number", range(1, 80))
def test_throttled_read_forgets_no_run(number: int, max_runs: int) -> None:
    world, gate = PipelinesHarness(), Gate(number)
    finished_runs(world)
    tick(world, gate, "w0", 40, pause_s=2, max_runs=max_runs)  # long enough to report that discovery is complete
    for at in range(2):
        tick(world, Gate(0), f"w{at + 1}", 40, max_runs=max_runs)
    assert sorted(RecordingHandler.messages()) == EXPECTED


@pytest.mark.sampled(default=30)
@pytest.mark.parametrize("number", range(1, 80))
def test_process_killed_while_it_takes_runs_forgets_none(number: int) -> None:
    world, gate = PipelinesHarness(), Gate(number, lambda: Crash("killed"))
    finished_runs(world)
    tick(world, gate, "w0", 40, max_runs=2)
    for at in range(2):
        tick(world, Gate(0), f"w{at + 1}", 40, max_runs=2)
    assert sorted(set(RecordingHandler.messages())) == EXPECTED


def test_reads_cover_a_tick() -> None:
    assert 60 < reads_of(40, max_runs=2) < 80


@pytest.mark.parametrize("way", ["the process is suspended", "the catalog is unavailable"])
def test_run_that_leaves_the_index_while_a_worker_discovers_none_is_found(way: str) -> None:
    """The worker goes on, and reports that discovery is complete."""
    world, is_away = PipelinesHarness(), False

    def gate(operation: str, call: Callable[[], Any]) -> Any:
        if is_away and operation == "active":
            raise StoreUnavailableError("throttled")
        return call()

    runs: Any = Intercepted(world.runs, gate)
    discovery = CatalogRunDiscovery(runs, lambda _: (["svc.a", "svc.b"], None), FILE.source, world.clock)
    worker = worker_of(world, Gate(0), "w0", discovery=discovery)
    worker.start()
    worker.step()
    finished_runs(world, leave=False)
    world.clock.advance(21 * 60)
    is_away = way == "the catalog is unavailable"
    for run in RUNS:
        world.leave_index(run)
    if is_away:
        with pytest.raises(UnavailableError):
            worker.step()
        is_away = False
    for _ in range(8):  # longer than between two reports
        worker.step()
        world.clock.advance(10)
    worker.stop()
    tick(world, Gate(0), "w1", discovery=discovery)
    assert sorted(RecordingHandler.messages()) == EXPECTED


def test_ended_runs_do_not_wait_for_the_end_of_live_ones() -> None:
    """Live runs that are done take all the room, and none of them waits: the catalog's listing goes on nevertheless."""
    world = PipelinesHarness()
    finished_runs(world)
    for name in "ab":
        world.write(Run(f"svc.{name}", "live"), [line(START_MS, name)])
    tick(world, Gate(0), "w0", 40, pause_s=2, max_runs=2)
    assert sorted(RecordingHandler.messages()) == sorted([*EXPECTED, "a", "b"])


def test_process_killed_before_a_run_moved_forgets_none() -> None:
    """Runs are active and unreadable; a checkpoint says that discovery is complete. Then the process dies."""
    world = PipelinesHarness()
    finished_runs(world)

    class Unreadable:
        def read_range(self, *_: Any) -> Any:
            raise StoreUnavailableError("slow down")

    worker = worker_of(world, Gate(0), "w0", logs=Unreadable())
    worker.start()
    for _ in range(4):
        worker.step()
        world.clock.advance(2)
    assert worker.scheduler.listed and not worker.scheduler.waiting  # killed here
    world.clock.advance(60)
    tick(world, Gate(0), "w1")
    assert sorted(RecordingHandler.messages()) == EXPECTED


@pytest.mark.parametrize("steps", range(8))
def test_process_killed_in_a_replay_forgets_no_run(steps: int) -> None:
    """There is room for two runs, so most of them wait in memory when the process dies; and the next one is killed as early."""
    world = PipelinesHarness()
    finished_runs(world)
    tick(world, Gate(0), "w0", 40, pause_s=2, max_runs=2)  # long enough to report that discovery is complete
    assert sorted(RecordingHandler.messages()) == EXPECTED
    RecordingHandler.forget()
    switches = PipelineStateStore(world.database, world.clock)
    switches.replay(FILE.name, START_MS - 10, world.clock.now_ms())
    for at in range(2):
        worker = worker_of(world, Gate(0), f"killed{at}", max_runs=2)
        worker.start()
        for _ in range(steps):
            worker.step()
            world.clock.advance(1)
        world.clock.advance(20)
    assert switches.read(FILE.name)[0].replay_ms is None
    for at in range(3):
        tick(world, Gate(0), f"w{at}", 20, max_runs=2)
    assert sorted(set(RecordingHandler.messages())) == EXPECTED
    RecordingHandler.forget()
    tick(world, Gate(0), "last", 40, max_runs=2)
    assert RecordingHandler.messages() == [], "a replay that is done is done"


def test_replay_that_is_asked_for_again_midway_is_of_all_its_runs() -> None:
    world = PipelinesHarness()
    finished_runs(world)
    tick(world, Gate(0), "w0", 40, max_runs=2)
    RecordingHandler.forget()
    switches = PipelineStateStore(world.database, world.clock)
    switches.replay(FILE.name, START_MS - 10, 1)
    first = worker_of(world, Gate(0), "w1", max_runs=2)
    first.start()
    first.step()  # killed here: two runs are done, the rest wait
    switches.replay(FILE.name, START_MS - 5, 2)
    for at in range(3):
        tick(world, Gate(0), f"again{at}", 20, max_runs=2)
    messages = RecordingHandler.messages()
    assert set(messages) == set(EXPECTED) and all(messages.count(text) <= 2 for text in EXPECTED)


def test_replay_asked_for_again_does_not_forget_a_run_at_its_beginning() -> None:
    """A marked run's checkpoint is before its first event: its time alone does not make it part of the replay."""
    world = PipelinesHarness()
    checkpoints = Checkpoints(world.database, "p", world.clock, 100)
    checkpoints.take_over("w0")
    checkpoints.commit({RUNS[0]: RunCheckpoint(EventPosition(2, 20, START_MS))})
    for attempt in range(2):
        switches = PipelineStateStore(world.database, world.clock)
        switches.replay("p", START_MS - attempt, attempt)
        switch, _ = switches.read("p")
        checkpoints.take_over(f"w{attempt + 1}", Replay(START_MS - attempt, replay_done("p", switch)))
        expected = RunCheckpoint(EventPosition(), replay_line=2, replay_ms=START_MS - attempt)
        assert [(row.checkpoint, row.unfinished) for row in checkpoints.released()] == [(expected, True)]


def test_run_in_hand_that_is_not_replayed_goes_on_after_a_kill() -> None:
    """The events of active runs are older than the replay's time, and their remaining events are in no index any more."""
    world = PipelinesHarness()
    finished_runs(world)
    first = worker_of(world, Gate(0), "w0", generation=lambda run: "")
    first.start()
    first.scheduler.discover()
    first.scheduler.admit(first.delivery.receiving)
    first.committer.commit(first._states)  # active, and nothing was processed: killed here
    later_ms = START_MS + 3_600_000
    PipelineStateStore(world.database, world.clock).replay(FILE.name, later_ms, world.clock.now_ms())
    second = worker_of(world, Gate(0), "w1")
    second.start()  # killed here
    tick(world, Gate(0), "w2")
    assert sorted(RecordingHandler.messages()) == EXPECTED

"""The runs of a pipeline are redistributed, or replayed: after a crash, an error or a lost response at any call, the next worker
completes the work, and rows that are committed with the checkpoint exist exactly once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from chalicelib.errors import LeaseError, UnavailableError
from chalicelib.pipelines.checkpoints import Checkpoints, LayoutChangedError
from chalicelib.pipelines.configuration import PipelineFile
from chalicelib.pipelines.pipeline_state import DesiredState, PipelineStateStore
from chalicelib.pipelines.shards import Shard, shards
from chalicelib.ports import Run
from tests.faults.interception import BEFORE, FAULTS, Crash, Intercepted, StopAt
from tests.faults.test_pipelines_every_call import Both
from tests.pipelines_harness import START_MS, PipelinesHarness, line, pipeline_of

RUNS = [Run(f"svc.{name}", "r1") for name in "abcde"]
LATER = [f"{run.fqn} {number}" for run in RUNS for number in (2, 3)]
ALL = sorted([f"{run.fqn} {number}" for run in RUNS for number in range(4)])


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    Both.got, Both.number = [], 0
    yield
    Both.got = []


def file(count: int) -> PipelineFile:
    handlers = {"h": {"class": "tests.faults.test_pipelines_every_call.Both"}}
    return pipeline_of(handlers, shards=count, properties={"checkpoint_interval_ms": 1000})


def live(world: PipelinesHarness, count: int, owner: str, gate: Any = None, steps: int = 8) -> None:
    """The workers of all shards, in turns; the gate may stop any of them, and it is restarted in the next round."""
    gate = gate or StopAt(-1, BEFORE, "error")
    store, database = Intercepted(world.store, gate), Intercepted(world.database, gate)
    try:
        several = [
            world.worker(file(count), owner=f"{owner}.{shard.number}", store=store, database=database, shard=shard)
            for shard in shards(count)
        ]
        for worker in several:
            worker.start()
        for _ in range(steps):
            for worker in several:
                with suppress(UnavailableError):  # the supervisor continues
                    worker.step()
            world.clock.advance(3)
        for worker in several:
            worker.stop()
    except (Crash, UnavailableError, LeaseError):
        pass  # restarted by the next tick
    world.clock.advance(30)


def world_with_checkpoint(count: int) -> PipelinesHarness:
    """Two lines of each run are processed and committed; two more wait in ended runs that are in no index any more."""
    world = PipelinesHarness()
    for run in RUNS:
        world.write(run, [line(START_MS + number, f"{run.fqn} {number}") for number in (0, 1)])
    live(world, count, "before")
    assert len(Both.got) == 2 * len(RUNS)
    for run in RUNS:
        world.write(run, [line(START_MS + 20_000 + number, f"{run.fqn} {number}") for number in (2, 3)])
    for run in RUNS[:3]:
        world.end(run)
        row = world.runs.get(run)
        assert row is not None
        world.runs.record_finalization(run, row.lines, row.bytes, row.segments, START_MS)
        world.runs.mark_retired(run, row.segments)
    return world


def divided(gate: StopAt, before: int, after: int) -> PipelinesHarness:
    world = world_with_checkpoint(before)
    live(world, after, "w1", gate)
    return world


def replayed(gate: StopAt, count: int) -> PipelinesHarness:
    world = world_with_checkpoint(count)
    live(world, count, "again")
    assert sorted(Both.got) == ALL
    Both.got.clear()
    PipelineStateStore(world.database, world.clock).replay("test", START_MS + 20_000, 5)
    live(world, count, "w1", gate)
    return world


def calls_of(case: Any, *arguments: int) -> dict[str, int]:
    """The number of calls at which a fault of each kind is possible."""
    counts = {}
    for moment in {moment for moment, _ in FAULTS}:
        Both.got, Both.number = [], 0
        gate = StopAt(-1, moment, "error")
        case(gate, *arguments)
        counts[moment] = gate.candidates
    return counts


DIVIDE_CALLS = {counts: calls_of(divided, *counts) for counts in ((1, 2),)}
REPLAY_CALLS = {(count,): calls_of(replayed, count) for count in (2,)}


def faults(calls: dict[Any, dict[str, int]]) -> list[Any]:
    return [
        (*counts, number, *fault)
        for counts, by_moment in calls.items()
        for fault in FAULTS
        for number in range(by_moment[fault[0]])
    ]


def test_there_are_calls_to_stop_at() -> None:
    assert all(25 < calls[BEFORE] < 200 for calls in [*DIVIDE_CALLS.values(), *REPLAY_CALLS.values()])


@pytest.mark.sampled(default=30, fast=3)
@pytest.mark.parametrize(("before", "after", "number", "moment", "how"), faults(DIVIDE_CALLS))
def test_stopped_division_loses_and_doubles_no_row(before: int, after: int, number: int, moment: str, how: str) -> None:
    gate = StopAt(number, moment, how)
    world = divided(gate, before, after)
    assert gate.fired
    live(world, after, "w2", gate.successor)
    gate.land()
    live(world, after, "w3")
    assert set(Both.got) == set(ALL)
    assert sorted(row["message"] for row in world.database.rows("files")) == ALL


@pytest.mark.sampled(default=20, fast=3)
@pytest.mark.parametrize(("count", "number", "moment", "how"), faults(REPLAY_CALLS))
def test_stopped_replay_comes_to_its_end_and_doubles_no_row(count: int, number: int, moment: str, how: str) -> None:
    gate = StopAt(number, moment, how)
    world = replayed(gate, count)
    assert gate.fired
    live(world, count, "w2", gate.successor)
    gate.land()
    live(world, count, "w3")
    assert set(Both.got) == set(LATER)
    assert sorted(row["message"] for row in world.database.rows("files")) == sorted(ALL + LATER)
    assert PipelineStateStore(world.database, world.clock).read("test")[0] == DesiredState(True, None, 5)


def test_shard_does_not_begin_while_runs_are_moved() -> None:
    """The leading shard dies after its first write, which marks the move."""
    world = world_with_checkpoint(1)
    lead = Checkpoints(world.database, "test", world.clock, 100, shard=Shard(0, 2))
    lead.put_rows = killed  # type: ignore[method-assign]
    with pytest.raises(Crash):
        lead.take_over("lead")
    with pytest.raises(LayoutChangedError):
        Checkpoints(world.database, "test", world.clock, 100, shard=Shard(1, 2)).take_over("other")
    live(world, 2, "w1")
    live(world, 2, "w2")
    assert sorted(Both.got) == ALL


def killed(*_: Any, **__: Any) -> None:
    raise Crash("put_rows")

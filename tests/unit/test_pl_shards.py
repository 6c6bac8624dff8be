"""A pipeline in shards: each run belongs to one shard, regardless of its history, and the runs of an FQN stay in order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from chalicelib.coordination import Lease
from chalicelib.errors import PartitionNotOwnedError, StoreUnavailableError
from chalicelib.pipelines.checkpoints import Checkpoints, JobPart, LayoutChangedError, Replay
from chalicelib.pipelines.configuration import PipelineFile
from chalicelib.pipelines.pipeline_state import (
    DISABLED,
    REPLAYING,
    DesiredState,
    HandlerState,
    PipelineStateStore,
    replay_done,
    status_key,
)
from chalicelib.pipelines.rows import SWITCH, EventPosition, RunCheckpoint, pipeline_key, row_at
from chalicelib.pipelines.run_discovery import CatalogRunDiscovery
from chalicelib.pipelines.shards import OF_A_JOB, Shard, shard_of, shards
from chalicelib.pipelines.supervisor import Assignment, PipelineOutcome
from chalicelib.pipelines.worker import Worker
from chalicelib.ports import Put, Run
from tests.faults.interception import Crash
from tests.pipelines_harness import START_MS, PipelinesHarness, RecordingHandler, line, pipeline
from tests.unit.test_pl_supervisor import supervisor

NAMES = [f"svc.p{number}" for number in range(12)]
RUNS = [Run(name, "r1") for name in NAMES]


@pytest.fixture
def world() -> Iterator[PipelinesHarness]:
    RecordingHandler.forget()
    yield PipelinesHarness()
    RecordingHandler.forget()


def write(world: PipelinesHarness, texts: str, *, at_ms: int = 0) -> list[str]:
    """A line of each text in each run."""
    for run in RUNS:
        world.write(run, [line(world.clock.now_ms() + at_ms, f"{run.fqn} {text}") for text in texts])
    return sorted(f"{run.fqn} {text}" for run in RUNS for text in texts)


def end(world: PipelinesHarness) -> None:
    for run in RUNS:
        world.end(run)


def leave_index(world: PipelinesHarness) -> None:
    for run in RUNS:
        world.leave_index(run)


def workers(world: PipelinesHarness, count: int, file: PipelineFile | None = None, **changes: Any) -> list[Worker]:
    return [
        world.worker(file or pipeline(shards=count), owner=f"{count}.{shard.number}", shard=shard, **changes)
        for shard in shards(count)
    ]


def work(world: PipelinesHarness, several: list[Worker], steps: int = 20) -> None:
    for _ in range(steps):
        for worker in several:
            worker.step()
        world.clock.advance(1)


def live(
    world: PipelinesHarness, count: int, *, file: PipelineFile | None = None, steps: int = 20, stop: bool = True
) -> list[Worker]:
    """The life of a worker for each shard."""
    several = workers(world, count, file)
    for worker in several:
        worker.start()
    work(world, several, steps)
    for worker in several if stop else []:
        worker.stop()
    return several


def heads(world: PipelinesHarness) -> list[str]:
    return sorted(row["at"] for row in world.database.rows("pipelines") if row["at"].startswith("checkpoint"))


def test_shard_of_a_name_never_changes() -> None:
    assert [shard_of(name, 4) for name in ("svc.a", "svc.b", "Dienst.größe", "")] == [2, 3, 0, 0]
    counts = [0] * 8
    for number in range(4000):
        counts[shard_of(f"svc.p{number}", 8)] += 1
    assert 400 < min(counts) and max(counts) < 600


def test_every_name_has_exactly_one_shard() -> None:
    for count in (1, 2, 7, 64):
        assert all(sum(shard.has(name) for shard in shards(count)) == 1 for name in NAMES)


def test_shards_process_each_event_once(world: PipelinesHarness) -> None:
    expected = write(world, "ab")
    several = live(world, 3)
    assert sorted(RecordingHandler.messages()) == expected
    assert all(0 < worker.processed < len(expected) for worker in several)
    assert heads(world) == ["checkpoint", "checkpoint#shard.1", "checkpoint#shard.2"]
    expected = sorted(expected + write(world, "c"))
    end(world)
    live(world, 3)
    assert sorted(RecordingHandler.messages()) == expected


def test_shard_waits_until_the_leading_one_has_divided_the_runs(world: PipelinesHarness) -> None:
    write(world, "a")
    lead, other = workers(world, 2)
    with pytest.raises(LayoutChangedError):
        other.start()
    lead.start()
    other.start()
    work(world, [lead, other])
    assert len(RecordingHandler.messages()) == len(RUNS)


@pytest.mark.behavior("Changing the number of shards loses and repeats no event.")
@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 1), (3, 5), (5, 2)])
def test_other_number_of_shards_loses_and_doubles_nothing(world: PipelinesHarness, before: int, after: int) -> None:
    expected = write(world, "ab")
    old = live(world, before, stop=False)
    for worker in old:
        worker._checkpoint(worker.delivery.flush(at_once=True))
    assert sorted(RecordingHandler.messages()) == expected
    new = workers(world, after)
    for worker in new:
        worker.start()
    world.clock.advance(60)
    for worker in old:  # they still run, and can commit nothing
        with pytest.raises(PartitionNotOwnedError):
            worker.checkpoints.commit({RUNS[0]: RunCheckpoint(EventPosition(99, 999, 1))})
    expected = sorted(expected + write(world, "c"))
    work(world, new)
    for worker in new:
        worker.stop()
    assert sorted(RecordingHandler.messages()) == expected
    assert len(heads(world)) == after


def listing(world: PipelinesHarness, several: int, turns: int) -> None:
    """The life of the first workers of a distribution; they list the entire catalog if they have to."""
    discovery = CatalogRunDiscovery(world.runs, lambda _: (NAMES, None), pipeline().source, world.clock)
    begun = workers(world, several, discovery=discovery)[:turns]
    for worker in begun:
        worker.start()
    work(world, begun)
    for worker in begun:
        worker.stop()


@pytest.mark.parametrize("after", [1, 3])
@pytest.mark.parametrize("before", [2, 1], ids=["its head is hours old", "it never had a head"])
def test_runs_that_ended_while_a_shard_was_away_are_found_by_the_next_division(
    world: PipelinesHarness, before: int, after: int
) -> None:
    """The leading shard has just discovered runs, and only its own were processed."""
    listing(world, before, before)
    world.clock.advance(4 * 3600)
    expected = write(world, "ab")
    end(world)
    leave_index(world)
    world.clock.advance(3600)
    listing(world, 2, 1)
    assert 0 < len(RecordingHandler.messages()) < len(expected)
    world.clock.advance(60)
    listing(world, after, after)
    assert sorted(RecordingHandler.messages()) == expected


def killed_by_now(*_: Any) -> None:
    raise Crash("killed")


@pytest.mark.parametrize("after", [1, 3])
def test_division_that_broke_off_looks_as_far_back_as_the_first_try(
    world: PipelinesHarness, after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The heads that it has moved already are gone, and so are their times."""
    lead, other = (Checkpoints(world.database, "p", world.clock, 100, shard=shard) for shard in shards(2))
    for each, looked_ms in ((lead, 9000), (other, 1000)):
        each.take_over("w")
        each.commit({}, looked_ms=looked_ms)
    killed = Checkpoints(world.database, "p", world.clock, 100, shard=Shard(0, after))
    monkeypatch.setattr(killed, "_store", killed_by_now)
    with pytest.raises(Crash):
        killed.take_over("killed")
    assert heads(world) == ["checkpoint"]
    again = Checkpoints(world.database, "p", world.clock, 100, shard=Shard(0, after))
    again.take_over("again")
    assert again.looked_ms <= 1000


def test_late_division_removes_no_head_of_the_next_one(world: PipelinesHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """A leading worker stalls between the rows of another head and its removal. Meanwhile the runs are redistributed, and the
    shard has a new head with the same key."""

    def divided() -> Checkpoints:
        lead, other = (Checkpoints(world.database, "p", world.clock, 100, shard=shard) for shard in shards(2))
        lead.take_over("lead")
        other.take_over("other")
        return other

    divided().commit({RUNS[0]: RunCheckpoint(EventPosition(1, 10, 1))})
    late = Checkpoints(world.database, "p", world.clock, 100, shard=Shard(0, 3))
    put_rows, since = late.put_rows, []

    def overtaken(positions: Mapping[Run, RunCheckpoint], **options: Any) -> None:
        put_rows(positions, **options)
        if positions:
            since.append(divided())
            since[0].commit({RUNS[1]: RunCheckpoint(EventPosition(2, 20, 1))})

    monkeypatch.setattr(late, "put_rows", overtaken)
    with pytest.raises(PartitionNotOwnedError):
        late.take_over("late")
    since[0].commit({RUNS[2]: RunCheckpoint(EventPosition(3, 30, 1))})
    assert set(since[0].active()) == {RUNS[1], RUNS[2]}


def test_name_of_a_late_worker_of_the_old_division_commits_nothing(world: PipelinesHarness) -> None:
    first = Checkpoints(world.database, "p", world.clock, 100, shard=Shard(0, 2))
    first.take_over("lead")
    old = Checkpoints(world.database, "p", world.clock, 100, shard=Shard(1, 2))
    old.take_over("old")
    old.commit({RUNS[0]: RunCheckpoint(EventPosition(1, 10, 1))})
    Checkpoints(world.database, "p", world.clock, 100, shard=Shard(0, 3)).take_over("lead")
    for attempt in (
        lambda: old.commit({RUNS[0]: RunCheckpoint(EventPosition(2, 20, 1))}),
        lambda: old.put_rows({RUNS[0]: RunCheckpoint(EventPosition(2, 20, 1))}),
        lambda: old.release([RUNS[0]]),
        lambda: old.take_over("old again"),
    ):
        with pytest.raises(LayoutChangedError):
            attempt()
    assert first.find([RUNS[0]]) == {RUNS[0]: RunCheckpoint(EventPosition(1, 10, 1))}


def test_shard_commits_nothing_once_a_division_has_begun(world: PipelinesHarness) -> None:
    """A commit after its checkpoints were read, and before its head is removed, would be lost with the head."""
    Checkpoints(world.database, "p", world.clock, 100, shard=Shard(0, 2)).take_over("lead")
    old = Checkpoints(world.database, "p", world.clock, 100, shard=Shard(1, 2))
    old.take_over("old")
    old.commit({RUNS[0]: RunCheckpoint(EventPosition(1, 10, 1))})
    lead = Checkpoints(world.database, "p", world.clock, 100, shard=Shard(0, 3))
    put_rows, refused = lead.put_rows, []

    def interrupted(*arguments: Any, **options: Any) -> None:
        put_rows(*arguments, **options)
        with pytest.raises(LayoutChangedError) as error:
            old.commit({RUNS[0]: RunCheckpoint(EventPosition(2, 20, 1))})
        refused.append(error)

    lead.put_rows = interrupted  # type: ignore[method-assign]
    lead.take_over("lead")
    assert len(refused) == 2  # after the rows of the leading head and of the second one
    assert lead.find([RUNS[0]]) == {RUNS[0]: RunCheckpoint(EventPosition(1, 10, 1))}


def test_job_takes_the_runs_of_all_shards_and_gives_them_back(world: PipelinesHarness) -> None:
    expected = write(world, "ab")
    old = live(world, 3)
    job = Checkpoints(world.database, "test", world.clock, 100, shard=OF_A_JOB)
    job.take_over("job")
    assert heads(world) == ["checkpoint"] and job.active() == {}
    assert {row.run for row in job.released() if row.unfinished} == set(RUNS)
    for worker in old[1:]:
        with pytest.raises(LayoutChangedError):
            worker.checkpoints.take_over("again")
    end(world)
    world.clock.advance(3600)
    live(world, 3)
    assert sorted(RecordingHandler.messages()) == expected


def test_job_after_a_killed_job_begins_where_its_tasks_committed(world: PipelinesHarness) -> None:
    killed = Checkpoints(world.database, "test", world.clock, 100, shard=OF_A_JOB)
    killed.take_over("job 1")
    task = Checkpoints(world.database, "test", world.clock, 100, JobPart("1.0", killed.epoch))
    task.take_over("task")
    position = RunCheckpoint(EventPosition(7, 70, START_MS), "plain")
    task.commit({RUNS[0]: position})
    job = Checkpoints(world.database, "test", world.clock, 100, shard=OF_A_JOB)
    job.take_over("job 2")
    assert heads(world) == ["checkpoint"] and job.find(RUNS) == {RUNS[0]: position}
    with pytest.raises(PartitionNotOwnedError):
        task.commit({RUNS[1]: position})


@pytest.mark.slow
def test_more_live_runs_than_one_worker_has_room_for_are_in_time_in_shards(world: PipelinesHarness) -> None:
    runs = [Run(f"svc.q{number}", "r1") for number in range(240)]
    for run in runs:
        world.write(run, [line(world.clock.now_ms(), run.fqn)])
    several = workers(world, 4, max_runs=100)
    for worker in several:
        worker.start()
    work(world, several, 4)
    assert sorted(RecordingHandler.messages()) == sorted(run.fqn for run in runs)
    assert sum(worker.buffer.late for worker in several) == 0


def test_replay_is_of_all_shards(world: PipelinesHarness) -> None:
    expected = write(world, "ab")
    end(world)
    live(world, 3)
    RecordingHandler.forget()
    PipelineStateStore(world.database, world.clock).replay("test", START_MS - 1, 5)
    live(world, 3, steps=30)
    assert sorted(RecordingHandler.messages()) == expected
    assert PipelineStateStore(world.database, world.clock).read("test")[0] == DesiredState(True, None, 5)


def test_replay_waits_for_the_leading_shard(world: PipelinesHarness) -> None:
    """The leading shard marks the runs of all shards: one that starts before it does not begin the replay."""
    write(world, "ab")
    end(world)
    live(world, 3)
    switches = PipelineStateStore(world.database, world.clock)
    switches.replay("test", START_MS - 1, 5)
    asked, _ = switches.read("test")
    _, *others = workers(world, 3)
    for worker in others:
        worker.start()
    work(world, others, 30)
    assert switches.read("test")[0] == asked and asked.replay_ms is not None
    assert not any(worker.wants_restart for worker in others)


def test_enabled_handler_gets_what_it_missed_from_every_shard(world: PipelinesHarness) -> None:
    file = pipeline(to=("a", "b"), shards=3)
    switches = PipelineStateStore(world.database, world.clock)
    switches.set_handler("test", HandlerState("a", DISABLED, "by an operator", 1))
    expected = write(world, "ab")
    end(world)
    live(world, 3, file=file)
    assert sorted(RecordingHandler.messages("b")) == expected and RecordingHandler.messages("a") == []
    switches.set_handler("test", HandlerState("a", REPLAYING, "", world.clock.now_ms()))
    lead, *others = workers(world, 3, file)
    lead.start()
    work(world, [lead], 30)
    assert switches.read("test")[1]["a"].state == REPLAYING, "the other shards have not had their turn"
    for worker in others:
        worker.start()
    work(world, [lead, *others], 30)
    assert sorted(RecordingHandler.messages("a")) == sorted(RecordingHandler.messages("b")) == expected
    for worker in (lead, *others):
        worker.stop()
    assert switches.read("test")[1] == {}
    live(world, 3, file=file)
    assert sorted(RecordingHandler.messages("a")) == expected


def test_replay_that_is_asked_for_while_another_begins_is_not_done_with_it(world: PipelinesHarness) -> None:
    """From the same time: events in between have to be processed again too."""
    key, asked = pipeline_key("p", SWITCH), DesiredState(True, START_MS, 2)
    world.database.put_many([Put(key, row_at(key, enabled=True, replay_ms=START_MS, asked_ms=2))])
    begun = Replay(START_MS, replay_done("p", DesiredState(True, START_MS, 1)))
    with pytest.raises(StoreUnavailableError):
        Checkpoints(world.database, "p", world.clock, 100).take_over("w", begun)
    assert PipelineStateStore(world.database, world.clock).read("p")[0] == asked


@pytest.mark.parametrize("meanwhile", [HandlerState("a", REPLAYING, "", 2), HandlerState("a", DISABLED, "", 1)])
def test_handler_that_was_switched_meanwhile_keeps_its_switch(world: PipelinesHarness, meanwhile: HandlerState) -> None:
    """Disabled and enabled again, it lacks events that no shard has delivered yet."""
    switches = PipelineStateStore(world.database, world.clock)
    switches.set_handler("p", meanwhile)
    assert not switches.clear_handler("p", HandlerState("a", REPLAYING, "", 1))
    assert switches.read("p")[1] == {"a": meanwhile}
    assert switches.clear_handler("p", meanwhile) and switches.read("p")[1] == {}


@pytest.mark.parametrize(
    ("told_ms", "last_errors", "expected"),
    [
        ((50, 60), ("of 0", "of 1"), "of 1"),
        ((60, 50), ("of 0", "of 1"), "of 0"),
        ((50, 60), ("of 0", ""), "of 0"),
        ((50, 60), ("", ""), ""),
    ],
)
def test_combined_report_is_as_bad_as_the_worst_shard(
    world: PipelinesHarness, told_ms: tuple[int, int], last_errors: tuple[str, str], expected: str
) -> None:
    reports = (
        {"lag_events": 10, "runs": 1, "processed": 3, "late": 5, "dropped": 7, "dead": 9}
        | {"looked_ms": 900, "lag_ms": 7000, "errors": {"a": 1, "b": 2}},
        {"lag_events": 200, "runs": 20, "processed": 40, "late": 60, "dropped": 80, "dead": 100}
        | {"looked_ms": 800, "lag_ms": 6000, "errors": {"b": 3}},
    )
    for shard, report in zip(shards(2), reports, strict=True):
        key = status_key("p", shard)
        told = {"told_ms": told_ms[shard.number], "last_error": last_errors[shard.number]}
        world.database.put_many([Put(key, row_at(key, **report, **told))])
    combined = PipelineStateStore(world.database, world.clock).status(["p"], {"p": 2})["p"]
    assert {name: value for name, value in combined.items() if name not in ("key", "at")} == {
        "lag_events": 210,
        "runs": 21,
        "processed": 43,
        "late": 65,
        "dropped": 87,
        "dead": 109,
        "told_ms": 50,
        "looked_ms": 800,
        "lag_ms": 7000,
        "errors": {"a": 1, "b": 5},
        "last_error": expected,
    }


def test_reports_of_all_shards_are_one(world: PipelinesHarness) -> None:
    write(world, "ab")
    several = live(world, 3)
    switches = PipelineStateStore(world.database, world.clock)
    told = switches.status(["test"], {"test": 3})["test"]
    assert told["processed"] == 2 * len(RUNS) == sum(worker.processed for worker in several)
    assert told["runs"] == len(RUNS)
    assert switches.status(["test"])["test"]["processed"] == several[0].processed


def test_shards_have_leases_of_their_own(world: PipelinesHarness) -> None:
    expected = write(world, "ab")
    end(world)
    watching = supervisor(world)
    assert watching.run([pipeline(shards=3)], world.deadline(600)) == {
        "test": PipelineOutcome.STOPPED,
        "test#1": PipelineOutcome.STOPPED,
        "test#2": PipelineOutcome.STOPPED,
    }
    assert sorted(RecordingHandler.messages()) == expected


@pytest.mark.slow
def test_shard_without_a_leading_one_is_busy(world: PipelinesHarness) -> None:
    write(world, "a")
    watching = supervisor(world)
    assert watching.run([Assignment(pipeline(shards=2), Shard(1, 2))], world.deadline(600)) == {"test#1": PipelineOutcome.BUSY}
    assert RecordingHandler.messages() == []


def test_unsharded_pipeline_and_leading_shard_share_a_lease(world: PipelinesHarness) -> None:
    watching = supervisor(world)
    watching.coordinator.initialize()
    assert isinstance(watching.coordinator.acquire(Assignment(pipeline()).name), Lease)
    assert not isinstance(watching.coordinator.acquire(Assignment(pipeline(shards=2), Shard(0, 2)).name), Lease)

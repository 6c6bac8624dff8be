"""The worker of a pipeline: read, order, deliver, flush, checkpoint."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any
from unittest.mock import Mock

import pytest

from chalicelib.errors import DamagedLogError, StoreUnavailableError
from chalicelib.pipelines import active_runs
from chalicelib.pipelines.configuration import PipelineFile
from chalicelib.pipelines.heads import head_bytes
from chalicelib.pipelines.pipeline_state import DISABLED, REPLAYING, HandlerState, PipelineStateStore
from chalicelib.pipelines.rows import EventPosition, RunCheckpoint
from chalicelib.pipelines.worker import Worker
from chalicelib.ports import Run
from chalicelib.runlog.reader import LogRange, Reader
from tests.pipelines_harness import START_MS, PipelinesHarness, RecordingHandler, line, pipeline

A, B = Run("svc.a", "r1"), Run("svc.b", "r1")


@pytest.fixture
def world() -> Iterator[PipelinesHarness]:
    RecordingHandler.forget()
    yield PipelinesHarness()
    RecordingHandler.forget()


def test_a_finalized_run_is_processed_without_delay(world: PipelinesHarness) -> None:
    world.write(A, [line(START_MS, "one"), line(START_MS + 1, "two")])
    world.end(A)
    worker = world.worker(pipeline())
    worker.start()
    worker.step()
    assert RecordingHandler.messages() == ["one", "two"]


def test_a_live_run_is_held_for_the_delay_and_comes_sorted(world: PipelinesHarness) -> None:
    worker = world.worker(pipeline())
    worker.start()
    world.write(A, [line(START_MS + 10, "second")])
    world.write(B, [line(START_MS + 5, "first"), line(START_MS + 20, "third")])
    worker.step()
    assert RecordingHandler.messages() == []
    world.clock.advance(3)
    world.work(worker)
    assert RecordingHandler.messages() == ["first", "second", "third"]


def test_it_goes_on_where_it_was(world: PipelinesHarness) -> None:
    world.write(A, [line(START_MS, "one")])
    worker = world.worker(pipeline())
    worker.start()
    world.clock.advance(5)
    world.work(worker)
    worker.stop()
    world.write(A, [line(START_MS + 100, "two")])
    world.end(A)
    again = world.worker(pipeline(), owner="w2")
    again.start()
    world.work(again)
    again.stop()
    assert RecordingHandler.messages() == ["one", "two"]
    assert [row["at"] for row in world.database.rows("pipelines")] == ["checkpoint", "status", "svc.a/r1"]
    once_more = world.worker(pipeline(), owner="w3")
    once_more.start()
    world.work(once_more)
    assert RecordingHandler.messages() == ["one", "two"]


def test_a_checkpoint_is_stored_at_each_interval(world: PipelinesHarness) -> None:
    worker = world.worker(pipeline(properties={"checkpoint_interval_ms": 5000}))
    worker.start()
    before, seconds = None, list[int]()
    for second in range(30):
        world.write(A, [line(START_MS + 1000 * second, f"{second}")])
        world.clock.advance(1)
        worker.step()
        stored = worker.checkpoints.active().get(A)
        seconds += [second] * (stored != before)
        before = stored
    assert len(seconds) > 4 and {later - earlier for earlier, later in pairwise(seconds)} == {5}


@pytest.mark.parametrize("was_read", [False, True])
def test_a_run_whose_log_is_gone_is_let_go_and_not_asked_for_again(world: PipelinesHarness, was_read: bool) -> None:
    """The catalog still lists it, for rows expire up to two days after objects."""
    world.write(A, [line(START_MS, "one")])
    world.write(B, [line(START_MS + 1, "two")])
    worker = world.worker(pipeline())
    worker.start()
    if was_read:
        world.clock.advance(3)
        world.work(worker)
        world.write(A, [line(START_MS + 2, "three")])
    for name in world.names(A):
        world.store.delete(f"{world.layout.run_prefix(A)}{name}")
    world.clock.advance(120)
    world.work(worker)
    assert worker.is_idle and set(worker.active_runs.runs) == {B}
    before = world.store.calls.total()
    for _ in range(20):
        world.clock.advance(60)
        worker.step()
    assert world.store.calls.total() == before and RecordingHandler.messages() == (["one", "two"] if was_read else ["two"])


class Counted:
    """Logs that count the pieces that are read of each run; some of them are damaged from some time on."""

    def __init__(self, logs: Reader) -> None:
        self._logs, self.pieces, self.damaged = logs, Counter[Run](), set[Run]()

    def read_range(self, run: Run, start: int, length: int) -> LogRange:
        self.pieces[run] += 1
        if run in self.damaged:
            raise DamagedLogError("damaged")
        return self._logs.read_range(run, start, length)


def test_event_that_may_go_on_is_not_read_again_and_again(world: PipelinesHarness) -> None:
    """The last event of a running run is incomplete: it is read again after a pause."""
    world.write(A, [line(START_MS, "one"), line(START_MS + 1, "two")])
    logs = Counted(world.parts().reader)
    worker = world.worker(pipeline(), logs=logs)
    worker.start()
    for _ in range(3):
        worker.step()
    pieces = logs.pieces[A]
    for _ in range(50):
        worker.step()
    assert logs.pieces[A] == pieces
    for _ in range(4):
        world.clock.advance(3)
        worker.step()
    assert RecordingHandler.messages() == ["one", "two"]


def test_damaged_runs_keep_their_room_in_the_head(world: PipelinesHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their checkpoints stay there, so only as many further runs become active as fit."""
    runs = [Run(f"svc.p{number}", "r" * 300) for number in range(8)]
    monkeypatch.setattr(active_runs, "MAX_HEAD_BYTES", 3 * head_bytes(runs[0], ["all"]))
    logs = Counted(world.parts().reader)
    worker = world.worker(pipeline(), logs=logs)
    worker.start()

    def commit(moved: Mapping[Run, RunCheckpoint], *rest: Any, **options: Any) -> None:
        assert len({*worker.checkpoints.active(), *moved}) <= 3
        stored(moved, *rest, **options)

    def work(steps: int = 4) -> None:
        for _ in range(steps):
            worker.step()
            world.clock.advance(6)

    stored = worker.checkpoints.commit
    monkeypatch.setattr(worker.checkpoints, "commit", commit)

    for run in runs[:2]:
        world.write(run, [line(START_MS, f"{run.fqn} one")])
    work()
    assert set(worker.checkpoints.active()) == set(runs[:2])
    logs.damaged = set(runs[:2])
    for run in runs:
        world.write(run, [line(world.clock.now_ms(), f"{run.fqn} two")])
    for run in runs[2:]:
        world.end(run)
    work(40)
    assert set(worker.active_runs.skipped) == set(runs[:2]) <= set(worker.checkpoints.active())
    assert sorted(RecordingHandler.messages()) == [*(f"{run.fqn} one" for run in runs[:2]), *(f"{run.fqn} two" for run in runs[2:])]


def many(world: PipelinesHarness, count: int, *, ended: bool) -> list[str]:
    for number in range(count):
        run = Run(f"svc.p{number}", "r1")
        world.write(run, [line(START_MS + number, f"line {number}")])
        if ended:
            world.end(run)
    return [f"line {number}" for number in range(count)]


@pytest.mark.parametrize("ended", [True, False])
def test_more_runs_than_there_is_room_for_take_turns(world: PipelinesHarness, ended: bool) -> None:
    texts = many(world, 10, ended=ended)
    worker = world.worker(pipeline(), max_runs=3)
    worker.start()
    for _ in range(60):
        worker.step()
        assert len(worker.active_runs) <= 3
        assert len(worker.checkpoints.active()) <= 3
        world.clock.advance(4)
    worker.stop()
    assert sorted(RecordingHandler.messages()) == sorted(texts)


def test_live_runs_take_turns_when_the_head_is_full(world: PipelinesHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = many(world, 10, ended=False)
    monkeypatch.setattr(active_runs, "MAX_HEAD_BYTES", 3 * head_bytes(Run("svc.p0", "r1"), ["all"]))
    worker = world.worker(pipeline())
    worker.start()
    for _ in range(60):
        worker.step()
        assert len(worker.active_runs) <= 3
        world.clock.advance(4)
    worker.stop()
    assert sorted(RecordingHandler.messages()) == sorted(texts)


@pytest.mark.parametrize(
    ("include", "expected"), [(["finalized"], ["ended"]), (["live"], ["goes on"]), (["finalized", "live"], ["ended", "goes on"])]
)
def test_a_source_is_what_goes_on_or_has_ended(world: PipelinesHarness, include: list[str], expected: list[str]) -> None:
    world.write(A, [line(START_MS, "ended")])
    world.end(A)
    world.write(B, [line(START_MS + 1, "goes on")])
    worker = world.worker(pipeline(source={"include": include}))
    worker.start()
    world.clock.advance(5)
    world.work(worker)
    assert RecordingHandler.messages() == expected


def test_what_was_live_is_worked_to_its_end(world: PipelinesHarness) -> None:
    worker = world.worker(pipeline(source={"include": ["live"]}))
    worker.start()
    world.write(A, [line(START_MS, "begins")])
    world.clock.advance(5)
    world.work(worker)
    world.write(A, [line(START_MS + 1, "ends")])
    world.end(A)
    world.clock.advance(10)
    world.work(worker)
    assert RecordingHandler.messages() == ["begins", "ends"]


def test_names_choose_runs(world: PipelinesHarness) -> None:
    world.write(A, [line(START_MS, "a")])
    world.write(B, [line(START_MS + 1, "b")])
    world.end(A)
    world.end(B)
    worker = world.worker(pipeline(source={"what": ["*.b", "other"]}))
    worker.start()
    world.work(worker)
    assert RecordingHandler.messages() == ["b"]


def test_events_of_deleted_pipelines_are_dropped_and_counted(world: PipelinesHarness) -> None:
    world.write(A, [line(START_MS, "a"), line(START_MS, "a")])
    world.write(B, [line(START_MS + 1, "b")])
    world.end(A)
    world.end(B)
    worker = world.worker(pipeline(), generation=lambda run: None if run == A else "g1")
    worker.start()
    world.work(worker)
    worker.stop()
    [record] = RecordingHandler.records["all"]
    assert (record.getMessage(), record.runlake_generation) == ("b", "g1")  # type: ignore[attr-defined]
    assert worker.status(0)["dropped"] == 2


def test_a_record_says_where_it_is_from(world: PipelinesHarness) -> None:
    run = Run('svc."a.b".load.daily', "r1")
    world.write(run, [line(START_MS + 5, "hello %s", "WARNING", "app.db")])
    world.end(run)
    worker = world.worker(pipeline())
    worker.start()
    world.work(worker)
    [record] = RecordingHandler.records["all"]
    assert (record.name, record.levelname, record.levelno, record.getMessage()) == ("app.db", "WARNING", 30, "hello %s")
    told = record.__dict__
    assert (told["runlake_namespace"], told["runlake_app"], told["runlake_program"]) == ("svc", "a.b", "load.daily")
    assert (told["runlake_fqn"], told["runlake_run_id"], told["runlake_line"], told["runlake_time_ms"]) == (
        *_names(run),
        0,
        START_MS + 5,
    )
    assert (record.created, record.msecs) == ((START_MS + 5) / 1000, 5.0)


def _names(run: Run) -> tuple[str, str]:
    return run.fqn, run.run_id


def test_the_buffer_is_bounded_however_much_comes(world: PipelinesHarness) -> None:
    lines = [line(START_MS + number, f"line {number}") for number in range(2000)]
    world.write(A, lines)
    worker = world.worker(pipeline(properties={"buffer_bytes": 100_000, "fetch_bytes": 4096, "event_delay_ms": 3_600_000}))
    worker.start()
    most = 0
    for _ in range(200):
        worker.step()
        most = max(most, worker.buffer.bytes)
    assert most <= 100_000 + 4096 * 50
    assert len(RecordingHandler.messages()) > 1000
    assert RecordingHandler.messages() == [f"line {number}" for number in range(len(RecordingHandler.messages()))]


def test_replay_gives_a_handler_that_was_behind_all_that_it_missed(world: PipelinesHarness) -> None:
    """It was disabled at the second line; the replay starts later."""
    file, switches = pipeline(to=("a", "b")), PipelineStateStore(world.database, world.clock)
    world.write(A, [line(START_MS, "one")])
    live(world, file)
    switches.set_handler("test", HandlerState("a", DISABLED, "by an operator", 1))
    world.write(A, [line(START_MS + 1, "two"), line(START_MS + 9000, "three")])
    world.end(A)
    live(world, file)
    assert (RecordingHandler.messages("a"), RecordingHandler.messages("b")) == (["one"], ["one", "two", "three"])
    switches.set_handler("test", HandlerState("a", REPLAYING, "", 2))
    switches.replay("test", START_MS + 5000, 3)
    live(world, file)
    assert RecordingHandler.messages("a") == ["one", "two", "three"]
    assert RecordingHandler.messages("b") == ["one", "two", "three", "two", "three"]


@pytest.mark.parametrize("steps", range(1, 5))
def test_enabled_handler_gets_what_it_missed_of_more_runs_than_there_is_room_for(world: PipelinesHarness, steps: int) -> None:
    """A worker ends while most of these runs still wait in memory: the handler's state has to stay."""
    file, switches = pipeline(to=("a", "b")), PipelineStateStore(world.database, world.clock)
    switches.set_handler(file.name, HandlerState("a", DISABLED, "by an operator", 1))
    expected = many(world, 8, ended=True)
    runs = [Run(f"svc.p{number}", "r1") for number in range(8)]
    first = world.worker(file, owner="w1")
    first.start()
    world.work(first)
    first.stop()
    assert sorted(RecordingHandler.messages("b")) == expected and RecordingHandler.messages("a") == []
    for run in runs:
        world.leave_index(run)
    switches.set_handler(file.name, HandlerState("a", REPLAYING, "", world.clock.now_ms()))
    second = world.worker(file, owner="w2", max_runs=1)
    second.start()
    for _ in range(steps):
        second.step()
        world.clock.advance(1)
    second.stop()
    assert 0 < len(RecordingHandler.messages("a")) < len(expected)
    third = world.worker(file, owner="w3", max_runs=1)
    third.start()
    world.work(third)
    third.stop()
    assert sorted(RecordingHandler.messages("a")) == sorted(RecordingHandler.messages("b")) == expected
    assert switches.read(file.name)[1] == {}


@pytest.mark.parametrize("meanwhile", [HandlerState("a", DISABLED, "by an operator", 3), HandlerState("a", REPLAYING, "", 3)])
def test_switch_that_an_operator_changes_while_a_handler_catches_up_stays(world: PipelinesHarness, meanwhile: HandlerState) -> None:
    worker, switches = catching_up(world)
    switches.set_handler("test", meanwhile)
    world.work(worker)
    worker.stop()
    assert RecordingHandler.messages("a") == ["one"]
    assert switches.read("test")[1] == {"a": meanwhile}


@pytest.mark.parametrize("is_away", [False, True])
def test_handler_that_is_disabled_when_it_has_caught_up_stays_disabled(
    world: PipelinesHarness, is_away: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the table is unavailable at the moment at which its state is to be cleared."""
    worker, switches = catching_up(world)
    if is_away:
        with monkeypatch.context() as patched:
            patched.setattr(PipelineStateStore, "clear_handler", Mock(side_effect=StoreUnavailableError("away")))
            world.work(worker)
            world.clock.advance(10)
            worker.step()
            assert worker.committer.caught_up == {"a": 2}
    while worker.delivery.receiving["a"]:
        worker.delivery.count_error("a", OSError("down"))
    world.work(worker)
    worker.stop()
    assert switches.read("test")[1]["a"].state == DISABLED


def catching_up(world: PipelinesHarness) -> tuple[Worker, PipelineStateStore]:
    """A worker that begins to deliver the one event that a handler missed while it was disabled."""
    file, switches = pipeline(to=("a", "b")), PipelineStateStore(world.database, world.clock)
    switches.set_handler("test", HandlerState("a", DISABLED, "by an operator", 1))
    world.write(A, [line(START_MS, "one")])
    world.end(A)
    live(world, file)
    assert (RecordingHandler.messages("a"), RecordingHandler.messages("b")) == ([], ["one"])
    switches.set_handler("test", HandlerState("a", REPLAYING, "", 2))
    worker = world.worker(file)
    worker.start()
    return worker, switches


def live(world: PipelinesHarness, file: PipelineFile) -> None:
    """The life of a worker, ten seconds later."""
    world.clock.advance(10)
    worker = world.worker(file)
    worker.start()
    world.work(worker)
    worker.stop()


@pytest.mark.parametrize(("first_ms", "second_ms"), [(1, 2), (2, 1)])
def test_second_replay_does_not_cut_the_first_one_short(first_ms: int, second_ms: int) -> None:
    done = RunCheckpoint(EventPosition(10, 100, 3))
    again = done.replayed(first_ms).advanced(EventPosition(4, 40, 1), {"a": True})
    assert again.is_replaying
    assert again.replayed(second_ms) == RunCheckpoint(EventPosition(), replay_line=10, replay_ms=1)
    assert not done.is_replaying
    assert not done.replayed(first_ms).advanced(EventPosition(10, 100, 3), {"a": True}).is_replaying


def test_replay_that_is_over_does_not_reach_back_into_the_next() -> None:
    over = RunCheckpoint(EventPosition(20, 200, 9), replay_line=10, replay_ms=1)
    assert over.replayed(7) == RunCheckpoint(EventPosition(), replay_line=20, replay_ms=7)

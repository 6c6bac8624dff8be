"""Checkpoints: one transaction, fenced, found out when an answer was lost."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from chalicelib.errors import DamagedPartitionError, OutcomeUnknownError, PartitionNotOwnedError, StoreUnavailableError
from chalicelib.memory.clock import ManualClock
from chalicelib.memory.database import InMemoryDatabase
from chalicelib.pipelines.checkpoints import MAX_RUNS, Checkpoints, RowsRefusedError
from chalicelib.pipelines.configuration import parsed
from chalicelib.pipelines.ports import HandlerContext
from chalicelib.pipelines.rows import Place, Position, packed_positions, unpacked_positions
from chalicelib.ports import ABSENT_ROW, Key, Put, Run, Write
from tests.piping import START_MS, Piping, line

A, B = Run("svc.a", "r1"), Run("svc.b", "r2")
PLACES = st.builds(Place, st.integers(0, 1 << 40), st.integers(0, 1 << 50), st.integers(0, 1 << 45))
POSITIONS = st.builds(
    Position,
    PLACES,
    st.sampled_from(["", "plain"]),
    st.dictionaries(st.sampled_from("ab"), PLACES),
    st.integers(0, 9),
    st.integers(0, 9),
)


def at(line: int) -> Position:
    return Position(Place(line, line * 10, START_MS + line))


class Cases:
    def __init__(self) -> None:
        self.database, self.clock = InMemoryDatabase(), ManualClock(START_MS)

    def checkpoints(self, owner: str) -> Checkpoints:
        found = Checkpoints(self.database, "p", self.clock, 1000)
        found.take_over(owner)
        return found


@given(st.dictionaries(st.builds(Run, st.text(min_size=1), st.text(min_size=1)), POSITIONS))
def test_positions_are_stored_as_they_are(positions: dict[Run, Position]) -> None:
    assert unpacked_positions(packed_positions(positions)) == positions


def test_what_cannot_be_read_is_told() -> None:
    for text in ("", "?", packed_positions({A: at(1)})[:-3]):
        with pytest.raises(DamagedPartitionError):
            unpacked_positions(text)


def test_a_thousand_runs_in_hand_fit_into_a_row() -> None:
    from uuid import UUID

    positions = {
        Run(
            f"service_{number % 7}.pipeline_of_some_length_{number}",
            str(UUID(int=number * 0x9E3779B97F4A7C15F39CC0605CEDC834 % 2**128)),
        ): at(number * 7919)
        for number in range(MAX_RUNS)
    }
    assert len(packed_positions(positions)) < 200_000


def test_who_took_over_last_commits_and_nobody_else() -> None:
    cases = Cases()
    first = cases.checkpoints("w1")
    first.commit({A: at(1)})
    second = cases.checkpoints("w2")
    row = Put(Key("files", "f"), {"key": "f"})
    with pytest.raises(PartitionNotOwnedError):
        first.commit({A: at(9)}, [row])
    with pytest.raises(PartitionNotOwnedError):
        first.put_rows({A: at(9)})
    with pytest.raises(PartitionNotOwnedError):
        first.release([A])
    with pytest.raises(PartitionNotOwnedError):
        first.check()
    assert cases.database.rows("files") == []
    assert second.find([A]) == {A: at(1)}
    second.commit({A: at(2)})


def test_a_workers_rows_and_its_checkpoint_are_one_transaction() -> None:
    cases = Cases()
    mine = cases.checkpoints("w1")
    taken = Put(Key("files", "f"), {"key": "f"}, ABSENT_ROW)
    mine.commit({A: at(1)}, [taken])
    with pytest.raises(RowsRefusedError):
        mine.commit({A: at(2)}, [taken])
    assert mine.find([A]) == {A: at(1)}
    assert cases.checkpoints("w2").find([A]) == {A: at(1)}


@pytest.mark.parametrize("applied", [False, True])
def test_a_commit_whose_answer_was_lost_is_found_out(applied: bool) -> None:
    cases = Cases()
    mine = cases.checkpoints("w1")
    transact = cases.database.transact

    def lost(writes: Sequence[Write]) -> None:
        if applied:
            transact(writes)
        raise OutcomeUnknownError("no answer")

    cases.database.transact = lost  # type: ignore[method-assign]
    with pytest.raises(OutcomeUnknownError):
        mine.commit({A: at(1)})
    cases.database.transact = transact  # type: ignore[method-assign]
    assert mine.in_doubt
    assert mine.settle() is applied
    assert not mine.in_doubt
    assert mine.find([A]) == ({A: at(1)} if applied else {})
    mine.commit({A: at(2)})
    assert cases.checkpoints("w2").find([A]) == {A: at(2)}


def test_runs_that_are_let_go_are_found_again() -> None:
    cases = Cases()
    mine = cases.checkpoints("w1")
    runs = {Run("svc.many", f"r{number:04d}"): at(number) for number in range(250)}
    mine.commit(runs)
    before = cases.database.calls["transact"]
    mine.release(list(runs))
    assert cases.database.calls["transact"] - before == 4  # 98 rows each, and the head
    assert mine.in_hand() == {}
    assert mine.find(list(runs)) == runs
    assert dict(mine.let_go()) == runs
    assert {row["expires_at"] for row in cases.database.rows("pipelines") if row["at"] != "checkpoint"} == {START_MS // 1000 + 1000}


@given(st.lists(st.tuples(st.integers(0, 50), st.frozensets(st.sampled_from("ab"))), max_size=12))
def test_no_handler_is_ever_ahead_of_what_it_got(steps: list[tuple[int, frozenset[str]]]) -> None:
    """A model: who gets events gets all from its own place on. Whoever is behind is read again from there."""
    position, had = Position(), {"a": 0, "b": 0}
    for number, (length, gets) in enumerate(steps):
        handlers = {name: name in gets for name in "ab"}
        start = position.start(handlers)
        end = start.line + length
        for name in gets:
            assert position.line_of(name) <= had[name]  # nothing is left out
            had[name] = max(had[name], end)
        position = position.moved(Place(end, end, number), handlers)
        for name in "ab":
            assert position.line_of(name) <= had[name]


class Publishing(logging.Handler):
    """Makes a row for each event, committed with the checkpoint."""

    instances: list[Publishing] = []  # noqa: RUF012

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.instances.append(self)

    def use(self, context: HandlerContext) -> None:
        self.context = context

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"{record.runlake_run_id}/{record.runlake_line:04d}")  # type: ignore[attr-defined]

    def pending_writes(self) -> Sequence[Write]:
        self.asked = list(self.lines[:90])
        return [Put(Key("files", "lines", each), {"key": "lines", "at": each}, ABSENT_ROW) for each in self.asked]

    def committed(self) -> None:
        del self.lines[: len(self.asked)]


@pytest.fixture
def world() -> Piping:
    Publishing.instances.clear()
    return Piping()


def publishing() -> Any:
    handlers = {"rows": {"class": f"{__name__}.Publishing"}}
    return parsed(yaml.safe_dump({"logging": {"version": 1, "handlers": handlers, "root": {"handlers": ["rows"]}}}), "test")


def rows(world: Piping) -> list[str]:
    return sorted(row["at"] for row in world.database.rows("files"))


def test_rows_of_handlers_come_with_the_checkpoint(world: Piping) -> None:
    world.write(A, [line(START_MS, text) for text in ("one", "two")])
    world.end(A)
    worker = world.worker(publishing())
    worker.start()
    world.work(worker)
    worker.stop()
    assert rows(world) == ["r1/0000", "r1/0001"]
    assert Publishing.instances[0].context.pipeline == "test"


@pytest.mark.parametrize("applied", [False, True])
def test_rows_are_seen_once_though_the_answer_was_lost(world: Piping, applied: bool) -> None:
    world.write(A, [line(START_MS, "one")])
    world.end(A)
    worker = world.worker(publishing())
    worker.start()
    transact = world.database.transact

    def lost(writes: Sequence[Write]) -> None:
        if applied:
            transact(writes)
        raise OutcomeUnknownError("no answer")

    world.database.transact = lost  # type: ignore[method-assign]
    worker.step()
    world.database.transact = transact  # type: ignore[method-assign]
    world.write(B, [line(START_MS, "two")])
    world.end(B)
    world.clock.advance(30)
    world.work(worker)
    world.clock.advance(30)
    worker.step()
    worker.stop()
    assert rows(world) == ["r1/0000", "r2/0000"]
    assert Publishing.instances[0].lines == []


def test_a_worker_that_lost_its_lease_publishes_nothing(world: Piping) -> None:
    world.write(A, [line(START_MS, "one")])
    world.end(A)
    lost: list[bool] = []

    def fence() -> None:
        if lost:
            raise PartitionNotOwnedError("gone")

    first = world.worker(publishing(), fence=fence)
    first.start()
    first.hand.read()
    lost.append(True)
    with pytest.raises(PartitionNotOwnedError):
        first.step()
    first.stop()
    assert rows(world) == []
    # One that does not even know it yet.
    lost.clear()
    second = world.worker(publishing(), owner="w2")
    second.start()
    third = world.worker(publishing(), owner="w3")
    third.start()
    with pytest.raises(PartitionNotOwnedError):
        second.step()
    assert rows(world) == []
    world.work(third)
    third.stop()
    assert rows(world) == ["r1/0000"]


def test_a_database_that_is_away_at_the_start_is_told(world: Piping) -> None:
    def away(*_: Any) -> Any:
        raise StoreUnavailableError("away")

    world.database.get_many = away  # type: ignore[method-assign]
    with pytest.raises(StoreUnavailableError):
        world.worker(publishing()).start()


@pytest.mark.parametrize("where", ["pending_writes", "committed"])
def test_a_handler_that_is_told_of_the_lost_lease_stops_the_worker_and_is_not_blamed(world: Piping, where: str) -> None:
    world.write(A, [line(START_MS, "one")])
    world.end(A)
    worker = world.worker(publishing())
    worker.start()
    [handler] = Publishing.instances

    def lost() -> Any:
        raise PartitionNotOwnedError("gone")

    setattr(handler, where, lost)
    with pytest.raises(PartitionNotOwnedError):
        worker.step()
    worker.stop(lost=True)
    assert worker.delivery.gets == {"rows": True} and worker.delivery.last_error == ""
    assert rows(world) == ([] if where == "pending_writes" else ["r1/0000"])

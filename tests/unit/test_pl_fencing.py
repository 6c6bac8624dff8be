"""Checkpoints: one transaction, fenced, and resolved after a lost response."""

from __future__ import annotations

import json
import logging
import string
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chalicelib.errors import (
    DamagedPartitionError,
    OutcomeUnknownError,
    PartitionNotOwnedError,
    PreconditionFailedError,
    StoreUnavailableError,
    WriteConflictError,
)
from chalicelib.pipelines import active_runs
from chalicelib.pipelines.checkpoints import MAX_RUNS, Checkpoints, JobPart, RowsRefusedError
from chalicelib.pipelines.heads import MAX_HEAD_BYTES, head_bytes, read_head
from chalicelib.pipelines.ports import HandlerContext
from chalicelib.pipelines.rows import EventPosition, RunCheckpoint, pack_checkpoints, pipeline_key, unpack_checkpoints
from chalicelib.pipelines.worker import Worker
from chalicelib.ports import ABSENT_ROW, Key, Put, Run, Write
from tests.pipelines_harness import START_MS, PipelinesHarness, line, pipeline_of
from tests.support.clock import ManualClock
from tests.support.database import InMemoryDatabase, row_bytes

A, B = Run("svc.a", "r1"), Run("svc.b", "r2")
PLACES = st.builds(EventPosition, st.integers(0, 1 << 40), st.integers(0, 1 << 50), st.integers(0, 1 << 45))
POSITIONS = st.builds(
    RunCheckpoint,
    PLACES,
    st.sampled_from(["", "plain"]),
    st.dictionaries(st.sampled_from("ab"), PLACES),
    st.integers(0, 9),
    st.integers(0, 9),
)


def at(line: int) -> RunCheckpoint:
    return RunCheckpoint(EventPosition(line, line * 10, START_MS + line))


class Cases:
    def __init__(self) -> None:
        self.database, self.clock = InMemoryDatabase(), ManualClock(START_MS)

    def checkpoints(self, owner: str) -> Checkpoints:
        found = Checkpoints(self.database, "p", self.clock, 1000)
        found.take_over(owner)
        return found


@given(st.dictionaries(st.builds(Run, st.text(min_size=1), st.text(min_size=1)), POSITIONS))
def test_positions_are_stored_as_they_are(positions: dict[Run, RunCheckpoint]) -> None:
    assert unpack_checkpoints(pack_checkpoints(positions)) == positions


def test_unreadable_checkpoints_raise() -> None:
    for text in ("", "?", pack_checkpoints({A: at(1)})[:-3]):
        with pytest.raises(DamagedPartitionError):
            unpack_checkpoints(text)


def test_as_many_runs_as_may_be_in_hand_fit_into_a_head() -> None:
    from uuid import UUID

    positions = {
        Run(
            f"service_{number % 7}.pipeline_of_some_length_{number}",
            str(UUID(int=number * 0x9E3779B97F4A7C15F39CC0605CEDC834 % 2**128)),
        ): at(number * 7919)
        for number in range(MAX_RUNS)
    }
    assert len(pack_checkpoints(positions)) < MAX_HEAD_BYTES / 2
    assert sum(head_bytes(run, ["one", "two"]) for run in positions) < MAX_HEAD_BYTES


@pytest.mark.behavior("A worker that lost its lease cannot commit a checkpoint.")
def test_only_the_worker_that_took_over_last_commits() -> None:
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


@pytest.mark.behavior("A handler's rows are committed with the checkpoint or not at all.")
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


class Late:
    """A database that loses the response of the next transaction, and applies it when the test says so; unless its condition is
    false."""

    def __init__(self, database: InMemoryDatabase) -> None:
        self._transact, self.lost = database.transact, list[Sequence[Write]]()
        self._database, self.loses = database, 0
        database.transact = self  # type: ignore[method-assign, assignment]

    def __call__(self, writes: Sequence[Write]) -> None:
        if self.loses:
            self.loses -= 1
            self.lost.append(writes)
            raise OutcomeUnknownError("read timed out")
        self._transact(writes)

    def arrive(self) -> bool:
        """The first lost write arrives. Returns whether it was applied."""
        try:
            self._transact(self.lost.pop(0))
        except PreconditionFailedError:
            return False
        return True


def handler_row(name: str) -> Put:
    return Put(Key("files", name), {"key": name})


def test_commit_that_settle_did_not_see_is_never_applied() -> None:
    cases = Cases()
    mine, late = cases.checkpoints("w1"), Late(cases.database)
    late.loses = 1
    with pytest.raises(OutcomeUnknownError):
        mine.commit({A: at(1)}, [handler_row("first")])
    assert mine.settle() is False
    assert not late.arrive()
    mine.commit({A: at(2)}, [handler_row("first"), handler_row("second")])
    assert [row["key"] for row in cases.database.rows("files")] == ["first", "second"]
    assert cases.checkpoints("w2").active() == {A: at(2)}


def test_commit_that_arrives_between_the_reads_of_settle_counts_as_applied() -> None:
    cases = Cases()
    mine, late = cases.checkpoints("w1"), Late(cases.database)
    late.loses = 1
    with pytest.raises(OutcomeUnknownError):
        mine.commit({A: at(1)}, [handler_row("first")])
    get_many = cases.database.get_many

    def read_then_arrive(keys: Sequence[Key]) -> Any:
        rows = get_many(keys)
        if late.lost:
            assert late.arrive()
        return rows

    cases.database.get_many = read_then_arrive  # type: ignore[method-assign]
    assert mine.settle() is True
    assert mine.active() == {A: at(1)}
    mine.commit({A: at(2)})


def test_settle_whose_own_answer_is_lost_still_finds_out() -> None:
    for arrives in (None, 0, 1):
        cases = Cases()
        mine, late = cases.checkpoints("w1"), Late(cases.database)
        late.loses = 2
        with pytest.raises(OutcomeUnknownError):
            mine.commit({A: at(1)}, [handler_row("first")])
        with pytest.raises(OutcomeUnknownError):
            mine.settle()
        assert mine.in_doubt
        if arrives is not None:
            late.lost.reverse() if arrives else None
            assert late.arrive()
        assert mine.settle() is (arrives == 0)
        while late.lost:
            assert not late.arrive()
        assert [row["key"] for row in cases.database.rows("files")] == (["first"] if arrives == 0 else [])
        mine.commit({A: at(2)})
        assert cases.checkpoints("w2").active() == {A: at(2)}


def test_commit_is_not_taken_for_that_of_another_attempt_with_the_same_number() -> None:
    """The epoch, owner and number are equal: only the attempt differs."""
    cases = Cases()
    mine = cases.checkpoints("w1")
    zombie = Checkpoints(cases.database, "p", cases.clock, 1000)
    zombie._head = mine._head
    zombie.commit({A: at(1)}, [handler_row("first")])
    with pytest.raises(PartitionNotOwnedError):
        mine.commit({A: at(2)}, [handler_row("second")])
    assert [row["key"] for row in cases.database.rows("files")] == ["first"]


def test_worker_notices_one_of_the_same_name_that_took_over() -> None:
    cases = Cases()
    first = cases.checkpoints("w1")
    first.check()
    cases.checkpoints("w1").check()
    with pytest.raises(PartitionNotOwnedError):
        first.check()


def test_repeat_by_the_adapter_meets_its_own_commit() -> None:
    """The first attempt was applied, and its response lost in the adapter: the retry's condition is false, and the commit
    succeeds."""
    cases = Cases()
    mine = cases.checkpoints("w1")
    transact = cases.database.transact

    def twice(writes: Sequence[Write]) -> None:
        transact(writes)
        transact(writes)

    cases.database.transact = twice  # type: ignore[method-assign]
    mine.commit({A: at(1)}, [handler_row("first")])
    assert mine.active() == {A: at(1)}
    mine.commit({A: at(2)})
    cases.database.transact = transact  # type: ignore[method-assign]
    mine.commit({A: at(3)})
    assert cases.checkpoints("w2").active() == {A: at(3)}


def test_row_of_a_run_that_arrives_late_overwrites_nothing_newer() -> None:
    cases = Cases()
    mine, late = cases.checkpoints("w1"), Late(cases.database)
    mine.commit({A: at(1)})
    late.loses = 1
    with pytest.raises(OutcomeUnknownError):
        mine.release([A])
    mine.release([A])
    mine.commit({A: at(5)})
    mine.release([A])
    assert not late.arrive()
    assert mine.find([A]) == {A: at(5)}


@pytest.mark.parametrize("conflicts", [1, 3, 5, 6])
@pytest.mark.parametrize("call", ["take_over", "commit", "release", "put_rows", "settle", "finish_part"])
def test_conflicting_transaction_is_tried_again(call: str, conflicts: int) -> None:
    cases = Cases()
    mine = cases.checkpoints("w1")
    mine.commit({A: at(1)})
    if call == "finish_part":
        mine = Checkpoints(cases.database, "p", cases.clock, 1000, JobPart("job.1", mine.epoch))
        mine.take_over("task")
    transact, left = cases.database.transact, [conflicts]

    def conflicting(writes: Sequence[Write]) -> None:
        if left[0]:
            left[0] -= 1
            raise WriteConflictError("TransactionConflict")
        transact(writes)

    if call == "settle":
        Late(cases.database).loses = 1
        with pytest.raises(OutcomeUnknownError):
            mine.commit({A: at(2)})
    cases.database.transact = conflicting  # type: ignore[method-assign]
    calls = {
        "take_over": lambda: mine.take_over("w2"),
        "commit": lambda: mine.commit({B: at(2)}),
        "release": lambda: mine.release([A]),
        "put_rows": lambda: mine.put_rows({B: at(2)}),
        "settle": mine.settle,
        "finish_part": mine.finish_part,
    }
    if conflicts == 6:
        with pytest.raises(StoreUnavailableError):
            calls[call]()
    calls[call]()
    assert left == [0]
    after = cases.checkpoints("w3")
    assert after.find([A]) == {A: at(1)}
    assert after.find([B]) == ({B: at(2)} if call in ("commit", "put_rows") else {})


@pytest.mark.parametrize("number", range(6))
def test_pipeline_goes_on_after_a_conflict_at_any_transaction(world: PipelinesHarness, number: int) -> None:
    world.write(A, [line(START_MS, "one")])
    world.end(A)
    transact, calls = world.database.transact, []

    def conflicting(writes: Sequence[Write]) -> None:
        calls.append(writes)
        if len(calls) == number + 1:
            raise WriteConflictError("TransactionConflict")
        transact(writes)

    world.database.transact = conflicting  # type: ignore[method-assign]
    worker = world.worker(publishing())
    worker.start()
    world.work(worker)
    assert_next_run_is_worked(world, worker)
    assert len(calls) > 6
    assert not [each for each in world.told if "failed" in each["message"]]


def test_head_of_several_pages_is_stored_and_shrinks_again() -> None:
    cases = Cases()
    mine = cases.checkpoints("w1")
    random = Random(7)
    letters = string.ascii_letters + string.digits
    runs = {
        Run("svc.many", "".join(random.choices(letters, k=900))): RunCheckpoint(
            EventPosition(random.randrange(10**6), random.randrange(10**8), START_MS)
        )
        for _ in range(900)
    }
    mine.commit(runs)
    stored = [row for row in cases.database.rows("pipelines") if row["at"].startswith("checkpoint")]
    assert len(stored) == 3
    assert all(row_bytes(row) < 400 * 1024 for row in stored)
    again = cases.checkpoints("w2")
    assert again.active() == runs
    again.release(list(runs)[100:])
    assert [row["at"] for row in cases.database.rows("pipelines") if row["at"].startswith("checkpoint")] == ["checkpoint"]
    assert cases.checkpoints("w3").active() == dict(list(runs.items())[:100])


@pytest.mark.slow
def test_full_head_is_stored_with_the_rows_of_handlers() -> None:
    """Names that cannot be compressed, as many as a worker may have active, and the maximum number of handlers' rows."""
    cases, random = Cases(), Random(13)
    runs: dict[Run, RunCheckpoint] = {}
    counted_bytes = 0
    while len(runs) < MAX_RUNS:
        run = Run("svc.many", "".join(random.choices(string.digits + string.ascii_letters + string.punctuation, k=1000)))
        counted_bytes += head_bytes(run, [])
        if counted_bytes > MAX_HEAD_BYTES:
            break
        runs[run] = at(len(runs))
    mine = cases.checkpoints("w1")
    mine.commit(runs, [handler_row(f"row {number}") for number in range(90)])
    assert cases.checkpoints("w2").active() == runs


def test_torn_pages_of_a_head_are_read_again() -> None:
    cases = Cases()
    mine = cases.checkpoints("w1")
    random = Random(11)
    runs = {Run("svc.many", "".join(random.choices(string.ascii_letters, k=900))): at(number) for number in range(600)}
    mine.commit(runs)
    get_many, moves = cases.database.get_many, iter([{A: at(1)}, {A: at(2)}])

    def interrupted(keys: Sequence[Key]) -> Any:
        rows = get_many(keys)
        if [key.sort for key in keys] == ["checkpoint"] and (moved := next(moves, None)):
            cases.database.get_many = get_many  # type: ignore[method-assign]
            mine.commit(moved)
            cases.database.get_many = interrupted  # type: ignore[method-assign]
        return rows

    cases.database.get_many = interrupted  # type: ignore[method-assign]
    head = read_head(cases.database, pipeline_key("p", "checkpoint"))
    assert head is not None and head.checkpoints == runs | {A: at(2)}


@given(
    st.text(min_size=1, max_size=300),
    st.text(min_size=1, max_size=300),
    st.lists(st.text(min_size=1, max_size=40), max_size=5, unique=True),
    st.integers(0, 2**63 - 1),
)
def test_no_run_takes_more_of_a_head_than_is_counted(fqn: str, run_id: str, handlers: list[str], number: int) -> None:
    place = EventPosition(number, number, number)
    position = RunCheckpoint(place, "a_format_of_a_name", dict.fromkeys(handlers, place), number, number)
    raw = json.dumps([[fqn, run_id, position.packed()]], separators=(",", ":"))
    assert len(raw) * 1.26 <= head_bytes(Run(fqn, run_id), handlers) + 4


def test_runs_with_long_names_are_admitted_only_as_far_as_a_head_has_room(
    world: PipelinesHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [Run("svc.long", f"{number:03d}" + "r" * 300) for number in range(12)]
    monkeypatch.setattr(active_runs, "MAX_HEAD_BYTES", 5 * head_bytes(runs[0], ["rows"]))
    for run in runs:
        world.write(run, [line(START_MS, "one")])
        world.end(run)
    worker = world.worker(publishing())
    worker.start()
    sizes, read = [], worker.active_runs.read
    monkeypatch.setattr(worker.active_runs, "read", lambda: (sizes.append(len(worker.active_runs)), read())[1])  # type: ignore[func-returns-value]
    for _ in range(40):
        worker.step()
        world.clock.advance(4)
    worker.stop()
    assert max(sizes) == 5
    assert rows(world) == sorted(f"{run.run_id}/0000" for run in runs)


def test_runs_that_are_let_go_are_found_again() -> None:
    cases = Cases()
    mine = cases.checkpoints("w1")
    runs = {Run("svc.many", f"r{number:04d}"): at(number) for number in range(250)}
    mine.commit(runs)
    before = cases.database.calls["transact"]
    mine.release(list(runs))
    assert cases.database.calls["transact"] - before == 4  # 98 rows each, and the head
    assert mine.active() == {}
    assert mine.find(list(runs)) == runs
    assert {row.run: row.checkpoint for row in mine.released()} == runs
    assert not any(row.unfinished for row in mine.released())
    assert {row["expires_at"] for row in cases.database.rows("pipelines") if row["at"] != "checkpoint"} == {START_MS // 1000 + 1000}


@given(st.lists(st.tuples(st.integers(0, 50), st.frozensets(st.sampled_from("ab"))), max_size=12))
def test_no_handler_is_ever_ahead_of_what_it_got(steps: list[tuple[int, frozenset[str]]]) -> None:
    """A model: a handler that receives events receives all from its own position on. A lagging one is read again from there."""
    position, had = RunCheckpoint(), {"a": 0, "b": 0}
    for number, (length, gets) in enumerate(steps):
        handlers = {name: name in gets for name in "ab"}
        start = position.start(handlers)
        end = start.line + length
        for name in gets:
            assert position.line_of(name) <= had[name]  # nothing is skipped
            had[name] = max(had[name], end)
        position = position.advanced(EventPosition(end, end, number), handlers)
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
def world() -> PipelinesHarness:
    Publishing.instances.clear()
    return PipelinesHarness()


def publishing() -> Any:
    return pipeline_of({"rows": {"class": f"{__name__}.Publishing"}})


def rows(world: PipelinesHarness) -> list[str]:
    return sorted(row["at"] for row in world.database.rows("files"))


def assert_next_run_is_worked(world: PipelinesHarness, worker: Worker) -> None:
    """Each event of A, which has one, and of B, which is written now, has its row once."""
    world.write(B, [line(START_MS, "two")])
    world.end(B)
    world.clock.advance(30)
    world.work(worker)
    world.clock.advance(30)
    worker.step()
    worker.stop()
    assert rows(world) == ["r1/0000", "r2/0000"]


def test_rows_of_handlers_come_with_the_checkpoint(world: PipelinesHarness) -> None:
    world.write(A, [line(START_MS, text) for text in ("one", "two")])
    world.end(A)
    worker = world.worker(publishing())
    worker.start()
    world.work(worker)
    worker.stop()
    assert rows(world) == ["r1/0000", "r1/0001"]
    assert Publishing.instances[0].context.pipeline == "test"


@pytest.mark.parametrize("applied", [False, True])
def test_rows_are_seen_once_though_the_answer_was_lost(world: PipelinesHarness, applied: bool) -> None:
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
    assert_next_run_is_worked(world, worker)
    assert Publishing.instances[0].lines == []


def test_a_worker_that_lost_its_lease_publishes_nothing(world: PipelinesHarness) -> None:
    world.write(A, [line(START_MS, "one")])
    world.end(A)
    lost: list[bool] = []

    def fence() -> None:
        if lost:
            raise PartitionNotOwnedError("gone")

    first = world.worker(publishing(), fence=fence)
    first.start()
    first.active_runs.read()
    lost.append(True)
    with pytest.raises(PartitionNotOwnedError):
        first.step()
    first.stop()
    assert rows(world) == []
    # A worker that has not noticed it yet.
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


def test_lease_lost_during_a_step_stops_its_commit(world: PipelinesHarness) -> None:
    world.write(A, [line(START_MS, "one")])
    world.end(A)
    calls: list[int] = []

    def fence() -> None:
        calls.append(len(calls))
        if len(calls) == 3:  # the first is the start's, the second the step's
            raise PartitionNotOwnedError("gone")

    worker = world.worker(publishing(), fence=fence)
    worker.start()
    with pytest.raises(PartitionNotOwnedError):
        worker.step()
    worker.stop(lost=True)
    assert rows(world) == []


def test_a_database_that_is_away_at_the_start_is_told(world: PipelinesHarness) -> None:
    def away(*_: Any) -> Any:
        raise StoreUnavailableError("away")

    world.database.get_many = away  # type: ignore[method-assign]
    with pytest.raises(StoreUnavailableError):
        world.worker(publishing()).start()


@pytest.mark.parametrize("where", ["pending_writes", "committed"])
def test_a_handler_that_is_told_of_the_lost_lease_stops_the_worker_and_is_not_blamed(world: PipelinesHarness, where: str) -> None:
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
    assert worker.delivery.receiving == {"rows": True} and worker.delivery.last_error == ""
    assert rows(world) == ([] if where == "pending_writes" else ["r1/0000"])

"""Attempts of a run: the number that a start gets, also if it is repeated, interrupted at any call, or concurrent."""

from __future__ import annotations

from contextlib import suppress
from itertools import count

import pytest

from chalicelib.errors import AttemptTakenError, InvalidNameError, RunClosedError, StoreUnavailableError, UnavailableError
from chalicelib.ports import ObjectStore, PutOptions, Run
from chalicelib.runlog.attempts import MAX_ATTEMPTS, Attempt, Attempts, StartRequest, read_start
from chalicelib.runlog.batch import Batch
from chalicelib.runlog.layout import MAX_KEY_BYTES
from chalicelib.runlog.log_end import delete_all, list_all
from tests.faults.interception import AFTER, BEFORE, CONFLICT, LATE, THROTTLED, Crash, Intercepted, StopAt
from tests.world import RUN, START_MS, World

A, B, C = (StartRequest(start_id) for start_id in "abc")


def started(world: World, request: StartRequest, run: Run = RUN, store: ObjectStore | None = None) -> Attempt:
    store = store or world.store
    return Attempts(store, world.layout, world.parts(store).writer, world.clock).start(run, request)


def attempt(number: int) -> Run:
    return RUN if number == 1 else Run(RUN.fqn, f"{RUN.run_id}~{number}")


def append(world: World, run: Run, line: str, position: str | None = None) -> None:
    world.parts().writer.append(run, Batch.from_text(f"{line}\n"), position=position)


def prepare(world: World, steps: str) -> None:
    """Take steps such as ``start 1-3, close 2``; ``clock -3`` is a function whose clock is 3 s behind."""
    for step in filter(None, steps.split(", ")):
        action, argument = step.split()
        if action == "clock":
            world.clock.advance(int(argument))
            continue
        first, _, last = argument.partition("-")
        for number in range(int(first), int(last or first) + 1):
            change_attempt(world, action, number)


def change_attempt(world: World, action: str, number: int) -> None:
    """Start, write, close, abandon, or delete an attempt."""
    run = attempt(number)
    match action:
        case "start":
            started(world, StartRequest(f"start-{number}", number=number))
        case "write":
            append(world, run, "one")
        case "close":
            world.parts().finalizer.close(run)
        case "abandon":
            world.clock.advance(90_000)
            assert world.parts().finalizer.abandon(run, world.clock.now_ms(), world.deadline()).sealed
        case "delete":
            delete_all(world.store, [each.key for each in list_all(world.store, world.layout.run_prefix(run))])


def test_start_of_new_run_stores_attempt_1_with_host_and_time() -> None:
    world = World()
    got = started(world, StartRequest("a", "host-1", "./load.sh", age_ms=1500))
    stored = read_start(world.store, world.layout, RUN)
    assert (got.run, got.start) == (RUN, stored)
    assert stored is not None
    assert (stored.attempt, stored.host, stored.command, stored.first_run_id) == (1, "host-1", "./load.sh", RUN.run_id)
    assert (stored.started_ms, stored.registered_ms) == (START_MS - 1500, START_MS)
    append(world, RUN, "one", got.position)
    assert world.read_all() == ["one"]


@pytest.mark.parametrize(
    ("before", "number"),
    [
        ("", 1),
        ("write 1", 1),  # a client that only appends: exec joins it
        ("start 1", 2),
        ("start 1, close 1", 2),
        ("write 1, close 1", 2),  # a run of OpenMetadata's connector
        ("write 1, abandon 1", 2),
        ("start 1-2, close 1-2", 3),
        ("start 1-2", 3),
    ],
)
def test_start_takes_open_run_without_another_start(before: str, number: int) -> None:
    world = World()
    prepare(world, before)
    got = started(world, C)
    assert (got.run, got.start.attempt, got.start.first_run_id) == (attempt(number), number, RUN.run_id)
    append(world, got.run, "of C", got.position)
    assert world.read_all(got.run)[-1] == "of C"


def test_repeated_start_gets_its_attempt_again_after_others_started() -> None:
    world = World()
    first = [started(world, each).run for each in (A, B, C)]
    assert first == [attempt(1), attempt(2), attempt(3)]
    world.parts().finalizer.close(attempt(2))
    assert [started(world, each).run for each in (C, B, A)] == first[::-1]


def test_start_under_the_id_of_a_later_attempt_is_one_of_the_same_run() -> None:
    world = World()
    started(world, A)
    started(world, B)
    assert started(world, C, run=attempt(2)).run == attempt(3)


def test_run_named_like_an_attempt_is_independent() -> None:
    world = World()
    named_alike = attempt(2)
    append(world, named_alike, "of another run")
    world.parts().finalizer.close(named_alike)
    assert [started(world, each).run for each in (A, B)] == [attempt(1), attempt(3)]
    assert started(world, C, run=named_alike).run == Run(RUN.fqn, f"{RUN.run_id}~2~2")
    assert world.read_all(named_alike) == ["of another run"]


@pytest.mark.parametrize(
    ("others", "number"),
    [
        ([2], 3),
        ([*range(2, 31)], 31),
        ([2024], 2),  # no attempt has this number
        ([1000], 2),
        ([3, 1000], 2),
        ([*range(2, 1000)], 1000),
    ],
    ids=lambda value: f"{len(value)}-up-to-{value[-1]}" if isinstance(value, list) else None,
)
@pytest.mark.parametrize("are_started", [False, True])
def test_runs_named_like_attempts_only_occupy_their_numbers(others: list[int], number: int, are_started: bool) -> None:
    world = World()
    append(world, RUN, "one")
    world.parts().finalizer.close(RUN)
    for each in others:  # all of them open
        if are_started:
            started(world, StartRequest(f"other-{each}"), attempt(each))
        else:
            append(world, attempt(each), "of another run")
    append(world, Run(RUN.fqn, f"{RUN.run_id}~0{number}"), "of a run that is named like no attempt")
    world.store.calls.clear()
    got = started(world, StartRequest("j", is_joining=True))
    assert (got.run, got.start.attempt) == (attempt(number), number)
    assert world.store.calls["get"] <= 110
    assert started(world, StartRequest("k", is_joining=True)).run == started(world, StartRequest("j")).run == got.run
    if others[0] <= MAX_ATTEMPTS:
        with pytest.raises(AttemptTakenError):
            started(world, StartRequest("l", number=others[0]))


def test_newer_run_named_like_an_attempt_is_not_the_newest_attempt() -> None:
    world = World()
    assert [started(world, each).run for each in (A, B)] == [attempt(1), attempt(2)]
    world.parts().finalizer.close(RUN)
    world.clock.advance(1)
    started(world, C, attempt(7))
    assert started(world, StartRequest("j", is_joining=True)).run == attempt(2)
    assert started(world, C).run == attempt(3)


def test_thousands_of_runs_named_like_attempts_keep_their_logs() -> None:
    """More than a start lists: then each number is checked separately."""
    world = World()
    append(world, RUN, "one")
    world.parts().finalizer.close(RUN)
    append(world, attempt(2), "of another run")
    for each in range(11_000):
        world.store.put(world.layout.start(attempt(10_000 + each)), b"{}", PutOptions())
    assert started(world, StartRequest("j", is_joining=True)).run == attempt(3)
    assert started(world, A).run == attempt(4)


def test_run_whose_numbers_are_all_taken_by_others_gets_no_attempt() -> None:
    world = World()
    for number in range(1, MAX_ATTEMPTS + 1):
        append(world, attempt(number), "one")
    world.parts().finalizer.close(RUN)
    for request in (A, StartRequest("j", is_joining=True)):
        with pytest.raises(AttemptTakenError):
            started(world, request)
    assert read_start(world.store, world.layout, attempt(MAX_ATTEMPTS)) is None


def test_numbers_below_a_high_attempt_stay_available() -> None:
    world = World()
    joining = StartRequest("j", is_joining=True)
    append(world, RUN, "one")
    world.parts().finalizer.close(RUN)
    assert started(world, StartRequest("a", number=1000)).run == attempt(1000)
    world.parts().finalizer.close(attempt(1000))
    world.clock.advance(1)
    assert started(world, B).run == attempt(2)
    assert started(world, joining).run == started(world, B).run == attempt(2)
    world.parts().finalizer.close(attempt(2))
    assert [started(world, each).run for each in (joining, C)] == [attempt(3), attempt(4)]


def test_start_by_number_gets_this_attempt_or_is_rejected() -> None:
    world = World()
    third = StartRequest("a", number=3)
    assert started(world, third).run == started(world, third).run == attempt(3)
    with pytest.raises(AttemptTakenError):
        started(world, StartRequest("b", number=3))
    world.parts().finalizer.close(RUN)
    with pytest.raises(AttemptTakenError):
        started(world, StartRequest("b", number=1))
    assert started(world, B).run == attempt(4)
    started(world, C, attempt(7))
    with pytest.raises(AttemptTakenError):
        started(world, StartRequest("c", number=7))  # the same id, of another run


@pytest.mark.parametrize("number", [None, 2])
def test_attempt_whose_name_leaves_no_room_for_a_tombstone_is_refused(number: int | None) -> None:
    world = World()
    longest = Run(RUN.fqn, "r" * (MAX_KEY_BYTES - len(world.layout.tombstone(Run(RUN.fqn, "")))))
    append(world, longest, "one")
    world.parts().finalizer.close(longest)
    with pytest.raises(InvalidNameError):
        started(world, StartRequest("a", number=number), longest)


@pytest.mark.parametrize("index", ["current", "behind", "lost", "unavailable"])
@pytest.mark.parametrize(
    ("before", "number"),
    [
        ("start 1, write 1, start 2, write 2", 2),
        ("start 1, start 2, write 2", 2),
        ("write 1, start 2", 2),
        ("start 1, write 1, close 1, start 2, write 2, start 3, write 3, close 3", 2),
        ("start 1, write 1, start 2, write 2, close 2", 1),
        ("start 1, start 2, close 2", 1),
        ("start 1, close 1, start 2, close 2, clock -3, start 3, write 3", 3),
        ("start 1, start 2, clock -3, start 3, clock -3, start 4, close 4", 3),
        ("start 1-12, close 11-12", 10),
        ("start 1-12, close 2-12", 1),
        ("start 1-3, delete 3", 2),
        ("start 1-2, delete 1", 2),
        ("start 1-3, close 2, delete 2, close 3", 1),
        ("write 1, close 1", 2),
        ("start 1-2, close 1-2", 3),
        ("start 1-2, write 2, close 1, abandon 2", 3),
    ],
)
def test_writer_that_joins_gets_the_newest_running_attempt(before: str, number: int, index: str) -> None:
    """Or the next attempt, if none is running. The index of segments decides nothing."""
    world = World()
    prepare(world, before)
    world.index.clear()
    tails = world.parts().writer.tails
    for run in map(attempt, range(1, 13)):
        numbers = [world.layout.sequence_of(run, each.key) for each in tails.list_segments(run)]
        world.index.put(run, [tails.segment(run, each) for each in numbers[: {"current": None, "behind": -1}.get(index, 0)]])
    if index == "unavailable":
        world.index.failures.schedule("last", error=StoreUnavailableError, times=100)
    for start_id in "jk":
        assert started(world, StartRequest(start_id, is_joining=True)).run == attempt(number)


def test_writer_that_joins_learns_whether_it_started_the_attempt() -> None:
    world = World()
    joining, later = (StartRequest(each, is_joining=True) for each in ("j", "k"))
    assert not started(world, A).is_joined and started(world, joining).is_joined
    world.parts().finalizer.close(RUN)
    assert [started(world, each).is_joined for each in (joining, later, joining)] == [False, True, False]
    only_written, new = Run(RUN.fqn, "only-written"), Run(RUN.fqn, "new")
    append(world, only_written, "one")
    assert started(world, joining, only_written).is_joined
    assert not started(world, joining, new).is_joined
    append(world, new, "one")
    assert [started(world, each, new).is_joined for each in (joining, later)] == [False, True]
    assert [started(world, each, new).run.run_id for each in (A, joining, later)] == ["new~2", "new", "new~2"]


def test_run_that_was_deleted_is_not_sealed_by_the_sweep() -> None:
    world = World()
    assert not world.parts().finalizer.abandon(RUN, START_MS, world.deadline()).sealed
    assert not world.store.list("").objects


def test_started_run_without_a_line_is_swept_when_it_is_old() -> None:
    world = World()
    started(world, A)
    finalizer = world.parts().finalizer
    assert not finalizer.abandon(RUN, START_MS, world.deadline()).sealed
    world.clock.advance(60)
    assert finalizer.abandon(RUN, world.clock.now_ms(), world.deadline()).sealed == "abandoned"
    assert world.body("logs.txt") == b""


@pytest.mark.parametrize(
    ("moment", "how"),
    [(BEFORE, "error"), (AFTER, "error"), (AFTER, "crash"), (LATE, "error"), (THROTTLED, "outage"), (CONFLICT, "error")],
)
@pytest.mark.parametrize("others", [0, 1, 3])
def test_start_that_is_stopped_at_any_call_and_repeated_gets_one_attempt(moment: str, how: str, others: int) -> None:
    for number in count():
        world = World()
        for other in range(others):
            started(world, StartRequest(f"other-{other}"))
        stop = StopAt(number, moment, how)
        with suppress(UnavailableError, Crash):
            started(world, A, store=Intercepted(world.store, stop))
        if not stop.fired:
            assert number or moment == CONFLICT
            return
        got = started(world, A, store=Intercepted(world.store, stop.successor))
        stop.land()
        assert got.run == attempt(others + 1) == started(world, A).run
        assert started(world, B).run == attempt(others + 2)


@pytest.mark.parametrize("is_joining", [False, True])
@pytest.mark.parametrize(("before", "free"), [("", 1), ("write 1, close 1", 2), ("start 1-3, close 1-3", 4)])
def test_concurrent_starts_get_different_attempts(before: str, free: int, is_joining: bool) -> None:
    """B starts between any two calls of A. Joining writers share one attempt."""
    first, second = (StartRequest(each, is_joining=is_joining) for each in "ab")
    for number in count():
        world = World()
        prepare(world, before)
        made: list[Attempt] = []
        calls = count()

        def gate(_: str, call, world=world, made=made, calls=calls, number=number):  # type: ignore[no-untyped-def]
            if next(calls) == number:
                made.append(started(world, second))
            return call()

        got = started(world, first, store=Intercepted(world.store, gate))
        if not made:
            return
        assert {got.run, made[0].run} == {attempt(free), attempt(free if is_joining else free + 1)}


def test_closed_attempt_refuses_lines() -> None:
    world = World()
    got = started(world, A)
    world.parts().finalizer.close(RUN)
    with pytest.raises(RunClosedError):
        append(world, RUN, "late", got.position)

"""A run that is open for longer than the bucket's expiration: the lifecycle removes no part of its log."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from chalicelib.errors import DeadlineExceededError, UnavailableError
from chalicelib.ports import PutOptions
from chalicelib.runlog.batch import Batch
from chalicelib.runlog.log_end import list_all
from chalicelib.runlog.renewal import Renewal
from tests.faults.interception import BEFORE, Crash, Intercepted, StopAt
from tests.world import RUN, World

DAY_S = 86_400
DAY_MS = DAY_S * 1000
ABOUT = PutOptions({"kind": "x"}, content_type="application/json")


def world_of(expiration_days: int = 30) -> World:
    world = World()
    world.expiration_ms = expiration_days * DAY_MS
    return world


def expire(world: World) -> None:
    """Expire objects like the bucket's lifecycle."""
    for found in list(list_all(world.store, world.layout.run_prefix(RUN))):
        if world.clock.now_ms() - found.last_modified_ms >= world.expiration_ms:
            world.store.delete(found.key)


def beside(world: World) -> set[str]:
    return {found.key for found in list_all(world.store, world.layout.events(RUN))}


def pass_(world: World) -> None:
    world.parts().finalizer.compact_and_finalize(RUN, world.deadline())


def work(world: World, number: int) -> None:
    """Append a batch with a sidecar, and run the schedule's pass, without a pause of the lifecycle."""
    expire(world)
    world.parts().writer.append(RUN, Batch.from_text(f"{number}\n"))
    world.store.put(world.layout.sidecar(RUN, number), b"of %d" % number, ABOUT)
    pass_(world)
    expire(world)


@pytest.mark.parametrize(("expiration_days", "step_s"), [(30, DAY_S), (7, DAY_S // 4), (1, 3600), (1, 7 * 3600)])
def test_run_open_for_three_expirations_keeps_its_auxiliary_objects(expiration_days: int, step_s: int) -> None:
    world = world_of(expiration_days)
    world.store.put(world.layout.writer(RUN, "w", "opened"), b"{}", ABOUT)
    steps = 3 * expiration_days * DAY_S // step_s
    for number in range(steps):
        work(world, number)
        world.clock.advance(step_s)
    assert beside(world) == {
        world.layout.writer(RUN, "w", "opened"),
        *(world.layout.sidecar(RUN, number) for number in range(steps)),
    }
    assert {entry.sequence for entry in world.retired_entries()} | {
        world.layout.sequence_of(RUN, found.key) for found in list_all(world.store, world.layout.segments(RUN))
    } == set(range(steps))
    assert world.read_all() == [str(number) for number in range(steps)]


@pytest.mark.slow
def test_more_sidecars_than_a_listing_has_are_kept() -> None:
    """The run state only lists the first thousand."""
    world = world_of(8)
    chance = random.Random(11)
    print("seed 11")
    for number in range(2400):
        world.store.put(world.layout.sidecar(RUN, number), b"x", ABOUT)
        if chance.random() < 0.1:
            world.clock.advance(4 * 3600)
            world.parts().writer.append(RUN, Batch.from_text("line\n"))
            pass_(world)
            expire(world)
    assert len(beside(world)) == 2400


@pytest.mark.parametrize("end", ["close", "abandon", "settle"])
def test_finished_log_does_not_outlive_its_auxiliary_objects(end: str) -> None:
    world = world_of(30)
    for number in range(10):
        work(world, number)
        world.clock.advance(DAY_S)
    if end == "abandon":
        world.parts().finalizer.abandon(RUN, world.clock.now_ms(), world.deadline())
    else:
        world.parts().finalizer.close(RUN)
        pass_(world)
    written_ms = world.store.head(world.layout.logs(RUN)).last_modified_ms
    oldest_ms = min(world.store.head(key).last_modified_ms for key in beside(world))
    assert written_ms - oldest_ms < DAY_MS + 1
    world.clock.advance(28 * DAY_S)
    expire(world)
    assert len(beside(world)) == 10 and world.store.head(world.layout.logs(RUN))


def test_close_leaves_renewing_to_the_schedule() -> None:
    world = world_of(30)
    for number in range(3):
        work(world, number)
        world.clock.advance(DAY_S)
    assert not world.parts().finalizer.close(RUN).finalized
    assert world.parts().finalizer.compact_and_finalize(RUN, world.deadline())[1].finalized


def test_run_of_a_day_is_not_renewed() -> None:
    calls = []
    for expiration_days in (0, 30):
        world = world_of(expiration_days)
        for number in range(4):
            world.parts().writer.append(RUN, Batch.from_text(f"{number}\n"))
            world.store.put(world.layout.sidecar(RUN, number), b"of %d" % number, ABOUT)
            pass_(world)
            world.clock.advance(5 * 3600)
        assert world.parts().finalizer.close(RUN).finalized
        calls.append(world.store.calls)
    assert calls[0] == calls[1]


def renewal(world: World, store: Any = None) -> Renewal:
    return Renewal(store or world.store, world.layout, world.clock, world.expiration_ms)


def renew(world: World, store: Any = None, deadline: Any = None) -> int:
    """Renew, triggered by the oldest object in the run state."""
    oldest = world.parts().compactor.read_state(RUN).oldest
    assert oldest
    return renewal(world, store).renew(RUN, oldest, deadline or world.deadline())


def test_renewed_object_is_the_same_and_young() -> None:
    world = world_of()
    key = world.layout.sidecar(RUN, 0)
    world.store.put(key, b"body", ABOUT)
    before = world.store.head(key)
    world.clock.advance(20 * DAY_S)
    assert renew(world) == 1
    after = world.store.head(key)
    assert world.store.get(key).body == b"body"
    assert (after.metadata, after.content_type, after.etag) == (before.metadata, before.content_type, before.etag)
    assert after.last_modified_ms == world.clock.now_ms()


@pytest.mark.parametrize("change", ["rewritten", "deleted"])
@pytest.mark.parametrize("call", ["get", "put"])
def test_object_that_changes_meanwhile_is_left_as_it_is(call: str, change: str) -> None:
    world = world_of()
    key = world.layout.step(RUN, "load")
    world.store.put(key, b"old", ABOUT)
    world.clock.advance(20 * DAY_S)

    def overtaken(operation: str, inner: Callable[[], Any]) -> Any:
        if operation == call:
            world.store.put(key, b"new", ABOUT) if change == "rewritten" else world.store.delete(key)
        return inner()

    renew(world, Intercepted(world.store, overtaken))
    if change == "rewritten":
        assert world.store.get(key).body == b"new"
    else:
        assert key not in beside(world)


def test_renewal_that_breaks_off_is_due_again() -> None:
    """At any call: the oldest object is renewed last, so the run state shows the remaining work."""
    number = 0
    while True:
        world = world_of(8)
        for sidecar in range(7):
            world.store.put(world.layout.sidecar(RUN, sidecar), b"x", ABOUT)
            world.clock.advance(600)
        world.parts().writer.append(RUN, Batch.from_text("line\n"))
        world.clock.advance(5 * DAY_S)
        stop = StopAt(number, BEFORE, "error")
        try:
            renew(world, Intercepted(world.store, stop))
        except UnavailableError:
            assert renewal(world).is_due(world.parts().compactor.read_state(RUN).oldest)
        if not stop.fired:
            break
        number += 1
    assert number > 7


def test_renewal_that_breaks_off_among_thousands_is_due_again() -> None:
    world = world_of(8)
    for sidecar in range(1500):
        world.store.put(world.layout.sidecar(RUN, sidecar), b"x", ABOUT)
    world.parts().writer.append(RUN, Batch.from_text("line\n"))
    world.clock.advance(5 * DAY_S)
    stop = StopAt(2400, BEFORE, "crash")
    with pytest.raises(Crash):
        renew(world, Intercepted(world.store, stop))
    assert renewal(world).is_due(world.parts().compactor.read_state(RUN).oldest)


def test_conflict_with_another_write_is_tried_again() -> None:
    """409 does not prove a write: the object may be as old as before, and the lifecycle would remove it."""
    world = world_of()
    keys = [world.layout.sidecar(RUN, sidecar) for sidecar in range(3)]
    for key in keys:
        world.store.put(key, b"x", ABOUT)
    world.clock.advance(20 * DAY_S)
    world.store.conflict_next(1, lambda key: key == keys[1])
    assert renew(world) == 3
    assert {world.store.head(key).last_modified_ms for key in keys} == {world.clock.now_ms()}


@pytest.mark.parametrize("failing", [0, 1, 999, 1000, 1050, 1099])
def test_renewal_that_fails_at_any_object_is_due_again(failing: int) -> None:
    """Also at an object that the run state does not list: the trigger is renewed last."""
    world = world_of(8)
    for sidecar in range(1100):
        world.store.put(world.layout.sidecar(RUN, sidecar), b"x", ABOUT)
    world.clock.advance(5 * DAY_S)
    for sidecar in range(1, 1000):  # all that are listed but one
        world.store.put(world.layout.sidecar(RUN, sidecar), b"x", ABOUT)
    world.parts().writer.append(RUN, Batch.from_text("line\n"))
    key = world.layout.sidecar(RUN, failing)
    world.clock.advance(2 * DAY_S)
    world.store.conflict_next(1000, lambda each: each == key)
    with pytest.raises(UnavailableError):
        renew(world)
    assert renewal(world).is_due(world.parts().compactor.read_state(RUN).oldest)


@pytest.mark.sampled(default=2)
@pytest.mark.slow
@pytest.mark.parametrize("burst_day", [1, 14, 15, 16, 29])
def test_writer_that_sidecars_push_out_of_the_listing_is_kept(burst_day: int) -> None:
    """In a run that had only plain lines before: entries of deleted segments are as old, and all of them are listed."""
    world = world_of(30)
    opened = world.layout.writer(RUN, "w", "opened")
    world.store.put(opened, b"{}", ABOUT)
    for day in range(70):
        for _ in range(2):
            world.parts().writer.append(RUN, Batch.from_text("plain\n"))
            world.clock.advance(DAY_S // 2)
            pass_(world)
        if day == burst_day:
            for sidecar in range(1100):
                world.store.put(world.layout.sidecar(RUN, sidecar), b"x", ABOUT)
        expire(world)
        assert opened in beside(world)


def test_renewal_stops_in_time() -> None:
    world = world_of()
    world.store.put(world.layout.sidecar(RUN, 0), b"x", ABOUT)
    world.clock.advance(20 * DAY_S)
    with pytest.raises(DeadlineExceededError):
        renew(world, deadline=world.deadline(seconds=0))


def test_without_expiration_nothing_is_renewed() -> None:
    world = world_of(0)
    world.store.put(world.layout.sidecar(RUN, 0), b"x", ABOUT)
    world.clock.advance(400 * DAY_S)
    oldest = world.parts().compactor.read_state(RUN).oldest
    assert oldest and not renewal(world).is_due(oldest) and not renewal(world).is_due_at_end(oldest)

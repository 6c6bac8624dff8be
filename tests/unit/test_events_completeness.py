"""complete, pending or lost: never complete while a line is missing, with killed writers, delays and reordering."""

from __future__ import annotations

import itertools
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chalicelib.errors import ConflictError, InvalidEventError
from chalicelib.events import ranges
from chalicelib.events.completeness import COMPLETE, LOST, PENDING
from tests.events_harness import GRACE_MS, ClientWriter, event_parts, make_event, notify
from tests.world import RUN, World


def test_complete_when_sealed_every_writer_closed_and_every_id_visible() -> None:
    world = World()
    parts = event_parts(world)
    author = ClientWriter(parts, "w")
    assert parts.watch.check(RUN).state == PENDING
    parts.writers.open(RUN, "w")
    author.say(make_event("a"), make_event("b"))
    parts.writers.close(RUN, "w", 2, 77)
    assert parts.watch.check(RUN).state == PENDING
    notify(world, parts)
    found = parts.watch.check(RUN)
    assert (found.state, found.sealed) == (PENDING, False)
    parts.finalizer.close(RUN)
    found = event_parts(world).watch.check(RUN)
    assert (found.state, found.sealed, found.lost) == (COMPLETE, True, [])
    (state,) = found.writers
    assert (state.writer, state.opened, state.closed, state.count, state.visible, state.missing, state.last_timestamp_ms) == (
        "w", True, True, 2, 2, [], 77,
    )  # fmt: skip


def test_a_close_makes_all_visible_without_any_notification() -> None:
    world = World()
    parts = event_parts(world)
    parts.writers.open(RUN, "w")
    ClientWriter(parts, "w").say(make_event("a"), make_event("b"))
    parts.writers.close(RUN, "w", 2)
    parts.finalizer.close(RUN)
    assert parts.watch.check(RUN).state == COMPLETE


def test_lost_names_the_writers_after_the_time_of_grace() -> None:
    world = World()
    parts = event_parts(world)
    for name in ("closed-short", "killed", "well"):
        parts.writers.open(RUN, name)
        ClientWriter(parts, name).say(make_event("a"), make_event("b"))
    parts.log.append(RUN, [make_event("d", id=5)], writer="closed-short")
    parts.writers.close(RUN, "closed-short", 8)
    parts.writers.close(RUN, "well", 2)
    parts.finalizer.close(RUN)
    found = parts.watch.check(RUN)
    assert (found.state, found.lost) == (PENDING, [])
    world.clock.advance(GRACE_MS / 1000 + 1)
    found = event_parts(world).watch.check(RUN)
    assert (found.state, found.lost) == (LOST, ["closed-short", "killed"])
    by_name = {each.writer: each for each in found.writers}
    assert by_name["closed-short"].missing == [(2, 4), (6, 7)]
    assert (by_name["killed"].count, by_name["killed"].visible) == (None, 2)


def test_a_closed_writer_is_lost_in_an_open_run_too_and_found_again_when_it_comes() -> None:
    world = World()
    parts = event_parts(world)
    author = ClientWriter(parts, "w")
    parts.writers.open(RUN, "w")
    parts.writers.close(RUN, "w", 1)
    world.clock.advance(GRACE_MS / 1000 + 1)
    assert parts.watch.check(RUN).lost == ["w"]
    author.say(make_event("late"))
    parts.finalizer.close(RUN)
    assert parts.watch.check(RUN).state == COMPLETE


def test_waiting_ends_when_it_is_complete_or_the_time_is_over() -> None:
    world = World()
    parts = event_parts(world)
    start_s = world.clock.monotonic_s()
    assert parts.watch.wait(RUN, 3).state == PENDING
    assert world.clock.monotonic_s() - start_s == 3
    looked = []
    sleep = world.clock.sleep

    def meanwhile(seconds: float) -> None:
        looked.append(seconds)
        sleep(seconds)
        if len(looked) == 3:
            parts.log.append(RUN, [make_event("a")])
            parts.finalizer.close(RUN)

    world.clock.sleep = meanwhile  # type: ignore[method-assign]
    assert parts.watch.wait(RUN, 20).state == COMPLETE
    assert sum(looked) <= 2


def test_registering_and_closing_can_be_repeated_but_not_with_another_count() -> None:
    parts = event_parts(World())
    for _ in range(2):
        parts.writers.open(RUN, "a/b c")
        parts.writers.close(RUN, "a/b c", 3)
    with pytest.raises(ConflictError, match="another count"):
        parts.writers.close(RUN, "a/b c", 4)
    assert [each.writer for each in parts.watch.check(RUN).writers] == ["a/b c"]
    for name in ("", "x" * 201, "a\nb", "\ud800"):
        with pytest.raises(InvalidEventError):
            parts.writers.open(RUN, name)
    with pytest.raises(InvalidEventError):
        parts.writers.close(RUN, "w", -1)


@pytest.mark.behavior("A run is never complete while an event is missing, and lost writers are named.")
@pytest.mark.sampled(default=2)
@pytest.mark.slow
@pytest.mark.parametrize("round_", range(12))
def test_twenty_writers_some_killed_messages_delayed_and_reordered(round_: int) -> None:
    """After every step the result is compared with a model of acknowledged, indexed and closed events."""
    seed = Random().randrange(10**9) + round_
    print(f"seed: {seed}")
    random, world = Random(seed), World()
    authors = {f"w{number:02d}": ClientWriter(event_parts(world), f"w{number:02d}") for number in range(20)}
    killed = set(random.sample(sorted(authors), random.randrange(4)))
    intended = {name: random.randrange(1, 12) for name in authors}
    for name in authors:
        event_parts(world).writers.open(RUN, name)
    waiting: list[str] = []  # notifications
    open_ = sorted(authors)
    while open_:
        name = random.choice(open_)
        author = authors[name]
        size = min(random.randrange(1, 4), intended[name] - author.next_id)
        if name in killed and random.random() < 0.3:
            open_.remove(name)
        elif size:
            answer = author.say(*(make_event(f"{name} {author.next_id + at}", "s") for at in range(size)))
            assert answer.accepted == size
            waiting.append(world.layout.sidecar(RUN, world.parts().writer.tails.find(RUN).sequence - 1))
        elif name in killed:
            open_.remove(name)
        else:
            event_parts(world).writers.close(RUN, name, intended[name])
            open_.remove(name)
        if waiting and random.random() < 0.5:
            _deliver(world, waiting.pop(random.randrange(len(waiting))), twice=random.random() < 0.2)
        assert event_parts(world).watch.check(RUN).state == PENDING
    # Only the seal, without compaction, so that only notifications make lines visible.
    tail = world.parts().writer.tails.find(RUN)
    world.parts().writer.seal(RUN, "closed", tail)
    random.shuffle(waiting)
    while waiting:
        assert event_parts(world).watch.check(RUN).state == PENDING
        _deliver(world, waiting.pop(), twice=False)
    found = event_parts(world).watch.check(RUN)
    assert found.state == (PENDING if killed else COMPLETE)
    world.clock.advance(GRACE_MS / 1000 + 1)
    found = event_parts(world).watch.check(RUN)
    assert (found.state, found.lost) == ((LOST, sorted(killed)) if killed else (COMPLETE, []))
    # A new process with an empty catalog: not complete until the rows are rebuilt from S3, then complete as before.
    world.database.__init__()  # type: ignore[misc]
    assert event_parts(world).watch.check(RUN).state != COMPLETE
    event_parts(world).indexing.rebuild(RUN)
    world.clock.advance(GRACE_MS / 1000 + 1)
    again = event_parts(world).watch.check(RUN)
    assert (again.state, again.lost, [each.missing for each in again.writers]) == (
        found.state, found.lost, [each.missing for each in found.writers],
    )  # fmt: skip


def _deliver(world: World, key: str, *, twice: bool) -> None:
    parsed = world.layout.parse(key)
    assert parsed
    for _ in range(1 + twice):
        event_parts(world).indexing.index_object(parsed)


@given(st.lists(st.sets(st.integers(0, 60))), st.integers(0, 70))
def test_ranges_are_what_sets_are(parts: list[set[int]], count: int) -> None:
    every = set().union(*parts)
    found = ranges.merged(*map(ranges.of_ids, parts))
    assert {each for low, high in found for each in range(low, high + 1)} == every
    assert ranges.size(found) == len(every)
    assert all(after[0] > before[1] + 1 for before, after in itertools.pairwise(found))
    lacking = ranges.missing(found, count)
    assert [each for low, high in lacking for each in range(low, high + 1)] == sorted(set(range(count)) - every)

"""Appending: order, exactly once, several writers, closed and reopened runs."""

from __future__ import annotations

import threading

import pytest

from chalicelib.errors import InvalidBatchError, InvalidNameError, OutcomeUnknownError, RunClosedError, StoreUnavailableError
from chalicelib.ports import Run
from chalicelib.runlog.batch import Batch
from chalicelib.runlog.writer import Appended
from tests.faults.interception import AFTER, Intercepted, StopAt
from tests.world import RUN, World

DAY_MS = 24 * 3_600_000


def append(world: World, text: str, position: str | None = None, key: str | None = None, run: Run = RUN) -> Appended:
    return world.parts().writer.append(run, Batch.from_text(text, "host-1"), position=position, idempotency_key=key)


def idle_a_day_and_sweep(world: World) -> None:
    world.clock.advance(DAY_MS / 1000 + 1)
    world.parts().finalizer.abandon(RUN, world.clock.now_ms() - DAY_MS, world.deadline())


def test_append_returns_the_offset_of_its_lines() -> None:
    world = World()
    first = append(world, "a\nb\n").entry
    second = append(world, "c").entry
    assert first and (first.sequence, first.line, first.byte, first.lines, first.bytes, first.epoch) == (0, 0, 0, 2, 4, 1)
    assert second and (second.sequence, second.line, second.byte, second.lines, second.bytes) == (1, 2, 4, 1, 2)
    assert first.connector == "host-1" and first.appended_ms == world.clock.now_ms()


def test_an_init_stores_nothing_and_gives_a_position() -> None:
    world = World()
    opened = append(world, "")
    assert opened.entry is None and world.names() == []
    assert append(world, "first", opened.position).entry.sequence == 0  # type: ignore[union-attr]


def test_a_keep_alive_keeps_its_position_as_it_is() -> None:
    world = World()
    position = append(world, "first").position
    before = world.store.calls.total()
    assert append(world, "", position).position == position
    assert world.store.calls.total() == before


def test_a_repeat_after_a_lost_race_meets_its_own_segment() -> None:
    world = World()
    mine = append(world, "first").position
    for number in range(5):
        append(world, f"of another {number}")
    stored = append(world, "mine", mine)
    for number in range(5, 9):
        append(world, f"of another {number}")
    repeated = append(world, "mine", mine)
    assert repeated.repeated and repeated.entry == stored.entry
    assert world.read_all().count("mine") == 1


@pytest.mark.behavior("Equal lines in two batches are not taken for a repeat.")
def test_equal_lines_are_no_repeat() -> None:
    world = World()
    position = append(world, "same").position
    position = append(world, "same", position).position
    append(world, "same", position)
    append(world, "same")
    assert world.read_all() == ["same"] * 4


def test_equal_lines_from_a_newer_position_are_no_repeat_of_the_older_batch() -> None:
    world = World()
    start = append(world, "first").position
    append(world, "of another")
    late = append(world, "same", start)  # stored at 2, presented 1
    assert late.entry and late.entry.base == 1
    jar = append(world, "x", start)  # a thread that shares the jar and is answered later
    assert not jar.repeated
    assert not append(world, "same", jar.position).repeated
    assert world.read_all().count("same") == 2


def test_an_old_repeat_meets_a_segment_that_is_retired() -> None:
    world = World()
    position = append(world, "first").position
    append(world, "mine", position)
    append(world, "of another")
    world.clock.advance(21 * 60)
    world.parts().compactor.compact(RUN, world.deadline())
    assert world.names() == ["partial.txt", "segments/0000000002"]
    assert append(world, "mine", position).repeated
    assert append(world, "new", position).entry.sequence == 3  # type: ignore[union-attr]
    assert world.read_all() == ["first", "mine", "of another", "new"]


def test_position_of_a_late_repeat_is_not_used_without_a_read() -> None:
    world = World()
    start = append(world, "first").position
    append(world, "mine", start)
    append(world, "of another 2")
    append(world, "of another 3")
    world.clock.advance(21 * 60)
    world.parts().compactor.compact(RUN, world.deadline())
    repeated = append(world, "mine", start)
    assert append(world, "next", repeated.position).entry.sequence == 4  # type: ignore[union-attr]
    assert world.read_all() == ["first", "mine", "of another 2", "of another 3", "next"]


def test_a_key_is_remembered_while_its_segment_lives_and_after() -> None:
    world = World()
    append(world, "keyed", key="batch-1")
    append(world, "other", key="batch-2")
    assert append(world, "keyed", key="batch-1").repeated
    world.clock.advance(3600)
    world.parts().compactor.compact(RUN, world.deadline())
    assert append(world, "keyed", key="batch-1").repeated
    assert world.read_all() == ["keyed", "other"]


def test_old_position_with_a_key_is_not_used_without_a_read() -> None:
    world = World()
    position = append(world, "first").position
    append(world, "of another 1")
    append(world, "of another 2")
    world.clock.advance(21 * 60)
    world.parts().compactor.compact(RUN, world.deadline())
    assert append(world, "keyed", position, "k").entry.sequence == 3  # type: ignore[union-attr]
    assert world.read_all() == ["first", "of another 1", "of another 2", "keyed"]


def test_the_cookie_of_a_keyed_batch_starts_a_session_of_its_own() -> None:
    world = World()
    cookie = append(world, "keyed", key="batch-1").position
    later = append(world, "by cookie", cookie).position
    for presented in (None, cookie, later):
        assert append(world, "keyed", presented, "batch-1").repeated
    assert world.read_all() == ["keyed", "by cookie"]


def test_a_key_for_two_different_batches_is_refused() -> None:
    world = World()
    append(world, "one", key="k")
    with pytest.raises(InvalidBatchError, match="another batch"):
        append(world, "two", key="k")
    assert world.read_all() == ["one"]


@pytest.mark.parametrize("key", ["", "x" * 256, "a\nb", "\0"])
def test_a_key_that_cannot_be_one_is_refused(key: str) -> None:
    with pytest.raises(InvalidBatchError, match="1 to 255"):
        append(World(), "lines", key=key)


@pytest.mark.parametrize("position", ["forged", "1_2_3_4_5_6_7_8_9.sig", ""])
def test_a_forged_position_is_ignored(position: str) -> None:
    world = World()
    append(world, "first")
    append(world, "second", position)
    assert world.read_all() == ["first", "second"]


def test_a_position_of_another_run_is_ignored() -> None:
    world, other = World(), Run("svc.pipeline", "other")
    elsewhere = append(world, "elsewhere", run=other).position
    assert append(world, "here", elsewhere).entry.sequence == 0  # type: ignore[union-attr]
    assert world.read_all(other) == ["elsewhere"]


def test_closed_run_rejects_every_append() -> None:
    world = World()
    position = append(world, "first").position
    world.parts().finalizer.close(RUN)
    keys = world.names()
    for presented, key in ((position, None), (None, None), (None, "k")):
        with pytest.raises(RunClosedError):
            append(world, "late", presented, key)
    assert world.names() == keys


@pytest.mark.parametrize("key", [None, "k"])
def test_a_repeat_of_what_was_stored_before_the_close_is_answered_as_before(key: str | None) -> None:
    world = World()
    position = append(world, "first").position
    append(world, "mine", position, key)
    world.parts().finalizer.close(RUN)
    assert append(world, "mine", position, key).repeated


def test_an_abandoned_run_reopens_with_the_next_epoch() -> None:
    world = World()
    append(world, "first")
    idle_a_day_and_sweep(world)
    entry = append(world, "back").entry
    assert entry and (entry.sequence, entry.epoch, entry.line) == (2, 2, 1)


@pytest.mark.parametrize("abandoned", [False, True])
def test_position_after_a_seal_is_not_used_without_a_read(abandoned: bool) -> None:
    """The position of an init does not contain the seal before its number."""
    world = World()
    parts = world.parts()
    parts.writer.append(RUN, Batch.from_text("a\n", "host-1"))
    if abandoned:
        parts.finalizer.abandon(RUN, world.clock.now_ms() + 1, world.deadline())
    else:
        parts.finalizer.close(RUN)
    position = parts.writer.append(RUN, Batch.from_text("", "host-1")).position
    if abandoned:
        appended = parts.writer.append(RUN, Batch.from_text("b\n", "host-1"), position=position)
        assert appended.entry and appended.entry.epoch == 2
    else:
        with pytest.raises(RunClosedError):
            parts.writer.append(RUN, Batch.from_text("b\n", "host-1"), position=position)
        assert world.read_all() == ["a"]


def test_conflicting_writes_are_repeated() -> None:
    world = World()
    world.store.conflict_next(3)
    assert append(world, "through").entry
    world.store.conflict_next(50)
    with pytest.raises(StoreUnavailableError, match="keeps conflicting"):
        append(world, "never")


def test_lost_response_is_unavailable_and_the_repeat_is_stored_once() -> None:
    world = World()
    position = append(world, "").position
    stop = StopAt(0, AFTER, "error")
    broken = world.parts(Intercepted(world.store, stop))  # type: ignore[arg-type]
    with pytest.raises(OutcomeUnknownError):
        broken.writer.append(RUN, Batch.from_text("once"), position=position)
    assert append(world, "once", position).repeated
    assert world.read_all() == ["once"]


def test_the_catalog_may_be_down() -> None:
    world = World()
    append(world, "first")
    down = world.parts(index=Intercepted(world.index, StopAt(0, "before", "outage")))  # type: ignore[arg-type]
    assert down.writer.append(RUN, Batch.from_text("second")).entry.sequence == 1  # type: ignore[union-attr]
    with pytest.raises(StoreUnavailableError):
        down.writer.append(RUN, Batch.from_text("keyed"), idempotency_key="k")
    assert world.read_all() == ["first", "second"]


def test_threads_lose_nothing_and_repeat_nothing() -> None:
    world = World()

    def work(name: str) -> None:
        position: str | None = None
        for number in range(25):
            position = append(world, f"{name} {number} a\n{name} {number} b\n", position).position

    threads = [threading.Thread(target=work, args=(f"t{number}",)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = world.read_all()
    assert sorted(lines) == sorted(f"t{t} {n} {half}" for t in range(6) for n in range(25) for half in "ab")
    for name in (f"t{number}" for number in range(6)):
        assert [line for line in lines if line.startswith(name + " ")] == [f"{name} {n} {half}" for n in range(25) for half in "ab"]
    assert all(first[:-2] == second[:-2] for first, second in zip(lines[::2], lines[1::2], strict=True))


@pytest.mark.parametrize("key", [None, "k"])
@pytest.mark.parametrize("fqn", ["語" * 256, "invisible\u200e"])
def test_append_with_name_that_cannot_be_stores_nothing(fqn: str, key: str | None) -> None:
    world, run = World(), Run(fqn, "r")
    with pytest.raises(InvalidNameError):
        append(world, "lines", key=key, run=run)
    assert world.store.calls["put"] == 0
    assert world.index.forget(run) == 0


def test_equal_batch_from_another_position_is_a_batch_of_its_own() -> None:
    """One session with two concurrent requests of the same text: only the same presented number makes a repeat."""
    world = World()
    writer = world.parts().writer
    start = writer.append(RUN, Batch.from_bytes(b"")).position
    first = writer.append(RUN, Batch.from_text("tick\n"), position=start)
    other = writer.append(RUN, Batch.from_text("other\n"), position=first.position)
    latest = writer.append(RUN, Batch.from_text("tick\n"), position=other.position)
    behind = writer.append(RUN, Batch.from_text("tick\n"), position=first.position)
    assert [answer.repeated for answer in (first, other, latest, behind)] == [False] * 4
    assert world.read_all() == ["tick", "other", "tick", "tick"]

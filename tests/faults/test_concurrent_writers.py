"""An actor pauses right before a decisive call while others work for more than 20 minutes and retire segments; then it makes the call."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from chalicelib.errors import DamagedLogError, InvalidBatchError, ObjectNotFoundError, StoreUnavailableError, UnavailableError
from chalicelib.runlog.batch import Batch
from chalicelib.runlog.conflicts import ATTEMPTS
from chalicelib.runlog.missing_segments import lost_lines
from chalicelib.runlog.reader import PageRequest
from chalicelib.runlog.writer import Appended
from tests.faults.interception import AFTER, BEFORE, LATER, Crash, Intercepted, StopAt
from tests.faults.stepping import Actor
from tests.world import RUN, Parts, World

MIB = 1024 * 1024


def append(world: World, text: str) -> None:
    world.parts().writer.append(RUN, Batch.from_text(text))


def compact_and_retire(world: World) -> None:
    """Compact all segments into partial.txt, and retire all but the last one."""
    world.parts().compactor.compact(RUN, world.deadline())
    world.clock.advance(21 * 60)
    world.parts().compactor.compact(RUN, world.deadline())


def stopped_before(world: World, call: str, operation: Callable[[Parts], Any]) -> Actor:
    """An actor that pauses before a call of the store; calls of the index with the same name pass."""
    actor = Actor("overtaken", lambda wrap: operation(world.parts(wrap(world.store))))
    while actor.waiting_for != call:
        assert not actor.done, f"it never came to {call}"
        actor.step()
    return actor


def finish(actor: Actor) -> Any:
    actor.finish()
    if actor.error:
        raise actor.error
    return actor.result


def test_stale_compactor_does_not_restore_old_text() -> None:
    world = World()
    append(world, "1\n")
    world.parts().compactor.compact(RUN, world.deadline())
    append(world, "2\n")
    actor = stopped_before(world, "put", lambda parts: parts.compactor.compact(RUN, world.deadline()))
    append(world, "3\n")
    compact_and_retire(world)
    finish(actor)
    assert world.body("partial.txt") == b"1\n2\n3\n"
    assert world.read_all() == ["1", "2", "3"]


def test_stale_multipart_compactor_does_not_restore_old_text() -> None:
    world = World()
    append(world, ("x" * 1023 + "\n") * (6 * 1024))
    world.parts().compactor.compact(RUN, world.deadline())
    append(world, "2\n")
    actor = stopped_before(world, "complete_multipart", lambda parts: parts.compactor.compact(RUN, world.deadline()))
    append(world, "3\n")
    compact_and_retire(world)
    finish(actor)
    assert world.body("partial.txt").endswith(b"x\n2\n3\n")
    assert world.store.uploads == 0


def test_first_partial_txt_after_a_finalizer_is_deleted() -> None:
    world = World()
    append(world, "1\n")
    actor = stopped_before(world, "put", lambda parts: parts.compactor.compact(RUN, world.deadline()))
    world.parts().finalizer.close(RUN)
    finish(actor)
    assert "partial.txt" not in world.names()
    assert world.read_all() == ["1"]


def test_stale_finalizer_removes_only_the_partial_txt_it_read() -> None:
    world = World()
    append(world, "1\n")
    world.parts().compactor.compact(RUN, world.deadline())
    before_ms = world.clock.now_ms() + 1
    actor = stopped_before(world, "delete", lambda parts: parts.finalizer.abandon(RUN, before_ms, world.deadline()))
    append(world, "2\n")
    append(world, "3\n")
    compact_and_retire(world)
    assert world.body("partial.txt") == b"1\n2\n3\n"
    finish(actor)
    assert world.read_all() == ["1", "2", "3"]


def test_stale_finalizer_does_not_restore_old_logs_txt() -> None:
    world = World()
    append(world, "1\n")
    before_ms = world.clock.now_ms() + 1
    writer = world.parts().writer
    writer.seal(RUN, "abandoned", writer.tails.find(RUN))
    actor = stopped_before(world, "put", lambda parts: parts.finalizer.abandon(RUN, before_ms, world.deadline()))
    append(world, "2\n")
    world.parts().finalizer.close(RUN)
    world.clock.advance(21 * 60)
    world.parts().finalizer.compact_and_finalize(RUN, world.deadline())
    finish(actor)
    assert world.body("logs.txt") == b"1\n2\n"
    assert world.read_all() == ["1", "2"]


def test_reader_retries_after_concurrent_retirement() -> None:
    world = World()
    for number in range(5):
        append(world, f"{number}\n")
    actor = stopped_before(world, "list", lambda parts: parts.reader.page(RUN, PageRequest()))
    compact_and_retire(world)
    assert finish(actor).logs == "0\n1\n2\n3\n4"


def test_reader_retries_after_concurrent_finalization() -> None:
    world = World()
    for number in range(5):
        append(world, f"{number}\n")
    world.parts().compactor.compact(RUN, world.deadline())
    actor = stopped_before(world, "list", lambda parts: parts.reader.page(RUN, PageRequest(after=2)))
    append(world, "5\n")
    world.parts().finalizer.close(RUN)
    world.clock.advance(21 * 60)
    world.parts().finalizer.compact_and_finalize(RUN, world.deadline())
    page = finish(actor)
    assert (page.logs, page.total) == ("2\n3\n4\n5", 6)


@pytest.mark.parametrize("key", [None, "key"])
def test_paused_writer_does_not_reuse_a_number(key: str | None) -> None:
    """The unsafe sequence 4 of decision 0001, from a position that was young when the request arrived."""
    world = World()
    position = world.parts().writer.append(RUN, Batch.from_text("1\n")).position
    append(world, "2\n")
    append(world, "3\n")
    world.clock.advance(59)
    mine = Batch.from_text("mine\n")
    actor = stopped_before(world, "put", lambda parts: parts.writer.append(RUN, mine, position=position, idempotency_key=key))
    world.parts().compactor.compact(RUN, world.deadline())
    world.clock.advance(30 + 15 * 60)  # a function's life, and how long S3 takes its signature
    world.parts().compactor.compact(RUN, world.deadline())
    finish(actor)
    assert world.read_all() == ["1", "2", "3", "mine"]


def test_stale_compaction_of_a_grown_partial_is_refused() -> None:
    """Both read the same partial.txt; the one that is twenty minutes late has listed segments that are retired since."""
    world = World()
    for number in range(3):
        append(world, f"{number}\n")
    world.parts().compactor.compact(RUN, world.deadline())
    append(world, "3\n")
    actor = stopped_before(world, "put", lambda parts: parts.compactor.compact(RUN, world.deadline()))
    for number in range(4, 7):
        append(world, f"{number}\n")
    compact_and_retire(world)
    assert world.names() == ["partial.txt", "segments/0000000006"]
    finish(actor)
    assert world.read_all() == [str(number) for number in range(7)]


def keyed(parts: Parts, text: str = "mine\n", position: str | None = None) -> Appended:
    return parts.writer.append(RUN, Batch.from_text(text), position=position, idempotency_key="key")


def slow_request(world: World, position: str | None) -> Actor:
    """A request that stops before each call of the store and of the index."""
    return Actor("slow", lambda wrap: keyed(world.parts(wrap(world.store), wrap(world.index)), position=position))


def only_puts(gate: StopAt, operation: str, call: Callable[[], Any]) -> Any:
    return gate(operation, call) if operation == "put" else call()


def send_other_lines(world: World) -> None:
    with pytest.raises(InvalidBatchError):
        keyed(world.parts(), "other lines\n")


MEANWHILE: dict[str, Callable[[World], object]] = {
    "nothing": lambda world: None,
    "the same request": lambda world: keyed(world.parts()),
    "another writer": lambda world: append(world, "of another\n"),
    "another writer and the same request": lambda world: (append(world, "of another\n"), keyed(world.parts())),
    "the same request and another writer": lambda world: (keyed(world.parts()), append(world, "of another\n")),
}


@pytest.mark.parametrize("presents", [False, True], ids=["without a position", "with a position that others have passed"])
@pytest.mark.parametrize("meanwhile", MEANWHILE)
def test_requests_with_one_key_at_once_store_one_batch(meanwhile: str, presents: bool) -> None:
    for steps in range(12):
        world = two_batches()
        position = world.parts().writer.append(RUN, Batch.from_bytes(b"")).position
        append(world, "3\n")
        actor = slow_request(world, position if presents else None)
        for _ in range(steps):
            if not actor.done:
                actor.step()
        MEANWHILE[meanwhile](world)
        stored = finish(actor).entry
        for _ in range(2):
            assert keyed(world.parts()).entry == stored
            send_other_lines(world)
            append(world, "later\n")
        assert world.read_all().count("mine") == 1


def test_claim_does_not_move_back_while_its_number_is_written() -> None:
    """Two requests with one key and a passed position; the second one dies anywhere while the first one is in its second PUT."""
    for number in range(8):
        world = World()
        position = world.parts().writer.append(RUN, Batch.from_bytes(b"")).position
        append(world, "of another\n")
        actor = slow_request(world, position)
        for _ in ("claim 0", "put 0", "head 0", "claim 1"):
            actor.step()
        assert actor.waiting_for == "put"
        gate = StopAt(number, AFTER, "crash")
        with suppress(Crash):
            keyed(world.parts(Intercepted(world.store, gate), Intercepted(world.index, gate)), position=position)
        actor.finish()
        append(world, "of another\n")
        assert keyed(world.parts()).repeated
        assert world.read_all().count("mine") == 1


def test_keyed_batch_retired_during_its_repeat_is_found() -> None:
    world = World()
    keyed(world.parts())
    append(world, "of another\n")
    world.clock.advance(21 * 60)
    actor = stopped_before(world, "head", keyed)
    world.parts().compactor.compact(RUN, world.deadline())
    assert world.names() == ["partial.txt", "segments/0000000001"]
    assert finish(actor).repeated
    assert world.read_all() == ["mine", "of another"]


def test_other_lines_under_a_key_in_doubt_are_refused() -> None:
    """Whether the first request's PUT takes effect is unknown until it is repeated."""
    for moment in (BEFORE, LATER):
        world, gate = World(), StopAt(0, moment, "error")
        with pytest.raises(UnavailableError):
            keyed(world.parts(Intercepted(world.store, partial(only_puts, gate))))  # type: ignore[arg-type]
        assert world.read_all() == []
        send_other_lines(world)
        gate.land()
        send_other_lines(world)
        assert keyed(world.parts()).repeated is (moment == LATER)
        assert world.read_all() == ["mine"]


LISTING_OPERATIONS: dict[str, Callable[[Parts], Any]] = {
    "append": lambda parts: parts.writer.append(RUN, Batch.from_text("mine\n")),
    "append with a key": lambda parts: parts.writer.append(RUN, Batch.from_text("mine\n"), idempotency_key="k"),
    "page": lambda parts: parts.reader.page(RUN, PageRequest()),
    "last lines": lambda parts: parts.reader.page(RUN, PageRequest(tail=2)),
    "close": lambda parts: parts.finalizer.close(RUN),
    "state of a run": lambda parts: parts.compactor.read_state(RUN),
    "lost lines": lambda parts: lost_lines(parts.compactor, parts.writer.tails, RUN),
}


def two_batches() -> World:
    world = World()
    append(world, "1\n")
    append(world, "2\n")
    return world


def without(world: World, is_gone: Callable[[int], bool]) -> tuple[Parts, list[int]]:
    """Parts whose segments disappear between a LIST and a HEAD; and the numbers that they request."""
    numbers: list[int] = []
    segments = world.layout.segments(RUN)

    def gate(operation: str, call: Any) -> Any:
        key = call.arguments[0] if operation == "head" else ""
        if key.startswith(segments):
            numbers.append(world.layout.sequence_of(RUN, key))
            if is_gone(numbers[-1]):
                raise ObjectNotFoundError(f"no such object key={key}")
        return call()

    return world.parts(Intercepted(world.store, gate), Intercepted(world.index, gate)), numbers


@pytest.mark.parametrize("name", LISTING_OPERATIONS)
def test_listed_segment_that_is_retired_before_its_head_is_not_damage(name: str) -> None:
    world = two_batches()
    actor = stopped_before(world, "head", LISTING_OPERATIONS[name])
    append(world, "3\n")
    compact_and_retire(world)
    finish(actor)
    assert world.read_all() == ["1", "2", "3", *(["mine"] if name.startswith("append") else [])]


@pytest.mark.parametrize("name", LISTING_OPERATIONS)
def test_listed_segment_without_object_is_damage(name: str) -> None:
    parts, numbers = without(two_batches(), lambda _: True)
    with pytest.raises(DamagedLogError, match="sequence=1"):
        LISTING_OPERATIONS[name](parts)
    assert numbers == [1, 1]


def test_listing_that_changes_at_each_attempt_ends_in_a_retryable_error() -> None:
    world = two_batches()

    def is_gone(_: int) -> bool:
        append(world, "more\n")
        return True

    parts, numbers = without(world, is_gone)
    with pytest.raises(StoreUnavailableError, match="keeps changing"):
        parts.writer.tails.find(RUN)
    assert numbers == list(range(1, 1 + ATTEMPTS))

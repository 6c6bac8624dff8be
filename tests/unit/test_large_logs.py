"""Logs whose copy takes longer than a function's timeout: the next pass resumes the upload."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from threading import Lock
from typing import Any

import pytest

from chalicelib.errors import DeadlineExceededError, ObjectNotFoundError, StoreUnavailableError, UnavailableError
from chalicelib.ports import PutOptions
from chalicelib.runlog import concatenation
from chalicelib.runlog.artifact import artifact_metadata
from chalicelib.runlog.batch import Batch
from chalicelib.runlog.layout import ParsedKey
from chalicelib.runlog.multipart_plan import SourceRange, UploadPart
from chalicelib.runlog.unfinished_uploads import plan_id
from tests.faults.interception import AFTER, BEFORE, Crash, Intercepted, StopAt
from tests.world import RUN, World

MIB = 1024 * 1024
GIB = 1024 * MIB
LINE = b"z" * 63 + b"\n"
COPY_S = 10.0
"""What S3 takes for a copied part, by the world's clock."""
PASS_S = 400.0


def world_of(size: int) -> World:
    """An open log in partial.txt, from three segments that are retired."""
    world = World()
    world.store.put_repeated(world.layout.partial(RUN), LINE, size, artifact_metadata(size // 64, size, 3, 1))
    append(world, "new\n")
    return world


def append(world: World, text: str) -> None:
    world.parts().writer.append(RUN, Batch.from_text(text))


class Slow:
    """A store with slow copies, which it counts."""

    def __init__(self, world: World) -> None:
        self.world, self.copies, self._lock = world, 0, Lock()

    def __call__(self, operation: str, call: Callable[[], Any]) -> Any:
        if operation == "copy_part":
            with self._lock:
                self.copies += 1
                self.world.clock.advance(COPY_S)
        return call()

    def compact(self) -> Any:
        parts = self.world.parts(Intercepted(self.world.store, self))  # type: ignore[arg-type]
        return parts.compactor.compact(RUN, self.world.deadline(PASS_S))

    def settle(self) -> Any:
        parts = self.world.parts(Intercepted(self.world.store, self))  # type: ignore[arg-type]
        return parts.finalizer.compact_and_finalize(RUN, self.world.deadline(PASS_S))


def passes(work: Callable[[], Any], most: int = 100) -> int:
    """Number of passes that a piece of work takes."""
    for number in range(1, most):
        try:
            work()
        except DeadlineExceededError:
            continue
        return number
    raise AssertionError("it never ends")


def partial_is(world: World, size: int, end: bytes) -> None:
    info = world.store.head(world.layout.partial(RUN))
    assert info.size == size + len(end)
    assert world.store.get(info.key, size - 64).body == LINE + end


def test_log_that_takes_several_passes_to_copy_is_compacted() -> None:
    size = 100 * GIB
    world = world_of(size)
    slow = Slow(world)
    assert passes(slow.compact) >= 4
    assert slow.copies == 200, "no part is copied twice"
    partial_is(world, size, b"new\n")
    assert world.store.uploads == 0 and "unfinished.json" not in world.names()


def test_lines_that_come_between_passes_are_left_to_the_next_compaction() -> None:
    size = 60 * GIB
    world = world_of(size)
    slow = Slow(world)
    number = 0

    def work() -> None:
        nonlocal number
        number += 1
        append(world, f"{number}\n")
        slow.compact()

    taken = passes(work)
    assert taken > 2 and slow.copies == 120
    partial_is(world, size, b"new\n1\n")
    assert passes(slow.compact) == taken
    partial_is(world, size, b"new\n" + b"".join(b"%d\n" % each for each in range(1, number + 1)))


def test_log_that_takes_several_passes_to_copy_is_finalized() -> None:
    size = 60 * GIB
    world = world_of(size)
    slow = Slow(world)
    assert not world.parts().finalizer.close(RUN).finalized
    assert passes(slow.settle) > 2
    assert slow.copies == 120
    assert world.store.get(world.layout.logs(RUN), size - 64).body == LINE + b"new\n"
    assert world.names() == ["logs.txt", "segments/0000000003", "segments/0000000004"]


def test_run_that_ends_while_its_compaction_is_unfinished_is_finalized() -> None:
    size = 40 * GIB
    world = world_of(size)
    slow = Slow(world)
    with pytest.raises(DeadlineExceededError):
        slow.compact()
    world.parts().finalizer.close(RUN)
    passes(slow.settle)
    assert world.store.head(world.layout.logs(RUN)).size == size + 4
    assert world.store.uploads == 0 and "unfinished.json" not in world.names()


def test_another_compactor_that_was_faster_ends_an_unfinished_upload() -> None:
    size = 40 * GIB
    world = world_of(size)
    slow = Slow(world)
    with pytest.raises(DeadlineExceededError):
        slow.compact()
    unfinished = world.body("unfinished.json")
    world.parts().compactor.compact(RUN, world.deadline())
    world.store.put(world.layout.unfinished(RUN), unfinished, PutOptions())
    append(world, "more\n")
    passes(slow.compact)
    partial_is(world, size, b"new\nmore\n")
    assert world.store.uploads == 0 and "unfinished.json" not in world.names()


def test_upload_that_the_lifecycle_aborted_is_reported_and_begun_anew() -> None:
    size = 40 * GIB
    world = world_of(size)
    slow = Slow(world)
    with pytest.raises(DeadlineExceededError):
        slow.compact()
    (upload_id,) = world.store._uploads
    world.store.abort_multipart(world.layout.partial(RUN), upload_id)
    with pytest.raises(StoreUnavailableError, match="cannot resume"):
        slow.compact()
    passes(slow.compact)
    partial_is(world, size, b"new\n")


def test_upload_of_few_parts_is_not_kept() -> None:
    world = world_of(10 * GIB)
    slow = Slow(world)
    parts = world.parts(Intercepted(world.store, slow))  # type: ignore[arg-type]
    with pytest.raises(DeadlineExceededError):
        parts.compactor.compact(RUN, world.deadline(30))
    assert world.store.uploads == 0 and "unfinished.json" not in world.names()


@pytest.mark.parametrize(
    "body", [b"", b"{}", b"[]", b'{"parts": 1}', b'{"upload_id": "x", "key": "y", "plan": "z", "through": 3, "parts": []}']
)
def test_invalid_record_is_ignored(body: bytes) -> None:
    size = 6 * GIB
    world = world_of(size)
    world.store.put(world.layout.unfinished(RUN), body, PutOptions())
    world.parts().compactor.compact(RUN, world.deadline())
    partial_is(world, size, b"new\n")


def test_plan_of_another_version_of_a_source_is_another_plan() -> None:
    """A run that was deleted and recreated may have a partial.txt of the same size."""
    one, other = (plan_id("k", [UploadPart((SourceRange("p", 0, GIB, GIB, etag),), copied=True)]) for etag in ("a", "b"))
    assert one != other


def test_plan_that_cuts_a_source_elsewhere_is_another_plan() -> None:
    """The sent parts contain other bytes: with the rest of this plan, some would be duplicated or missing."""
    cuts = ((0, 2 * GIB, 3 * GIB), (0, GIB, 3 * GIB), (1, 2 * GIB, 3 * GIB), (0, 2 * GIB, 3 * GIB - 1))
    plans = [
        [UploadPart((SourceRange("p", start, end, 3 * GIB, "a"),), copied=True) for start, end in pairwise(cut)] for cut in cuts
    ]
    assert len({plan_id("k", parts) for parts in plans}) == len(cuts)


def test_key_of_the_record_is_known() -> None:
    world = World()
    assert world.layout.parse(world.layout.unfinished(RUN)) == ParsedKey(RUN, "unfinished")
    assert world.layout.unfinished(RUN) > world.layout.segments(RUN) > world.layout.partial(RUN)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["error", "crash"])
@pytest.mark.parametrize("moment", [BEFORE, AFTER])
def test_stopped_at_every_call_it_ends_the_same(monkeypatch: pytest.MonkeyPatch, moment: str, how: str) -> None:
    """Two passes, the first out of time, interrupted at each call of either; then the schedule continues."""
    monkeypatch.setattr(concatenation, "MIN_RESUMABLE_PARTS", 2)
    monkeypatch.setattr(concatenation, "COPIERS", 2)
    size, number = 3 * GIB, 0
    while True:
        world, stop = world_of(size), StopAt(number, moment, how)
        slow = Slow(world)

        def gate(operation: str, call: Callable[[], Any], stop: StopAt = stop, slow: Slow = slow) -> Any:
            return stop(operation, lambda: slow(operation, call))

        for _ in range(2):
            parts = world.parts(Intercepted(world.store, gate), Intercepted(world.index, stop))  # type: ignore[arg-type]
            try:
                parts.compactor.compact(RUN, world.deadline(3 * COPY_S))
            except (UnavailableError, Crash):
                if how == "crash" and stop.fired:
                    break
        append(world, "more\n")
        for _ in range(4):
            with_suppressed(lambda world=world: world.parts().compactor.compact(RUN, world.deadline()))
        partial_is(world, size, b"new\nmore\n")
        assert "unfinished.json" not in world.names()
        if not stop.fired:
            break
        number += 1
    assert number > 10


def with_suppressed(work: Callable[[], Any]) -> None:
    """A pass of the schedule; a failed one is repeated."""
    try:
        work()
    except (UnavailableError, ObjectNotFoundError):
        return

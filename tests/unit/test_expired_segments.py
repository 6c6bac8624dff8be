"""Runs whose segments the lifecycle expired before their artifacts: the artifact that contains most is the log."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from chalicelib.runlog.batch import Batch
from chalicelib.runlog.log_end import list_all
from tests.support.segment_index import InMemorySegmentIndex
from tests.world import RUN, World

OLD = [f"old {number}" for number in range(3)]
NEW = [f"reopened {number}" for number in range(5)]


def append(world: World, lines: list[str]) -> None:
    for line in lines:
        world.parts().writer.append(RUN, Batch.from_text(f"{line}\n"))


def reopened_and_expired() -> World:
    """Abandoned (logs.txt), reopened and compacted (partial.txt contains more); then all segments and rows expire."""
    world = World()
    append(world, OLD)
    world.clock.advance(3600)
    world.parts().finalizer.abandon(RUN, world.clock.now_ms(), world.deadline())
    append(world, NEW)
    world.parts().compactor.compact(RUN, world.deadline())
    for found in list_all(world.store, world.layout.segments(RUN)):
        world.store.delete(found.key)
    world.index = InMemorySegmentIndex()
    assert world.names() == ["logs.txt", "partial.txt"]
    return world


def test_reopened_run_without_segments_is_read_from_partial() -> None:
    world = reopened_and_expired()
    assert world.read_all() == OLD + NEW
    whole = world.parts().reader.download(RUN)
    assert whole and whole.size_bytes == len(world.body("partial.txt"))


def test_append_to_reopened_run_without_segments_follows_partial() -> None:
    world = reopened_and_expired()
    entry = world.parts().writer.append(RUN, Batch.from_text("next\n")).entry
    assert entry and (entry.line, entry.byte, entry.sequence) == (len(OLD + NEW), len(world.body("partial.txt")), 9)
    assert entry.epoch == 2  # the first was before the reopening
    assert world.read_all() == [*OLD, *NEW, "next"]


@pytest.mark.parametrize("end", ["compact", "close"])
def test_reopened_run_without_segments_keeps_appended_lines(end: str) -> None:
    world = reopened_and_expired()
    append(world, ["next"])
    ends: dict[str, Callable[[], object]] = {
        "compact": lambda: world.parts().compactor.compact(RUN, world.deadline()),
        "close": lambda: world.parts().finalizer.close(RUN),
    }
    ends[end]()
    assert world.read_all() == [*OLD, *NEW, "next"]


def test_abandoned_run_without_segments_stays_abandoned() -> None:
    world = World()
    append(world, OLD)
    world.parts().finalizer.abandon(RUN, world.clock.now_ms() + 1, world.deadline())
    for found in list_all(world.store, world.layout.segments(RUN)):
        world.store.delete(found.key)
    world.index = InMemorySegmentIndex()
    assert world.read_all() == OLD
    append(world, NEW)
    assert world.read_all() == OLD + NEW

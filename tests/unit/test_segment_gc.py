"""Deletion of segments after their entries are stored: with a wrong index, and concurrent passes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chalicelib.errors import DamagedLogError, ObjectNotFoundError
from chalicelib.ports import ListedObject, SegmentEntry
from chalicelib.runlog.batch import Batch
from chalicelib.runlog.compaction import RETIRE_AFTER_MS, RETIRE_TOGETHER
from chalicelib.runlog.layout import ParsedKey
from chalicelib.runlog.legacy import find_legacy
from chalicelib.runlog.log_end import LogEndFinder, list_all
from chalicelib.runlog.segment_gc import SegmentGc, read_retired_entries
from tests.faults.interception import Intercepted
from tests.ingestion_harness import ingest_one, ingester_of, message, s3_record
from tests.support.publisher import InMemoryPublisher
from tests.support.run_catalog import InMemoryRunCatalog
from tests.world import RUN, World

NUMBERS = st.integers(0, 2**53)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
MARKS = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 10**6)), max_size=9).map(
    lambda steps: tuple(
        (sum(line for line, _ in steps[: end + 1]), sum(byte for _, byte in steps[: end + 1])) for end in range(len(steps))
    )
)
ENTRIES = st.builds(
    SegmentEntry, NUMBERS, st.sampled_from(["data", "seal"]), NUMBERS, NUMBERS, NUMBERS, NUMBERS, NUMBERS, TEXTS, NUMBERS, TEXTS, NUMBERS,
    TEXTS, st.sampled_from(["", "closed", "abandoned"]), MARKS,
)  # fmt: skip


def retirement(world: World, store: object = None) -> SegmentGc:
    port = store or world.store
    return SegmentGc(port, world.index, world.layout, LogEndFinder(port, world.index, world.layout))  # type: ignore[arg-type]


def written(world: World, count: int, key: str | None = None) -> list[ListedObject]:
    """Segments of a run, with their rows; the last one is not deleted."""
    for number in range(count + 1):
        entry = (
            world.parts()
            .writer.append(RUN, Batch.from_text("x\n" * (1 + number % 3), "host/ä"), idempotency_key=key and f"{key}{number}")
            .entry
        )
        assert entry
        world.index.put(RUN, [entry])
    return list(list_all(world.store, world.layout.segments(RUN)))[:-1]


def entries(world: World, listed: list[ListedObject]) -> list[SegmentEntry]:
    return [world.parts().writer.tails.segment(RUN, world.layout.sequence_of(RUN, found.key)) for found in listed]


@settings(deadline=None)
@given(st.lists(ENTRIES, min_size=1, max_size=5))
def test_entries_are_read_back(kept: list[SegmentEntry]) -> None:
    world = World()
    retirement(world).write_entries(RUN, kept)
    (found,) = world.store.list(world.layout.all_retired(RUN)).objects
    assert read_retired_entries(world.store.get(found.key).body) == kept
    assert world.layout.parse(found.key) == ParsedKey(RUN, "retired")


@pytest.mark.parametrize("body", [b"", b"x", b"\x1f\x8b\x08\x00", b"{}"])
def test_invalid_entries_are_damage(body: bytes) -> None:
    with pytest.raises(DamagedLogError):
        read_retired_entries(body)


@pytest.mark.parametrize("key", [None, "key-"])
@pytest.mark.parametrize("rows", ["all", "none", "some", "wrong size", "wrong place", "wrong end", "twice"])
def test_entries_are_those_of_the_segments_whatever_the_index_says(rows: str, key: str | None) -> None:
    world = World()
    listed = written(world, 12, key)
    expected = entries(world, listed)
    match rows:
        case "none":
            world.index.clear()
        case "some":
            world.index.clear()
            world.index.put(RUN, expected[2:9:3])
        case "wrong size":
            world.index.put(RUN, [replace(expected[4], bytes=99)])
        case "wrong place":
            world.index.clear()
            world.index.put(RUN, [*expected[:5], replace(expected[5], byte=10**6), *expected[6:]])
        case "wrong end":
            world.index.put(RUN, [replace(expected[4], lines=expected[4].lines + 1)])
        case "twice":
            world.index.put(RUN, [replace(expected[4], line=expected[6].line)])
    assert retirement(world).retire(RUN, listed) == 12
    assert world.retired_entries() == expected
    assert world.names() == ["segments/0000000012"]


@pytest.mark.slow
def test_more_than_a_thousand_go_in_several_objects() -> None:
    world = World()
    listed = written(world, 2300)
    expected = entries(world, listed)
    world.store.calls.clear()
    assert retirement(world).retire(RUN, listed) == 2300
    assert world.store.calls == {"head": 3, "put": 3, "delete_many": 3}
    assert world.retired_entries() == expected


def test_slower_pass_with_shorter_list_removes_no_entries() -> None:
    """Sequence 3 of decision 0016, in both orders."""
    for first, second in ((10, 20), (20, 10)):
        world = World()
        listed = written(world, 20)
        expected = entries(world, listed)

        def faster(operation: str, call, world=world, second=second, listed=listed):  # type: ignore[no-untyped-def]
            if operation == "put":
                retirement(world).retire(RUN, listed[:second])
            return call()

        retirement(world, Intercepted(world.store, faster)).retire(RUN, listed[:first])
        assert {entry.sequence: entry for entry in world.retired_entries()} == {entry.sequence: entry for entry in expected}


def test_late_pass_deletes_nothing_and_reads_again() -> None:
    world = World()
    listed = written(world, 5)
    retirement(world).retire(RUN, listed)
    with pytest.raises(ObjectNotFoundError):
        retirement(world).retire(RUN, listed)
    assert [entry.sequence for entry in world.retired_entries()] == list(range(5))


def test_entries_of_recreated_run_do_not_replace_old_ones() -> None:
    world = World()
    listed = written(world, 3)
    old = entries(world, listed)
    retirement(world).retire(RUN, listed)
    world.store.delete(world.layout.segment(RUN, 3))
    world.index.clear()
    world.clock.advance(60)
    listed = written(world, 3)
    new = entries(world, listed)
    retirement(world).retire(RUN, listed)
    assert sorted(world.retired_entries(), key=lambda entry: entry.appended_ms) == old + new


def test_running_run_is_retired_by_hundreds() -> None:
    world = World()
    written(world, RETIRE_TOGETHER - 2)
    world.clock.advance(RETIRE_AFTER_MS / 1000 + 1)
    written(world, 1)
    compactor = world.parts().compactor
    assert compactor.compact(RUN, world.deadline()).retired_segments == 0, "one is missing"
    world.clock.advance(RETIRE_AFTER_MS / 1000 + 1)
    assert compactor.compact(RUN, world.deadline()).retired_segments == RETIRE_TOGETHER, "it has come to rest"
    assert len(world.store.list(world.layout.all_retired(RUN)).objects) == 1


def test_notifications_of_kept_entries_cost_nothing_and_are_not_reported() -> None:
    world, runs, topic = World(), InMemoryRunCatalog(), InMemoryPublisher()
    retirement(world).retire(RUN, written(world, 3))
    (found,) = world.store.list(world.layout.all_retired(RUN)).objects
    world.store.calls.clear()
    report = ingest_one(ingester_of(world, runs, topic), message(s3_record(found.key)))
    assert (list(report.records), list(report.problems), topic.messages) == ([], [], [])
    assert world.store.calls == {} and runs.get(RUN) is None


def test_objects_of_openmetadata_are_found_among_two_keys() -> None:
    """``find_legacy`` lists two keys: objects of entries sort after both artifacts."""
    world = World()
    retirement(world).retire(RUN, written(world, 3))
    prefix = world.layout.run_prefix(RUN)
    (found,) = world.store.list(world.layout.all_retired(RUN)).objects
    assert prefix + "logs.txt" < prefix + "partial.txt" < found.key < world.layout.segments(RUN)
    assert find_legacy(world.store, world.layout, RUN) is None


def test_row_with_another_size_is_replaced_by_the_segments_metadata() -> None:
    """A row of an earlier log of the run with the same start: only the size differs, and no neighbour has a row."""
    world = World()
    listed = written(world, 3)
    expected = entries(world, listed)
    world.index.clear()
    world.index.put(RUN, [replace(expected[2], bytes=expected[2].bytes + 7, lines=9)])
    retirement(world).retire(RUN, listed)
    assert world.retired_entries() == expected

"""Compaction and finalization: written objects, deletions and their times, and interference of faults."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from chalicelib.errors import DamagedLogError, DeadlineExceededError, OutcomeUnknownError, StoreUnavailableError
from chalicelib.ports import PutOptions, Run, RunEnd
from chalicelib.runlog.artifact import artifact_metadata, artifact_of
from chalicelib.runlog.batch import Batch
from chalicelib.runlog.segment import metadata_of
from tests.faults.interception import BEFORE, Intercepted, StopAt
from tests.world import RUN, START_MS, World

MIB = 1024 * 1024
GIB = 1024 * MIB


def append(world: World, text: str) -> None:
    world.parts().writer.append(RUN, Batch.from_text(text))


def compact(world: World):  # type: ignore[no-untyped-def]
    return world.parts().compactor.compact(RUN, world.deadline())


def test_partial_txt_is_the_log_with_the_metadata_of_the_contract() -> None:
    world = World()
    append(world, "a\nb\n")
    append(world, "c\n")
    done = compact(world)
    info = world.store.head(world.layout.partial(RUN))
    assert world.body("partial.txt") == b"a\nb\nc\n"
    assert info.metadata == artifact_metadata(3, 6, 2, 1)
    assert {"last-flushed-line", "total-bytes", "writer-epoch", "writer-version"} <= set(info.metadata)
    assert (done.lines, done.bytes, done.compacted_segments, done.uploaded_bytes) == (3, 6, 2, 6)
    assert world.store.storage_class(info.key) is None


def test_an_idle_run_is_not_written_again() -> None:
    world = World()
    append(world, "a\n")
    compact(world)
    before = world.store.uploaded_bytes
    assert compact(world).compacted_segments == 0
    assert world.store.uploaded_bytes == before


def test_segments_are_retired_after_twenty_minutes_except_the_last() -> None:
    world = World()
    for number in range(3):
        append(world, f"{number}\n")
    compact(world)
    world.clock.advance(19 * 60 + 59)
    assert compact(world).retired_segments == 0
    world.clock.advance(2)
    assert compact(world).retired_segments == 2
    assert world.names() == ["partial.txt", "segments/0000000002"]
    assert [entry.sequence for entry in world.retired_entries()] == [0, 1]
    append(world, "3\n")
    assert world.read_all() == ["0", "1", "2", "3"]


def test_rows_are_written_before_compaction() -> None:
    world = World()
    for number in range(3):
        append(world, f"{number}\n")
    world.index.put(RUN, [world.parts().writer.tails.segment(RUN, 1)])
    compact(world)
    assert [row.sequence for row in world.index.rows_from(RUN, 0, 0, 10)] == [0, 1, 2]


def test_above_five_mebibytes_the_old_bytes_are_copied_by_the_store() -> None:
    world = World()
    append(world, ("x" * 1023 + "\n") * (5 * 1024 + 1))
    compact(world)
    append(world, "more\n")
    done = compact(world)
    assert (done.uploaded_bytes, done.copied_bytes) == (5, 5 * MIB + 1024)
    assert world.body("partial.txt").endswith(b"x\nmore\n")


@pytest.mark.slow
def test_two_hundred_mebibytes_compacted_a_hundred_times_are_uploaded_about_once() -> None:
    world = World()
    batch = ("y" * 1023 + "\n") * 2048
    for _ in range(100):
        append(world, batch)
        before = world.store.calls["put"]
        compact(world)
        assert world.store.calls["put"] - before <= 1
    written_by_appends = 100 * len(batch)
    assert (world.store.uploaded_bytes - written_by_appends) / written_by_appends <= 1.2


def test_a_six_gibibyte_log_is_finalized_without_its_bytes() -> None:
    """Acceptance behaviour 7: larger than S3's 5 GiB limit of a copy; no byte passes through the function."""
    world = World()
    size = 6 * GIB + 7
    line = b"z" * 63 + b"\n"
    size -= size % len(line)
    world.store.put_repeated(world.layout.partial(RUN), line, size, artifact_metadata(size // 64, size, 3, 1))
    tail = world.parts().writer.tails.find(RUN)
    assert (tail.sequence, tail.line, tail.byte) == (3, size // 64, size)
    append(world, "the end\n")
    before = world.store.uploaded_bytes
    done = world.parts().finalizer.close(RUN)
    assert not done.finalized, "a close does not wait for gigabytes"
    _, done = world.parts().finalizer.compact_and_finalize(RUN, world.deadline())
    assert done.finalized and done.bytes == size + 8
    assert world.store.uploaded_bytes - before == 8 and done.copied_bytes == size
    assert world.store.calls["copy_part"] >= 2
    assert world.store.get(world.layout.logs(RUN), size - 64, size + 8).body == line + b"the end\n"
    assert world.names() == ["logs.txt", "segments/0000000003", "segments/0000000004"]


def test_large_segments_are_copied_and_small_ones_gathered() -> None:
    world = World()
    append(world, ("a" * 1023 + "\n") * (6 * 1024))
    append(world, "small\n")
    append(world, ("b" * 1023 + "\n") * (12 * 1024))
    expected = b"".join(world.body(f"segments/{number:010d}") for number in range(3))
    done = compact(world)
    assert world.body("partial.txt") == expected
    assert done.uploaded_bytes <= 5 * MIB + 6 and done.copied_bytes >= 13 * MIB


def test_a_failed_compaction_loses_nothing_and_leaves_no_upload() -> None:
    world = World()
    append(world, ("x" * 1023 + "\n") * (6 * 1024))
    compact(world)
    append(world, "more\n")
    number = 0
    while True:
        stop = StopAt(number, BEFORE, "error")
        broken = world.parts(Intercepted(world.store, stop))  # type: ignore[arg-type]
        try:
            broken.compactor.compact(RUN, world.deadline())
        except StoreUnavailableError:
            number += 1
        if not stop.fired:
            break
        if stop.calls[-1] != "abort_multipart":
            assert world.store.uploads == 0
    assert number > 5
    assert world.body("partial.txt").endswith(b"x\nmore\n")


def test_a_deadline_stops_between_parts_and_the_next_pass_goes_on() -> None:
    world = World()
    append(world, "a\n")
    with pytest.raises(DeadlineExceededError):
        world.parts().compactor.compact(RUN, world.deadline(seconds=0))
    assert "partial.txt" not in world.names()
    compact(world)
    assert world.body("partial.txt") == b"a\n"


def test_a_gap_is_damage_and_nothing_is_written() -> None:
    world = World()
    for number in range(3):
        append(world, f"{number}\n")
    world.store.delete(world.layout.segment(RUN, 1))
    with pytest.raises(DamagedLogError, match="not consecutive"):
        compact(world)
    assert "partial.txt" not in world.names()


def test_segments_that_do_not_add_up_are_damage() -> None:
    world = World()
    append(world, "0\n")
    entry = world.parts().writer.tails.segment(RUN, 0)
    world.store.put(world.layout.segment(RUN, 0), b"longer than it was\n", PutOptions(metadata_of(entry)))
    append(world, "1\n")
    world.store.put(world.layout.segment(RUN, 0), b"0\n", PutOptions(metadata_of(entry)))
    with pytest.raises(DamagedLogError, match="add up"):
        compact(world)


def test_the_catalog_being_down_stops_compaction_not_closing() -> None:
    world = World()
    append(world, "a\n")
    down = world.parts(index=Intercepted(world.index, _always_down))  # type: ignore[arg-type]
    with pytest.raises(StoreUnavailableError):
        down.compactor.compact(RUN, world.deadline())
    closed = down.finalizer.close(RUN)
    assert (closed.sealed, closed.finalized) == ("closed", False)
    world.parts().finalizer.compact_and_finalize(RUN, world.deadline())
    assert world.body("logs.txt") == b"a\n"


def test_logs_txt_has_the_configured_class_and_the_seals_reason() -> None:
    world = World()
    append(world, "a\n")
    world.parts().finalizer.close(RUN)
    info = world.store.head(world.layout.logs(RUN))
    assert world.store.storage_class(info.key) == "STANDARD_IA"
    assert info.metadata == artifact_metadata(1, 2, 2, 1, "closed")
    assert all(world.store.storage_class(world.layout.segment(RUN, number)) is None for number in (0, 1))


def test_logs_txt_says_how_the_run_ended() -> None:
    world, end = World(), RunEnd("failed", exit_code=2, exception="ValueError: 42 % of löad", step="load", lost_lines=7)
    append(world, "a\n")
    world.parts().finalizer.abandon(RUN, world.clock.now_ms() + 1, world.deadline())
    logs = world.layout.logs(RUN)
    assert artifact_of(world.store.head(logs)).end == RunEnd("lost", ended_ms=START_MS)
    world.parts().finalizer.close(RUN, end=end)
    assert artifact_of(world.store.head(logs)).end == end
    assert world.store.head(logs).metadata["outcome"] == "failed"


def test_close_reports_lost_seal_response_and_can_be_repeated() -> None:
    world = World()
    append(world, "a\n")
    seal_put = 2  # after the query of the catalog (not the store's): the LIST, the HEAD, the PUT
    broken = world.parts(Intercepted(world.store, StopAt(seal_put, "after", "error")))  # type: ignore[arg-type]
    with pytest.raises(OutcomeUnknownError):
        broken.finalizer.close(RUN)
    assert world.parts().finalizer.close(RUN).finalized
    assert world.names() == ["logs.txt", "segments/0000000000", "segments/0000000001"]


def test_closing_after_abandoning_makes_it_final() -> None:
    world = World()
    append(world, "a\n")
    world.parts().finalizer.abandon(RUN, world.clock.now_ms() + 1, world.deadline())
    assert world.store.head(world.layout.logs(RUN)).metadata["reason"] == "abandoned"
    world.parts().finalizer.close(RUN)
    assert world.store.head(world.layout.logs(RUN)).metadata["reason"] == "closed"
    assert world.body("logs.txt") == b"a\n"


def test_markers_are_deleted_at_the_close() -> None:
    world, other = World(), Run(RUN.fqn, "other")
    append(world, "a\n")
    for run in (RUN, other):
        world.store.put(world.layout.marker(run, "host-1"), b"", PutOptions())
    world.parts().finalizer.close(RUN)
    left = world.store.list(world.layout.all_markers()).objects
    assert [found.key for found in left] == [world.layout.marker(other, "host-1")]


def test_closing_a_run_that_never_wrote_seals_it() -> None:
    world = World()
    assert world.parts().finalizer.close(RUN).finalized
    assert world.body("logs.txt") == b""
    assert world.read_all() == []


def test_short_read_of_a_segment_is_not_compacted() -> None:
    """The store returns fewer bytes than it listed: nothing is written, and the next pass compacts all bytes."""
    world = World()
    append(world, "0123456789\n")

    def short(operation: str, call: Callable[[], Any]) -> Any:
        answer = call()
        return replace(answer, body=answer.body[:-1]) if operation == "get" else answer

    with pytest.raises(StoreUnavailableError):
        world.parts(Intercepted(world.store, short)).compactor.compact(RUN, world.deadline())  # type: ignore[arg-type]
    assert "partial.txt" not in world.names()
    compact(world)
    assert world.body("partial.txt") == b"0123456789\n"


def _always_down(operation: str, call: object) -> object:
    raise StoreUnavailableError(f"down operation={operation}")

"""Damaged data: good parts are read, problems are reported, and the read succeeds; with ``mode=failfast`` the first problem is an
error."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from bench.stored_runs import START_MS, Bucket, StoredRun, event_numbers, raw_bytes
from chalicelib.errors import DamagedLogError
from glue_jobs.datasource import reading
from glue_jobs.datasource.problems import GONE, KEY, LINE, METADATA, MISSING
from glue_jobs.datasource.steps import latest
from tests.spark.conftest import Read
from tests.spark.memory import MemoryServer, Reading

STATES = ["segments", "compacted", "finalized"]


def _lines(first: int, end: int) -> bytes:
    return b"".join(b"2026-11-21 03:00:00,000 - svc.load - INFO - row %d\n" % number for number in range(first, end))


def _problems(bucket: Bucket, **options: str) -> list[tuple[str, str]]:
    """Kinds, and the last part of the keys."""
    return [(row["kind"], row["key"].rpartition("/")[2]) for row in bucket.rows(rows="problems", **options)]


def _fails(bucket: Bucket) -> None:
    for rows in ("events", "problems"):
        with pytest.raises(DamagedLogError):
            bucket.rows(mode="failfast", rows=rows)


@pytest.fixture
def run(bucket: Bucket) -> StoredRun:
    """Ten segments of 40 lines, and another run without damage."""
    bucket.run(run_id="other").lines(40)
    return bucket.run().lines(400)


def test_nothing_is_wrong(bucket: Bucket, run: StoredRun) -> None:
    assert _problems(bucket) == []
    assert raw_bytes(bucket.rows(mode="failfast")) == run.log


@pytest.mark.parametrize("size", ["64m", "40k"])
def test_segments_that_are_missing(bucket: Bucket, run: StoredRun, size: str) -> None:
    """Later lines keep their numbers."""
    for number in (3, 4, 7):
        run.server.delete(run.key(number))
    rows = bucket.rows(bytesPerPartition=size)
    assert raw_bytes(rows) == b"".join(body for number, body in enumerate(run.bodies) if number not in (3, 4, 7))
    assert event_numbers(rows) == [number for number in range(400) if number // 40 not in (3, 4, 7)]
    assert {(row["segment"], row["line"] // 40) for row in rows if row["run_id"] == "run-1"} == {
        (number, number) for number in range(10) if number not in (3, 4, 7)
    }
    found = _problems(bucket, bytesPerPartition=size)
    assert {(MISSING, "0000000003"), (MISSING, "0000000007")} <= set(found)
    assert {kind for kind, _ in found} == {MISSING}
    _fails(bucket)


def test_the_beginning_is_missing(bucket: Bucket, run: StoredRun) -> None:
    for number in (0, 1):
        run.server.delete(run.key(number))
    rows = bucket.rows()
    assert event_numbers(rows) == list(range(80, 400))
    assert raw_bytes(rows) == b"".join(run.bodies[2:])
    assert (MISSING, "0000000000") in _problems(bucket)
    _fails(bucket)


def test_a_segment_without_bytes_that_should_have_some(bucket: Bucket, run: StoredRun) -> None:
    run.server.put(run.key(5), b"", {"first-line": "200"}, run.at_ms)
    rows = bucket.rows()
    assert raw_bytes(rows) == b"".join(body for number, body in enumerate(run.bodies) if number != 5)
    assert event_numbers(rows) == [number for number in range(400) if number // 40 != 5]
    assert _problems(bucket)[0][0] == MISSING
    _fails(bucket)


def test_all_segments_without_bytes(bucket: Bucket) -> None:
    run = bucket.run().lines(120)
    for number in range(3):
        run.server.put(run.key(number), b"", None, run.at_ms)
    assert bucket.rows() == []
    assert bucket.rows(rows="problems") == []


@pytest.mark.parametrize(
    "changes",
    [{"metadata": None}, {"metadata": {"first-line": "many"}}, {"line": 7}, {"byte": 7}],
    ids=["none", "no number", "another line", "another byte"],
)
def test_metadata_that_is_wrong_changes_no_row(bucket: Bucket, run: StoredRun, changes: dict[str, Any]) -> None:
    right = bucket.rows()
    run.overwrite_segment(5, **changes)
    rows = bucket.rows()
    told = ("connector_id", "epoch")
    assert [{**row, **dict.fromkeys(told)} for row in rows] == [{**row, **dict.fromkeys(told)} for row in right]
    assert [kind for kind, _ in _problems(bucket)] == [METADATA]
    _fails(bucket)


@pytest.mark.parametrize("changes", [{"metadata": None}, {"line": 0, "byte": 0}], ids=["none", "another place"])
def test_metadata_that_is_wrong_where_a_task_begins(bucket: Bucket, run: StoredRun, changes: dict[str, Any]) -> None:
    """Each task then begins with a segment, and reads the first line's number from its metadata."""
    for number in range(1, 10):
        run.overwrite_segment(number, **changes)
    rows = bucket.rows(bytesPerPartition="40k")
    assert sorted(row["raw"] for row in rows if row["run_id"] == "run-1") == sorted(run.log.splitlines(keepends=True))
    assert METADATA in {kind for kind, _ in _problems(bucket, bytesPerPartition="40k")}


def test_metadata_of_logs_txt_that_is_wrong(bucket: Bucket, run: StoredRun) -> None:
    run.seal().finalize()
    log = run.log
    run.server.put(run.base + "logs.txt", log, {"total-bytes": "7", "next-segment": "x"}, run.at_ms)
    assert raw_bytes(bucket.rows()) == log
    assert {kind for kind, _ in _problems(bucket)} == {METADATA}
    _fails(bucket)


def test_no_metadata_at_all_on_partial_txt(bucket: Bucket, run: StoredRun) -> None:
    """The first segment after it is found from the segments' metadata."""
    run.compact(upto=6).retire(below=3)
    run.server.put(run.base + "partial.txt", b"".join(run.bodies[:6]), {"next-segment": "-1"}, run.at_ms)
    rows = bucket.rows()
    assert raw_bytes(rows) == run.log
    assert event_numbers(rows) == list(range(400))


def test_keys_that_are_no_runs_own(bucket: Bucket, run: StoredRun) -> None:
    for name in ("segments/7", "segments/00000000x1", "segments/0000000003.bak", "notes.txt"):
        run.server.put(run.base + name, b"something\n")
    assert raw_bytes(bucket.rows()) == run.log
    assert {kind for kind, _ in _problems(bucket)} == {KEY}
    assert len(_problems(bucket)) == 4


def test_a_segment_that_ends_within_a_line(bucket: Bucket, run: StoredRun) -> None:
    """No append writes such a segment. Its bytes are still part of the log."""
    run.overwrite_segment(5, body=run.bodies[5] + b"half a line", metadata={})
    rows = bucket.rows()
    assert raw_bytes(rows) == b"".join([*run.bodies[:6], b"half a line", *run.bodies[6:]])


def test_a_line_of_20_mb(read: Read, bucket: Bucket) -> None:
    long = b"x" * 20_000_000 + b"\n"
    short = len(_lines(0, 1))
    bucket.run().append(_lines(0, 3) + long, _lines(4, 6)).seal().finalize().retire()
    found = read().select("line", F.length("raw").alias("bytes")).collect()
    assert [(row["line"], row["bytes"]) for row in found] == [(line, 20_000_001 if line == 3 else short) for line in range(6)]
    assert [(row["line"], len(row["raw"])) for row in bucket.rows(bytesPerPartition="8m")] == [
        (row["line"], row["bytes"]) for row in found
    ]
    assert bucket.rows(rows="problems") == []


@pytest.mark.parametrize("is_final", [False, True], ids=["segments", "logs.txt"])
def test_a_line_that_is_too_long_for_a_row(bucket: Bucket, monkeypatch: pytest.MonkeyPatch, is_final: bool) -> None:
    """It is skipped, and counted."""
    monkeypatch.setattr(reading, "MAX_LINE_BYTES", 1_000_000)
    run = bucket.run().append(_lines(0, 3) + b"x" * 20_000_000 + b"\n" + _lines(4, 6), _lines(6, 8))
    if is_final:
        run.seal().finalize().retire()
    rows = bucket.rows()
    assert raw_bytes(rows) == _lines(0, 3) + _lines(4, 8)
    assert event_numbers(rows) == [0, 1, 2, 4, 5, 6, 7]
    assert bucket.rows(rows="problems") == [
        {
            "fqn": "svc.orders",
            "run_id": "run-1",
            "kind": LINE,
            "key": "line 3",
            "detail": "a line is too long to be a row line=3 bytes=20000001",
        }
    ]
    _fails(bucket)


def test_thousands_of_segments_of_one_line() -> None:
    server = MemoryServer()
    run = StoredRun(server, "svc.orders", "run-1", START_MS)
    log = _lines(0, 4000)
    run.append(*log.splitlines(keepends=True))
    reading_ = Reading(server.store)
    server.store.calls.clear()
    tasks = reading_.tasks()
    assert len(tasks) == 2  # a GET counts as 32 KiB
    assert set(server.store.calls) == {"list"} and server.store.calls["list"] <= 10
    rows = reading_.read(tasks)
    assert raw_bytes(rows) == log
    assert server.store.calls["get"] <= 4000 + 2 * 20


def test_what_expires_between_planning_and_reading(bucket: Bucket, run: StoredRun) -> None:
    """The rest is read."""
    begin = latest(bucket.options)
    for number in range(10):
        run.server.delete(run.key(number))
    rows = bucket.rows(endingOffsets=begin.text)
    assert {row["run_id"] for row in rows} == {"other"}
    assert {row["kind"] for row in bucket.rows(endingOffsets=begin.text, rows="problems")} == {GONE}
    with pytest.raises(DamagedLogError, match="no longer exist"):
        bucket.rows(endingOffsets=begin.text, mode="failfast")


@pytest.mark.behavior("Damaged segments do not stop a streaming query.")
def test_steps_over_damaged_data(bucket: Bucket, run: StoredRun) -> None:
    options = {**bucket.options, "run": "run-1", "flushAfter": "none"}
    run.server.delete(run.key(3))
    run.overwrite_segment(9, metadata=None)
    begin = latest(options)
    right = b"".join([*run.bodies[:3], *run.bodies[4:10]])
    assert raw_bytes(bucket.rows(run="run-1", endingOffsets=begin.text)) == right[: -len(_last(run))]
    run.lines(80, first=400)
    run.server.delete(run.key(10))
    run.seal()
    end = latest(options, begin)
    rows = bucket.rows(run="run-1", startingOffsets=begin.text, endingOffsets=end.text)
    assert raw_bytes(rows) == _last(run) + run.bodies[11]


def _last(run: StoredRun) -> bytes:
    return run.bodies[9].splitlines(keepends=True)[-1]


def test_a_task_fails_clearly(read: Read, bucket: Bucket, run: StoredRun) -> None:
    run.overwrite_segment(5, metadata=None)
    with pytest.raises(PySparkException, match="metadata"):
        read(mode="failfast").count()

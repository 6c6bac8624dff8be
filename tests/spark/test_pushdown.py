"""Data that filters exclude is not read: checked by counting requests at the store."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import functions as F
from pyspark.sql.datasource import EqualTo, GreaterThanOrEqual, In, LessThan, StringStartsWith

from bench.spark_bucket import BucketServer
from bench.stored_runs import MINUTE_MS, START_MS, Bucket, StoredRun, event_numbers, raw_bytes
from chalicelib.ports import Run
from tests.spark.conftest import Read
from tests.spark.memory import MemoryServer, Reading
from tests.support.run_catalog import InMemoryRunCatalog
from tests.support.segment_index import InMemorySegmentIndex

FQN, RUN, LINE, TIME = ("fqn",), ("run_id",), ("line",), ("timestamp",)
START = datetime.fromtimestamp(START_MS / 1000, UTC)


def _traffic_of(server: BucketServer) -> tuple[int, set[str]]:
    """The number of bytes read, and their runs."""
    return server.traffic.read_bytes, {"/".join(key.split("/")[1:3]) for key in server.traffic.keys}


@pytest.fixture
def pipelines(bucket: Bucket) -> Bucket:
    """Three pipelines with four runs each, of 100 lines in one object."""
    for fqn in ("svc.a", "svc.b", "other.c"):
        for number in range(4):
            bucket.run(fqn, f"run-{number}").lines(100, of=100).seal().finalize().retire()
    return bucket


@pytest.mark.parametrize(
    ("filters", "options", "runs"),
    [
        ([EqualTo(FQN, "svc.a")], {}, {f"svc.a/run-{number}" for number in range(4)}),
        ([EqualTo(FQN, "svc.a"), EqualTo(RUN, "run-2")], {}, {"svc.a/run-2"}),
        ([EqualTo(RUN, "run-2")], {}, {"svc.a/run-2", "svc.b/run-2", "other.c/run-2"}),
        ([In(FQN, ("svc.b", "none")), In(RUN, ("run-1", "run-3"))], {}, {"svc.b/run-1", "svc.b/run-3"}),
        ([StringStartsWith(FQN, "svc.")], {"run": "run-0"}, {"svc.a/run-0", "svc.b/run-0"}),
        ([], {"fqn": "*.[ab]"}, set()),
        (
            [],
            {"fqn": '["other.*", "svc.b"]', "run": "run-?"},
            {f"{fqn}/run-{number}" for fqn in ("svc.b", "other.c") for number in range(4)},
        ),
        ([EqualTo(FQN, "svc.a")], {"fqn": "svc.b"}, set()),
        ([EqualTo(FQN, "svc.none")], {}, set()),
    ],
)
def test_only_runs_with_the_right_names_are_read(
    pipelines: Bucket, filters: list[Any], options: dict[str, str], runs: set[str]
) -> None:
    pipelines.server.traffic.reset()
    rows = pipelines.rows(*filters, **options)
    assert {f"{row['fqn']}/{row['run_id']}" for row in rows} == runs
    assert len(rows) == 100 * len(runs)
    size, read = _traffic_of(pipelines.server)
    assert read == runs
    assert size == sum(len(row["raw"]) for row in rows)
    assert pipelines.server.traffic.requests["GET"] == len(runs)


def test_a_query_of_one_pipeline_and_run_in_spark(read: Read, pipelines: Bucket) -> None:
    """Lists the run and gets it, and sends no other request."""
    frame = read(pushdown="true").where(
        (F.col("fqn") == "svc.a") & (F.col("run_id") == "run-2") & (F.col("line") >= 10) & (F.col("line") < 13)
    )
    pipelines.server.traffic.reset()
    assert sorted(row["message"] for row in frame.collect()) == ["row 10", "row 11", "row 12"]
    assert dict(pipelines.server.traffic.requests) == {"LIST": 1, "GET": 1}


def test_queries_of_one_data_frame_do_not_change_each_other(read: Read, pipelines: Bucket) -> None:
    frame = read()
    first, second = (frame.where(F.col("line") == line) for line in (0, 1))
    assert [first.count(), frame.count(), second.count()] == [12, 1200, 12]
    assert {row["line"] for row in first.union(second).collect()} == {0, 1}
    assert first.join(frame, ["fqn", "run_id"]).count() == 1200


def test_without_pushdown_the_rows_are_the_same(read: Read, pipelines: Bucket) -> None:
    frame = read(pushdown="false").where((F.col("fqn") == "svc.a") & (F.col("line") < 2))
    assert frame.count() == 8


def test_filters_that_cannot_be_used_are_left_to_spark(read: Read, pipelines: Bucket) -> None:
    frame = read(pushdown="true").where(
        (F.col("fqn") != "svc.a") & (F.col("fqn").rlike("^svc") | (F.col("run_id") == "none")) & (F.col("line") % 50 == 0)
    )
    assert {(row["fqn"], row["line"]) for row in frame.collect()} == {("svc.b", 0), ("svc.b", 50)}


def test_lines_of_a_run_in_segments(bucket: Bucket) -> None:
    """1,000 segments: a binary search, the segments with the lines, and the sample for the format."""
    run = bucket.run().lines(4000, of=4)
    bucket.server.traffic.reset()
    rows = bucket.rows(GreaterThanOrEqual(LINE, 2000), LessThan(LINE, 2010))
    assert event_numbers(rows) == list(range(2000, 2010))
    assert raw_bytes(rows) == b"".join(run.log.splitlines(keepends=True)[2000:2010])
    assert bucket.server.traffic.read_bytes < 50 * 1024 < len(run.log) / 4
    assert bucket.server.traffic.requests["HEAD"] <= 22


def test_the_first_lines_of_a_long_log(bucket: Bucket) -> None:
    run = bucket.run().append(b"".join(b"row %d\n" % number for number in range(500_000))).seal().finalize().retire()
    bucket.server.traffic.reset()
    rows = bucket.rows(LessThan(LINE, 100))
    assert raw_bytes(rows) == b"".join(b"row %d\n" % number for number in range(100))
    assert bucket.server.traffic.read_bytes <= 128 * 1024 < len(run.log) / 30


def test_events_that_lie_across_the_first_wanted_line(bucket: Bucket) -> None:
    """``line`` is the first line of an event: an event that began before the filter's line is excluded."""
    trace = b"2026-11-21 03:00:01,500 - svc.load - ERROR - failed\nTraceback (most recent call last):\n  x\n  y\nValueError: 42\n"
    run = bucket.run().append(*[trace] * 100)
    rows = bucket.rows(GreaterThanOrEqual(LINE, 252))
    assert event_numbers(rows) == list(range(255, 500, 5))
    assert raw_bytes(rows) == trace * 49
    assert run.log.endswith(raw_bytes(rows))


def _hour(number: int) -> tuple[GreaterThanOrEqual, LessThan]:
    first = START + timedelta(hours=number)
    return GreaterThanOrEqual(TIME, first), LessThan(TIME, first + timedelta(hours=1))


def _expected(log: bytes, first: str, end: str) -> bytes:
    """The lines with timestamps between two times of the day."""
    return b"".join(line for line in log.splitlines(keepends=True) if first <= line[11:19].decode() < end)


@pytest.mark.behavior("Filters on pipeline, run, time and line leave excluded data unread.")
def test_an_hour_of_a_run_of_a_day(bucket: Bucket) -> None:
    """One segment every five minutes: reads those of the hour, and of 15 minutes before and after it."""
    run = bucket.run().lines(20 * 60, of=5, every_ms=5 * MINUTE_MS)
    bucket.server.traffic.reset()
    rows = bucket.rows(*_hour(10))
    assert raw_bytes(rows) == _expected(run.log, "13:00:00", "14:00:00")
    assert len(rows) == 12 * 5
    sample, check = 16, 4 + 4  # the format is detected from the first segments, the clock is checked with the first and the last
    before = 16  # 4 KiB, in which an event begins
    assert 12 <= bucket.server.traffic.requests["GET"] <= 12 + 2 * 4 + sample + check + before + 2
    assert bucket.server.traffic.read_bytes < len(run.log) / 4


def test_an_hour_of_runs_of_an_hour(bucket: Bucket) -> None:
    """The listing shows when finalized logs ended: earlier ones are not read, and of later ones only the first bytes."""
    runs = []
    for hour in range(18):
        run = bucket.run(run_id=f"run-{hour:02d}", at_ms=START_MS + hour * 60 * MINUTE_MS).lines(3000, of=50, every_ms=MINUTE_MS)
        runs.append(run.seal().finalize().retire())
    bucket.server.traffic.reset()
    rows = bucket.rows(*_hour(6))
    assert raw_bytes(rows, "run-06") == runs[6].log
    assert len(rows) == 3000
    assert _traffic_of(bucket.server)[1] == {f"svc.orders/run-{hour:02d}" for hour in range(5, 18)}


def test_a_zone_that_was_not_given_leaves_nothing_out(bucket: Bucket, caplog: pytest.LogCaptureFixture) -> None:
    """Timestamps are two hours after their arrival: the lines are read nevertheless, and a warning is logged."""
    run = bucket.run().lines(20 * 60, of=5, every_ms=5 * MINUTE_MS, seconds=2 * 3600)
    rows = bucket.rows(*_hour(10))
    assert raw_bytes(rows) == _expected(run.log, "13:00:00", "14:00:00")
    assert len(rows) == 12 * 5
    assert "check the option zone" in caplog.text
    right = bucket.rows(*_hour(10), zone="+02:00")
    assert raw_bytes(right) == _expected(run.log, "15:00:00", "16:00:00")


def test_a_clock_that_is_behind_leaves_nothing_out(bucket: Bucket) -> None:
    run = bucket.run().lines(20 * 60, of=5, every_ms=5 * MINUTE_MS, seconds=-2 * 3600)
    rows = bucket.rows(*_hour(10))
    assert raw_bytes(rows) == _expected(run.log, "13:00:00", "14:00:00")
    assert len(rows) == 12 * 5


def test_from_and_to_are_a_filter(bucket: Bucket) -> None:
    bucket.run().lines(20 * 60, of=5, every_ms=5 * MINUTE_MS).append(b"no time\n")
    times = {"from": "2026-11-21T10:00", "to": "2026-11-21T11:00"}
    assert bucket.rows(**times) == bucket.rows(*_hour(7))
    assert len(bucket.rows(**times)) == 60
    assert len(bucket.rows(**times, timeSlack="none")) == 60


def test_status(bucket: Bucket) -> None:
    bucket.run(run_id="open").lines(80)
    bucket.run(run_id="compacted").lines(80).compact()
    bucket.run(run_id="sealed").lines(80).compact(upto=1).seal()
    bucket.run(run_id="finalized").lines(80).seal().finalize().retire()
    bucket.run(run_id="reopened").lines(80).seal("abandoned").finalize("abandoned").reopen().lines(80, first=80)
    bucket.server.traffic.reset()

    def runs(status: str) -> set[str]:
        return {row["run_id"] for row in bucket.rows(status=status)}

    assert runs("open") == {"open", "compacted", "reopened"}
    assert runs("sealed") == {"sealed"}
    assert runs("finalized") == {"finalized"}
    assert runs("sealed, Finalized") == {"sealed", "finalized"}


class Catalogued:
    """Runs in memory with their catalog rows, retired or not."""

    def __init__(self) -> None:
        self.server, self.index, self.runs = MemoryServer(), InMemorySegmentIndex(), InMemoryRunCatalog()

    def run(self, run_id: str, at_ms: int = START_MS) -> StoredRun:
        return StoredRun(self.server, "svc.orders", run_id, at_ms)

    def known(self, run: StoredRun) -> None:
        """Ingest a run into the catalog."""
        name = Run(run.fqn, run.run_id)
        self.index.put(name, run.entries)
        for entry in run.entries:
            self.runs.record_segment(name, entry)

    def rows(self, *filters: Any, **options: str) -> list[dict[str, Any]]:
        """Rows of a read that uses the catalog too; ``calls`` counts its requests to the store."""
        reading = Reading(self.server.store, self.index, self.runs, **options).where(*filters)
        self.server.store.calls.clear()
        return reading.rows()

    @property
    def gets(self) -> int:
        return self.server.store.calls["get"]


def test_runs_that_began_later_are_not_opened_where_the_catalog_knows_it() -> None:
    """The last lines of one run are read to check its clock; then the format's sample and the rows, in one request."""
    world = Catalogued()
    runs = [
        world.run(f"run-{hour:02d}", START_MS + hour * 60 * MINUTE_MS).lines(600, of=50, every_ms=MINUTE_MS).seal()
        for hour in range(18)
    ]
    for run in runs:
        world.known(run)
        run.finalize().retire()
    rows = world.rows(*_hour(6))
    assert raw_bytes(rows, "run-06") == runs[6].log
    assert len(rows) == 600
    assert world.gets <= 4


def test_an_hour_of_a_finished_run_of_a_day_where_the_catalog_knows_it() -> None:
    world = Catalogued()
    run = world.run("run-1").lines(288 * 100, of=100, every_ms=5 * MINUTE_MS).seal()
    world.known(run)
    run.finalize().retire()
    rows = world.rows(*_hour(10))
    assert len(rows) == 12 * 100
    assert {row["segment"] for row in rows} == set(range(120, 132))
    assert raw_bytes(rows) == b"".join(run.bodies[120:132])


@pytest.mark.parametrize("first", [0, 1, 777, 28_799])
def test_lines_of_a_finished_run_where_the_catalog_knows_its_segments(first: int) -> None:
    world = Catalogued()
    run = world.run("run-1").append(*(b"row %d\n" % number * 7 for number in range(4_115)), connector="connector-7").seal()
    world.known(run)
    run.finalize().retire()
    rows = world.rows(GreaterThanOrEqual(LINE, first), LessThan(LINE, first + 100))
    lines = run.log.splitlines(keepends=True)
    assert raw_bytes(rows) == b"".join(lines[first : first + 100])
    assert [(row["segment"], row["connector_id"], row["epoch"]) for row in rows] == [
        (line // 7, "connector-7", 1) for line in range(first, min(first + 100, len(lines)))
    ]


def test_cuts_of_a_finished_run_are_asked_of_the_catalog() -> None:
    """Planning reads no byte of the log."""
    world = Catalogued()
    run = world.run("run-1").lines(20_000, of=100).seal()
    world.known(run)
    run.finalize().retire()
    reading = Reading(world.server.store, world.index, bytesPerPartition="100k")
    world.server.store.calls.clear()
    tasks = reading.tasks()
    assert world.gets == 0
    assert 5 < len(tasks) < 20
    assert raw_bytes(reading.read(tasks)) == run.log
    assert event_numbers(reading.read(tasks)) == list(range(20_000))


@pytest.mark.parametrize("state", ["segments", "finalized", "catalogued"])
def test_any_line_of_any_log_is_found_by_its_number(state: str) -> None:
    """Without earlier lines, the start of an event cannot be detected in lines of an unknown format."""
    world = Catalogued()
    run = world.run("run-1")
    chance = random.Random(5)
    kinds = [
        b"no format at all\n",
        b"  indented\n",
        b"{\n",
        b'  "a": 1\n',
        b"}\n",
        b"2026-11-21 03:00:01,000 - svc.load - INFO - row\n",
    ]
    for _ in range(150):
        run.append(b"".join(chance.choice(kinds) for _ in range(chance.randint(1, 4))))
    run.seal()
    if state == "catalogued":
        world.known(run)
    if state != "segments":
        run.finalize().retire()
    index = world.index if state == "catalogued" else None
    whole = {row["line"]: row for row in Reading(world.server.store, index).rows()}
    for first in range(0, run.entries[-1].line, 3):
        rows = Reading(world.server.store, index).where(GreaterThanOrEqual(LINE, first), LessThan(LINE, first + 2)).rows()
        assert rows == [whole[line] for line in (first, first + 1) if line in whole]


def test_objects_over_many_lines_are_found_by_their_time(bucket: Bucket) -> None:
    """The first line of such an object has no time."""
    run = bucket.run()
    for number in range(240):
        stamp = START + timedelta(minutes=5 * number)
        run.append(
            b"".join(
                b'{\n  "timestamp": "%s",\n  "message": "row %d"\n}\n'
                % (f"{stamp + timedelta(seconds=each):%Y-%m-%dT%H:%M:%SZ}".encode(), each)
                for each in range(3)
            ),
            every_ms=5 * MINUTE_MS,
        )
    rows = bucket.rows(*_hour(10))
    assert raw_bytes(rows) == b"".join(run.bodies[120:132])
    assert len(rows) == 36

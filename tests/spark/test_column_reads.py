"""Slices that are read as columns have the rows of those that are read row by row."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import EqualTo, Filter, GreaterThanOrEqual, In, LessThan

from bench.stored_runs import START_MS, StoredRun
from glue_jobs.columnar.outlines import OutlineParser
from glue_jobs.datasource import batches, column_reading, reading
from glue_jobs.datasource.schema import EVENTS, arrow_schema, schema_of
from tests.sampling import seed_of
from tests.spark.memory import MemoryServer, Reading
from tests.spark.test_pushdown import Catalogued

ALL = schema_of(EVENTS).fieldNames()
FIRST = datetime.fromtimestamp(START_MS / 1000, UTC)
FILTERS: dict[str, Sequence[Filter]] = {
    "none": (),
    "levels": (In(("level",), ("ERROR", "warn")),),
    "lines": (GreaterThanOrEqual(("line",), 100), LessThan(("line",), 300)),
    "times": (
        GreaterThanOrEqual(("timestamp",), FIRST + timedelta(minutes=5)),
        LessThan(("timestamp",), FIRST + timedelta(minutes=9)),
    ),
    "since": (GreaterThanOrEqual(("timestamp",), FIRST + timedelta(minutes=9)), EqualTo(("level",), "INFO")),
    "nothing": (EqualTo(("line",), -1),),
}
STATES = ["segments", "compacted", "finalized", "catalogued", "missing", "lying", "long line"]


def _body(chance: random.Random, minute: int) -> bytes:
    at = FIRST + timedelta(minutes=minute)
    kinds = [
        *[
            f"{at:%Y-%m-%d %H:%M:%S},123 - svc.load - {level} - é{minute}\n".encode()
            for level in ("INFO", "INFO", "ERROR", "WARNING")
        ],
        *(
            b"  more\n",
            b"\n",
            b"Traceback (most recent call last):\n",
            b"ValueError: x\n",
            b'{"level":"error","msg":"x"}\n',
            b"{\n",
            b"}\n",
        ),
        *(b"no format \xff\n", b"\x1b[31m red\r\n"),
    ]
    return b"".join(chance.choice(kinds) for _ in range(chance.randint(1, 60)))


def _stored(state: str, monkeypatch: pytest.MonkeyPatch) -> Reading:
    world, chance = Catalogued(), random.Random(seed_of("column reads"))
    run = world.run("run-1")
    for minute in range(20):
        run.append(_body(chance, minute), connector=f"connector-{minute // 3}", every_ms=60_000)
    indentation = b"  " if state == "missing" else b""
    run.append(indentation + b"2026-11-21 03:20:00,000 - svc.load - INFO - the last line lacks its newline")
    if state == "missing":
        for number in (0, 7, 8, 19):
            run.server.delete(run.key(number))
    elif state == "lying":
        run.overwrite_segment(5, line=7)
        run.overwrite_segment(9, metadata=None)
    elif state == "long line":
        monkeypatch.setattr(reading, "MAX_LINE_BYTES", 5000)
        run.overwrite_segment(5, b"x" * 9000)
    elif state == "compacted":
        run.compact(upto=9).retire(below=9)
    elif state in ("finalized", "catalogued"):
        run.seal()
        if state == "catalogued":
            world.known(run)
        run.finalize().retire()
    return Reading(world.server.store, world.index if state == "catalogued" else None, bytesPerPartition="600k")


@pytest.mark.parametrize("filters", FILTERS)
@pytest.mark.parametrize("state", STATES)
def test_columns_equal_rows(state: str, filters: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reading_ = _stored(state, monkeypatch).where(*FILTERS[filters])

    def read(least_bytes: int) -> tuple[list[dict[str, Any]], set[str]]:
        monkeypatch.setattr(column_reading, "LEAST_BYTES", least_bytes)
        reading_.problems.reported.clear()
        return reading_.rows(), {problem.detail for problem in reading_.problems.reported}

    by_rows, by_columns = read(10**9), read(0)
    assert by_columns == by_rows
    positions = [
        row
        for task in reading_.tasks()
        for batch in reading_.task().batches(task.slices, ["line", "raw"])
        for row in batch.to_pylist()
    ]
    assert positions == [{"line": row["line"], "raw": row["raw"]} for row in by_rows[0]]
    assert state == "lying" or bool(by_rows[0]) == (filters != "nothing")  # wrong numbers can hide lines from a filter


@pytest.mark.parametrize("least_bytes", [0, 10**9])
@pytest.mark.parametrize("log_format", ["", "python"])
@pytest.mark.parametrize("state", ["segments", "compacted", "finalized"])
def test_zone_of_the_run_wins_over_the_option(
    state: str, log_format: str, least_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(column_reading, "LEAST_BYTES", least_bytes)
    world = Catalogued()
    for zone in ("+02:00", ""):
        run = StoredRun(world.server, "svc.orders", f"run{zone}", START_MS, zone=zone).lines(
            60, of=10, seconds=7200 if zone else -3600
        )
        if state == "compacted":
            run.compact(upto=4).retire(below=4)
        elif state == "finalized":
            run.seal().finalize().retire()
    options = {"logFormat": log_format} if log_format else {}
    reading_ = Reading(world.server.store, zone="-01:00", timeSlack="2m", **options)
    times = [START_MS * 1000 + line // 10 * 1_000_000 + 123_000 for line in range(60)] * 2
    assert [row["timestamp"] for row in reading_.rows()] == times
    late = reading_.where(GreaterThanOrEqual(("timestamp",), FIRST + timedelta(seconds=3)))
    assert [row["timestamp"] for row in late.rows()] == [each for each in times if each >= START_MS * 1000 + 3_000_000]


def test_selected_columns_are_the_same_and_others_are_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    server = MemoryServer()
    StoredRun(server, "svc.orders", "run-1", START_MS).lines(1000, of=500)
    reading_ = Reading(server.store)
    (task,) = reading_.tasks()
    everything = pa.Table.from_batches(reading_.task().batches(task.slices, ALL))
    monkeypatch.setattr("glue_jobs.columnar.columns.EventColumns.messages", None)
    for columns in (["line"], ["raw", "line"], ["epoch", "timestamp", "level"], ["run_id", "outcome", "segment", "logger"]):
        table = pa.Table.from_batches(reading_.task().batches(task.slices, columns))
        assert table.schema == arrow_schema(columns, EVENTS)
        assert table == everything.select(columns)


def test_small_slices_share_batches_and_large_ones_are_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "MAX_ROWS", 700)
    monkeypatch.setattr(batches, "_JOINED_ROWS", 200)
    parsed: list[int] = []
    parse = OutlineParser.parse
    monkeypatch.setattr(OutlineParser, "parse", lambda self, body, **how: parsed.append(len(body)) or parse(self, body, **how))
    server = MemoryServer()
    counts = [10, 20, 2000, 5, 300, 300]
    for number, count in enumerate(counts):
        StoredRun(server, "svc.orders", f"run-{number}", START_MS).lines(count, of=500)
    reading_ = Reading(server.store)
    (task,) = reading_.tasks()
    found = list(reading_.task().batches(task.slices, ["run_id"]))
    assert max(batch.num_rows for batch in found) <= 700 and len(found) <= 6
    names = pa.Table.from_batches(found).column("run_id").to_pylist()
    assert names == [f"run-{number}" for number, count in enumerate(counts) for _ in range(count)]
    assert all(size >= column_reading.LEAST_BYTES for size in parsed) and parsed

"""A run's rows are the bytes of its log, for all kinds of objects that hold it."""

from __future__ import annotations

import re
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow.parquet as pq
import pytest
from chispa.dataframe_comparer import assert_df_equality
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from bench.stored_runs import START_MS, Bucket, StoredRun, event_numbers, raw_bytes
from glue_jobs.datasource.options import PARSERS
from glue_jobs.datasource.schema import schema_of
from glue_jobs.job_runtime import session
from tests.docs.pages import blocks
from tests.spark.conftest import PROJECT, Read

TRACE = (
    b"2026-11-21 03:00:01,500 - svc.load - ERROR - failed\n"
    b"Traceback (most recent call last):\n"
    b'  File "load.py", line 12, in load\n'
    b"    raise ValueError(row)\n"
    b"ValueError: 42\n"
)
BEFORE = b"2026-11-21 03:00:01,000 - svc.load - INFO - begin\n"
BEHIND = b"2026-11-21 03:00:02,000 - svc.load - INFO - end\n"


def test_every_column_of_an_event(spark: SparkSession, bucket: Bucket, read: Read) -> None:
    bucket.run().append(BEFORE, connector="connector-7").append(TRACE + BEHIND)
    schema = StructType.fromDDL(
        "fqn string not null, run_id string not null, line bigint not null, timestamp timestamp, level string, logger string, "
        "message string, raw binary not null, segment bigint, connector_id string, epoch int, outcome string"
    )

    def at(ms: int) -> datetime:
        return datetime.fromtimestamp((START_MS + ms) / 1000, UTC)

    message = (
        'failed\nTraceback (most recent call last):\n  File "load.py", line 12, in load\n    raise ValueError(row)\nValueError: 42'
    )
    expected = spark.createDataFrame(
        [
            ("svc.orders", "run-1", 0, at(1000), "INFO", "svc.load", "begin", BEFORE, 0, "connector-7", 1, "running"),
            ("svc.orders", "run-1", 1, at(1500), "ERROR", "svc.load", message, TRACE, 1, None, 1, "running"),
            ("svc.orders", "run-1", 6, at(2000), "INFO", "svc.load", "end", BEHIND, 1, None, 1, "running"),
        ],
        schema,
    )
    assert_df_equality(read(), expected, ignore_row_order=True, ignore_nullable=True)


def _segments(run: StoredRun) -> None:
    """The log as it was written."""


def _compacted(run: StoredRun) -> None:
    run.compact(upto=7).retire(below=7)


def _compacted_and_not_retired(run: StoredRun) -> None:
    run.compact()


def _sealed(run: StoredRun) -> None:
    run.compact(upto=5).seal()


def _finalized(run: StoredRun) -> None:
    run.seal().finalize().retire()


def _finalized_a_moment_ago(run: StoredRun) -> None:
    run.compact(upto=4).seal().finalize()


def _reopened(run: StoredRun) -> None:
    run.seal("abandoned").finalize("abandoned").retire().reopen().lines(120, first=800)


def _reopened_and_compacted(run: StoredRun) -> None:
    run.seal("abandoned").finalize("abandoned").reopen().lines(120, first=800).compact(upto=12).retire(below=12)


def _expired(run: StoredRun) -> None:
    run.seal().finalize().retire()
    run.server.delete(run.key(len(run.entries) - 1))


STATES = [
    _segments, _compacted, _compacted_and_not_retired, _sealed, _finalized, _finalized_a_moment_ago, _reopened,
    _reopened_and_compacted, _expired,
]  # fmt: skip


@pytest.mark.behavior("Spark's rows of a run equal its log, open or finished.")
@pytest.mark.parametrize("state", STATES)
def test_the_rows_are_the_log_in_every_state(bucket: Bucket, state: Any) -> None:
    run = bucket.run().lines(400).append(TRACE, BEFORE + TRACE[:60]).append(TRACE[60:] + BEHIND)
    state(run)
    rows = bucket.rows()
    assert raw_bytes(rows) == run.log
    text = run.log.splitlines(keepends=True)
    heads = [number for number, line in enumerate(text) if line.startswith(b"2026-")]
    assert event_numbers(rows) == heads
    assert all(row["raw"].startswith(text[row["line"]]) for row in rows)


def test_bytes_that_are_no_text_and_all_kinds_of_line_ends(bucket: Bucket) -> None:
    log = (
        b"2026-11-21 03:00:01,000 - svc.load - INFO - caf\xe9 \xff\xfe\r\n"
        b"\n"
        b"\r\n"
        b"plain \xe2\x80\xa8 separator \x0b\x0c\x85 \x00 zero\n"
        b"2026-11-21 03:00:01,000 - svc.load - INFO - na\xc3\xafve\n"
    )
    bucket.run().append(log)
    rows = bucket.rows()
    assert raw_bytes(rows) == log
    assert [row["message"] for row in rows if row["line"] in (0, 4)] == ["caf\ufffd \ufffd\ufffd", "naïve"]


def test_half_a_pair_of_utf_16_that_json_can_spell(bucket: Bucket) -> None:
    log = b'{"level":"info","message":"half \\ud800 pair","timestamp":"2026-11-21T03:00:00Z"}\n' * 3
    bucket.run().append(log)
    rows = bucket.rows()
    assert raw_bytes(rows) == log
    assert rows[0]["message"].startswith("half ") and rows[0]["message"].endswith(" pair")


def test_a_log_that_ends_without_a_newline(bucket: Bucket) -> None:
    """OpenMetadata's own logs.txt may end so."""
    bucket.server.put("pipeline-logs/svc_orders/run-1/logs.txt", BEFORE + BEHIND[:-1])
    rows = bucket.rows()
    assert [(row["fqn"], row["line"], row["raw"]) for row in rows] == [("svc_orders", 0, BEFORE), ("svc_orders", 1, BEHIND[:-1])]
    assert {(row["segment"], row["connector_id"], row["epoch"]) for row in rows} == {(None, None, None)}


@pytest.mark.parametrize("begun", [BEFORE, BEFORE[:-1]], ids=["with a newline", "without"])
def test_a_run_that_began_with_openmetadata(bucket: Bucket, begun: bytes) -> None:
    bucket.server.put("pipeline-logs/svc_orders/run-1/partial.txt", begun)
    run = bucket.run()
    run.bodies.append(BEFORE)  # no segment has the log's beginning
    run.entries = []
    run.append(BEHIND)
    rows = [row for row in bucket.rows() if row["fqn"] == "svc.orders"]
    assert [(row["line"], row["raw"], row["segment"]) for row in rows] == [(0, BEFORE, None), (1, BEHIND, 0)]


def test_an_empty_log_and_no_log_at_all(bucket: Bucket) -> None:
    assert bucket.rows() == []
    bucket.run().seal().finalize()
    assert bucket.rows() == []


def test_a_connector_and_an_epoch_of_what_was_compacted_come_from_the_catalog_or_not_at_all(bucket: Bucket) -> None:
    run = (
        bucket.run()
        .append(BEFORE, connector="one")
        .seal("abandoned")
        .finalize("abandoned")
        .reopen()
        .append(BEHIND, connector="two")
    )
    run.compact()
    run.retire()
    assert [(row["segment"], row["connector_id"], row["epoch"]) for row in bucket.rows()] == [(None, None, None)] * 2


def test_names_that_need_encoding(bucket: Bucket) -> None:
    run = bucket.run("svc.täglich/a b%", "manual+2026:1")
    run.base = "pipeline-logs/svc.t%C3%A4glich%2Fa%20b%25/manual%2B2026%3A1/"
    run.append(BEFORE)
    assert [(row["fqn"], row["run_id"]) for row in bucket.rows()] == [("svc.täglich/a b%", "manual+2026:1")]
    assert len(bucket.rows(fqn="svc.täglich/*", run="manual+2026:1")) == 1
    assert len(bucket.rows(fqn="svc.täglich/a b%")) == 1


def test_markers_and_other_objects_are_no_runs(bucket: Bucket) -> None:
    bucket.run().append(BEFORE)
    bucket.server.put("pipeline-logs/.active/svc.orders/run-1/writer", b"")
    bucket.server.put("pipeline-logs/README", b"hello")
    bucket.server.put("pipeline-logs/svc.orders/README", b"hello")
    assert raw_bytes(bucket.rows()) == BEFORE


def test_some_columns_only(read: Read, bucket: Bucket) -> None:
    bucket.run().append(BEFORE + BEHIND)
    found = read("raw binary, line long").orderBy("line").collect()
    assert [tuple(row) for row in found] == [(BEFORE, 0), (BEHIND, 1)]


def test_a_stamp_without_a_zone_is_of_the_given_one(bucket: Bucket) -> None:
    bucket.run().append(BEFORE)
    assert [row["timestamp"] for row in bucket.rows(zone="Europe/Berlin")] == [datetime(2026, 11, 21, 2, 0, 1, tzinfo=UTC)]
    assert [row["timestamp"] for row in bucket.rows(zone="-05:00")] == [datetime(2026, 11, 21, 8, 0, 1, tzinfo=UTC)]


def test_a_format_that_is_given_is_not_chosen(bucket: Bucket) -> None:
    bucket.run().append(b"03:12:45 INFO 42 rows\n")
    assert [row["level"] for row in bucket.rows(logFormat="plain")] == [None]
    assert [row["level"] for row in bucket.rows(logFormat="time-level")] == ["INFO"]


def test_the_page_has_every_option_and_every_column() -> None:
    page = (PROJECT / "docs" / "spark.md").read_text()
    options, columns = (page.partition(f"\n## {title}\n")[2].partition("\n## ")[0] for title in ("Options", "Columns"))
    first_cells = [row.split("|")[1] for row in options.splitlines() if row.startswith("| `")]
    assert sorted(name for cell in first_cells for name in re.findall(r"`(\w+)`", cell)) == sorted(PARSERS)
    assert re.findall(r"^\| `(\w+)` \|", columns, re.MULTILINE) == schema_of("events").names


def test_programs_of_the_pages_read_the_bucket(
    spark: SparkSession, bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each with the names of those before it; ``here`` is the bucket of the tests in place of the pages'."""
    bucket.run("warehouse.orders").append(BEFORE + TRACE)
    monkeypatch.setattr(session, "spark_session", lambda _: nullcontext(spark))
    page, readme = (blocks(PROJECT / name, "python") for name in ("docs/spark.md", "README.md"))
    names: dict[str, Any] = {"spark": spark, "saved": "", "here": bucket.options}
    shown = []
    for block in (*page, readme[-1]):
        text = re.sub(r'"bucket": "my-logs"|bucket="my-logs"', "**here", block.text)
        text = text.replace('.option("bucket", "my-logs")', ".options(**here)").replace("1 minute", "100 milliseconds")
        exec(re.sub("…", lambda _: str(tmp_path / uuid4().hex), text), names)
        shown.append(re.findall(r"warehouse.orders(?:\|.*failed|\| +1\|)", capsys.readouterr().out))
    (query,) = spark.streams.active
    query.processAllAvailable()
    query.stop()
    assert [len(each) for each in shown] == [1, 0, 0, 1]
    assert names["news"].count() == 2
    assert sum(pq.read_metadata(path).num_rows for path in tmp_path.glob("*/*.parquet")) == 1

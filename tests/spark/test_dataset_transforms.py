"""DataFrame to DataFrame: the partition of an event, and the files of rows."""

from __future__ import annotations

import hashlib
from datetime import UTC, date, datetime
from typing import Any

import pytest
from chispa.dataframe_comparer import assert_df_equality
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from chalicelib.ingestion.run_files import slug
from glue_jobs.datasource.schema import EVENTS, schema_of
from glue_jobs.transforms.dataset_files import merge_bins
from glue_jobs.transforms.events import ARRIVALS, CAUSE, CAUSES, DATASET, bucket_of, dataset_rows, what_of

ARRIVED = date(2026, 11, 21)


def event(line: int, timestamp: datetime | None, fqn: str = "Svc.Orders", run_id: str = "run-1") -> tuple[Any, ...]:
    return (fqn, run_id, line, timestamp, "INFO", "svc.load", "row", b"row\n", 3, "connector-7", 1, "failed")


def bucket(what: str, buckets: int) -> int:
    return int(hashlib.md5(what.encode()).hexdigest()[:4], 16) % buckets


TIMES = [
    (datetime(2026, 11, 20, 23, 59, 59, 999_999, UTC), date(2026, 11, 20)),
    (datetime(2026, 11, 21, 0, 0, tzinfo=UTC), date(2026, 11, 21)),
    (datetime(2000, 1, 1, tzinfo=UTC), date(2000, 1, 1)),
    (datetime(1999, 12, 31, 23, 59, tzinfo=UTC), ARRIVED),
    (datetime(2099, 12, 31, 23, 59, tzinfo=UTC), date(2099, 12, 31)),
    (datetime(2100, 1, 1, tzinfo=UTC), ARRIVED),
    (datetime(2, 1, 1, tzinfo=UTC), ARRIVED),
    (None, ARRIVED),
]
"""An event's time, and its date in a run that arrived on the 21st."""


def test_an_event_goes_to_its_own_day_or_its_runs(spark: SparkSession) -> None:
    events = [event(line, timestamp) for line, (timestamp, _) in enumerate(TIMES)]
    arrivals = [("Svc.Orders", "run-1", ARRIVED), ("Svc.Orders", "run-2", date(2026, 1, 1)), ("other", "run-1", date(2026, 1, 2))]
    none = [None] * len(CAUSE)
    expected = [(*each, "svc_orders", *none, day, bucket("svc_orders", 16)) for each, (_, day) in zip(events, TIMES, strict=True)]
    tables = [(events, schema_of(EVENTS)), (arrivals, ARRIVALS), ([], CAUSES)]
    actual = dataset_rows(*(spark.createDataFrame(*each) for each in tables), 16)
    assert_df_equality(actual, spark.createDataFrame(expected, DATASET), ignore_row_order=True, ignore_nullable=True)


def test_each_run_has_its_own_day(spark: SparkSession) -> None:
    arrivals = [("a", "1", date(2026, 11, 1)), ("a", "2", date(2026, 11, 2)), ("b", "1", date(2026, 11, 3))]
    events = spark.createDataFrame([event(0, None, fqn, run) for fqn, run, _ in arrivals], schema_of(EVENTS))
    no_causes = spark.createDataFrame([], CAUSES)
    rows = dataset_rows(events, spark.createDataFrame(arrivals, ARRIVALS), no_causes, 4).select("fqn", "run_id", "date")
    assert sorted(map(tuple, rows.collect())) == arrivals


CAUSE_EVENTS = [
    ("failed", "1", 0, b"first\n", None),
    ("failed", "1", 1, b"\xff\xc3 trace\n  at a\n  at b\n", 2),
    ("failed", "1", 4, b"end\nof the log", 1),
    ("failed", "2", 1, b"of another run\n", None),
    ("lost", "3", 1, b"of a lost run", 1),
    ("succeeded", "4", 1, b"of a run that a request explained\n", None),
]
"""Outcome, run, first line and text of an event, and the rank of the cause that it contains."""


def test_explanation_is_on_the_events_with_its_lines(spark: SparkSession) -> None:
    stamp = datetime(2026, 11, 20, tzinfo=UTC)
    events = [(*event(line, stamp, run_id=run)[:7], raw, None, None, None, outcome) for outcome, run, line, raw, _ in CAUSE_EVENTS]
    first, trace, root = (1, 5, "trace-root", "disk", 0.92), (3, 1, "detail", None, 0.5), (2, 3, "error-record", None, 0.76)
    causes = [("Svc.Orders", "1", [first, root, trace])] + [
        ("Svc.Orders", run, [(1, 1, "detail", None, 0.5)]) for run in ("3", "4")
    ]
    tables = [(events, schema_of(EVENTS)), ([], ARRIVALS), (causes, CAUSES)]
    rows = dataset_rows(*(spark.createDataFrame(*each) for each in tables), 16).select(
        "outcome", "run_id", "line", "raw", *CAUSE.names
    )
    found = [(*row[:3], bytes(row["raw"]), row["cause_rank"]) for row in rows.collect()]
    assert sorted(found, key=lambda row: row[1:3]) == CAUSE_EVENTS
    assert {tuple(row)[4:] for row in rows.collect() if row["run_id"] == "1"} == {(None,) * 5, first, root}


NAMES = [
    "svc.orders", "Service.DB.Schema_x", "a b//c", "--dashed--", "__x__", "...", "", "ÄÖÜ straße", "İstanbul", "\N{KELVIN SIGN}elvin", "ΣΑΣ", "日本",
    "x" * 300, "." * 5 + "y" * 300, "a" * 255 + ".b", "tab\tnew\nline", "emoji 😀!",
]  # fmt: skip


def test_what_is_the_name_in_the_datalake(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(name,) for name in NAMES], "fqn string")
    found = frame.select("fqn", what_of(F.col("fqn")).alias("what")).select("fqn", "what", bucket_of(F.col("what"), 7).alias("n"))
    assert [tuple(row) for row in found.collect()] == [(name, slug(name), bucket(slug(name), 7)) for name in NAMES]


@pytest.mark.parametrize("count", [1, 3])
def test_files_of_a_bin_become_one_in_order(spark: SparkSession, count: int) -> None:
    day = date(2026, 11, 20)
    times = [datetime(2026, 11, 20, hour, tzinfo=UTC) for hour in range(6)]
    rows = [(*event(hour, times[hour]), "what", *[None] * len(CAUSE), day, 0, f"file-{hour}") for hour in (3, 1, 5, 0, 4, 2)]
    bins = [(f"file-{hour}", hour % count) for hour in range(6)]
    schema = StructType([*DATASET.fields, StructField("file", StringType(), False)])
    frame = merge_bins(spark.createDataFrame(rows, schema), spark.createDataFrame(bins, "file string, bin int"), count)
    tasks = [[row["line"] for row in task] for task in frame.rdd.glom().collect()]
    assert frame.columns == schema.names[:-1] and tasks == [
        [hour for hour in range(6) if hour % count == each] for each in range(count)
    ]

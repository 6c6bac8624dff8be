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
from glue_jobs.transforms.events import ARRIVALS, DATASET, bucket_of, dataset_rows, what_of

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
    expected = [(*each, "svc_orders", day, bucket("svc_orders", 16)) for each, (_, day) in zip(events, TIMES, strict=True)]
    actual = dataset_rows(spark.createDataFrame(events, schema_of(EVENTS)), spark.createDataFrame(arrivals, ARRIVALS), 16)
    assert_df_equality(actual, spark.createDataFrame(expected, DATASET), ignore_row_order=True, ignore_nullable=True)


def test_each_run_has_its_own_day(spark: SparkSession) -> None:
    arrivals = [("a", "1", date(2026, 11, 1)), ("a", "2", date(2026, 11, 2)), ("b", "1", date(2026, 11, 3))]
    events = spark.createDataFrame([event(0, None, fqn, run) for fqn, run, _ in arrivals], schema_of(EVENTS))
    rows = dataset_rows(events, spark.createDataFrame(arrivals, ARRIVALS), 4).select("fqn", "run_id", "date")
    assert sorted(map(tuple, rows.collect())) == arrivals


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
    rows = [(*event(hour, times[hour]), "what", day, 0, f"file-{hour}") for hour in (3, 1, 5, 0, 4, 2)]
    bins = [(f"file-{hour}", hour % count) for hour in range(6)]
    schema = StructType([*DATASET.fields, StructField("file", StringType(), False)])
    frame = merge_bins(spark.createDataFrame(rows, schema), spark.createDataFrame(bins, "file string, bin int"), count)
    tasks = [[row["line"] for row in task] for task in frame.rdd.glom().collect()]
    assert frame.columns == schema.names[:-1] and tasks == [
        [hour for hour in range(6) if hour % count == each] for each in range(count)
    ]

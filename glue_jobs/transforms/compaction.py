"""Bulk compaction as DataFrames: runs to tasks of about equal work, and results to the summary."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

RUNS = StructType(
    [
        StructField("fqn", StringType(), False),
        StructField("run_id", StringType(), False),
        StructField("bytes", LongType(), False),
        StructField("pending", LongType(), False),
        StructField("segments", LongType(), False),
        StructField("is_listed", BooleanType(), False),
        StructField("is_final", BooleanType(), False),
        StructField("has_markers", BooleanType(), False),
    ]
)
"""Runs that may have work. ``bytes`` and ``pending`` (segments): not yet compacted, as far as known. ``segments``: their number
in the catalog. ``is_listed``: due by the catalog; ``is_final``: finalized by the catalog, with segments to delete;
``has_markers``: it has marker objects, which name its writers."""

PLANNED = StructType([StructField("task", IntegerType(), False), *RUNS.fields])
"""RUNS with the number of their task, from 0."""

RESULTS = StructType(
    [
        StructField("fqn", StringType()),
        StructField("run_id", StringType()),
        StructField("outcome", StringType()),
        StructField("segments", LongType(), False),
        StructField("uploaded_bytes", LongType(), False),
        StructField("copied_bytes", LongType(), False),
        StructField("retired_segments", LongType(), False),
        StructField("problem", StringType()),
        StructField("requests", MapType(StringType(), LongType(), False)),
    ]
)
"""One row with the result of each run, and one row without a run for each task, with the requests that it sent."""

SUMMARY = StructType(
    [
        StructField("outcome", StringType()),
        StructField("runs", LongType(), False),
        StructField("segments", LongType(), False),
        StructField("uploaded_bytes", LongType(), False),
        StructField("copied_bytes", LongType(), False),
        StructField("retired_segments", LongType(), False),
        StructField("problems", ArrayType(StringType(), False), False),
        StructField("requests", ArrayType(MapType(StringType(), LongType(), False), False), False),
    ]
)
"""One row for each outcome; the row without an outcome has the requests of the tasks, a map each."""

RUN_COSTS_BYTES, SEGMENT_COSTS_BYTES = 2 * 1024 * 1024, 256 * 1024
"""Cost of the requests of a run, and of a segment, as bytes: about what one core compacts in the same time."""


def weight() -> Column:
    """A run's estimated work, in bytes."""
    return F.col("bytes") + F.col("pending") * SEGMENT_COSTS_BYTES + F.lit(RUN_COSTS_BYTES)


def planned(runs: DataFrame, tasks: int) -> DataFrame:
    """RUNS to PLANNED: each run in one of ``tasks`` of about equal weight; the same input gives the same plan.

    The heaviest runs go one to each task, the next ones in reverse order, and so on. Each task is one partition with its heaviest
    run first, so that no heavy run starts last.
    """
    heaviest_first = Window.orderBy(weight().desc(), "fqn", "run_id")
    number = F.row_number().over(heaviest_first) - 1
    place = number % tasks
    task = F.when((number / tasks).cast("long") % 2 == 0, place).otherwise(tasks - 1 - place)
    dealt = runs.select(task.cast("int").alias("task"), *RUNS.fieldNames())
    return dealt.repartitionById(tasks, "task").sortWithinPartitions(weight().desc(), "fqn", "run_id")


def summarized(results: DataFrame, problems: int) -> DataFrame:
    """RESULTS to SUMMARY, with the first ``problems`` of each outcome."""
    sums = [F.sum(name).alias(name) for name in ("segments", "uploaded_bytes", "copied_bytes", "retired_segments")]
    texts = F.slice(F.array_sort(F.collect_list("problem")), 1, problems)
    grouped = results.groupBy("outcome").agg(
        F.count("run_id").alias("runs"), *sums, texts.alias("problems"), F.collect_list("requests").alias("requests")
    )
    return grouped.select(*SUMMARY.fieldNames())

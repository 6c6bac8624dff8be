"""Compaction in bulk, as DataFrames: runs to tasks of about equal work, and results to what is told at the end."""

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
"""Runs that may have something to do. ``bytes`` and ``pending``: what stands in segments only, as far as it is known. ``segments``: the
catalog's number of them. ``is_listed``: the catalog holds it to be due; ``is_final``: and finished, with segments to retire; ``has_markers``:
there are objects that tell who writes to it."""

PLANNED = StructType([StructField("task", IntegerType(), False), *RUNS.fields])
"""The same with the task that works it, 0 and up."""

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
"""A row for each run: what became of it. And one without a run for each task: the requests that it sent."""

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
"""A row for each outcome; that without one has the requests of the tasks, a map each."""

RUN_COSTS_BYTES, SEGMENT_COSTS_BYTES = 2 * 1024 * 1024, 256 * 1024
"""What the requests of a run, and that of a segment, weigh beside the bytes: about what goes through a core meanwhile."""


def weight() -> Column:
    """How much work a run is, in bytes."""
    return F.col("bytes") + F.col("pending") * SEGMENT_COSTS_BYTES + F.lit(RUN_COSTS_BYTES)


def planned(runs: DataFrame, tasks: int) -> DataFrame:
    """RUNS to PLANNED: each run in one of ``tasks``, their weights about equal, the same for the same runs.

    The heaviest go one to each task, the next ones in the opposite order, and so on. What one task has is in one partition, the heaviest
    first: so that none is begun when all others are done.
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

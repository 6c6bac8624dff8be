"""Rebuild of the catalog as DataFrames: runs to tasks of about equal work, and results to the summary."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BooleanType, IntegerType, LongType, MapType, StringType, StructField, StructType

RUNS = StructType(
    [
        StructField("fqn", StringType(), False),
        StructField("run_id", StringType(), False),
        StructField("objects", LongType(), False),
        StructField("has_log", BooleanType(), False),
    ]
)
"""Runs, their number of objects on S3 (0 for a run that only the catalog has), and whether logs.txt is one of them."""

KNOWN = StructType(RUNS.fields[:2])
"""Runs that have rows in the catalog; duplicates are possible."""

PLANNED = StructType([StructField("task", IntegerType(), False), *RUNS.fields])
"""RUNS with the number of their task, from 0."""

RESULTS = StructType(
    [
        StructField("outcome", StringType()),
        StructField("runs", LongType(), False),
        StructField("counts", MapType(StringType(), LongType(), False), False),
        StructField("problems", ArrayType(StringType(), False), False),
        StructField("differences", ArrayType(StringType(), False), False),
    ]
)
"""Results for some runs or files of one task. ``counts`` by name: rows by table and kind, files, requests by service and
operation."""

RUN_COSTS = 8
"""Cost of a run's own requests; each of its objects costs 1."""


def planned(runs: DataFrame, objects_a_task: int) -> DataFrame:
    """RUNS to PLANNED: runs in order, each task with about ``objects_a_task`` objects in all; a larger run is alone."""
    weight = F.col("objects") + RUN_COSTS
    before = F.sum(weight).over(Window.orderBy("fqn", "run_id").rowsBetween(Window.unboundedPreceding, -1))
    task = F.floor(F.coalesce(before, F.lit(0)) / F.lit(objects_a_task)).cast("int")
    return runs.select(task.alias("task"), *RUNS.fieldNames())


def joined(listed: DataFrame, known: DataFrame) -> DataFrame:
    """RUNS of the bucket, and runs that only the catalog has (KNOWN) with 0 objects."""
    unfounded = known.distinct().join(listed, ["fqn", "run_id"], "left_anti")
    only = unfounded.select("fqn", "run_id", F.lit(0).cast("long").alias("objects"), F.lit(False).alias("has_log"))
    return listed.select(*RUNS.fieldNames()).unionByName(only)


def summarized(results: DataFrame, limit: int) -> DataFrame:
    """RESULTS to RESULTS: one row for each outcome with summed counts and the first ``limit`` problems and differences."""
    counts = (
        results.select("outcome", F.explode("counts").alias("name", "count"))
        .groupBy("outcome", "name")
        .agg(F.sum("count").alias("n"))
    )
    maps = counts.groupBy("outcome").agg(F.map_from_entries(F.collect_list(F.struct("name", "n"))).alias("counts"))
    texts = [F.slice(F.array_sort(F.flatten(F.collect_list(name))), 1, limit).alias(name) for name in ("problems", "differences")]
    rows = results.groupBy("outcome").agg(F.sum("runs").alias("runs"), *texts)
    empty = F.create_map().cast("map<string,bigint>")
    joined_ = rows.alias("r").join(maps.alias("m"), F.col("r.outcome").eqNullSafe(F.col("m.outcome")), "left")
    return joined_.select("r.outcome", "runs", F.coalesce("counts", empty).alias("counts"), "problems", "differences")

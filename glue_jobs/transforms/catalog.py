"""Making the catalog anew, as DataFrames: runs to tasks of about equal work, and what became of them to what is told at the end."""

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
"""Runs, how many objects S3 has of each (0 of one that only the catalog knows), and whether logs.txt is among them."""

KNOWN = StructType(RUNS.fields[:2])
"""Runs that have rows in the catalog; more than once, maybe."""

PLANNED = StructType([StructField("task", IntegerType(), False), *RUNS.fields])
"""The same with the task that works it, 0 and up."""

RESULTS = StructType(
    [
        StructField("outcome", StringType()),
        StructField("runs", LongType(), False),
        StructField("counts", MapType(StringType(), LongType(), False), False),
        StructField("problems", ArrayType(StringType(), False), False),
        StructField("differences", ArrayType(StringType(), False), False),
    ]
)
"""What became of some runs or files of one task. ``counts`` by name: rows by table and kind, files, requests by service and operation."""

RUN_COSTS = 8
"""What the requests of a run weigh beside one for each of its objects."""


def planned(runs: DataFrame, objects_a_task: int) -> DataFrame:
    """RUNS to PLANNED: runs in their order, as many to a task as have about so many objects together; a larger one is alone."""
    weight = F.col("objects") + RUN_COSTS
    before = F.sum(weight).over(Window.orderBy("fqn", "run_id").rowsBetween(Window.unboundedPreceding, -1))
    task = F.floor(F.coalesce(before, F.lit(0)) / F.lit(objects_a_task)).cast("int")
    return runs.select(task.alias("task"), *RUNS.fieldNames())


def joined(listed: DataFrame, known: DataFrame) -> DataFrame:
    """RUNS of the bucket, and those that only the catalog knows (KNOWN), with 0 objects."""
    unfounded = known.distinct().join(listed, ["fqn", "run_id"], "left_anti")
    only = unfounded.select("fqn", "run_id", F.lit(0).cast("long").alias("objects"), F.lit(False).alias("has_log"))
    return listed.select(*RUNS.fieldNames()).unionByName(only)


def summarized(results: DataFrame, limit: int) -> DataFrame:
    """RESULTS to RESULTS: a row for each outcome, counts added up, with the first ``shown`` problems and differences."""
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

"""Bulk compaction: assignment of runs to tasks, and the summary of results."""

from __future__ import annotations

from collections import Counter
from typing import Any

from chispa import assert_df_equality
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from glue_jobs.bulk_compact import summary_of
from glue_jobs.transforms.compaction import (
    PLANNED,
    RESULTS,
    RUN_COSTS_BYTES,
    RUNS,
    SEGMENT_COSTS_BYTES,
    SUMMARY,
    planned,
    summarized,
)

MIB = 1024 * 1024


def run(name: str, size: int, pending: int = 1) -> tuple[Any, ...]:
    return ("svc.pipe", name, size, pending, pending, True, False, False)


def result(name: str | None, outcome: str | None, **others: Any) -> tuple[Any, ...]:
    row = dict.fromkeys(RESULTS.fieldNames(), 0) | {"problem": None, "requests": None}
    row |= {"fqn": "svc.pipe" if name else None, "run_id": name, "outcome": outcome, **others}
    return tuple(row[column] for column in RESULTS.fieldNames())


def test_the_heaviest_go_one_to_each_task_and_the_next_ones_the_other_way_round(spark: SparkSession) -> None:
    runs = [run("a", 50 * MIB), run("b", 40 * MIB), run("c", 30 * MIB), run("d", 20 * MIB), run("e", 10 * MIB)]
    expected = [(task, *run) for task, run in zip((0, 1, 1, 0, 0), runs, strict=True)]
    actual = planned(spark.createDataFrame(runs[::-1], RUNS), 2)
    assert_df_equality(actual, spark.createDataFrame(expected, PLANNED), ignore_row_order=True, ignore_nullable=True)


def test_each_task_is_a_partition_of_its_own_the_heaviest_run_first(spark: SparkSession) -> None:
    plan = planned(spark.createDataFrame([run(f"r{number:02d}", number * MIB) for number in range(40)], RUNS), 8)
    rows = plan.withColumn("partition", F.spark_partition_id()).collect()
    assert {row["task"] for row in rows} == set(range(8))
    assert all(row["task"] == row["partition"] for row in rows)
    for task in range(8):
        sizes = [row["bytes"] for row in rows if row["task"] == task]
        assert len(sizes) == 5 and sizes == sorted(sizes, reverse=True)


def test_tasks_weigh_about_the_same(spark: SparkSession) -> None:
    runs = [run(f"r{number:03d}", (number * 7919) % 64 * MIB, number % 40) for number in range(500)]
    loads: Counter[int] = Counter()
    for row in planned(spark.createDataFrame(runs, RUNS), 7).collect():
        loads[row["task"]] += row["bytes"] + row["pending"] * SEGMENT_COSTS_BYTES + RUN_COSTS_BYTES
    assert max(loads.values()) <= 1.05 * min(loads.values())


def test_no_runs_are_no_tasks(spark: SparkSession) -> None:
    assert planned(spark.createDataFrame([], RUNS), 1).collect() == []


def test_results_are_summed_by_outcome_with_the_first_problems(spark: SparkSession) -> None:
    rows = [
        result("a", "finalized", segments=3, uploaded_bytes=10, copied_bytes=5),
        result("b", "finalized", segments=2, uploaded_bytes=1, retired_segments=4),
        *[result(name, "failed", problem=f"svc.pipe/{name}: damaged") for name in "fed"],
        result(None, None, requests={"s3:GetObject": 7}),
        result(None, None, requests={"s3:GetObject": 1, "s3:PutObject": 2}),
    ]
    expected = [
        ("finalized", 2, 5, 11, 5, 4, [], []),
        ("failed", 3, 0, 0, 0, 0, ["svc.pipe/d: damaged", "svc.pipe/e: damaged"], []),
        (None, 0, 0, 0, 0, 0, [], [{"s3:GetObject": 7}, {"s3:GetObject": 1, "s3:PutObject": 2}]),
    ]
    actual = summarized(spark.createDataFrame(rows, RESULTS).coalesce(1), 2)
    in_order = [lambda dataframe: dataframe.sort("outcome")]  # chispa sorts by hashes, which Spark rejects for maps
    assert_df_equality(actual, spark.createDataFrame(expected, SUMMARY), transforms=in_order, ignore_nullable=True)


def test_the_summary_adds_up_runs_bytes_requests_and_dollars() -> None:
    rows = [
        Row(**dict(zip(SUMMARY.fieldNames(), values, strict=True)))
        for values in (
            ("finalized", 2, 5, 1_500_000_000, 500_000_000, 4, [], []),
            ("busy", 1, 0, 0, 0, 0, ["leased"], []),
            (None, 0, 0, 0, 0, 0, [], [{"s3:PutObject": 1_000_000}, {"s3:GetObject": 1_000_000}]),
        )
    ]
    told = summary_of(rows, Counter({"dynamodb:Query": 64}), seconds=20.0, working_s=10.0)
    assert told["runs"] == {
        "finalized": 2, "compacted": 0, "retired": 0, "unchanged": 0, "failed": 0, "busy": 1, "set_aside": 0,
    }  # fmt: skip
    assert (told["bytes"], told["segments"], told["retired_segments"], told["problems"]) == (2 * 10**9, 5, 4, ["leased"])
    assert told["requests"] == {"s3:PutObject": 1_000_000, "s3:GetObject": 1_000_000, "dynamodb:Query": 64}
    assert told["dollars"] == round(5.0 + 0.4 + 64 * 0.125e-6, 6)
    assert told["dollars_per_gb"] == round((5.4 + 8e-6) / 2, 6)
    assert (told["seconds"], told["working_seconds"], told["mb_per_s"]) == (20.0, 10.0, 200.0)

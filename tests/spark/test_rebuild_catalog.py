"""The plan and the summary of a rebuild: DataFrame to DataFrame, on explicit schemas."""

from __future__ import annotations

from chispa import assert_df_equality
from pyspark.sql import SparkSession

from glue_jobs.rebuild_catalog import summary_of
from glue_jobs.transforms.catalog import KNOWN, PLANNED, RESULTS, RUN_COSTS, RUNS, joined, planned, summarized


def test_runs_go_to_tasks_by_their_objects_and_a_large_one_is_alone(spark: SparkSession) -> None:
    room = 3 * (RUN_COSTS + 2)
    small = [("svc.a", f"run-{number}", 2, True) for number in range(6)]
    large = [("svc.b", "run-0", 10 * room, False)]
    runs = spark.createDataFrame([*small, *large, ("svc.c", "run-0", 2, False)], RUNS)
    tasks = [0, 0, 0, 1, 1, 1, 2, 12]
    expected = spark.createDataFrame(
        [(task, *row) for task, row in zip(tasks, [*small, *large, ("svc.c", "run-0", 2, False)], strict=True)], PLANNED
    )
    assert_df_equality(planned(runs, room), expected, ignore_row_order=True, ignore_nullable=True)


def test_runs_that_only_the_catalog_knows_are_looked_at_once(spark: SparkSession) -> None:
    found = spark.createDataFrame([("svc.a", "run-0", 5, True)], RUNS)
    known = spark.createDataFrame([("svc.a", "run-0"), ("svc.a", "run-1"), ("svc.a", "run-1"), ("svc.b", "run-0")], KNOWN)
    expected = [("svc.a", "run-0", 5, True), ("svc.a", "run-1", 0, False), ("svc.b", "run-0", 0, False)]
    assert_df_equality(joined(found, known), spark.createDataFrame(expected, RUNS), ignore_row_order=True, ignore_nullable=True)


def test_results_of_tasks_are_added_up(spark: SparkSession) -> None:
    rows = [
        ("mended", 2, {"runs.wrong": 2, "bytes": 10}, ["b"], ["runs wrong: x"]),
        ("mended", 1, {"runs.wrong": 1, "runs.missing": 4}, ["a", "c"], []),
        ("right", 7, {}, [], []),
        (None, 0, {"requests.s3:HeadObject": 3}, [], []),
        (None, 0, {"requests.s3:HeadObject": 4, "requests.dynamodb:Query": 1}, [], []),
    ]
    found = summarized(spark.createDataFrame(rows, RESULTS), limit=2)
    expected = [
        ("mended", 3, {"runs.wrong": 3, "bytes": 10, "runs.missing": 4}, ["a", "b"], ["runs wrong: x"]),
        ("right", 7, {}, [], []),
        (None, 0, {"requests.s3:HeadObject": 7, "requests.dynamodb:Query": 1}, [], []),
    ]
    assert sorted((tuple(row) for row in found.collect()), key=str) == sorted(expected, key=str)
    told = summary_of(found.collect(), {}, 2.0)  # type: ignore[arg-type]
    assert told["runs"] == {"right": 7, "mended": 3, "gone": 0, "failed": 0}
    assert told["rows"] == {"runs.missing": 4, "runs.wrong": 3}
    assert told["requests"] == {"s3:HeadObject": 7, "dynamodb:Query": 1} and told["dollars"] > 0

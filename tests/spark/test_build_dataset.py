"""The dataset from runs to rows, with Spark: compared with plain lists, read by DuckDB and by Spark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from bench.spark_dataset_world import BUCKETS, World, by_glob, by_ledger
from bench.stored_runs import START_MS, Bucket
from chalicelib.catalog.runs import RunCatalog
from chalicelib.ports import RunEnd
from glue_jobs.build_dataset import build
from glue_jobs.dataset import files
from glue_jobs.dataset.building import Builder, BuildResult, DatasetSpec
from glue_jobs.dataset.entries import APPEND, REWRITE, Layout
from glue_jobs.dataset.files import LocalFiles
from glue_jobs.dataset.ledger import Ledger
from glue_jobs.dataset.small_files import Sizes
from glue_jobs.dataset.writing import SESSION
from glue_jobs.datasource.offsets import fingerprint
from glue_jobs.datasource.options import parse_options
from glue_jobs.transforms.events import CAUSE
from tests.spark.explained_runs import record_explanation, record_finalized
from tests.support.run_catalog import InMemoryRunCatalog

SEED = 20
Job = Callable[..., BuildResult]


@pytest.fixture
def job(spark: SparkSession, bucket: Bucket, tmp_path: Path) -> Job:
    """A complete job into the test's folder. ``hours``: since the runs' beginning."""
    for name, value in SESSION.items():
        spark.conf.set(name, value)

    def run(
        *, live: bool = False, most_files: int = 0, runs: RunCatalog | None = None, hours: int = 1, **options: str
    ) -> BuildResult:
        parsed = parse_options({**bucket.options, **options})
        wanted = DatasetSpec(parsed, Layout(BUCKETS, "UTC", fingerprint(parsed)), Sizes(most_files=most_files), live)
        return build(Builder(spark, LocalFiles(tmp_path), wanted, lambda: START_MS / 1000 + hours * 3600, runs))

    return run


@pytest.mark.behavior("The dataset gets new lines of growing and reopened runs incrementally.")
@pytest.mark.sampled(default=1)
@pytest.mark.parametrize("live", [False, True], ids=["ended", "live"])
def test_runs_that_grow_end_and_begin_anew(bucket: Bucket, job: Job, tmp_path: Path, live: bool) -> None:
    world = World(bucket.server, SEED, live=live)
    for _ in range(3):
        world.change()
        done = job(live=live, most_files=2)
        world.read()
        assert by_glob(tmp_path) == by_ledger(tmp_path) == world.expected, f"seed={SEED}"
        assert done.problems == {} and not any((tmp_path / "_staging").iterdir())
    rows = sum(entry.counts["rows"] for entry in all_entries(tmp_path) if entry.kind == APPEND)
    assert rows == world.expected.total() and {entry.kind for entry in all_entries(tmp_path)} == {APPEND, REWRITE}
    assert job(live=live).entries == [], "nothing is new"


def all_entries(folder: Path) -> list[Any]:
    ledger, found = Ledger(LocalFiles(folder)), []
    while entry := ledger.entry(len(found) + 1):
        found.append(entry)
    return found


def test_every_column_and_what_spark_reads(spark: SparkSession, bucket: Bucket, job: Job, tmp_path: Path) -> None:
    text = b"2026-11-20 23:59:59,123 - svc.load - ERROR - failed\n  at row 7\n"
    bucket.run("Svc.Orders", "run-1").append(text, b"2026-11-21 00:00:00,000 - svc.load - INFO - end\n").seal(
        end=RunEnd("failed", exit_code=2)
    )
    job()
    rows = spark.read.option("basePath", f"{tmp_path}/data").parquet(*files(str(tmp_path))).orderBy("line")
    names = [
        "fqn",
        "run_id",
        "line",
        "timestamp",
        "level",
        "logger",
        "message",
        "raw",
        "segment",
        "connector_id",
        "epoch",
        "outcome",
    ]
    assert rows.columns == [*names, "what", *CAUSE.names, "raw_head", "date", "what_bucket"]
    first, last = (row.asDict() for row in rows.withColumn("timestamp", rows["timestamp"].cast("string")).collect())
    assert first | {"date": str(first["date"])} == {
        "fqn": "Svc.Orders", "run_id": "run-1", "line": 0, "timestamp": "2026-11-20 23:59:59.123", "level": "ERROR", "logger": "svc.load",
        "message": "failed\n  at row 7", "raw": None, "segment": None, "connector_id": None, "epoch": None, "outcome": "failed",
        "what": "svc_orders", **dict.fromkeys(CAUSE.names), "raw_head": "2026-11-20 23:59:59,123 - svc.load - ERROR - ",
        "date": "2026-11-20", "what_bucket": first["what_bucket"],
    }  # fmt: skip
    assert (last["line"], str(last["date"])) == (2, "2026-11-21")
    assert spark.read.parquet(f"{tmp_path}/data").count() == 2


AWAITED: dict[str, tuple[dict[str, Any], bool]] = {
    "explained": ({}, True),
    "live": ({"live": True}, False),
    "never explained": ({"hours": 7}, False),
}
"""Arguments of the job that reads a failed run, and whether it is explained before."""


@pytest.mark.parametrize("name", AWAITED)
def test_failed_run_waits_for_its_explanation(bucket: Bucket, job: Job, tmp_path: Path, name: str) -> None:
    arguments, is_explained = AWAITED[name]
    stamp = b"2026-11-21 03:00:00,000 - svc.load - ERROR - "
    text = stamp + b'load\nTraceback (most recent call last):\n  File "load.py", line 7, in load\nOSError: no disk\n'
    failed = bucket.run("svc.failed").append(text).seal(end=RunEnd("failed")).finalize()
    bucket.run("svc.orders").lines(3).seal(end=RunEnd("failed")).finalize()
    bucket.run("svc.stock").lines(3).seal(end=RunEnd("succeeded"))
    runs = InMemoryRunCatalog()
    record_finalized(runs, failed)
    assert [entry.counts["rows"] for entry in job(runs=runs, maxBytesPerBatch="1").entries] == [3], (
        "those that wait hold up no other run"
    )
    if is_explained:
        record_explanation(runs, failed)
    job(runs=runs, **arguments)
    query = f"select fqn, {', '.join(CAUSE.names)} from '{tmp_path}/data/**/*.parquet' where outcome = 'failed' and line = 0 order by fqn"
    rows = duckdb.execute(query).fetchall()
    assert rows == (
        [("svc.failed", 1, 3, "python-root", None, 0.92)]
        if is_explained
        else [(fqn, *[None] * 5) for fqn in ("svc.failed", "svc.orders")]
    )


def test_files_are_as_engines_want_them(bucket: Bucket, job: Job, tmp_path: Path) -> None:
    for number in range(3):
        bucket.run("svc.orders", f"run-{number}").lines(100).seal()
    job()
    (path,) = (tmp_path / "data").rglob("*.parquet")
    meta, table = pq.read_metadata(path), pq.read_table(path, partitioning=None)
    chunks = {(column := meta.row_group(0).column(index)).path_in_schema: column for index in range(meta.num_columns)}
    assert {chunk.compression for chunk in chunks.values()} == {"ZSTD"}
    assert str(table.schema.field("timestamp").type) == "timestamp[us, tz=UTC]" and chunks["timestamp"].has_column_index
    assert all(name not in table.column_names for name in ("date", "what_bucket"))
    order = [(row["timestamp"], row["run_id"], row["line"]) for row in table.to_pylist()]
    assert order == sorted(order)


def test_small_files_become_one_with_the_same_rows(bucket: Bucket, job: Job, tmp_path: Path) -> None:
    for number in range(3):
        bucket.run("svc.orders", f"run-{number}", START_MS + number * 3_600_000).lines(20).seal()
        job()
    before = by_glob(tmp_path)
    assert len(files(str(tmp_path))) == 3
    done = job(most_files=3)
    assert [entry.kind for entry in done.entries] == [REWRITE] and done.entries[0].counts == {
        "replaced": 3, "files": 1, "rows": 60, "bytes_out": (tmp_path / done.entries[0].added[0].file.path).stat().st_size,
    }  # fmt: skip
    assert len(list((tmp_path / "data").rglob("*.parquet"))) == 1 and by_glob(tmp_path) == by_ledger(tmp_path) == before


def test_a_plan_of_a_job_that_was_killed_is_carried_out_as_it_was(bucket: Bucket, job: Job, tmp_path: Path) -> None:
    """Lines without a time belong to the day on which their run was first read, which the plan stores: later changes of objects
    do not matter."""
    run = (
        bucket.run("svc.orders", "run-1").append(b"2026-11-21 03:00:00,000 - svc.load - INFO - begin\n", b"without a time\n").seal()
    )
    whole = tmp_path.with_name(f"{tmp_path.name}-whole")
    job()
    tmp_path.rename(whole)
    (tmp_path / "_ledger").mkdir(parents=True)
    (tmp_path / "_ledger" / "0000000001.plan").write_bytes((whole / "_ledger" / "0000000001.plan").read_bytes())
    run.at_ms += 5 * 86_400_000
    run.finalize()
    for number in range(len(run.entries)):
        bucket.server.delete(run.key(number))
    job()
    assert by_glob(tmp_path) == by_glob(whole) and len(by_glob(whole)) == 2


def test_batches_of_so_many_bytes(bucket: Bucket, job: Job, tmp_path: Path) -> None:
    for number in range(4):
        bucket.run("svc.orders", f"run-{number}").lines(40).seal()
    done = job(maxBytesPerBatch="5000")
    assert [entry.counts["runs"] for entry in done.entries] == [2, 2] and by_glob(tmp_path).total() == 160


def test_damaged_runs_are_reported_and_others_read(bucket: Bucket, job: Job, tmp_path: Path) -> None:
    bucket.run("svc.good", "run-1").lines(40).seal()
    bucket.run("svc.bytes", "run-1").append(b"2026-11-21 03:00:00,000 - svc.load - INFO - \xff\xfe\x00\n").seal()
    hole = bucket.run("svc.hole", "run-1").lines(120).seal()
    bucket.server.delete(hole.key(1))
    wrong = bucket.run("svc.wrong", "run-1").lines(80)
    wrong.overwrite_segment(1, line=7, byte=99)
    wrong.seal()
    bucket.run("svc.empty", "run-1").seal()
    long = b"2026-11-21 03:00:00,000 - svc.load - INFO - " + b"x" * 3_000_000 + b"\n"
    bucket.run("svc.long", "run-1").append(long).seal()
    bucket.server.put("pipeline-logs/svc.good/run-1/else.txt", b"what is this")
    done = job()
    found = by_glob(tmp_path)
    by_fqn = {fqn: sorted(row.raw for row in found if row.fqn == fqn) for fqn in {row.fqn for row in found}}
    assert {fqn: len(rows) for fqn, rows in by_fqn.items()} == {
        "svc.good": 40,
        "svc.bytes": 1,
        "svc.hole": 80,
        "svc.wrong": 80,
        "svc.long": 1,
    }
    assert by_fqn["svc.long"] == [long] and b"\xff\xfe\x00" in by_fqn["svc.bytes"][0]
    assert {"missing", "metadata", "key"} <= set(done.problems), done.problems
    assert job().entries == []

"""Rebuild the catalog from S3: all tables, whether their rows were lost or some are wrong.

Runs and segments are read from the logs' bucket, files from the archive's bucket and from finalized logs. Appends, notifications
and schedules continue meanwhile, and the job reverts none of their changes. It can be killed at any point and started again:
correct rows stay unchanged. Rows of objects that S3 no longer has are only removed with --prune, and never recent ones.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from chalicelib import composition
from chalicelib.composition import Services
from glue_jobs.catalog.catalog_repair import CORRECT, FAILED, GONE, REPAIRED, RUNS, SEGMENTS
from glue_jobs.catalog.deletion_marks import restore_marks
from glue_jobs.catalog.files import CHECKED_LAST, READ_FIRST
from glue_jobs.catalog.task import FILES, MAX_REPORTED, Task
from glue_jobs.datasource.selection import Names, Pattern
from glue_jobs.expiration.inventory import BucketInventory
from glue_jobs.job_runtime.arguments import add_flag, job_parser, parse_arguments
from glue_jobs.job_runtime.environment import worker_environment
from glue_jobs.job_runtime.interruption import run_interruptible
from glue_jobs.job_runtime.prices import dollars
from glue_jobs.job_runtime.progress import task_progress
from glue_jobs.job_runtime.request_counts import request_counter
from glue_jobs.job_runtime.session import spark_session
from glue_jobs.job_runtime.summary import finish

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

NAME = "rebuild_catalog"
PARTS = (RUNS, SEGMENTS, FILES)
OUTCOMES = (CORRECT, REPAIRED, GONE, FAILED)
OBJECTS_A_TASK = 20_000
_GB = 1e9


def work_of(plan: argparse.Namespace) -> dict[str, Any]:
    """The job's settings for its workers."""
    only = {plan.only} if plan.only else set(PARTS)
    return {"only": sorted(only), "dry_run": plan.dry_run, "prune": plan.prune, "grace_ms": plan.grace_minutes * 60_000}


def rebuild(session: SparkSession, services: Services, arguments: argparse.Namespace) -> list[Row]:
    """Do all requested work. Returns ``transforms.catalog.RESULTS``, one row for each outcome."""
    from glue_jobs.transforms.catalog import RESULTS, summarized

    if not arguments.dry_run:  # first: a run that is being deleted is not repaired
        restore_marks(services, lambda fqn: fqn in Names((Pattern(arguments.fqn or "*"),)))
    task, parts = Task(work_of(arguments), worker_environment()), []
    is_with_archive = arguments.only in (None, FILES) and not arguments.fqn
    slices = session.sparkContext.defaultParallelism
    if is_with_archive:
        parts.append(_checked(session, task, READ_FIRST, slices, is_last=False).collect())
    parts.append(_runs(session, services, task, arguments, slices).mapInArrow(task.repair, RESULTS).collect())
    if is_with_archive:
        ranges = session.createDataFrame(_ranges(), "first string, last string").repartition(slices)
        parts.append(ranges.mapInArrow(task.archive, RESULTS).collect())
        parts.append(_checked(session, task, CHECKED_LAST, slices, is_last=True).collect())
    rows = [row for part in parts for row in part]
    return summarized(session.createDataFrame(rows, RESULTS), MAX_REPORTED).collect() if rows else []


def _checked(session: SparkSession, task: Task, tables: Sequence[str], slices: int, *, is_last: bool) -> DataFrame:
    from glue_jobs.transforms.catalog import RESULTS

    rows = [(table, segment, slices, is_last) for table in tables for segment in range(slices)]
    parts = session.createDataFrame(rows, "table string, segment int, of int, is_last boolean")
    return parts.repartition(slices).mapInArrow(task.check, RESULTS)


def _runs(session: SparkSession, services: Services, task: Task, arguments: argparse.Namespace, slices: int) -> DataFrame:
    """PLANNED, with one partition for each task."""
    from pyspark.sql import functions as F

    from glue_jobs.transforms.catalog import KNOWN, RUNS, joined, planned

    pattern = Pattern(arguments.fqn or "*")
    selected = Names((pattern,))
    inventory = BucketInventory(services.store, services.layout)
    folders = [(folder,) for folder in inventory.folders() if _fqn(services, folder) in selected]
    listed = session.createDataFrame(folders, "folder string").repartition(max(1, min(len(folders), slices)))
    runs = listed.mapInArrow(task.list_runs, RUNS)
    if arguments.prune:
        segments = session.createDataFrame([(number, slices) for number in range(slices)], "segment int, of int")
        known = segments.repartition(slices).mapInArrow(task.scan_runs, KNOWN)
        runs = joined(runs, known.where(F.col("fqn").rlike(f"(?s)^{pattern.expression()}$")))
    plan = planned(runs, arguments.objects_a_task).persist()
    last = plan.agg(F.max("task")).first()
    tasks = (last[0] if last and last[0] is not None else 0) + 1
    # The listing workers do not report requests: a LIST for each 1,000 objects of a pipeline.
    lists = plan.groupBy("fqn").agg(F.ceil(F.sum("objects") / 1000).alias("lists")).agg(F.sum("lists")).first()
    request_counter()["s3:ListObjectsV2"] += int(lists[0]) if lists and lists[0] else 0
    return plan.repartitionById(tasks, "task")


def _fqn(services: Services, folder: str) -> str:
    parsed = services.layout.parse(f"{folder}any/logs.txt")
    return parsed.run.fqn if parsed else ""


def _ranges() -> list[tuple[str, str]]:
    """Key ranges of the archive: one for each first hex digit, which the archive's client uses, and those between."""
    borders = ["", *"0123456789", ":", *"abcdef", "g", ""]
    return list(pairwise(borders))


def summary_of(rows: Iterable[Row], sent_here: Counter[str], seconds: float) -> dict[str, Any]:
    """The job's summary. ``sent_here``: requests of the driver."""
    totals = [row.asDict() for row in rows]
    counts: Counter[str] = sum((Counter(row["counts"]) for row in totals), Counter())
    requests = Counter(sent_here) + Counter({name[9:]: count for name, count in counts.items() if name.startswith("requests.")})
    rows_ = {name: count for name, count in sorted(counts.items()) if "." in name and not name.startswith("requests.")}
    runs = {name: sum(row["runs"] for row in totals if row["outcome"] == name) for name in OUTCOMES}
    cost, known, size = dollars(requests), sum(runs.values()), counts["bytes"]
    return {
        "runs": runs,
        "files": {name.removeprefix("file_"): counts[name] for name in ("file_files", "file_refused", "file_gone", "file_failed")},
        "rows": rows_,
        "segments_unknown": counts["segments_unknown"],
        "differences": [text for row in totals for text in row["differences"]][:MAX_REPORTED],
        "problems": [text for row in totals for text in row["problems"]][:MAX_REPORTED],
        "bytes": size,
        "requests": dict(requests.most_common()),
        "dollars": round(cost, 6),
        "dollars_per_1000_runs": round(cost / known * 1000, 6) if known else 0.0,
        "dollars_per_gb": round(cost / size * _GB, 6) if size else 0.0,
        "seconds": round(seconds, 3),
    }


def _parser() -> argparse.ArgumentParser:
    parser = job_parser(NAME, __doc__)
    parser.add_argument("--only", choices=PARTS, help="only the rows of runs, of segments, or of files")
    parser.add_argument(
        "--fqn",
        default="",
        help="only pipelines of this name, and their finalized logs as files; * matches any characters, ? one",
    )
    add_flag(parser, "--prune", "remove the rows of runs and files that S3 no longer has")
    parser.add_argument("--grace-minutes", type=int, default=60, help="with --prune: leave runs whose last line is younger (60)")
    parser.add_argument("--objects-a-task", type=int, default=OBJECTS_A_TASK, help=f"objects of a task ({OBJECTS_A_TASK})")
    add_flag(parser, "--dry-run", "count the differences and show the first ones: write nothing")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 1 if runs or files failed: the summary names them, and the job can be started again."""
    arguments = parse_arguments(_parser(), argv)
    requests = request_counter()
    services, started_s = composition.services(), time.monotonic()
    with spark_session(NAME) as session, task_progress(session, NAME):
        results = rebuild(session, services, arguments)
    summary = summary_of(results, requests, time.monotonic() - started_s)
    report = {
        "only": arguments.only or "all",
        "fqn": arguments.fqn,
        "dry_run": arguments.dry_run,
        "prune": arguments.prune,
        **summary,
    }
    finish(NAME, report, arguments.summary, dry_run=arguments.dry_run)
    return 1 if summary["runs"][FAILED] or summary["files"]["failed"] else 0


if __name__ == "__main__":
    sys.exit(run_interruptible(NAME, main))

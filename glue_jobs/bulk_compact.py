"""Compact and finalize any number of runs in parallel: the work of the schedule, in bulk.

An ended run gets its logs.txt, a running one an updated partial.txt, and old segments are removed. Each run is worked under the
lease that the schedule uses too, so the schedule and several of these jobs can run at the same time. The job can be killed at any
point and started again: completed work is not repeated. Runs are those that are due by the catalog (``--source catalog``, about
64 queries), or all runs of a bucket listing, each of them checked (``--source bucket``), for a catalog that was lost.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from chalicelib import composition
from chalicelib.ports import Run
from glue_jobs.compaction.due_runs import DueRun, by_bucket, by_catalog
from glue_jobs.compaction.fast_timestamps import use_fast_timestamp_parser
from glue_jobs.compaction.task import LEASE_S, OUTCOMES, UNDONE, Attempt, PlannedRun, Result, Task
from glue_jobs.job_runtime.arguments import add_flag, job_parser, parse_arguments
from glue_jobs.job_runtime.environment import apply_environment, worker_environment
from glue_jobs.job_runtime.interruption import run_interruptible
from glue_jobs.job_runtime.prices import dollars
from glue_jobs.job_runtime.progress import task_progress
from glue_jobs.job_runtime.request_counts import request_counter, snapshot
from glue_jobs.job_runtime.session import spark_session
from glue_jobs.job_runtime.summary import finish

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql import DataFrame, Row, SparkSession

NAME = "bulk_compact"
THREADS = 8
RUNS_A_TASK = 200
"""Some seconds of work: the loss when a task is killed, and the resolution of the progress display."""
PROBLEMS = 20
_GB = 1e9


@dataclass(frozen=True, slots=True)
class JobOptions:
    """``parallelism``: minimum number of tasks (0: the session's cores); ``threads``: concurrent runs in each task."""

    parallelism: int = 0
    threads: int = THREADS
    lease_s: float = LEASE_S
    dry_run: bool = False


def compacted(plan: DataFrame, options: JobOptions) -> DataFrame:
    """PLANNED to RESULTS. Reading a row does its work, so read the result once."""
    from glue_jobs.transforms.compaction import RESULTS

    return plan.mapInArrow(worker(uuid4().hex[:12], worker_environment(), options), RESULTS)


def worker(
    job: str, environment: Mapping[str, str], options: JobOptions
) -> Callable[[Iterable[RecordBatch]], Iterator[RecordBatch]]:
    """The function for Spark's Python workers: a task's plan in, its results out."""

    def work(batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
        from pyspark import TaskContext

        rows = [row for batch in batches for row in batch.to_pylist()]
        if not rows:
            return
        _settle_in(environment)
        before = snapshot()
        context = TaskContext.get()
        attempt = Attempt(job, rows[0]["task"], context.attemptNumber() if context else 0)
        task = Task(composition.services(), attempt, options.threads, lease_s=options.lease_s, dry_run=options.dry_run)
        results = [_result_row(result) for result in task.work([_planned(row) for row in rows])]
        yield _batch([*results, _NOTHING | {"requests": list((snapshot() - before).items())}])

    return work


def _settle_in(environment: Mapping[str, str]) -> None:
    apply_environment({**environment, "POWERTOOLS_METRICS_DISABLED": "true"})  # the job publishes its own metrics, once
    use_fast_timestamp_parser()
    request_counter()  # before clients are created: existing ones are not counted


def warm_up(session: SparkSession) -> None:
    """Compile the plan, and start a Python worker on each core with its imports and clients: this takes seconds, while due runs
    are still being listed."""
    from glue_jobs.transforms.compaction import RESULTS, RUNS, planned, summarized

    environment, cores = worker_environment(), session.sparkContext.defaultParallelism

    def start(batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
        _settle_in(environment)
        composition.services()
        for _ in batches:
            pass
        yield from ()

    nobody = [("", str(number), 0, 0, 0, False, False, False) for number in range(cores)]
    started = planned(session.createDataFrame(nobody, RUNS), cores).mapInArrow(start, RESULTS)
    summarized(started, PROBLEMS).collect()


def _planned(row: Mapping[str, Any]) -> PlannedRun:
    run = Run(row["fqn"], row["run_id"])
    return PlannedRun(run, row["segments"], row["is_listed"], row["is_final"], row["has_markers"])


_NOTHING: dict[str, Any] = {
    "fqn": None, "run_id": None, "outcome": None, "segments": 0, "uploaded_bytes": 0, "copied_bytes": 0, "retired_segments": 0,
    "problem": None, "requests": None,
}  # fmt: skip


def _result_row(result: Result) -> dict[str, Any]:
    return _NOTHING | {
        "fqn": result.run.fqn,
        "run_id": result.run.run_id,
        "outcome": result.outcome,
        "segments": result.segments,
        "uploaded_bytes": result.uploaded_bytes,
        "copied_bytes": result.copied_bytes,
        "retired_segments": result.retired_segments,
        "problem": result.problem,
    }


def _batch(rows: list[dict[str, Any]]) -> RecordBatch:
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_schema

    from glue_jobs.transforms.compaction import RESULTS

    return pa.RecordBatch.from_pylist(rows, schema=to_arrow_schema(RESULTS))


def bulk_compact(session: SparkSession, rows: Sequence[DueRun], options: JobOptions) -> list[Row]:
    """Work the runs. Returns ``transforms.compaction.SUMMARY``."""
    from glue_jobs.transforms.compaction import RUNS, planned, summarized

    tasks = min(len(rows), max(options.parallelism or session.sparkContext.defaultParallelism, math.ceil(len(rows) / RUNS_A_TASK)))
    runs = session.createDataFrame(rows, RUNS)
    with task_progress(session, NAME):
        return summarized(compacted(planned(runs, tasks), options), PROBLEMS).collect()


def summary_of(rows: Iterable[Row], sent_here: Counter[str], seconds: float, working_s: float) -> dict[str, Any]:
    """The job's summary: runs by outcome, bytes and prices. ``sent_here``: requests of the driver. ``working_s``: the part of
    ``seconds`` in which tasks ran; MB/s refer to it."""
    totals = [row.asDict() for row in rows]
    by_outcome = {row["outcome"]: row for row in totals}
    requests = sum((Counter(sent) for row in totals for sent in row["requests"]), Counter(sent_here))
    uploaded, copied = (sum(row[name] for row in totals) for name in ("uploaded_bytes", "copied_bytes"))
    cost, size = dollars(requests), uploaded + copied
    return {
        "runs": {name: by_outcome[name]["runs"] if name in by_outcome else 0 for name in OUTCOMES},
        "bytes": size,
        "uploaded_bytes": uploaded,
        "copied_bytes": copied,
        "segments": sum(row["segments"] for row in totals),
        "retired_segments": sum(row["retired_segments"] for row in totals),
        "problems": [problem for name in UNDONE if name in by_outcome for problem in by_outcome[name]["problems"]][:PROBLEMS],
        "requests": dict(requests.most_common()),
        "dollars": round(cost, 6),
        "dollars_per_gb": round(cost / size * _GB, 6) if size else 0.0,
        "seconds": round(seconds, 3),
        "working_seconds": round(working_s, 3),
        "mb_per_s": round(size / 1e6 / working_s, 3) if working_s else 0.0,
    }


def _parser() -> argparse.ArgumentParser:
    parser = job_parser(NAME, __doc__)
    parser.add_argument("--fqn", default="", help="only pipelines of this name; * matches any characters, ? one")
    parser.add_argument("--source", choices=("catalog", "bucket"), default="catalog", help="source of the list of runs (catalog)")
    parser.add_argument("--idle-minutes", type=_count, default=0, help="only runs whose last line is at least this old")
    parser.add_argument("--parallelism", type=_count, default=0, help="minimum number of tasks; default: the session's cores")
    parser.add_argument("--threads", type=_at_least_one, default=THREADS, help=f"concurrent runs in each task ({THREADS})")
    parser.add_argument(
        "--lease-seconds",
        type=_at_least_one,
        default=round(LEASE_S),
        help=f"how long a killed job keeps its runs ({LEASE_S:.0f})",
    )
    add_flag(parser, "--dry-run", "report the work without doing it: write nothing, acquire no lease")
    return parser


def _count(text: str) -> int:
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"not a whole number: {text}")
    return int(text)


def _at_least_one(text: str) -> int:
    if not _count(text):
        raise argparse.ArgumentTypeError("at least 1")
    return int(text)


def _worked(due_runs: Iterator[DueRun], options: JobOptions) -> tuple[int, list[Row], float]:
    """Number of due runs, results, and seconds in which tasks ran. Spark is not started if no run is due."""
    first = next(due_runs, None)
    if first is None:
        return 0, [], 0.0
    with ThreadPoolExecutor(1) as listing:
        others = listing.submit(list, due_runs)
        with spark_session(NAME) as session:
            warm_up(session)
            rows = [first, *others.result()]
            started_s = time.monotonic()
            return len(rows), bulk_compact(session, rows, options), time.monotonic() - started_s


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 1 if runs failed, are leased by another worker or quarantined: the summary says which."""
    arguments = parse_arguments(_parser(), argv)
    options = JobOptions(arguments.parallelism, arguments.threads, arguments.lease_seconds, arguments.dry_run)
    requests = request_counter()
    services, started_s = composition.services(), time.monotonic()
    find = by_catalog if arguments.source == "catalog" else by_bucket
    due, results, working_s = _worked(find(services, arguments.fqn, arguments.idle_minutes * 60_000), options)
    summary = summary_of(results, requests, time.monotonic() - started_s, working_s)
    report = {"source": arguments.source, "fqn": arguments.fqn, "dry_run": arguments.dry_run, "due": due, **summary}
    finish(NAME, report, arguments.summary, dry_run=arguments.dry_run)
    return 1 if any(summary["runs"][name] for name in UNDONE) else 0


if __name__ == "__main__":
    sys.exit(run_interruptible(NAME, main))

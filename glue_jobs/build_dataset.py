"""Build the event dataset: new lines of the runs' logs, as Parquet, each line exactly once.

Ended runs are read, failed ones as soon as they are explained; with --live all of them, running ones too. The job can be started at any
time: it continues where the last one ended or was killed. Small files are merged at the end. Layout, queries and recovery of the dataset:
docs/dataset.md.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from pyspark.sql import SparkSession

from chalicelib.errors import InvalidConfigurationError
from chalicelib.runlog.deletion_marks import put_dataset_time
from chalicelib.settings import Settings, load
from glue_jobs.dataset.building import Builder, BuildResult, DatasetSpec
from glue_jobs.dataset.committing import CommitConflictError
from glue_jobs.dataset.destination import destination
from glue_jobs.dataset.entries import APPEND, REMOVAL, REWRITE, Entry, Layout
from glue_jobs.dataset.files import Files
from glue_jobs.dataset.small_files import MOST_FILES, Sizes
from glue_jobs.dataset.writing import SESSION
from glue_jobs.datasource.clients import clients_of
from glue_jobs.datasource.offsets import fingerprint
from glue_jobs.datasource.options import Options, options_of, parse_options
from glue_jobs.job_runtime.arguments import WRONG_ARGUMENTS, add_flag, job_parser, parse_arguments
from glue_jobs.job_runtime.interruption import run_interruptible
from glue_jobs.job_runtime.prices import dollars
from glue_jobs.job_runtime.progress import task_progress
from glue_jobs.job_runtime.request_counts import request_counter, snapshot
from glue_jobs.job_runtime.session import spark_session
from glue_jobs.job_runtime.summary import finish

NAME = "build_dataset"
BUCKETS = 16
TRIES = 5
"""Number of attempts when another job keeps committing first."""
_WRITES_A_FILE = 3
"""Approximate number of requests with which Spark stages a merged file on S3; boto3 does not count them."""


def build(builder: Builder) -> BuildResult:
    """Commit until nothing is new, no row of a deleted run is left and no files remain to merge. Raises CommitConflictError."""
    done = BuildResult()
    try:
        _repeat(builder.append, done)
        _repeat(builder.remove, done)
        _repeat(builder.rewrite, done)
    finally:
        builder.add_counts(done)
    return done


def _repeat(step: Callable[[], Entry | None], done: BuildResult) -> None:
    overtaken = 0
    while True:
        try:
            entry = step()
        except CommitConflictError:
            overtaken += 1
            if overtaken == TRIES:
                raise
            continue
        if entry is None:
            return
        done.entries.append(entry)


def dataset_spec(settings: Settings, arguments: argparse.Namespace) -> DatasetSpec:
    """The dataset for the stack's settings and the arguments. Raises InvalidConfigurationError."""
    options = read_options(settings, arguments)
    layout = Layout(arguments.buckets, options.zone, fingerprint(options))
    return DatasetSpec(options, layout, Sizes(most_files=arguments.rewrite_small), arguments.live)


def read_options(settings: Settings, arguments: argparse.Namespace) -> Options:
    """Options of the data source for reading the logs."""
    named = {
        "runsTable": settings.runs_table,
        "segmentsTable": settings.segments_table,
        "zone": arguments.zone,
        "maxBytesPerBatch": arguments.batch_bytes,
        "fqn": arguments.fqn,
    }
    return parse_options(options_of(settings) | {name: str(value) for name, value in named.items() if value is not None})


def _parser() -> argparse.ArgumentParser:
    parser = job_parser(NAME, __doc__)
    parser.add_argument(
        "--dest", required=True, metavar="URI", help="the dataset's destination: s3://bucket/prefix, s3a://…, file:///folder"
    )
    add_flag(parser, "--live", "include running runs, up to their last complete event")
    parser.add_argument("--fqn", help="one pipeline, or a JSON list of them; * matches any characters")
    parser.add_argument("--zone", default="UTC", help="the zone of timestamps without one, such as Europe/Berlin")
    parser.add_argument("--buckets", type=_count, default=BUCKETS, metavar="N", help=f"partitions of a day ({BUCKETS})")
    parser.add_argument(
        "--batch-bytes", default="100g", metavar="SIZE", help="approximate maximum of text that one commit reads (100g)"
    )
    parser.add_argument(
        "--rewrite-small", type=int, default=MOST_FILES, metavar="N",
        help=f"merge small files of partitions that have N of them, or 128 MiB ({MOST_FILES}; 0: never)",
    )  # fmt: skip
    add_flag(parser, "--dry-run", "report the size of the next batch, write nothing")
    return parser


def _count(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= 4096:
        raise argparse.ArgumentTypeError("1 to 4096")
    return int(text)


def _summary(done: BuildResult, files: Files, started_s: float, before: Counter[str]) -> dict[str, Any]:
    by_spark = Counter({"s3:PutObject": _WRITES_A_FILE * done.total(REWRITE, "files")} if files.uri.startswith("s3") else {})
    requests = snapshot() - before + done.requests + by_spark
    return {
        "entries": len(done.entries),
        **{name: done.total(APPEND, name) for name in ("runs", "rows", "files", "bytes_in", "bytes_out")},
        "rewritten": {
            "files_before": done.total(REWRITE, "replaced"),
            "files_after": done.total(REWRITE, "files"),
            **{name: done.total(REWRITE, name) for name in ("rows", "bytes_out")},
        },
        "removed": {"files_before": done.total(REMOVAL, "replaced"), "files_after": done.total(REMOVAL, "files")},
        "problems": dict(done.problems),
        "requests": dict(requests),
        "dollars": dollars(requests),
        "seconds": round(time.monotonic() - started_s, 1),
    }


def run(session: SparkSession, spec: DatasetSpec, files: Files) -> BuildResult:
    """Build the dataset with a session, and record that rows of deleted runs are removed."""
    began_ms = int(time.time() * 1000)
    with task_progress(session, NAME):
        done = build(_builder(session, files, spec))
    put_dataset_time(clients_of(spec.options)[0].store, began_ms)
    return done


def _builder(session: SparkSession, files: Files, spec: DatasetSpec) -> Builder:
    return Builder(session, files, spec, time.time, clients_of(spec.options)[1].runs)


def _previewed(session: SparkSession, spec: DatasetSpec, files: Files) -> dict[str, Any]:
    work = _builder(session, files, spec).preview()
    return {"runs": len(work.arrived_s), "bytes_in": work.bytes} if work else {"runs": 0, "bytes_in": 0}


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 1 if other jobs always committed first; 2 for wrong arguments. Unreadable parts of the logs are counted in the
    summary."""
    arguments = parse_arguments(_parser(), argv)
    started_s = time.monotonic()
    request_counter()
    before = snapshot()
    summary: dict[str, Any] = {"dest": arguments.dest, "dry_run": arguments.dry_run, "live": arguments.live}
    try:
        spec, files = dataset_spec(load(), arguments), destination(arguments.dest)
        with spark_session(NAME, SESSION) as session:
            if arguments.dry_run:
                summary |= _previewed(session, spec, files)
            else:
                summary |= _summary(run(session, spec, files), files, started_s, before)
    except InvalidConfigurationError as error:
        print(f"{NAME}: {error}", file=sys.stderr)
        return WRONG_ARGUMENTS
    except CommitConflictError as error:
        summary |= {"stopped": f"{error}, repeatedly: run one job at a time"}
    finish(NAME, summary, arguments.summary, dry_run=arguments.dry_run)
    return 1 if summary.get("stopped") else 0


if __name__ == "__main__":
    sys.exit(run_interruptible(NAME, main))

"""``build_dataset`` compared with plain Spark over the same text, bytes that a query reads of a day's dataset, and the cost."""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bench.figures import print_rows
from bench.measure import Measure, reported
from bench.spark_dataset_logs import DAY, LogServer, write_day
from bench.spark_dataset_plain import plain_rows
from glue_jobs.build_dataset import NAME, run
from glue_jobs.dataset.building import BuildResult, DatasetSpec
from glue_jobs.dataset.destination import destination
from glue_jobs.dataset.entries import APPEND, STAGING, Layout
from glue_jobs.dataset.files import LocalFiles
from glue_jobs.dataset.publication import OUTPUT
from glue_jobs.dataset.writing import SESSION, stage
from glue_jobs.datasource.offsets import fingerprint
from glue_jobs.datasource.options import parse_options
from glue_jobs.job_runtime.prices import DPU_HOUR, dollars
from glue_jobs.job_runtime.request_counts import request_counter, snapshot
from glue_jobs.job_runtime.session import spark_session

MIB, GIB = 1024**2, 1024**3
BUCKETS = 16
TIMES_PLAIN, TIMES_ONE_CORE, TIMES_MATCHING = 2.5, 1.8, 3.0
_CORES = 2
_VCPU_OF_DPU = 4
_CONF = {
    **SESSION,
    # Of the comparison's shuffle: rows are about five times as large as in Parquet, so files have some 200 MB.
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "1g",
    "spark.driver.memory": "4g",
    # Otherwise Spark's counters miss some of the bytes read.
    "spark.hadoop.parquet.hadoop.vectored.io.enabled": "false",
}


@dataclass
class Bench:
    """A day's logs, as files and as objects of S3."""

    session: SparkSession
    logs: Path
    server: LogServer
    folder: Path
    size: int

    def ours(self, name: str) -> tuple[float, BuildResult]:
        """Seconds of a whole job."""
        options = parse_options(self.server.options)
        wanted = DatasetSpec(options, Layout(BUCKETS, "UTC", fingerprint(options)))
        request_counter()
        before, started_s = snapshot(), time.perf_counter()
        done = run(self.session, wanted, destination(str(self.folder / name)))
        seconds = time.perf_counter() - started_s
        done.requests.update(snapshot() - before)
        return seconds, done

    def plain(self, name: str) -> float:
        """Seconds of Spark alone, to the same files."""
        started_s = time.perf_counter()
        stage(plain_rows(self.session, self.logs, BUCKETS), LocalFiles(self.folder / name), "plain")
        return time.perf_counter() - started_s


def throughput(bench: Bench, rounds: int) -> list[Measure]:
    """Alternating, the best of each."""
    plain_s, ours_s = [], []
    for number in range(rounds):
        plain_s.append(bench.plain(f"plain-{number}"))
        seconds, done = bench.ours(f"ours-{number}")
        ours_s.append(seconds)
        print(f"plain {plain_s[-1]:.1f} s, ours {ours_s[-1]:.1f} s", file=sys.stderr)
    times, rate = min(plain_s) / min(ours_s), bench.size / 1e6 / min(ours_s)
    per_core = rate / _CORES
    hours_a_tb = 1e6 / per_core / _VCPU_OF_DPU / 3600
    requests = done.requests + Counter({"s3:PutObject": done.total(APPEND, "files")})
    each_gb = dollars(requests) / (bench.size / 1e9)
    said = f"{times:.1f} ({rate:.1f} MB/s, plain {bench.size / 1e6 / min(plain_s):.1f} MB/s)"
    cost = f"{sum(requests.values()) / (bench.size / 1e9):.0f} requests, ${each_gb:.5f}"
    glue = f"{per_core:.1f} MB/s a core, {hours_a_tb:.1f} DPU-hours, ${hours_a_tb * DPU_HOUR:.2f}"
    return [
        Measure(
            f"build_dataset: {bench.size / GIB:.2g} GiB of text, over plain Spark with one regular expression that writes the same columns",
            f"≥ {TIMES_PLAIN}",
            said,
            times >= TIMES_PLAIN,
        ),
        reported("build_dataset: requests and dollars for 1 GB of finished logs", cost),
        reported("build_dataset: Glue, for 1 TB of text", glue),
    ]


def scaling(bench: Bench, rounds: int) -> Measure:
    """The same job in a session with one core; the best of each."""
    two_s = min(bench.ours(f"two-{number}")[0] for number in range(rounds))
    bench.session.stop()
    os.environ["SPARK_MASTER"] = "local[1]"
    with spark_session(NAME, _CONF) as session:
        alone = replace(bench, session=session)
        one_s = min(alone.ours(f"one-{number}")[0] for number in range(rounds))
    times = one_s / two_s
    said = f"{times:.2f} ({bench.size / 1e6 / two_s:.1f} over {bench.size / 1e6 / one_s:.1f} MB/s)"
    return Measure("build_dataset: two cores over one", f"≥ {TIMES_ONE_CORE}", said, times >= TIMES_ONE_CORE)


def query_bytes(bench: Bench, name: str = "ours-0") -> Measure:
    """One pipeline and one hour of a day's dataset, all columns."""
    fqn, start = "svc3.orders", DAY + timedelta(hours=7)
    bucket = int(hashlib.md5(b"svc3_orders").hexdigest()[:4], 16) % BUCKETS
    data = bench.session.read.parquet(str(bench.folder / name / "data"))
    hour = F.col("timestamp").between(F.lit(start), F.lit(start + timedelta(hours=1)))
    selection = data.where((F.col("date") == F.lit(start.date())) & (F.col("what_bucket") == bucket) & (F.col("fqn") == fqn) & hour)
    read = _input_bytes(bench.session, selection)
    stage(selection.coalesce(1), LocalFiles(bench.folder / "matching"), "rows")
    matching = sum(path.stat().st_size for path in (bench.folder / "matching" / STAGING / "rows" / OUTPUT).rglob("*.parquet"))
    times = read / matching
    said = f"{times:.2f} ({read / MIB:.2f} of {matching / MIB:.2f} MiB)"
    what = "dataset: a query of one pipeline and one hour, bytes read over bytes matching"
    return Measure(what, "≤ 3", said, times <= TIMES_MATCHING)


def _input_bytes(session: SparkSession, rows: DataFrame) -> int:
    """Bytes that the tasks of a query read, footers included."""
    context = session.sparkContext
    group = f"query-{time.monotonic_ns()}"
    context.setJobGroup(group, group)
    rows.write.format("noop").mode("overwrite").save()
    context.setJobGroup("", "")
    store, tracker = context._jsc.sc().statusStore(), context.statusTracker()
    context._jsc.sc().listenerBus().waitUntilEmpty()
    jobs = [tracker.getJobInfo(number) for number in tracker.getJobIdsForGroup(group)]
    stages: list[Any] = [store.lastStageAttempt(stage) for job in jobs if job for stage in job.stageIds]
    return sum(stage.inputBytes() for stage in stages)


def measure(size: int = GIB, seed: int = 1, rounds: int = 2) -> list[Measure]:
    """All rows."""
    folder = Path(tempfile.mkdtemp(prefix="runlake-dataset-"))
    logs = folder / "logs"
    write_day(logs, size, seed)
    server = LogServer(logs)
    os.environ["SPARK_MASTER"] = f"local[{_CORES}]"
    try:
        with spark_session(NAME, _CONF) as session:
            whole = sum(path.stat().st_size for path in logs.rglob("logs.txt"))
            bench = Bench(session, logs, server, folder, whole)
            return [*throughput(bench, rounds), query_bytes(bench), scaling(bench, rounds)]
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def main() -> int:
    """Exit code 1 if a goal was missed."""
    parser = argparse.ArgumentParser(prog="python -m bench.spark_dataset", description=__doc__)
    parser.add_argument("--mib", type=int, default=1024, help="text of the day (1024)")
    parser.add_argument("--kills", type=int, default=0, metavar="N", help="instead: kill a job N times, and compare rows")
    parser.add_argument("--live", action="store_true", help="with --kills: open runs too")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    if arguments.kills:
        from bench.spark_dataset_kill import kills

        outcomes, rows = kills(arguments.kills, arguments.seed, live=arguments.live)
        print(f"{arguments.kills} kills, seed {arguments.seed}: the same {rows} rows; killed {dict(outcomes)}")
        return 0
    measured = measure(arguments.mib * MIB, arguments.seed)
    return print_rows(measured)


if __name__ == "__main__":
    sys.exit(main())

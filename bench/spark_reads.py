"""Reads through the data source against Spark's own text reader: the same lines, on the same two cores, in one run, both warm.

Every way of reading runs in turn, several times; the shortest time of each counts, and the median of its processor times, because that of
a Python worker that ends meanwhile is missed. The data source also pays for the server of its objects, which
shares the cores; Spark's reader opens files.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import psutil
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from bench.measure import Measure
from bench.spark_dataset_logs import LogServer, write_day
from bench.spark_dataset_plain import event_columns, match_each, read_lines
from glue_jobs.job_runtime.session import spark_session

MIB = 1024**2
_CORES = 2
_CONF = {
    "spark.driver.memory": "2g",
    "spark.driver.extraJavaOptions": "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false",
    "spark.python.unix.domain.socket.enabled": "true",
}
"""As the documents advise for long reads; the last two change nothing for Spark's own reader."""
_POSITION, _NUMBER = "fqn string, run_id string, line bigint", "line bigint"
_ABSENT = {"segment": "bigint", "connector_id": "string", "epoch": "int"}
"""Columns without values in logs like these."""
TEXT, EXTRACTED = "text", "extracted"
ALL, POSITIONS, COUNTED = "all columns", "positions", "counted"
Spent = dict[str, tuple[float, float]]
"""Seconds of each way of reading: elapsed, and of processors without the server's."""


def measure(size: int = 1024 * MIB, seed: int = 1, rounds: int = 3) -> list[Measure]:
    """The rows of the table."""
    with tempfile.TemporaryDirectory(prefix="runlake-reads-") as name:
        folder = Path(name)
        write_day(folder, size, seed)
        size = sum(path.stat().st_size for path in folder.rglob("logs.txt"))
        spent = _read_all(folder, rounds)

    def ratio(what: str, goal: float, slow: str, fast: str, *, at_least: bool) -> Measure:
        """A goal for the time of ``slow`` over that of ``fast``."""
        (slow_s, slow_cpu_s), (fast_s, fast_cpu_s) = spent[slow], spent[fast]
        times = slow_s / fast_s
        rates = f"{slow} {size / 1e6 / slow_s:.0f}, {fast} {size / 1e6 / fast_s:.0f} MB/s"
        said = f"{times:.1f} ({rates}; by processor time {slow_cpu_s / fast_cpu_s:.1f})"
        return Measure(
            what, f"{'at least' if at_least else 'at most'} {goal:g}", said, times >= goal if at_least else times <= goal
        )

    return [
        ratio(
            "data source, all columns: times as fast as spark.read.text with one regexp_extract a column",
            3,
            EXTRACTED,
            ALL,
            at_least=True,
        ),
        ratio("data source, all columns: times as slow as bare spark.read.text", 6, ALL, TEXT, at_least=False),
        ratio("data source, only run and line number: times as slow as spark.read.text", 1.5, POSITIONS, TEXT, at_least=False),
        ratio("data source, counting: times as slow as spark.read.text", 1.5, COUNTED, TEXT, at_least=False),
    ]


def _read_all(folder: Path, rounds: int) -> Spent:
    """All ways of reading."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:_CORES])
    os.environ["SPARK_MASTER"] = f"local[{_CORES}]"
    server = LogServer(folder)
    try:
        with spark_session("reads", _CONF) as session:
            works = _works(session, folder, server)
            spent: dict[str, list[tuple[float, float]]] = {name: [] for name in works}
            for _ in range(rounds + 1):
                for name, work in works.items():
                    spent[name].append(_timed(work, server.pid))
            return {
                name: (min(each[0] for each in times[1:]), median(each[1] for each in times[1:])) for name, times in spent.items()
            }
    finally:
        server.stop()


def _works(session: SparkSession, folder: Path, server: LogServer) -> dict[str, Callable[[], object]]:
    text = read_lines(session, folder)
    source = session.read.format("runlake").options(**server.options).load()
    positions, numbers = (
        session.read.format("runlake").options(**server.options).schema(each).load() for each in (_POSITION, _NUMBER)
    )
    extracted = _columns(text, match_each())
    assert positions.count() == text.count(), "every line is an event"
    return {
        TEXT: lambda: _drop(text),
        EXTRACTED: lambda: _drop(extracted),
        ALL: lambda: _drop(source),
        POSITIONS: lambda: _drop(positions),
        COUNTED: numbers.count,
    }


def _columns(lines: DataFrame, fields: Sequence[Column]) -> DataFrame:
    """The data source's columns by Spark's own functions."""
    return lines.select(
        *event_columns(fields),
        F.concat("value", F.lit("\n")).cast("binary").alias("raw"),
        *(F.lit(None).cast(kind).alias(name) for name, kind in _ABSENT.items()),
        F.lit("unknown").alias("outcome"),
    )


def _drop(rows: DataFrame) -> None:
    rows.write.format("noop").mode("overwrite").save()


def _timed(work: Callable[[], object], server: int) -> tuple[float, float]:
    before_s, started_s = _processor_s(server), time.perf_counter()
    work()
    return time.perf_counter() - started_s, _processor_s(server) - before_s


def _processor_s(server: int) -> float:
    """Processor seconds so far of this process, Spark's JVM and its Python workers, without the server's. ``server``: its process."""
    here = psutil.Process()
    return sum(_spent_s(process) for process in (here, *here.children(recursive=True)) if process.pid != server)


def _spent_s(process: psutil.Process) -> float:
    """With what its children had spent that have ended."""
    try:
        times: Any = process.cpu_times()
        return float(sum(times[:4]))
    except psutil.Error:
        return 0.0

"""Reads through the data source against Spark's own text reader: the same lines, on the same two cores, in one run, both warm.

Every way of reading runs in turn, several times; the shortest time of each counts, and the median of its processor times, because that of
a Python worker that ends meanwhile is missed. The data source also pays for the server of its objects, which
shares the cores; Spark's reader opens files. One core is measured by a second process, in which all that takes part is bound to it.

What no data source in Python can do without is measured too: a source that only hands over batches that are ready (``ReadyBatches``).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import psutil
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from bench.measure import Measure, reported
from bench.spark_dataset_logs import LogServer, write_day
from bench.spark_dataset_plain import event_columns, match_each, match_once, read_lines
from glue_jobs.datasource import RunlakeDataSource
from glue_jobs.datasource.schema import EVENTS, schema_of
from glue_jobs.job_runtime.session import spark_session
from glue_jobs.job_runtime.worker_reuse import prepare_reuse

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
TEXT, EXTRACTED, MATCHED, COUNTED_TEXT = "text", "extracted", "matched once", "counted text"
ALL, POSITIONS, COUNTED = "all columns", "positions", "counted"
READY, READY_POSITIONS = "ready columns", "ready positions"
Spent = dict[str, tuple[float, float]]
"""Seconds of each way of reading: elapsed, and of processors without the server's."""


class ReadyBatches(DataSource):
    """Hands over the batches of the files of a folder (option ``path``), one file a task: the time of Spark's interface alone."""

    @classmethod
    def name(cls) -> str:
        """The name for ``format()``."""
        return "ready"

    def reader(self, schema: StructType) -> DataSourceReader:
        """Of all columns in the files."""
        return ReadyBatchesReader(Path(self.options["path"]))


class ReadyBatchesReader(DataSourceReader):
    """See ``ReadyBatches``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def partitions(self) -> Sequence[InputPartition]:
        """A task for each file."""
        return [InputPartition(str(path)) for path in sorted(self._folder.iterdir())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The batches of a file, from the page cache."""
        prepare_reuse()
        with pa.memory_map(partition.value) as stored, pa.ipc.open_file(stored) as batches:
            yield from map(batches.get_batch, range(batches.num_record_batches))


def _write_ready(folder: Path, options: dict[str, str], schema: StructType) -> None:
    """Write what the data source hands over, one file for each of its tasks."""
    folder.mkdir()
    reader = RunlakeDataSource(options).reader(schema)
    for number, part in enumerate(reader.partitions()):
        batches = iter(reader.read(part))
        first: Any = next(batches)
        with pa.ipc.new_file(folder / f"{number:04d}.arrow", first.schema) as file:
            file.write_batch(first)
            for each in batches:
                file.write_batch(each)


def measure(size: int = 1024 * MIB, seed: int = 1, rounds: int = 3) -> list[Measure]:
    """The rows of the table."""
    folder = Path(tempfile.mkdtemp(prefix="runlake-reads-"))
    try:
        write_day(folder, size, seed)
        size = sum(path.stat().st_size for path in folder.rglob("logs.txt"))
        two, one = _measured(folder, _CORES, rounds), _measured(folder, 1, rounds)
    finally:
        shutil.rmtree(folder, ignore_errors=True)

    def ratio(what: str, goal: float, slow: str, fast: str, *, at_least: bool) -> Measure:
        """A goal for the time of ``slow`` over that of ``fast``."""
        (slow_s, slow_cpu_s), (fast_s, fast_cpu_s) = two[slow], two[fast]
        times = slow_s / fast_s
        rates = f"{slow} {size / 1e6 / slow_s:.0f}, {fast} {size / 1e6 / fast_s:.0f} MB/s"
        said = f"{times:.1f} ({rates}; by processor time {slow_cpu_s / fast_cpu_s:.1f})"
        return Measure(
            what, f"{'at least' if at_least else 'at most'} {goal:g}", said, times >= goal if at_least else times <= goal
        )

    def rate(name: str) -> str:
        return f"{size / 1e6 / two[name][0]:.0f} MB/s of text"

    cores = one[ALL][0] / two[ALL][0]
    return [
        ratio(
            "data source, all columns: times as fast as spark.read.text with one regexp_extract a column",
            3,
            EXTRACTED,
            ALL,
            at_least=True,
        ),
        reported(
            "the same over one match for each line",
            f"{two[MATCHED][0] / two[ALL][0]:.1f} ({rate(MATCHED)})",
        ),
        ratio("data source, all columns: times as slow as bare spark.read.text", 6, ALL, TEXT, at_least=False),
        ratio("data source, only run and line number: times as slow as spark.read.text", 1.5, POSITIONS, TEXT, at_least=False),
        ratio("data source, counting: times as slow as spark.read.text", 1.5, COUNTED, TEXT, at_least=False),
        reported("the same over counting by spark.read.text", f"{two[COUNTED][0] / two[COUNTED_TEXT][0]:.1f}"),
        reported(
            "a data source in Python that only hands over ready columns: times as slow as spark.read.text; over the regexp_extract",
            f"{two[READY][0] / two[TEXT][0]:.1f}; {two[EXTRACTED][0] / two[READY][0]:.1f} times as fast ({rate(READY)})",
        ),
        reported(
            "the same, only run and line number: times as slow as spark.read.text",
            f"{two[READY_POSITIONS][0] / two[TEXT][0]:.1f} ({rate(READY_POSITIONS)})",
        ),
        Measure(
            "data source, all columns: two cores over one",
            "at least 1.8",
            f"{cores:.2f} ({one[ALL][0]:.1f} s and {two[ALL][0]:.1f} s)",
            cores >= 1.8,
        ),
    ]


def _measured(folder: Path, cores: int, rounds: int) -> Spent:
    command = [sys.executable, "-m", "bench.spark_reads", str(folder), "--cores", str(cores), "--rounds", str(rounds)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, cwd=Path(__file__).parents[1])
    return {name: (seconds[0], seconds[1]) for name, seconds in json.loads(done.stdout.splitlines()[-1]).items()}


def _read_all(folder: Path, cores: int, rounds: int) -> Spent:
    """All ways of reading on some cores; on one core the data source with all columns only."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    os.environ["SPARK_MASTER"] = f"local[{cores}]"
    server = LogServer(folder)
    try:
        with (
            tempfile.TemporaryDirectory(prefix="runlake-ready-") as ready,
            spark_session("reads", _CONF) as session,
        ):
            works = _works(session, folder, server)
            if cores < _CORES:
                works = {ALL: works[ALL]}
            else:
                works |= _ready(session, Path(ready), server)
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
    extracted, matched = _columns(text, match_each()), _columns(text, match_once())
    lines = text.count()
    assert positions.count() == lines, "every line is an event"
    return {
        TEXT: lambda: _drop(text),
        EXTRACTED: lambda: _drop(extracted),
        MATCHED: lambda: _drop(matched),
        ALL: lambda: _drop(source),
        POSITIONS: lambda: _drop(positions),
        COUNTED: numbers.count,
        COUNTED_TEXT: text.count,
    }


def _ready(session: SparkSession, folder: Path, server: LogServer) -> dict[str, Callable[[], object]]:
    session.dataSource.register(ReadyBatches)
    every = schema_of(EVENTS)
    sources = {READY: every, READY_POSITIONS: StructType([every[name] for name in ("fqn", "run_id", "line")])}
    works: dict[str, Callable[[], object]] = {}
    for name, schema in sources.items():
        _write_ready(folder / name, server.options, schema)
        works[name] = partial(_drop, session.read.format("ready").schema(schema).load(str(folder / name)))
    return works


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
    before_s, started_s = processor_s(server), time.perf_counter()
    work()
    return time.perf_counter() - started_s, processor_s(server) - before_s


def processor_s(server: int) -> float:
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


def main() -> None:
    """Print the seconds of one number of cores."""
    parser = argparse.ArgumentParser(prog="python -m bench.spark_reads", description=__doc__)
    parser.add_argument("folder", type=Path, help="a day's logs, as bench.spark_dataset_logs writes them")
    parser.add_argument("--cores", type=int, default=_CORES)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    print(json.dumps(_read_all(arguments.folder, arguments.cores, arguments.rounds)))


if __name__ == "__main__":
    main()

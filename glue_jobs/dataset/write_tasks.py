"""Tasks that read events and write them as files of the dataset, in Spark's workers.

Rows do not pass through Spark: a task has all slices of a batch whose rows share files, so there is nothing to shuffle. The driver gets the
names of files from the attempt at a task whose result Spark uses, and no others: of repeated and speculative attempts one counts.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from chalicelib.ports import Run
from glue_jobs.dataset.destination import destination
from glue_jobs.dataset.entries import StagedFile
from glue_jobs.dataset.files import Files
from glue_jobs.dataset.partition_files import PartitionFiles
from glue_jobs.dataset.row_tables import RunValues, partitioned
from glue_jobs.dataset.tallies import Tally
from glue_jobs.datasource.clients import clients_of
from glue_jobs.datasource.options import MIB, Options
from glue_jobs.datasource.planning import cost_of, packed
from glue_jobs.datasource.reading import ReadSpec
from glue_jobs.datasource.schema import EVENTS, schema_of
from glue_jobs.datasource.selection import selection_of
from glue_jobs.datasource.slices import Slice
from glue_jobs.datasource.tasks import Task
from glue_jobs.job_runtime.environment import apply_environment, worker_environment
from glue_jobs.job_runtime.request_counts import request_counter, snapshot
from glue_jobs.job_runtime.worker_reuse import prepare_reuse

TASK_BYTES = 1024 * MIB
"""Text that a task reads at most, unless a single slice is larger: the size of files, and the work that is repeated if it fails."""
SORTED_BYTES = 96 * MIB
"""Arrow columns that are sorted at once."""
_COLUMNS = tuple(schema_of(EVENTS).names)
_STAGED = pa.schema([("name", pa.string()), ("bytes", pa.int64()), ("rows", pa.int64())])
"""Columns of ``StagedFile``."""


@dataclass(frozen=True, slots=True)
class WriteTask:
    """Slices of one bucket in the order of their rows, and the values of their runs."""

    slices: Sequence[Slice]
    runs: Mapping[Run, RunValues]


def write_tasks(slices: Iterable[Slice], runs: Mapping[Run, RunValues], most_bytes: int = TASK_BYTES) -> list[WriteTask]:
    """The tasks of a batch, the largest first. Slices of a bucket and a day are together unless they are more than ``most_bytes``."""
    by_bucket: defaultdict[int, list[Slice]] = defaultdict(list)
    for part in slices:
        by_bucket[runs[part.run].bucket].append(part)
    tasks = [task for each in by_bucket.values() for task in _of_bucket(each, runs, most_bytes)]
    tasks.sort(key=_bytes, reverse=True)
    return [WriteTask(task, {part.run: runs[part.run] for part in task}) for task in tasks]


def _of_bucket(slices: list[Slice], runs: Mapping[Run, RunValues], most_bytes: int) -> Iterator[list[Slice]]:
    slices.sort(
        key=lambda part: (_day(part), runs[part.run].what, part.run.fqn, part.reference_s, part.run.run_id, part.start.byte)
    )
    task: list[Slice] = []
    size = 0
    for _, of_day in groupby(slices, _day):
        for part in packed(of_day, most_bytes):
            added = _bytes(part)
            if task and size + added > most_bytes:
                yield task
                task, size = [], 0
            task += part
            size += added
    yield task


def _day(part: Slice) -> int:
    return part.reference_s // 86_400


def _bytes(slices: Sequence[Slice]) -> int:
    return sum(cost_of(part.pieces, part.start.byte, part.end.byte) for part in slices)


def write_events(
    session: SparkSession, options: Options, tasks: Sequence[WriteTask], uri: str, folder: str, problems: Tally, requests: Tally
) -> list[StagedFile]:
    """Write the events of tasks to files below ``folder`` of the destination ``uri``, one Spark task for each. Only the catalog provides
    segment, connector and epoch, because objects lose them when they are compacted. Counts problems by kind."""
    work = session.sparkContext.broadcast(tuple(tasks))
    environment = worker_environment()

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        apply_environment(environment)
        request_counter()
        before = snapshot()
        bucket, catalog = clients_of(options)
        files = destination(uri)
        prepare_reuse()
        for batch in batches:
            for number in batch.column(0).to_pylist():
                spec = ReadSpec(options, selection_of(options), catalog.segments, origins=False)
                task = Task(bucket.store, spec)
                events = task.batches(work.value[number].slices, _COLUMNS)
                staged = write_files(events, work.value[number].runs, files, folder)
                yield pa.RecordBatch.from_pylist([each._asdict() for each in staged], _STAGED)
                problems.add(Counter(problem.kind for problem in task.problems.reported))
        requests.add(snapshot() - before)

    numbers = session.range(0, len(tasks), 1, max(len(tasks), 1))
    return [StagedFile(*row) for row in numbers.mapInArrow(write, from_arrow_schema(_STAGED)).collect()]


def write_files(
    events: Iterator[pa.RecordBatch], runs: Mapping[Run, RunValues], files: Files, folder: str, sorted_bytes: int = SORTED_BYTES
) -> list[StagedFile]:
    """Write events to one file for each partition, or some more if partitions take turns. Rows that are sorted at once have about
    ``sorted_bytes``, or those of a batch of very long lines; memory: four times that. Raises UnavailableError."""
    with closing(PartitionFiles(files, folder)) as written:
        for table in _tables(events, sorted_bytes):
            _write_table(table, runs, written)
        return written.finish()


def _write_table(table: pa.Table, runs: Mapping[Run, RunValues], written: PartitionFiles) -> None:
    """In a function of its own, whose rows are not kept while the next ones are sorted."""
    for partition, rows in partitioned(table, runs):
        written.write(partition, rows)


def _tables(events: Iterator[pa.RecordBatch], most_bytes: int) -> Iterator[pa.Table]:
    gathered: list[pa.RecordBatch] = []
    size = 0
    for batch in events:
        gathered.append(batch)
        size += batch.nbytes
        if size >= most_bytes:
            yield pa.Table.from_batches(gathered)
            gathered, size = [], 0
    if gathered:
        yield pa.Table.from_batches(gathered)

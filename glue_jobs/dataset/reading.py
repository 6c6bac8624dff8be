"""Reads the events of slices in Spark's workers, with the data source's reader, and counts problems and requests.

The data source plans a read when Spark asks for it, and does not report problems and requests. A job plans once and reports both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime

import pyarrow as pa
from pyspark import AccumulatorParam, SparkContext
from pyspark.accumulators import Accumulator
from pyspark.sql import DataFrame, SparkSession

from chalicelib.ports import Run
from glue_jobs.datasource.clients import clients_of
from glue_jobs.datasource.options import Options
from glue_jobs.datasource.reading import ReadSpec
from glue_jobs.datasource.schema import EVENTS, schema_of
from glue_jobs.datasource.selection import selection_of
from glue_jobs.datasource.slices import Slice
from glue_jobs.datasource.tasks import Task
from glue_jobs.job_runtime.environment import apply_environment, worker_environment
from glue_jobs.job_runtime.request_counts import request_counter, snapshot
from glue_jobs.transforms.events import ARRIVALS

_COLUMNS = tuple(schema_of(EVENTS).names)
Tally = Accumulator[Counter[str]]


class _Counters(AccumulatorParam[Counter[str]]):
    def zero(self, value: Counter[str]) -> Counter[str]:
        return Counter()

    def addInPlace(self, value1: Counter[str], value2: Counter[str]) -> Counter[str]:
        value1.update(value2)
        return value1


def tally(context: SparkContext) -> Tally:
    """A counter for workers. A task that Spark repeats is counted again."""
    return context.accumulator(Counter(), _Counters())


def read_events(
    session: SparkSession, options: Options, tasks: Sequence[Sequence[Slice]], problems: Tally, requests: Tally
) -> DataFrame:
    """The events of slices, ``schema_of(EVENTS)``; one Spark task for each of ``tasks``. Only the catalog provides segment,
    connector and epoch, because objects lose them when they are compacted. Counts problems by kind."""
    work = session.sparkContext.broadcast([tuple(each) for each in tasks])
    environment = worker_environment()

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        apply_environment(environment)
        request_counter()
        before = snapshot()
        bucket, catalog = clients_of(options)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                spec = ReadSpec(options, selection_of(options), catalog.segments, origins=False)
                task = Task(bucket.store, spec)
                yield from task.batches(work.value[number], _COLUMNS)
                problems.add(Counter(problem.kind for problem in task.problems.reported))
        requests.add(snapshot() - before)

    numbers = session.range(0, len(tasks), 1, max(len(tasks), 1))
    return numbers.mapInArrow(read, schema_of(EVENTS))


def arrivals(session: SparkSession, arrived_s: Mapping[Run, int]) -> DataFrame:
    """The days on which runs were first read, by run (``ARRIVALS``)."""
    rows = [(run.fqn, run.run_id, datetime.fromtimestamp(at_s, UTC).date()) for run, at_s in sorted(arrived_s.items(), key=_named)]
    return session.createDataFrame(rows, ARRIVALS)


def _named(item: tuple[Run, int]) -> tuple[str, str]:
    return item[0].fqn, item[0].run_id

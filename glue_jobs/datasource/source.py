"""The Spark data source: checks options and creates the readers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, cast

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, Filter, InputPartition
from pyspark.sql.types import StructType

from chalicelib.errors import InvalidConfigurationError
from glue_jobs.datasource.batches import batches_of
from glue_jobs.datasource.clients import clients_of
from glue_jobs.datasource.options import LATEST, Options, parse_options
from glue_jobs.datasource.planner import Planner, RunLocator
from glue_jobs.datasource.planning import packed
from glue_jobs.datasource.problems import Problems
from glue_jobs.datasource.reading import ReadSpec
from glue_jobs.datasource.schema import ORIGIN, OUTCOME, PROBLEMS, checked_columns, schema_of
from glue_jobs.datasource.selection import Selection, level_names, narrowed, selection_of
from glue_jobs.datasource.steps import ending, follower, starting
from glue_jobs.datasource.tasks import Slices, Task
from glue_jobs.job_runtime.worker_reuse import prepare_reuse

if TYPE_CHECKING:
    from pyarrow import RecordBatch


class RunlakeDataSource(DataSource):
    """``spark.read.format("runlake")`` and ``spark.readStream.format("runlake")``. Options and columns: docs/spark.md."""

    @classmethod
    def name(cls) -> str:
        """The name for ``format()``."""
        return "runlake"

    def schema(self) -> StructType:
        """All columns. Raises InvalidConfigurationError for an invalid option."""
        return schema_of(self._options().rows)

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader of the current data. ``schema`` may be a subset of the columns."""
        options = self._options()
        columns = checked_columns(schema, options.rows)
        return PushdownReader(options, columns) if options.pushdown else RunlakeReader(options, columns)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """A reader of current and future data."""
        from glue_jobs.datasource.stream import RunlakeStreamReader

        options = self._options()
        return RunlakeStreamReader(options, checked_columns(schema, options.rows))

    def _options(self) -> Options:
        return parse_options(self.options)


class RunlakeReader(DataSourceReader):
    """A batch read. The plan is fixed on the driver: a repeated task reads the same bytes."""

    def __init__(self, options: Options, columns: tuple[str, ...]) -> None:
        _check_offsets(options)
        self._options, self._columns = options, columns
        self._selection: Selection = selection_of(options)

    def partitions(self) -> Sequence[InputPartition]:
        """Tasks; one empty task if there is nothing to read."""
        problems = Problems(self._options.is_strict)
        try:
            tasks = self._between(problems) if self._options.is_between_offsets else self._all(problems)
            planning_problems = [Slices((), tuple(problems.reported))] if problems.reported else []
            return planning_problems + tasks or [Slices(())]
        finally:
            problems.end()

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        """A task's rows."""
        work = cast(Slices, partition)
        bucket, catalog = clients_of(self._options)
        prepare_reuse()
        origins = not self._options.is_between_offsets
        index = catalog.segments if ORIGIN.intersection(self._columns) else None
        spec = ReadSpec(self._options, self._selection, index, origins, outcomes=OUTCOME in self._columns)
        task = Task(bucket.store, spec)
        if self._options.rows == PROBLEMS:
            yield from batches_of([*work.problems, *task.check(work.slices)], self._columns, PROBLEMS)
        else:
            yield from task.batches(work.slices, self._columns)

    def _all(self, problems: Problems) -> list[Slices]:
        bucket, catalog = clients_of(self._options)
        locator = RunLocator(bucket, bucket.store, self._options, problems)
        planner = Planner(locator, bucket.store, self._options, catalog.runs, catalog.segments)
        return planner.plan(self._selection)

    def _between(self, problems: Problems) -> list[Slices]:
        following = follower(self._options, problems)
        start = starting(self._options)
        slices = following.slices(start, ending(self._options, start, following))
        selected = (part for part in slices if self._selection.wants(part.run))
        return [Slices(tuple(each)) for each in packed(selected, self._options.bytes_per_partition)]


class PushdownReader(RunlakeReader):
    """A batch read that uses filters, of one query: Spark 4.1 makes one reader for each ``load()``, so the filters of a query also apply to
    all others of the same data frame."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Uses the supported filters, and returns all to Spark except those on levels, because Spark would compare spellings."""
        self._selection = narrowed(self._selection, filters)
        return [each for each in filters if level_names(each) is None]


def _check_offsets(options: Options) -> None:
    if options.starting_offsets == LATEST:
        raise InvalidConfigurationError("startingOffsets=latest is only valid for streaming option=startingOffsets")
    if options.is_between_offsets and options.status:
        raise InvalidConfigurationError("a read between offsets cannot select by the current status of runs option=status")

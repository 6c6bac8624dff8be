"""The stream reader for Spark: from offsets to offsets and tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from chalicelib.errors import InvalidConfigurationError
from glue_jobs.datasource.clients import clients_of
from glue_jobs.datasource.following import Follower
from glue_jobs.datasource.offsets import Offset
from glue_jobs.datasource.options import LATEST, Options
from glue_jobs.datasource.planning import packed
from glue_jobs.datasource.problems import Problems
from glue_jobs.datasource.reading import ReadSpec
from glue_jobs.datasource.schema import EVENTS, ORIGIN, OUTCOME
from glue_jobs.datasource.selection import selection_of
from glue_jobs.datasource.steps import follower, starting
from glue_jobs.datasource.tasks import Slices, Task
from glue_jobs.job_runtime.worker_reuse import prepare_reuse

if TYPE_CHECKING:
    from pyarrow import RecordBatch


class RunlakeStreamReader(DataSourceStreamReader):
    """Follows runs. After a restart Spark plans from the last checkpointed offset to itself before it requests the next one."""

    def __init__(self, options: Options, columns: tuple[str, ...]) -> None:
        if options.rows != EVENTS:
            raise InvalidConfigurationError("a stream has events only option=rows")
        if options.ending_offsets != LATEST:
            raise InvalidConfigurationError("a stream has no end option=endingOffsets")
        if options.status:
            raise InvalidConfigurationError("a stream follows a run through every status option=status")
        self._options, self._columns = options, columns
        self._follower: Follower | None = None
        self._known: Offset | None = None
        self._initial: Offset | None = None
        self._settled = Offset.initial(options)

    def initialOffset(self) -> dict[str, Any]:
        """The start of a new query."""
        return self._first().to_json()

    def latestOffset(self) -> dict[str, Any]:
        """The offset after all current data."""
        self._known = self._follow().latest(self._known or self._first(), self._settled)
        return self._known.to_json()

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> Sequence[InputPartition]:
        """Tasks of a batch."""
        first, last = Offset.from_json(start, self._options), Offset.from_json(end, self._options)
        if self._known is None or start == end:
            self._known = last
        self._settled = last
        if start == end:
            return []
        return [Slices(tuple(part)) for part in packed(self._follow().slices(first, last), self._options.bytes_per_partition)]

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        """A task's rows. Only the catalog provides segment, connector and epoch, because objects lose them when they are
        compacted."""
        work = cast(Slices, partition)
        bucket, catalog = clients_of(self._options)
        prepare_reuse()
        index = catalog.segments if ORIGIN.intersection(self._columns) else None
        spec = ReadSpec(self._options, selection_of(self._options), index, origins=False, outcomes=OUTCOME in self._columns)
        yield from Task(bucket.store, spec).batches(work.slices, self._columns)

    def _first(self) -> Offset:
        if self._initial is None:
            self._initial = starting(self._options)
        return self._initial

    def _follow(self) -> Follower:
        if self._follower is None:
            self._follower = follower(self._options, Problems(self._options.is_strict))
        return self._follower

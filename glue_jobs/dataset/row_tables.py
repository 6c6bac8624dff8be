"""Events as rows of the dataset, by Arrow: with their pipeline's name in the datalake, explanations of failed runs and partitions, in
the order of files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import md5
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from chalicelib.catalog.runs import EXPLAINED_OUTCOMES
from chalicelib.ingestion.run_files import slug
from chalicelib.ports import Run
from glue_jobs.columnar.blocks import Ints
from glue_jobs.dataset.raw_text import without_messages
from glue_jobs.transforms.events import CAUSE, DATASET, END_DAY, FIRST_DAY, PARTITIONS

Cause = tuple[int, int, str, str | None, float]
"""Values of ``transforms.events.CAUSE``."""
_DAY_US = 86_400_000_000
_FIRST_DAY, _END_DAY = (int(np.datetime64(day).astype(np.int64)) for day in (FIRST_DAY, END_DAY))
_WITHOUT_TIME = np.iinfo(np.int64).min
"""Sorts events without a time first, as Spark does."""
_PLAIN = to_arrow_schema(StructType([field for field in DATASET.fields if field.name not in PARTITIONS]))
REPEATED = frozenset({"fqn", "run_id", "level", "logger", "connector_id", "outcome", "what"})
"""Texts with few values: dictionaries, so that sorting and writing handle numbers."""
SCHEMA = pa.schema(
    [field.with_type(pa.dictionary(pa.int32(), field.type)) if field.name in REPEATED else field for field in _PLAIN]
)
"""Columns of a file."""


class RunValues(NamedTuple):
    """Values that the rows of a run share. ``arrived``: the day on which its log was first read, in days since the epoch: the partition of
    its events without a plausible time. ``causes``: the lines that explain why it failed, the best one first."""

    what: str
    bucket: int
    arrived: int
    causes: Sequence[Cause] = ()


def values_of(fqn: str, arrived_s: int, causes: Sequence[Cause], buckets: int) -> RunValues:
    """The values of a run. The bucket is from the first 16 bits of the name's MD5, which every engine can compute: docs/dataset.md."""
    what = slug(fqn)
    bucket = int(md5(what.encode(), usedforsecurity=False).hexdigest()[:4], 16) % buckets
    return RunValues(what, bucket, arrived_s // 86_400, causes)


class PartitionRows(NamedTuple):
    """Sorted rows of one partition. ``folder``: ``date=2026-11-20/what_bucket=3``."""

    folder: str
    rows: pa.Table


def partitioned(events: pa.Table, runs: Mapping[Run, RunValues]) -> Iterator[PartitionRows]:
    """Rows (``SCHEMA``) of some events (``datasource.schema``), by partition, sorted by ``transforms.events.ORDER``. A row depends on its event
    and run only, not on the other events. Memory: once the table, twice if it is not sorted."""
    if not events.num_rows:
        return
    columns = {name: events[name].combine_chunks() for name in events.column_names}
    columns |= {name: columns[name].dictionary_encode() for name in REPEATED.intersection(columns)}
    of_runs = _RunsOfRows(columns, runs)
    us, day = _times(columns["timestamp"], of_runs.arrived)
    stored = without_messages(columns["raw"], columns["message"])
    order = np.lexsort((np.asarray(columns["line"]), of_runs.run_id_rank, us, of_runs.fqn_rank, of_runs.bucket, day))
    rows = pa.Table.from_pydict(
        columns | of_runs.what() | of_runs.causes(columns) | {"raw": stored.raw, "raw_head": stored.head}, SCHEMA
    )
    del columns, stored  # copies of the texts
    if (order[1:] < order[:-1]).any():
        rows, day, bucket = rows.take(pa.array(order)), day[order], of_runs.bucket[order]
    else:
        bucket = of_runs.bucket
    starts = np.flatnonzero(np.append(True, (day[1:] != day[:-1]) | (bucket[1:] != bucket[:-1])))
    for first, end in zip(starts.tolist(), [*starts[1:].tolist(), len(day)], strict=True):
        folder = f"date={day[first].astype('datetime64[D]')}/what_bucket={bucket[first]}"
        yield PartitionRows(folder, rows.slice(first, end - first))


def _times(timestamps: pa.TimestampArray, arrived: Ints) -> tuple[Ints, Ints]:
    """Microseconds and days since the epoch."""
    us = np.asarray(pc.fill_null(timestamps.cast(pa.int64()), _WITHOUT_TIME))
    own_day = us // _DAY_US
    return us, np.where((own_day >= _FIRST_DAY) & (own_day < _END_DAY), own_day, arrived)


class _RunsOfRows:
    """The runs of rows, whose columns ``fqn`` and ``run_id`` are dictionaries."""

    def __init__(self, columns: Mapping[str, Any], runs: Mapping[Run, RunValues]) -> None:
        fqns, run_ids = (columns[name].dictionary.to_pylist() for name in ("fqn", "run_id"))
        pairs = np.asarray(columns["fqn"].indices).astype(np.int64) * len(run_ids) + np.asarray(columns["run_id"].indices)
        distinct, self._places = np.unique(pairs, return_inverse=True)
        named = [Run(fqns[pair // len(run_ids)], run_ids[pair % len(run_ids)]) for pair in distinct.tolist()]
        self._values = [runs[run] for run in named]
        self.bucket = self._of_rows([values.bucket for values in self._values])
        self.arrived = self._of_rows([values.arrived for values in self._values])
        self.run_id_rank = self._of_rows(_ranks([run.run_id for run in named]))
        self.fqn_rank = self._of_rows(_ranks([(values.what, run.fqn) for values, run in zip(self._values, named, strict=True)]))

    def what(self) -> dict[str, pa.Array]:
        """The column ``what``."""
        names = pa.array([values.what for values in self._values]).dictionary_encode()
        return {"what": names.take(pa.array(self._places))}

    def causes(self, columns: Mapping[str, Any]) -> dict[str, pa.Array]:
        """The columns ``CAUSE``: of each event of a failed run the best of the run's causes that is one of the event's lines."""
        is_explained = np.array([bool(values.causes) for values in self._values])
        rows = np.flatnonzero(is_explained[self._places])
        if not len(rows):
            return {name: pa.nulls(len(self._places), SCHEMA.field(name).type) for name in CAUSE.names}
        line, end_line = _lines(columns, rows)
        chosen: list[Cause] = []
        places = np.full(len(self._places), -1)
        turns = np.flatnonzero(np.diff(self._places[rows], prepend=-1)).tolist()  # slices are read one after the other
        for first, end in pairwise([*turns, len(rows)]):
            of_run = slice(first, end)
            for cause in self._values[self._places[rows[first]]].causes:
                inside = rows[of_run][(line[of_run] <= cause[1]) & (cause[1] < end_line[of_run])]
                places[inside[places[inside] < 0]] = len(chosen)
                chosen.append(cause)
        taken = pa.array(places, mask=places < 0)
        return {
            name: pa.array([cause[index] for cause in chosen], SCHEMA.field(name).type).take(taken)
            for index, name in enumerate(CAUSE.names)
        }

    def _of_rows(self, values: Sequence[int]) -> Ints:
        of_rows: Ints = np.array(values, np.int64)[self._places]
        return of_rows


def _ranks(keys: Sequence[Any]) -> list[int]:
    ranks = {key: rank for rank, key in enumerate(sorted(set(keys)))}
    return [ranks[key] for key in keys]


def _lines(columns: Mapping[str, Any], rows: Ints) -> tuple[Ints, Ints]:
    """The first line of rows, and the one behind their last; none of rows that did not fail."""
    taken = pa.array(rows)
    line, raw = np.asarray(columns["line"].take(taken)), columns["raw"].take(taken)
    has_failed = pc.is_in(columns["outcome"].take(taken).dictionary_decode(), value_set=pa.array(EXPLAINED_OUTCOMES))
    count = np.asarray(pc.count_substring(raw, b"\n")) + ~np.asarray(pc.ends_with(raw, b"\n"))
    return line, line + np.where(np.asarray(has_failed), count, 0)

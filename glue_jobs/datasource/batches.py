"""Arrow batches of about 4 MiB or 10,000 rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from glue_jobs.datasource.options import MIB
from glue_jobs.datasource.schema import arrow_schema, schema_of

MAX_ROWS = 10_000
MAX_BYTES = 4 * MIB
_JOINED_ROWS, _JOINED_BYTES = MAX_ROWS // 4, MAX_BYTES // 4
"""Smaller batches are copied into one with others."""


def batches_of(items: Iterable[Sequence[Any] | pa.RecordBatch], columns: Sequence[str], kind: str) -> Iterator[pa.RecordBatch]:
    """Batches with the selected columns, in order, from rows with all columns of a kind and from batches with the selected ones."""
    names = schema_of(kind).names
    picked = [names.index(name) for name in columns]
    schema = arrow_schema(columns, kind)
    raw = names.index("raw") if "raw" in names else None
    batches: list[pa.RecordBatch] = []
    rows: list[Sequence[Any]] = []
    count = size = 0

    def gathered() -> list[pa.RecordBatch]:
        """What was not yielded yet; the rows behind the last batch are one."""
        return [*batches, _batch(rows, picked, schema)] if rows else batches

    for item in items:
        if isinstance(item, pa.RecordBatch):
            batches, rows = gathered(), []
            if item.num_rows >= _JOINED_ROWS or item.nbytes >= _JOINED_BYTES:
                if batches:
                    yield from _of_size(batches)
                yield from _of_size([item])
                batches, count, size = [], 0, 0
                continue
            batches.append(item)
            count, size = count + item.num_rows, size + item.nbytes
        else:
            rows.append(item)
            count, size = count + 1, size + (len(item[raw]) if raw is not None else 0)
        if size >= MAX_BYTES or count >= MAX_ROWS:
            yield from _of_size(gathered())
            batches, rows, count, size = [], [], 0, 0
    if count:
        yield from _of_size(gathered())


def _of_size(batches: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Small batches as one, a large one as several."""
    table = pa.Table.from_batches(batches)
    rows = table.num_rows * MAX_BYTES // max(table.nbytes, 1) if table.nbytes > 2 * MAX_BYTES else MAX_ROWS
    joined = table.combine_chunks() if len(batches) > 1 else table
    return iter(joined.to_batches(max_chunksize=max(min(rows, MAX_ROWS), 1)))


def _batch(rows: Sequence[Sequence[Any]], picked: Sequence[int], schema: pa.Schema) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True))
    arrays = [_array(columns[index], field.type) for index, field in zip(picked, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    try:
        return pa.array(values, type=kind)
    except UnicodeEncodeError:
        # A lone UTF-16 surrogate, possible in JSON but not in UTF-8.
        return pa.array([value and value.encode(errors="replace").decode() for value in values], type=kind)

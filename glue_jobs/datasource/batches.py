"""Rows as Arrow batches of about 4 MiB or 10,000 rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from glue_jobs.datasource.options import MIB
from glue_jobs.datasource.schema import arrow_schema, schema_of

MAX_ROWS = 10_000
MAX_BYTES = 4 * MIB


def batches_of(rows: Iterable[Sequence[Any]], columns: Sequence[str], kind: str) -> Iterator[pa.RecordBatch]:
    """Batches with the selected columns, from rows with all columns of a kind."""
    names = schema_of(kind).names
    picked = [names.index(name) for name in columns]
    schema = arrow_schema(columns, kind)
    raw = names.index("raw") if "raw" in names else None
    gathered: list[Sequence[Any]] = []
    size = 0
    for row in rows:
        gathered.append(row)
        size += len(row[raw]) if raw is not None else 0
        if size >= MAX_BYTES or len(gathered) >= MAX_ROWS:
            yield _batch(gathered, picked, schema)
            gathered, size = [], 0
    if gathered:
        yield _batch(gathered, picked, schema)


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

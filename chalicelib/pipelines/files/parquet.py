"""Parquet files: complete when they are written."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from chalicelib.errors import DamagedLogError
from chalicelib.pipelines.files.records import FIELDS, FileEvent, document_of, event_of, typed

SCHEMA = pa.schema([
    ("time", pa.timestamp("ms", tz="UTC")),
    ("level", pa.string()),
    ("logger", pa.string()),
    ("message", pa.string()),
    ("fqn", pa.string()),
    ("runId", pa.string()),
    ("line", pa.int64()),
])  # fmt: skip
_OVERHEAD_BYTES = 700
_ROWS = 4096


class ParquetEncoder:
    """Keeps events until they are taken."""

    def __init__(self) -> None:
        self._columns: list[list[Any]] = [[] for _ in FIELDS]

    def add(self, record: logging.LogRecord, text: str, time_ms: int) -> int:
        """See ``Encoder``."""
        document = typed(document_of(record, text, time_ms))
        for column, value in zip(self._columns, document.values(), strict=True):
            column.append(value)
        return len(text) + _OVERHEAD_BYTES

    def take(self) -> bytes:
        """See ``Encoder``: a complete file."""
        columns, self._columns = self._columns, [[] for _ in FIELDS]
        if not columns[0]:
            return b""
        arrays = [pa.array(column, type_) for column, type_ in zip(columns, SCHEMA.types, strict=True)]
        into = io.BytesIO()
        pq.write_table(pa.Table.from_arrays(arrays, schema=SCHEMA), into, compression="zstd", row_group_size=65_536)
        return into.getvalue()


def read(chunks: Iterator[bytes], _: int) -> Iterator[FileEvent]:
    """The events of a file. Memory: its bytes, compressed, and 4,096 rows, since a Parquet file ends with its footer."""
    try:
        file = pq.ParquetFile(pa.BufferReader(b"".join(chunks)))
        for batch in file.iter_batches(_ROWS, columns=list(FIELDS)):
            times = batch.column(0).cast(pa.int64()).to_pylist()
            for time_ms, document in zip(times, batch.select(list(FIELDS)[1:]).to_pylist(), strict=True):
                yield event_of({"time": time_ms, **document})
    except (pa.ArrowException, OSError, ValueError, TypeError, KeyError) as error:
        raise DamagedLogError(f"not parquet error={type(error).__name__}") from error

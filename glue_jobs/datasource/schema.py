"""Columns of a read: one row for each event, or for each problem (``rows=problems``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BinaryType, DataType, IntegerType, LongType, StringType, StructField, StructType, TimestampType

from chalicelib.errors import InvalidConfigurationError

EVENTS, PROBLEMS = "events", "problems"
OUTCOME = "outcome"
"""A column that may need a request for a run's seal."""

_TYPES: Mapping[str, Mapping[str, DataType]] = {
    EVENTS: {
        "fqn": StringType(),
        "run_id": StringType(),
        "line": LongType(),
        "timestamp": TimestampType(),
        "level": StringType(),
        "logger": StringType(),
        "message": StringType(),
        "raw": BinaryType(),
        "segment": LongType(),
        "connector_id": StringType(),
        "epoch": IntegerType(),
        OUTCOME: StringType(),
    },
    PROBLEMS: {
        "fqn": StringType(),
        "run_id": StringType(),
        "kind": StringType(),
        "key": StringType(),
        "detail": StringType(),
    },
}
ORIGIN = frozenset({"segment", "connector_id", "epoch"})
"""Columns that come from the catalog."""
_NEVER_NULL = frozenset({"fqn", "run_id", "line", "raw", "kind"})


def schema_of(rows: str) -> StructType:
    """All columns of a kind of rows."""
    return StructType([StructField(name, kind, name not in _NEVER_NULL) for name, kind in _TYPES[rows].items()])


def checked_columns(requested: StructType, rows: str) -> tuple[str, ...]:
    """The names of the requested columns, in any order. Raises InvalidConfigurationError for an unknown column or another type."""
    types = _TYPES[rows]
    for field in requested.fields:
        if field.name not in types:
            raise InvalidConfigurationError(f"no such column: choose from {', '.join(types)} column={field.name}")
        if field.dataType != types[field.name]:
            expected, actual = types[field.name].simpleString(), field.dataType.simpleString()
            raise InvalidConfigurationError(f"a column has another type column={field.name} expected={expected} given={actual}")
    return tuple(field.name for field in requested.fields)


def arrow_schema(columns: Sequence[str], rows: str) -> pa.Schema:
    """The Arrow schema of these columns."""
    all_columns = schema_of(rows)
    return to_arrow_schema(StructType([all_columns[name] for name in columns]))

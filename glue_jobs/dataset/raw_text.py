"""The exact texts of events, without what their messages repeat."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from glue_jobs.columnar.blocks import spans

_END = pa.scalar(b"\n")
_NO_SEPARATOR = pa.scalar(b"")


class StoredRaw(NamedTuple):
    """Either of the two is null: ``head``, if the text is the head, the message and a newline; otherwise ``raw``, the text itself."""

    raw: pa.BinaryArray
    head: pa.StringArray


def without_messages(raw: pa.BinaryArray, message: pa.StringArray) -> StoredRaw:
    """The stored columns of some texts, none of which is null, and their messages. Each text is rebuilt and compared. Memory: a copy of the
    texts, less than 2 GiB."""
    buffer = np.frombuffer(raw.buffers()[1], np.int32)
    offsets = buffer[raw.offset : raw.offset + len(raw) + 1].astype(np.int64)
    message_bytes = np.asarray(pc.fill_null(pc.binary_length(message), 0))
    starts = offsets[:-1]
    heads = spans(raw.buffers()[2], starts, np.maximum(offsets[1:] - message_bytes - 1, starts), pa.binary())
    rebuilt = pc.binary_join_element_wise(heads, message.cast(pa.binary()), _END, _NO_SEPARATOR)
    is_rebuilt = pc.and_(pc.fill_null(pc.equal(rebuilt, raw), False), _are_texts(heads))
    stored_raw = pc.if_else(is_rebuilt, pa.scalar(None, pa.binary()), raw)
    return StoredRaw(stored_raw, pc.if_else(is_rebuilt, heads, pa.scalar(None, pa.binary())).cast(pa.string()))


def _are_texts(values: pa.BinaryArray) -> pa.BooleanArray:
    """Which values are UTF-8. Looked for one by one only if not all are."""
    try:
        values.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([_is_text(value) for value in values.to_pylist()])
    return pa.repeat(pa.scalar(True), len(values))


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True

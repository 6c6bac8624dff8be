"""Avro files (object container files): a header, then blocks of events, each behind the same marker."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from hashlib import md5
from typing import Any

import fastavro

from chalicelib.errors import DamagedLogError, RunlakeError
from chalicelib.pipelines.files.records import FileEvent, document_of, event_of, typed

SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Event",
    "namespace": "runlake",
    "fields": [
        {"name": "time", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "level", "type": "string"},
        {"name": "logger", "type": "string"},
        {"name": "message", "type": "string"},
        {"name": "fqn", "type": "string"},
        {"name": "runId", "type": "string"},
        {"name": "line", "type": "long"},
    ],
}
_EPOCH, _MS = datetime(1970, 1, 1, tzinfo=UTC), timedelta(milliseconds=1)
_PARSED: Any = fastavro.parse_schema(SCHEMA)
_MARKER = md5(b"runlake events", usedforsecurity=False).digest()
"""The same in all files, so that who goes on with one need not read its header."""
_OVERHEAD_BYTES = 600


def _file(documents: list[dict[str, Any]]) -> bytes:
    into = io.BytesIO()
    fastavro.writer(into, _PARSED, documents, codec="deflate", sync_marker=_MARKER)
    return into.getvalue()


HEADER = _file([])


class AvroEncoder:
    """Blocks are closed when they are taken."""

    def __init__(self) -> None:
        self._documents: list[dict[str, Any]] = []

    def add(self, record: logging.LogRecord, text: str, time_ms: int) -> int:
        """See ``Encoder``."""
        self._documents.append(typed(document_of(record, text, time_ms)))
        return len(text) + _OVERHEAD_BYTES

    def take(self) -> bytes:
        """See ``Encoder``."""
        documents, self._documents = self._documents, []
        return _file(documents)[len(HEADER) :] if documents else b""


def read(chunks: Iterator[bytes], _: int) -> Iterator[FileEvent]:
    """The events of a file. Memory: a block."""
    try:
        for document in fastavro.reader(io.BufferedReader(_Pieces(chunks))):
            found: Any = document
            yield event_of(found | {"time": (found["time"] - _EPOCH) // _MS})
    except RunlakeError:
        raise  # of the store that the pieces come from
    except Exception as error:  # whatever a decoder makes of bytes that are none of its own
        raise DamagedLogError(f"not avro error={type(error).__name__}") from error


class _Pieces(io.RawIOBase):
    """Pieces of bytes as a stream."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks, self._rest = chunks, b""

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any) -> int:
        while not self._rest:
            piece = next(self._chunks, None)
            if piece is None:
                return 0
            self._rest = piece
        count = min(len(into), len(self._rest))
        into[:count], self._rest = self._rest[:count], self._rest[count:]
        return count

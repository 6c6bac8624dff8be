"""Avro files (object container files) with one header, and blocks of events, each followed by the same marker.

Encoded and decoded here, without a library, so that a function can read what a job writes. Any Avro reader can read the files.
"""

from __future__ import annotations

import json
import logging
import zlib
from collections.abc import Iterator
from functools import lru_cache
from hashlib import md5
from typing import Any

from chalicelib.errors import DamagedLogError
from chalicelib.pipelines.files.records import FIELDS, FileEvent, document_of, typed

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
MAX_BLOCK_BYTES = 256 * 1024 * 1024
"""The size of a decompressed block: four times the default memory of a handler."""
_IS_LONG = tuple(name in ("time", "line") for name in FIELDS)
_MAGIC = b"Obj\x01"
_MARKER = md5(b"runlake events", usedforsecurity=False).digest()
"""The same in all files, so a writer that appends to a file need not read its header."""
_BYTES = [bytes([each]) for each in range(0x80)]
_MAX_LONG_BYTES = 10
_MAX_CACHED_CHARS = 200
_OVERHEAD_BYTES = 600


def _long(value: int) -> bytes:
    """Zigzag, then seven bits per byte, the lowest first."""
    rest = (value << 1) ^ (value >> 63)
    if rest < 0x80:
        return _BYTES[rest]
    encoded = bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


def _sized(data: bytes) -> bytes:
    return _long(len(data)) + data


def _text(text: str) -> bytes:
    return _sized(text.encode())


def _name(text: str) -> bytes:
    return _cached_text(text) if len(text) <= _MAX_CACHED_CHARS else _text(text)


_cached_text = lru_cache(4096)(_text)
"""For texts that many events have in common."""


def _header() -> bytes:
    metadata = {"avro.codec": b"deflate", "avro.schema": json.dumps(SCHEMA).encode()}
    pairs = b"".join(_sized(name.encode()) + _sized(value) for name, value in metadata.items())
    return _MAGIC + _long(len(metadata)) + pairs + _long(0) + _MARKER


HEADER = _header()


class AvroEncoder:
    """Encodes events in memory; ``take`` closes the block."""

    def __init__(self) -> None:
        self._events = 0
        self._encoded: list[bytes] = []

    def add(self, record: logging.LogRecord, text: str, time_ms: int) -> int:
        """See ``Encoder``."""
        document = typed(document_of(record, text, time_ms))
        time, level, logger, message, fqn, run_id, line = document.values()
        self._encoded += (
            _long(time), _name(level), _name(logger), _text(message), _name(fqn), _name(run_id), _long(line),
        )  # fmt: skip
        self._events += 1
        return len(text) + _OVERHEAD_BYTES

    def take(self) -> bytes:
        """See ``Encoder``."""
        events, encoded = self._events, self._encoded
        self._events, self._encoded = 0, []
        if not events:
            return b""
        deflate = zlib.compressobj(wbits=-zlib.MAX_WBITS)
        return _long(events) + _sized(deflate.compress(b"".join(encoded)) + deflate.flush()) + _MARKER


def read(chunks: Iterator[bytes], _: int) -> Iterator[FileEvent]:
    """The events of a file. Memory: a block, compressed and decompressed."""
    source = _Source(chunks)
    try:
        if source.take(len(HEADER)) != HEADER:
            raise ValueError("another schema or codec")
        while not source.is_at_end:
            count, packed = source.long(), source.take(source.long())
            if source.take(len(_MARKER)) != _MARKER:
                raise ValueError("a block does not end with the marker")
            yield from _events(_expanded(packed), count)
    except (ValueError, IndexError, zlib.error) as error:
        raise DamagedLogError(f"not avro error={type(error).__name__}: {error}"[:300]) from error


def _expanded(packed: bytes) -> bytes:
    inflate = zlib.decompressobj(-zlib.MAX_WBITS)
    block = inflate.decompress(packed, MAX_BLOCK_BYTES)
    if not inflate.eof:
        raise ValueError("a block is truncated, or too large")
    return block


def _events(block: bytes, count: int) -> Iterator[FileEvent]:
    """All events of a block. Decoded before the first is yielded: a damaged block yields none."""
    events, at = [], 0
    for _ in range(count):
        values: list[Any] = []
        for is_long in _IS_LONG:
            number, at = _long_at(block, at)
            if is_long:
                values.append(number)
                continue
            end = at + number
            if not at <= end <= len(block):
                raise ValueError("truncated")
            values.append(block[at:end].decode())
            at = end
        events.append(FileEvent(*values))
    if at != len(block):
        raise ValueError("a block has more than its events")
    return iter(events)


def _long_at(block: bytes, at: int) -> tuple[int, int]:
    """The inverse of ``_long``, and where it ends. Raises ValueError for a number of more than 64 bits, IndexError at the end."""
    byte = block[at]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), at + 1
    value = 0
    for shift in range(0, 7 * _MAX_LONG_BYTES, 7):
        byte = block[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
    raise ValueError("a number of more than 64 bits")


class _Source:
    """Chunks of bytes as one stream."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks, self._piece, self._at = chunks, b"", 0

    @property
    def is_at_end(self) -> bool:
        """Whether the stream has ended."""
        while self._at == len(self._piece):
            piece = next(self._chunks, None)
            if piece is None:
                return True
            self._piece, self._at = piece, 0
        return False

    def take(self, count: int) -> bytes:
        """Exactly ``count`` bytes. Raises ValueError if there are fewer. Memory: the bytes that are available."""
        if count < 0:
            raise ValueError("a negative size")
        taken: list[bytes] = []
        while count and not self.is_at_end:
            piece = self._piece[self._at : self._at + count]
            self._at, count = self._at + len(piece), count - len(piece)
            taken.append(piece)
        if count:
            raise ValueError("truncated")
        return b"".join(taken)

    def long(self) -> int:
        """See ``_long_at``. Raises ValueError."""
        encoded = self.take(1)
        while encoded[-1] >= 0x80:
            encoded += self.take(1)
            if len(encoded) > _MAX_LONG_BYTES:
                raise ValueError("a number of more than 64 bits")
        return _long_at(encoded, 0)[0]

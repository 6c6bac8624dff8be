"""The formats of files: ``text``, ``jsonl``, ``avro``, ``parquet``; the first two also compressed, ``text+gzip``, ``jsonl+gzip``.

The first three are appendable: bytes written after the end of a file make a longer file, and each prefix that was committed once
is a readable file. A compressed file grows by gzip members, so the same applies. A Parquet file ends with its footer, so it is
complete when it is written, and never appended to.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Protocol

from chalicelib.errors import DamagedLogError, FormatUnavailableError, InvalidConfigurationError
from chalicelib.pipelines.files import gzip_members
from chalicelib.pipelines.files.key_layout import COMPRESSIBLE, COMPRESSION, PARQUET_NEEDS_JOB
from chalicelib.pipelines.files.records import FileEvent, document_of, event_of
from chalicelib.pipelines.files.text import text_events

Chunks = Iterator[bytes]
"""The bytes of a file, or of a prefix of it, in chunks."""


class Encoder(Protocol):
    """Encodes the events of one file."""

    def add(self, record: logging.LogRecord, text: str, time_ms: int) -> int:
        """Add an event. Returns about how many bytes of memory it takes."""

    def take(self) -> bytes:
        """Encode the events that were added since the last call: the next bytes of the file."""


@dataclass(frozen=True, slots=True)
class FileFormat:
    """A file is ``header`` and the output of ``encoder``, once or, if it ``grows``, many times. ``read`` yields the events of a
    file's bytes in their order, given the time of its first event, and raises DamagedLogError for invalid bytes."""

    name: str
    content_type: str
    grows: bool
    header: bytes
    encoder: Callable[[], Encoder]
    read: Callable[[Chunks, int], Iterator[FileEvent]]


class _Lines:
    """Text, one or more lines for each event."""

    def __init__(self) -> None:
        self._pieces: list[str] = []

    def add(self, record: logging.LogRecord, text: str, time_ms: int) -> int:
        self._pieces.append(text)
        return len(text) + 1

    def take(self) -> bytes:
        pieces, self._pieces = self._pieces, []
        return ("\n".join(pieces) + "\n").encode(errors="replace") if pieces else b""


class _Documents:
    """A line of JSON for each event."""

    def __init__(self) -> None:
        self._pieces: list[str] = []

    def add(self, record: logging.LogRecord, text: str, time_ms: int) -> int:
        line = _json(document_of(record, text, time_ms))
        self._pieces.append(line)
        return len(line) + 1

    def take(self) -> bytes:
        pieces, self._pieces = self._pieces, []
        return ("\n".join(pieces) + "\n").encode(errors="replace") if pieces else b""


_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str).encode


def lines_of(chunks: Chunks) -> Iterator[bytes]:
    """Lines without their newlines; a last one without a newline counts. Memory: a chunk and a line."""
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        yield from whole
    if rest:
        yield rest


def _read_documents(chunks: Chunks, _: int) -> Iterator[FileEvent]:
    for number, line in enumerate(lines_of(chunks)):
        try:
            yield event_of(json.loads(line))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise DamagedLogError(f"not an event line={number} error={type(error).__name__}") from error


def _read_text(chunks: Chunks, from_ms: int) -> Iterator[FileEvent]:
    return text_events(lines_of(chunks), from_ms)


def _avro() -> FileFormat:
    from chalicelib.pipelines.files import avro

    return FileFormat("avro", "application/avro", True, avro.HEADER, avro.AvroEncoder, avro.read)


def _parquet() -> FileFormat:
    from chalicelib.pipelines.files import parquet  # needs pyarrow: jobs have it, the functions do not

    return FileFormat("parquet", "application/vnd.apache.parquet", False, b"", parquet.ParquetEncoder, parquet.read)


_FORMATS: dict[str, Callable[[], FileFormat]] = {
    "text": lambda: FileFormat("text", "text/plain; charset=utf-8", True, b"", _Lines, _read_text),
    "jsonl": lambda: FileFormat("jsonl", "application/x-ndjson", True, b"", _Documents, _read_documents),
    "avro": _avro,
    "parquet": _parquet,
}
FORMATS = tuple(_FORMATS)
"""The formats that a configuration may name: ``compress`` is an option of its own."""


def format_named(name: str) -> FileFormat:
    """Raises InvalidConfigurationError for an unknown name, FormatUnavailableError for a format whose library is not installed."""
    base, plus, compression = name.partition("+")
    if base not in _FORMATS or (plus and (compression != COMPRESSION or base not in COMPRESSIBLE)):
        raise InvalidConfigurationError(f"a format must be one of {', '.join(FORMATS)} format={name!r}")
    try:
        format_ = _FORMATS[base]()
        return _compressed(format_) if plus else format_
    except ImportError as error:
        raise FormatUnavailableError(f"{PARQUET_NEEDS_JOB} format={name} error={str(error)!r}") from error


def _compressed(plain: FileFormat) -> FileFormat:
    """The same format, each output of the encoder as a gzip member."""

    class Members:
        def __init__(self) -> None:
            self._encoder = plain.encoder()
            self.add = self._encoder.add

        def take(self) -> bytes:
            return gzip_members.member(self._encoder.take())

    def read(chunks: Chunks, from_ms: int) -> Iterator[FileEvent]:
        return plain.read(gzip_members.expanded(chunks), from_ms)

    return replace(
        plain,
        name=f"{plain.name}+{COMPRESSION}",
        content_type="application/gzip",
        encoder=Members,
        read=read,
    )

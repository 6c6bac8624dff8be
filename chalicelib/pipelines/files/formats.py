"""How events lie in a file: ``text``, ``jsonl``, ``avro``, ``parquet``.

The first three grow: what is written behind the end of a file makes a longer file, and each beginning that was committed once can be
read by itself. A Parquet file ends with its table of contents, so it is whole when it is written, and never grows.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from chalicelib.errors import DamagedLogError, FormatUnavailableError, InvalidConfigurationError
from chalicelib.pipelines.files.key_layout import EXTENSIONS
from chalicelib.pipelines.files.records import FileEvent, document_of, event_of
from chalicelib.pipelines.files.text import text_events

Chunks = Iterator[bytes]
"""The bytes of a file, or of its beginning, in pieces."""


class Encoder(Protocol):
    """Makes bytes of the events of one file."""

    def add(self, record: logging.LogRecord, text: str, time_ms: int) -> int:
        """One event more; the answer is about how many bytes of memory it takes."""

    def take(self) -> bytes:
        """What was added since, encoded: what follows in the file."""


@dataclass(frozen=True, slots=True)
class FileFormat:
    """A file is ``header`` and what ``encoder`` made, once or, where it ``grows``, many times. ``read`` gives the events of a file's bytes
    (and the time of its first), in their order, and raises DamagedLogError where they make no sense."""

    name: str
    extension: str
    content_type: str
    grows: bool
    header: bytes
    encoder: Callable[[], Encoder]
    read: Callable[[Chunks, int], Iterator[FileEvent]]


class _Lines:
    """Text, a line or more for each event."""

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

    return FileFormat("avro", EXTENSIONS["avro"], "application/avro", True, avro.HEADER, avro.AvroEncoder, avro.read)


def _parquet() -> FileFormat:
    from chalicelib.pipelines.files import parquet  # needs pyarrow: jobs have it, the functions do not

    return FileFormat(
        "parquet", EXTENSIONS["parquet"], "application/vnd.apache.parquet", False, b"", parquet.ParquetEncoder, parquet.read
    )


_FORMATS: dict[str, Callable[[], FileFormat]] = {
    "text": lambda: FileFormat("text", EXTENSIONS["text"], "text/plain; charset=utf-8", True, b"", _Lines, _read_text),
    "jsonl": lambda: FileFormat("jsonl", EXTENSIONS["jsonl"], "application/x-ndjson", True, b"", _Documents, _read_documents),
    "avro": _avro,
    "parquet": _parquet,
}
FORMATS = tuple(_FORMATS)


def format_named(name: str) -> FileFormat:
    """Raises InvalidConfigurationError for an unknown name, FormatUnavailableError for a format whose library is not installed."""
    if name not in _FORMATS:
        raise InvalidConfigurationError(f"a format is one of {', '.join(FORMATS)} format={name!r}")
    try:
        return _FORMATS[name]()
    except ImportError as error:
        raise FormatUnavailableError(f"the format's library is not installed format={name} error={str(error)!r}") from error

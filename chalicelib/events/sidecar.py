"""The sidecar object of a segment: ids, times, steps, levels and data of its events, with positions in the log (decision 0022).

::

    {run}/events/{sequence:010d}     gzip of lines of JSON: one of the batch, then one of each event, in the log's order

Written once, put-if-absent. A later version may add fields; unknown fields are ignored. Where records share long fields the
compressed size can be a thousandth of the plain one, so a sidecar of more than 1 MiB of plain JSON is never parsed into memory at
once.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from chalicelib.errors import DamagedLogError
from chalicelib.ports import SegmentEntry

if TYPE_CHECKING:
    from pydantic import JsonValue  # Spark's executors read sidecars, and may lack it

VERSION = 1
MAX_PARSED_BYTES = 1024 * 1024
"""Plain JSON bytes. Events of a larger sidecar are parsed again each time they are iterated."""
MAX_LINE_BYTES = 8 * 1024 * 1024
"""Of one event, whose details are at most 64 KiB before masking."""
APPEND_TIMEOUT_MS = 60_000
"""A function runs for 30 s at most: an append without a sidecar after this time has failed."""
_PIECE_BYTES, _OUTPUT_BYTES = 16 * 1024, 256 * 1024
_GZIP = 31


@dataclass(frozen=True, slots=True)
class SidecarEntry:
    """One event: ``lines`` lines of the log from ``line`` on. The message is ``bytes`` bytes from ``byte`` on, without its newline.

    ``id`` None: the line is the id. ``error``: whether the event is an error.
    """

    line: int
    byte: int
    lines: int
    bytes: int
    timestamp: int
    id: int | None = None
    step: str | None = None
    level: str | None = None
    error: bool = False
    data: Mapping[str, JsonValue] = field(default_factory=dict)
    annotations: Sequence[Mapping[str, JsonValue]] = ()

    @property
    def end_byte(self) -> int:
        """The byte after the newline of the message, where the next event begins."""
        return self.byte + self.bytes + 1

    @property
    def end_line(self) -> int:
        """The first line after the event."""
        return self.line + self.lines


@dataclass(frozen=True, slots=True)
class Sidecar:
    """The sidecar of one segment. ``writer`` "": the events are not numbered by a writer; ``instance``: the installation that
    stored them. ``events`` can be iterated several times."""

    sequence: int
    line: int
    byte: int
    lines: int
    bytes: int
    writer: str
    instance: str
    appended_ms: int
    events: Collection[SidecarEntry]

    @classmethod
    def of_segment(cls, entry: SegmentEntry, writer: str, instance: str, events: Collection[SidecarEntry]) -> Sidecar:
        """The sidecar of a segment."""
        place = (entry.sequence, entry.line, entry.byte, entry.lines, entry.bytes)
        return cls(*place, writer, instance, entry.appended_ms, events)

    @property
    def end_line(self) -> int:
        """The first line after the segment."""
        return self.line + self.lines


def encode_sidecar(sidecar: Sidecar) -> bytes:
    """The object's bytes; deterministic. Holds one event at a time as plain JSON."""
    packer = zlib.compressobj(9, zlib.DEFLATED, _GZIP)
    head = {name: getattr(sidecar, name) for name in Sidecar.__dataclass_fields__ if name != "events"}
    pieces = [packer.compress(_line({"v": VERSION} | head))]
    pieces += (packer.compress(_line(_document(each))) for each in sidecar.events)
    return b"".join([*pieces, packer.flush()])


def decode_sidecar(body: bytes) -> Sidecar:
    """The inverse of ``encode_sidecar``. Reads ``body`` completely; holds it and at most ``MAX_PARSED_BYTES`` of plain JSON. Raises
    DamagedLogError."""
    events: list[SidecarEntry] = []
    count = size = 0
    head, documents = _opened(body)
    for line_bytes, entry in documents:
        count, size = count + 1, size + line_bytes
        if size <= MAX_PARSED_BYTES:
            events.append(entry)
    return replace(head, events=tuple(events) if size <= MAX_PARSED_BYTES else _PackedEvents(body, count))


def decode_outline(body: bytes) -> Sidecar:
    """``decode_sidecar`` without data and annotations, all events parsed: about 400 bytes for each. Raises DamagedLogError."""
    head, documents = _opened(body)
    return replace(head, events=tuple(replace(entry, data={}, annotations=()) for _, entry in documents))


def decode_head(body: bytes) -> Sidecar:
    """``decode_sidecar`` without events, which are not parsed. Raises DamagedLogError."""
    return _opened(body)[0]


class _PackedEvents(Collection[SidecarEntry]):
    """The events of a compressed sidecar, parsed at each iteration."""

    def __init__(self, body: bytes, count: int) -> None:
        self._body, self._count = body, count

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[SidecarEntry]:
        return (entry for _, entry in _opened(self._body)[1])

    def __contains__(self, entry: object) -> bool:
        return any(each == entry for each in self)


def _opened(body: bytes) -> tuple[Sidecar, Iterator[tuple[int, SidecarEntry]]]:
    """A sidecar without its events, and an iterator of the events with the bytes of their lines. Raises DamagedLogError, also
    during iteration."""
    lines = _lines(body)
    try:
        head = json.loads(next(lines, b""))
        sidecar = Sidecar(**{name: head[name] for name in Sidecar.__dataclass_fields__ if name != "events"}, events=())
    except (ValueError, TypeError, KeyError) as error:
        raise _damaged(body, error) from error
    return sidecar, _events(body, lines)


def _events(body: bytes, lines: Iterator[bytes]) -> Iterator[tuple[int, SidecarEntry]]:
    for line in lines:
        try:
            entry = _entry(json.loads(line))
        except (ValueError, TypeError, RecursionError) as error:
            raise _damaged(body, error) from error
        yield len(line), entry


def _lines(body: bytes) -> Iterator[bytes]:
    """Nonempty lines of a gzip body, in bounded memory. Raises DamagedLogError."""
    rest = b""
    for piece in _inflated(body):
        *lines, rest = (rest + piece).split(b"\n")
        if len(rest) > MAX_LINE_BYTES:
            raise _damaged(body, ValueError("a line is too long"))
        yield from filter(None, lines)
    if rest:
        yield rest


def _inflated(body: bytes) -> Iterator[bytes]:
    """The decompressed body, in pieces. Raises DamagedLogError."""
    inflater = zlib.decompressobj(_GZIP)
    try:
        for at in range(0, len(body), _PIECE_BYTES):
            piece = body[at : at + _PIECE_BYTES]
            while piece and not inflater.eof:
                yield inflater.decompress(piece, _OUTPUT_BYTES)
                piece = inflater.unconsumed_tail
        yield inflater.flush()
    except zlib.error as error:
        raise _damaged(body, error) from error
    if not inflater.eof:
        raise _damaged(body, EOFError())


def _damaged(body: bytes, error: Exception) -> DamagedLogError:
    return DamagedLogError(f"not a sidecar of a segment bytes={len(body)} error={type(error).__name__}")


def _line(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _document(entry: SidecarEntry) -> dict[str, Any]:
    fields = {name: getattr(entry, name) for name in SidecarEntry.__dataclass_fields__}
    return {name: value for name, value in fields.items() if value is not None and value is not False and value not in ({}, ())}


def _entry(document: Mapping[str, Any]) -> SidecarEntry:
    return SidecarEntry(**{name: document[name] for name in SidecarEntry.__dataclass_fields__ if name in document})

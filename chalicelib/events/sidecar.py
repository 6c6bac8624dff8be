"""A companion: what is not text of a segment's events, beside the segment, with places in the whole log (decision 0022).

::

    {run}/events/{sequence:010d}     gzip of lines of JSON: one of the batch, then one of each event, in the log's order

Written once, put-if-absent. A later version may add fields: what is not known is left aside. Packed by a thousandth of what it is unpacked,
where records share long fields: nobody holds one of more than 1 MiB unpacked.
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
    from pydantic import JsonValue  # Spark's executors read companions, and may lack it

VERSION = 1
MAX_PARSED_BYTES = 1024 * 1024
"""Unpacked. Of a companion with more, the events are parsed each time they are iterated."""
MAX_LINE_BYTES = 8 * 1024 * 1024
"""Of one event, whose details have 64 KiB before they are masked."""
APPEND_TIMEOUT_MS = 60_000
"""A function lives 30 s: an append whose companion is not there after this has broken off."""
_PIECE_BYTES, _OUTPUT_BYTES = 16 * 1024, 256 * 1024
_GZIP = 31


@dataclass(frozen=True, slots=True)
class SidecarEntry:
    """One event: ``lines`` of the log from ``line`` on, whose message are ``bytes`` bytes from ``byte`` on; a newline follows them.

    ``id`` None: its line is its id. ``error``: whether it tells of one.
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
        """Where the next event begins: behind the newline."""
        return self.byte + self.bytes + 1

    @property
    def end_line(self) -> int:
        """The first line behind it."""
        return self.line + self.lines


@dataclass(frozen=True, slots=True)
class Sidecar:
    """What lies beside a segment. ``writer`` empty: nobody in particular; ``instance``: the installation that took it. ``events`` may be iterated
    several times."""

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
        """Of a segment."""
        place = (entry.sequence, entry.line, entry.byte, entry.lines, entry.bytes)
        return cls(*place, writer, instance, entry.appended_ms, events)

    @property
    def end_line(self) -> int:
        """The first line behind it."""
        return self.line + self.lines


def encode_sidecar(sidecar: Sidecar) -> bytes:
    """The object's bytes: the same companion is the same bytes. One event at a time is in memory unpacked."""
    packer = zlib.compressobj(9, zlib.DEFLATED, _GZIP)
    head = {name: getattr(sidecar, name) for name in Sidecar.__dataclass_fields__ if name != "events"}
    pieces = [packer.compress(_line({"v": VERSION} | head))]
    pieces += (packer.compress(_line(_document(each))) for each in sidecar.events)
    return b"".join([*pieces, packer.flush()])


def decode_sidecar(body: bytes) -> Sidecar:
    """The inverse of ``packed``. Reads all of it; holds ``body`` and no more than ``HELD_BYTES`` of it unpacked. Raises DamagedLogError."""
    events: list[SidecarEntry] = []
    count = size = 0
    head, documents = _opened(body)
    for line_bytes, entry in documents:
        count, size = count + 1, size + line_bytes
        if size <= MAX_PARSED_BYTES:
            events.append(entry)
    return replace(head, events=tuple(events) if size <= MAX_PARSED_BYTES else _PackedEvents(body, count))


def decode_outline(body: bytes) -> Sidecar:
    """``unpacked`` without data and annotations, held: some 400 bytes for each event. Raises DamagedLogError."""
    head, documents = _opened(body)
    return replace(head, events=tuple(replace(entry, data={}, annotations=()) for _, entry in documents))


class _PackedEvents(Collection[SidecarEntry]):
    """The events of a companion that is kept packed."""

    def __init__(self, body: bytes, count: int) -> None:
        self._body, self._count = body, count

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[SidecarEntry]:
        return (entry for _, entry in _opened(self._body)[1])

    def __contains__(self, entry: object) -> bool:
        return any(each == entry for each in self)


def _opened(body: bytes) -> tuple[Sidecar, Iterator[tuple[int, SidecarEntry]]]:
    """A companion without its events, and these with the bytes of their lines. Raises DamagedLogError, while it is iterated too."""
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
    """Lines out of gzip that are not empty, in bounded memory. Raises DamagedLogError."""
    rest = b""
    for piece in _inflated(body):
        *lines, rest = (rest + piece).split(b"\n")
        if len(rest) > MAX_LINE_BYTES:
            raise _damaged(body, ValueError("a line is too long"))
        yield from filter(None, lines)
    if rest:
        yield rest


def _inflated(body: bytes) -> Iterator[bytes]:
    """What is packed, in pieces. Raises DamagedLogError."""
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
    return DamagedLogError(f"not a companion of a segment bytes={len(body)} error={type(error).__name__}")


def _line(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _document(entry: SidecarEntry) -> dict[str, Any]:
    fields = {name: getattr(entry, name) for name in SidecarEntry.__dataclass_fields__}
    return {name: value for name, value in fields.items() if value is not None and value is not False and value not in ({}, ())}


def _entry(document: Mapping[str, Any]) -> SidecarEntry:
    return SidecarEntry(**{name: document[name] for name in SidecarEntry.__dataclass_fields__ if name in document})

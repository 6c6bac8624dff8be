"""Maps a line number to a byte offset: the nearest known line start at or before the line.

A log is append-only, so an offset stays valid while the log exists. Each process caches the offsets after the pages that it served, so the
next page needs no query of the catalog. A run may be deleted and its id reused; therefore an offset also contains the bytes before it, which
the reader compares first (``Reader``).
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock

from chalicelib.ports import Run, SegmentEntry

MAX_REMEMBERED = 4096
MAX_BEFORE_BYTES = 256
"""Enough to distinguish two logs; the cache contains at most 1 MiB of these bytes."""
_UNKNOWN_LINE_BYTES = 256.0


@dataclass(frozen=True, slots=True)
class LineOffset:
    """A known line start in a log, and the average line length near it. ``before``: the last bytes before it, at least the newline; ``etag``:
    the ETag of the segment that ended there when the offset was read, else empty."""

    line: int = 0
    byte: int = 0
    bytes_per_line: float = _UNKNOWN_LINE_BYTES
    before: bytes = b""
    etag: str = ""


def nearest_offset(row: SegmentEntry, line: int) -> LineOffset:
    """The last landmark of a row at or before a line; the row's end if the line is after it."""
    bytes_per_line = row.bytes / row.lines if row.lines else _UNKNOWN_LINE_BYTES
    if line >= row.end_line:
        return _line_start(row.end_line, row.end_byte, bytes_per_line)
    at_line, at_byte = max((mark for mark in row.landmarks if row.line + mark[0] <= line), default=(0, 0))
    return _line_start(row.line + at_line, row.byte + at_byte, bytes_per_line)


def _line_start(line: int, byte: int, bytes_per_line: float) -> LineOffset:
    return LineOffset(line, byte, bytes_per_line, b"\n" if byte else b"")


class LineOffsetCache:
    """The ``MAX_REMEMBERED`` offsets that this process stored last. Thread-safe."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[Run, int], LineOffset] = OrderedDict()
        self._lock = Lock()

    def recall(self, run: Run, line: int) -> LineOffset | None:
        """The cached offset of exactly this line."""
        with self._lock:
            return self._known.get((run, line))

    def remember(self, run: Run, offset: LineOffset) -> None:
        """Store an offset; evict the oldest one if the cache is full."""
        with self._lock:
            self._known[run, offset.line] = offset
            if len(self._known) > MAX_REMEMBERED:
                self._known.popitem(last=False)

    def forget(self, run: Run, offset: LineOffset) -> None:
        """Remove an offset that belongs to an earlier log of the same name."""
        with self._lock:
            self._known.pop((run, offset.line), None)

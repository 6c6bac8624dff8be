"""Where a line stands: the nearest known place at or before it, by line and byte.

A log only grows at its end, so a place stays valid for as long as the log exists: a process remembers the ends of the pages that it
served, and a viewer that reads on needs no query of the catalog. A run may be deleted and its id used again, so a place also says what
stands right before it, and a reader checks that first (``Reader``).
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock

from chalicelib.ports import Run, SegmentEntry

MAX_REMEMBERED = 4096
MAX_BEFORE_BYTES = 256
"""Enough to tell two logs apart; a process remembers 1 MiB of them at most."""
_UNKNOWN_LINE_BYTES = 256.0


@dataclass(frozen=True, slots=True)
class LineOffset:
    """A known place in a log, and how long its lines are hereabouts. ``before``: the last of the bytes before it, at least the newline;
    ``etag``: of the segment that ended there when the place was seen, else empty."""

    line: int = 0
    byte: int = 0
    bytes_per_line: float = _UNKNOWN_LINE_BYTES
    before: bytes = b""
    etag: str = ""


def nearest_offset(row: SegmentEntry, line: int) -> LineOffset:
    """The last landmark of a row at or before a line; the row's end when the line is behind it."""
    bytes_per_line = row.bytes / row.lines if row.lines else _UNKNOWN_LINE_BYTES
    if line >= row.end_line:
        return _line_start(row.end_line, row.end_byte, bytes_per_line)
    at_line, at_byte = max((mark for mark in row.landmarks if row.line + mark[0] <= line), default=(0, 0))
    return _line_start(row.line + at_line, row.byte + at_byte, bytes_per_line)


def _line_start(line: int, byte: int, bytes_per_line: float) -> LineOffset:
    return LineOffset(line, byte, bytes_per_line, b"\n" if byte else b"")


class LineOffsetCache:
    """The last few thousand places that this process came by. Threads may share it."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[Run, int], LineOffset] = OrderedDict()
        self._lock = Lock()

    def recall(self, run: Run, line: int) -> LineOffset | None:
        """The place of exactly this line, if it was met."""
        with self._lock:
            return self._known.get((run, line))

    def remember(self, run: Run, offset: LineOffset) -> None:
        """Keep a place; the oldest one goes."""
        with self._lock:
            self._known[run, offset.line] = offset
            if len(self._known) > MAX_REMEMBERED:
                self._known.popitem(last=False)

    def forget(self, run: Run, offset: LineOffset) -> None:
        """Drop a place that belongs to an earlier log of the same name."""
        with self._lock:
            self._known.pop((run, offset.line), None)

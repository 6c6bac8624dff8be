"""Where a line stands: the nearest known place at or before it, by line and byte.

A log only grows at its end, so a place that was once known stays true: a process keeps the ends of the pages that it served, and a
viewer that reads on needs no query of the catalog.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock

from chalicelib.ports import Run, SegmentEntry

MAX_REMEMBERED = 4096
_UNKNOWN_LINE_BYTES = 256.0


@dataclass(frozen=True, slots=True)
class Landing:
    """A known place in a log, and how long its lines are hereabouts."""

    line: int = 0
    byte: int = 0
    bytes_per_line: float = _UNKNOWN_LINE_BYTES


def landing_on(row: SegmentEntry, line: int) -> Landing:
    """The last landmark of a row at or before a line; the row's end when the line is behind it."""
    bytes_per_line = row.bytes / row.lines if row.lines else _UNKNOWN_LINE_BYTES
    if line >= row.end_line:
        return Landing(row.end_line, row.end_byte, bytes_per_line)
    at_line, at_byte = max((mark for mark in row.landmarks if row.line + mark[0] <= line), default=(0, 0))
    return Landing(row.line + at_line, row.byte + at_byte, bytes_per_line)


class Landings:
    """The last few thousand places that this process came by. Threads may share it."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[Run, int], Landing] = OrderedDict()
        self._lock = Lock()

    def recall(self, run: Run, line: int) -> Landing | None:
        """The place of exactly this line, if it was met."""
        with self._lock:
            return self._known.get((run, line))

    def remember(self, run: Run, landing: Landing) -> None:
        """Keep a place; the oldest one goes."""
        with self._lock:
            self._known[run, landing.line] = landing
            if len(self._known) > MAX_REMEMBERED:
                self._known.popitem(last=False)

"""A slice of one run's log: the bytes that a task reads, and the event boundaries at its ends.

The planner knows bytes, but not event boundaries. So an end of a slice is an ``Edge``, for which every reader finds the same
boundary (*border*), independent of the time of the read and of the objects that hold the bytes::

    EXACT   the edge itself: the log's beginning or end, or the end of a stream that waits for no more lines
    CUT     the first border at or after it: earlier lines belong to the slice before
    TAIL    the beginning of the last event before it: this event is held back, because it may grow
    BACK    a border at or before it: nothing reads the bytes before, because they are not selected
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass
from typing import NamedTuple

from chalicelib.lines.events import count_continuation_lines, events
from chalicelib.lines.format_detection import detect_format
from chalicelib.lines.formats import LogFormat, format_named
from chalicelib.ports import Run
from glue_jobs.datasource.content import Chunk, Content
from glue_jobs.datasource.log import Piece
from glue_jobs.datasource.objects import NO_SIDECARS, ListedSidecars

EXACT, CUT, TAIL, BACK = "exact", "cut", "tail", "back"
SAMPLE_BYTES = 32 * 1024
"""A run's format is detected from this much of its beginning."""
TAIL_BYTES = 16 * 1024
"""First size of the search window for the last event."""
BACK_BYTES = 4 * 1024
"""First size of the search window for the event that contains a byte."""


class Edge(NamedTuple):
    """An end of a slice. ``line``: the number of lines before ``byte``; None: ``byte`` is the start of a segment, whose metadata
    has it.

    ``floor`` of a TAIL: an earlier border; no event begins below it.
    """

    byte: int
    line: int | None = 0
    kind: str = EXACT
    floor: int = 0


@dataclass(frozen=True, slots=True)
class Slice:
    """Events between two edges. ``until``: the end of the read in this run. ``format``: its name; empty: detected from the first
    ``sample_bytes`` of the log. ``reference_s``: about when the log was written. ``sidecars``, ``outcome`` and ``seal`` of the
    run: see ``Log``."""

    run: Run
    base: str
    start: Edge
    end: Edge
    until: Edge
    pieces: tuple[Piece, ...]
    reference_s: int = 0
    format: str = ""
    sample_bytes: int = SAMPLE_BYTES
    sidecars: ListedSidecars = NO_SIDECARS
    outcome: str = ""
    seal: int | None = None

    @property
    def first_byte(self) -> int:
        """The first byte that is usually needed."""
        looked_at = {TAIL: TAIL_BYTES, BACK: BACK_BYTES}.get(self.start.kind, 0)
        return max(self.start.floor, self.start.byte - looked_at)

    @property
    def bytes(self) -> int:
        """Approximate number of bytes to read."""
        return self.end.byte - self.first_byte


class Borders:
    """Finds the borders of edges. A border is a byte, and the number of the line that begins there.

    A TAIL depends on the text alone, because a sidecar may be written between the two reads that meet there. ``format`` is called only
    where lines decide.
    """

    def __init__(self, content: Content, part: Slice, format: Callable[[], LogFormat]) -> None:
        self._content, self._slice, self._format = content, part, format

    def first(self) -> tuple[int, int]:
        """The beginning of the slice's first event."""
        return self._find(self._slice.start)

    def end(self) -> int:
        """The end of the slice's last event."""
        edge = self._slice.end
        return edge.byte if edge.kind == EXACT else self._find(edge)[0]

    def _find(self, edge: Edge) -> tuple[int, int]:
        if edge.kind == EXACT:
            return edge.byte, self._line(edge)
        if edge.kind == TAIL:
            return self._last_event(edge)
        if edge.kind == BACK:
            byte, line = self._border_before(edge)
            around, _ = self._content.sidecars.near(byte)
            return (around.start, around.sidecar_entry.line) if around and around.end > byte else (byte, line)
        border = self._behind_carried(edge)
        until = self._slice.until
        return border if until.kind == EXACT else min(border, self._find(until))

    def _line(self, edge: Edge) -> int:
        if edge.line is not None:
            return edge.line
        with closing(self._content.chunks(edge.byte, edge.byte + 1)) as chunks:
            chunk = next(chunks, None)
        if chunk and chunk.stored and chunk.stored[1] >= edge.byte:  # greater if bytes before it are missing; never less
            return chunk.stored[0]
        return sum(chunk.body.count(b"\n") for chunk in self._content.chunks(0, edge.byte))

    def _behind_carried(self, edge: Edge) -> tuple[int, int]:
        byte, line = self._aligned(edge)
        before, behind = self._content.sidecars.near(byte)
        if before and before.end > byte:
            return before.end, before.sidecar_entry.end_line
        until = min(behind.start, self._slice.until.byte) if behind else self._slice.until.byte
        sizes: list[int] = []

        def lines() -> Generator[bytes, None, None]:
            for raw, size in _split(self._content.chunks(byte, until, growing=True)):
                sizes.append(size)
                yield raw

        with closing(lines()) as remaining:
            count = count_continuation_lines(remaining, self._format())
        return byte + sum(sizes[:count]), line + count

    def _aligned(self, edge: Edge) -> tuple[int, int]:
        """The first line that begins at or after a byte. Every segment begins with a line."""
        if edge.byte == 0 or edge.line is None:
            return edge.byte, self._line(edge)
        with closing(_split(self._content.chunks(edge.byte - 1, self._slice.until.byte, growing=True))) as lines:
            _, size = next(lines, (b"", 1))
        return edge.byte - 1 + size, edge.line + (size > 1)

    def _border_before(self, edge: Edge) -> tuple[int, int]:
        """A certain event boundary shortly before a byte."""
        window = BACK_BYTES
        while window < edge.byte:
            first = edge.byte - window
            body = self._content.read(first, edge.byte)
            border = _to_border(body, self._format())
            if border < len(body):
                return first + border, self._line(edge) - body[border:].count(b"\n")
            window *= 4
        return 0, 0

    def _last_event(self, edge: Edge) -> tuple[int, int]:
        """The start of the last event of the log that ends at a byte, which must be the end of a line."""
        window = TAIL_BYTES
        while True:
            first = max(edge.floor, edge.byte - window)
            body = self._content.read(first, edge.byte)
            start = first
            if first > edge.floor:
                start += _to_border(body, self._format())
            if start < edge.byte or first == edge.floor:
                last = _start_of_last_event(body[start - first :], self._format())
                border = start + last
                return border, (edge.line or 0) - body[border - first :].count(b"\n")
            window *= 4


def _to_border(body: bytes, format: LogFormat) -> int:
    """Bytes before the first certain event boundary in a part of a log, which may begin within a line."""
    start = body.find(b"\n") + 1
    if not start:
        return len(body)
    lines = body[start:].split(b"\n")[:-1]
    count = count_continuation_lines(lines, format)
    return start + sum(len(raw) + 1 for raw in lines[:count])


def _start_of_last_event(body: bytes, format: LogFormat) -> int:
    last = None
    lines = body.split(b"\n")[: -1 if body.endswith(b"\n") else None]
    for last in events(enumerate(lines), format):  # noqa: B007
        pass
    return sum(len(raw) + 1 for raw in lines[: last.line]) if last else 0


def _split(chunks: Generator[Chunk, None, None]) -> Generator[tuple[bytes, int], None, None]:
    """Lines, and their sizes with the newline."""
    with closing(chunks):
        rest = b""
        for chunk in chunks:
            lines = (rest + chunk.body).split(b"\n")
            rest = lines.pop()
            yield from ((raw, len(raw) + 1) for raw in lines)
        if rest:
            yield rest, len(rest)


def format_of(content: Content, part: Slice, configured: LogFormat | None) -> LogFormat:
    """The format of a slice's run: configured, or detected from the log's first bytes, which are the same for all its slices."""
    if configured:
        return configured
    return format_named(part.format) if part.format else sampled(content.read, part.sample_bytes)


def sampled(read: Callable[[int, int], bytes], size: int) -> LogFormat:
    """The format of the first bytes of a log."""
    lines = read(0, size).split(b"\n")
    return detect_format(lines[:-1])

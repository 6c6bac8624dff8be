"""Reads the events of one run from a position on, in pieces of bounded size, whether the run is running or ended, wherever its
bytes are stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from chalicelib.events.sidecar import Sidecar, SidecarEntry
from chalicelib.lines.errors import level_of_event
from chalicelib.lines.events import LineEvent, events
from chalicelib.lines.format_detection import SAMPLE_LINES, detect_format
from chalicelib.lines.formats import FORMATS, PLAIN, LogFormat
from chalicelib.lines.parsed import ParsedLine
from chalicelib.lines.timestamps import TimestampParser
from chalicelib.pipelines.ordering import EventContext, PendingEvent, memory_bytes_of
from chalicelib.pipelines.rows import EventPosition
from chalicelib.pipelines.sidecar_reader import SidecarCursor, SidecarReader
from chalicelib.ports import Clock, Run
from chalicelib.runlog.reader import LogRange

MAX_PIECE_BYTES = 8 * 1024 * 1024
"""The size of one piece if an event or a line is longer than a fetch. A longer line is truncated."""
MAX_DATA_BYTES = 64 * 1024 * 1024
"""The size of the data of a piece's events, as ``ordering.memory_bytes_of`` counts it: a piece ends with the event that reaches
it."""
_SAMPLE_BYTES = 256 * 1024
_ENOUGH_LINES = 100
_BY_NAME = {each.name: each for each in (*FORMATS, PLAIN)}


class LogSource(Protocol):
    """Reads logs. ``runlog.reader.Reader`` implements it."""

    def read_range(self, run: Run, start: int, length: int) -> LogRange:
        """Read a byte range of a log, and the log's end."""


@dataclass(frozen=True, slots=True)
class FetchedEvents:
    """A piece of a run. ``at_end``: it ends at the log's current end; ``final``: the run has ended. ``lines``, ``bytes``: the
    size of the log."""

    events: Sequence[PendingEvent]
    at_end: bool
    final: bool
    lines: int
    bytes: int


class RunEventReader:
    """``position``: where the next piece begins. ``format``: the name of the run's format once it is certain, else empty.

    ``patience_ms``: more lines may belong to the last event of a running run; it is returned once nothing was appended for this
    long. ``sidecars``: the run's structured events; None: all lines are plain text."""

    def __init__(
        self,
        logs: LogSource,
        run: Run,
        position: EventPosition,
        format: str,
        *,
        fetch_bytes: int,
        patience_ms: int,
        clock: Clock,
        sidecars: SidecarReader | None = None,
    ) -> None:
        self._logs, self._run, self.partition = logs, run, f"{run.fqn}/{run.run_id}"
        self._fetch_bytes, self._patience_ms, self._clock = fetch_bytes, patience_ms, clock
        self.position, self.format = position, format
        self._sidecars, self._cursor = sidecars, SidecarCursor(sidecars, run, position.line) if sidecars else None
        self._stamps = TimestampParser(reference_us=position.time_ms * 1000 if position.time_ms else None)

    def fetch(self, max_bytes: int = MAX_PIECE_BYTES) -> FetchedEvents:
        """Read the next piece: about ``fetch_bytes``, at most ``max_bytes``, and up to 8 MiB if one event is longer. At most five
        reads, plus one for each 8 MiB of a longer line. Raises UnavailableError without moving the position, so the same call
        reads the same piece again."""
        length = min(self._fetch_bytes, max_bytes)
        while True:
            start = self.position.byte
            stretch = self._logs.read_range(self._run, start, length)
            at_end = start + len(stretch.body) >= stretch.end.byte
            longest = length >= MAX_PIECE_BYTES
            body, cut = _complete_lines(stretch.body, at_end, longest)
            next_line = self._next_line(start + len(body)) if cut else None  # may raise: before the position moves
            fetched = self._read_events(body, stretch, at_end, forced=longest and not at_end) if body else None
            if fetched is not None and (fetched.events or fetched.at_end):
                if next_line is not None and fetched.events:
                    self.position = EventPosition(self.position.line, next_line, self.position.time_ms)
                return fetched
            if at_end:
                return FetchedEvents((), True, bool(stretch.end.seal), stretch.end.line, stretch.end.byte)
            length = min(length * 4, MAX_PIECE_BYTES)

    def _read_events(self, body: bytes, stretch: LogRange, at_end: bool, *, forced: bool) -> FetchedEvents:
        lines = body.removesuffix(b"\n").split(b"\n")
        final = at_end and bool(stretch.end.seal)
        settled = self._settled_lines(lines, stretch.end.appended_ms)
        if settled < len(lines):
            del lines[settled:]
            at_end, final, forced = True, False, False
        waited = at_end and self._clock.now_ms() - stretch.end.appended_ms >= self._patience_ms
        line, byte, time_ms = self.position.line, self.position.byte, self.position.time_ms
        now_ms = self._clock.now_ms()
        found = []
        data_bytes = 0
        format_ = self._format_of(lines, certain=final)
        for event, context in self._events(lines, format_, final=final, is_complete=final or waited or forced, forced=forced):
            parsed = event.parsed
            if parsed.timestamp is not None:
                time_ms = parsed.timestamp // 1000
            order_ms = time_ms if final or time_ms <= now_ms else now_ms
            size = len(event.raw)
            memory_bytes = memory_bytes_of(size, context)
            found.append(PendingEvent(order_ms, self.partition, line, byte, time_ms, memory_bytes, parsed, context))
            line += event.lines
            byte += size + 1
            data_bytes += memory_bytes - memory_bytes_of(size)
            if data_bytes >= MAX_DATA_BYTES:
                at_end, final = False, False
                break
        self.position = EventPosition(line, byte, time_ms)
        # The last event may have been held back for the next piece.
        through = byte >= stretch.end.byte
        return FetchedEvents(found, at_end and (through or not final), final, stretch.end.line, stretch.end.byte)

    def _settled_lines(self, lines: Sequence[bytes], appended_ms: int) -> int:
        """The number of these lines that are final, as structured events or plain text: those before a batch of events that is
        being written."""
        until = self._sidecars.first_unsettled_line(self._run, appended_ms) if self._sidecars else None
        return len(lines) if until is None else max(0, min(len(lines), until - self.position.line))

    def _events(
        self, lines: Sequence[bytes], format_: LogFormat, *, final: bool, is_complete: bool, forced: bool
    ) -> Iterator[tuple[LineEvent, EventContext | None]]:
        """The events of lines: structured ones, and events parsed from the plain lines between them. ``is_complete``: no further
        line belongs to the last event."""
        base = at = self.position.line
        end = base + len(lines)

        def parsed_events(to: int, *, is_complete: bool) -> Iterator[tuple[LineEvent, EventContext | None]]:
            numbered = enumerate(lines[at - base : to - base] if at > base or to < end else lines, at)
            return ((event, None) for event in events(numbered, format_, self._stamps, final=is_complete))

        for sidecar, noted in self._cursor.between(at, end, final=final) if self._cursor else ():
            if noted.line < at:
                continue  # reading began inside this event: its lines are plain text
            if noted.line > at:
                yield from parsed_events(noted.line, is_complete=True)
                at = noted.line
            if noted.end_line > end:
                if not final and (not forced or at > base):
                    return
                break  # the log has ended, so the sidecar is damaged, and its lines are plain text
            yield _structured_event(sidecar, noted, b"\n".join(lines[at - base : noted.end_line - base]))
            at = noted.end_line
        yield from parsed_events(end, is_complete=is_complete)

    def _format_of(self, lines: Sequence[bytes], *, certain: bool) -> LogFormat:
        """Detect the format from the log's first lines, so that it is the same wherever reading begins."""
        if self.format:
            return _BY_NAME.get(self.format, PLAIN)
        if self.position.line:
            head = self._logs.read_range(self._run, 0, _SAMPLE_BYTES)
            certain = certain or len(head.body) >= _SAMPLE_BYTES
            lines = head.body.split(b"\n")
        chosen = detect_format(lines[:SAMPLE_LINES])
        if certain or len(lines) >= _ENOUGH_LINES:
            self.format = chosen.name
        return chosen

    def _next_line(self, at: int) -> int:
        """The byte after the first newline at or after ``at``."""
        while True:
            stretch = self._logs.read_range(self._run, at, MAX_PIECE_BYTES)
            newline = stretch.body.find(b"\n")
            if newline >= 0:
                return at + newline + 1
            at += len(stretch.body)
            if not stretch.body or at >= stretch.end.byte:
                return at


def _complete_lines(body: bytes, at_end: bool, longest: bool) -> tuple[bytes, bool]:
    """The bytes up to the last newline, and whether a line had to be truncated because it is longer than the longest piece."""
    if at_end:
        return body, False
    complete = body[: body.rfind(b"\n") + 1]
    if complete or not longest:
        return complete, False
    return body, True


def _structured_event(sidecar: Sidecar, noted: SidecarEntry, raw: bytes) -> tuple[LineEvent, EventContext | None]:
    """A structured event. Its logger is the ``logger`` of its data, if there is one."""
    logger = noted.data.get("logger")
    level = level_of_event(noted.level, raw)
    message = raw.decode(errors="replace")
    parsed = ParsedLine(noted.timestamp * 1000, level, logger if isinstance(logger, str) and logger else None, message)
    id_ = noted.line if noted.id is None else noted.id
    context = EventContext(noted.step or "", noted.data, id_, sidecar.writer, noted.level, noted.annotations, sidecar.instance)
    return LineEvent(noted.line, raw, noted.lines, parsed), context

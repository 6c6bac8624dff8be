"""Reads the events of one run from a position on, in pieces of bounded size, whether the run is running or ended, wherever its
bytes are stored.

A piece is read from a snapshot of the log. A running run that was read to its end is followed from there: the next pieces are its new
segments, with the sidecars of those that have events (decision 0050).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from chalicelib.errors import SnapshotChangedError
from chalicelib.events.sidecar import Sidecar, SidecarEntry
from chalicelib.lines.errors import level_of_event
from chalicelib.lines.events import LineEvent, events
from chalicelib.lines.format_detection import SAMPLE_LINES, FormatSample
from chalicelib.lines.formats import FORMATS, PLAIN, LogFormat
from chalicelib.lines.parsed import ParsedLine
from chalicelib.lines.timestamps import TimestampParser
from chalicelib.pipelines.ordering import EventContext, PendingEvent, memory_bytes_of
from chalicelib.pipelines.rows import EventPosition
from chalicelib.pipelines.sidecar_reader import SidecarCursor, SidecarReader, StructuredEvents, events_of_segments
from chalicelib.ports import Clock, Run
from chalicelib.runlog.compaction import RETIRE_AFTER_MS
from chalicelib.runlog.log_end import LogEnd
from chalicelib.runlog.new_segments import NewSegments
from chalicelib.runlog.reader import LogRange
from chalicelib.runlog.zone import tz_of

MAX_PIECE_BYTES = 8 * 1024 * 1024
"""The size of one piece if an event or a line is longer than a fetch. A longer line is truncated."""
MAX_DATA_BYTES = 64 * 1024 * 1024
"""The size of the data of a piece's events, as ``ordering.memory_bytes_of`` counts it: a piece ends with the event that reaches
it."""
MAX_PENDING_BYTES = 4096
"""Bytes of the last event of a followed run, which may continue, that are kept in memory. A longer one is read again from a snapshot."""
MAX_FOLLOWED_MS = RETIRE_AFTER_MS // 2
"""A known end of a log is not used for longer: the segment after it may have been written and retired."""
_SAMPLE_BYTES = 256 * 1024
_ENOUGH_LINES = 100
_BY_NAME = {each.name: each for each in (*FORMATS, PLAIN)}


class LogSource(Protocol):
    """Reads logs. ``runlog.reader.Reader`` implements it."""

    def read_range(self, run: Run, start: int, length: int) -> LogRange:
        """Read a byte range of a log, and the log's end."""


class SegmentSource(Protocol):
    """Reads new segments. ``runlog.new_segments.NewSegmentReader`` implements it."""

    def read_after(self, run: Run, end: LogEnd, max_bytes: int, known_bytes: int) -> NewSegments | None:
        """Read the segments after a known end of a log; None if that takes a snapshot."""


@dataclass(frozen=True, slots=True)
class FetchedEvents:
    """A piece of a run. ``at_end``: it ends at the log's current end; ``final``: the run has ended. ``lines``, ``bytes``: the
    size of the log."""

    events: Sequence[PendingEvent]
    at_end: bool
    final: bool
    lines: int
    bytes: int


@dataclass(frozen=True, slots=True)
class _FollowedEnd:
    """An end of the log up to which all was read. ``pending``: the last bytes before it, plain lines that were not returned yet. ``at_ms``:
    a time at which no segment followed."""

    end: LogEnd
    pending: bytes
    at_ms: int


class RunEventReader:
    """``position``: where the next piece begins. ``format``: the name of the run's format once it is certain, else empty.

    ``patience_ms``: more lines may belong to the last event of a running run; it is returned once nothing was appended for this
    long. ``sidecars``: the run's structured events; None: all lines are plain text. ``segments`` None: runs are not followed."""

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
        segments: SegmentSource | None = None,
    ) -> None:
        self._logs, self._run, self.partition = logs, run, f"{run.fqn}/{run.run_id}"
        self._fetch_bytes, self._patience_ms, self._clock = fetch_bytes, patience_ms, clock
        self.position, self.format = position, format
        self._sidecars, self._cursor = sidecars, SidecarCursor(sidecars, run, position.line) if sidecars else None
        self._time_parser: TimestampParser | None = None
        self._reference_us = position.time_ms * 1000 if position.time_ms else None
        self._segments, self._sample = segments, FormatSample()
        self._followed: _FollowedEnd | None = None

    def fetch(self, max_bytes: int = MAX_PIECE_BYTES, *, live_bytes: int | None = None) -> FetchedEvents:
        """Read the next piece: about ``fetch_bytes``, at most ``max_bytes``, and up to 8 MiB if one event is longer.

        ``live_bytes``: the known size of the log of a running run. If the last piece reached the log's end, the run is followed: a GET
        for each new segment and for its sidecar, four requests if there are two of both, one if nothing is new; see
        ``NewSegmentReader.read_after`` for more than two. Otherwise at most five reads of a range, plus one for each 8 MiB of a longer
        line.

        Raises UnavailableError without moving the position, so the same call reads the same piece again."""
        length = min(self._fetch_bytes, max_bytes)
        if live_bytes is not None and self._followed and (fetched := self._follow(self._followed, length, live_bytes)):
            return fetched
        return self._fetch_range(length)

    def _follow(self, followed: _FollowedEnd, length: int, live_bytes: int) -> FetchedEvents | None:
        """The events of new segments; None if they have to be read from a snapshot."""
        now_ms = self._clock.now_ms()
        assert self._segments
        if not 0 <= now_ms - followed.at_ms < MAX_FOLLOWED_MS:
            return None
        new = self._segments.read_after(self._run, followed.end, length, live_bytes)
        if new is None:
            return None
        at_ms = now_ms if new.is_log_end else followed.at_ms
        body = followed.pending + b"".join(each.body for each in new.segments)
        if not body:
            self._followed = _FollowedEnd(new.end, b"", at_ms)
            return FetchedEvents((), new.is_log_end, False, new.end.line, new.end.byte)
        entries = [each.entry for each in new.segments if each.entry.events]
        structured = events_of_segments(self._sidecars, self._run, entries) if self._sidecars else ()
        try:
            fetched = self._read_events(_lines_of(body), new.end, structured, at_end=new.is_log_end, at_ms=at_ms)
        except SnapshotChangedError:
            return None
        if self._followed and self._cursor:
            self._cursor.skip_to(new.end.sequence)
        return fetched

    def _fetch_range(self, length: int) -> FetchedEvents:
        """A piece from a snapshot."""
        while True:
            at_ms, start = self._clock.now_ms(), self.position.byte
            stretch = self._logs.read_range(self._run, start, length)
            at_end = start + len(stretch.body) >= stretch.end.byte
            longest = length >= MAX_PIECE_BYTES
            body, cut = _complete_lines(stretch.body, at_end, longest)
            next_line = self._next_line(start + len(body)) if cut else None  # may raise: before the position moves
            fetched = self._read_settled(body, stretch.end, at_ms, at_end, forced=longest and not at_end) if body else None
            if fetched is not None and (fetched.events or fetched.at_end):
                if next_line is not None and fetched.events:
                    self.position = EventPosition(self.position.line, next_line, self.position.time_ms)
                return fetched
            if at_end:
                self._follow_from(stretch.end, b"", at_ms)
                return FetchedEvents((), True, bool(stretch.end.seal), stretch.end.line, stretch.end.byte)
            length = min(length * 4, MAX_PIECE_BYTES)

    def _read_settled(self, body: bytes, end: LogEnd, at_ms: int, at_end: bool, *, forced: bool) -> FetchedEvents:
        """The events of a piece, up to a batch of events that is being written."""
        lines, line = _lines_of(body), self.position.line
        until = self._sidecars.first_unsettled_line(self._run, end.appended_ms) if self._sidecars else None
        settled = len(lines) if until is None else max(0, min(len(lines), until - line))
        final = at_end and bool(end.seal)
        if settled < len(lines):
            del lines[settled:]
            at_end, final, forced = True, False, False
        structured = self._cursor.between(line, line + settled, final=final) if self._cursor else ()
        return self._read_events(lines, end, structured, at_end=at_end, at_ms=at_ms, final=final, forced=forced)

    def _read_events(
        self,
        lines: Sequence[bytes],
        end: LogEnd,
        structured: StructuredEvents,
        *,
        at_end: bool,
        at_ms: int,
        final: bool = False,
        forced: bool = False,
    ) -> FetchedEvents:
        """The events of lines from the position on, which moves behind them. ``end``: the end of the log, as known now."""
        now_ms = self._clock.now_ms()
        waited = at_end and now_ms - end.appended_ms >= self._patience_ms
        first_line, line, byte, time_ms = self.position.line, self.position.line, self.position.byte, self.position.time_ms
        found = []
        data_bytes = 0
        seen = _LastSeen(structured)
        format_ = self._format_of(lines, end, certain=final)
        is_complete = final or waited or forced
        clock = self._time_parser = self._time_parser or TimestampParser(tz_of(end.zone), self._reference_us)
        for event, context in self._events(lines, format_, clock, seen, final=final, is_complete=is_complete, forced=forced):
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
        self._followed = None
        if seen.line < line and data_bytes < MAX_DATA_BYTES:
            self._follow_from(end, b"".join(each + b"\n" for each in lines[line - first_line :]), at_ms)
        through = byte >= end.byte
        return FetchedEvents(found, at_end and (through or not final), final, end.line, end.byte)

    def _follow_from(self, end: LogEnd, pending: bytes, at_ms: int) -> None:
        """Follow the run from an end of its log, if all was read up to there. ``pending``: plain lines from the position on."""
        if self._segments is None:
            return
        is_reached = self.position.byte + len(pending) == end.byte
        is_followed = is_reached and not end.seal and len(pending) <= MAX_PENDING_BYTES
        self._followed = _FollowedEnd(end, pending, at_ms) if is_followed else None

    def _events(
        self,
        lines: Sequence[bytes],
        format_: LogFormat,
        clock: TimestampParser,
        structured: StructuredEvents,
        *,
        final: bool,
        is_complete: bool,
        forced: bool,
    ) -> Iterator[tuple[LineEvent, EventContext | None]]:
        """The events of lines: structured ones, and events parsed from the plain lines between them. ``is_complete``: no further
        line belongs to the last event."""
        base = at = self.position.line
        end = base + len(lines)

        def parsed_events(to: int, *, is_complete: bool) -> Iterator[tuple[LineEvent, EventContext | None]]:
            numbered = enumerate(lines[at - base : to - base] if at > base or to < end else lines, at)
            return ((event, None) for event in events(numbered, format_, clock, final=is_complete))

        for sidecar, noted in structured:
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

    def _format_of(self, lines: Sequence[bytes], end: LogEnd, *, certain: bool) -> LogFormat:
        """Detect the format from the log's first lines, so that it is the same wherever reading begins. Lines up to the log's end are
        counted as they come; otherwise the log's first lines are read."""
        if self.format:
            return _BY_NAME.get(self.format, PLAIN)
        line, end_byte = self.position.line, self.position.byte + sum(map(len, lines)) + len(lines)
        is_counted = self._sample.lines >= line and end_byte == end.byte < _SAMPLE_BYTES
        if line and not is_counted:
            head = self._logs.read_range(self._run, 0, _SAMPLE_BYTES)
            certain = certain or len(head.body) >= _SAMPLE_BYTES
            self._sample, line, lines = FormatSample(), 0, _lines_of(head.body)
        self._sample.add(lines[self._sample.lines - line :][:SAMPLE_LINES])
        chosen = self._sample.format()
        if certain or self._sample.lines >= _ENOUGH_LINES:
            self.format, self._sample = chosen.name, FormatSample()  # which is not needed any more
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


class _LastSeen:
    """Structured events, and the line of the last one that was iterated."""

    def __init__(self, structured: StructuredEvents) -> None:
        self._structured, self.line = structured, -1

    def __iter__(self) -> Iterator[tuple[Sidecar, SidecarEntry]]:
        for sidecar, noted in self._structured:
            self.line = noted.line
            yield sidecar, noted


def _lines_of(body: bytes) -> list[bytes]:
    return body.removesuffix(b"\n").split(b"\n")


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

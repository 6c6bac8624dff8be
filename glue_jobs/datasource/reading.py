"""Reads the events of a slice: numbers lines, joins them to events, and adds their origin."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain, islice

import numpy as np

from chalicelib.events.sidecar import SidecarEntry
from chalicelib.lines.errors import level_of_event
from chalicelib.lines.events import LineEvent, events
from chalicelib.lines.formats import LogFormat
from chalicelib.lines.parsed import ParsedLine
from chalicelib.lines.text import LineCursor, decode_line
from chalicelib.lines.timestamps import TimestampParser
from chalicelib.ports import Run, SegmentEntry, SegmentIndex
from glue_jobs.datasource.content import Chunk, Content, Origin
from glue_jobs.datasource.options import MIB, Options
from glue_jobs.datasource.problems import LINE, METADATA, MISSING
from glue_jobs.datasource.selection import Selection
from glue_jobs.datasource.sidecars import Sidecars
from glue_jobs.datasource.slices import Borders, Slice, format_of

MAX_LINE_BYTES = 128 * MIB
"""The maximum line length of a row: Spark holds raw and message of it, and copies of both."""
_UNKNOWN = Origin(None, None, None)
_ROWS = 1000
_US, _US_OF_A_MS = 1_000_000, 1000
_NEWLINE = 10

Row = tuple[str, str, int, int | None, str | None, str | None, str, bytes, int | None, str | None, int | None, str | None]


@dataclass(frozen=True, slots=True)
class ReadSpec:
    """Content of a read. ``origins``: segment, connector and epoch may come from the objects; otherwise only from the catalog,
    whose values do not depend on the time of the read. ``outcomes``: include the outcome of runs."""

    options: Options
    selection: Selection
    index: SegmentIndex | None = None
    origins: bool = True
    outcomes: bool = True


@dataclass(frozen=True, slots=True)
class OpenSlice:
    """A slice with events: its bytes [``start``, ``end``) from event to event, the number of its first line, and its format,
    which ``format`` detects when it is first called. No event at or after ``stop_us`` can be selected."""

    content: Content
    part: Slice
    spec: ReadSpec
    format: Callable[[], LogFormat]
    start: int
    end: int
    line: int
    stop_us: int | None

    @property
    def growing(self) -> bool:
        """Whether the read may end early."""
        return self.stop_us is not None or self.spec.selection.end_line is not None

    @property
    def time_parser(self) -> TimestampParser:
        """For times of the run, once the first chunk was read."""
        return TimestampParser(self.spec.options.tz_in(self.content.zone), self.part.reference_s * _US)

    @contextmanager
    def chunks(self) -> Iterator[Iterator[Chunk]]:
        """The bytes. The first chunk is read at once: its object has the run's zone."""
        with closing(self.content.chunks(self.start, self.end, growing=self.growing)) as chunks:
            yield chain(list(islice(chunks, 1)), chunks)

    def outcome(self) -> str | None:
        """The run's outcome, once its bytes have been read. May be a request."""
        return self.part.outcome or (self.content.outcome(self.part.seal) if self.spec.outcomes else None)


def open_slice(content: Content, part: Slice, spec: ReadSpec) -> OpenSlice | None:
    """Finds where the events of a slice begin and end. None: it has none."""
    options, selection = spec.options, spec.selection
    format = cache(partial(format_of, content, part, options.format))
    borders = Borders(content, part, format)
    (start, line), end = borders.first(), borders.end()
    if start >= end:
        return None
    slack_us = None if options.time_slack_s is None else options.time_slack_s * _US
    # A line is appended at most slack_us after its own time, so no line after one that is twice as late is in the range.
    # This is checked for times in the text, not for those that senders of events state.
    is_bounded = selection.to_us is not None and not content.sidecars
    stop_us = selection.to_us + 2 * slack_us if is_bounded and selection.to_us is not None and slack_us is not None else None
    return OpenSlice(content, part, spec, format, start, end, line, stop_us)


def rows_of(opened: OpenSlice) -> Iterator[Row]:
    """A slice's events as rows, in order. Memory: some chunks of 8 MiB, and the longest line."""
    selection, sidecars, format = opened.spec.selection, opened.content.sidecars, opened.format()
    numbered = NumberedLines(opened.content, opened.line)
    origins = Origins(opened.spec, opened.part.run, numbered)
    outcome: str | None = None
    with opened.chunks() as chunks:
        clock, lines = opened.time_parser, numbered.lines(chunks)
        bytes_ = (opened.start, opened.end)
        slice_events = _with_stated(lines, sidecars, bytes_, format, clock) if sidecars else events(lines, format, clock)
        count = 0
        for event in slice_events:
            count += event.lines
            timestamp = event.parsed.timestamp
            if _is_behind(event.line, selection.end_line) or (timestamp is not None and _is_behind(timestamp, opened.stop_us)):
                return
            if event.line >= selection.first_line and _is_in_time(timestamp, selection) and _has_level(event, selection):
                outcome = outcome or opened.outcome()
                yield _row(opened.part.run, event, numbered.raw_of(event, count), origins.of(event.line), outcome)


def check(content: Content, part: Slice) -> None:
    """Read a slice to report its problems."""
    borders = Borders(content, part, cache(partial(format_of, content, part, None)))
    start, line = (part.start.byte, part.start.line) if part.start.line is not None else borders.first()
    for _ in content.sidecars.between(start, part.end.byte):
        pass
    for _ in NumberedLines(content, line or 0).lines(content.chunks(start, part.end.byte)):
        pass


def _with_stated(
    lines: Iterator[tuple[int, bytes]], sidecars: Sidecars, bytes_: tuple[int, int], format: LogFormat, clock: TimestampParser
) -> Iterator[LineEvent]:
    """The events of lines, some of which were sent as events: these are used as sent, and the text between them is joined
    separately.

    An event that is incomplete in the slice, or of another size than its sidecar states, is plain text.
    """
    ahead, state = LineCursor(lines), _stating(format, clock)
    for placed in sidecars.between(*bytes_):
        sidecar_entry = placed.sidecar_entry
        if (number := ahead.number) is not None and number < sidecar_entry.line:
            yield from events(ahead.until(sidecar_entry.line), format, clock)
        if ahead.number != sidecar_entry.line:
            continue
        raw = [line for _, line in ahead.until(sidecar_entry.end_line)]
        if len(raw) == sidecar_entry.lines and sum(map(len, raw)) + len(raw) - 1 == sidecar_entry.bytes:
            yield state(sidecar_entry, raw)
        else:
            yield from events(enumerate(raw, sidecar_entry.line), format, clock)
    yield from events(ahead.until(None), format, clock)


def _stating(format: LogFormat, clock: TimestampParser) -> Callable[[SidecarEntry, list[bytes]], LineEvent]:
    """Makes a sent event from its text; fields that its sender states override those of the text."""
    read = format.reader(clock)

    def state(sidecar_entry: SidecarEntry, raw: list[bytes]) -> LineEvent:
        first = decode_line(raw[0])
        parsed = read(first) or ParsedLine(None, None, None, first)
        text = b"\n".join(raw)
        logger = sidecar_entry.data.get("logger")
        stated = ParsedLine(
            sidecar_entry.timestamp * _US_OF_A_MS,
            level_of_event(sidecar_entry.level, text),
            logger if isinstance(logger, str) and logger else parsed.logger,
            "\n".join((parsed.message, *map(decode_line, raw[1:]))),
        )
        return LineEvent(sidecar_entry.line, text, sidecar_entry.lines, stated)

    return state


def _is_behind(value: int, end: int | None) -> bool:
    return end is not None and value >= end


def _is_in_time(timestamp: int | None, selection: Selection) -> bool:
    if not selection.bounds_time:
        return True
    if timestamp is None:
        return False
    is_late_enough = selection.from_us is None or timestamp >= selection.from_us
    return is_late_enough and (selection.to_us is None or timestamp < selection.to_us)


def _has_level(event: LineEvent, selection: Selection) -> bool:
    return selection.levels is None or event.parsed.level in selection.levels


def _row(run: Run, event: LineEvent, raw: bytes, origin: Origin, outcome: str | None) -> Row:
    timestamp, level, logger, message = event.parsed
    return run.fqn, run.run_id, event.line, timestamp, level, logger, message, raw, *origin, outcome


class NumberedLines:
    """Splits chunks into numbered lines. If a segment's metadata shows that bytes before it are missing, numbering continues from
    its line number; if only the line number differs, it does not."""

    def __init__(self, content: Content, line: int) -> None:
        self.marks: deque[tuple[int, Origin]] = deque()
        self._content, self._line = content, line
        self._missing_bytes: int | None = None
        self._newlines = 0
        self._is_unfinished = False

    def lines(self, chunks: Iterable[Chunk]) -> Iterator[tuple[int, bytes]]:
        """(number, line without its newline)."""
        for number, _, block in self.blocks(chunks):
            lines = block.split(b"\n")
            if not lines[-1]:
                lines.pop()
            yield from enumerate(lines, number)

    def blocks(self, chunks: Iterable[Chunk]) -> Iterator[tuple[int, int, bytes]]:
        """(number of the first line, count of newlines, whole lines with their newlines), which the last line of a log may lack."""
        rest, skipped = b"", 0
        for chunk in chunks:
            body = chunk.body
            if chunk.stored and not rest:
                self._check(chunk, *chunk.stored)
            if skipped:
                end = body.find(b"\n") + 1
                skipped += end or len(body)
                if not end:
                    continue
                self._report_skipped_line(skipped)
                skipped, body, self._line = 0, body[end:], self._line + 1
            if not self.marks or self.marks[-1][1] != chunk.origin:
                self.marks.append((self._line + bool(rest), chunk.origin))
            block = rest + body
            end = block.rfind(b"\n") + 1
            block, rest = block[:end], block[end:]
            if block:
                number, count = self._line, _count_newlines(block)
                self._line += count
                self._newlines += count
                yield number, count, block
            if len(rest) > MAX_LINE_BYTES:
                rest, skipped = b"", len(rest)
        if skipped:
            self._report_skipped_line(skipped)
        if rest:
            self._is_unfinished = True
            yield self._line, 0, rest

    def raw_of(self, event: LineEvent, count: int) -> bytes:
        """An event's exact bytes: with its newline, except for the last line of a log without a final one. ``count``: lines that were read
        up to the event's last one; numbers do not tell, because lines within an event may be missing."""
        return event.raw if self._is_unfinished and count > self._newlines else event.raw + b"\n"

    def _check(self, chunk: Chunk, line: int, byte: int) -> None:
        missing = byte - chunk.start
        known = self._missing_bytes
        if known is None:
            known = max(missing, 0) if chunk.start else 0
        key = f"segment {chunk.origin.segment}"
        if missing > known and line >= self._line:
            detail = f"bytes of the log are missing before {key} count={missing - known}"
            self._content.problems.report(self._content.run, MISSING, key, detail)
            self._line, known = line, missing
        elif missing != known or line != self._line:
            detail = f"metadata of {key} differs from the preceding bytes first_line={line} counted={self._line} first_byte={byte}"
            self._content.problems.report(self._content.run, METADATA, key, detail)
        self._missing_bytes = known

    def _report_skipped_line(self, size: int) -> None:
        detail = f"a line is too long to be a row line={self._line} bytes={size}"
        self._content.problems.report(self._content.run, LINE, f"line {self._line}", detail)


def _count_newlines(block: bytes) -> int:
    """Ten times as fast as ``bytes.count`` for lines of usual lengths."""
    return int(np.count_nonzero(np.frombuffer(block, np.uint8) == _NEWLINE))


class Origins:
    """Origins of lines, requested in ascending order."""

    def __init__(self, spec: ReadSpec, run: Run, numbered: NumberedLines) -> None:
        self._spec, self._run, self._numbered = spec, run, numbered
        self._rows: deque[SegmentEntry] | None = None

    def of(self, line: int) -> Origin:
        """The origin of a line."""
        marks = self._numbered.marks
        while len(marks) > 1 and marks[1][0] <= line:
            marks.popleft()
        origin = marks[0][1] if marks else _UNKNOWN
        if self._spec.index is None:
            return origin if self._spec.origins else _UNKNOWN
        if origin.segment is not None:
            return origin
        return self._of_catalog(self._spec.index, line) or (origin if self._spec.origins else _UNKNOWN)

    def end_of(self, line: int) -> int | None:
        """The first line behind ``line``, the last one given to ``of``, that may have another origin; None: there is none yet."""
        marks, rows = self._numbered.marks, self._rows
        ends = [mark for mark, _ in islice(marks, 1, 2)]
        if rows:
            ends += (rows[0].line, rows[0].end_line)
        return min((end for end in ends if end > line), default=None)

    def _of_catalog(self, index: SegmentIndex, line: int) -> Origin | None:
        if self._rows is None:
            first = index.at_line(self._run, line)
            self._rows = deque([first] if first else [])
        rows = self._rows
        while rows and rows[0].end_line <= line:
            last = rows.popleft()
            if not rows:
                rows.extend(index.rows_from(self._run, last.end_line, last.sequence + 1, _ROWS))
        if not rows or rows[0].line > line:
            return None
        return Origin(rows[0].sequence, rows[0].connector or None, rows[0].epoch)

"""Parses blocks of whole lines into the columns of their events.

Lines of the run's format become columns by vector operations, if the format has a matcher; lines that begin with a character with which
no format begins belong to the line before them. All other lines, and events whose lines cannot simply be joined, go to the row parser.
So the events are those of ``chalicelib.lines.events``, in every column.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import NamedTuple

import numpy as np

from chalicelib.lines.events import MAX_EVENT_BYTES, MAX_EVENT_LINES, LineEvent, group_lines, java_logger
from chalicelib.lines.formats import FORMATS, PLAIN, LogFormat, parse_json_with
from chalicelib.lines.levels import ORDER, is_error
from chalicelib.lines.parsed import ParsedLine
from chalicelib.lines.text import decode_line
from chalicelib.lines.timestamps import TimestampParser
from glue_jobs.columnar.blocks import INDENTED, Bools, Bytes, Ints, LineBlock
from glue_jobs.columnar.columns import EventColumns, JoinedMatches, parse_blocks
from glue_jobs.columnar.matchers import matcher_of
from glue_jobs.columnar.matching import NO_MATCHES, LineMatches

_ASCII = 128
_ERRORS = np.array([*map(is_error, ORDER), False])
"""For each level, and for none: whether it is an error."""
_SPACED_TRACE = np.frombuffer(b"  +", np.uint8)
"""With this begins the only trace that is indented."""
_TRACE = np.frombuffer(b"Traceback (most recent call last):\n", np.uint8)
"""The line with which Python's stack traces begin. No format parses it."""


class ColumnarParser:
    """Parses the log of one run. ``lines`` and ``row_lines``: how many lines it parsed, and how many of them by the row parser."""

    def __init__(self, format: LogFormat, time_parser: TimestampParser) -> None:
        self._read, self._read_json = format.reader(time_parser), parse_json_with(time_parser)
        matcher = matcher_of(format)
        self._matcher = None if matcher is None else (matcher.first, matcher.bound(time_parser))
        self._is_continuation = _continuations(format)
        self.lines = self.row_lines = 0

    def parse(self, body: bytes, *, final: bool = True) -> EventColumns:
        """The events of a block of whole lines, the first of which begins an event. With ``final=False`` the last event is held back,
        because it may continue: parse it again from ``EventColumns.size`` on, with the lines that follow. Memory: twenty times the
        number of lines, the columns, and a few copies of the block."""
        block = LineBlock.of(body)
        is_special, first_bytes = block.special(), block.octets[block.starts]
        matches = self._matches(block, first_bytes, is_special)
        is_matched = np.zeros(len(block), np.bool_)
        is_matched[matches.lines] = True
        begins_trace = _marked(block, np.flatnonzero(first_bytes == _TRACE[0]), _TRACE)
        rows = self._rows(block, ~(is_matched | begins_trace | (self._is_continuation[first_bytes] & ~is_special)))
        begins = is_matched.copy()
        begins[[number for number, parsed in rows.items() if parsed is not None]] = True
        second = self._second_lines(block, rows)
        begins[[*second]] = False
        begins[:1] = True
        groups = _Groups(block, matches, begins, _joinable(block, first_bytes, is_special, begins, begins_trace))
        others = [event for first, end in groups.others() for event in self._group(block, first, end, rows, second)]
        columns = EventColumns(block, matches, groups.joined(), others, final=final)
        count = columns.line_count
        self.lines += count
        self.row_lines += int(groups.is_other[:count].sum()) + sum(1 for line in rows if line < count and not groups.is_other[line])
        return columns

    def parse_blocks(self, blocks: Iterable[bytes], least_bytes: int = 0) -> Iterator[EventColumns]:
        """The events of consecutive blocks: see ``columns.parse_blocks``."""
        return parse_blocks(self.parse, blocks, least_bytes)

    def _matches(self, block: LineBlock, first_bytes: Bytes, is_special: Bools) -> LineMatches:
        if self._matcher is None:
            return NO_MATCHES
        first, matches = self._matcher
        return matches(block, np.flatnonzero(first[first_bytes] & ~is_special))

    def _rows(self, block: LineBlock, is_row: Bools) -> dict[int, ParsedLine | None]:
        return {number: self._read(decode_line(block.line(number))) for number in np.flatnonzero(is_row).tolist()}

    def _second_lines(self, block: LineBlock, rows: dict[int, ParsedLine | None]) -> dict[int, ParsedLine | None]:
        """The second lines of records that begin with two (``chalicelib.lines.events.java_logger``)."""
        heads = [number for number, parsed in rows.items() if parsed is not None and parsed.level is None]
        return {
            number + 1: self._read(decode_line(block.line(number + 1)))
            for number in heads
            if number + 1 < len(block) and java_logger(block.line(number), block.line(number + 1)) is not None
        }

    def _group(
        self,
        block: LineBlock,
        first: int,
        end: int,
        rows: dict[int, ParsedLine | None],
        second: dict[int, ParsedLine | None],
    ) -> Iterable[LineEvent]:
        """The events of lines [first, end), of which only the first one may be in a format, and the second line of its record."""
        parsed = rows[first] if first in rows else self._read(decode_line(block.line(first)))
        if end == first + 1 and parsed is not None:
            return (LineEvent(first, block.line(first), 1, parsed),)
        results = iter((parsed, second.get(first + 1)))
        return group_lines(block.numbered(first, end), lambda text: next(results, None), self._read_json)


@cache
def _continuations(format: LogFormat) -> Bools:
    """For each byte: whether lines that begin with it are certainly in no format, if they are valid and have no escape sequences."""
    matcher = matcher_of(format)
    if matcher is None and format is not PLAIN:
        return np.zeros(256, np.bool_)
    known = matcher.first if matcher else np.zeros(256, np.bool_)
    tried = {ord(character) for each in FORMATS if each.unambiguous for character in each.prefix.first}
    return ~known & ~np.isin(np.arange(256), [*tried]) & (np.arange(256) < _ASCII)


def _marked(block: LineBlock, lines: Ints, beginning: Bytes) -> Bools:
    """For each line of a block: whether it is one of ``lines`` and begins with these bytes."""
    marks = np.zeros(len(block), np.bool_)
    marks[lines] = (block.windows(block.starts[lines], len(beginning)) == beginning).all(axis=1)
    return marks


class _Joinable(NamedTuple):
    """Lines that continue an event, whatever else is in it: of an event that is no error, and of an error."""

    of_any: Bools
    of_error: Bools


def _joinable(block: LineBlock, first_bytes: Bytes, is_special: Bools, begins: Bools, begins_trace: Bools) -> _Joinable:
    """Indented lines; behind an error also the beginning of a Python trace and the line of its exception, which is the first one behind
    it that is not indented. A trace behind anything else is an event of its own."""
    is_text = ~(begins | is_special | block.ends_with_return)
    is_indented = INDENTED[first_bytes]
    indented = is_text & is_indented
    is_spaced_trace = _marked(block, np.flatnonzero(indented & (first_bytes == _SPACED_TRACE[0])), _SPACED_TRACE)
    unindented = np.flatnonzero(begins | ~is_indented)
    ends_trace = np.zeros(len(block), np.bool_)
    ends_trace[unindented[1:]] = begins_trace[unindented[:-1]]
    return _Joinable(indented & ~is_spaced_trace, indented | (is_text & (begins_trace | ends_trace)))


class _Groups:
    """Lines from one that begins an event to the next. Where one line is matched and all others are joinable, a group is one event,
    and its message is the rest of its text in the block."""

    def __init__(self, block: LineBlock, matches: LineMatches, begins: Bools, joinable: _Joinable) -> None:
        self._block = block
        self._first = np.flatnonzero(begins)
        self._end = np.append(self._first[1:], len(begins)) if len(begins) else self._first
        self._places = np.minimum(np.searchsorted(matches.lines, self._first), max(len(matches.lines) - 1, 0))
        if len(matches.lines):
            is_matched = matches.lines[self._places] == self._first
            is_error = _ERRORS[matches.level[self._places]]
        else:
            is_matched = is_error = np.zeros(len(self._first), np.bool_)
        obstacles = np.where(is_error, self._count(~(joinable.of_error | begins)), self._count(~(joinable.of_any | begins)))
        is_single = self._end - self._first == 1
        is_joined = (
            (obstacles == 0)
            & (matches.messages is None)
            & (self._end - self._first <= MAX_EVENT_LINES)
            & (block.next_starts[self._end - 1] - block.starts[self._first] < MAX_EVENT_BYTES)
            & ~block.ends_with_return[self._first]
        )
        self._is_simple = is_matched & (is_single | is_joined)
        self.is_other = np.repeat(~self._is_simple, self._end - self._first)

    def _count(self, lines: Bools) -> Ints:
        """The number of such lines in each group."""
        before: Ints = np.append(0, np.cumsum(lines))
        return before[self._end] - before[self._first]

    def others(self) -> Iterable[tuple[int, int]]:
        """Lines [first, end) of the groups that are not simply joined."""
        is_other = ~self._is_simple
        return zip(self._first[is_other].tolist(), self._end[is_other].tolist(), strict=True)

    def joined(self) -> JoinedMatches:
        """The groups that are one event."""
        first, end, places = (each[self._is_simple] for each in (self._first, self._end, self._places))
        text_end = self._block.ends[first]
        several = np.flatnonzero(end - first > 1)
        if len(several):  # empty lines at the end are not part of a message
            is_filled = self._block.ends > self._block.starts
            filled = np.maximum.accumulate(np.where(is_filled, np.arange(len(self._block)), 0))
            text_end[several] = self._block.ends[filled[end[several] - 1]]
        return JoinedMatches(first, end, places, text_end)

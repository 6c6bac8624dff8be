"""Finds where the events of a block begin, without parsing most of its lines.

A line that begins like no continuation of an event begins an event, whether a format parses it or not. Indented lines belong to the line
before them. Only lines between these, such as those of stack traces, need the row parser, with the event that is before them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property

import numpy as np

from chalicelib.lines.events import MAX_EVENT_BYTES, MAX_EVENT_LINES, LineEvent, group_lines
from chalicelib.lines.formats import LogFormat, parse_json_with
from chalicelib.lines.layout import LineParser
from chalicelib.lines.timestamps import TimestampParser
from glue_jobs.columnar.blocks import INDENTED, Bools, Bytes, Ints, LineBlock, bytes_among
from glue_jobs.columnar.columns import EventSpans, parse_blocks

_WORD = bytes_among(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_$")
_LETTERS = _WORD & ~bytes_among(b"0123456789")
_MAY_CONTINUE = _LETTERS | bytes_among(b'.:("])}[{')
"""For each byte: whether an unindented line that begins with it can continue an event (``chalicelib.lines.events``)."""
_OPENING = bytes_among(b"[{")
_BEHIND_OPENING = bytes_among(b" \t\r\n\v\fSp")
"""For each byte: whether a line that begins with a bracket and it can continue an event: it is alone, or is SQLAlchemy's."""
_SENTENCES = np.frombuffer(b"TracDuriThe ExceCausWrapDriv", np.uint32)
"""The beginnings of all words that continue a stack trace, except names of classes, which contain a dot."""
_WORD_BYTES = 32
_JAVA_COMMA = len("Nov 21")
"""A line behind one with a comma there may be the second one of its record (``chalicelib.lines.events.java_logger``)."""
_SPACED_TRACE = ord("+")
_TRACE = b"Traceback (most recent call last):"
_TRACE_END = re.compile(rb"Traceback \(most recent call last\):\r?$", re.MULTILINE)

Rows = Callable[[int, int], Iterable[LineEvent]]
"""The events of lines [first, end) by the row parser."""


class OutlineParser:
    """Finds the events of one run's log. ``lines`` and ``row_lines``: how many lines it has seen, and how many of them the row parser.
    ``format`` is called when the first line needs it."""

    def __init__(self, format: Callable[[], LogFormat], time_parser: TimestampParser) -> None:
        self._format, self._time_parser = format, time_parser
        self.lines = self.row_lines = 0

    def parse(self, body: bytes, *, final: bool = True) -> EventSpans:
        """Like ``ColumnarParser.parse``, without times, levels and texts. Memory: twice the block, and ten times the number of lines."""
        block = LineBlock.of(body)
        line, read = _first_lines(block, lambda first, end: group_lines(block.numbered(first, end), *self._readers))
        end_line = np.append(line[1:], len(block)) if len(line) else line
        events = EventSpans(block, line, end_line) if final else EventSpans(block, line[:-1], end_line[:-1])
        self.lines += events.line_count
        self.row_lines += int((read < events.line_count).sum())
        return events

    def parse_blocks(self, blocks: Iterable[bytes], least_bytes: int = 0) -> Iterator[EventSpans]:
        """The events of consecutive blocks: see ``columns.parse_blocks``."""
        return parse_blocks(self.parse, blocks, least_bytes)

    @cached_property
    def _readers(self) -> tuple[LineParser, LineParser]:
        return self._format().reader(self._time_parser), parse_json_with(self._time_parser)


def _first_lines(block: LineBlock, rows: Rows) -> tuple[Ints, Ints]:
    """The first line of each event of a block, and the lines that the row parser has read."""
    if not len(block):
        return block.starts, block.starts
    first_bytes = block.octets[block.starts]
    is_indented = INDENTED[first_bytes]
    begins = _certain(block, first_bytes, is_indented)
    begins[0] = True
    is_unsure = ~begins & ~is_indented
    spaced = np.flatnonzero(is_indented & (block.octets[block.starts + 2] == _SPACED_TRACE))
    is_unsure[spaced] = True
    is_unsure |= is_indented & block.has_states()
    first = np.flatnonzero(begins)
    end = np.append(first[1:], len(block))
    is_other = (end - first > 1) & (
        np.logical_or.reduceat(is_unsure, first)
        | (end - first > MAX_EVENT_LINES)
        | (block.next_starts[end - 1] - block.starts[first] >= MAX_EVENT_BYTES)
    )
    others = zip(first[is_other].tolist(), end[is_other].tolist(), strict=True)
    lines = [event.line for each in others for event in rows(*each)]
    read = np.flatnonzero(np.repeat(is_other, end - first))
    return np.sort(np.concatenate((first[~is_other], np.array(lines, np.int64)))), read


def _certain(block: LineBlock, first_bytes: Bytes, is_indented: Bools) -> Bools:
    """Lines that certainly begin an event."""
    certain = ~(is_indented | _MAY_CONTINUE[first_bytes])
    opening = np.flatnonzero(_OPENING[first_bytes])
    certain[opening] = ~_BEHIND_OPENING[block.octets[block.starts[opening] + 1]]
    worded = np.flatnonzero(_LETTERS[first_bytes])
    if len(worded):
        certain[worded] = _are_sentences(block.windows(block.starts[worded], _WORD_BYTES))
        certain[worded] &= (worded == 0) | (block.octets[block.starts[worded - 1] + _JAVA_COMMA] != ord(","))
    if _TRACE in block.body:  # the line of its exception may begin like any other
        traces = [match.start() for match in _TRACE_END.finditer(block.body)]
        unindented = np.flatnonzero(~is_indented)
        exceptions = np.searchsorted(unindented, block.lines_at(np.array(traces, np.int64)), side="right")
        certain[unindented[exceptions[exceptions < len(unindented)]]] = False
    return certain


def _are_sentences(texts: Bytes) -> Bools:
    """Whether texts begin with a word that neither belongs to a stack trace nor to the name of a class."""
    is_word = _WORD[texts]
    end = is_word.argmin(axis=1)
    behind = texts[np.arange(len(texts)), end]
    words = np.ascontiguousarray(texts[:, :4]).view(np.uint32)[:, 0]
    is_sentence: Bools = (end > 0) & (behind != ord(".")) & ~np.isin(words, _SENTENCES)
    return is_sentence

"""Counts the error records in a piece of a log, without parsing every line, for a segment's metadata; and derives an event's level from
its text.

Records are those of ``events``; errors are those of ``levels.is_error``. A piece lacks context, so:

- The run's format is unknown. A line that only an ambiguous format parses is counted by that format.
- A trace at the start of the piece counts, although it may belong to an error record before the piece.
- Objects over several lines are not parsed. A level that is a number or a letter counts only if the piece begins with such a line (of JSON: with
  the same field), and an HTTP status of 5xx does not count.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache, partial

from chalicelib.lines.events import FRAMES, begins_trace, events, is_exception_line
from chalicelib.lines.field_names import READINGS
from chalicelib.lines.formats import ANY
from chalicelib.lines.layout import LineParser
from chalicelib.lines.levels import ERROR, SEVERITIES, is_error, level_of_name
from chalicelib.lines.text import decode_line

_WORDS = (b"err", b"fatal", b"crit", b"severe", b"fail", b"panic", b"emerg", b"alert")
"""Lowercase: a line without any of these states no error in words."""
_SERILOG = re.compile(rb"\[?[0-9 :.T+-]{8,36}[ \[](?:VRB|DBG|INF|WRN|ERR|FTL)\]")
"""A line of a log with abbreviations, of which that of a fatal record is none of the words."""
_EROR = b"eror"
"""Of log15, whose field is ``lvl``; its pairs begin with the time, ``t``."""
_NUMBERS: Mapping[bytes, tuple[bytes, ...]] = {
    b"<": (b"\n<",),
    **dict.fromkeys((b"I", b"W", b"E", b"F"), (b"\nE", b"\nF")),
    b"t": (_EROR,),
}
"""By the first byte of a syslog or klog log: the text that states an error as a number or a letter."""
_LETTER_IN_BRACKETS = re.compile(rb"\[[0-9-]{10} [0-9:,.]{8,15} [A-Z] [0-9]")
_LETTERS_IN_BRACKETS = (b" E ", b" F ", b" C ")
"""Of a log of Ray's core."""
_CONTAINER = re.compile(rb"[0-9]{4}-\S{10,40} std(?:out|err) [FP] \{")
_NUMBERED = re.compile(rb'ev(?:el(?:no)?|erity(?:_?[Nn]umber|Level)?)\\?" ?: ?\\?"?[0-9]')
"""A level of a JSON line that may be a number, also within the text that a container printed."""
_NAMED = re.compile(rb'(\\?"([A-Za-z0-9_.@$-]{1,60})\\?" ?: ?(?:\\?")?)')
"""What precedes a value, and its name."""
_HEAD_BYTES = 4096
_KEY = b'error":'
_REMEMBERED_LINES, _LONGEST_REMEMBERED_BYTES = 1024, 256
"""Repeated short lines are parsed once: a small compressed body can hold a million."""
_PIECE_BYTES, _OVERLAP_BYTES = 1024 * 1024, 80
"""The overlap has the rest of a word or key that begins in a piece."""
_TRACEBACK, _THREAD, _FRAME = b"Traceback (most recent call last):", b"Exception in thread ", b"\n" + FRAMES[0]
_MAX_LINES_BEFORE = 64
"""Maximum number of lines searched for the record that a trace belongs to."""


def count_errors(body: bytes) -> int:
    """The number of error records. Searches for a few words and parses only lines that contain one, and the neighbours of traces."""
    read = ANY.reader()
    remembered = lru_cache(_REMEMBERED_LINES)(partial(_states_error, read))
    lines = (_line(body, start) for start in _candidates(body))
    stated = sum(remembered(raw) if len(raw) <= _LONGEST_REMEMBERED_BYTES else _states_error(read, raw) for raw in lines)
    return stated + _traces(body, read)


def level_of_event(stated: str | None, message: bytes) -> str | None:
    """The level that the sender states, or else the level of the text."""
    return (stated and level_of_name(stated)) or level_of_text(message)


def level_of_text(message: bytes) -> str | None:
    """The level of an event without a stated level: that of its first line, or ERROR if any of its records is an error, so that
    histograms and event filters agree. One of ``levels.ORDER``; None: unknown."""
    first = _line(message, 0)
    parsed = ANY.reader()(decode_line(first))
    level = parsed.level if parsed is not None else None
    return level if is_error(level) or not count_errors(message) else ERROR


def _states_error(read: LineParser, raw: bytes) -> bool:
    parsed = read(decode_line(raw))
    return parsed is not None and is_error(parsed.level)


def _candidates(body: bytes) -> Iterator[int]:
    """Starts of the lines that may state an error, in order. In pieces: the starts of many short lines take 20 times their bytes."""
    first, last = body[:1], -1
    signs = _signs(body)
    if signs and (first != b"<" or _is_severe(body, 0)):
        yield (last := 0)
    for at in range(0, len(body), _PIECE_BYTES):
        piece = body[at : at + _PIECE_BYTES + _OVERLAP_BYTES]
        lowered = piece.lower()
        starts = {start for word in _WORDS for start in _line_starts(lowered, word, _PIECE_BYTES)}
        numbered = {start for sign in signs for start in _line_starts(piece, sign, _PIECE_BYTES)}
        starts |= {start for start in numbered if first != b"<" or _is_severe(body, at + start)}
        for start in sorted({at + start if start else body.rfind(b"\n", 0, at) + 1 for start in starts}):
            if start > last:
                yield (last := start)


def _signs(body: bytes) -> tuple[bytes, ...]:
    """The texts that state an error as a number or a letter, by the first line."""
    first = body[:1]
    if first == b"{" or _CONTAINER.match(body):
        numbers = _numbers_of_json(body)
        return (*numbers, _EROR) if b"lvl" in body[:_HEAD_BYTES] else numbers
    if first == b"[" and _LETTER_IN_BRACKETS.match(body):
        return _LETTERS_IN_BRACKETS
    return (b"FTL",) if _SERILOG.match(body) else _NUMBERS.get(first, ())


def _numbers_of_json(body: bytes) -> tuple[bytes, ...]:
    """The texts that state an error as a number, by the names of the first line."""
    end = body.find(b"\n", 0, _HEAD_BYTES)
    head = body[: _HEAD_BYTES if end < 0 else end]
    if _NUMBERED.search(head) or b'"PRIORITY' in head or b'"pri"' in head or b'"$date"' in head:
        return _numbers_of_names(tuple(_NAMED.findall(head)))
    return ()


@lru_cache(_REMEMBERED_LINES)
def _numbers_of_names(named: Sequence[tuple[bytes, bytes]]) -> tuple[bytes, ...]:
    before = {name.decode(): text for text, name in named}
    if "$date" in before and "s" in before:
        return before["s"] + b"E", before["s"] + b"F"  # MongoDB's letters
    numbers = READINGS[tuple(before)].numbers
    return tuple({before[name] + digit.encode() for name, scale in numbers for digit in scale.error_digits})


def _is_severe(body: bytes, start: int) -> bool:
    """Whether a line begins with a syslog priority of an error; other lines are not parsed."""
    priority = body[start + 1 : max(body.find(b">", start, start + 5), start)]
    return priority.isdigit() and is_error(SEVERITIES[int(priority) % 8])


def _line_starts(body: bytes, word: bytes, limit: int | None = None) -> Iterator[int]:
    """Starts of the lines that contain a word before ``limit``, or begin with it after a newline. JSON keys do not count."""
    limit = len(body) if limit is None else limit
    at = body.find(word)
    while 0 <= at < limit:
        if body.startswith(_KEY, at):
            at = body.find(word, at + len(_KEY))
            continue
        yield body.rfind(b"\n", 0, at + 1) + 1
        end = body.find(b"\n", at + 1)
        at = body.find(word, end) if end >= 0 else -1


def _line(body: bytes, start: int) -> bytes:
    end = body.find(b"\n", start)
    return body[start:] if end < 0 else body[start:end]


def _traces(body: bytes, read: LineParser) -> int:
    """The number of traces that are separate records."""
    count = done = 0
    for start in sorted(_trace_starts(body)):
        if start < done:
            continue
        done = _record_before(body, start, done, read)
        for event in events(_lines(body, done), ANY):
            if done > start:
                break
            is_trace = is_error(event.parsed.level) and read(decode_line(event.raw.partition(b"\n")[0])) is None
            count += is_trace
            done += len(event.raw) + 1
    return count


def _trace_starts(body: bytes) -> Iterator[int]:
    for word in (_TRACEBACK, _THREAD):
        yield from (start for start in _line_starts(body, word) if begins_trace(_line(body, start)))
    at = body.find(_FRAME)
    while at >= 0:
        start = body.rfind(b"\n", 0, at) + 1
        if is_exception_line(_line(body, start)):
            yield start
        at = body.find(_FRAME, at + 1)


def _record_before(body: bytes, start: int, lowest: int, read: LineParser) -> int:
    """The start of the record before a trace."""
    for _ in range(_MAX_LINES_BEFORE):
        if start <= lowest:
            break
        start = max(body.rfind(b"\n", 0, start - 1) + 1, lowest)
        if read(decode_line(_line(body, start))) is not None:
            break
    return start


def _lines(body: bytes, start: int) -> Iterator[tuple[int, bytes]]:
    number = 0
    while start < len(body):
        raw = _line(body, start)
        yield number, raw
        number, start = number + 1, start + len(raw) + 1

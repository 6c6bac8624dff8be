"""Groups lines into events: stack traces, pretty-printed objects and indented lines belong to the line before them.

A stack trace after a record below ERROR is a separate event with level ERROR.

An event depends on its own lines only. So a log can be read from any border between two events, in the same format, with the same result
as reading it from the start.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from chalicelib.lines.formats import PLAIN, LogFormat, parse_json_with
from chalicelib.lines.layout import LineParser
from chalicelib.lines.levels import ERROR, is_error
from chalicelib.lines.parsed import ParsedLine
from chalicelib.lines.text import INDENTATION, certainly_continues, decode_line
from chalicelib.lines.timestamps import TimestampParser

MAX_EVENT_LINES = 2000
MAX_EVENT_BYTES = 1_048_576
"""A line that would exceed these begins a new event, as does the line after a single longer line."""


_TRACE_BEGINS = (b"Traceback (most recent call last):", b"Traceback (most recent call last):\r")
_FOLLOWS = re.compile(
    rb"Traceback \(most recent call last\):"
    rb"|During handling of the above exception, another exception occurred:"
    rb"|The above exception was the direct cause of the following exception:"
    rb"|Exception in thread "
    rb"|Caused by: |Wrapped by: |Driver stacktrace:|\.\.\. [0-9]+ more"
    rb"|: (?:\w++\.)+\w++(?::|\s*$)"  # Java's exception as py4j prints it
    rb"|(?:[A-Za-z_$][\w$]*+\.)+[\w$]++(?:(?<=Exception)|(?<=Error)|(?<=Throwable)|(?<=Traceback))(?::|\s*$)"
    rb"|\(Background on this error at: |\[SQL: |\[parameters: "  # SQLAlchemy's
    rb"|\"\"\"\s*$"  # around the trace of another process
    rb"|[\])}]++[,;]?\s*$"
)
_TRACE = re.compile(rb"(?:  \+ Exception Group )?Traceback \(most recent call last\):|Exception in thread ")
_EXCEPTION = re.compile(rb"Caused by: |(?:[A-Za-z_$][\w$]*+\.)++[A-Z][\w$]*+(?::|\s*$)")
"""A Java exception with its class: a trace if frames follow."""
FRAMES = (b"\tat ", b"\t... ")
_JAVA_HEADER = re.compile(rb"[A-Z][a-z]{2} [0-9]{2}, [0-9]{4} [0-9]{1,2}:[0-9]{2}:[0-9]{2} [AP]M (\S+)(?: \S+)?\r?$")
_JAVA_LEVEL = re.compile(rb"(?:SEVERE|WARNING|INFO|CONFIG|FINE|FINER|FINEST): ")
"""The two lines with which a record of java.util.logging begins."""
_LOOK_BYTES = 1000
_OPENERS = frozenset({b"{", b"["})


class LineEvent(NamedTuple):
    """Lines that belong together. ``line`` is the number of the first; ``raw`` their bytes, joined by newlines, without the last newline.

    ``parsed`` is the parsed first line, with the text of the further lines appended to its message.
    """

    line: int
    raw: bytes
    lines: int
    parsed: ParsedLine

    @property
    def next_line(self) -> int:
        """The line after the event, from which reading can continue."""
        return self.line + self.lines


_NOTHING = ParsedLine(None, None, None, "")
_new: Callable[[type[LineEvent], tuple[Any, ...]], LineEvent] = tuple.__new__


def events(
    lines: Iterable[tuple[int, bytes]], format: LogFormat = PLAIN, time_parser: TimestampParser | None = None, *, final: bool = True
) -> Iterator[LineEvent]:
    """Groups numbered lines, given without newlines, into events. Their raw bytes, joined by newlines, equal the input.

    The first line begins an event. With ``final=False``, for a log that still grows, the last event is held back because it may continue:
    read again from the end of the last yielded event. Holds one event in memory: ``MAX_EVENT_BYTES``, or one longer line.
    """
    time_parser = time_parser or TimestampParser()
    return group_lines(lines, format.reader(time_parser), parse_json_with(time_parser), final=final)


def group_lines(
    lines: Iterable[tuple[int, bytes]], read: LineParser, read_json: LineParser, *, final: bool = True
) -> Iterator[LineEvent]:
    """``events`` by a parser that is called once for each line, in order; ``read_json`` parses objects over several lines."""
    line = last = -1
    first, parsed = b"", _NOTHING
    rest: list[bytes] = []
    size = heads = 0
    for number, raw in lines:
        text = decode_line(raw)
        line_parsed = read(text)
        if line_parsed is None:
            size = size if rest else len(first)
            is_lower = not is_error(parsed.level)
            if (
                line >= 0
                and len(rest) < MAX_EVENT_LINES - 1
                and size + len(raw) < MAX_EVENT_BYTES
                and _goes_on(raw, first, rest)
                and not (is_lower and begins_trace(raw))
            ):
                if is_lower and raw.startswith(FRAMES) and _is_exception(first, rest):
                    if rest:
                        exception = rest.pop()
                        yield (
                            _joined(line, first, rest, parsed, read_json, heads)
                            if rest
                            else _new(LineEvent, (line, first, 1, parsed))
                        )
                        line, first, rest, heads = last, exception, [], 0  # lines before it may be missing
                        size, parsed = len(first), ParsedLine(None, ERROR, None, decode_line(first))
                    elif parsed.level is None:
                        parsed = parsed._replace(level=ERROR)
                rest.append(raw)
                size += len(raw) + 1
                last = number
                continue
            line_parsed = ParsedLine(None, ERROR if begins_trace(raw) else None, None, text)
        elif (
            line_parsed.timestamp is None
            and not rest
            and len(first) + len(raw) < MAX_EVENT_BYTES
            and MAX_EVENT_LINES > 1
            and (logger := java_logger(first, raw)) is not None
        ):
            rest, size, heads, last = [raw], len(first) + len(raw) + 1, 1, number
            parsed = ParsedLine(parsed.timestamp, line_parsed.level, logger, line_parsed.message)
            continue
        if rest:
            yield _joined(line, first, rest, parsed, read_json, heads)
            rest, heads = [], 0
        elif line >= 0:
            yield _new(LineEvent, (line, first, 1, parsed))
        line, first, parsed = number, raw, line_parsed
    if final and line >= 0:
        yield _joined(line, first, rest, parsed, read_json, heads) if rest else LineEvent(line, first, 1, parsed)


def count_continuation_lines(lines: Iterable[bytes], format: LogFormat = PLAIN, time_parser: TimestampParser | None = None) -> int:
    """The number of leading lines that may belong to an event that began before them; usually 0.

    A reader that starts within a log skips these lines, and the reader of the preceding part includes them; together they yield the
    events of the complete log, for any split. Reads at most one line more than it counts.
    """
    read = format.reader(time_parser)
    count, uncertain, previous = 0, True, b""
    for raw in lines:
        is_second = not count and _JAVA_LEVEL.match(raw) is not None
        indented = is_second or raw[:1] in INDENTATION
        if not (is_second or certainly_continues(raw)) and (
            read(decode_line(raw)) is not None or not (indented or uncertain or _follows(raw, previous))
        ):
            break
        count, uncertain, previous = count + 1, indented or raw.endswith(_TRACE_BEGINS), raw
    return count


def java_logger(first: bytes, second: bytes) -> str | None:
    """The logger or class of a record of java.util.logging, if it begins with two lines: the second one has the level and the message."""
    header = _JAVA_HEADER.match(first, 0, _LOOK_BYTES) if _JAVA_LEVEL.match(second) else None
    return header[1].decode(errors="replace") if header else None


def _goes_on(raw: bytes, first: bytes, rest: Sequence[bytes]) -> bool:
    """Whether a line that no format parses continues the event."""
    return raw[:1] in INDENTATION or _is_in_trace(first, rest) or _follows(raw, rest[-1] if rest else first)


def begins_trace(raw: bytes) -> bool:
    """Whether a line begins a stack trace, regardless of the lines after it."""
    return _TRACE.match(raw) is not None


def is_exception_line(raw: bytes) -> bool:
    """Whether a line is a Java exception, which begins a trace if a frame follows."""
    return _EXCEPTION.match(raw, 0, _LOOK_BYTES) is not None


def _is_exception(first: bytes, rest: Sequence[bytes]) -> bool:
    """Whether the last line is a Java exception. A cause after frames belongs to their trace."""
    last = rest[-1] if rest else first
    if not is_exception_line(last):
        return False
    before = rest[-2] if len(rest) > 1 else first
    return not (rest and last.startswith(b"Caused by: ") and before.startswith(FRAMES))


def _is_in_trace(first: bytes, rest: Sequence[bytes]) -> bool:
    """Whether the exception line of a trace, which is not indented, is still expected."""
    for raw in reversed(rest):
        if raw.endswith(_TRACE_BEGINS):
            return True
        if raw[:1] not in INDENTATION:
            return False
    return first.endswith(_TRACE_BEGINS)


def _follows(raw: bytes, previous: bytes) -> bool:
    """Whether an unindented line continues a stack trace, or is an object after a colon."""
    if _FOLLOWS.match(raw, 0, _LOOK_BYTES) is not None:
        return True
    return raw[:1] in _OPENERS and raw.rstrip() in _OPENERS and previous.rstrip().endswith(b":")


def _joined(line: int, first: bytes, rest: Sequence[bytes], parsed: ParsedLine, read_json: LineParser, heads: int) -> LineEvent:
    """``heads``: of the further lines, those that ``parsed`` has already."""
    raw = b"\n".join((first, *rest))
    if first.rstrip() == b"{" and (as_json := read_json(raw.decode(errors="replace"))) is not None:
        return LineEvent(line, raw, len(rest) + 1, as_json)
    text = "\n".join((parsed.message, *map(decode_line, rest[heads:])))
    return LineEvent(line, raw, len(rest) + 1, parsed._replace(message=text.rstrip("\n")))

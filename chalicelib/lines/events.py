"""From lines to events: a stack trace, a pretty-printed object and what is indented belong to the line that they follow.

A stack trace that follows a record below ERROR is an event of its own, of level ERROR.

An event depends on its own lines alone: where one begins, nothing that stood before it matters. So a log can be read from the border
of any two events, with the same format, and gives the same events as the whole log does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from chalicelib.lines.clock import Clock
from chalicelib.lines.fields import parse_json_with
from chalicelib.lines.formats import PLAIN, Format
from chalicelib.lines.layout import Parse
from chalicelib.lines.levels import ERROR, is_error
from chalicelib.lines.parsed import Parsed
from chalicelib.lines.text import INDENTATION, text_of

MAX_EVENT_LINES = 2000
MAX_EVENT_BYTES = 1_048_576
"""What would grow beyond begins an event of its own, and so does what follows a single line that is longer."""


_TRACE_BEGINS = (b"Traceback (most recent call last):", b"Traceback (most recent call last):\r")
_FOLLOWS = re.compile(
    rb"Traceback \(most recent call last\):"
    rb"|During handling of the above exception, another exception occurred:"
    rb"|The above exception was the direct cause of the following exception:"
    rb"|Exception in thread "
    rb"|Caused by: |Wrapped by: |Driver stacktrace:|\.\.\. [0-9]+ more"
    rb"|: (?:\w++\.)+\w++(?::|\s*$)"  # Java's exception as py4j tells it
    rb"|(?:[A-Za-z_$][\w$]*+\.)+[\w$]++(?:(?<=Exception)|(?<=Error)|(?<=Throwable)|(?<=Traceback))(?::|\s*$)"
    rb"|\(Background on this error at: |\[SQL: |\[parameters: "  # SQLAlchemy's
    rb"|\"\"\"\s*$"  # around the trace of another process
    rb"|[\])}]++[,;]?\s*$"
)
_TRACE = re.compile(rb"(?:  \+ Exception Group )?Traceback \(most recent call last\):|Exception in thread ")
_EXCEPTION = re.compile(rb"Caused by: |(?:[A-Za-z_$][\w$]*+\.)++[A-Z][\w$]*+(?::|\s*$)")
"""Java's, with its class: a trace where frames follow."""
FRAMES = (b"\tat ", b"\t... ")
_LOOK_BYTES = 1000
_OPENERS = frozenset({b"{", b"["})


class Event(NamedTuple):
    """Lines that belong together. ``line`` is the number of the first, ``raw`` their bytes, joined by newlines, without the last one.

    ``parsed`` is what the first line says; to its message the others are added, as text.
    """

    line: int
    raw: bytes
    lines: int
    parsed: Parsed

    @property
    def next_line(self) -> int:
        """The border behind it: reading can go on from there."""
        return self.line + self.lines


_NOTHING = Parsed(None, None, None, "")
_new: Callable[[type[Event], tuple[Any, ...]], Event] = tuple.__new__


def events(
    lines: Iterable[tuple[int, bytes]], format: Format = PLAIN, clock: Clock | None = None, *, final: bool = True
) -> Iterator[Event]:
    """The events of numbered lines, which come without their newlines. Their raw bytes, joined by newlines, are the lines'.

    The first line begins an event. Of a log that still grows (``final=False``) the last event is kept back, for it may go on: read
    again from the border behind the last one that came. Holds one event at a time: ``MAX_EVENT_BYTES``, or one longer line.
    """
    clock = clock or Clock()
    read, read_json = format.reader(clock), parse_json_with(clock)
    line, first, parsed = -1, b"", _NOTHING
    rest: list[bytes] = []
    size = 0
    for number, raw in lines:
        text = text_of(raw)
        found = read(text)
        if found is None:
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
                        yield _joined(line, first, rest, parsed, read_json) if rest else _new(Event, (line, first, 1, parsed))
                        line, first, rest = line + 1 + len(rest), exception, []
                        size, parsed = len(first), Parsed(None, ERROR, None, text_of(first))
                    elif parsed.level is None:
                        parsed = parsed._replace(level=ERROR)
                rest.append(raw)
                size += len(raw) + 1
                continue
            found = Parsed(None, ERROR if begins_trace(raw) else None, None, text)
        if rest:
            yield _joined(line, first, rest, parsed, read_json)
            rest = []
        elif line >= 0:
            yield _new(Event, (line, first, 1, parsed))
        line, first, parsed = number, raw, found
    if final and line >= 0:
        yield _joined(line, first, rest, parsed, read_json) if rest else Event(line, first, 1, parsed)


def carried(lines: Iterable[bytes], format: Format = PLAIN, clock: Clock | None = None) -> int:
    """How many of these lines may belong to an event that began before them: none, as a rule.

    Who reads a log from its middle leaves them out, and who reads what stands before reads them too: both see the events of the whole
    log, whatever the point where they meet. Looks at no more lines than it leaves out, and one.
    """
    read = format.reader(clock)
    count, uncertain, previous = 0, True, b""
    for raw in lines:
        indented = raw[:1] in INDENTATION
        if not indented and (read(text_of(raw)) is not None or not (uncertain or _follows(raw, previous))):
            break
        count, uncertain, previous = count + 1, indented or raw.endswith(_TRACE_BEGINS), raw
    return count


def _goes_on(raw: bytes, first: bytes, rest: Sequence[bytes]) -> bool:
    """Whether a line that no format knows belongs to the event of the lines before it."""
    return raw[:1] in INDENTATION or _is_in_trace(first, rest) or _follows(raw, rest[-1] if rest else first)


def begins_trace(raw: bytes) -> bool:
    """Whether a line begins a stack trace, whatever follows."""
    return _TRACE.match(raw) is not None


def is_exception_line(raw: bytes) -> bool:
    """Whether a line begins one of Java's where a frame follows."""
    return _EXCEPTION.match(raw, 0, _LOOK_BYTES) is not None


def _is_exception(first: bytes, rest: Sequence[bytes]) -> bool:
    """Whether the last line is Java's exception. A cause below frames belongs to the trace that they are of."""
    last = rest[-1] if rest else first
    if not is_exception_line(last):
        return False
    before = rest[-2] if len(rest) > 1 else first
    return not (rest and last.startswith(b"Caused by: ") and before.startswith(FRAMES))


def _is_in_trace(first: bytes, rest: Sequence[bytes]) -> bool:
    """Whether the exception itself, which is not indented, is still to come."""
    for raw in reversed(rest):
        if raw.endswith(_TRACE_BEGINS):
            return True
        if raw[:1] not in INDENTATION:
            return False
    return first.endswith(_TRACE_BEGINS)


def _follows(raw: bytes, previous: bytes) -> bool:
    """Whether a line that is not indented goes on with what the line before it began: a stack trace, or an object behind a colon."""
    if _FOLLOWS.match(raw, 0, _LOOK_BYTES) is not None:
        return True
    return raw[:1] in _OPENERS and raw.rstrip() in _OPENERS and previous.rstrip().endswith(b":")


def _joined(line: int, first: bytes, rest: Sequence[bytes], parsed: Parsed, read_json: Parse) -> Event:
    raw = b"\n".join((first, *rest))
    if first.rstrip() == b"{" and (whole := read_json(raw.decode(errors="replace"))) is not None:
        return Event(line, raw, len(rest) + 1, whole)
    text = "\n".join((parsed.message, *map(text_of, rest)))
    return Event(line, raw, len(rest) + 1, parsed._replace(message=text.rstrip("\n")))

"""Times that lines state themselves: of the ends of a piece of a log, and the first line from a time on, without reading all of it.

A line without a zone is of UTC. Times of day without a date, and dates without a year, are none here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from chalicelib.lines.clock import is_plausible
from chalicelib.lines.formats import ANY
from chalicelib.lines.layout import Parse
from chalicelib.lines.text import INDENTATION, text_of

MAX_PARSED_LINES = 16
"""So many lines are parsed at an end of a piece until one states a time."""
_MAX_LOOKED_LINES = 256
"""So many lines are looked at there, those among them that are indented."""
MAX_LOOKED_BYTES = 64 * 1024
"""So many bytes are. A longer line states none."""
_US_OF_A_MS = 1000


def first_and_last_ms(body: bytes, appended_ms: int) -> tuple[int, int] | None:
    """The times of the first and of the last line that state one, ms since the epoch; None where no line at either end does. A
    time that is not plausible counts as none."""
    read = ANY.reader()
    first = _first_ms(read, _looked_at(_forward(body)), appended_ms)
    last = _first_ms(read, _looked_at(_backward(body)), appended_ms)
    known = [each for each in (first, last) if each is not None]
    return (known[0], known[-1]) if known else None


def line_from(body: bytes, from_ms: int, appended_ms: int) -> int:
    """The first line that states ``from_ms`` or later, in lines that are in order of time; their number where none does. Parses
    ``MAX_PARSED_LINES`` for each halving."""
    lines, read = body.removesuffix(b"\n").split(b"\n"), ANY.reader()
    low, high = 0, len(lines)
    while low < high:
        middle = (low + high) // 2
        at, time_ms = _next_time(read, lines, middle, high, appended_ms)
        if time_ms is not None and time_ms < from_ms:
            low = at + 1
        else:
            high = middle
    return _next_time(read, lines, low, len(lines), appended_ms)[0]  # lines before it go on with a record that is earlier


def _next_time(read: Parse, lines: Sequence[bytes], start: int, end: int, appended_ms: int) -> tuple[int, int | None]:
    """The next line that states a time, and the time; ``start`` where none does."""
    for at in range(start, min(start + MAX_PARSED_LINES, end)):
        if (time_ms := _first_ms(read, _looked_at([lines[at]]), appended_ms)) is not None:
            return at, time_ms
    return start, None


def _first_ms(read: Parse, lines: Iterable[bytes], appended_ms: int) -> int | None:
    for line in lines:
        parsed = read(text_of(line))
        if parsed is not None and parsed.timestamp is not None and is_plausible(parsed.timestamp // _US_OF_A_MS, appended_ms):
            return parsed.timestamp // _US_OF_A_MS
    return None


def _looked_at(lines: Iterable[bytes]) -> Iterator[bytes]:
    parsed = looked_bytes = 0
    for line in islice(lines, _MAX_LOOKED_LINES):
        looked_bytes += len(line) + 1
        if looked_bytes > MAX_LOOKED_BYTES or parsed >= MAX_PARSED_LINES:
            return
        if line[:1] not in INDENTATION:
            parsed += 1
            yield line


def _forward(body: bytes) -> Iterator[bytes]:
    start = 0
    while start < len(body):
        end = body.find(b"\n", start)
        end = len(body) if end < 0 else end
        yield body[start : min(end, start + MAX_LOOKED_BYTES)]
        start = end + 1


def _backward(body: bytes) -> Iterator[bytes]:
    end = len(body) - body.endswith(b"\n")
    while end > 0:
        start = body.rfind(b"\n", 0, end) + 1
        yield body[max(start, end - MAX_LOOKED_BYTES) : end]
        end = start - 1

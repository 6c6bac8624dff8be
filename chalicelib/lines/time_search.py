"""Finds the first and last time in a piece of a log, and the first line at or after a time, without parsing all lines.

Times without a date, and dates without a year, are ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, tzinfo
from itertools import islice

from chalicelib.lines.formats import any_reader
from chalicelib.lines.layout import LineParser
from chalicelib.lines.text import certainly_continues, decode_line
from chalicelib.lines.timestamps import is_plausible

MAX_PARSED_LINES = 16
"""Lines parsed at one end of a piece, until one has a time."""
_MAX_LOOKED_LINES = 256
"""Lines read there, indented ones included."""
MAX_SCANNED_BYTES = 64 * 1024
"""Bytes read there. A longer line counts as one without a time."""
_US_OF_A_MS = 1000


def first_and_last_ms(body: bytes, appended_ms: int, zone: tzinfo = UTC) -> tuple[int, int] | None:
    """The first and the last time at the ends of a piece, ms since the epoch; None if neither end has one. Implausible times are
    ignored. ``zone``: of times without one."""
    read = any_reader(zone)
    first = _first_ms(read, _looked_at(_forward(body)), appended_ms)
    last = _first_ms(read, _looked_at(_backward(body)), appended_ms)
    known = [each for each in (first, last) if each is not None]
    return (known[0], known[-1]) if known else None


def first_line_at(body: bytes, from_ms: int, appended_ms: int, zone: tzinfo = UTC) -> int:
    """The index of the first line at ``from_ms`` or later, in lines ordered by time; the number of lines if there is none. Parses
    ``MAX_PARSED_LINES`` for each halving. ``zone``: of times without one."""
    lines, read = body.removesuffix(b"\n").split(b"\n"), any_reader(zone)
    low, high = 0, len(lines)
    while low < high:
        middle = (low + high) // 2
        at, time_ms = _next_time(read, lines, middle, high, appended_ms)
        if time_ms is not None and time_ms < from_ms:
            low = at + 1
        else:
            high = middle
    return _next_time(read, lines, low, len(lines), appended_ms)[0]  # lines before it continue an earlier record


def _next_time(read: LineParser, lines: Sequence[bytes], start: int, end: int, appended_ms: int) -> tuple[int, int | None]:
    """(index of the next line with a time, its time); (``start``, None) if there is none."""
    for at in range(start, min(start + MAX_PARSED_LINES, end)):
        if (time_ms := _first_ms(read, _looked_at([lines[at]]), appended_ms)) is not None:
            return at, time_ms
    return start, None


def _first_ms(read: LineParser, lines: Iterable[bytes], appended_ms: int) -> int | None:
    for line in lines:
        parsed = read(decode_line(line))
        if parsed is not None and parsed.timestamp is not None and is_plausible(parsed.timestamp // _US_OF_A_MS, appended_ms):
            return parsed.timestamp // _US_OF_A_MS
    return None


def _looked_at(lines: Iterable[bytes]) -> Iterator[bytes]:
    parsed = looked_bytes = 0
    for line in islice(lines, _MAX_LOOKED_LINES):
        looked_bytes += len(line) + 1
        if looked_bytes > MAX_SCANNED_BYTES or parsed >= MAX_PARSED_LINES:
            return
        if not certainly_continues(line):
            parsed += 1
            yield line


def _forward(body: bytes) -> Iterator[bytes]:
    start = 0
    while start < len(body):
        end = body.find(b"\n", start)
        end = len(body) if end < 0 else end
        yield body[start : min(end, start + MAX_SCANNED_BYTES)]
        start = end + 1


def _backward(body: bytes) -> Iterator[bytes]:
    end = len(body) - body.endswith(b"\n")
    while end > 0:
        start = body.rfind(b"\n", 0, end) + 1
        yield body[max(start, end - MAX_SCANNED_BYTES) : end]
        end = start - 1

"""Lines that came as plain text, lifted to events: id is the line's number, timestamp and level are what it says of itself, and what belongs
to it (a stack trace) is in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from chalicelib.events.event_view import EventView
from chalicelib.lines.events import events
from chalicelib.lines.format_detection import detect_format
from chalicelib.lines.formats import LogFormat

_US_OF_A_MS = 1000


def detect_log_format(sample: bytes) -> LogFormat:
    """The format of a run's lines, from those that it begins with."""
    return detect_format(sample.split(b"\n"))


def parse_lines(lines: Iterable[tuple[int, bytes]], format: LogFormat, *, final: bool) -> Iterator[EventView]:
    """Numbered lines as events. ``final`` False: the last one may go on, and is kept back. An event's message is its bytes as text."""
    for each in events(lines, format, final=final):
        timestamp = each.parsed.timestamp
        yield EventView(
            id=each.line,
            writer="",
            line=each.line,
            lines=each.lines,
            timestamp=None if timestamp is None else timestamp // _US_OF_A_MS,
            level=each.parsed.level,
            step=None,
            message=each.raw.decode(errors="replace"),
            data={},
            annotations=(),
            bytes=len(each.raw) + 1,
        )

"""Parses plain lines as events: the id is the line number, time and level come from the text, and continuation lines (a stack
trace) belong to the message."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import tzinfo

from chalicelib.events.event_view import EventView
from chalicelib.lines.events import events
from chalicelib.lines.format_detection import detect_format
from chalicelib.lines.formats import LogFormat
from chalicelib.lines.timestamps import TimestampParser

_US_OF_A_MS = 1000


def detect_log_format(sample: bytes) -> LogFormat:
    """The format of a run's lines, detected in its first lines."""
    return detect_format(sample.split(b"\n"))


def parse_lines(lines: Iterable[tuple[int, bytes]], format: LogFormat, zone: tzinfo, *, final: bool) -> Iterator[EventView]:
    """Numbered lines as events. ``zone``: of times without one. ``final`` False: the last event may still grow and is not returned. The
    message is the event's bytes decoded."""
    for each in events(lines, format, TimestampParser(zone), final=final):
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

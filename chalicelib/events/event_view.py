"""An event as readers get it, and the filter of events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from chalicelib.events.event import INJECTED, Event, Loggable, complete_data
from chalicelib.events.sidecar import Sidecar, SidecarEntry
from chalicelib.lines.errors import level_of_text
from chalicelib.lines.levels import ORDER, level_of_name

SEVERITIES = ORDER
"""Values of ``EventView.severity``, from the least severe."""


@dataclass(frozen=True, slots=True)
class EventView:
    """An event with its place in the log: ``lines`` lines from ``line`` on, ``bytes`` bytes with the newline. ``timestamp`` in ms;
    None for a plain line without a time."""

    id: int
    writer: str
    line: int
    lines: int
    timestamp: int | None
    level: str | None
    step: str | None
    message: str
    data: Mapping[str, JsonValue]
    annotations: Sequence[Mapping[str, JsonValue]]
    bytes: int

    @property
    def end_line(self) -> int:
        """The first line after the event."""
        return self.line + self.lines

    @property
    def answer_bytes(self) -> int:
        """An estimate of what it takes in an answer."""
        return self.bytes + len(str(self.data)) + len(str(self.annotations))

    @property
    def severity(self) -> str | None:
        """The standard name of the level (one of ``SEVERITIES``); None without a level."""
        return level_of_name(self.level) if self.level else None

    @property
    def has_data(self) -> bool:
        """Whether it has data beyond ``INJECTED``."""
        return not self.data.keys() <= INJECTED


def build_event_view(entry: SidecarEntry, sidecar: Sidecar, message: bytes, loggable: Loggable) -> EventView:
    """An event of a sidecar with its message and the mandatory data. Its level is the stated one, else the one found in the
    text."""
    stored_by = Loggable(sidecar.instance, loggable.loggable_type, loggable.loggable_id, loggable.job_id)
    return EventView(
        id=entry.line if entry.id is None else entry.id,
        writer=sidecar.writer,
        line=entry.line,
        lines=entry.lines,
        timestamp=entry.timestamp,
        level=entry.level or level_of_text(message),
        step=entry.step,
        message=message.decode(errors="replace"),
        data=complete_data(entry.data, stored_by, entry.step),
        annotations=entry.annotations,
        bytes=entry.bytes + 1,
    )


@dataclass(frozen=True, slots=True)
class EventFilter:
    """Selects events by step, by level in any spelling, by time (``from_ms`` included, ``to_ms`` excluded), and by a text in the
    message."""

    step: str | None = None
    level: str | None = None
    from_ms: int | None = None
    to_ms: int | None = None
    text: str = ""

    def matches(self, event: EventView | Event) -> bool:
        """Whether an event matches in all but its time (see ``matches_time``)."""
        if self.step is not None and event.step != self.step:
            return False
        if self.level is not None and _level(event.level) != _level(self.level):
            return False
        return self.text in event.message

    @property
    def has_time_bounds(self) -> bool:
        """Whether the filter restricts the time."""
        return self.from_ms is not None or self.to_ms is not None

    def matches_time(self, time_ms: int | None) -> bool:
        """Whether a time is within the bounds. An unknown time (None) is."""
        if time_ms is None:
            return True
        return (self.from_ms is None or time_ms >= self.from_ms) and (self.to_ms is None or time_ms < self.to_ms)


def _level(level: str | None) -> str | None:
    return level and (level_of_name(level) or level.upper())

"""An event as it is browsed, and which of them are wanted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from chalicelib.events.event import INJECTED, STEP_ID, Annotation, Event, Loggable
from chalicelib.events.sidecar import Sidecar, SidecarEntry
from chalicelib.lines.errors import level_of_text
from chalicelib.lines.levels import ORDER, level_of_name

SEVERITIES = ORDER
"""What ``ShownEvent.severity`` may be, from the least severe."""


@dataclass(frozen=True, slots=True)
class EventView:
    """``line`` and ``lines``: where its message stands; ``timestamp`` in ms, None where a plain line does not say. ``bytes`` of the log."""

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
        """The line behind it."""
        return self.line + self.lines

    @property
    def severity(self) -> str | None:
        """The standard name of the level (one of ``SEVERITIES``), None without one."""
        return level_of_name(self.level) if self.level else None

    def document(self) -> dict[str, JsonValue]:
        """As JSON has it."""
        names = ("id", "writer", "timestamp", "level", "step", "message")
        fields: dict[str, JsonValue] = {name: getattr(self, name) for name in names}
        return self.outline() | fields | {"data": dict(self.data), "annotations": [dict(each) for each in self.annotations]}

    def outline(self) -> dict[str, JsonValue]:
        """The fields that say how its lines are shown, without text. ``hasData``: whether it has data beyond ``INJECTED``."""
        has_data = not self.data.keys() <= INJECTED
        return {"line": self.line, "lines": self.lines, "severity": self.severity, "hasData": has_data}

    def event(self) -> Event:
        """Whole, as a browser gives it. A line without a time has time 0."""
        notes = tuple(Annotation.model_validate(dict(each)) for each in self.annotations)
        return Event(
            id=self.id,
            message=self.message,
            timestamp=max(self.timestamp or 0, 0),
            data=self.data,
            annotations=notes,
            level=self.level,
            writer=self.writer,
        )


def build_event_view(entry: SidecarEntry, sidecar: Sidecar, message: bytes, loggable: Loggable) -> EventView:
    """An event of a companion with its message, and the data that is mandatory. Its level is what its sender states, else what its text says."""
    mandatory = Loggable(sidecar.instance, loggable.loggable_type, loggable.loggable_id, loggable.job_id).mandatory_data(entry.step)
    return EventView(
        id=entry.line if entry.id is None else entry.id,
        writer=sidecar.writer,
        line=entry.line,
        lines=entry.lines,
        timestamp=entry.timestamp,
        level=entry.level or level_of_text(message),
        step=entry.step,
        message=message.decode(errors="replace"),
        data={**entry.data, **mandatory, **{name: entry.data[name] for name in entry.data if name != STEP_ID}},
        annotations=entry.annotations,
        bytes=entry.bytes + 1,
    )


@dataclass(frozen=True, slots=True)
class EventFilter:
    """Which events: of a step, of a level in any spelling, from a time on, before a time (ms, the end not included), with a text."""

    step: str | None = None
    level: str | None = None
    from_ms: int | None = None
    to_ms: int | None = None
    text: str = ""

    def matches(self, event: EventView) -> bool:
        """Whether an event is wanted, if its time is (see ``matches_time``)."""
        if self.step is not None and event.step != self.step:
            return False
        if self.level is not None and _level(event.level) != _level(self.level):
            return False
        return self.text in event.message

    @property
    def has_time_bounds(self) -> bool:
        """Whether it matters when an event was."""
        return self.from_ms is not None or self.to_ms is not None

    def matches_time(self, time_ms: int | None) -> bool:
        """Whether a time is wanted. An event of which none is known is not left out."""
        if time_ms is None:
            return True
        return (self.from_ms is None or time_ms >= self.from_ms) and (self.to_ms is None or time_ms < self.to_ms)


def _level(level: str | None) -> str | None:
    return level and (level_of_name(level) or level.upper())

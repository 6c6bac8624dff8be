"""An event as it is browsed, and which of them are wanted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from chalicelib.events.companion import Companion, Noted
from chalicelib.events.event import INJECTED, STEP_ID, Annotation, Event, Loggable
from chalicelib.lines.errors import level_of_text
from chalicelib.lines.levels import ORDER, level_of_name

SEVERITIES = ORDER
"""What ``ShownEvent.severity`` may be, from the least severe."""


@dataclass(frozen=True, slots=True)
class ShownEvent:
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
        told: dict[str, JsonValue] = {name: getattr(self, name) for name in names}
        return self.outline() | told | {"data": dict(self.data), "annotations": [dict(each) for each in self.annotations]}

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


def shown(noted: Noted, companion: Companion, message: bytes, loggable: Loggable) -> ShownEvent:
    """An event of a companion with its message, and the data that is mandatory. Its level is what its sender states, else what its text says."""
    mandatory = Loggable(companion.instance, loggable.loggable_type, loggable.loggable_id, loggable.job_id).mandatory_data(
        noted.step
    )
    return ShownEvent(
        id=noted.line if noted.id is None else noted.id,
        writer=companion.writer,
        line=noted.line,
        lines=noted.lines,
        timestamp=noted.timestamp,
        level=noted.level or level_of_text(message),
        step=noted.step,
        message=message.decode(errors="replace"),
        data={**noted.data, **mandatory, **{name: noted.data[name] for name in noted.data if name != STEP_ID}},
        annotations=noted.annotations,
        bytes=noted.bytes + 1,
    )


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which events: of a step, of a level in any spelling, from a time on, before a time (ms, the end not included), with a text."""

    step: str | None = None
    level: str | None = None
    from_ms: int | None = None
    to_ms: int | None = None
    text: str = ""

    def has(self, event: ShownEvent) -> bool:
        """Whether an event is wanted, if its time is (see ``is_in_time``)."""
        if self.step is not None and event.step != self.step:
            return False
        if self.level is not None and _level(event.level) != _level(self.level):
            return False
        return self.text in event.message

    @property
    def is_timed(self) -> bool:
        """Whether it matters when an event was."""
        return self.from_ms is not None or self.to_ms is not None

    def is_in_time(self, time_ms: int | None) -> bool:
        """Whether a time is wanted. An event of which none is known is not left out."""
        if time_ms is None:
            return True
        return (self.from_ms is None or time_ms >= self.from_ms) and (self.to_ms is None or time_ms < self.to_ms)


def _level(level: str | None) -> str | None:
    return level and (level_of_name(level) or level.upper())

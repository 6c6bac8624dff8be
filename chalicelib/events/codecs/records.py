"""Converts objects with fields, which most agents send, to events and back: finds the fields of message, time and level.

A field that became part of the event unchanged (the message; a level or a time already in our form) is not repeated in the data; a
field that was converted (``"warn"`` to WARNING, ISO 8601 to milliseconds) stays there as sent. Fields for Runlake are in an object
``runlake``, or named ``runlake.…``: ``fqn``, ``run_id``, ``step``, ``writer``, ``id``, ``annotations``, ``outcome``, ``exit_code``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chalicelib.events.codecs.items import Decoded, marked
from chalicelib.events.codecs.json_text import NotJson, compact
from chalicelib.events.event import NewEvent
from chalicelib.events.fields import MISSING, at
from chalicelib.events.stated_end import data_of_end
from chalicelib.lines.levels import LEVELS, level_of_number, level_of_word
from chalicelib.lines.timestamps import TimestampParser

MESSAGES = ("message", "log", "msg", "short_message", "MESSAGE", "@message", "body", "text")
TIMES = ("@timestamp", "timestamp", "time", "date", "ts", "ISODATE", "timereported", "eventTime", "timeMillis", "created")
LEVEL_NAMES = ("level", "log.level", "severity", "levelname", "lvl", "loglevel", "log_level", "PRIORITY", "severity_text")
OWN = "runlake"
_OWN_PREFIX = "runlake."
_NS_OF_MS = 1_000_000
_US_OF_MS = 1000
Own = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Moment:
    """A time: ``ms`` since the epoch; ``is_fine``: the agent sent a finer time."""

    ms: int | None = None
    is_fine: bool = False

    @classmethod
    def of_ns(cls, ns: int) -> Moment:
        """Nanoseconds since the epoch; 0 means no time."""
        return cls(ns // _NS_OF_MS, ns % _NS_OF_MS != 0) if ns > 0 else cls()


def decoded(index: int, record: Any, clock: TimestampParser, sources: Mapping[str, Any], moment: Moment | None = None) -> Decoded:
    """Decode a record with fields, or a text. ``moment``: the agent's time for the record; None: taken from a field. Raises ValueError,
    TypeError."""
    if isinstance(record, NotJson):
        return marked(decoded(index, record.text, clock, sources, moment), "record")
    if isinstance(record, str):
        moment = moment or Moment()
        return Decoded(index, NewEvent(message=line_of(record), timestamp=moment.ms), sources, None, moment.is_fine)
    if not isinstance(record, dict):
        raise ValueError(f"a record must be an object type={type(record).__name__}")
    if not record:
        raise ValueError("the record is empty")
    own, data = split_own(record)
    moment = moment or _time(data, clock)
    level, message = _level(data), _message(data)
    event = new_event(message, moment, level, data, own)
    return Decoded(index, event, {**sources, "record": record}, writer_of(own), moment.is_fine)


def new_event(message: str, moment: Moment, level: str | None, data: Mapping[str, Any], own: Own) -> NewEvent:
    """An event with the record's Runlake fields. Raises ValueError, ValidationError, TypeError."""
    step, number, notes = own.get("step"), own.get("id"), own.get("annotations")
    data = {**data, **data_of_end(own.get("outcome"), own.get("exit_code"))}
    fields: dict[str, Any] = {"message": message, "timestamp": moment.ms, "level": level, "data": data}
    if step is not None:
        fields["step"] = step
    if number is not None:
        fields["id"] = number
    if notes is not None:
        fields["annotations"] = tuple(notes)
    return NewEvent(**fields)


def split_own(record: Mapping[str, Any]) -> tuple[Own, dict[str, Any]]:
    """The Runlake fields, and a copy of the other fields."""
    data = dict(record)
    nested = data.get(OWN)
    own = dict(data.pop(OWN)) if isinstance(nested, dict) else {}
    for name in [name for name in record if name.startswith(_OWN_PREFIX)]:
        own[name[len(_OWN_PREFIX) :]] = data.pop(name)
    return own, data


def writer_of(own: Own) -> str | None:
    """The writer that numbers the event. Raises ValueError."""
    writer = own.get("writer")
    if writer is not None and (not isinstance(writer, str) or not writer):
        raise ValueError("runlake.writer must be a non-empty string")
    return writer


def level_of(value: Any) -> str | None:
    """The level for an agent's word or syslog number."""
    if isinstance(value, str):
        word = value.strip()
        return LEVELS.get(word) or (level_of_number(int(word)) if word.isdecimal() and len(word) < 3 else level_of_word(word))
    return level_of_number(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def line_of(text: str) -> str:
    """A text without its line's end, which would add an empty line to the log."""
    return text.rstrip("\r\n") if text.endswith("\n") else text


def _message(data: dict[str, Any]) -> str:
    for name in MESSAGES:
        value = data.get(name)
        if isinstance(value, str):
            del data[name]
            return line_of(value)
    return compact(data)


def _level(data: dict[str, Any]) -> str | None:
    for name in LEVEL_NAMES:
        value = data[name] if name in data else at(data, name) if "." in name else MISSING
        if value is not MISSING and (level := level_of(value)) is not None:
            if data.get(name) == level:
                del data[name]
            return level
    return None


def _time(data: dict[str, Any], clock: TimestampParser) -> Moment:
    for name in TIMES:
        if name not in data:
            continue
        value = data[name]
        us = _us(value, clock)
        if us is not None and us >= 0:
            if type(value) is int and value * _US_OF_MS == us:
                del data[name]
            return Moment(us // _US_OF_MS, us % _US_OF_MS != 0)
    return Moment()


def _us(value: Any, clock: TimestampParser) -> int | None:
    if isinstance(value, str):
        return clock.parse_text(value)
    return clock.parse_number(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def record_of(event: NewEvent, time_name: str = "@timestamp") -> dict[str, Any]:
    """An event as a record that ``decoded`` reads."""
    record: dict[str, Any] = dict(event.data)
    record["message"] = event.message
    if event.timestamp is not None:
        record[time_name] = event.timestamp
    if event.level is not None:
        record["level"] = event.level
    if own := own_of(event):
        record[OWN] = own
    return record


def own_of(event: NewEvent) -> dict[str, Any]:
    """The Runlake fields of an event, which no agent's format has."""
    fields = {"step": event.step, "id": event.id, "annotations": [each.model_dump() for each in event.annotations] or None}
    return {name: value for name, value in fields.items() if value is not None}

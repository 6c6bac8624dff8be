"""Converts objects with fields, which most agents send, to events and back. Which fields hold message, time and level is in ``lines.field_names``.

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
from chalicelib.events.stated_end import data_of_end
from chalicelib.lines.field_names import READINGS, Reading, lift
from chalicelib.lines.fields import first_text, nanos_of, number_level, time_of, word_level
from chalicelib.lines.levels import LEVELS
from chalicelib.lines.timestamps import TimestampParser

OWN = "runlake"
_OWN_PREFIX = "runlake."
_NESTED = frozenset({dict, list})
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
    names = (*data, "time") if moment and "time" not in data else tuple(data)  # the agent may have moved the time out of the record
    fields, reading = data, READINGS[names]
    for part in reading.parts:
        if type(data.get(part)) in _NESTED:
            fields = dict.fromkeys(names) | data
            reading = lift(fields, reading)
            break
    moment = moment or _time(data, fields, reading, clock)
    level, message = _level(data, fields, reading, moment.ms is not None), _message(data, fields, reading)
    event = new_event(message, moment, level, data, own)
    return Decoded(index, event, {**sources, "record": record}, writer_of(own), moment.is_fine)


def new_event(message: str, moment: Moment, level: str | None, data: Mapping[str, Any], own: Own) -> NewEvent:
    """An event with the record's Runlake fields. Raises ValueError, ValidationError, TypeError."""
    fields: dict[str, Any] = {"message": message, "timestamp": moment.ms, "level": level, "data": data}
    if not own:
        return NewEvent(**fields)
    step, number, notes = own.get("step"), own.get("id"), own.get("annotations")
    fields["data"] = {**data, **data_of_end(own.get("outcome"), own.get("exit_code"))}
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
    if OWN not in record and _OWN_PREFIX not in " ".join(record):
        return {}, data
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


def line_of(text: str) -> str:
    """A text without its line's end, which would add an empty line to the log."""
    return text.rstrip("\r\n") if text.endswith("\n") else text


def _message(data: dict[str, Any], fields: Mapping[str, Any], reading: Reading) -> str:
    for name in reading.texts:
        value = fields[name]
        if (text := value if isinstance(value, str) else first_text(fields, (name,))) is not None:
            data.pop(name, None)
            return line_of(text)
    return compact(data)


def _level(data: dict[str, Any], fields: Mapping[str, Any], reading: Reading, has_time: bool) -> str | None:
    for name in reading.words:
        value = fields[name]
        if level := (LEVELS.get(value) if isinstance(value, str) else None) or word_level(value, has_letters=bool(reading.times)):
            if data.get(name) == level:
                del data[name]
            return level
    return number_level(fields, reading, has_time) if reading.numbers else reading.level


def _time(data: dict[str, Any], fields: Mapping[str, Any], reading: Reading, clock: TimestampParser) -> Moment:
    for name in reading.times:
        value = fields[name]
        us = clock.parse_text(value) if isinstance(value, str) else time_of(value, clock)
        if us is not None and us >= 0:
            us += nanos_of(fields) // 1000 if reading.has_nanos else 0
            if type(value) is int and value * _US_OF_MS == us:
                data.pop(name, None)
            return Moment(us // _US_OF_MS, us % _US_OF_MS != 0)
    return Moment()


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

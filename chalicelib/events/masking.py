"""Masks secrets in the step, level, data and annotations of events; ``events.batch`` masks the messages of a batch together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from chalicelib.errors import InvalidEventError
from chalicelib.events.event import NewEvent
from chalicelib.events.names import checked_name
from chalicelib.masking.fields import FieldMask
from chalicelib.masking.shapes import CONFIGURED, MARKERS

_SHORT_CHARS = 256


def details(event: NewEvent) -> list[object]:
    """The parts of an event that are masked field by field: all but the message."""
    return [event.level, event.step, event.data, *(each.note for each in event.annotations)]


@dataclass(frozen=True, slots=True)
class _Field:
    """A field of an event's data, its masked value and the secrets in it."""

    value: object
    masked: object
    counts: Counter[str]


class BatchMask:
    """Masks all but the messages of a batch's events in order. A field whose value is the same object as in the event before is
    masked once."""

    def __init__(self, fields: FieldMask) -> None:
        self._fields = fields
        self._known: dict[str, _Field] = {}

    def masked(self, event: NewEvent) -> NewEvent:
        """The event without secrets."""
        return masked_details(event, self._fields, self._value) if self._concerns(event) else event

    def _concerns(self, event: NewEvent) -> bool:
        known = {name: field for name, value in event.data.items() if (field := self._find(name, value))}
        if any(field.counts for field in known.values()):
            return True
        rest = {name: value for name, value in event.data.items() if name not in known}
        return self._fields.has_secrets(details(event.model_copy(update={"data": rest}) if known else event))

    def _value(self, value: object, name: str) -> object:
        if not isinstance(value, Mapping) and not (isinstance(value, str) and len(value) > _SHORT_CHARS):
            return self._fields.value(value, name)
        if field := self._find(name, value):
            self._fields.counts.update(field.counts)
            return field.masked
        before = self._fields.counts.copy()
        masked = self._fields.value(value, name)
        self._known[name] = _Field(value, masked, self._fields.counts - before)
        return masked

    def _find(self, name: str, value: object) -> _Field | None:
        field = self._known.get(name)
        return field if field and field.value is value else None


def masked_details(event: NewEvent, fields: FieldMask, mask_value: Callable[[object, str], object] | None = None) -> NewEvent:
    """The event with all but its message masked. A masked name that is too long is replaced by the marker."""
    changes = {
        "step": None if event.step is None else masked_step(event.step, fields),
        "level": None if event.level is None else fields.text(event.level),
        "data": fields.masked_object(event.data, mask_value or fields.value),
        "annotations": tuple(each.model_copy(update={"note": fields.value(each.note)}) for each in event.annotations),
    }
    return event.model_copy(update=changes)


def masked_step(name: str, fields: FieldMask) -> str:
    """The name of a step without secrets."""
    masked = fields.text(name)
    if masked == name:
        return name
    try:
        return checked_name("step", masked)
    except InvalidEventError:
        return MARKERS[CONFIGURED].decode()

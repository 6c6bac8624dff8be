"""Masks secrets in events: message, step, level, writer, data and annotations.

Data that repeats the loggable's own names is not masked: a name with a configured value is rejected earlier
(``Masker.check_names``). The same fields with other values are masked like any data.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeVar

from chalicelib.errors import InvalidEventError
from chalicelib.events.event import Event, Loggable, NewEvent
from chalicelib.events.names import checked_name
from chalicelib.masking.fields import FieldMask, Mask
from chalicelib.masking.offsets import OffsetMap
from chalicelib.masking.shapes import CONFIGURED, MARKERS

AnEvent = TypeVar("AnEvent", Event, NewEvent)
_SHORT_CHARS = 256
_NOTHING: Mapping[str, object] = MappingProxyType({})


def masked_event(event: Event, loggable: Loggable, mask: Mask) -> tuple[Event, Mapping[str, int]]:
    """The event without secrets, and the number of secrets by pattern; the same object if it had none.

    Annotations keep their place in the text; one within a secret moves to its start. Raises UnavailableError if a configured value
    cannot be read: then no event may be sent.
    """
    message, fields = mask(event.message.encode(errors="replace")), FieldMask(mask)
    own = loggable.mandatory_data()
    fields.counts.update(message.counts)
    masked = event
    if message.counts:
        positions = [each.position for each in event.annotations]
        places = OffsetMap(message.edits).map_positions(positions, event.message, message.body)
        annotations = [each.model_copy(update={"position": at}) for each, at in zip(event.annotations, places, strict=True)]
        masked = event.model_copy(update={"message": message.body.decode(errors="replace"), "annotations": tuple(annotations)})
    if fields.has_secrets(details(event, own)):
        masked = masked_details(masked, fields, own=own)
    return (masked, dict(fields.counts)) if fields.counts else (event, {})


def details(event: Event | NewEvent, own: Mapping[str, object] = _NOTHING) -> list[object]:
    """The parts of an event that are masked field by field: all but the message. ``own``: the loggable's names, if the data still
    has them."""
    names = [event.level, event.step, event.writer if isinstance(event, Event) else None]
    return [
        *names,
        _not_own(event.data, own),
        *(each.note for each in event.annotations),
    ]


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


def masked_details(
    event: AnEvent,
    fields: FieldMask,
    mask_value: Callable[[object, str], object] | None = None,
    own: Mapping[str, object] = _NOTHING,
) -> AnEvent:
    """The event with all but its message masked. A masked name that is too long is replaced by the marker."""
    rest = _not_own(event.data, own)
    kept = {name: value for name, value in event.data.items() if name not in rest}
    masked = fields.masked_object(rest, mask_value or fields.value)
    changes: dict[str, object] = {
        "level": None if event.level is None else fields.text(event.level),
        "data": {**kept, **masked},
        "annotations": tuple(each.model_copy(update={"note": fields.value(each.note)}) for each in event.annotations),
    }
    if isinstance(event, NewEvent):
        changes["step"] = None if event.step is None else masked_name("step", event.step, fields)
    else:
        changes["writer"] = event.writer and masked_name("writer", event.writer, fields)
    return event.model_copy(update=changes)


def _not_own(data: Mapping[str, object], own: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in data.items() if name not in own or own[name] != value}


def masked_name(what: str, name: str, fields: FieldMask) -> str:
    """The name of a step or writer without secrets."""
    masked = fields.text(name)
    if masked == name:
        return name
    try:
        return checked_name(what, masked)
    except InvalidEventError:
        return MARKERS[CONFIGURED].decode()

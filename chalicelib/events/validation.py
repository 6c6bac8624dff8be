"""Validates events on entry, so that one invalid event never fails its batch.

Error messages never repeat input: it may contain secrets, and messages appear in responses and logs.
"""

from __future__ import annotations

import json

from chalicelib.errors import InvalidEventError
from chalicelib.events.event import INSTANCE_ID, MANDATORY, MAX_LEVEL_CHARS, STEP_ID, Loggable, NewEvent
from chalicelib.events.names import checked_name
from chalicelib.lines.levels import ORDER, level_of_name

MAX_DETAILS_BYTES = 64 * 1024
"""An event's data and annotations as JSON."""


def measured_event(event: NewEvent, loggable: Loggable) -> tuple[NewEvent, int]:
    """The event with its step only in ``step``, and without data that the loggable implies; and the bytes of its data and annotations.
    Raises InvalidEventError."""
    if event.level is not None:
        checked_level(event.level)
    if any(annotation.position > len(event.message) for annotation in event.annotations):
        raise InvalidEventError(f"an annotation's position is after the message's end length={len(event.message)}")
    own = loggable.mandatory_data()
    for name in (name for name in MANDATORY if name != INSTANCE_ID and name in event.data):
        if event.data[name] != own.get(name):
            raise InvalidEventError(f"an event's data name another run field={name}")
    step = _step(event)
    rest = {name: value for name, value in event.data.items() if name != STEP_ID and (name not in own or own[name] != value)}
    checked = event.model_copy(update={"step": step, "data": rest})
    details_bytes = _details_bytes(checked)
    if details_bytes > MAX_DETAILS_BYTES:
        raise InvalidEventError(f"an event's data and annotations are too large limit={MAX_DETAILS_BYTES}")
    return checked, details_bytes


def checked_level(name: str) -> str:
    """A level's name, in an event or a query. Raises InvalidEventError."""
    if len(name) > MAX_LEVEL_CHARS or level_of_name(name) is None:
        raise InvalidEventError(f"level must be one of {', '.join(ORDER)}, or a usual other name of one of them")
    return name


def _step(event: NewEvent) -> str | None:
    step = event.data.get(STEP_ID, event.step)
    if event.step is not None and step != event.step:
        raise InvalidEventError(f"an event names two different steps, in step and data.{STEP_ID}")
    if step is None:
        return None
    if not isinstance(step, str):
        raise InvalidEventError(f"data.{STEP_ID} must be a string")
    return checked_name("step", step)


def _details_bytes(event: NewEvent) -> int:
    try:
        return len(json.dumps([dict(event.data), [each.model_dump() for each in event.annotations]], allow_nan=False))
    except (ValueError, TypeError) as error:
        raise InvalidEventError("an event's data must be JSON, without NaN and infinities") from error

"""An item of a decoded body: an event with fields for routing, or a refusal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from pydantic import ValidationError

from chalicelib.events.event import NewEvent, invalid_field
from chalicelib.events.ports import Refused

T = TypeVar("T")
MAX_REASON_CHARS = 300
UNREAD = "runlake.unread"
"""Name in an event's data: the optional parts of its record that could not be read. Their values are in the data as sent, or in the message."""
DECODE_ERRORS = (ValueError, TypeError, OverflowError, RecursionError)
"""Exceptions from decoding an invalid value."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """An event, and the values that routing rules use to find its run.

    ``sources``: values by name: ``record``, ``attributes``, ``resource``, ``common`` are objects; ``tag``, ``index``,
    ``log_group``, ``log_stream``, ``id`` are texts. ``writer``: the writer that numbers the event. ``is_unique``: no other event
    can be equal, because the agent sent an id or a time finer than milliseconds. ``shared_bytes``: the size (``weight``) of its
    data that other items share and the body has once. ``parts``: indexes of further records whose text is in this event.
    """

    index: int
    event: NewEvent
    sources: Mapping[str, Any] = field(default_factory=dict)
    writer: str | None = None
    is_unique: bool = False
    shared_bytes: int = 0
    parts: tuple[int, ...] = ()


Item = Decoded | Refused


def decoded_each(values: Iterable[T | Refused], decode: Callable[[int, T], Decoded], first: int = 0) -> Iterator[Item]:
    """An item for each value; a value that cannot be decoded is refused with a reason. Refusals among the values are passed on."""
    for index, value in enumerate(values, first):
        if isinstance(value, Refused):
            yield Refused(index, value.reason, value.retryable)
            continue
        try:
            yield decode(index, value)
        except DECODE_ERRORS as error:
            yield Refused(index, reason_of(error))


def marked(item: Decoded, part: str, value: Any = None) -> Decoded:
    """The item with the mark of an unread part, and its value as sent, unless a field has this name."""
    sent = {} if value is None else {part: value}
    return replace(item, event=item.event.model_copy(update={"data": {**sent, **item.event.data, UNREAD: [part]}}))


def with_shared(event: NewEvent, shared: Mapping[str, Any]) -> NewEvent:
    """The event with validated fields that several items share in its data: referenced, not copied."""
    return event.model_copy(update={"data": {**event.data, **shared}}) if shared else event


def reason_of(error: Exception) -> str:
    """A short reason without input, which may contain secrets."""
    if isinstance(error, ValidationError):
        wrong = error.errors(include_url=False, include_input=False, include_context=False)[0]
        return f"invalid event: {wrong['msg'].lower()} field={invalid_field(error)}"[:MAX_REASON_CHARS]
    if isinstance(error, RecursionError):
        return "the item is nested too deeply"
    return str(error)[:MAX_REASON_CHARS] or type(error).__name__

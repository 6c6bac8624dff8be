"""An item of a body: an event with what is known about it, or why it is none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import ValidationError

from chalicelib.events.event import NewEvent, invalid_field
from chalicelib.events.ports import Refused

T = TypeVar("T")
MAX_REASON_CHARS = 300
DECODE_ERRORS = (ValueError, TypeError, OverflowError, RecursionError)
"""What reading a value that makes no sense may raise."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """An event, and what a rule may look at to tell its run.

    ``sources``: sources by name: ``record``, ``attributes``, ``resource``, ``common`` hold fields; ``tag``, ``index``, ``log_group``,
    ``log_stream``, ``id`` are texts. ``writer``: who counts the event's id. ``is_unique``: no other event could look the
    same: the agent gave it an id, or a time finer than milliseconds. ``shared_bytes``: how much (``weight``) of its data it shares with other
    items of the body, which has it once.
    """

    index: int
    event: NewEvent
    sources: Mapping[str, Any] = field(default_factory=dict)
    writer: str | None = None
    is_unique: bool = False
    shared_bytes: int = 0


Item = Decoded | Refused


def decoded_each(values: Iterable[T | Refused], decode: Callable[[int, T], Decoded], first: int = 0) -> Iterator[Item]:
    """An item for each value: what cannot be decoded is refused, and told why. Refusals among the values stay refusals."""
    for index, value in enumerate(values, first):
        if isinstance(value, Refused):
            yield Refused(index, value.reason, value.retryable)
            continue
        try:
            yield decode(index, value)
        except DECODE_ERRORS as error:
            yield Refused(index, reason_of(error))


def with_shared(event: NewEvent, shared: Mapping[str, Any]) -> NewEvent:
    """An event that has sound fields of several items in its data too: they are referred to, not copied."""
    return event.model_copy(update={"data": {**event.data, **shared}}) if shared else event


def reason_of(error: Exception) -> str:
    """What is wrong, short, without what was sent: it may hold secrets."""
    if isinstance(error, ValidationError):
        wrong = error.errors(include_url=False, include_input=False, include_context=False)[0]
        return f"the event does not hold: {wrong['msg'].lower()} field={invalid_field(error)}"[:MAX_REASON_CHARS]
    if isinstance(error, RecursionError):
        return "the item is nested too deeply"
    return str(error)[:MAX_REASON_CHARS] or type(error).__name__

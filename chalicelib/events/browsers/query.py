"""Queries of the events of one loggable in another store, in the order of (timestamp, writer, id).

A position is opaque to callers: base64 of a JSON list, which names an event by values that the store sorts by. So it stays valid while
the log grows, and in another process.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import dataclass

from chalicelib.errors import InvalidCursorError
from chalicelib.events.event import Event
from chalicelib.events.event_view import EventFilter

MAX_POSITION_CHARS = 4_000
EVERY_EVENT = EventFilter()
SortValue = int | str | None


@dataclass(frozen=True, slots=True)
class EventQuery:
    """The events after a position (None: from the beginning). A store may ignore ``event_filter``, which the browser applies too.
    ``limit``: events of the answer. ``is_keys_only``: messages may be left out."""

    event_filter: EventFilter = EVERY_EVENT
    after: str | None = None
    limit: int = 500
    is_keys_only: bool = False


@dataclass(frozen=True, slots=True)
class EventHit:
    """An event and the position after it."""

    event: Event
    position: str


@dataclass(frozen=True, slots=True)
class EventHits:
    """An answer. ``after``: the position after all events that the store read for it; None: it read none. ``has_more``: events may
    follow ``after``."""

    hits: Sequence[EventHit]
    after: str | None
    has_more: bool


def encode_position(values: Sequence[SortValue]) -> str:
    """The position after the event with these values."""
    return urlsafe_b64encode(json.dumps(values, separators=(",", ":")).encode()).decode()


def decode_position(position: str, kinds: Sequence[type]) -> list[SortValue]:
    """The values of a position, one of each kind. Raises InvalidCursorError."""
    try:
        if len(position) <= MAX_POSITION_CHARS:
            values = json.loads(urlsafe_b64decode(position.encode("ascii")))
            if isinstance(values, list) and [type(value) for value in values] == list(kinds):
                return values
    except (ValueError, RecursionError):
        pass
    raise InvalidCursorError("not a position in the log of another store")

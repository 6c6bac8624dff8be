"""Forwards the events of one run, finished or live, in order from a position on, for the command ``runlake forward``. The position is
saved once all events before it are settled.

After a crash or an outage of the target nothing is lost: the next call continues from the saved position, and sends unsettled
events again.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from chalicelib.errors import InvalidInputError
from chalicelib.events.event import Event
from chalicelib.events.forwarding import Forwarder
from chalicelib.ports import Clock

POLL_S = 2.0

_PAGE_EVENTS = 1_000
Get = Callable[[str, Mapping[str, str]], Any]
"""Reads a path below a run's events and returns its JSON."""
Save = Callable[[str], None]
"""Stores a position durably."""


@dataclass(frozen=True, slots=True)
class EventBatch:
    """Consecutive events of a log, and the position after them."""

    events: Sequence[Event]
    position: str


class EventSource(Protocol):
    """Reads the events of a run."""

    def pages(self, position: str | None) -> Iterator[EventBatch]:
        """Batches from a position on (None: the beginning) up to the current end of the log."""

    def is_complete(self) -> bool:
        """Whether no event can follow those that are readable after this call."""


def forward(source: EventSource, forwarder: Forwarder, position: str | None = None, save: Save = lambda _: None) -> str | None:
    """Send the events after a position, and return the position after them. Raises UnavailableError: continue from the saved
    position, with the same forwarder or another. Events that an earlier call left in the forwarder go first, so the target may get
    them twice.

    A line without a time (0) gets the time of the event before it, else of the first event after it that has one, else the current
    time: targets refuse old events.
    """
    unsaved: deque[tuple[int, str]] = deque()
    added = forwarder.added
    last_ms = 0

    def settle() -> None:
        nonlocal position
        reached = None
        while unsaved and unsaved[0][0] <= forwarder.done:
            _, reached = unsaved.popleft()
        if reached is not None:
            save(reached)
            position = reached

    for page in source.pages(position):
        last_ms = last_ms or next((event.timestamp for event in page.events if event.timestamp), 0) or forwarder.clock.now_ms()
        for event in page.events:
            last_ms = event.timestamp or last_ms
            forwarder.add(event if event.timestamp else event.model_copy(update={"timestamp": last_ms}))
        added += len(page.events)
        unsaved.append((added, page.position))
        settle()
    forwarder.flush()
    settle()
    return position


def follow(
    source: EventSource,
    forwarder: Forwarder,
    clock: Clock,
    position: str | None = None,
    save: Save = lambda _: None,
    poll_s: float = POLL_S,
) -> str | None:
    """``forward`` until the log is complete, for a live run. Returns the last position."""
    while True:
        is_last = source.is_complete()
        position = forward(source, forwarder, position, save)
        if is_last:
            return position
        clock.sleep(poll_s)


class ApiSource:
    """Events of a run over HTTP. A position is a cursor of the API and the number of events behind it that were already read: the
    last page of a log has no cursor for its end."""

    def __init__(self, get: Get) -> None:
        self._get = get

    def pages(self, position: str | None) -> Iterator[EventBatch]:
        """See ``EventSource``. Raises InvalidInputError for a position of another kind."""
        skip, after = _read_position(position)
        while True:
            answer = self._get("", {"limit": str(_PAGE_EVENTS)} | ({"after": after} if after else {}))
            events, behind = [event_of(each) for each in answer["events"]], answer["after"]
            is_last = behind is None or behind == after
            yield EventBatch(events[skip:], _position(max(len(events), skip), after) if is_last else _position(0, behind))
            if is_last:
                return
            skip, after = 0, behind

    def is_complete(self) -> bool:
        """See ``EventSource``: true if the events are complete, or lost, which is final too."""
        return bool(self._get("/completeness", {})["state"] != "pending")


def event_of(document: Mapping[str, Any]) -> Event:
    """Converts an event of the API. A line without a timestamp gets time 0."""
    names = ("id", "message", "timestamp", "data", "annotations", "level", "writer")
    fields = {name: document[name] for name in names if document.get(name) is not None}
    return Event.model_validate_json(json.dumps({"timestamp": 0, **fields}))


def _position(skip: int, after: str | None) -> str:
    return f"{skip}:{after or ''}"


def _read_position(position: str | None) -> tuple[int, str | None]:
    skip, _, after = (position or "0:").partition(":")
    if not (skip.isascii() and skip.isdigit()):
        raise InvalidInputError("not a position of this command")
    return int(skip), after or None

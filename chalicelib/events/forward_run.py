"""Forwarding the events of a run, finished or live: read in order from a position on, which is saved when everything before it is settled.

A crash, or a target that is away, loses nothing: the next time begins at what was saved, and sends what was under way again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

from chalicelib.events.event import Event
from chalicelib.events.forwarding import Forwarder
from chalicelib.ports import Clock

POLL_S = 2.0
_PAGE_EVENTS = 1_000

Save = Callable[[str], None]
"""Keeps a position, durably."""


@dataclass(frozen=True, slots=True)
class EventBatch:
    """Events that follow one another in the log, and the position behind them."""

    events: Sequence[Event]
    position: str


class EventSource(Protocol):
    """Where a run's events are read."""

    def pages(self, position: str | None) -> Iterator[EventBatch]:
        """From a position on (None: the beginning) to where the log ends now."""

    def is_complete(self) -> bool:
        """Whether nothing will ever follow what can be read after this was asked."""


class HasEvents(Protocol):
    """Of a ``LogBrowser`` what is needed here."""

    def events(self) -> Iterable[Event]:
        """All events in the log's order."""


class BrowserSource:
    """A browser's events; a position is how many there were. What stands before it is read again."""

    def __init__(self, browser: HasEvents, is_complete: Callable[[], bool] = lambda: True) -> None:
        self._browser, self._is_complete = browser, is_complete

    def pages(self, position: str | None) -> Iterator[EventBatch]:
        """See the port."""
        at = int(position or 0)
        rest = islice(self._browser.events(), at, None)
        while events := list(islice(rest, _PAGE_EVENTS)):
            at += len(events)
            yield EventBatch(events, str(at))

    def is_complete(self) -> bool:
        """See the port."""
        return self._is_complete()


def forward(source: EventSource, forwarder: Forwarder, position: str | None = None, save: Save = lambda _: None) -> str | None:
    """Send what is there behind a position; the answer is the position behind it. Raises UnavailableError: go on from what was saved, with
    the same forwarder or another. Events that an earlier call left in the forwarder go first, so a target may get them twice.

    A line without a time (0) has that of the event before it, or of the first behind it that has one, else now: a target that refuses what
    is old would refuse it.
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
    """``forward`` until the log is complete: for a run that is still live. Returns the last position."""
    while True:
        is_last = source.is_complete()
        position = forward(source, forwarder, position, save)
        if is_last:
            return position
        clock.sleep(poll_s)

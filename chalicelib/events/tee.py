"""One primary sink and best-effort secondary sinks, which never fail or delay the primary.

Each secondary has a bounded buffer and a thread that empties it. Events are dropped and counted if they do not fit, cannot be sent,
or are not known to be sent when the time limit of the close is over.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Condition, Thread

from chalicelib.events.event import Event, WriterEndEvent
from chalicelib.events.sinks import Sink

MAX_EVENTS = 10_000
MAX_BYTES = 8 * 1024 * 1024
LINGER_S = 5.0
_IDLE_S = 1.0
_EVENT_BYTES = 500
"""Approximate bytes of an event without its message."""


@dataclass(frozen=True, slots=True)
class BufferLimits:
    """Approximate limits of a secondary's buffer."""

    events: int = MAX_EVENTS
    bytes: int = MAX_BYTES


class Secondary:
    """A sink behind a buffer. ``offer`` never blocks. ``make_thread`` is for tests that call ``work`` themselves."""

    def __init__(
        self, sink: Sink, room: BufferLimits | None = None, make_thread: Callable[[Callable[[], None]], Thread | None] | None = None
    ) -> None:
        self._sink, self._room = sink, room or BufferLimits()
        self._events: deque[Event] = deque()
        self._bytes = 0
        self._changed = Condition()
        self._is_closing = self._is_idle = False
        self._unsent = 0
        self.dropped = 0
        self.failures = 0
        self.last_failure = ""
        self._thread = (make_thread or _daemon)(self.work)

    def offer(self, event: Event) -> None:
        """Buffer the event, or drop it if there is no room."""
        size = len(event.message) + _EVENT_BYTES
        with self._changed:
            if self._is_closing or len(self._events) >= self._room.events or self._bytes + size > self._room.bytes:
                self.dropped += 1
                return
            self._events.append(event)
            self._bytes += size
            self._changed.notify_all()

    def work(self) -> None:
        """Send buffered events until closed; runs in the thread."""
        while (events := self._next()) is not None:
            self.send(events)

    def send(self, events: Sequence[Event]) -> None:
        """Send events. Events that cannot be sent are dropped; later ones are still tried."""
        for event in events:
            if self._did(lambda event=event: self._add(event)):  # type: ignore[misc]
                self._unsent += 1
            else:
                self.dropped += 1
        if self._did(self._sink.flush):
            self._unsent = 0

    def pending(self) -> list[Event]:
        """Remove and return all buffered events."""
        with self._changed:
            events = list(self._events)
            self._events.clear()
            self._bytes = 0
        return events

    def close(self, linger_s: float = LINGER_S) -> None:
        """Accept no more events, wait ``linger_s`` for the buffer to empty, and drop the rest. May be called twice."""
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        if self._thread is None:
            self.send(self.pending())
        else:
            self._thread.join(linger_s)
        is_done = self._thread is None or not self._thread.is_alive()
        if not is_done or not self._did(self._sink.close):
            self.dropped += self._unsent
            self._unsent = 0
        self.dropped += len(self.pending())

    def _add(self, event: Event) -> None:
        if isinstance(event, WriterEndEvent):
            self._sink.end(event)
        else:
            self._sink.add(event)

    def _next(self) -> list[Event] | None:
        with self._changed:
            while not self._events and not self._is_closing:
                self._changed.wait(_IDLE_S)
            if not self._events:
                return None
        return self.pending()

    def _did(self, act: Callable[[], None]) -> bool:
        try:
            act()
        except Exception as error:
            self.failures += 1
            self.last_failure = f"{type(error).__name__}: {error}"
            return False
        return True


class Tee:
    """The primary sink, with copies to the secondaries once the primary accepted an event."""

    def __init__(self, primary: Sink, secondaries: Sequence[Secondary], linger_s: float = LINGER_S) -> None:
        self._primary, self._secondaries, self._linger_s = primary, tuple(secondaries), linger_s

    def add(self, event: Event) -> None:
        """See ``Sink``: the result is that of the primary."""
        self._primary.add(event)
        for secondary in self._secondaries:
            secondary.offer(event)

    def end(self, end: WriterEndEvent) -> None:
        """See ``Sink``. A secondary without room does not get the record, so that the writer never looks complete there."""
        self._primary.end(end)
        for secondary in self._secondaries:
            secondary.offer(end)

    def flush(self) -> None:
        """See ``Sink``: flushes the primary only."""
        self._primary.flush()

    def close(self) -> None:
        """See ``Sink``: closes the primary, then the secondaries with ``linger_s`` each, also if the primary fails."""
        try:
            self._primary.close()
        finally:
            for secondary in self._secondaries:
                secondary.close(self._linger_s)

    @property
    def dropped(self) -> int:
        """Events that a secondary did not get."""
        return sum(secondary.dropped for secondary in self._secondaries)


def _daemon(work: Callable[[], None]) -> Thread:
    thread = Thread(target=work, name="runlake-tee", daemon=True)
    thread.start()
    return thread

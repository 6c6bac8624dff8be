"""One primary and best-effort secondaries: these never fail it and never delay it.

A secondary has a bounded buffer of its own and a thread that empties it. What does not fit is dropped and counted; so is what it cannot
take, and what is not known to be sent when its time at the close is over.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Condition, Thread

from chalicelib.events.event import Event
from chalicelib.events.sinks import Sink

MAX_EVENTS = 10_000
MAX_BYTES = 8 * 1024 * 1024
LINGER_S = 5.0
_IDLE_S = 1.0
_EVENT_BYTES = 500
"""About what an event takes beside its message."""


@dataclass(frozen=True, slots=True)
class BufferLimits:
    """What a secondary's buffer holds, about."""

    events: int = MAX_EVENTS
    bytes: int = MAX_BYTES


class Secondary:
    """A sink behind a buffer. ``offer`` never waits for it. ``make_thread`` is for tests that call ``work`` themselves."""

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
        """Take the event, or drop it where there is no room."""
        size = len(event.message) + _EVENT_BYTES
        with self._changed:
            if self._is_closing or len(self._events) >= self._room.events or self._bytes + size > self._room.bytes:
                self.dropped += 1
                return
            self._events.append(event)
            self._bytes += size
            self._changed.notify_all()

    def work(self) -> None:
        """Empties the buffer until it is closed: the thread's work."""
        while (events := self._next()) is not None:
            self.send(events)

    def send(self, events: Sequence[Event]) -> None:
        """Hand events over. What cannot be sent is dropped: nobody waits for it, and what comes behind it has its own chance."""
        for event in events:
            if self._did(lambda event=event: self._sink.add(event)):  # type: ignore[misc]
                self._unsent += 1
            else:
                self.dropped += 1
        if self._did(self._sink.flush):
            self._unsent = 0

    def pending(self) -> list[Event]:
        """Take out all that is buffered."""
        with self._changed:
            events = list(self._events)
            self._events.clear()
            self._bytes = 0
        return events

    def close(self, linger_s: float = LINGER_S) -> None:
        """No more events; the buffer has so long to get empty, and what is left then is dropped. May be called twice."""
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
    """A sink that is the primary, with copies to the secondaries. They get an event once the primary took it."""

    def __init__(self, primary: Sink, secondaries: Sequence[Secondary], linger_s: float = LINGER_S) -> None:
        self._primary, self._secondaries, self._linger_s = primary, tuple(secondaries), linger_s

    def add(self, event: Event) -> None:
        """See ``Sink``: the primary's word."""
        self._primary.add(event)
        for secondary in self._secondaries:
            secondary.offer(event)

    def flush(self) -> None:
        """See ``Sink``: the primary's. Secondaries are not waited for."""
        self._primary.flush()

    def close(self) -> None:
        """See ``Sink``: the primary's first; the secondaries have ``linger_s`` each, and are closed even when it fails."""
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

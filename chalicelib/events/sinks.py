"""Where the events of one writer go: a batch at a time to somewhere that keeps them, on to another writer, or what ``forwarding`` and ``tee``
make of others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from chalicelib.events.event import Event, NewEvent
from chalicelib.events.ports import EventWriter

BATCH_EVENTS = 1000
BATCH_BYTES = 512 * 1024


class Sink(Protocol):
    """Where a writer's events go: batches of a run's log, a ``Forwarder``, a ``Tee``. It masks."""

    def add(self, event: Event) -> None:
        """Take an event; may send. Raises UnavailableError: it was not taken."""

    def flush(self) -> None:
        """Returns when all that was added is durable. Raises UnavailableError: the rest goes with the next one."""

    def close(self) -> None:
        """Flushes, and gives back what it holds. May be called twice."""


class BatchSink:
    """Hands over full batches, and what there is when it is flushed. ``send`` returns once they are durable; a batch that it did not take
    comes again, unchanged, before any other."""

    def __init__(self, send: Callable[[Sequence[Event]], None]) -> None:
        self._send = send
        self._waiting: list[Event] = []
        self._waiting_bytes = 0

    def add(self, event: Event) -> None:
        """See ``Sink``."""
        if len(self._waiting) >= BATCH_EVENTS or self._waiting_bytes >= BATCH_BYTES:
            self.flush()
        self._waiting.append(event)
        self._waiting_bytes += len(event.message)

    def flush(self) -> None:
        """See ``Sink``."""
        if self._waiting:
            self._send(tuple(self._waiting))
            self._waiting.clear()
            self._waiting_bytes = 0

    def close(self) -> None:
        """See ``Sink``."""
        self.flush()


class WriterSink:
    """A writer as a sink, so that it can be the primary of a tee. Its ids are those of the events, for both count from 0."""

    def __init__(self, writer: EventWriter) -> None:
        self._writer = writer

    def add(self, event: Event) -> None:
        """See ``Sink``."""
        self._writer.write_event(as_new(event))

    def flush(self) -> None:
        """See ``Sink``."""
        self._writer.flush()

    def close(self) -> None:
        """See ``Sink``: the writer's end is recorded."""
        self._writer.close()


def as_new(event: Event) -> NewEvent:
    """A whole event as it is given to a log."""
    return NewEvent(
        message=event.message,
        timestamp=event.timestamp,
        id=event.id,
        step=event.step,
        level=event.level,
        data=event.data,
        annotations=event.annotations,
    )

"""Sinks: the destinations of one writer's events. Here: batches for a store, and another writer; ``forwarding`` and ``tee`` have
others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from chalicelib.errors import InvalidEventError
from chalicelib.events.event import Event, NewEvent, WriterEndEvent
from chalicelib.events.ports import EventWriter, Refused
from chalicelib.events.weight import weight

BATCH_EVENTS = 1000
BATCH_BYTES = 512 * 1024
BATCH_DETAILS_BYTES = 4 * 1024 * 1024
"""Data and annotations (``weight``)."""


class Sink(Protocol):
    """The destination of a writer's events: batches of a run's log, a ``Forwarder``, a ``Tee``. It masks."""

    def add(self, event: Event) -> None:
        """Add an event; may send. Raises UnavailableError: the event was not added."""

    def end(self, end: WriterEndEvent) -> None:
        """Add the record of the writer's end, after all events were flushed, where nothing else records it. Raises UnavailableError:
        it was not added."""

    def flush(self) -> None:
        """Returns when all added events are durable. Raises UnavailableError: the next flush sends the rest; InvalidEventError:
        some events can never be stored and were dropped, all others are durable."""

    def close(self) -> None:
        """Flushes, and releases resources. May be called twice."""


class BatchSink:
    """Collects events and sends full batches; the rest at a flush.

    ``send`` returns when a batch is durable. A batch that it could not send (UnavailableError, ConflictError) is sent again,
    unchanged, before any other. If it raises InvalidEventError the batch is settled: valid events are durable, invalid ones are
    dropped. ``add`` never raises that error, which concerns other events than the added one: the next ``flush`` does, once.
    """

    def __init__(self, send: Callable[[Sequence[Event]], None]) -> None:
        self._send = send
        self._waiting: list[Event] = []
        self._waiting_bytes = self._details_bytes = 0
        self._rejection: InvalidEventError | None = None

    def add(self, event: Event) -> None:
        """See ``Sink``."""
        if self._is_full:
            self._settle()
        self._waiting.append(event)
        self._waiting_bytes += len(event.message)
        self._details_bytes += weight(event.data) + sum(weight(each.note) for each in event.annotations)

    def end(self, end: WriterEndEvent) -> None:
        """See ``Sink``. Does nothing: the logging method records the end."""

    def flush(self) -> None:
        """See ``Sink``."""
        self._settle()
        rejection, self._rejection = self._rejection, None
        if rejection:
            raise rejection

    def close(self) -> None:
        """See ``Sink``."""
        self.flush()

    @property
    def _is_full(self) -> bool:
        is_long = self._waiting_bytes >= BATCH_BYTES or self._details_bytes >= BATCH_DETAILS_BYTES
        return is_long or len(self._waiting) >= BATCH_EVENTS

    def _settle(self) -> None:
        if not self._waiting:
            return
        try:
            self._send(tuple(self._waiting))
        except InvalidEventError as error:
            self._rejection = self._rejection or error
        self._waiting.clear()
        self._waiting_bytes = self._details_bytes = 0


class WriterSink:
    """A writer as a sink, so that it can be the primary of a tee. Both count ids from 0, so the ids are equal."""

    def __init__(self, writer: EventWriter) -> None:
        self._writer = writer

    def add(self, event: Event) -> None:
        """See ``Sink``."""
        self._writer.write_event(as_new(event))

    def end(self, end: WriterEndEvent) -> None:
        """See ``Sink``. Does nothing: the writer records its own end."""

    def flush(self) -> None:
        """See ``Sink``."""
        self._writer.flush()

    def close(self) -> None:
        """See ``Sink``: records the writer's end."""
        self._writer.close()


def as_new(event: Event) -> NewEvent:
    """A stored event as input of a log."""
    return NewEvent(
        message=event.message,
        timestamp=event.timestamp,
        id=event.id,
        step=event.step,
        level=event.level,
        data=event.data,
        annotations=event.annotations,
    )


def rejection(refused: Sequence[Refused]) -> InvalidEventError:
    """The error of a batch whose other events are durable."""
    return InvalidEventError(f"events were rejected: {refused[0].reason} rejected={len(refused)} first={refused[0].index}")

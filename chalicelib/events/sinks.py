"""Where the events of one writer go: a batch at a time to somewhere that keeps them, on to another writer, or what ``forwarding`` and ``tee``
make of others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from chalicelib.errors import InvalidEventError
from chalicelib.events.event import Event, NewEvent
from chalicelib.events.ports import EventWriter, Refused
from chalicelib.events.weight import weight

BATCH_EVENTS = 1000
BATCH_BYTES = 512 * 1024
BATCH_DETAILS_BYTES = 4 * 1024 * 1024
"""Of data and annotations (``weight``)."""


class Sink(Protocol):
    """Where a writer's events go: batches of a run's log, a ``Forwarder``, a ``Tee``. It masks."""

    def add(self, event: Event) -> None:
        """Take an event; may send. Raises UnavailableError: it was not taken."""

    def flush(self) -> None:
        """Returns when all that was added is durable. Raises UnavailableError: the rest goes with the next one; InvalidEventError: some
        events can never be stored and were dropped, all others are durable."""

    def close(self) -> None:
        """Flushes, and gives back what it holds. May be called twice."""


class BatchSink:
    """Collects events and hands full batches over; the rest when it is flushed.

    ``send`` returns once a batch is durable. A batch that it could not send (UnavailableError, ConflictError) comes again, unchanged, before
    any other. When it raises InvalidEventError the batch is settled: what can be stored is durable, the rest is dropped. ``add`` never
    raises that error, which is about other events than the one added: the next ``flush`` does, once.
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


def rejection(refused: Sequence[Refused]) -> InvalidEventError:
    """The error of a batch whose other events are durable."""
    return InvalidEventError(f"events were rejected: {refused[0].reason} rejected={len(refused)} first={refused[0].index}")

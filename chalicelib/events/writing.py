"""What every writer of events does: ids, mandatory data, batches, streams, an end that is told once. Where they go is a subclass's."""

from __future__ import annotations

import io
import secrets
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TextIO, cast

from chalicelib.errors import InvalidEventError
from chalicelib.events.event import Loggable, NewEvent, check_mandatory
from chalicelib.events.names import checked_name
from chalicelib.ports import Clock

BATCH_EVENTS = 1000
BATCH_BYTES = 512 * 1024


class BatchingWriter(ABC):
    """``EventWriter`` that sends full batches, and what is left when it is flushed. A batch that could not be sent stays, and is sent again.

    ``writer`` is a name of its own for each, unless one is given: ids begin with 0, and are unique within it.
    """

    def __init__(self, loggable: Loggable, clock: Clock, writer: str | None, step: str | None) -> None:
        self.writer = checked_name("writer", writer or f"w-{secrets.token_hex(8)}")
        self._loggable, self._clock, self._step = loggable, clock, step
        self._mandatory = loggable.mandatory_data()
        check_mandatory(self._mandatory)
        self._waiting: list[NewEvent] = []
        self._waiting_bytes = 0
        self._count = 0
        self._last_ms: int | None = None
        self._is_closed = False

    def write_event(self, event: NewEvent) -> None:
        """See the port. Raises InvalidEventError for one that tells of another run, or of a writer that is closed."""
        if self._is_closed:
            raise InvalidEventError(f"the writer is closed writer={self.writer}")
        if any(event.data.get(name, value) != value for name, value in self._mandatory.items()):
            raise InvalidEventError("an event's data tell of another run")
        timestamp = self._clock.now_ms() if event.timestamp is None else event.timestamp
        step = self._step if event.step is None else event.step
        data = {**event.data, **self._mandatory}
        self._waiting.append(event.model_copy(update={"id": self._count, "timestamp": timestamp, "step": step, "data": data}))
        self._waiting_bytes += len(event.message)
        self._count += 1
        self._last_ms = max(timestamp, self._last_ms or 0)
        if len(self._waiting) >= BATCH_EVENTS or self._waiting_bytes >= BATCH_BYTES:
            self.flush()

    def write_message(self, message: str, *, step: str | None = None, level: str | None = None) -> None:
        """See the port."""
        self.write_event(NewEvent(message=message, step=step, level=level))

    def stream(self, *, step: str | None = None) -> TextIO:
        """See the port."""
        return cast(TextIO, _Lines(self, step))

    def flush(self) -> None:
        """See the port."""
        while self._waiting:
            batch = self._waiting[:BATCH_EVENTS]
            self._send(batch)
            del self._waiting[: len(batch)]
        self._waiting_bytes = 0

    def close(self) -> None:
        """See the port."""
        if not self._is_closed:
            self.flush()
            self._end(self._count, self._last_ms)
            self._is_closed = True

    @abstractmethod
    def _send(self, events: Sequence[NewEvent]) -> None:
        """Returns once they are durable. Raises UnavailableError: the same ones come again."""

    @abstractmethod
    def _end(self, count: int, last_ms: int | None) -> None:
        """Record the end. May be called again after an error."""


class _Lines(io.TextIOBase):
    """Each line is an event; the last one too, when it has no end."""

    def __init__(self, writer: BatchingWriter, step: str | None) -> None:
        self._writer, self._step, self._begun = writer, step, ""

    def writable(self) -> bool:
        return True

    def write(self, text: str, /) -> int:
        *lines, self._begun = (self._begun + text).split("\n")
        for line in lines:
            self._writer.write_message(line, step=self._step)
        return len(text)

    def close(self) -> None:
        if not self.closed:
            if self._begun:
                self._writer.write_message(self._begun, step=self._step)
                self._begun = ""
            super().close()

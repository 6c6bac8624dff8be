"""Writers of events: they number events, add what is mandatory, and hand them to a sink."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Protocol, TextIO, cast
from uuid import uuid4

from pydantic import JsonValue

from chalicelib.events.event import Event, Loggable, NewEvent, check_mandatory
from chalicelib.events.ports import EventWriter
from chalicelib.ports import Clock


class Sink(Protocol):
    """Where a writer's events go: a ``Forwarder``, a ``Tee``, a run's log. It masks."""

    def add(self, event: Event) -> None:
        """Take an event; may send. Raises UnavailableError: it was not taken."""

    def flush(self) -> None:
        """Returns when all that was added is durable. Raises UnavailableError: the rest goes with the next one."""

    def close(self) -> None:
        """Flushes, and gives back what it holds. May be called twice."""


Closed = Callable[[str, int, int | None], None]
"""Told once when a writer is closed: its name, how many events it wrote (their ids are below that), the last timestamp (None: no event)."""


class SinkWriter:
    """``EventWriter`` over a sink. ids count from 0, whatever id an event brings.

    A writer's name is its own: made anew unless it is given, so ids never begin again under a name.
    """

    def __init__(
        self,
        sink: Sink,
        loggable: Loggable,
        clock: Clock,
        *,
        writer: str | None = None,
        step: str | None = None,
        closed: Closed | None = None,
    ) -> None:
        self.writer = writer or uuid4().hex
        self._sink, self._loggable, self._clock, self._step, self._closed = sink, loggable, clock, step, closed
        self._count = 0
        self._last_ms: int | None = None
        self._is_closed = False

    def write_event(self, event: NewEvent) -> None:
        """See the port. Raises ValueError when the writer is closed."""
        if self._is_closed:
            raise ValueError(f"the writer is closed writer={self.writer}")
        whole = self._whole(event)
        self._sink.add(whole)
        self._count += 1
        self._last_ms = max(whole.timestamp, self._last_ms or 0)

    def write_message(self, message: str, *, step: str | None = None, level: str | None = None) -> None:
        """See the port."""
        self.write_event(NewEvent(message=message, step=step, level=level))

    def stream(self, *, step: str | None = None) -> TextIO:
        """See the port."""
        return cast(TextIO, LineStream(lambda line: self.write_message(line, step=step)))

    def flush(self) -> None:
        """See the port."""
        self._sink.flush()

    def close(self) -> None:
        """See the port. When the sink does not take the rest it raises and the writer is not closed: close it again."""
        if self._is_closed:
            return
        self._sink.flush()
        if self._closed:
            self._closed(self.writer, self._count, self._last_ms)
        self._is_closed = True
        self._sink.close()

    def _whole(self, event: NewEvent) -> Event:
        mandatory = self._loggable.mandatory_data(event.step or self._step)
        data: dict[str, JsonValue] = {**event.data, **mandatory}
        check_mandatory(data)
        return Event(
            id=self._count,
            message=event.message,
            timestamp=self._clock.now_ms() if event.timestamp is None else event.timestamp,
            data=data,
            annotations=event.annotations,
            level=event.level,
            writer=self.writer,
        )


class SinkMethod:
    """``LoggingMethod`` whose writers each have a sink of their own."""

    def __init__(self, make_sink: Callable[[Loggable], Sink], clock: Clock, closed: Closed | None = None) -> None:
        self._make_sink, self._clock, self._closed = make_sink, clock, closed

    def create_writer(self, loggable: Loggable, *, writer: str | None = None, step: str | None = None) -> EventWriter:
        """See the port."""
        return SinkWriter(self._make_sink(loggable), loggable, self._clock, writer=writer, step=step, closed=self._closed)


class LineStream(io.TextIOBase):
    """A text stream that hands over each line without its newline; the last one, when it has none, at the close. Splits at ``\\n`` alone."""

    def __init__(self, write_line: Callable[[str], None]) -> None:
        super().__init__()
        self._write_line = write_line
        self._rest: list[str] = []

    def writable(self) -> bool:
        """It is."""
        return True

    def write(self, text: str, /) -> int:
        """Hands over the lines that it ends. When one cannot be written it raises, and that line and those behind it are kept."""
        if self.closed:
            raise ValueError("the stream is closed")
        self._rest.append(text)
        if "\n" in text:
            self._hand_over("".join(self._rest))
        return len(text)

    def close(self) -> None:
        """An unterminated last line is a line too. May be called twice."""
        if self.closed:
            return
        if "\n" in (rest := "".join(self._rest)):
            self._hand_over(rest)
        if rest := "".join(self._rest):
            self._write_line(rest)
            self._rest = []
        super().close()

    def _hand_over(self, text: str) -> None:
        *lines, rest = text.split("\n")
        for number, line in enumerate(lines):
            try:
                self._write_line(line)
            except BaseException:
                self._rest = ["\n".join([*lines[number:], rest])]
                raise
        self._rest = [rest] if rest else []

"""The common part of all event writers: ids, mandatory data, text streams, and the end, which is recorded once. A sink delivers the
events."""

from __future__ import annotations

import io
import secrets
from collections.abc import Callable
from typing import TextIO, cast

from pydantic import ValidationError

from chalicelib.errors import InvalidEventError
from chalicelib.events.event import Event, Loggable, NewEvent, WriterEndEvent, invalid_field, run_of
from chalicelib.events.names import checked_name
from chalicelib.events.ports import NO_DATA, WriterData
from chalicelib.events.sinks import Sink
from chalicelib.events.validation import checked_event
from chalicelib.events.well_formed import well_formed_text
from chalicelib.ports import Clock

OnClose = Callable[[str, int, int | None], None]
"""Called once when a writer is closed, with its name, the number of events (their ids are lower), and the last timestamp (None: no
event)."""


class SinkWriter:
    """``EventWriter`` over a sink. ids count from 0; ids of the events are ignored.

    A writer's name is generated unless one is passed, so ids never restart under a name.
    """

    def __init__(
        self,
        sink: Sink,
        loggable: Loggable,
        clock: Clock,
        *,
        writer: str | None = None,
        step: str | None = None,
        data: WriterData = NO_DATA,
        on_close: OnClose | None = None,
    ) -> None:
        run_of(loggable)
        self.writer = checked_name("writer", writer or f"w-{secrets.token_hex(8)}")
        self._mandatory = loggable.mandatory_data()
        own = _checked_own(step, data, loggable)
        self._step, self._data = own.step, own.data
        self._sink, self._loggable, self._clock, self._on_close = sink, loggable, clock, on_close
        self._count = 0
        self._last_ms: int | None = None
        self._is_ended = self._is_closed = False

    def write_event(self, event: NewEvent) -> None:
        """See the port. Raises InvalidEventError for a closed writer, and for an event that no sink could store, which leaves the
        writer unchanged. The sink raises UnavailableError."""
        if self._is_ended:
            raise InvalidEventError(f"the writer is closed writer={self.writer}")
        complete = self._complete(event)
        self._sink.add(complete)
        self._count += 1
        self._last_ms = max(complete.timestamp, self._last_ms or 0)

    def write_message(self, message: str, *, step: str | None = None, level: str | None = None) -> None:
        """See the port."""
        self.write_event(NewEvent(message=message, step=step, level=level))

    def stream(self, *, step: str | None = None) -> TextIO:
        """See the port. Raises InvalidEventError immediately for an invalid step."""
        step = None if step is None else checked_name("step", well_formed_text(step))

        def write_line(line: str, began_ms: int) -> None:
            self.write_event(NewEvent(message=line, step=step, timestamp=began_ms))

        return cast(TextIO, LineStream(write_line, self._clock.now_ms))

    def flush(self) -> None:
        """See the port."""
        self._sink.flush()

    def close(self) -> None:
        """See the port. If the sink cannot deliver the rest, it raises and the writer stays open: close it again."""
        if self._is_closed:
            return
        if not self._is_ended:
            self._sink.flush()
            if self._on_close:
                self._on_close(self.writer, self._count, self._last_ms)
            self._sink.end(self._end())
            self._is_ended = True  # the record has the number of events, so none may follow
        self._sink.flush()
        self._is_closed = True
        self._sink.close()

    def _end(self) -> WriterEndEvent:
        return WriterEndEvent(
            id=self._count,
            message=f"writer closed events={self._count}",
            timestamp=max(self._clock.now_ms(), self._last_ms or 0),
            data=self._loggable.mandatory_data(),
            writer=self.writer,
            last_timestamp_ms=self._last_ms,
        )

    def _complete(self, event: NewEvent) -> Event:
        if any(event.data.get(name, value) != value for name, value in self._mandatory.items()):
            raise InvalidEventError("an event's data name another run")
        if self._data:
            event = event.model_copy(update={"data": {**self._data, **event.data}})
        checked = checked_event(event, self._loggable)
        return Event(
            id=self._count,
            message=checked.message,
            timestamp=self._clock.now_ms() if checked.timestamp is None else checked.timestamp,
            data={**checked.data, **self._loggable.mandatory_data(self._step if checked.step is None else checked.step)},
            annotations=checked.annotations,
            level=checked.level,
            writer=self.writer,
        )


def _checked_own(step: str | None, data: WriterData, loggable: Loggable) -> NewEvent:
    """The step and data of a writer, as an event that has nothing else. Raises InvalidEventError."""
    try:
        return checked_event(NewEvent(message="", step=step, data=data), loggable)
    except ValidationError as error:
        raise InvalidEventError(f"a writer's step must be a text and its data JSON field={invalid_field(error)}") from None


class LineStream(io.TextIOBase):
    """A text stream that passes on each line without its newline, with the time at which its first part was written; an unterminated
    last line at the close. Splits only at ``\\n``."""

    def __init__(self, write_line: Callable[[str, int], None], now_ms: Callable[[], int]) -> None:
        super().__init__()
        self._write_line, self._now_ms = write_line, now_ms
        self._rest: list[str] = []
        self._began_ms = 0

    def writable(self) -> bool:
        """Always true."""
        return True

    def write(self, text: str, /) -> int:
        """Passes on the lines that the text completes. If one cannot be written, raises and keeps that line and those after it."""
        if self.closed:
            raise ValueError("the stream is closed")
        if text:
            self._began_ms = self._began_ms if self._rest else self._now_ms()
            self._rest.append(text)
        if "\n" in text:
            self._hand_over("".join(self._rest))
        return len(text)

    def close(self) -> None:
        """Writes an unterminated last line. May be called twice."""
        if self.closed:
            return
        if "\n" in (rest := "".join(self._rest)):
            self._hand_over(rest)
        if rest := "".join(self._rest):
            self._write_line(rest, self._began_ms)
            self._rest = []
        super().close()

    def _hand_over(self, text: str) -> None:
        *lines, rest = text.split("\n")
        for number, line in enumerate(lines):
            try:
                self._write_line(line, self._began_ms)
            except BaseException:
                self._rest = ["\n".join([*lines[number:], rest])]
                raise
            self._began_ms = self._now_ms()
        self._rest = [rest] if rest else []

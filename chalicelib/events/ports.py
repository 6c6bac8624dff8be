"""What stands between events and where they go or come from: each side knows the other by these alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol, TextIO

from chalicelib.events.event import Event, Loggable, NewEvent
from chalicelib.ports import Run


@dataclass(frozen=True, slots=True)
class Refused:
    """One item of a batch that was not taken. ``retryable``: the same item may be taken later. ``index`` -1: one of them, and the
    target does not say which."""

    index: int
    reason: str
    retryable: bool = False


@dataclass(frozen=True, slots=True)
class Accepted:
    """What became of a batch in a run's log. ``first_line`` None: nothing was stored. ``position`` goes with the next batch."""

    accepted: int
    first_line: int | None
    position: str
    repeated: bool = False
    refused: tuple[Refused, ...] = ()


class EventLog(Protocol):
    """The run log as a place for events: what came is durable and masked once this returns."""

    def append(
        self,
        run: Run,
        events: Sequence[NewEvent],
        *,
        writer: str | None = None,
        position: str | None = None,
        idempotency_key: str | None = None,
    ) -> Accepted:
        """Store a batch; good items are stored, others told. A repeat with the same position or key is stored once.

        Raises RunClosedError, InvalidEventError (no item is good), UnavailableError (repeat it).
        """


@dataclass(frozen=True, slots=True)
class Limits:
    """What a target takes in one request. ``span_ms``: from the oldest event to the newest; None: any."""

    events: int
    bytes: int
    span_ms: int | None = None


class Target(Protocol):
    """Another system that takes events (Elasticsearch, CloudWatch Logs, …). One request a call; batching and retries are the caller's."""

    limits: Limits

    def size(self, event: Event) -> int:
        """Bytes that an event takes of a request."""

    def send(self, loggable: Loggable, events: Sequence[Event]) -> Sequence[Refused]:
        """Send them in order; what is answered was not taken. Raises UnavailableError when nothing is known to be taken, and
        RequestRefusedError when nothing was, for what is in them: parts of it may be."""

    def close(self) -> None:
        """Give connections back. May be called twice."""


class EventWriter(Protocol):
    """Writes the events of one loggable; not shared by threads. ids count up from 0 within ``writer``."""

    writer: str

    def write_event(self, event: NewEvent) -> None:
        """Mandatory data is injected, secrets are masked. May send; raises UnavailableError when a full batch could not be sent."""

    def write_message(self, message: str, *, step: str | None = None, level: str | None = None) -> None:
        """A message, now."""

    def stream(self, *, step: str | None = None) -> TextIO:
        """A text stream whose lines are events; its unterminated last line is one when it is closed."""

    def flush(self) -> None:
        """Returns once everything written is durable."""

    def close(self) -> None:
        """Flushes, and records how many events there were and the last timestamp. May be called twice."""


class LoggingMethod(Protocol):
    """How events are written. Knows nothing of where they are browsed."""

    def create_writer(self, loggable: Loggable, *, writer: str | None = None, step: str | None = None) -> EventWriter:
        """A writer that injects the loggable's mandatory data. ``writer``: its name; one is made if there is none."""


@dataclass(frozen=True, slots=True)
class LogText:
    """Part of a log from a byte position on; ``next`` is the position behind it, ``complete``: nothing will ever follow."""

    text: str
    next: int
    complete: bool


class LogBrowser(Protocol):
    """Where the logs of one loggable are read. Knows nothing of how they were written."""

    def overall_log(self, start: int = 0) -> LogText:
        """The whole log from byte ``start`` on, a bounded part."""

    def step_log(self, step: str, completed: bool, start: int = 0) -> LogText:
        """One step's log from its own byte ``start`` on: costs what the step has, not what the run has."""

    def open_binary(self) -> BinaryIO:
        """The whole log as bytes, read as it goes."""

    def open_text(self) -> TextIO:
        """The whole log as text."""

    def lines(self, maximum: int) -> list[str]:
        """The last ``maximum`` lines."""

    def log_file(self) -> Path:
        """The log as a file; a temporary one, the caller's to remove, unless there is something better."""

    def events(self) -> Iterator[Event]:
        """All events in the log's order."""

    def delete(self) -> None:
        """Remove the log."""

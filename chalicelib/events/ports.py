"""Ports of events: the run log, other systems that receive events, and browsers of a run's log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol, TextIO

from chalicelib.events.event import Event, Loggable, NewEvent
from chalicelib.ports import Run

if TYPE_CHECKING:
    from chalicelib.events.index import VisibleIds


@dataclass(frozen=True, slots=True)
class Refused:
    """One item of a batch that was not accepted. ``retryable``: the same item may be accepted later. ``index`` -1: the target does
    not say which item it was."""

    index: int
    reason: str
    retryable: bool = False


@dataclass(frozen=True, slots=True)
class Accepted:
    """The result of an append to a run's log. ``first_line`` None: nothing was stored. The next batch is sent with ``position``."""

    accepted: int
    first_line: int | None
    position: str
    repeated: bool = False
    refused: tuple[Refused, ...] = ()


class EventLog(Protocol):
    """The run log as a store of events: events are masked and durable when a call returns."""

    def append(
        self,
        run: Run,
        events: Sequence[NewEvent],
        *,
        writer: str | None = None,
        position: str | None = None,
        idempotency_key: str | None = None,
    ) -> Accepted:
        """Store a batch: valid events are stored, invalid ones are reported in the result. A repeat with the same position or key
        is stored once.

        Raises RunClosedError, InvalidEventError (no event is valid), UnavailableError (repeat the call).
        """


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one request to a target. ``span_ms``: from the oldest event to the newest; None: unlimited."""

    events: int
    bytes: int
    span_ms: int | None = None


class Target(Protocol):
    """Another system that receives events (Elasticsearch, CloudWatch Logs, …). One request for each call; the caller batches and
    retries."""

    limits: Limits
    per_run: bool
    """Whether a request has events of one loggable only: the given one. Else the events' own data names it."""

    def size(self, event: Event) -> int:
        """Bytes of a request that an event takes."""

    def send(self, loggable: Loggable, events: Sequence[Event]) -> Sequence[Refused]:
        """Send events in order; returns those that were not accepted. Raises UnavailableError if it is unknown whether any was
        accepted, and RequestRefusedError if none was because of their content: a part of them may be."""

    def close(self) -> None:
        """Release connections. May be called twice."""


@dataclass(frozen=True, slots=True)
class LogText:
    """Part of a log from a byte offset on; ``next`` is the offset after it; ``complete``: no text can follow."""

    text: str
    next: int
    complete: bool


class LogBrowser(Protocol):
    """Reads the log of one run. Independent of how it was written. Created with its loggable: raises InvalidEventError if that is no run."""

    def overall_log(self, start: int = 0) -> LogText:
        """A bounded part of the overall log from byte ``start`` on."""

    def step_log(self, step: str, completed: bool, start: int = 0) -> LogText:
        """A step's log from byte ``start`` of the step on. The cost depends on the size of the step, not of the run."""

    def open_binary(self) -> BinaryIO:
        """The overall log as bytes, streamed."""

    def open_text(self) -> TextIO:
        """The overall log as text."""

    def lines(self, maximum: int) -> list[str]:
        """The last ``maximum`` lines. Reads from the end of the log: the cost depends on these lines, not on the log. Raises
        InvalidInputError for a negative number."""

    def log_file(self) -> Path:
        """The log as a file: a temporary one, which the caller removes, unless the log is a file itself."""

    def events(self) -> Iterator[Event]:
        """All events in the log's order."""

    def visible(self) -> Mapping[str, VisibleIds]:
        """The ids of all events that are there, by writer. Raises UnavailableError, DamagedLogError."""

    def delete(self) -> None:
        """Delete the log."""

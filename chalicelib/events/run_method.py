"""The run log as a logging method and a log browser: the default."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO, TextIO

from chalicelib.events.completeness import Completeness, CompletenessWatch
from chalicelib.events.event import Event, Loggable, run_of
from chalicelib.events.event_browser import EventBrowser
from chalicelib.events.log_streams import last_lines, open_buffered, write_temporary_file
from chalicelib.events.ports import NO_DATA, EventLog, EventWriter, LogText, WriterData
from chalicelib.events.sinks import BatchSink, as_new, rejection
from chalicelib.events.snapshots import LogSnapshots
from chalicelib.events.step_log import StepLogs
from chalicelib.events.writers import Writers
from chalicelib.events.writing import SinkWriter
from chalicelib.ports import Clock, ObjectStore, Run
from chalicelib.runlog.conflicts import retry_on_change
from chalicelib.runlog.log_end import delete_all, list_all

_PIECE_BYTES = 5 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class RunLogMethod:
    """``LoggingMethod`` that appends batches to the run's log, durable after a flush. Writers are registered, so that completeness
    counts them."""

    log: EventLog
    writers: Writers
    clock: Clock

    def create_writer(
        self, loggable: Loggable, *, writer: str | None = None, step: str | None = None, data: WriterData = NO_DATA
    ) -> EventWriter:
        """See the port. One PUT."""
        run = run_of(loggable)
        ends = partial(self.writers.close, run)
        sink = BatchSink(_Appends(self.log, run).send)
        made = SinkWriter(sink, loggable, self.clock, writer=writer, step=step, data=data, on_close=ends)
        self.writers.open(run, made.writer)
        return made


class _Appends:
    """Appends the batches of one writer in order, each with the position that the one before returned."""

    def __init__(self, log: EventLog, run: Run) -> None:
        self._log, self._run = log, run
        self._position: str | None = None

    def send(self, events: Sequence[Event]) -> None:
        """Raises InvalidEventError once the valid events are durable."""
        if self._position is None:  # get a position, so that a repeated first batch is recognized
            self._position = self._log.append(self._run, []).position
        new_events = [as_new(event) for event in events]
        accepted = self._log.append(self._run, new_events, writer=events[0].writer, position=self._position)
        self._position = accepted.position
        if accepted.refused:
            raise rejection(accepted.refused)


class RunLogBrowser:
    """``LogBrowser`` of a run's log. Stateless."""

    def __init__(
        self,
        loggable: Loggable,
        store: ObjectStore,
        snapshots: LogSnapshots,
        logs: StepLogs,
        events: EventBrowser,
        watch: CompletenessWatch,
    ) -> None:
        self._run, self._store, self._snapshots, self._logs = run_of(loggable), store, snapshots, logs
        self._events, self._watch = events, watch

    def overall_log(self, start: int = 0) -> LogText:
        """See the port."""
        return self._logs.overall_log(self._run, start)

    def step_log(self, step: str, completed: bool, start: int = 0) -> LogText:
        """See the port. Ignores ``completed``: the archive knows whether the step is complete."""
        return self._logs.step_log(self._run, step, start)

    def open_binary(self) -> BinaryIO:
        """See the port. Memory: 5 MiB."""
        return open_buffered(self._chunks())

    def open_text(self) -> TextIO:
        """See the port. Lines end only at ``\\n``."""
        return io.TextIOWrapper(self.open_binary(), encoding="utf-8", errors="replace", newline="\n")

    def lines(self, maximum: int) -> list[str]:
        """See the port. The requests of a snapshot, and a GET for each piece and segment that is read. Memory: the lines."""
        return retry_on_change(partial(self._last_lines, maximum))

    def log_file(self) -> Path:
        """See the port: a temporary file."""
        return write_temporary_file(self.open_binary())

    def events(self) -> Iterator[Event]:
        """See the port."""
        return (view.event() for view in self._events.all(self._run))

    def completeness(self) -> Completeness:
        """See the port and ``CompletenessWatch.check``."""
        return self._watch.check(self._run)

    def delete(self) -> None:
        """Delete all of the run's objects. Requires that no client writes to it; its rows expire."""
        delete_all(self._store, [found.key for found in list_all(self._store, self._snapshots.layout.run_prefix(self._run))])

    def _last_lines(self, maximum: int) -> list[str]:
        snapshot = self._snapshots.take(self._run)

        def read(start: int, end: int) -> bytes:
            return self._snapshots.bytes(snapshot, [(start, end)])[0]

        return last_lines(read, snapshot.end_byte, maximum)

    def _chunks(self) -> Iterator[bytes]:
        at = 0
        while piece := retry_on_change(partial(self._piece, at)):
            yield piece
            at += len(piece)

    def _piece(self, at: int) -> bytes:
        snapshot = self._snapshots.take(self._run, at, _PIECE_BYTES)
        end = min(at + _PIECE_BYTES, snapshot.end_byte)
        return self._snapshots.bytes(snapshot, [(at, end)])[0] if at < end else b""

"""Delivers a run's events by a logging method other than the run log. The archive still has the start, which names the method, the steps, the
end of each writer with the number of its events, and the end of the run."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from runlake.archive import Archive
from runlake.deliveries import AppendResult, EventDelivery, WriterEnd
from runlake.errors import MethodUnavailableError, RunlakeError, SettingsError
from runlake.methods import LoggingMethod, MethodWriter
from runlake.names import RunName
from runlake.starts import StartedRun


class MethodConnection:
    """The writer of a method, made when it is needed, and again for another attempt; its owner closes it. Not thread-safe. What it did last is
    not done again when only a request to the archive after it failed."""

    def __init__(self, name: str, method: LoggingMethod) -> None:
        self.name, self._method = name, method
        self._writer: MethodWriter | None = None
        self._of: tuple[RunName, str] | None = None
        self._done: tuple[object, tuple[str, ...]] | None = None

    def write(self, run: RunName, writer: str, instance_id: str, events: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
        """Write events; returns the reasons of those that are refused. Raises as ``_once``."""

        def act(made: MethodWriter) -> Sequence[str]:
            reasons = made.write(events)
            if isinstance(reasons, str) or len(reasons) > len(events):
                raise TypeError("write must return a reason for each refused event")
            return reasons

        return self._once((run, writer, events), instance_id, act)

    def end(self, run: RunName, writer: str, instance_id: str, end: WriterEnd) -> None:
        """Record the end of a writer. Raises as ``_once``."""

        def act(made: MethodWriter) -> Sequence[str]:
            made.end(end.count, end.last_timestamp_ms)
            return ()

        self._once((run, writer, end), instance_id, act)

    def _once(
        self, what: tuple[RunName, str, object], instance_id: str, act: Callable[[MethodWriter], Sequence[str]]
    ) -> tuple[str, ...]:
        """Raises MethodUnavailableError; SettingsError for any other failure of the method: the events wait until it is corrected."""
        if self._done is None or self._done[0] != what:
            try:
                self._done = what, tuple(act(self._opened(*what[:2], instance_id)))
            except (RunlakeError, KeyboardInterrupt):
                raise
            except OSError as error:
                raise MethodUnavailableError(f"the logging method {self.name} cannot write: {error}") from error
            except BaseException as error:  # a package's error of any kind must end neither the application nor its thread
                following = f"correct its options, [methods.{self.name}] of the settings file"
                raise SettingsError(f"the logging method {self.name} fails: {error!r}", next_step=following) from error
        return self._done[1]

    def _opened(self, run: RunName, writer: str, instance_id: str) -> MethodWriter:
        if self._writer is None or self._of != (run, writer):
            self.close()
            self._writer, self._of = self._method.create_writer(run, writer, instance_id), (run, writer)
        return self._writer

    def close(self) -> None:
        """Close the writer. All is stored: a failure changes nothing."""
        writer, self._writer = self._writer, None
        if writer is not None:
            with suppress(Exception, SystemExit):
                writer.close()


@dataclass(frozen=True)
class MethodDelivery:
    """``Delivery`` of the batches of ``events`` by a logging method. ``instance_id``: the archive's, once the run is started."""

    events: EventDelivery
    connection: MethodConnection
    instance_id: str = ""
    unit: str = "events"
    needs_close: bool = True
    reaches_archive: bool = False

    @property
    def run(self) -> RunName:
        """See ``Delivery``."""
        return self.events.run

    def for_attempt(self, started: StartedRun) -> MethodDelivery:
        """See ``Delivery``."""
        return replace(self, events=self.events.for_attempt(started), instance_id=started.instance_id)

    def ending_before(self, packed: bytes) -> MethodDelivery:
        """See ``Delivery``."""
        return replace(self, events=self.events.ending_before(packed))

    def close_in_closed_run(self, archive: Archive) -> None:
        """See ``Delivery``: where the events are, then in the archive."""
        if self.events.end_id is not None:
            self.connection.end(*self._writer, WriterEnd(self.events.end_id - self.events.first_id, None))
        self.events.close_in_closed_run(archive)

    def fit_to_request(self, batch: bytes) -> bytes:
        """See ``Delivery``."""
        return self.events.fit_to_request(batch)

    def pack(self, batch: bytes) -> bytes:
        """See ``Delivery``."""
        return self.events.pack(batch)

    def count(self, batch: bytes | bytearray) -> int:
        """See ``Delivery``."""
        return self.events.count(batch)

    def open(self, archive: Archive, zone: str = "") -> str:
        """Register the writer: from now on the run is not complete without it."""
        return self.events.open(archive)

    def append(self, archive: Archive, packed: bytes, position: str) -> AppendResult:
        """Events by the method, then steps to the archive."""
        events = [self._complete(json.loads(event)) for event in self.events.events_in(packed)]
        refused = self.connection.write(*self._writer, events) if events else ()
        stored = AppendResult(position, len(events) - len(refused), len(refused), refused[0] if refused else "")
        return self.events.update_steps(archive, packed, stored)

    def close(self, archive: Archive) -> None:
        """Record the end of the writer where its events are, then report it to the archive."""
        self.connection.end(*self._writer, self.events.end_in_attempt())
        self.events.close(archive)

    def facts(self) -> dict[str, Any]:
        """The fields of the events, the method's name, and the archive's instance."""
        return self.events.facts() | {"method": self.connection.name, "instanceId": self.instance_id}

    def end_facts(self) -> dict[str, Any]:
        """The end of the events' writer."""
        return self.events.end_facts()

    @property
    def _writer(self) -> tuple[RunName, str, str]:
        return self.run, self.events.writer, self.instance_id

    def _complete(self, event: dict[str, Any]) -> dict[str, Any]:
        """The event with the mandatory data of its run, by which the log browser finds it."""
        step = event.pop("step", None)
        mandatory = {"instanceId": self.instance_id, "loggableType": "run", "loggableId": self.run.run_id, "jobId": self.run.fqn}
        of_step = {} if step is None else {"stepId": step}
        return event | {"data": {**event.get("data", {}), **mandatory, **of_step}}

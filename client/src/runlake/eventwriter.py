"""A writer of events, registered with the run: the run is not complete until the writer is closed with the count of its events."""

from __future__ import annotations

import io
import threading
from types import TracebackType
from typing import Any

from runlake.events import now_ms
from runlake.handler import RunlogHandler
from runlake.names import RunName
from runlake.shipper import Counts
from runlake.steps import Step


class EventWriter:
    """Writes events of one run from its own thread, with the guarantees of RunlogHandler. A context manager, or call ``close``.

    Ids count from 0 over all steps. Thread-safe.
    """

    def __init__(self, handler: RunlogHandler) -> None:
        """``handler``: one that writes events. Created by ``Run.events``."""
        self._handler = handler

    @property
    def name(self) -> str:
        """The name that ``runlake status`` shows if the writer is lost."""
        return str(self._handler.writer)

    @property
    def run(self) -> RunName:
        """The pipeline and run."""
        return self._handler.run

    @property
    def counts(self) -> Counts:
        """The counts of its events so far: stored, dropped and so on."""
        return self._handler.counts

    def write(self, message: str, **more: Any) -> None:
        """Add an event. Options: ``level``, ``data``, ``annotations``, ``step``, ``timestamp_ms``; see ``RunlogHandler.event``."""
        self._handler.event(message, **more)

    def step(self, name: str, step_id: str | None = None, parent: Step | str | None = None) -> Step:
        """A step, as a context manager."""
        return self._handler.step(name, step_id, parent)

    def stream(self, *, level: str | None = None, step: str | None = None) -> io.TextIOBase:
        """A text stream that writes each line as an event, with the time at which it began; closing it writes an unterminated last line."""
        return _Lines(self, level, step)

    def flush(self) -> None:
        """Wait until all events so far are stored, at most ``exit_s`` seconds."""
        self._handler.flush()

    def close(self) -> None:
        """Ship the remaining events, and report their count. Idempotent."""
        self._handler.close()

    def __enter__(self) -> EventWriter:
        self._handler.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class _Lines(io.TextIOBase):
    def __init__(self, writer: EventWriter, level: str | None, step: str | None) -> None:
        self._writer, self._more = writer, {"level": level, "step": step}
        self._begun, self._began_ms = "", 0
        self._lock = threading.Lock()

    def write(self, text: str) -> int:
        with self._lock:
            arrived_ms = now_ms()
            began_ms = self._began_ms if self._begun else arrived_ms
            *complete, self._begun = (self._begun + text).split("\n")
            for line in complete:
                self._writer.write(line, timestamp_ms=began_ms, **self._more)
                began_ms = arrived_ms
            self._began_ms = began_ms
        return len(text)

    def writable(self) -> bool:
        return True

    def close(self) -> None:
        with self._lock:
            begun, self._begun = self._begun, ""
            if begun and not self.closed:
                self._writer.write(begun, timestamp_ms=self._began_ms, **self._more)
        super().close()

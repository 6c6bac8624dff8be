"""A run as a block of code: what is logged, written or printed inside belongs to it, and its end is the run's end. Inside of the command of
``runlake exec``, with the same names, the run is that of ``exec``, which closes it."""

from __future__ import annotations

import io
import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, TextIO

from runlake.eventwriter import EventWriter
from runlake.handler import RunlogHandler
from runlake.names import RunName
from runlake.outcomes import RunEnd, is_failure
from runlake.shipper import Counts
from runlake.steps import Step


class Run:
    """One run of a pipeline, open until the block ends. Made by ``run``."""

    def __init__(self, handler: RunlogHandler, logger: logging.Logger | None) -> None:
        self.handler = handler
        self._logger = logger
        self._writers: list[EventWriter] = []

    @property
    def name(self) -> RunName:
        """Its pipeline and id; of a later attempt, that one's once the archive has allocated it."""
        return self.handler.archived_as

    @property
    def counts(self) -> Counts:
        """What became of its lines so far."""
        return self.handler.counts

    def write(self, text: str) -> None:
        """Add lines as they are; the last one is ended where it is not."""
        if text:
            self.handler.write(text if text.endswith("\n") else text + "\n")

    def event(self, message: str, **more: Any) -> None:
        """Say something with ``level``, ``data``, ``annotations``; see ``RunlogHandler.event``. Raises SettingsError without ``events``."""
        self.handler.event(message, **more)

    def step(self, name: str, step_id: str | None = None, parent: Step | str | None = None) -> Step:
        """A part of the run, for ``with``: what is logged inside belongs to it. Its id is made up unless it is given, unlike all
        others of the run. Raises SettingsError without ``events``."""
        return self.handler.step(name, step_id, parent)

    def events(self, writer: str | None = None) -> EventWriter:
        """One more writer of events, with ids, a thread and an end of its own; the run waits for it to be complete.

        It needs no ``events`` of the run. The run's end closes it where nobody did.
        """
        made = EventWriter(self.handler.additional_writer(writer))
        self._writers.append(made)
        return made

    @contextmanager
    def capture_prints(self, *, stderr: bool = False) -> Iterator[None]:
        """Have what is printed to ``sys.stdout`` (and ``sys.stderr``) archived too; it is still printed. Lines are kept whole."""
        before = sys.stdout, sys.stderr
        sys.stdout = copied = TeeStream(sys.stdout, self.handler)
        others = [copied]
        if stderr:
            sys.stderr = also = TeeStream(sys.stderr, self.handler)
            others.append(also)
        try:
            yield
        finally:
            sys.stdout, sys.stderr = before
            for each in others:
                each.end_line()

    def __enter__(self) -> Run:
        self.handler.start()
        if self._logger is not None:
            self._logger.addHandler(self.handler)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """An exception is archived with its trace, is the run's outcome, and goes on its way."""
        if kind is not None and error is not None and is_failure(error):
            self.handler.handle(_record_of("the run ended by an exception", (kind, error, trace)))
        if self._logger is not None:
            self._logger.removeHandler(self.handler)
        for writer in self._writers:
            writer.close()
        if any(writer.counts.kept_lines for writer in self._writers):
            self.handler.leave_open()
        end = RunEnd.of_exception(error, self.handler.failed_step, self.handler.mask.text)
        self.handler.finish(self.handler.settings.exit_s, end=end)


def run(fqn: str, run_id: str | None = None, *, logger: logging.Logger | str | None = "", **options: Any) -> Run:
    """A run of a pipeline, for ``with``; its id is made up unless it is given.

    The handler is added to ``logger``: the root logger unless another is named, none with None. Levels stay as they are.
    ``options`` are those of RunlogHandler, settings among them: ``events=True`` for steps, ``secrets=[…]`` for what must not be
    seen. A run id that was used before gets its next attempt, or attempt ``attempt``. Raises SettingsError.
    """
    handler = RunlogHandler(fqn, run_id, close_run=True, **{"command": sys.argv, **options})
    return Run(handler, logging.getLogger(logger) if isinstance(logger, str) else logger)


class TeeStream(io.TextIOBase):
    """A stream that passes on what is written, and archives it line by line: threads that print do not mix their lines."""

    def __init__(self, stream: TextIO, handler: RunlogHandler) -> None:
        self._stream, self._handler = stream, handler
        self._begun = threading.local()

    def write(self, text: str) -> int:
        """As the stream's own."""
        written = self._stream.write(text)
        whole, newline, rest = (getattr(self._begun, "line", "") + text).rpartition("\n")
        self._begun.line = rest
        if newline:
            self._handler.write(whole + newline)
        return written

    def end_line(self) -> None:
        """Archive a line that was begun, by this thread."""
        line, self._begun.line = getattr(self._begun, "line", ""), ""
        if line:
            self._handler.write(line + "\n")

    def flush(self) -> None:
        """As the stream's own."""
        self._stream.flush()

    def writable(self) -> bool:
        """It is."""
        return True

    def isatty(self) -> bool:
        """Whether the stream is a terminal."""
        return self._stream.isatty()

    def fileno(self) -> int:
        """The stream's."""
        return self._stream.fileno()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """The stream's."""
        return self._stream.encoding


def _record_of(text: str, error: tuple[type[BaseException], BaseException, TracebackType | None]) -> logging.LogRecord:
    return logging.LogRecord("runlake", logging.ERROR, __file__, 0, text, None, error)

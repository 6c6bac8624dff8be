"""A handler for ``logging`` that archives what is logged. It never blocks, raises into, or outlives the application that logs."""

from __future__ import annotations

import atexit
import logging
import os
import shlex
import threading
import traceback
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from multiprocessing import util as processes
from typing import Any

from runlake.annotations import Annotation
from runlake.archive import Archive, import_for_requests
from runlake.buffer import Buffer, gap_line
from runlake.deliveries import EventDelivery, TextDelivery
from runlake.errors import SettingsError
from runlake.events import EventInput, EventLines, checked_name, checked_run_name, new_writer_name
from runlake.levels import checked_level, is_level, level_of_record
from runlake.masking import Mask
from runlake.names import RunName, new_run_id
from runlake.outcomes import RunEnd
from runlake.settings import Settings, load_settings
from runlake.shipper import Counts, Pace, Shipper, is_shipping, to_stderr
from runlake.spool import Spool, drain_command
from runlake.starts import Start, StartedRun, environment_of, inherited_start_id
from runlake.steps import Step, current_step

FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class ZonedFormatter(logging.Formatter):
    """Lines as ``2026-11-21 10:00:00.123+01:00 INFO app: message``, with times and levels that the archive reads. Local times with their zone:
    the archive takes a time without one for UTC."""

    def __init__(self) -> None:
        super().__init__(FORMAT)

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:
        """The record's time, to the millisecond."""
        return datetime.fromtimestamp(record.created).astimezone().isoformat(" ", "milliseconds")


class RunlogHandler(logging.Handler):
    """Ships records to one run of a pipeline, in batches, from a thread of its own.

    A logging call formats, and copies into memory: ``memory_bytes`` of it, then ``spool_bytes`` on disk; beyond both lines are
    dropped, counted, and a line in the log tells how many. Each line is stored once and in order, though the server may be away.
    ``close`` waits at most ``exit_s`` seconds, at exit too; what is left then is kept on disk for ``runlake drain``.
    After a fork parent and child ship to the same run, each its own lines; only the process that made the handler closes the run. Lines that
    come after the run was closed are in its next attempt, which the process that started it closes at its end. Until the run is closed the handler
    sends a heartbeat after every ``heartbeat_s`` seconds without lines, if it is to close the run.
    Secrets are masked before they get into memory or on disk.

    With ``events`` each record is an event: its message is the formatted record, its data the logger's name and the exception, its
    step the one that the code is in. The handler is then one writer of the run, in each process one of its own.

    Raises SettingsError where settings cannot be read, the address is missing or a name cannot be stored; nothing later.
    """

    def __init__(
        self,
        fqn: str,
        run_id: str | None = None,
        *,
        level: int | str = logging.NOTSET,
        close_run: bool = False,
        events: bool = False,
        writer: str | None = None,
        secrets: Iterable[str] | Mask = (),
        settings: Settings | None = None,
        connect: Callable[[], Archive] | None = None,
        tell: Callable[[str], None] = to_stderr,
        pace: Pace | None = None,
        command: str | Sequence[str] | None = None,
        attempt: int | None = None,
        on_started: Callable[[StartedRun], None] | None = None,
        start: Start | None = None,
        **setting_values: Any,
    ) -> None:
        """``given`` are settings as in ``runlake config``. ``close_run``: closing the handler ends the run. ``writer``: the name under
        which it writes events, unlike all others of the run; made up unless it is given. ``command``: text or words; the handler starts the run,
        as attempt ``attempt`` or the next free one, and ``on_started`` is called with it, from another thread; without it the handler joins the run.
        ``start``: that of another handler, whose attempt this one writes to. In the command of ``runlake exec``, with the same names, the
        handler writes to the attempt of ``exec``, which alone closes it."""
        self.settings = _settings_of(settings, setting_values)
        self.settings.required_url()
        self.run = checked_run_name(RunName(fqn, run_id or new_run_id()))
        self.mask = secrets if isinstance(secrets, Mask) else Mask(secrets)
        self._requested_writer = None if writer is None else checked_name("writer", self.mask.text(writer))
        super().__init__(level)  # ``logging`` closes at exit what it knows: not before nothing can be raised any more
        self.setFormatter(ZonedFormatter())
        self._connect = connect or partial(Archive.of, self.settings)
        is_of_exec = start is None and inherited_start_id(self.run) is not None
        self._notify, self._pace, self._close_run = tell, pace or pace_of(self.settings), close_run and not is_of_exec
        self._owner = os.getpid()
        self._failure: BaseException | None = None
        self._failed_step = ""
        self._on_started = on_started
        heartbeat_s = int(self._pace.heartbeat_s) if self._close_run else 0
        if command is not None or is_of_exec:
            start = Start.now(self.run, _masked(command or "", self.mask), attempt, heartbeat_s=heartbeat_s)
        self._start = start
        self._begin(EventLines(self.mask) if events else None)
        _handlers.add(self)
        atexit.register(_close_at_exit, weakref.ref(self))
        # Processes of multiprocessing leave without atexit; they have their own list of what to do last.
        processes.register_after_fork(self, RunlogHandler._close_at_the_end_of_a_child)

    @property
    def counts(self) -> Counts:
        """Lines (or events) stored, dropped, refused and kept so far, of this process."""
        counts = self._shipper.counts
        if self._lines is not None:
            counts.cut_lines = self._lines.cut
        return counts

    @property
    def archived_as(self) -> RunName:
        """The run that the log is stored as: ``run``, or a later attempt of it."""
        return self._shipper.run

    @property
    def environment(self) -> dict[str, str]:
        """The variables by which a command that this process runs writes to the same run and attempt."""
        return self._start.environment(self.run) if self._start else environment_of(self.run)

    @property
    def writer(self) -> str | None:
        """The name under which this process writes events; None: it writes lines."""
        return self._writer

    def emit(self, record: logging.LogRecord) -> None:
        """Format and hand over. A record that cannot be formatted is told as ``logging`` tells it, and nothing is raised."""
        if is_shipping():
            return
        try:
            if self._lines is None:
                self.write(self.format(record) + "\n")
            else:
                self._emit_event(record)
        except RecursionError:
            raise
        except Exception:
            self.handleError(record)

    def write(self, text: str, level: str | None = None) -> None:
        """Add text as it is, whole lines; as events they are one, of this level where it is one. Anything after ``close`` is dropped, and counted."""
        if self._lines is not None:
            return self.event(text.removesuffix("\n"), level=level if level and is_level(level) else None)
        self._put(self.mask.bytes(text.encode("utf-8", "replace")))

    def write_bytes(self, data: bytes, wait_s: float) -> None:
        """Add bytes as they are, and wait for room while the archive moves: for those who can be held up. See ``Buffer.put``.

        A secret that is cut by their end is not seen: ``mask.stream()`` is for bytes that come in pieces.
        """
        if self._lines is not None:
            return self._add_event(EventInput(data.decode("utf-8", "replace").removesuffix("\n"), self._step()), wait_s)
        self._put(self.mask.bytes(data), wait_s)

    def event(
        self,
        message: str,
        *,
        level: str | None = None,
        data: Mapping[str, Any] | None = None,
        annotations: Iterable[Annotation] = (),
        step: str | None = None,
        timestamp_ms: int | None = None,
    ) -> None:
        """Add an event: one or many lines, with ``data`` (JSON; what is none becomes its ``repr``) and notes beside the text.

        ``step``: the id of its step; the one that this code is in unless it is given. ``data`` and annotations have 60 KB at most
        between them, or are left out; the names instanceId, loggableType, loggableId, jobId and stepId are the archive's own.
        ``level``: any usual name of one. Raises SettingsError for another, and without ``events``.
        """
        step_id = None if step is None else checked_name("step", self.mask.text(step))
        named = None if level is None else checked_level(level)
        self._add_event(EventInput(message, step_id or self._step(), named, timestamp_ms, data or {}, annotations))

    def step(self, name: str, step_id: str | None = None, parent: Step | str | None = None) -> Step:
        """A step, for ``with``; inside of another one it is a part of that, unless ``parent`` names one. Raises SettingsError."""
        self._events()
        return Step(self, name, step_id, parent)

    @property
    def failed_step(self) -> str:
        """The id of the innermost step that the last exception has left; empty: none."""
        return self._failed_step

    def step_failed(self, step_id: str, error: BaseException) -> None:
        """An exception has left a step."""
        if self._failure is not error:
            self._failure, self._failed_step = error, step_id

    def update_step(self, step_id: str, facts: Mapping[str, Any]) -> None:
        """Tell of a step: ``name``, ``parent``, ``startedMs``, ``endedMs``, ``status``; what is told later counts. Raises SettingsError."""
        self._put(self._events().step(step_id, facts))

    def flush(self) -> None:
        """Wait until what was logged is stored, at most ``exit_s`` seconds."""
        if not is_shipping():
            self._shipper.flush(self.settings.exit_s)

    def close(self) -> None:
        """Ship what is left, and close the run if this handler is to. Again: nothing."""
        self.finish(self.settings.exit_s)

    def finish(
        self, timeout_s: float, *, while_moving: bool = False, end: RunEnd | None = None, report_wait: bool = False
    ) -> Counts:
        """``close`` with a time of your own, and the outcome of the run; see ``Shipper.finish``."""
        _handlers.discard(self)
        close_run = self._close_run and os.getpid() == self._owner
        counts = self._shipper.finish(timeout_s, close=close_run, while_moving=while_moving, end=end, report_wait=report_wait)
        super().close()
        return counts

    def additional_writer(self, writer: str | None = None) -> RunlogHandler:
        """Another writer of events to the same run, with the same settings and secrets. Closing it ends no run."""
        return RunlogHandler(
            self.run.fqn, self.run.run_id, events=True, writer=writer, secrets=self.mask, settings=self.settings,
            connect=self._connect, tell=self._notify, pace=self._pace, start=self._start,
        )  # fmt: skip

    def leave_open(self) -> None:
        """Close no run after all: a writer beside this one has events on disk, and a closed run would not take them. If the run was closed
        before, they wait for an attempt of their own."""
        if self._close_run and not self._shipper.has_moved:
            self._close_run = False
            self._notify(
                f"{self.archived_as} is left running for what waits on disk:"
                f" run `{drain_command(self.settings.spool_root)}`, then `runlake close {self.archived_as.words}`"
            )

    def start(self) -> None:
        """Begin before there is anything to ship: a writer of events is registered, so that it is missed if it dies."""
        self._shipper.start()

    def _begin(self, lines: EventLines | None) -> None:
        settings = self.settings
        spool = Spool(settings.spool_root, settings.spool_bytes) if settings.spool_bytes else None
        self._order = threading.RLock()  # ids in the order of the buffer; reentrant, as the buffer's own
        self._lines = lines
        self._writer = None if lines is None else self._writer_name()
        self._buffer = Buffer(settings.memory_bytes, spool, lines.gap if lines else gap_line)
        delivery = EventDelivery(self.run, self._writer, lines.end) if lines and self._writer else TextDelivery(self.run)
        ends_the_run = self._close_run and os.getpid() == self._owner
        pace = self._pace if ends_the_run else replace(self._pace, heartbeat_s=0)
        self._shipper = Shipper(self._connect, delivery, self._buffer, pace, self._notify, self._start, self._on_started)

    def _writer_name(self) -> str:
        if self._requested_writer is None:
            return new_writer_name()
        return self._requested_writer if os.getpid() == self._owner else f"{self._requested_writer}-{new_writer_name()}"

    def _begin_in_child(self) -> None:
        """After a fork: the parent ships what it has; here everything is new, locks and connection too."""
        self._shipper.abandon()
        self._begin(None if self._lines is None else EventLines(self.mask))

    def _emit_event(self, record: logging.LogRecord) -> None:
        data = {"logger": record.name}
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            data["exception"] = "".join(traceback.format_exception_only(error)).strip()
        level = level_of_record(record.levelname, record.levelno)
        self.event(self.format(record), level=level, data=data, timestamp_ms=int(record.created * 1000))

    def _add_event(self, said: EventInput, wait_s: float = 0.0) -> None:
        lines = self._events()
        with self._order:
            self._put(lines.event(said), wait_s)

    def _put(self, data: bytes, wait_s: float = 0.0) -> None:
        self._buffer.put(data, wait_s)
        self._shipper.start()

    def _events(self) -> EventLines:
        if self._lines is None:
            following = "make the run or the handler with events=True"
            raise SettingsError(
                "this run is written as plain lines: steps and events need runlake.run(…, events=True)", next_step=following
            )
        return self._lines

    def _step(self) -> str | None:
        step = current_step(self.run)
        return step.id if step else None

    def _close_at_the_end_of_a_child(self) -> None:
        processes.Finalize(None, _close_at_exit, args=(weakref.ref(self),), exitpriority=0)


def _settings_of(settings: Settings | None, values: Mapping[str, Any]) -> Settings:
    """All at once, or one by one. Raises SettingsError."""
    if settings is None:
        return load_settings(values)
    if values:
        following = "give all settings in settings=, or each by its own name"
        raise SettingsError(f"next to settings= there are no others: {', '.join(sorted(values))}", next_step=following)
    return settings


def _masked(command: str | Sequence[str], mask: Mask) -> str:
    """Words before they are quoted, which changes a secret with an apostrophe; then the text, for a secret that is several words."""
    return mask.text(command if isinstance(command, str) else shlex.join(map(mask.text, command)))


def pace_of(settings: Settings) -> Pace:
    """The pace that the settings ask for."""
    return Pace(batch_bytes=settings.batch_bytes, interval_s=settings.interval_s, heartbeat_s=settings.heartbeat_s)


_handlers: weakref.WeakSet[RunlogHandler] = weakref.WeakSet()


def _close_at_exit(handler: Callable[[], RunlogHandler | None]) -> None:
    alive = handler()
    if alive is not None:
        alive.close()


def _before_fork() -> None:
    if _handlers:
        import_for_requests()


def _after_fork_in_child() -> None:
    for handler in list(_handlers):
        handler._begin_in_child()


os.register_at_fork(before=_before_fork, after_in_child=_after_fork_in_child)

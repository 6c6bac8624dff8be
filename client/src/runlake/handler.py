"""A ``logging`` handler that archives records. It never blocks the application, raises into it, or outlives it."""

from __future__ import annotations

import atexit
import logging
import os
import shlex
import sys
import threading
import traceback
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import cache, partial
from hashlib import blake2b
from typing import Any

from runlake import credentials
from runlake.annotations import Annotation
from runlake.archive import Archive, import_for_requests
from runlake.buffer import Buffer, gap_line, hole_line, no_line
from runlake.deliveries import Delivery, EventDelivery, TextDelivery
from runlake.draining import BackgroundDrain, drain_group
from runlake.errors import SettingsError
from runlake.events import EventInput, EventLines, checked_name, checked_run_name, new_writer_name
from runlake.levels import checked_level, is_level, level_of_record
from runlake.masking import Mask
from runlake.methoddelivery import MethodConnection, MethodDelivery
from runlake.methods import choose_method
from runlake.names import RunName, new_run_id
from runlake.outcomes import RunEnd
from runlake.settings import PROFILE_VARIABLE, Settings, load_settings
from runlake.shipper import Counts, Pace, Shipper, is_shipping, to_stderr
from runlake.spool import Spool, drain_command
from runlake.spoolstate import SpoolState
from runlake.starts import Start, StartedRun, environment_of, inherited_method, inherited_start_id, inherited_zone
from runlake.steps import Step, current_step
from runlake.zones import checked_zone, zone_of_formatter

_LONGEST_LINE_BYTES = 128 * 1024
"""Of an event that is a line of bytes: as JSON, in which a character may take six, it is within the limit of an event."""
FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class ZonedFormatter(logging.Formatter):
    """Lines as ``2026-11-21 10:00:00.123+01:00 INFO app: message``, with times and levels that the archive parses. Times are local, with their
    zone: the archive reads a time without one in the zone of the run, or in UTC."""

    def __init__(self) -> None:
        super().__init__(FORMAT)

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:
        """The record's time, in milliseconds."""
        return datetime.fromtimestamp(record.created).astimezone().isoformat(" ", "milliseconds")


class RunlogHandler(logging.Handler):
    """Ships records to one run of a pipeline, in batches, from its own thread.

    A logging call formats, and copies into memory, ``memory_bytes`` at most; within a second, lines are stored or on disk, ``spool_bytes`` at most.
    Beyond both, lines are dropped and counted, and a line in the log states how many. Each line is stored once and in order, despite outages of
    the server and deaths of the process. ``close`` waits at most ``exit_s`` seconds, at exit too; what is on disk then is shipped by the next
    process, or by ``runlake drain``.
    After a fork, parent and child ship to the same run, each its own lines; only the process that created the handler closes the run. Lines
    that come after the run was closed are in its next attempt, and the process that started that closes it at its end. A handler that is to
    close the run, or has another logging method than ``runlog``, sends a heartbeat after every ``heartbeat_s`` seconds without requests.
    Secrets are masked before they get into memory or on disk.

    With ``events`` each record is an event: the message is the formatted record, its data are the logger's name and the exception, its step
    is the current one. The handler is then a writer of the run; each forked process is another one.

    Raises SettingsError if settings cannot be read, the address is missing or a name cannot be stored; later calls raise no other errors.
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
        data: Mapping[str, Any] | None = None,
        secrets: Iterable[str] | Mask = (),
        settings: Settings | None = None,
        connect: Callable[[], Archive] | None = None,
        tell: Callable[[str], None] = to_stderr,
        pace: Pace | None = None,
        command: str | Sequence[str] | Callable[[], str] | None = None,
        attempt: int | None = None,
        on_started: Callable[[StartedRun], None] | None = None,
        start: Start | None = None,
        method: str | None = None,
        zone: str = "",
        **setting_values: Any,
    ) -> None:
        """``setting_values``: settings as in ``runlake config``. ``close_run``: closing the handler ends the run. ``tell``: gets messages for a
        person. ``writer``: the name under which it writes events, unique in the run; generated by default. ``data``: of all its events, which
        may override single fields. ``command``: text or words, or a function that returns them masked; the handler starts the run, as attempt
        ``attempt`` or the next free one, and calls ``on_started`` with it, from another thread; without it the handler joins the run.
        ``start``: that of another handler, whose attempt this one writes to. In the command of ``runlake exec``, with the same names, the handler
        writes to the attempt of ``exec``, by its method, and only ``exec`` closes it. ``method``: the logging method, by name; by default what
        the settings say. With another one than ``runlog`` all records are events, and a writer's name is made unique. ``zone``: of times
        without one in the run's lines, as ``Europe/Berlin``, ``+01:00`` or ``local``; by default none is stated, unless a formatter is set that
        writes times without their zone. The run keeps the first one that is stated."""
        self.settings = _settings_of(settings, setting_values)
        self.settings.required_url()
        _ = self.settings.spool_root
        self.run = checked_run_name(RunName(fqn, run_id or new_run_id()))
        inherited = inherited_method(self.run) if start is None else None
        self._method = choose_method(self.settings, self.run.fqn, inherited or method)
        self.mask = secrets if isinstance(secrets, Mask) else Mask(secrets, shapes=self.settings.mask)
        self._is_of_exec = start is None and inherited_start_id(self.run) is not None
        self._zone = (inherited_zone(self.run) if self._is_of_exec else "") or (checked_zone(zone) if zone else "")
        self._requested_writer = None if writer is None else checked_name("writer", self.mask.text(writer))
        super().__init__(level)  # ``logging`` closes it at exit from here on, so nothing may raise after this
        super().setFormatter(ZonedFormatter())
        self._connect = connect or partial(Archive.of, self.settings)
        self._notify, self._pace, self._close_run = tell, pace or pace_of(self.settings), close_run and not self._is_of_exec
        self._owner = os.getpid()
        self._failure: BaseException | None = None
        self._failed_step = ""
        self._is_of_processes = False
        self._on_started = on_started
        heartbeat_s = int(self._pace.heartbeat_s) if self._sends_heartbeats else 0
        if command is not None or self._is_of_exec:
            name, text = self._method.name, cache(command) if callable(command) else masked_command(command or "", self.mask)
            start = Start.now(self.run, text, attempt, heartbeat_s=heartbeat_s, method=name)
        elif start is None and self._method.method is not None:  # the archive must know the method before the first event
            start = Start.now(self.run, "", is_joining=True, heartbeat_s=heartbeat_s, method=self._method.name)
        self._start = start
        identity = start.start_id if start else os.urandom(8).hex()
        self._group = blake2b(identity.encode("utf-8", "replace"), digest_size=8).hexdigest()
        if notice := self.mask.missing():
            tell(notice)
        if self._method.problem:
            tell(f"{self._method.problem}: the run log replaces it")
        self._data = dict(data or {})
        is_text = not events and self._method.method is None
        self._connection: MethodConnection | None = None
        self._begin(None if is_text else EventLines(self.mask, self._data))
        _handlers.add(self)
        atexit.register(_close_at_exit, weakref.ref(self))
        self._background = BackgroundDrain(self.settings, tell)
        self._background.start()

    @property
    def counts(self) -> Counts:
        """Lines (or events) of this process so far: stored, dropped, refused, left on disk."""
        counts = self._shipper.counts
        if self._lines is not None:
            counts.cut_lines = self._lines.cut
        return counts

    @property
    def archived_as(self) -> RunName:
        """The run that stores the log: ``run``, or a later attempt of that run."""
        return self._shipper.run

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables that make a child process write to the same run and attempt, with the same profile."""
        profile = {PROFILE_VARIABLE: self.settings.profile} if self.settings.profile else {}
        return profile | (self._start.environment(self.run, self._zone) if self._start else environment_of(self.run))

    @property
    def method(self) -> str:
        """The name of the logging method."""
        return self._method.name

    @property
    def writer(self) -> str | None:
        """The name under which this process writes events; None: it writes lines."""
        return self._writer

    def setFormatter(self, fmt: logging.Formatter | None) -> None:
        """See ``logging``. The zone of its times is stated for the run, if it writes them without their zone and the run has no line yet; in the
        command of ``exec`` only ``exec`` states one."""
        super().setFormatter(fmt)
        if not self._zone and not self._is_of_exec and self._lines is None:
            with suppress(Exception):  # of a formatter of the application
                self._zone = zone_of_formatter(fmt)
            if self._zone:
                self._shipper.state_zone(self._zone)

    def emit(self, record: logging.LogRecord) -> None:
        """Format and enqueue. A record that cannot be formatted is passed to ``handleError``, and nothing is raised."""
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

    def write(self, text: str, level: str | None = None, timestamp_ms: int | None = None) -> None:
        """Add text without formatting, complete lines. With ``events`` it is one event, with this time, and with this level if the archive knows
        it. After ``close`` text is dropped, and counted."""
        if self._lines is not None:
            known = level if level and is_level(level) else None
            return self.event(text.removesuffix("\n"), level=known, timestamp_ms=timestamp_ms)
        self._put(self.mask.bytes(text.encode("utf-8", "replace")))

    def write_bytes(self, data: bytes, wait_s: float) -> None:
        """Add bytes unchanged, and block until there is room; see ``Buffer.put``. With events each line is one, once it is complete.

        A secret that continues after their end is not masked: use ``mask.stream()`` for bytes that come in pieces.
        """
        if self._lines is not None:
            return self._add_lines(data, wait_s)
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
        """Add an event: one line or more, with ``data`` (JSON; other values become their ``repr``) and annotations.

        ``step``: the id of its step; by default the current one. ``data`` and annotations have 60 KB at most together, or are omitted; the names
        instanceId, loggableType, loggableId, jobId and stepId are reserved by the archive. ``level``: any usual level name. Raises SettingsError
        for another level, and without ``events``.
        """
        step_id = None if step is None else checked_name("step", self.mask.text(step))
        named = None if level is None else checked_level(level)
        self._add_event(EventInput(message, step_id or self._step(), named, timestamp_ms, data or {}, annotations))

    def step(self, name: str, step_id: str | None = None, parent: Step | str | None = None) -> Step:
        """A step, as a context manager; its parent is ``parent``, or the step that the code is in. Raises SettingsError."""
        self._events()
        return Step(self, name, step_id, parent)

    @property
    def failed_step(self) -> str:
        """The id of the innermost step that the last exception left; empty: none."""
        return self._failed_step

    def step_failed(self, step_id: str, error: BaseException) -> None:
        """Record that an exception left a step."""
        if self._failure is not error:
            self._failure, self._failed_step = error, step_id

    def update_step(self, step_id: str, facts: Mapping[str, Any]) -> None:
        """Set fields of a step: ``name``, ``parent``, ``startedMs``, ``endedMs``, ``status``; later values win. Raises SettingsError."""
        self._put(self._events().step(step_id, facts))

    def flush(self) -> None:
        """Wait until all records so far are stored, at most ``exit_s`` seconds."""
        if not is_shipping():
            self._shipper.flush(self.settings.exit_s)

    def close(self) -> None:
        """Ship the remaining lines, and close the run if this handler is to close it. Idempotent."""
        self.finish(self.settings.exit_s)

    def finish(
        self, timeout_s: float, *, while_moving: bool = False, end: RunEnd | None = None, report_wait: bool = False
    ) -> Counts:
        """``close`` with another timeout, and the outcome of the run; see ``Shipper.finish``."""
        _handlers.discard(self)
        self._background.stop()
        if self._unfinished:
            self._add_lines(b"\n", 0.0)
        close_run = self._close_run and os.getpid() == self._owner
        counts = self._shipper.finish(timeout_s, close=close_run, while_moving=while_moving, end=end, report_wait=report_wait)
        if self._connection is not None and self._shipper.is_ended:
            self._connection.close()
        super().close()
        return counts

    def record_end(self, end: RunEnd) -> None:
        """Write the outcome of the run to disk, before its last lines come: if this process is killed from here on, ``runlake drain`` closes the run
        with it."""
        if self._close_run:
            self._shipper.record_end(end)

    def hurry(self, timeout_s: float) -> None:
        """See ``Shipper.hurry``."""
        self._shipper.hurry(timeout_s)

    def additional_writer(self, writer: str | None = None, data: Mapping[str, Any] | None = None) -> RunlogHandler:
        """Another writer of events to the same run, with the same settings and secrets, and data of its own. Closing it does not end the
        run."""
        return RunlogHandler(
            self.run.fqn, self.run.run_id, events=True, writer=writer, data=data, secrets=self.mask, settings=self.settings,
            connect=self._connect, tell=self._notify, pace=self._pace, start=self._start,
            method=self._method.name,
        )  # fmt: skip

    def leave_open(self) -> None:
        """Do not close the run: another writer has events on disk, which a closed run would not accept. If the run was closed before, they go to
        a new attempt."""
        if self._close_run and not self._shipper.has_moved:
            self._close_run = False
            self._notify(
                f"{self.archived_as} is left running, because events wait on disk:"
                f" run `{drain_command(self.settings.spool_root)}`, then `runlake close {self.archived_as.words}`"
            )

    def start(self) -> None:
        """Start before the first record: a writer of events is registered, so that the archive misses it if it dies."""
        self._shipper.start()

    def _begin(self, lines: EventLines | None) -> None:
        self._unfinished = bytearray()
        self._order = threading.RLock()  # ids in the order of the buffer; reentrant, like the buffer's lock
        self._lines = lines
        self._writer = None if lines is None else self._writer_name()
        delivery, is_child = self._delivery(lines), os.getpid() != self._owner
        self._buffer = Buffer(
            self.settings.memory_bytes,
            self._spool(delivery),
            lines.gap if lines else gap_line,
            no_line if lines else hole_line,
            writes_through=is_child,  # it may be ended by a signal, as by a pool, without a chance to ship
        )
        pace = self._pace if self._sends_heartbeats and not is_child else replace(self._pace, heartbeat_s=0)
        self._shipper = Shipper(self._connect, delivery, self._buffer, pace, self._notify, self._on_started, self._drain_group)

    def _spool(self, delivery: Delivery) -> Spool:
        settings = self.settings
        facts, url = delivery.facts(), settings.required_url()
        state = SpoolState(url, self.run, self.run, self._group, self._start, facts=facts, zone=self._zone)
        root = settings.spool_root if settings.spool_bytes else None
        return Spool(root, state, settings.spool_bytes, self._report_disk)

    def _report_disk(self, error: OSError) -> None:
        """Called with the buffer locked: ``tell`` may log, which waits for that lock, or for one of ``logging`` whose owner does."""
        following = "correct it, or name another folder by RUNLAKE_SPOOL_DIR"
        text = f"{self.run}: the spool cannot be written, lines wait in memory: {error} ({following})"
        with suppress(RuntimeError):  # the interpreter is shutting down
            threading.Thread(target=self._notify, args=(text,), name="runlake-disk").start()

    def _drain_group(self) -> None:
        """Ship what dead children left, while the run is open."""
        if self._method.method is None:
            drain_group(self.settings, self._group, self._connect)

    @property
    def _sends_heartbeats(self) -> bool:
        """Events in another system do not show the archive that the run is alive."""
        return self._close_run or self._method.method is not None

    def _delivery(self, lines: EventLines | None) -> Delivery:
        if lines is None or self._writer is None:
            return TextDelivery(self.run)
        events = EventDelivery(self.run, self._writer, lines.end)
        if self._method.method is None:
            return events
        self._connection = MethodConnection(self._method.name, self._method.method)
        return MethodDelivery(events, self._connection)

    def _writer_name(self) -> str:
        if self._requested_writer is None:
            return new_writer_name()
        is_unique = os.getpid() == self._owner and self._method.method is None  # another system stores an id of a writer once
        return self._requested_writer if is_unique else f"{self._requested_writer}-{new_writer_name()}"

    def _begin_in_child(self) -> None:
        """After a fork: the parent ships its records; the child gets a new buffer, shipper, locks and connection."""
        self._shipper.abandon()
        self._begin(None if self._lines is None else EventLines(self.mask, self._data))

    def _emit_event(self, record: logging.LogRecord) -> None:
        data = {"logger": record.name}
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            data["exception"] = "".join(traceback.format_exception_only(error)).strip()
        level = level_of_record(record.levelname, record.levelno)
        self.event(self.format(record), level=level, data=data, timestamp_ms=int(record.created * 1000))

    def _add_event(self, said: EventInput, wait_s: float = 0.0) -> None:
        lines = self._events()
        if wait_s:  # not with the order held: another thread may have to end the log meanwhile
            self._buffer.wait_for_room(len(said.message), wait_s)
        with self._order:
            self._put(lines.event(said))

    def _add_lines(self, data: bytes, wait_s: float) -> None:
        """An event for each line that is complete; a longer one than ``_LONGEST_LINE_BYTES`` becomes several. Memory: one line of that length."""
        with self._order:
            self._unfinished += data
            lines = list[bytes | bytearray]()
            if b"\n" in data:
                complete, _, unfinished = self._unfinished.rpartition(b"\n")
                lines, self._unfinished = [*complete.split(b"\n")], unfinished
            if len(self._unfinished) > _LONGEST_LINE_BYTES:
                cut = len(self._unfinished) - 1  # something of the line stays: its end makes no empty event
                lines.append(self._unfinished[:cut])
                del self._unfinished[:cut]
        for line in lines:
            for start in range(0, max(len(line), 1), _LONGEST_LINE_BYTES):
                text = line[start : start + _LONGEST_LINE_BYTES].decode("utf-8", "replace")
                self._add_event(EventInput(text, self._step()), wait_s)

    def _put(self, data: bytes, wait_s: float = 0.0) -> None:
        self._buffer.put(data, wait_s)
        self._shipper.start()

    def _events(self) -> EventLines:
        if self._lines is None:
            following = "make the run or the handler with events=True"
            raise SettingsError("this run has plain lines: steps and events need runlake.run(…, events=True)", next_step=following)
        return self._lines

    def _step(self) -> str | None:
        step = current_step(self.run)
        return step.id if step else None

    def _close_in_processes(self, processes: Any) -> None:
        """Processes of multiprocessing exit without atexit; they have finalizers. ``processes``: its module."""
        if not self._is_of_processes:
            self._is_of_processes = True
            processes.register_after_fork(
                self, lambda handler: processes.Finalize(None, _close_at_exit, args=(weakref.ref(handler),), exitpriority=0)
            )


def _settings_of(settings: Settings | None, values: Mapping[str, Any]) -> Settings:
    """Either all settings at once, or each by name. Raises SettingsError."""
    if settings is None:
        return load_settings(values)
    if values:
        following = "pass all settings in settings=, or each by its name"
        raise SettingsError(f"settings= excludes single settings: {', '.join(sorted(values))}", next_step=following)
    return settings


def masked_command(command: str | Sequence[str], mask: Mask) -> str:
    """Masks each word before quoting, which changes a secret with an apostrophe; then the text, for a secret of several words."""
    return mask.text(command if isinstance(command, str) else shlex.join(map(mask.text, command)))


def pace_of(settings: Settings) -> Pace:
    """The pace of these settings."""
    return Pace(batch_bytes=settings.batch_bytes, interval_s=settings.interval_s, heartbeat_s=settings.heartbeat_s)


_handlers: weakref.WeakSet[RunlogHandler] = weakref.WeakSet()


def _close_at_exit(handler: Callable[[], RunlogHandler | None]) -> None:
    alive = handler()
    if alive is not None:
        alive.close()


def _before_fork() -> None:
    if _handlers:
        import_for_requests(is_secure=any(handler.settings.url.startswith("https:") for handler in _handlers))
    processes = sys.modules.get("multiprocessing.util")
    for handler in list(_handlers):
        if processes is not None:
            handler._close_in_processes(processes)
        handler.mask.prepare()
        if handler.settings.signer(handler.settings.url):
            with suppress(SettingsError):  # without botocore no request is sent
                credentials.import_for_requests()


def _after_fork_in_child() -> None:
    for handler in list(_handlers):
        handler._begin_in_child()


os.register_at_fork(before=_before_fork, after_in_child=_after_fork_in_child)

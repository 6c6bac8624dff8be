"""A handler for ``logging`` that archives what is logged. It never blocks, raises into, or outlives the application that logs."""

from __future__ import annotations

import atexit
import logging
import os
import weakref
from collections.abc import Callable
from functools import partial
from multiprocessing import util as processes
from typing import Any

from runlake.archive import Archive
from runlake.buffer import Buffer
from runlake.names import RunName, new_run_id
from runlake.settings import Settings, load_settings
from runlake.shipper import Counts, Pace, Shipper, is_shipping, to_stderr
from runlake.spool import Spool

FORMAT = "%(asctime)s.%(msecs)03d %(levelname)s %(name)s: %(message)s"
"""As ``2026-11-21 10:00:00.123 INFO app: message``: times and levels that the archive knows."""


class RunlogHandler(logging.Handler):
    """Ships records to one run of a pipeline, in batches, from a thread of its own.

    A logging call formats, and copies into memory: ``memory_bytes`` of it, then ``spool_bytes`` on disk; beyond both lines are
    dropped, counted, and a line in the log tells how many. Each line is stored once and in order, though the server may be away.
    ``close`` waits at most ``exit_s`` seconds, at exit too; what is left then is kept on disk for ``runlake drain``.
    After a fork parent and child ship to the same run, each its own lines; only the process that made the handler closes the run.

    Raises SettingsError where settings cannot be read or the address is missing; nothing later.
    """

    def __init__(
        self,
        fqn: str,
        run_id: str | None = None,
        *,
        level: int | str = logging.NOTSET,
        close_run: bool = False,
        settings: Settings | None = None,
        connect: Callable[[], Archive] | None = None,
        tell: Callable[[str], None] = to_stderr,
        pace: Pace | None = None,
        **given: Any,
    ) -> None:
        """``given`` are settings as in ``runlake config``. ``close_run``: closing the handler ends the run."""
        super().__init__(level)
        self.settings = settings or load_settings(given)
        self.settings.required_url()
        self.run = RunName(fqn, run_id or new_run_id())
        self.setFormatter(logging.Formatter(FORMAT, "%Y-%m-%d %H:%M:%S"))
        self._connect = connect or partial(Archive.of, self.settings)
        self._tell, self._pace, self._close_run = tell, pace or pace_of(self.settings), close_run
        self._owner = os.getpid()
        self._begin()
        _handlers.add(self)
        atexit.register(_close_at_exit, weakref.ref(self))
        # Processes of multiprocessing leave without atexit; they have their own list of what to do last.
        processes.register_after_fork(self, RunlogHandler._close_at_the_end_of_a_child)

    @property
    def counts(self) -> Counts:
        """Lines stored, dropped, refused and kept so far, of this process."""
        return self._shipper.counts

    def emit(self, record: logging.LogRecord) -> None:
        """Format and hand over. A record that cannot be formatted is told as ``logging`` tells it, and nothing is raised."""
        if is_shipping():
            return
        try:
            self.write(self.format(record) + "\n")
        except RecursionError:
            raise
        except Exception:
            self.handleError(record)

    def write(self, text: str) -> None:
        """Add text as it is, whole lines. Anything after ``close`` is dropped, and counted."""
        self._buffer.put(text.encode("utf-8", "replace"))
        self._shipper.start()

    def write_bytes(self, data: bytes, wait_s: float) -> None:
        """Add bytes as they are, and wait for room while the archive moves: for those who can be held up. See ``Buffer.put``."""
        self._buffer.put(data, wait_s)
        self._shipper.start()

    def flush(self) -> None:
        """Wait until what was logged is stored, at most ``exit_s`` seconds."""
        if not is_shipping():
            self._shipper.flush(self.settings.exit_s)

    def close(self) -> None:
        """Ship what is left, and close the run if this handler is to. Again: nothing."""
        self.finish(self.settings.exit_s)

    def finish(self, timeout_s: float, *, while_moving: bool = False) -> Counts:
        """``close`` with a time of your own; see ``Shipper.finish``."""
        _handlers.discard(self)
        close_run = self._close_run and os.getpid() == self._owner
        counts = self._shipper.finish(timeout_s, close=close_run, while_moving=while_moving)
        super().close()
        return counts

    def _begin(self) -> None:
        settings = self.settings
        spool = Spool(settings.spool_root, settings.spool_bytes) if settings.spool_bytes else None
        self._buffer = Buffer(settings.memory_bytes, spool)
        self._shipper = Shipper(self._connect, self.run, self._buffer, self._pace, self._tell)

    def _begin_in_child(self) -> None:
        """After a fork: the parent ships what it has; here everything is new, locks and connection too."""
        self._shipper.abandon()
        self._begin()

    def _close_at_the_end_of_a_child(self) -> None:
        processes.Finalize(None, _close_at_exit, args=(weakref.ref(self),), exitpriority=0)


def pace_of(settings: Settings) -> Pace:
    """The pace that the settings ask for."""
    return Pace(batch_bytes=settings.batch_bytes, interval_s=settings.interval_s)


_handlers: weakref.WeakSet[RunlogHandler] = weakref.WeakSet()


def _close_at_exit(handler: Callable[[], RunlogHandler | None]) -> None:
    found = handler()
    if found is not None:
        found.close()


def _after_fork_in_child() -> None:
    for handler in list(_handlers):
        handler._begin_in_child()


os.register_at_fork(after_in_child=_after_fork_in_child)

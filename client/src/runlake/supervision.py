"""A command with the signals of its parent, as if it had been started without it."""

from __future__ import annotations

import errno
import fcntl
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from math import inf
from types import TracebackType

from runlake_signals import ENDING, PASSED_ON, is_typed

END_S = 5.0
"""Seconds from a signal that ends the command, or from the command's end after it, to the end of ``runlake exec``; Docker kills after 10."""
_SET_PIPE_SIZE = 1031  # F_SETPIPE_SZ of Linux: Python names it since 3.10
_ONCE_S = 0.1
PIPE_BYTES = 1024 * 1024
"""An output's pipe holds so much at most: fewer switches between the command and this process than with the usual 64 KiB."""
_RESTORED = (signal.SIGPIPE, signal.SIGXFSZ)  # the interpreter ignores them
_WAKE = signal.SIGURG  # sent to the thread alone, by this process alone


class Supervisor:
    """Receives the signals of this process in a thread of its own, from ``start`` on, and passes them on to the command. Those that come earlier
    wait for it; those that the process ignored, or that were blocked, stay so in both.

    A typed signal is not passed on, since the terminal sends it to the command too. Neither is one that repeats another within ``_ONCE_S``:
    timeout(1) signals its child and then the group, and the command gets two signals, as without this process.

    ``hurry`` is called, once, when a signal has come that ends commands and the command has ended; ``stopped`` then becomes readable. Signals stay
    blocked after the block, so that none replaces the exit code.
    """

    def __init__(self) -> None:
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        self._signals = {number for number in PASSED_ON - self._mask if signal.getsignal(number) is not signal.SIG_IGN}
        signal.pthread_sigmask(signal.SIG_BLOCK, self._signals)
        self.received: set[int] = set()
        """Signals that came before the command's end."""
        self.is_interrupted = False
        """Whether one of them is a typed SIGINT."""
        self.stopped, self._stop = os.pipe()
        self._pid = 0
        self._code = 0
        self._ended = threading.Event()
        self._passed_on_s: dict[int, float] = {}
        self._is_hurrying = self._is_over = False
        self._thread = threading.Thread(target=self._work, name="runlake-signals", daemon=True)

    def __enter__(self) -> Supervisor:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._thread.is_alive():
            self._is_over = True
            signal.pthread_kill(self._thread.ident or 0, _WAKE)
            self._thread.join()
        os.close(self.stopped)
        if not self._is_hurrying:
            os.close(self._stop)

    def start(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        hurry: Callable[[], None],
        ended: Callable[[int], None] = lambda code: None,
    ) -> tuple[int, int]:
        """Start the command. Returns the descriptors of its stdout and stderr. ``ended`` is called with its exit code, as that of ``wait``. Raises
        OSError; then signals only hurry."""
        self._hurry, self._report_end = hurry, ended
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, it would take the exit code away
        signal.signal(_WAKE, lambda number, frame: None)  # without a handler, macOS drops it
        out, err = _pipe(), _pipe()
        try:
            if not command[0]:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))  # for which Python raises ValueError
            self._pid = os.posix_spawnp(
                command[0],
                list(command),
                environment,
                file_actions=[(os.POSIX_SPAWN_DUP2, out[1], 1), (os.POSIX_SPAWN_DUP2, err[1], 2)],
                setsigmask=self._mask,
                setsigdef=_RESTORED,
            )
        except OSError:
            self._ended.set()
            os.close(out[0])
            os.close(err[0])
            raise
        finally:
            os.close(out[1])
            os.close(err[1])
            before = signal.pthread_sigmask(signal.SIG_BLOCK, {_WAKE})  # the thread inherits it
            self._thread.start()
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        threading.Thread(target=self._wait_for_end, name="runlake-command", daemon=True).start()
        return out[0], err[0]

    def wait(self) -> int:
        """The command's exit code, or -N after signal N."""
        self._ended.wait()
        return self._code

    def _wait_for_end(self) -> None:
        _wait_for_exit(self._pid)
        signal.pthread_kill(self._thread.ident or 0, _WAKE)

    def _work(self) -> None:
        while True:
            number, is_from_terminal = _next_signal(self._signals | {_WAKE})
            if number != _WAKE:
                self._receive(number, is_from_terminal)
            elif self._is_over:
                return
            elif not self._ended.is_set():
                self._reap()

    def _receive(self, number: int, is_from_terminal: bool) -> None:
        if not self._ended.is_set():
            self.received.add(number)
            if is_from_terminal:
                self.is_interrupted |= number == signal.SIGINT
            elif time.monotonic() - self._passed_on_s.get(number, -inf) > _ONCE_S:
                self._passed_on_s[number] = time.monotonic()
                os.kill(self._pid, number)
        self._hurry_if_due(is_ending=number in ENDING)

    def _reap(self) -> None:
        # The signal that ended the command may be a typed one, which is then pending here.
        while pending := signal.sigpending() & self._signals:
            self._receive(*_next_signal(pending))
        self._code = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
        self._report_end(self._code)
        self._ended.set()
        self._hurry_if_due(is_ending=not self.received.isdisjoint(ENDING))

    def _hurry_if_due(self, *, is_ending: bool) -> None:
        if is_ending and self._ended.is_set() and not self._is_hurrying:
            self._is_hurrying = True
            os.close(self._stop)
            self._hurry()


def _next_signal(numbers: Collection[int]) -> tuple[int, bool]:
    """The next of these signals, which are blocked, and whether it was typed. macOS does not say: there, each in the foreground counts as typed."""
    if sys.platform == "darwin":
        number = signal.sigwait(numbers)
        return number, number in (signal.SIGINT, signal.SIGQUIT) and _is_in_foreground()
    received = signal.sigwaitinfo(numbers)
    return received.si_signo, is_typed(received)


def _is_in_foreground() -> bool:
    try:
        return os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        return False


def _wait_for_exit(pid: int) -> None:
    """Wait for the end of a child, without reaping it: until then its pid cannot be another process."""
    if sys.platform == "darwin":
        exit_of_child = select.kevent(pid, select.KQ_FILTER_PROC, select.KQ_EV_ADD, select.KQ_NOTE_EXIT)
        select.kqueue().control([exit_of_child], 1)
    else:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


def _pipe() -> tuple[int, int]:
    """The end to read, and the end to write, which is none of the descriptors 0 to 2 even if one of them was closed."""
    source, end = os.pipe()
    try:
        if sys.platform == "linux":
            with suppress(OSError):  # beyond the user's limit
                fcntl.fcntl(end, _SET_PIPE_SIZE, PIPE_BYTES)
        return source, fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 3)
    finally:
        os.close(end)

"""Running a command so that its output is archived, and nothing else about it changes: bytes, signals, exit code."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import BinaryIO

from runlake.handler import RunlogHandler
from runlake.shipper import to_stderr

_READ_BYTES = 64 * 1024
_NOT_FOUND, _NOT_EXECUTABLE = 127, 126
_PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
_BY_TERMINAL = (signal.SIGINT, signal.SIGQUIT)


def execute(
    command: Sequence[str],
    handler: RunlogHandler,
    out: BinaryIO,
    patience_s: float,
    report: Callable[[str], None] = to_stderr,
) -> int:
    """Run a command, its stdout and stderr as one to ``out`` and to the archive; the exit code as a shell tells it.

    Memory does not depend on how much is written: where the archive is slow and the spool is full, the command waits in its own
    ``write``. Where nothing moves for ``patience_s`` lines are dropped and counted instead. Like ``| tee`` it ends when the last
    process that holds the output has ended. The run's last line tells the end; closing the run is the caller's. The archive gets
    the handler's secrets masked, wherever the pieces of the output are cut; ``out`` gets the bytes as they are. ``report`` gets why a
    command could not be started.
    """
    started_s = time.monotonic()
    handler.start()
    reading, writing = os.pipe()
    with open(reading, "rb", buffering=0) as output:
        try:
            process = subprocess.Popen(command, stdout=writing, stderr=writing, env=_environment(handler))
        except OSError as error:
            return _not_started(command, handler, error, report)
        finally:
            os.close(writing)
        with _signals_passed_on(process):
            _copy(output.read, handler, _Tee(out), patience_s)
            code = process.wait()
    _tell_end(handler, code, time.monotonic() - started_s, patience_s)
    return code if code >= 0 else 128 - code


class _Tee:
    """A stream that may go away, as when ``| head`` has seen enough: the command and the archive go on."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream: BinaryIO | None = stream

    def write(self, data: bytes) -> None:
        if self._stream is not None:
            try:
                self._stream.write(data)
                self._stream.flush()
            except OSError:
                self._stream = None


def _copy(read: Callable[[int], bytes | None], handler: RunlogHandler, tee: _Tee, patience_s: float) -> None:
    ends_in_newline = True
    masked = handler.mask.stream()
    while data := read(_READ_BYTES):
        tee.write(data)
        if certain := masked.put(data):
            handler.write_bytes(certain, patience_s)
        ends_in_newline = data.endswith(b"\n")
    if rest := masked.end():
        handler.write_bytes(rest, patience_s)
    if not ends_in_newline:
        handler.write_bytes(b"\n", patience_s)  # what follows is a line of its own


def _environment(handler: RunlogHandler) -> dict[str, str]:
    return {**os.environ, **handler.environment}


def _not_started(command: Sequence[str], handler: RunlogHandler, error: OSError, report: Callable[[str], None]) -> int:
    message = f"{command[0]} could not be started: {error.strerror}"
    handler.write(f"[runlake] {message}\n")
    report(message)
    return _NOT_FOUND if isinstance(error, FileNotFoundError) else _NOT_EXECUTABLE


def _tell_end(handler: RunlogHandler, code: int, duration_s: float, patience_s: float) -> None:
    how = f"exit status {code}" if code >= 0 else f"killed by signal {-code} ({_signal_name(-code)})"
    handler.write_bytes(f"[runlake] {how} after {duration_s:.3f} s\n".encode(), patience_s)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "a signal without a name"


@contextmanager
def _signals_passed_on(process: subprocess.Popen[bytes]) -> Iterator[None]:
    def pass_on(number: int, _frame: FrameType | None) -> None:
        # What is typed at a terminal reaches the command by itself: it would come twice.
        if not (number in _BY_TERMINAL and _is_in_foreground()):
            process.send_signal(number)

    before = {number: signal.signal(number, pass_on) for number in _PASSED_ON}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _is_in_foreground() -> bool:
    try:
        return os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        return False

"""Run a command and archive its output without changing its bytes, signals or exit code."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import IO

from runlake.handler import RunlogHandler
from runlake.outcomes import CANCELLED, FAILED, SUCCEEDED, RunEnd
from runlake.outputs import Output, archive_outputs
from runlake.shipper import to_stderr

_NOT_FOUND, _NOT_EXECUTABLE = 127, 126
_PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
_BY_TERMINAL = (signal.SIGINT, signal.SIGQUIT)
_CANCELLING = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT}


def execute(
    command: Sequence[str],
    handler: RunlogHandler,
    out: IO[bytes] | None,
    err: IO[bytes] | None,
    patience_s: float,
    report: Callable[[str], None] = to_stderr,
) -> tuple[int, RunEnd]:
    """Run a command, its stdout to ``out``, its stderr to ``err``, and both to the archive as one log. Returns the exit code as a shell reports
    it, and the outcome of the run: a command that fails after it was sent a signal to end it is cancelled.

    Memory does not depend on the size of the output: if the archive is slow and the spool is full, the command blocks in its ``write``.
    After ``patience_s`` without progress, lines are dropped and counted instead. Like ``| tee``, it ends when the last process with one of the
    outputs open has ended. The run's last line is the result; the caller closes the run. The archive gets complete lines of each output, in
    the order in which they are read, with the handler's secrets masked even if a read splits them; ``out`` and ``err`` get the bytes at once,
    unchanged. ``report`` gets the reason if the command could not be started.
    """
    started_s = time.monotonic()
    handler.start()
    pipe = subprocess.PIPE
    try:
        process = subprocess.Popen(command, stdout=pipe, stderr=pipe, bufsize=0, env=_environment(handler))
    except OSError as error:
        return _not_started(command, handler, error, report)
    assert process.stdout is not None and process.stderr is not None
    sources = (process.stdout, out), (process.stderr, err)
    outputs = [Output(source, destination, handler.mask.stream()) for source, destination in sources]
    with process, _signals_passed_on(process) as passed_on:
        archive_outputs(outputs, lambda data: handler.write_bytes(data, patience_s))
        code = process.wait()
        _write_result_line(handler, code, time.monotonic() - started_s, patience_s)
    return code if code >= 0 else 128 - code, _end_of(code, is_cancelled=not passed_on.isdisjoint(_CANCELLING))


def _end_of(code: int, *, is_cancelled: bool) -> RunEnd:
    if code == 0:
        return RunEnd(SUCCEEDED, exit_code=0)
    outcome = CANCELLED if is_cancelled else FAILED
    return RunEnd(outcome, exit_code=code) if code > 0 else RunEnd(outcome, signal=_signal_name(-code))


def _environment(handler: RunlogHandler) -> dict[str, str]:
    return {**os.environ, **handler.environment}


def _not_started(
    command: Sequence[str], handler: RunlogHandler, error: OSError, report: Callable[[str], None]
) -> tuple[int, RunEnd]:
    message = f"{command[0]} could not be started: {error.strerror}"
    handler.write(f"[runlake] {message}\n")
    report(message)
    code = _NOT_FOUND if isinstance(error, FileNotFoundError) else _NOT_EXECUTABLE
    return code, RunEnd(FAILED, exit_code=code)


def _write_result_line(handler: RunlogHandler, code: int, duration_s: float, patience_s: float) -> None:
    how = f"exit status {code}" if code >= 0 else f"killed by signal {-code} ({_signal_name(-code)})"
    handler.write_bytes(f"[runlake] {how} after {duration_s:.3f} s\n".encode(), patience_s)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"


@contextmanager
def _signals_passed_on(process: subprocess.Popen[bytes]) -> Iterator[set[int]]:
    received: set[int] = set()

    def pass_on(number: int, _frame: FrameType | None) -> None:
        received.add(number)
        # The terminal sends a typed signal to the command too: passed on, it would arrive twice.
        if not (number in _BY_TERMINAL and _is_in_foreground()):
            process.send_signal(number)

    before = {number: signal.signal(number, pass_on) for number in _PASSED_ON}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def interruptible() -> Iterator[None]:
    """A signal that would end the process only interrupts the block, so that lines are stored on disk and the exit code is the command's.
    Further ones are ignored until the process ends. While a command runs, they are passed on to it instead."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        for each in _CANCELLING:
            signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in _CANCELLING}
    with suppress(KeyboardInterrupt):
        yield
        for number, handler in before.items():
            signal.signal(number, handler)


def _is_in_foreground() -> bool:
    try:
        return os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        return False

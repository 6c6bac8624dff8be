"""Run a command and archive its output without changing its bytes, signals or exit code."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from typing import IO

from runlake.handler import RunlogHandler
from runlake.masking import StreamMask
from runlake.outcomes import CANCELLED, FAILED, SUCCEEDED, RunEnd
from runlake.outputs import Output, archive_outputs
from runlake.shipper import to_stderr
from runlake.supervision import END_S, Supervisor
from runlake_signals import ENDING

_NOT_FOUND, _NOT_EXECUTABLE = 127, 126


def execute(
    command: Sequence[str],
    handler: RunlogHandler,
    supervisor: Supervisor,
    out: IO[bytes] | None,
    err: IO[bytes] | None,
    patience_s: float,
    *,
    report: Callable[[str], None] = to_stderr,
    on_term: str = FAILED,
) -> tuple[int, RunEnd]:
    """Run a command, its stdout to ``out``, its stderr to ``err``, and both to the archive as one log. Returns the exit code as a shell reports
    it, and the outcome of the run. A command that fails after an interrupt that was typed is cancelled; after another signal that ends
    commands its outcome is ``on_term``.

    Memory does not depend on the size of the output: if the archive is slow and the spool is full, the command blocks in its ``write``.
    After ``patience_s`` without progress, lines are dropped and counted instead. Like ``| tee``, it ends when the last process with one of the
    outputs open has ended; after such a signal, when the command has ended, and all else then takes ``END_S`` seconds. The run's last line
    is the result; the caller closes the run. The archive gets complete lines of each output, in the order in which they are read, with the
    handler's secrets masked even if a read splits them; ``out`` and ``err`` get the bytes at once, unchanged. ``report`` gets the reason if
    the command could not be started.
    """
    execution = _Execution(handler, supervisor, on_term)
    try:
        sources = supervisor.start(command, _environment(handler), execution.hurry, execution.record_end)
    except OSError as error:
        execution.is_read = True
        handler.start()
        return _not_started(command, handler, error, report)
    handler.start()  # it imports for longer than most commands need to begin
    try:
        handler.mask.build()
    except Exception as error:  # of a damaged installation
        report(f"the output is not archived, since it cannot be masked: {error!r}")
        execution.is_archived = False
    outputs = [Output(source, to, execution.stream()) for source, to in zip(sources, (out, err))]
    archive_outputs(outputs, lambda data: execution.write(data, patience_s), supervisor.stopped)
    return execution.end(patience_s)


class _Execution:
    """The log of a command that was started, and its end, which a thread brings about if the main one is blocked. ``is_read``: all of the log is
    written. ``is_archived``: not if masking does not work."""

    def __init__(self, handler: RunlogHandler, supervisor: Supervisor, on_term: str) -> None:
        self._handler, self._supervisor, self._on_term = handler, supervisor, on_term
        self._started_s = time.monotonic()
        self._ending = threading.RLock()  # the main thread does not pass it any more once the other one ends the process
        self._run_end = RunEnd(FAILED)
        self.is_read, self.is_archived = False, True

    def stream(self) -> StreamMask:
        """Masks an output."""
        return self._handler.mask.stream() if self.is_archived else StreamMask(None)

    def write(self, data: bytes, patience_s: float) -> None:
        """Write to the log."""
        if self.is_archived:
            self._handler.write_bytes(data, patience_s)

    def record_end(self, code: int) -> None:
        """Write the outcome to disk: the outputs may stay open, and this process be killed. Called by the supervisor's thread."""
        self._run_end = _end_of(code, self._supervisor, self._on_term)
        self._handler.record_end(self._run_end)

    def end(self, patience_s: float) -> tuple[int, RunEnd]:
        """Write the result line. Returns the exit code and the end of the run."""
        code = self._supervisor.wait()
        how = f"exit status {code}" if code >= 0 else f"killed by signal {-code} ({_signal_name(-code)})"
        line = f"[runlake] {how} after {time.monotonic() - self._started_s:.3f} s\n"
        self.write(line.encode(), patience_s)
        with self._ending:
            self.is_read = True
        return code if code >= 0 else 128 - code, self._run_end

    def hurry(self) -> None:
        """End within ``END_S``."""
        self._handler.hurry(END_S * 0.6)
        timer = threading.Timer(END_S * 0.2, self._give_up)
        timer.daemon = True
        timer.start()

    def _give_up(self) -> None:
        """End the process if the outputs are not read by now: one's reader has stopped, or the spool is full and the archive away."""
        with self._ending:
            if not self.is_read:
                code, end = self.end(0)
                self._handler.finish(END_S, end=end)
                os._exit(code)


def _end_of(code: int, supervisor: Supervisor, on_term: str) -> RunEnd:
    if code == 0:
        return RunEnd(SUCCEEDED, exit_code=0)
    is_ended = not supervisor.received.isdisjoint(ENDING)
    outcome = CANCELLED if supervisor.is_interrupted else on_term if is_ended else FAILED
    if code < 0:
        return RunEnd(outcome, signal=_signal_name(-code))
    by_signal = _signal_name(code - 128) if code - 128 in supervisor.received else ""  # a shell, or a JVM, exits so
    return RunEnd(outcome, exit_code=code, signal=by_signal)


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


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"

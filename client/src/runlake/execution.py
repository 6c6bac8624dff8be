"""Run a command and archive its output without changing its bytes, signals or exit code."""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import IO, TYPE_CHECKING

from runlake.outcomes import CANCELLED, FAILED, SUCCEEDED, RunEnd
from runlake.supervision import END_S, PIPE_BYTES, Supervisor
from runlake_signals import ENDING

if TYPE_CHECKING:
    from runlake.handler import RunlogHandler

_NOT_FOUND, _NOT_EXECUTABLE = 127, 126


def execute(
    command: Sequence[str],
    environment: Mapping[str, str],
    connect: Callable[[], RunlogHandler],
    supervisor: Supervisor,
    out: IO[bytes] | None,
    err: IO[bytes] | None,
    patience_s: float,
    *,
    report: Callable[[str], None],
    on_term: str = FAILED,
) -> tuple[int, RunEnd]:
    """Run a command, its stdout to ``out``, its stderr to ``err``, and both to the archive as one log. Returns the exit code as a shell reports
    it, and the outcome of the run. ``environment``: variables to add. ``connect`` returns the handler of the run, which is started and finished
    here. It is called when the command has begun, because it imports for long. If it raises, ``out`` and ``err`` still get the output.

    A command that fails after an interrupt that was typed is cancelled; after another signal that ends commands its outcome is ``on_term``.

    Memory does not depend on the size of the output: if the archive is slow and the spool is full, the command blocks in its ``write``.
    After ``patience_s`` without progress, lines are dropped and counted instead. Like ``| tee``, it ends when the last process with one of the
    outputs open has ended; after such a signal, when the command has ended, and all else then takes ``END_S`` seconds. The run's last line
    is the result, and the run is then closed. The archive gets complete lines of each output, in the order in which they are read, with the
    handler's secrets masked even if a read splits them; ``out`` and ``err`` get the bytes at once, unchanged. ``report`` gets the reason if
    the command could not be started, or nothing is archived.
    """
    execution = _Execution(supervisor, patience_s, on_term, report)
    try:
        sources = supervisor.start(command, {**os.environ, **environment}, execution.hurry, execution.record_end)
    except OSError as error:
        execution.begin(connect)
        return execution.not_started(command, error)
    execution.begin(connect)
    execution.copy(sources, (out, err))
    return execution.end()


class _Execution:
    """The log of a command, and its end, which a thread brings about if the main one is blocked. ``is_read``: all of the log is written."""

    def __init__(self, supervisor: Supervisor, patience_s: float, on_term: str, report: Callable[[str], None]) -> None:
        self._supervisor, self._patience_s, self._on_term, self._report = supervisor, patience_s, on_term, report
        self._handler: RunlogHandler | None = None
        self._started_s = time.monotonic()
        self._ending = threading.RLock()  # the main thread does not pass it any more once the other one ends the process
        self._run_end: RunEnd | None = None
        self._is_read = self._is_hurrying = False

    def begin(self, connect: Callable[[], RunlogHandler]) -> None:
        """Begin the log. The handler also gets what the supervisor's thread reported before."""
        try:
            from runlake import outputs  # noqa: F401 the outputs are archived by it

            handler = connect()
            handler.mask.build()
        except Exception as error:  # as of a damaged installation: the command has begun, and its output is worth more
            self._report(f"the output is not archived: {type(error).__name__}: {error}")
            return
        handler.start()
        with self._ending:
            self._handler = handler
            if self._run_end is not None:
                handler.record_end(self._run_end)
            if self._is_hurrying:
                self._hurry(handler)

    def copy(self, sources: Sequence[int], destinations: Sequence[IO[bytes] | None]) -> None:
        """Copy and archive the outputs until their ends."""
        if self._handler is None:
            return _copy(dict(zip(sources, destinations)), self._supervisor.stopped)
        from runlake.outputs import Output, archive_outputs

        masks = [self._handler.mask.stream() for _ in sources]
        archive_outputs(list(map(Output, sources, destinations, masks)), self._write, self._supervisor.stopped)

    def record_end(self, code: int) -> None:
        """Write the outcome to disk: the outputs may stay open, and this process be killed. Called by the supervisor's thread."""
        with self._ending:
            self._run_end = _end_of(code, self._supervisor, self._on_term)
            if self._handler is not None:
                self._handler.record_end(self._run_end)

    def end(self) -> tuple[int, RunEnd]:
        """Write the result line, and close the run. Returns the exit code and the outcome."""
        code = self._write_result(self._patience_s)
        with self._ending:
            self._is_read = True
        return code, self._finished(self._run_end or RunEnd(FAILED))

    def not_started(self, command: Sequence[str], error: OSError) -> tuple[int, RunEnd]:
        """Write why the command does not run, and close the run. Returns the exit code and the outcome."""
        name = os.fsencode(command[0]).decode(errors="replace") or "''"
        message = f"{name} could not be started: {error.strerror}"
        self._is_read = True
        self._write(f"[runlake] {message}\n".encode())
        self._report(message)
        code = _NOT_FOUND if isinstance(error, FileNotFoundError) else _NOT_EXECUTABLE
        return code, self._finished(RunEnd(FAILED, exit_code=code))

    def hurry(self) -> None:
        """End within ``END_S``."""
        with self._ending:
            self._is_hurrying = True
            if self._handler is not None:
                self._hurry(self._handler)

    def _hurry(self, handler: RunlogHandler) -> None:
        handler.hurry(END_S * 0.6)
        timer = threading.Timer(END_S * 0.2, self._give_up)
        timer.daemon = True
        timer.start()

    def _give_up(self) -> None:
        """End the process if the outputs are not read by now: one's reader has stopped, or the spool is full and the archive away."""
        with self._ending:
            if not self._is_read and self._handler is not None:
                code = self._write_result(0)
                self._handler.finish(END_S, end=self._run_end)
                os._exit(code)

    def _write(self, data: bytes) -> None:
        if self._handler is not None:
            self._handler.write_bytes(data, self._patience_s)

    def _write_result(self, wait_s: float) -> int:
        code = self._supervisor.wait()
        how = f"exit status {code}" if code >= 0 else f"killed by signal {-code} ({_signal_name(-code)})"
        line = f"[runlake] {how} after {time.monotonic() - self._started_s:.3f} s\n"
        if self._handler is not None:
            self._handler.write_bytes(line.encode(), wait_s)
        return code if code >= 0 else 128 - code

    def _finished(self, end: RunEnd) -> RunEnd:
        if self._handler is not None:
            self._handler.finish(self._patience_s, while_moving=True, end=end, report_wait=True)
        return end


def _copy(outputs: dict[int, IO[bytes] | None], stopped: int) -> None:
    """Copy outputs until their ends, or until ``stopped`` is readable; what was written before is read. Imports nothing, since an import failed."""
    is_stopped = False
    while outputs and not is_stopped:
        ready = select.select([*outputs, stopped], (), ())[0]
        is_stopped = stopped in ready
        for source in outputs.keys() & ready:
            data, destination = os.read(source, PIPE_BYTES), outputs[source]
            if not data:
                del outputs[source]
            elif destination is not None:
                try:
                    destination.write(data)
                    destination.flush()
                except OSError:  # its reader has ended
                    outputs[source] = None


def _end_of(code: int, supervisor: Supervisor, on_term: str) -> RunEnd:
    if code == 0:
        return RunEnd(SUCCEEDED, exit_code=0)
    is_ended = not supervisor.received.isdisjoint(ENDING)
    outcome = CANCELLED if supervisor.is_interrupted else on_term if is_ended else FAILED
    if code < 0:
        return RunEnd(outcome, signal=_signal_name(-code))
    by_signal = _signal_name(code - 128) if code - 128 in supervisor.received else ""  # a shell, or a JVM, exits so
    return RunEnd(outcome, exit_code=code, signal=by_signal)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"

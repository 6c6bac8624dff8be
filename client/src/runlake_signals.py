"""The process of the command: its signals and its end. It imports only what the interpreter has loaded: it is ready in milliseconds."""

from __future__ import annotations

import atexit
import os
import signal
import sys
from collections.abc import Callable

ENDING = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT})
PASSED_ON = ENDING | {signal.SIGUSR1, signal.SIGUSR2}


def is_typed(received: signal.struct_siginfo) -> bool:
    """Whether the terminal made the signal, which has then sent it to all processes of its foreground group. A hangup is also sent to the first
    process of a session alone."""
    is_alone = received.si_signo == signal.SIGHUP and os.getsid(0) == os.getpid()
    return received.si_code > 0 and not is_alone


def run_process(run: Callable[[], None]) -> None:
    """Run the command line, which raises SystemExit. Exits with 130 after an interrupt that it does not handle itself."""
    _leave_process_1()
    end = _End()
    try:
        run()
    except KeyboardInterrupt:
        sys.stderr.write("runlake: interrupted\n")
        end.code = 130
        sys.exit(130)
    except SystemExit as error:
        end.code = error.code if isinstance(error.code, int) else int(error.code is not None)
        raise


class _End:
    """Ends the process after all other functions of ``atexit``, at once.

    A thread may be in OpenSSL, without the interpreter's lock. To end as usual is to call the functions of C libraries first, and that of OpenSSL
    frees what the thread uses: the process would be killed by SIGSEGV in place of its exit code.
    """

    def __init__(self) -> None:
        self.code = 1  # of a traceback
        atexit.register(self)

    def __call__(self) -> None:
        try:
            for stream in filter(None, (sys.stdout, sys.stderr)):
                stream.flush()
        except (OSError, ValueError):
            return  # the interpreter reports it
        os._exit(self.code)


def _leave_process_1() -> None:
    """Process 1 ignores signals without a handler, and inherits the orphans of the container. So it forks: the child returns from here, and
    process 1 passes signals on to it, reaps, and exits with its exit code (128 + N after signal N). In any other process nothing happens."""
    if os.getpid() != 1:
        return
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    passed_on = {number for number in PASSED_ON if signal.getsignal(number) is not signal.SIG_IGN}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, passed_on | {signal.SIGCHLD})
    child = os.fork()
    if child == 0:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return
    while True:
        received = signal.sigwaitinfo(passed_on | {signal.SIGCHLD})
        if received.si_signo == signal.SIGCHLD:
            _reap(child)
        elif not is_typed(received):
            os.kill(child, received.si_signo)


def _reap(child: int) -> None:
    """Reap all processes that have ended. Exits if ``child`` is one of them."""
    while (ended := os.waitpid(-1, os.WNOHANG)) != (0, 0):
        if ended[0] == child:
            code = os.waitstatus_to_exitcode(ended[1])
            os._exit(code if code >= 0 else 128 - code)

"""Signals of ``runlake exec``, and process 1 of a container. It imports only what the interpreter has loaded: it is ready in milliseconds."""

from __future__ import annotations

import os
import signal

ENDING = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT})
PASSED_ON = ENDING | {signal.SIGUSR1, signal.SIGUSR2}


def is_typed(received: signal.struct_siginfo) -> bool:
    """Whether the terminal made the signal, which has then sent it to all processes of its foreground group. A hangup is also sent to the first
    process of a session alone."""
    is_alone = received.si_signo == signal.SIGHUP and os.getsid(0) == os.getpid()
    return received.si_code > 0 and not is_alone


def leave_process_1() -> None:
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

"""Commands of the client that start in milliseconds: a process that has imported it forks for each."""

from __future__ import annotations

import json
import os
import pty
import signal
import socket
import subprocess
import sys
import termios
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

SOURCES = str(Path(__file__).parents[1] / "src")
_LOOP = """
import atexit, json, os, signal, socket, sys
from runlake import archive, execution, handler, supervision
from runlake.__main__ import main
from runlake.supervision import Supervisor
archive.import_for_requests(is_secure=False)
control = socket.socket(fileno=int(sys.argv[1]))
while request := socket.recv_fds(control, 1 << 16, 3):
    data, descriptors, _, _ = request
    if not data:
        break
    arguments, environment, first = json.loads(data)
    if pid := os.fork():
        for each in descriptors:
            os.close(each)
        control.sendall(b"%d\\n" % pid)
        control.sendall(b"%d\\n" % os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        continue
    control.close()
    os.setsid()
    for ending in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):  # the tests may run under nohup, or in the background of a script
        signal.signal(ending, signal.default_int_handler if ending == signal.SIGINT else signal.SIG_DFL)
    for number, each in enumerate(descriptors):
        os.dup2(each, number)
        os.close(each)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv[1:] = arguments
    exec(first)
    try:
        main()
    except SystemExit as end:
        atexit._run_exitfuncs()
        os._exit(end.code)  # the interpreter would free all modules, for some tenths of a second
"""


@dataclass
class Forked:
    """A process, as ``subprocess.Popen`` has it."""

    pid: int
    stdin: IO[bytes]
    stdout: IO[bytes]
    _answers: IO[bytes]

    def wait(self) -> int:
        """The exit code, or -N after signal N."""
        return int(self._answers.readline())

    def kill(self) -> None:
        """Kill the processes of its group that are left."""
        self.stdin.close()
        self.stdout.close()
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)


class Forker:
    """Forks one process at a time."""

    def __init__(self) -> None:
        self._control, theirs = socket.socketpair()
        environment = {**os.environ, "PYTHONPATH": SOURCES}
        self._loop = subprocess.Popen(
            [sys.executable, "-c", _LOOP, str(theirs.fileno())], pass_fds=[theirs.fileno()], env=environment
        )
        theirs.close()
        self._control.settimeout(60)
        self._answers = self._control.makefile("rb")

    def start(
        self, arguments: Sequence[str], environment: Mapping[str, str], first: str = "", *, has_terminal: bool = False
    ) -> Forked:
        """``first``: code that the process runs before. ``has_terminal``: in the foreground of a terminal, without echo."""
        if has_terminal:
            ours, end = pty.openpty()
            mode = termios.tcgetattr(end)
            mode[3] &= ~termios.ECHO
            termios.tcsetattr(end, termios.TCSANOW, mode)
            here, there = [ours, os.dup(ours)], [end, os.dup(end)]
            first = "import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); " + first
        else:
            stdin, stdout = os.pipe(), os.pipe()
            here, there = [stdin[1], stdout[0]], [stdin[0], stdout[1]]
        there.append(os.dup(2))
        socket.send_fds(self._control, [json.dumps([arguments, dict(environment), first]).encode()], there)
        for each in there:
            os.close(each)
        pid = int(self._answers.readline())
        return Forked(pid, os.fdopen(here[0], "wb", 0), os.fdopen(here[1], "rb", 0), self._answers)

    def close(self) -> None:
        """End the process that forks."""
        self._control.shutdown(socket.SHUT_RDWR)
        self._loop.wait()
        self._answers.close()
        self._control.close()

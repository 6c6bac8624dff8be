"""Commands of the client that start in milliseconds: a process that has imported it forks for each."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

SOURCES = str(Path(__file__).parents[1] / "src")
_LOOP = """
import atexit, json, os, signal, socket, sys
from runlake import archive, execution, supervision
from runlake.__main__ import main
archive.import_for_requests()
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
    stderr: IO[bytes]
    _answers: IO[bytes]

    def wait(self) -> int:
        """The exit code, or -N after signal N."""
        return int(self._answers.readline())


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

    def start(self, arguments: Sequence[str], environment: Mapping[str, str], first: str = "") -> Forked:
        """``first``: code that the process runs before."""
        pipes = [os.pipe() for _ in range(3)]
        theirs = [pipes[0][0], pipes[1][1], pipes[2][1]]
        socket.send_fds(self._control, [json.dumps([arguments, dict(environment), first]).encode()], theirs)
        for each in theirs:
            os.close(each)
        pid = int(self._answers.readline())
        stdin, stdout, stderr = os.fdopen(pipes[0][1], "wb", 0), os.fdopen(pipes[1][0], "rb", 0), os.fdopen(pipes[2][0], "rb", 0)
        return Forked(pid, stdin, stdout, stderr, self._answers)

    def close(self) -> None:
        """End the process that forks."""
        self._control.shutdown(socket.SHUT_RDWR)
        self._loop.wait()
        self._answers.close()
        self._control.close()

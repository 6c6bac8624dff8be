"""A program that logs by the library, and is killed at any step of its spool. Forks a process for each request on stdin, so that each costs
milliseconds: ``python -m client.tests.mortal_program`` reads lines of JSON (``Mortal``), and answers each with the steps that were taken."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from runlake import Pace, RunlogHandler, Settings
from runlake.archive import import_for_requests
from runlake.outcomes import RunEnd

_STEPS = ("open", "write", "pwrite", "fsync", "mkdir", "rename", "unlink", "rmdir")
PACE = Pace(batch_bytes=120, interval_s=0.002, first_wait_s=0.002, most_wait_s=0.01, access_wait_s=0.01)
NEVER = 1_000_000
Program = Callable[["Mortal"], dict[str, Any] | None]
"""Runs a program: its steps and counts, None if it was killed."""


@dataclass(frozen=True)
class Mortal:
    """``lines``, each begun by ``tag``, are put in ``parts``, each followed by a flush if ``flushes``; ``has_child``: a forked process puts as many,
    with the tag ``child``, and leaves by ``os._exit``. Then the run ends with exit code 3. A process is ended by ``signal`` at step ``kill_at`` of
    its spool: before it, or, if it is a write, ``halfway``. ``fails_from``: the first step that fails with ENOSPC, if it needs room on the disk."""

    url: str
    spool_dir: str
    run_id: str
    lines: int = 40
    parts: int = 2
    flushes: bool = True
    kill_at: int = NEVER
    halfway: bool = False
    fails_from: int = NEVER
    exit_s: float = 0.05
    memory_bytes: int = 8 * 1024 * 1024
    tag: str = "line"
    has_child: bool = False
    signal: int = signal.SIGKILL

    def run(self) -> dict[str, Any]:
        """The program; returns its counts."""
        settings = Settings(url=self.url, spool_dir=self.spool_dir, timeout_s=2, exit_s=self.exit_s, memory_bytes=self.memory_bytes)
        handler = RunlogHandler(
            "p", self.run_id, settings=settings, pace=PACE, close_run=True, command="./load.py", tell=lambda text: None
        )
        if self.has_child and (child := os.fork()) == 0:
            self._put(handler, "child", range(self.lines))
            os._exit(0)
        size = self.lines // self.parts
        for part in range(self.parts):
            self._put(handler, self.tag, range(part * size, (part + 1) * size))
            if self.flushes:
                handler.flush()
        if self.has_child:
            os.waitpid(child, 0)
        counts = handler.finish(self.exit_s, end=RunEnd("failed", exit_code=3))
        return asdict(counts)

    def _put(self, handler: RunlogHandler, tag: str, numbers: range) -> None:
        for number in numbers:
            handler.write(f"{tag} {number:04d} {'x' * (number % 40)}\n")


class Steps:
    """Counts the calls that change the spool, and ends the process, or fails, at one of them."""

    def __init__(self, mortal: Mortal) -> None:
        self.mortal, self.taken = mortal, 0
        for name in _STEPS:
            setattr(os, name, self._counted(name, getattr(os, name)))

    def _counted(self, name: str, act: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **more: Any) -> Any:
            if name == "open" and not arguments[1] & os.O_CREAT:
                return act(*arguments, **more)
            number, self.taken = self.taken, self.taken + 1
            if number >= self.mortal.fails_from and name in ("open", "write", "mkdir"):
                raise OSError(errno.ENOSPC, "the disk is full")
            if number == self.mortal.kill_at:
                if self.mortal.halfway and "write" in name:
                    act(arguments[0], bytes(arguments[1])[: len(arguments[1]) // 2], *arguments[2:])
                os.kill(os.getpid(), self.mortal.signal)
            return act(*arguments, **more)

        return counted


def main() -> None:
    import_for_requests(is_secure=False)
    for request in sys.stdin:
        mortal = Mortal(**json.loads(request))
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            steps = Steps(mortal)
            counts = mortal.run()
            os.close(reader)
            with open(writer, "w") as out:
                json.dump({"steps": steps.taken, **counts}, out)
            os._exit(0)
        os.close(writer)
        with open(reader) as answer:
            text = answer.read()
        os.waitpid(child, 0)
        print(text or "null", flush=True)


@contextmanager
def mortal_programs() -> Iterator[Program]:
    """Runs programs, from one process that has imported the client."""
    command = [sys.executable, "-m", "client.tests.mortal_program"]
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1] / "src")}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ) as process:
        assert process.stdin is not None and process.stdout is not None
        stdin, stdout = process.stdin, process.stdout

        def run(mortal: Mortal) -> dict[str, Any] | None:
            stdin.write(json.dumps(asdict(mortal)) + "\n")
            stdin.flush()
            answer: dict[str, Any] | None = json.loads(stdout.readline())
            return answer

        yield run
        stdin.close()


if __name__ == "__main__":
    main()

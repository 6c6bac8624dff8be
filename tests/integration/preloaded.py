"""Foreign clients whose imports cost more than the tests' work: one process imports, and forks for each command.

A fork runs the client's own script from its first line to the interpreter's end, with its own arguments, environment, folder and
streams.
"""

from __future__ import annotations

import atexit
import base64
import json
import socketserver
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.integration.stacks import COMMAND_S

_SERVE = """
import gc, importlib, json, os, runpy, sys

gc.disable()
for name in sys.argv[1:]:
    importlib.import_module(name)
gc.freeze()  # or each fork looks through all modules at its end, which takes it seconds
gc.enable()
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
for line in sys.stdin:
    request = json.loads(line)
    if not (child := os.fork()):
        break
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), file=answers, flush=True)
else:
    sys.exit()
for number, (path, flags) in enumerate(zip(request["streams"], (os.O_RDONLY, os.O_WRONLY, os.O_WRONLY))):
    os.dup2(os.open(path, flags), number)
sys.stdin, sys.stdout, sys.stderr = open(0, closefd=False), open(1, "w", closefd=False), open(2, "w", buffering=1, closefd=False)
os.environ.clear()
os.environ.update(request["environment"])
os.chdir(request["folder"])
sys.argv = request["command"]
sys.path[0] = os.path.dirname(sys.argv[0])
del answers, child, line, name
runpy.run_path(sys.argv[0], run_name="__main__")
"""


_ASK = """#!{python} -IS
import base64, json, os, socket, sys
stdin = b"" if sys.stdin.isatty() else sys.stdin.buffer.read()
with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    asked = {{"arguments": sys.argv[1:], "stdin": base64.b64encode(stdin).decode(), "folder": os.getcwd(), "environment": dict(os.environ)}}
    server.sendall(json.dumps(asked).encode())
    server.shutdown(socket.SHUT_WR)
    done = json.load(server.makefile())
sys.stderr.write(done["error"])
sys.stdout.buffer.write(base64.b64decode(done["output"]))
sys.exit(done["code"])
"""


@dataclass(frozen=True, slots=True)
class Done:
    """A process that has ended."""

    code: int
    output: bytes
    error: str

    @property
    def text(self) -> str:
        """Its output."""
        return self.output.decode()

    @property
    def last_line(self) -> str:
        """Last line of its errors, without usage, warnings and traceback."""
        return (self.error.strip().splitlines() or [""])[-1]


class Preloaded:
    """An interpreter that has imported ``modules``. It starts with its first command and ends with the tests."""

    def __init__(self, python: Path, modules: Sequence[str]) -> None:
        self._command = [str(python), "-c", _SERVE, *modules]
        self._process: subprocess.Popen[str] | None = None

    def run(self, command: Sequence[str | Path], *, stdin: bytes = b"", folder: Path, environment: Mapping[str, str]) -> Done:
        """Run a script with arguments as ``subprocess.run`` does."""
        if self._process is None:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=dict(environment), cwd=folder
            )
            atexit.register(self._process.communicate)
        with tempfile.TemporaryDirectory() as streams:
            paths = [Path(streams) / name for name in ("in", "out", "error")]
            for path, content in zip(paths, (stdin, b"", b""), strict=True):
                path.write_bytes(content)
            request: dict[str, Any] = {
                "command": [str(each) for each in command],
                "environment": dict(environment),
                "folder": str(folder),
                "streams": [str(path) for path in paths],
            }
            assert self._process.stdin and self._process.stdout
            print(json.dumps(request), file=self._process.stdin, flush=True)
            answer = self._process.stdout.readline()
            assert answer, f"the preloaded process ended exit_code={self._process.wait(COMMAND_S)}"
            return Done(int(answer), paths[1].read_bytes(), paths[2].read_text())


@contextmanager
def preloaded_command(preloaded: Preloaded, script: Path, command: Path) -> Iterator[None]:
    """While it is open, the file ``command`` runs ``script`` as an executable does, for a shell. It begins when its input has ended, so the
    commands of a pipeline take turns."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            asked = json.load(self.rfile)
            stdin, folder = base64.b64decode(asked["stdin"]), Path(asked["folder"])
            done = preloaded.run([script, *asked["arguments"]], stdin=stdin, folder=folder, environment=asked["environment"])
            answer = {"code": done.code, "output": base64.b64encode(done.output).decode(), "error": done.error}
            self.wfile.write(json.dumps(answer).encode())

    with tempfile.TemporaryDirectory() as folder:
        address = f"{folder}/socket"
        with socketserver.UnixStreamServer(address, Handler) as server:
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            command.write_text(_ASK.format(python=sys.executable, address=address))
            command.chmod(0o755)
            try:
                yield
            finally:
                server.shutdown()
                thread.join()

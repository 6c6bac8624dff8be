"""Signals of ``runlake exec``: the command gets them as without it, and the run is closed with the outcome that they mean."""

from __future__ import annotations

import fcntl
import os
import shlex
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from signal import SIGALRM, SIGHUP, SIGINT, SIGKILL, SIGQUIT, SIGTERM, SIGUSR1
from subprocess import PIPE
from typing import IO, Any

import pytest
from click.testing import CliRunner

from client.tests.fake_server import FakeServer
from client.tests.forking import SOURCES, Forked, Forker
from runlake.__main__ import runlake

pytestmark = pytest.mark.slow  # it starts processes

_SHORT = "execution.END_S = 0.3"
_MISSING = "from unittest.mock import Mock; supervision.os.posix_spawnp = Mock(side_effect=FileNotFoundError)"
_LATE = """
from runlake.commands import running
begun, handler = [], running._handler
def noted(self, *more):
    begun.append(self)
    return start(self, *more)
def late(*more):
    os.kill(os.getpid(), signal.SIGTERM)
    begun[0].wait()
    return handler(*more)
start = Supervisor.start
Supervisor.start = noted
running._handler = late
"""
"""The command is ended while the modules are imported that write its log."""
_HANGING = {"closing": "/close", "not started": "/close", "the log begins": "/close", "start hangs": "/starts/"}
"""Requests that have no answer, by state."""
_UNSENT, _UNTOLD = ("starting", "the log begins"), ("starting", "the log begins", "not started")
"""States in which the process sends the signal to itself, and in which there is no output."""
_LATEST_S = 10  # after which Docker kills; on an idle machine it is below 5


@pytest.fixture(scope="module")
def forker() -> Iterator[Forker]:
    made = Forker()
    yield made
    made.close()


@pytest.fixture
def environment(server: FakeServer, tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": SOURCES, "RUNLAKE_URL": server.url, "RUNLAKE_SPOOL_DIR": str(tmp_path / "spool")}


def arguments(*command: str, options: Sequence[str] = ()) -> list[str]:
    """``command`` as run ``r`` of pipeline ``p``."""
    return ["exec", "-q", "--run-id", "r", *options, "p", "--", *command]


def until(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def is_there(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def once(exec_pid: int, number: int, others: Sequence[int]) -> None:
    """As docker stop, and systemd with KillMode=mixed or process."""
    os.kill(exec_pid, number)


def twice(exec_pid: int, number: int, others: Sequence[int]) -> None:
    """As timeout(1), within microseconds."""
    os.kill(exec_pid, number)
    os.killpg(exec_pid, number)


def to_the_group(exec_pid: int, number: int, others: Sequence[int]) -> None:
    os.killpg(exec_pid, number)


def to_each(exec_pid: int, number: int, others: Sequence[int]) -> None:
    """As systemd with KillMode=control-group."""
    for pid in (exec_pid, *others):
        with suppress(ProcessLookupError):
            os.kill(pid, number)


Send = Callable[[int, int, Sequence[int]], None]


@dataclass(frozen=True)
class Row:
    """``script``: of ``sh``, whose first line is the pid of the command, and of its child that has the outputs open too. ``state``: when the signal
    is sent. ``code``: the exit code; ``end``: the outcome; ``is_left``: it waits on disk. ``first``: see ``Forker.start``."""

    script: str
    number: int
    send: Send
    code: int
    end: dict[str, Any]
    state: str = "running"
    options: tuple[str, ...] = ()
    first: str = ""
    is_left: bool = False


def trapping(code: int, number: str = "TERM") -> str:
    return f"trap 'exit {code}' {number}; echo $$; read forever"


def ended_by(name: str, outcome: str = "failed", **more: Any) -> dict[str, Any]:
    return {"outcome": outcome, "signal": name, **more}


def exited(code: int) -> dict[str, Any]:
    return {"outcome": "failed" if code else "succeeded", "exitCode": code}


_ALONE = "echo $$; exec sleep 60"
_WAITING = "sleep 60 & echo $$ $!; wait; echo end"
_BY_TERM = ended_by("SIGTERM")
ROWS = {
    "running, TERM": Row(_ALONE, SIGTERM, once, 143, _BY_TERM),
    "running, HUP": Row(_ALONE, SIGHUP, once, 129, ended_by("SIGHUP")),
    "running, INT that is sent": Row(_ALONE, SIGINT, once, 130, ended_by("SIGINT")),
    "running, QUIT": Row("ulimit -c 0; " + _ALONE, SIGQUIT, once, 131, ended_by("SIGQUIT")),
    "running, TERM twice": Row(_ALONE, SIGTERM, twice, 143, _BY_TERM),
    "running, TERM to the group": Row(_WAITING, SIGTERM, to_the_group, 143, _BY_TERM),
    "a shell that waits for a child, TERM": Row(_WAITING, SIGTERM, once, 143, _BY_TERM),
    "a shell that waits for a child, TERM twice": Row(_WAITING, SIGTERM, twice, 143, _BY_TERM),
    "a shell that waits for a child, TERM to each": Row(_WAITING, SIGTERM, to_each, 143, _BY_TERM),
    "running, TERM that is handled, exit 0": Row(trapping(0), SIGTERM, once, 0, exited(0)),
    "running, TERM that is handled, exit 3": Row(trapping(3), SIGTERM, once, 3, exited(3)),
    "running, TERM that is handled, exit 143": Row(trapping(143), SIGTERM, once, 143, ended_by("SIGTERM", exitCode=143)),
    "running, TERM is a cancellation": Row(
        _ALONE, SIGTERM, once, 143, ended_by("SIGTERM", "cancelled"), options=("--on-term", "cancelled")
    ),
    "running, USR1 ends nothing": Row(trapping(3, "USR1"), SIGUSR1, once, 3, exited(3), options=("--on-term", "cancelled")),
    "starting": Row(
        _ALONE,
        SIGTERM,
        once,
        143,
        _BY_TERM,
        first="start = Supervisor.start; Supervisor.start = lambda *more: (os.kill(os.getpid(), signal.SIGTERM), start(*more))[1]",
        state="starting",
    ),
    "the log begins": Row(
        "exec sleep 60", SIGTERM, once, 143, _BY_TERM, first=f"{_SHORT}\n{_LATE}", state="the log begins", is_left=True
    ),
    "the start has no answer": Row(_ALONE, SIGTERM, once, 143, _BY_TERM, first=_SHORT, state="start hangs", is_left=True),
    **{
        f"ended, {signal.Signals(number).name} {send.__name__}": Row(
            "sleep 60 & echo $$ $!; exit 5", number, send, 5, exited(5), state="ended"
        )
        for number, send in [(SIGTERM, once), (SIGHUP, once), (SIGINT, once), (SIGTERM, twice), (SIGTERM, to_each)]
    },
    "ended well": Row("sleep 60 & echo $$ $!", SIGTERM, once, 0, exited(0), state="ended"),
    "not started": Row("", SIGTERM, once, 127, exited(127), "not started", is_left=True, first=f"{_SHORT}; {_MISSING}"),
    "closing": Row("echo $$; exit 5", SIGTERM, twice, 5, exited(5), first=_SHORT, state="closing", is_left=True),
    "archive away at the end": Row("echo $$; exit 5", SIGTERM, twice, 5, exited(5), first=_SHORT, state="away", is_left=True),
    "reader of an output stopped": Row(
        "echo $$; exec yes", SIGTERM, once, 143, _BY_TERM, first="execution.END_S = 1", state="full"
    ),
}


@pytest.mark.behavior(
    "`runlake exec` ends within 5 s of a signal that ends its command, and its run has the outcome that the signal means."
)
@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_signal_ends_exec_as_its_command(
    row: Row, forker: Forker, server: FakeServer, environment: dict[str, str], tmp_path: Path
) -> None:
    if row.state in _HANGING:
        server.fault = lambda method, path: "hang" if _HANGING[row.state] in path else ""
    if row.state == "away":
        server.down()
    options = ("--patience", "60", *row.options)
    process = forker.start(arguments("sh", "-c", row.script, options=options), environment, row.first)
    try:
        pids = [] if row.state in _UNTOLD else _pids(process.stdout)
        _wait_for(row.state, server, process, pids)
        since_s = time.monotonic()
        if row.state not in _UNSENT:
            row.send(process.pid, row.number, pids)
        assert process.wait() == row.code
        assert time.monotonic() - since_s < _LATEST_S
    finally:
        process.kill()
    run = server.runs["p", "r"]
    assert run.closed != row.is_left
    if row.is_left:
        drain(server, environment)
    assert run.closed and run.end == row.end and run.lines[-1].startswith(b"[runlake] ")


def drain(server: FakeServer, environment: dict[str, str]) -> None:
    server.fault = lambda method, path: ""
    server.down()
    server.up()
    assert CliRunner().invoke(runlake, ["drain"], env=environment).exit_code == 0


def _pids(stdout: IO[bytes] | None) -> list[int]:
    assert stdout is not None
    return [int(word) for word in stdout.readline().split()]


def _wait_for(state: str, server: FakeServer, process: Forked, pids: Sequence[int]) -> None:
    if state in ("ended", "away"):
        until(lambda: not is_there(pids[0]))
    elif state in _HANGING:
        until(lambda: any(_HANGING[state] in path for _, path, _ in server.requests))
    elif state == "full":
        pipe_bytes = fcntl.fcntl(process.stdout, fcntl.F_GETPIPE_SZ)
        until(lambda: int.from_bytes(fcntl.ioctl(process.stdout, termios.FIONREAD, bytes(4)), sys.byteorder) > pipe_bytes - 8192)


_RUNLAKE = (sys.executable, "-m", "runlake_command")
_COUNTING = """
import os, signal, sys
for number in signal.SIGINT, signal.SIGTERM:
    signal.signal(number, lambda number, _: os.write(1, b"got %d\\n" % number))  # whole, also if the next signal comes within
print(os.getpid(), flush=True)
sys.stdin.readline()
os._exit(3)  # while the interpreter ends, another signal would end it
"""
_COUNTS = (sys.executable, "-S", "-c", _COUNTING)


@pytest.mark.parametrize(
    ("command", "is_typed", "code", "end"),
    [
        (_COUNTS, True, 3, {"outcome": "cancelled", "exitCode": 3}),
        (_COUNTS, False, 3, exited(3)),
        (("sh", "-c", _ALONE), True, 130, ended_by("SIGINT", "cancelled")),
        (("sh", "-c", _ALONE), False, 130, ended_by("SIGINT")),
    ],
    ids=["typed, handled", "sent, handled", "typed", "sent"],
)
def test_interrupt_in_the_foreground_arrives_once(
    command: Sequence[str],
    is_typed: bool,
    code: int,
    end: dict[str, Any],
    forker: Forker,
    server: FakeServer,
    environment: dict[str, str],
) -> None:
    process = forker.start(arguments(*command), environment, has_terminal=True)
    try:
        assert _pids(process.stdout)
        if is_typed:
            process.stdin.write(b"\x03")
        else:
            os.kill(process.pid, SIGINT)
        if command is _COUNTS:
            assert process.stdout.readline() == b"got 2\r\n"
            process.stdin.write(b"\n")
        assert process.wait() == code
    finally:
        process.kill()
    run = server.runs["p", "r"]
    assert run.end == end and run.data.count(b"got 2") == (command is _COUNTS)


def test_signal_repeated_within_milliseconds_is_passed_on_once(
    forker: Forker, server: FakeServer, environment: dict[str, str]
) -> None:
    process = forker.start(arguments(*_COUNTS), environment, "supervision._ONCE_S = 1000")
    try:
        assert _pids(process.stdout)
        os.kill(process.pid, SIGTERM)
        assert process.stdout.readline() == b"got 15\n"
        os.kill(process.pid, SIGTERM)
        process.stdin.write(b"\n")
        assert process.wait() == 3
    finally:
        process.kill()
    assert server.runs["p", "r"].data.count(b"got 15") == 1


@contextmanager
def started(command: Sequence[str], environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """A process of its own group, which is killed in the end."""
    with subprocess.Popen(command, stdin=PIPE, stdout=PIPE, env=environment, start_new_session=True) as process:
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, SIGKILL)


def test_interrupt_typed_under_script_cancels(server: FakeServer, environment: dict[str, str]) -> None:
    command = shlex.join((*_RUNLAKE, *arguments("sh", "-c", _ALONE)))
    with started(("script", "-qec", f"exec {command}", os.devnull), environment) as process:
        assert _pids(process.stdout) and process.stdin is not None
        process.stdin.write(b"\x03")
        process.stdin.flush()
        assert process.wait(60) == 130
    assert server.runs["p", "r"].end == ended_by("SIGINT", "cancelled")


def test_command_gets_one_or_two_signals_of_timeout(server: FakeServer, environment: dict[str, str]) -> None:
    with started(("timeout", "60", *_RUNLAKE, *arguments(*_COUNTS)), environment) as process:
        assert _pids(process.stdout) and process.stdout is not None
        process.send_signal(SIGALRM)  # its time is over
        assert process.stdout.readline() == b"got 15\n"
        rest, _ = process.communicate(b"\n", timeout=60)
    assert rest in (b"", b"got 15\n") and process.returncode == 124
    assert server.runs["p", "r"].end == exited(3)


_ORDINARY = (1 << 31) - 1  # glibc's own two are ignored after posix_spawn until a program uses them


def test_ignored_signals_stay_ignored(server: FakeServer, environment: dict[str, str]) -> None:
    """SIGHUP under nohup(1), SIGINT and SIGQUIT in the background of a script; SIGPIPE, which the interpreter ignores, is not."""
    command = ("sh", "-c", "echo $$ $PPID; read line; grep SigIgn /proc/self/status; exit 5")
    seen = []
    for words in (command, (*_RUNLAKE, *arguments(*command, options=("--on-term", "cancelled")))):
        with started(("sh", "-c", 'exec 3<&0; nohup "$@" <&3 & wait', "sh", *words), environment) as process:
            pid, parent = _pids(process.stdout)
            for number in (SIGHUP, SIGINT, SIGQUIT):
                os.kill(pid if words is command else parent, number)
            seen.append(int(process.communicate(b"\n", timeout=60)[0].split()[1], 16) & _ORDINARY)
    assert seen[0] == seen[1] >= 0b111
    assert server.runs["p", "r"].end == exited(5)


def _children_of(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


_AS_PROCESS_1 = ("unshare", *(["--map-root-user"] if os.geteuid() else []), "--pid", "--fork", "--mount-proc")


def test_process_1_reaps_and_ends_as_docker_stops_it(server: FakeServer, environment: dict[str, str]) -> None:
    script = "for each in 1 2 3; do (sleep 0.01 &); done; sleep 60 & echo $$; wait; echo end"
    with started((*_AS_PROCESS_1, *_RUNLAKE, *arguments("sh", "-c", script)), environment) as process:
        assert _pids(process.stdout)
        (first,) = _children_of(process.pid)
        until(lambda: len(_children_of(first)) == 1)
        os.kill(first, SIGTERM)
        assert process.wait(_LATEST_S) == 143
    assert server.runs["p", "r"].closed and server.runs["p", "r"].end == _BY_TERM


@pytest.mark.parametrize(("prefix", "code"), [((), -SIGTERM), (_AS_PROCESS_1, 143)], ids=["alone", "process 1"])
def test_signal_before_imports_are_done_leaves_nothing(
    prefix: Sequence[str], code: int, server: FakeServer, environment: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "click.py").write_text("import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(60)\n")
    slow = environment | {"PYTHONPATH": f"{tmp_path}:{SOURCES}"}
    with started((*prefix, *_RUNLAKE, *arguments("true")), slow) as process:
        assert _pids(process.stdout)
        os.kill(_children_of(process.pid)[0] if prefix else process.pid, SIGTERM)
        assert process.wait(_LATEST_S) == code
    assert not server.requests and not (tmp_path / "spool").exists()

"""Signals of ``runlake exec``: the command gets them as without it, and the run is closed with the outcome that they mean."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from signal import SIGALRM, SIGHUP, SIGINT, SIGKILL, SIGQUIT, SIGTERM, SIGUSR1
from typing import IO, Any

import pytest
from click.testing import CliRunner

from client.tests.fake_server import FakeServer
from client.tests.forking import SOURCES, Forked, Forker
from runlake.__main__ import runlake

pytestmark = pytest.mark.slow  # it starts processes

_SHORT = "execution.END_S = 0.3"
_LATEST_S = 5


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


def ignored(pid: int | str) -> int:
    """The signals that a process ignores, as bits from SIGHUP on."""
    (line,) = (each for each in Path(f"/proc/{pid}/status").read_text().splitlines() if each.startswith("SigIgn:"))
    return int(line.split()[1], 16)


def once(exec_pid: int, number: int, others: Sequence[int]) -> None:
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
    is sent. ``code``: the exit code; ``end``: the outcome; None: it waits on disk."""

    script: str
    number: int
    send: Send
    code: int
    end: dict[str, Any] | None
    state: str = "running"
    options: tuple[str, ...] = ()
    first: str = ""


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
        first="execution.RunlogHandler.start = lambda self: os.kill(os.getpid(), signal.SIGTERM)",
        state="starting",
    ),
    "the start has no answer": Row(_ALONE, SIGTERM, once, 143, None, first=_SHORT, state="start hangs"),
    **{
        f"ended, {signal.Signals(number).name} {send.__name__}": Row(
            "sleep 60 & echo $$ $!; exit 5", number, send, 5, exited(5), state="ended"
        )
        for number, send in [(SIGTERM, once), (SIGHUP, once), (SIGINT, once), (SIGTERM, twice), (SIGTERM, to_each)]
    },
    "ended well": Row("sleep 60 & echo $$ $!", SIGTERM, once, 0, exited(0), state="ended"),
    "closing": Row("echo $$; exit 5", SIGTERM, twice, 5, None, first=_SHORT, state="closing"),
    "archive away at the end": Row("echo $$; exit 5", SIGTERM, twice, 5, None, first=_SHORT, state="away"),
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
    faults = {"closing": "/close", "start hangs": "/starts/"}
    if row.state in faults:
        server.fault = lambda method, path: "hang" if faults[row.state] in path else ""
    if row.state == "away":
        server.down()
    options = ("--patience", "60", *row.options)
    process = forker.start(arguments("sh", "-c", row.script, options=options), environment, row.first)
    try:
        pids = _pids(process.stdout) if row.state != "starting" else []
        _wait_for(row.state, server, process, pids)
        since_s = time.monotonic()
        if row.state != "starting":
            row.send(process.pid, row.number, pids)
        assert process.wait() == row.code
        assert time.monotonic() - since_s < _LATEST_S
    finally:
        for each in (process.stdin, process.stdout, process.stderr):
            each.close()
        with suppress(ProcessLookupError):
            os.killpg(process.pid, SIGKILL)
    if row.end is None:
        assert drained(server, environment)
    run = server.runs["p", "r"]
    assert run.closed and run.lines[-1].startswith(b"[runlake] ")
    assert run.end == row.end or row.end is None


def drained(server: FakeServer, environment: dict[str, str]) -> bool:
    server.fault = lambda method, path: ""
    server.down()
    server.up()
    return CliRunner().invoke(runlake, ["drain"], env=environment).exit_code == 0


def _pids(stdout: IO[bytes] | None) -> list[int]:
    assert stdout is not None
    return [int(word) for word in stdout.readline().split()]


def _wait_for(state: str, server: FakeServer, process: Forked, pids: Sequence[int]) -> None:
    if state in ("ended", "away"):
        until(lambda: not is_there(pids[0]))
    elif state in ("closing", "start hangs"):
        part = {"closing": "/close", "start hangs": "/starts/"}[state]
        until(lambda: any(part in path for _, path, _ in server.requests))
    elif state == "full":
        until(lambda: b"pipe_write" in Path(f"/proc/{process.pid}/wchan").read_bytes())


def _started(command: Sequence[str], environment: dict[str, str], **more: Any) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command, stdin=PIPE, stdout=PIPE, stderr=PIPE, env=environment, start_new_session=True, **more)


def _child_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


_RUNLAKE = (sys.executable, "-m", "runlake_command")
_COUNTING = """
import os, signal, sys
def count(*_): print("TERM", flush=True)
signal.signal(signal.SIGTERM, count)
print(os.getpid(), flush=True)
while sys.stdin.read(1): pass
sys.exit(3)
"""


@pytest.mark.parametrize("number", [SIGALRM, SIGTERM], ids=["time is over", "timeout is terminated"])
def test_command_under_timeout_gets_one_or_two_signals(number: int, server: FakeServer, environment: dict[str, str]) -> None:
    if number == SIGTERM:
        command: tuple[str, ...] = ("sh", "-c", _WAITING)
    else:
        command = (sys.executable, "-S", "-c", _COUNTING)
    with _started(("timeout", "60", *_RUNLAKE, *arguments(*command)), environment) as process:
        assert _pids(process.stdout)
        process.send_signal(number)
        if number == SIGALRM:
            assert process.stdout is not None and process.stdout.readline() == b"TERM\n"
        rest, _ = process.communicate(timeout=60)
    assert process.returncode == (124 if number == SIGALRM else 143)
    assert server.runs["p", "r"].end == (exited(3) if number == SIGALRM else _BY_TERM)
    assert number == SIGTERM or rest in (b"", b"TERM\n")


def test_ignored_signals_stay_ignored(server: FakeServer, environment: dict[str, str]) -> None:
    """SIGHUP by nohup(1), SIGINT and SIGQUIT by a shell for a job in the background; the interpreter's own are not passed on."""
    script = "nohup \"$@\" <&3 & wait $!"
    show = ("sh", "-c", "echo $$; read line; exec grep SigIgn /proc/self/status")
    seen = []
    for command in (show, (*_RUNLAKE, *arguments(*show))):
        with _started(("bash", "-c", f"exec 3<&0; {script}", "sh", *command), environment) as process:
            (pid,) = _pids(process.stdout)
            os.killpg(process.pid, 0)
            for number in (SIGHUP, SIGINT, SIGQUIT):
                if command is not show:
                    os.kill(_parent_of(pid), number)
            seen.append(process.communicate(b"\n", timeout=60)[0])
    assert seen[0] == seen[1] != b""
    assert server.runs["p", "r"].end == exited(0)


def _parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


@pytest.mark.parametrize("is_typed", [True, False], ids=["typed", "sent"])
def test_interrupt_in_the_foreground_of_a_terminal_arrives_once(
    is_typed: bool, server: FakeServer, environment: dict[str, str], tmp_path: Path
) -> None:
    command = shlex.join((*_RUNLAKE, *arguments("sh", "-c", "trap 'echo INT; n=$((n+1))' INT; echo $$; cat; cat; exit $((10 + n))")))
    with _started(("script", "-qec", f"exec {command}", str(tmp_path / "typescript")), environment) as process:
        (pid,) = _pids(process.stdout)
        assert process.stdin is not None and process.stdout is not None
        if is_typed:
            process.stdin.write(b"\x03")
            process.stdin.flush()
        else:
            os.kill(_parent_of(pid), SIGINT)

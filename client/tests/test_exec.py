"""``runlake exec``: output, signals and exit code are the command's own, and all of the output is archived."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from client.tests.fake_server import FakeServer
from runlake.__main__ import runlake

pytestmark = pytest.mark.slow  # it starts processes

_SRC = Path(__file__).parents[1] / "src"


def start(
    server: FakeServer, tmp_path: Path, *command: str, options: tuple[str, ...] = (), **environment: str
) -> subprocess.Popen[bytes]:
    """``command`` by ``runlake exec``, as run ``r`` of pipeline ``p``."""
    return subprocess.Popen(
        [sys.executable, "-m", "runlake", "exec", "-q", "--run-id", "r", *options, "p", "--", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(_SRC), "RUNLAKE_URL": server.url, "RUNLAKE_SPOOL_DIR": str(tmp_path), **environment},
    )


def ran(server: FakeServer, tmp_path: Path, *command: str, **more: Any) -> tuple[bytes, bytes, int]:
    with start(server, tmp_path, *command, **more) as process:
        out, err = process.communicate(timeout=120)
    return out, err, process.returncode


def archived(server: FakeServer) -> tuple[bytes, str]:
    """The command's output, and the line of its result."""
    run = server.runs["p", "r"]
    assert run.closed
    *_, last = run.lines
    return run.data[: -len(last) - 1], last.decode()


@pytest.mark.behavior("`runlake exec` passes output, signals and the exit code through.")
@pytest.mark.parametrize("code", [0, 3, 255])
def test_output_and_exit_code_are_passed_through(code: int, server: FakeServer, tmp_path: Path) -> None:
    out, err, got = ran(server, tmp_path, "sh", "-c", f"echo out; echo err >&2; exit {code}")
    assert (out, err, got) == (b"out\n", b"err\n", code)
    output, end = archived(server)
    assert sorted(output.splitlines()) == [b"err", b"out"]
    assert end.startswith(f"[runlake] exit status {code} after ")


def test_prompt_appears_at_once_and_is_archived_with_its_line(server: FakeServer, tmp_path: Path) -> None:
    """The command continues when the test has read the previous text, so the order is certain."""
    seen = [tmp_path / "seen-1", tmp_path / "seen-2"]
    script = "import os, sys, time\ndef wait(path):\n    while not os.path.exists(path): time.sleep(0.01)\n"
    script += f"sys.stdout.write('sure? '); sys.stdout.flush(); wait({str(seen[0])!r})\n"
    script += f"sys.stderr.write('a warning\\n'); sys.stderr.flush(); wait({str(seen[1])!r})\nprint('yes')\n"
    with start(server, tmp_path / "spool", sys.executable, "-c", script) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.read(6) == b"sure? "
        seen[0].touch()
        assert process.stderr.readline() == b"a warning\n"
        seen[1].touch()
        assert process.communicate(timeout=60) == (b"yes\n", b"")
    assert archived(server)[0] == b"a warning\nsure? yes\n"


@pytest.mark.parametrize(
    ("script", "out", "err"),
    [
        ("exec 2>&-; echo out; echo more", b"out\nmore\n", b""),
        ("exec >&-; echo err >&2; (sleep 0.3; echo late >&2) &", b"", b"err\nlate\n"),
    ],
    ids=["stderr closed", "stdout closed, stderr held by a child"],
)
def test_ends_when_the_last_holder_of_an_output_ends(
    script: str, out: bytes, err: bytes, server: FakeServer, tmp_path: Path
) -> None:
    assert ran(server, tmp_path, "sh", "-c", script) == (out, err, 0)
    assert archived(server)[0] == out + err


def test_a_command_killed_by_a_signal(server: FakeServer, tmp_path: Path) -> None:
    out, _, code = ran(server, tmp_path, "sh", "-c", "echo before; kill -KILL $$")
    assert (out, code) == (b"before\n", 128 + signal.SIGKILL)
    assert archived(server)[1].startswith("[runlake] killed by signal 9 (SIGKILL) after ")


def test_binary_output_arrives_byte_for_byte(server: FakeServer, tmp_path: Path) -> None:
    data = bytes(range(256)) * 1000 + b"\r\n\0\xff\n\n\n" + b"no newline at the end \xc3"
    (tmp_path / "data").write_bytes(data)
    out, _, code = ran(server, tmp_path, "cat", str(tmp_path / "data"))
    assert (out, code) == (data, 0)
    assert archived(server)[0] == data + b"\n"


@pytest.mark.slow
def test_a_big_output_arrives_whole_in_little_memory(server: FakeServer, tmp_path: Path) -> None:
    """64 MiB; the client's memory may grow by less than that. (``ru_maxrss`` would include the process that forked it.)"""
    script = "import sys\nfor n in range(1 << 20): sys.stdout.write('%063d\\n' % n)"
    command = f"runlake(['exec', '-q', '--run-id', 'r', 'p', '--', sys.executable, '-c', {script!r}])"
    own = "import sys\nfrom runlake.__main__ import runlake\n"
    own += (
        f"try:\n    {command}\nfinally:\n    print(open('/proc/self/status').read().split('VmHWM:')[1].split()[0], file=sys.stderr)"
    )
    environment = {**os.environ, "PYTHONPATH": str(_SRC), "RUNLAKE_URL": server.url, "RUNLAKE_SPOOL_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", own], capture_output=True, env=environment, check=True, timeout=300)
    assert len(done.stdout) == 64 << 20
    assert hashlib.sha256(archived(server)[0]).digest() == hashlib.sha256(done.stdout).digest()
    assert int(done.stderr.split()[-1]) < 120 * 1024  # KiB


@pytest.mark.parametrize(("command", "name"), [("no-such-command", "no-such-command"), ("", "''"), ("./\udcff", "./\ufffd")])
def test_a_command_that_is_not_there(command: str, name: str, server: FakeServer, tmp_path: Path) -> None:
    _, err, code = ran(server, tmp_path, command)
    assert code == 127 and err.decode() == f"runlake: {name} could not be started: No such file or directory\n"
    assert server.runs["p", "r"].lines == [f"[runlake] {name} could not be started: No such file or directory".encode()]


def test_without_the_server_the_command_runs_all_the_same_and_its_lines_are_drained_later(
    server: FakeServer, tmp_path: Path
) -> None:
    server.down()
    out, err, code = ran(server, tmp_path, "sh", "-c", "echo out; exit 5", options=("--patience", "0.2"))
    assert (out, code) == (b"out\n", 5)
    assert b"2 lines of p/r wait in " in err
    server.up()
    environment = {"RUNLAKE_SPOOL_DIR": str(tmp_path), "RUNLAKE_URL": server.url}
    drained = CliRunner().invoke(runlake, ["drain"], env=environment)
    assert (drained.exit_code, drained.output) == (0, "2 lines stored, 0 still wait, 0 folders could not be read or sent\n")
    assert archived(server)[0] == b"out\n"
    assert list(tmp_path.iterdir()) == []
    assert CliRunner().invoke(runlake, ["drain", "--json"], env=environment).output == '{"stored": 0, "kept": 0, "failed": 0}\n'


@pytest.mark.parametrize("module", ["logging", "selectors"], ids=["of the log", "of the outputs"])
def test_output_of_a_damaged_installation_is_passed_through(module: str, server: FakeServer, tmp_path: Path) -> None:
    (tmp_path / f"{module}.py").write_text("raise ImportError('damaged')")
    script = "echo out; exec >&-; head -c 3000000 /dev/zero >&2; exit 3"
    out, err, code = ran(server, tmp_path / "spool", "sh", "-c", script, PYTHONPATH=f"{tmp_path}:{_SRC}")
    notice, _, copied = err.partition(b"\n")
    assert (out, notice, code) == (b"out\n", b"runlake: the output is not archived: ImportError: damaged", 3)
    assert copied == bytes(3_000_000)
    assert not server.runs


def test_without_an_address_nothing_is_run(server: FakeServer, tmp_path: Path) -> None:
    out, err, code = ran(server, tmp_path, "echo", "out", RUNLAKE_URL="")
    assert (out, code) == (b"", 125)
    assert b"RUNLAKE_URL" in err


def test_the_command_knows_its_run(server: FakeServer, tmp_path: Path) -> None:
    out, _, _ = ran(server, tmp_path, "sh", "-c", "echo $RUNLAKE_FQN/$RUNLAKE_RUN_ID")
    assert out == b"p/r\n"


@pytest.mark.parametrize("options", [(), ("-q",)], ids=str)
def test_name_and_page_of_the_run_are_on_stderr(options: tuple[str, ...], server: FakeServer, tmp_path: Path) -> None:
    arguments = ["--url", server.url, "--spool-dir", str(tmp_path), "exec", *options, "--run-id", "r 1", "p", "--", "echo", "out"]
    result = CliRunner().invoke(runlake, arguments)
    blanks = "runlake: the names have blanks: quote them, as in `runlake status p 'r 1'`"
    lines = ["runlake: archived as p/r 1", blanks, f"runlake: page: {server.url}/v1/ui/?p=p&r=r%201"]
    assert (result.exit_code, result.stdout, result.stderr.splitlines()) == (0, "out\n", [] if options else lines)


@pytest.mark.parametrize(("options", "code"), [((), 3), ((), 0), (("-q",), 3)], ids=str)
def test_failed_command_names_the_one_that_explains_it(
    options: tuple[str, ...], code: int, server: FakeServer, tmp_path: Path
) -> None:
    arguments = [
        "--url",
        server.url,
        "--spool-dir",
        str(tmp_path),
        "exec",
        *options,
        "--run-id",
        "r 1",
        "p",
        "--",
        "sh",
        "-c",
        f"exit {code}",
    ]
    result = CliRunner().invoke(runlake, arguments)
    hint = "runlake: failed: `runlake why p 'r 1'` shows the lines that explain it"
    assert result.exit_code == code and (hint in result.stderr.splitlines()) == (code == 3 and not options)


def test_a_reader_that_leaves_stops_neither_the_command_nor_the_archive(server: FakeServer, tmp_path: Path) -> None:
    with start(server, tmp_path, sys.executable, "-c", "print('x\\n' * 500_000, end='')") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"x\n"
        process.stdout.close()
        process.wait(timeout=60)
    assert process.returncode == 0
    assert archived(server)[0] == b"x\n" * 500_000

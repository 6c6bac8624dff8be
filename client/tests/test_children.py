"""Processes that a program forks: lines of a child that ends by a signal, as those of a pool do, are in the log all the same."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import pytest

from client.tests.fake_server import FakeServer
from runlake import RunlogHandler, Settings

_SRC = Path(__file__).parents[1] / "src"
_HEAD = """
import logging, multiprocessing, os, signal, subprocess, sys, time, runlake
forking = multiprocessing.get_context("fork")
log = logging.getLogger("job")
log.setLevel("INFO")
def work(number):
    for line in range(3):
        log.info("child %d line %d", number, line)
def ready(end):
    work(0)
    end.send(1)
    time.sleep(60)
"""
_IN_A_RUN = {
    "a pool that is left by with": """
with forking.Pool(2) as pool:
    pool.map(work, range(4), chunksize=1)
""",
    "a process that is terminated": """
here, there = forking.Pipe()
child = forking.Process(target=ready, args=(there,))
child.start(); here.recv(); child.terminate(); child.join()
""",
    "a process that is killed": """
here, there = forking.Pipe()
child = forking.Process(target=ready, args=(there,))
child.start(); here.recv(); child.kill(); child.join()
""",
    "a process that leaves by os._exit": """
if (child := os.fork()) == 0:
    work(0)
    os._exit(0)
os.waitpid(child, 0)
""",
    "a process that starts a command": """
if (child := os.fork()) == 0:
    work(0)
    subprocess.run([sys.executable, "-c", "0"], check=True)
    os.kill(os.getpid(), signal.SIGTERM)
os.waitpid(child, 0)
""",
}
_CHILDREN = {"a pool that is left by with": 4}


def environment(server: FakeServer, tmp_path: Path) -> dict[str, str]:
    of_library = {"PYTHONPATH": f"{_SRC}:{tmp_path}", "RUNLAKE_URL": server.url, "RUNLAKE_SPOOL_DIR": str(tmp_path / "spool")}
    return {**os.environ, **of_library, "PYTHONWARNINGS": "ignore"}


def lines_of_children(server: FakeServer) -> list[tuple[int, int]]:
    found = [re.search(rb"child (\d+) line (\d+)$", line) for line in server.lines("p", "r")]
    return [(int(each[1]), int(each[2])) for each in found if each]


@pytest.mark.behavior("Lines of a forked process are stored, however it ends.")
@pytest.mark.parametrize("child", _IN_A_RUN)
def test_lines_of_a_child_are_in_the_run_before_it_is_closed(child: str, server: FakeServer, tmp_path: Path) -> None:
    body = _IN_A_RUN[child].replace("\n", "\n    ")
    program = f"{_HEAD}\nwith runlake.run('p', 'r'):\n    {body}\n"
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment(server, tmp_path), capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(lines_of_children(server)) == [(number, line) for number in range(_CHILDREN.get(child, 1)) for line in range(3)]
    assert server.runs["p", "r"].closed and ("p", "r~2") not in server.runs
    assert list((tmp_path / "spool").iterdir()) == []


def test_lines_of_a_killed_command_are_in_the_run_that_exec_closes(
    server: FakeServer, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    handler = RunlogHandler("p", "r", settings=settings, command="./load.sh", close_run=True)
    for name, value in handler.environment.items():
        monkeypatch.setenv(name, value)
    server.fault = lambda method, path: "503"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking with threads
        child = os.fork()
    if child == 0:
        try:
            of_command = RunlogHandler("p", "r", settings=replace(settings, memory_bytes=1))
            of_command.write("on disk\n")  # the next line makes it so
            of_command.write("in memory\n")
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    server.fault = lambda method, path: ""
    handler.finish(30)
    assert server.lines("p", "r")[:1] == [b"on disk"] and server.runs["p", "r"].closed


_HANDLER = """
import logging, os, runlake
log = logging.getLogger("job")
log.setLevel("INFO")
log.addHandler(runlake.RunlogHandler("p", "r"))
def work():
    for line in range(3):
        log.info("child 0 line %d", line)
    os.write(1, b"logged\\n")
"""
_SERVERS = {
    "gunicorn": (
        f"{_HANDLER}\npreload_app, bind = True, '127.0.0.1:0'\ndef post_worker_init(worker): work()\n",
        ["gunicorn", "-c", "jobs.py", "--log-level", "error", "wsgiref.simple_server:demo_app"],
    ),
    "celery": (
        _HANDLER
        + """
from celery import Celery
from celery.signals import setup_logging
app = Celery("jobs", broker="filesystem://")
app.conf.broker_transport_options = dict(data_folder_in=".", data_folder_out=".", control_folder="control")
setup_logging.connect(lambda **_: None, weak=False)
app.task(work, name="work")
if __name__ == "__main__":
    app.send_task("work")
""",
        ["celery", "-q", "-A", "jobs", "worker", "-P", "prefork", "-c", "1", "--without-mingle", "--without-gossip"],
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("server_of_jobs", _SERVERS)
def test_lines_of_a_prefork_server_that_is_killed_are_drained(server_of_jobs: str, server: FakeServer, tmp_path: Path) -> None:
    """The handler is made before the fork, and the archive is away until all processes are dead."""
    module, command = _SERVERS[server_of_jobs]
    environ = environment(server, tmp_path)
    (tmp_path / "jobs.py").write_text(module)
    (tmp_path / "control").mkdir()
    if server_of_jobs == "celery":
        subprocess.run([sys.executable, "jobs.py"], env=environ, cwd=tmp_path, check=True)
    server.fault = lambda method, path: "503"
    running = [sys.executable, "-m", *command]
    with subprocess.Popen(running, env=environ, cwd=tmp_path, start_new_session=True, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert b"logged\n" in iter(process.stdout.readline, b"")
        os.killpg(process.pid, signal.SIGKILL)
    server.fault = lambda method, path: ""
    done = subprocess.run([sys.executable, "-m", "runlake", "drain"], env=environ, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert lines_of_children(server) == [(0, line) for line in range(3)]

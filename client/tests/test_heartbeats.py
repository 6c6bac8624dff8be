"""Heartbeats of a run: when they are sent, by which process, and that they delay nothing."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from client.tests.fake_server import FakeServer
from runlake import Pace, RunlogHandler, RunName, Settings
from runlake.heartbeats import Heartbeats
from runlake.starts import Start

NAME = "runlake-heartbeat-"
PATIENCE_S = 60


def threads() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name.startswith(NAME)]


@pytest.fixture(autouse=True)
def _no_thread_outlives_its_test() -> Iterator[None]:
    yield
    for thread in threads():
        thread.join(PATIENCE_S)


def beating(settings: Settings, pace: Pace, *, close_run: bool = True, command: str | None = None) -> RunlogHandler:
    """A handler that beats as often as it can."""
    quick = replace(pace, heartbeat_s=0.005)
    return RunlogHandler("p", "r", close_run=close_run, command=command, settings=settings, pace=quick)


def wait_for(server: FakeServer, condition: Callable[[], bool]) -> None:
    """Wait until requests make the condition true."""
    with server.changed:
        assert server.changed.wait_for(condition, PATIENCE_S)


@pytest.mark.parametrize(
    ("interval_s", "batches_s", "expected_s"),
    [
        (300, [], [300, 600, 900]),
        (300, [100, 350, 500], [800]),
        (300, [300, 600, 900], []),
        (600, [], [600]),
    ],
)
def test_heartbeat_comes_when_nothing_was_sent_for_the_interval(
    interval_s: float, batches_s: list[float], expected_s: list[float]
) -> None:
    now_s, sent_s = 0.0, list[float]()

    def send() -> None:
        sent_s.append(now_s)

    def wait(seconds: float) -> bool:
        nonlocal now_s
        end_s = now_s + seconds
        while batches_s and batches_s[0] <= end_s:
            now_s = batches_s.pop(0)
            heartbeats.sent()
        now_s = end_s
        return now_s > 1000

    heartbeats = Heartbeats(interval_s, send, lambda: now_s, wait)
    heartbeats.run()
    assert sent_s == expected_s


@pytest.mark.parametrize("command", [None, "./load.sh"])
def test_run_without_lines_beats_until_it_is_closed(
    command: str | None, server: FakeServer, settings: Settings, pace: Pace
) -> None:
    handler = beating(settings, pace, command=command)
    handler.write("one\n")
    wait_for(server, lambda: len(server.heartbeats) >= 2)
    (thread,) = threads()
    handler.close()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert set(server.heartbeats) == {("p", "r")}
    assert server.runs["p", "r"].closed and server.lines("p", "r") == [b"one"]


def test_heartbeats_are_of_the_attempt_that_is_written_to(server: FakeServer, settings: Settings, pace: Pace) -> None:
    server.runs["p", "r"].closed = True
    handler = beating(settings, pace, command="./load.sh")
    handler.start()
    wait_for(server, lambda: ("p", "r~2") in server.heartbeats)
    handler.close()
    assert set(server.heartbeats) == {("p", "r~2")}


def test_only_the_closer_of_a_run_sends_heartbeats(
    server: FakeServer, settings: Settings, pace: Pace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A handler that only writes, one in a forked process, and one whose interval is 0."""
    only_writes = beating(settings, pace, close_run=False)
    without = RunlogHandler("p", "r", close_run=True, settings=settings, pace=pace)
    forked = beating(settings, pace)
    with monkeypatch.context() as patched:
        patched.setattr(os, "getpid", lambda: -1)
        forked._begin_in_child()
        for handler in (only_writes, without, forked):
            handler.write("one\n")
            handler.flush()
        assert len(server.lines("p", "r")) == 3 and not threads()
        for handler in (only_writes, forked):
            handler.close()
    without.close()
    started = RunlogHandler("p", "r", settings=settings, pace=replace(pace, heartbeat_s=60), command="./load.sh")
    started.write("one\n")
    started.finish(30)
    assert server.heartbeats == [] and ["heartbeatS" in start for start in server.starts] == [False], "and promises none"


def test_heartbeat_without_an_answer_delays_neither_lines_nor_the_exit(server: FakeServer, settings: Settings, pace: Pace) -> None:
    arrived, release = threading.Event(), threading.Event()

    def fault(_: str, path: str) -> str:
        if path.endswith("/heartbeat"):
            arrived.set()
            release.wait(PATIENCE_S)
        return ""

    server.fault = fault
    handler = beating(replace(settings, timeout_s=PATIENCE_S, exit_s=5), pace)
    handler.write("one\n")
    assert arrived.wait(PATIENCE_S)
    handler.write("two\n")
    handler.close()
    assert server.heartbeats == [] and server.runs["p", "r"].closed
    assert server.lines("p", "r") == [b"one", b"two"]
    release.set()


@pytest.mark.parametrize("fault", ["500", "503", "cut", "lost", "page", "400"])
def test_heartbeat_that_fails_is_followed_by_others(fault: str, server: FakeServer, settings: Settings, pace: Pace) -> None:
    faults = iter([fault, fault])
    server.fault = lambda _, path: next(faults, "") if path.endswith("/heartbeat") else ""
    handler = beating(settings, pace, command="./load.sh")
    handler.start()
    wait_for(server, lambda: len(server.heartbeats) > 2)
    handler.close()
    assert server.runs["p", "r"].closed


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "environment", "promised"),
    [([], {}, 300), (["--heartbeat", "60"], {}, 60), (["--heartbeat", "0"], {}, None), ([], {"RUNLAKE_HEARTBEAT_S": "20"}, 20)],
)
def test_exec_promises_what_is_set(
    options: list[str], environment: dict[str, str], promised: int | None, server: FakeServer, settings: Settings
) -> None:
    own = {"RUNLAKE_URL": server.url, "RUNLAKE_SPOOL_DIR": settings.spool_dir, "PYTHONPATH": "client/src"}
    command = [sys.executable, "-m", "runlake", "exec", "-q", *options, "p", "true"]
    assert subprocess.run(command, env=os.environ | own | environment, timeout=PATIENCE_S).returncode == 0
    assert [each.get("heartbeatS") for each in server.starts] == [promised]


@pytest.mark.parametrize("heartbeat_s", [0, 60])
def test_command_that_reports_its_start_before_exec_promises_the_same(
    heartbeat_s: int, server: FakeServer, settings: Settings, pace: Pace, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_exec = Start.now(RunName("p", "r"), "./load.sh", heartbeat_s=heartbeat_s)
    for name, value in of_exec.environment(RunName("p", "r")).items():
        monkeypatch.setenv(name, value)
    handler = RunlogHandler("p", "r", settings=settings, pace=pace)
    handler.write("one\n")
    handler.close()
    assert [start.get("heartbeatS", 0) for start in server.starts] == [heartbeat_s] and not server.heartbeats


def test_start_that_waited_on_disk_promises_none() -> None:
    start = Start.now(RunName("p", "r"), "./load.sh", heartbeat_s=300)
    assert start.body()["heartbeatS"] == 300
    assert "heartbeatS" not in Start.of(start.facts()).body()

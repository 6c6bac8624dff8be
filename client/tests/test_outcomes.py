"""The reported end of a run, by ``exec`` and ``runlake.run``, also if it waited on disk."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import runlake
from client.tests.fake_server import FakeServer
from runlake import Pace, RunlogHandler
from runlake.__main__ import runlake as command
from runlake.draining import waiting_in
from runlake.outcomes import RunEnd, exit_status
from runlake.settings import Settings
from runlake.spool import folders_in

_DIE = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"


def executed(server: FakeServer, tmp_path: Path, *arguments: str) -> subprocess.Popen[bytes]:
    environment = os.environ | {"RUNLAKE_URL": server.url, "RUNLAKE_SPOOL_DIR": str(tmp_path), "PYTHONPATH": "client/src"}
    return subprocess.Popen(
        [sys.executable, "-m", "runlake", "exec", "-q", "--run-id", "r", "p", "--", *arguments], env=environment, stderr=subprocess.PIPE
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "end"),
    [
        (["true"], {"outcome": "succeeded", "exitCode": 0}),
        (["sh", "-c", "exit 3"], {"outcome": "failed", "exitCode": 3}),
        ([sys.executable, "-c", _DIE], {"outcome": "failed", "signal": "SIGKILL"}),
        (["/no/such/command"], {"outcome": "failed", "exitCode": 127}),
    ],
    ids=["true", "exit 3", "killed", "not found"],
)
def test_exec_reports_how_the_command_ended(server: FakeServer, tmp_path: Path, arguments: list[str], end: dict[str, Any]) -> None:
    executed(server, tmp_path, *arguments).communicate()
    assert server.runs["p", "r"].end == end


@pytest.mark.parametrize(
    ("error", "end"),
    [
        (None, {"outcome": "succeeded"}),
        (SystemExit(), {"outcome": "succeeded", "exitCode": 0}),
        (SystemExit(4), {"outcome": "failed", "exitCode": 4}),
        (SystemExit("no hunter2"), {"outcome": "failed", "exitCode": 1, "exception": "no ***configured-value***"}),
        (SystemExit(True), {"outcome": "failed", "exitCode": 1}),
        (SystemExit(False), {"outcome": "succeeded", "exitCode": 0}),
        (SystemExit(-1), {"outcome": "failed", "exitCode": 255}),
        (SystemExit(10**10), {"outcome": "succeeded", "exitCode": 0}),
        (SystemExit(10**30), {"outcome": "failed", "exitCode": 255}),
        (KeyboardInterrupt(), {"outcome": "cancelled"}),
        (ValueError("bad hunter2"), {"outcome": "failed", "exception": "ValueError: bad ***configured-value***"}),
        (ValueError("caf\udce9.csv"), {"outcome": "failed", "exception": "ValueError: caf?.csv"}),
        (ValueError("hunter2" * 280), {"outcome": "failed", "exception": ("ValueError: " + "***configured-value***" * 280)[:2000]}),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_run_reports_how_its_block_ended(
    server: FakeServer, settings: Settings, error: BaseException | None, end: dict[str, Any]
) -> None:
    with suppress(BaseException), runlake.run("p", "r", logger=None, settings=settings, secrets=["hunter2"]):
        if error:
            raise error
    assert server.runs["p", "r"].end == end
    assert bool(server.lines("p", "r")) == (end["outcome"] != "succeeded"), "a trace of a failure alone"


@pytest.mark.parametrize("code", [True, False, 256, -1, 10**10 + 3, 2**63 - 1, 2**63, 10**30, "text", 2.5], ids=str)
def test_exit_status_is_the_interpreters(code: Any) -> None:
    done = subprocess.run([sys.executable, "-S", "-c", f"raise SystemExit({code!r})"], check=False, capture_output=True, timeout=60)
    assert exit_status(SystemExit(code)) == done.returncode


def test_end_whose_details_are_refused_is_closed_without_them(server: FakeServer, settings: Settings) -> None:
    notices: list[str] = []
    handler = RunlogHandler("p", "r", settings=settings, close_run=True, tell=notices.append)
    handler.finish(30, end=RunEnd("failed", signal="no signal", lost_lines=2))
    assert server.runs["p", "r"].end == {"outcome": "failed", "lostLines": 2}
    (notice,) = notices
    assert notice.startswith("p/r is closed without the details of its end: not the end of a run: ") and "field=signal" in notice


def test_failed_run_names_the_innermost_step_that_failed(server: FakeServer, settings: Settings) -> None:
    with (
        suppress(ZeroDivisionError),
        runlake.run("p", "r", logger=None, settings=settings, events=True) as run,
        run.step("Load", "load"),
    ):
        with suppress(KeyError), run.step("Optional", "optional"):
            raise KeyError("x")
        with run.step("Orders", "orders"):
            raise ZeroDivisionError
    assert server.runs["p", "r"].end == {"outcome": "failed", "exception": "ZeroDivisionError", "step": "orders"}


def drained(server: FakeServer, settings: Settings, *options: str) -> Result:
    arguments = ["--url", server.url, "--spool-dir", settings.spool_dir, "drain", *options, "--json"]
    return CliRunner().invoke(command, arguments)


@pytest.mark.parametrize(("fault", "has_line"), [("503", True), ("lost", True), ("503", False)])
def test_close_without_an_answer_waits_on_disk_with_its_outcome(
    server: FakeServer, settings: Settings, pace: Pace, fault: str, *, has_line: bool
) -> None:
    # Without a line the start is not answered either.
    server.fault = lambda method, path: fault if path.endswith("/close") or not has_line else ""
    notices: list[str] = []
    handler = RunlogHandler("p", "r", settings=settings, pace=pace, close_run=True, command="./load.sh", tell=notices.append)
    if has_line:
        handler.write("one\n")
        handler.flush()
    handler.finish(0.05, end=RunEnd("failed", exit_code=3))
    root = settings.spool_root
    assert notices == [
        f"the end of p/r waits in {root}: run `runlake --spool-dir {root} drain` later, or it is abandoned after a day"
    ]
    (listed,) = drained(server, settings, "--list").stdout.splitlines()
    assert (json.loads(listed)["runId"], json.loads(listed)["lines"]) == ("r", 0)
    still_away = drained(server, settings, "--patience", "0")
    assert (still_away.exit_code, json.loads(still_away.stdout)) == (1, {"stored": 0, "kept": 0, "failed": 1})
    assert f"the end of p/r waits for {server.url} in " in still_away.stderr
    server.fault = lambda method, path: ""
    assert drained(server, settings).exit_code == 0
    assert server.runs["p", "r"].end == {"outcome": "failed", "exitCode": 3}
    assert server.lines("p", "r") == [b"one"] * has_line and len(server.starts) == 1
    assert list(root.iterdir()) == []


@pytest.mark.parametrize("waits", [False, True])
def test_close_tells_of_lost_lines_also_where_it_waits_on_disk(
    server: FakeServer, settings: Settings, pace: Pace, *, waits: bool
) -> None:
    faults = {"/close": "503" * waits, "/logs/p/r": "400"}
    server.fault = lambda method, path: next((fault for end, fault in faults.items() if path.endswith(end)), "")
    handler = RunlogHandler("p", "r", settings=settings, pace=pace, close_run=True, command="./load.sh", tell=lambda text: None)
    handler.write("one\n")
    handler.flush()
    assert handler.counts.lost_lines == 1
    handler.finish(0.05 if waits else 30, end=RunEnd("failed"))
    server.fault = lambda method, path: ""
    assert bool(server.runs["p", "r"].end) != waits
    assert len([path for _, path, _ in server.requests if path.endswith("/logs/p/r")]) == 1, "the end sends it again"
    rows = list(map(json.loads, drained(server, settings, "--list").stdout.splitlines()))
    (refused,) = (row["folder"] for row in rows if (row["lines"], row["reason"]) == (1, "as the test requires"))
    assert len(rows) == 1 + waits and drained(server, settings, "--discard", refused).exit_code == 0
    assert not waits or drained(server, settings).exit_code == 0
    assert server.runs["p", "r"].end == {"outcome": "failed", "lostLines": 1} and server.lines("p", "r") == []


def test_without_a_disk_an_unanswered_close_is_reported(server: FakeServer, settings: Settings, pace: Pace) -> None:
    server.fault = lambda method, path: "503"
    notices: list[str] = []
    handler = RunlogHandler("p", "r", settings=replace(settings, spool_bytes=0), pace=pace, close_run=True, tell=notices.append)
    handler.finish(0.05, end=RunEnd("failed"))
    assert notices == ["p/r could not be closed: run `runlake close p r` later, or it is abandoned after a day"]


def test_outcome_waits_on_disk_with_the_lines(server: FakeServer, settings: Settings) -> None:
    server.down()
    with suppress(ValueError), runlake.run("p", "r", logger=None, settings=replace(settings, exit_s=0)) as run:
        run.write("one")
        raise ValueError("no")
    (folder,) = folders_in(settings.spool_root)
    waiting = waiting_in(folder)
    assert waiting and waiting.state.run_end
    ended_ms = waiting.state.run_end.ended_ms
    server.up()
    assert CliRunner().invoke(command, ["--url", server.url, "--spool-dir", settings.spool_dir, "drain"]).exit_code == 0
    assert server.runs["p", "r"].end == {"outcome": "failed", "exception": "ValueError: no"}
    assert 0 <= server.runs["p", "r"].end_age_ms <= time.time() * 1000 - ended_ms

"""Attempts of a run, runs without lines and how runs end, by the command, against the deployed local stack."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from runlake import Archive, RunName
from runlake.settings import load_settings
from runlake.spool import claim
from tests.integration.stacks import COMMAND_S, Stack, eventually

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("stack_settings")]
FQN = "client.attempts"


def begun(*arguments: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "runlake", *arguments], env=os.environ | environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )  # fmt: skip


def done(*arguments: str, **environment: str) -> tuple[int, str, str]:
    process = begun(*arguments, **environment)
    out, err = process.communicate(timeout=COMMAND_S)
    return process.returncode, out, err


def lines(run_id: str) -> list[str]:
    return [line for line in done("cat", FQN, run_id)[1].splitlines() if not line.startswith("[runlake]")]


def facts(run_id: str) -> dict[str, Any]:
    def ask() -> dict[str, Any]:
        listed = map(json.loads, done("runs", FQN, "--json", "-n", "100")[1].splitlines())
        return next((each for each in listed if each["runId"] == run_id), {})

    return dict(eventually(ask))


def test_three_attempts_of_one_run_two_of_them_at_once_and_the_archive_away_for_one() -> None:
    first = done("exec", "--run-id", "t", FQN, "--", "sh", "-c", "echo first; exit 3")
    assert (first[0], first[1]) == (3, "first\n") and f"archived as {FQN}/t\n" in first[2]
    ended = eventually(lambda: facts("t"), lambda known: known["outcome"] != "running")
    assert (ended["outcome"], ended["exitCode"]) == ("failed", 3)
    both = [begun("exec", "--run-id", "t", FQN, "--", "sh", "-c", f"echo {name}; sleep 0.5; echo {name}") for name in "ab"]
    reports = [process.communicate(timeout=COMMAND_S)[1] for process in both]
    stored = {name: next(n for n in (2, 3) if f"t~{n} (attempt {n})" in report) for name, report in zip("ab", reports, strict=True)}
    assert sorted(stored.values()) == [2, 3]
    assert all(lines(f"t~{number}") == [name, name] for name, number in stored.items()) and lines("t") == ["first"]
    away = done("exec", "--run-id", "t", "--patience", "0", FQN, "--", "echo", "later", RUNLAKE_URL="http://127.0.0.1:1/api")
    assert (away[0], away[1]) == (0, "later\n") and "archived as" not in away[2] and "wait in" in away[2]


def test_lines_that_waited_on_disk_are_the_next_attempt(stack: Stack, tmp_path: Path) -> None:
    assert done("exec", "--run-id", "d", FQN, "--", "echo", "first")[0] == 0
    away = done("exec", "--run-id", "d", "--patience", "0", FQN, "--", "echo", "second", RUNLAKE_URL="http://127.0.0.1:1/api")
    assert "wait in" in away[2]
    (folder,) = (tmp_path / "spool").iterdir()
    left = claim(folder)
    assert left
    left.record(url=stack.api_url)
    left.close()
    code, _, err = done("drain")
    assert code == 0 and f"archived as {FQN}/d~2" in err
    assert (lines("d"), lines("d~2")) == (["first"], ["second"])


def test_silent_run_exists_from_its_start_and_a_killed_one_stays_running() -> None:
    silent = begun("exec", "--run-id", "s", FQN, "--", "sleep", "60", RUNLAKE_ATTEMPT="4")
    known = facts("s~4")
    expected = {"attempt": 4, "firstRunId": "s", "lines": 0, "status": "open", "command": "sleep 60"}
    assert {name: known[name] for name in expected} == expected
    assert known["host"] and done("cat", FQN, "s~4")[:2] == (0, "")
    silent.send_signal(signal.SIGKILL)
    silent.communicate()
    assert facts("s~4")["status"] == "open"
    assert done("close", FQN, "s~4")[0] == 0
    code, out, err = done("exec", "--run-id", "s", "--attempt", "4", FQN, "--", "echo", "x")
    assert (code, out) == (0, "x\n") and "leave the number out" in err and "wait in" in err


def test_attempt_whose_supervisor_is_killed_keeps_its_lines_and_stays_apart_from_the_next_one() -> None:
    killed = begun("exec", "--run-id", "k", FQN, "--", "sh", "-c", "echo before; sleep 60; echo never")
    eventually(lambda: lines("k"), lambda known: known == ["before"])
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert done("exec", "--run-id", "k", FQN, "--", "sh", "-c", "echo again; exit 1")[0] == 1
    assert (lines("k"), lines("k~2")) == (["before"], ["again"])
    assert eventually(lambda: facts("k~2"), lambda known: known["outcome"] != "running")["outcome"] == "failed"
    assert facts("k")["outcome"] == "running"
    failed = {json.loads(line)["runId"] for line in done("runs", "client.*", "--failed", "--since", "1h", "--json")[1].splitlines()}
    assert "k~2" in failed and "k" not in failed


def test_library_in_commands_of_two_attempts_at_once_writes_to_the_attempt_of_its_exec() -> None:
    code = "import os, runlake, sys, time\nprint(sys.argv[1], flush=True)\ntime.sleep(1)\n"
    code += (
        "with runlake.run(os.environ['RUNLAKE_FQN'], os.environ['RUNLAKE_RUN_ID'], events=True) as run: run.event(sys.argv[1])\n"
    )
    code += "print(sys.argv[1])\nsys.exit(3)\n"
    both = [begun("exec", "--run-id", "b", FQN, "--", sys.executable, "-c", code, name) for name in ("one", "two")]
    for process in both:
        process.communicate(timeout=COMMAND_S)
    assert sorted([lines("b"), lines("b~2")]) == [["one"] * 3, ["two"] * 3]
    for run_id in ("b", "b~2"):
        ended = eventually(lambda run_id=run_id: facts(run_id), lambda known: known["outcome"] != "running")  # type: ignore[misc]
        assert (ended["outcome"], ended["exitCode"]) == ("failed", 3)
        eventually(lambda run_id=run_id: "events\tcomplete" in done("status", FQN, run_id)[1])  # type: ignore[misc]
    assert not any(json.loads(line)["runId"] == "b~3" for line in done("runs", FQN, "--json", "-n", "100")[1].splitlines())


def test_events_of_a_run_that_is_closed_under_its_writer_are_complete_in_both_attempts() -> None:
    code = f"import runlake, subprocess, sys\nwith runlake.run({FQN!r}, 'm', logger=None, events=True) as run:\n"
    code += " run.event('first')\n run.handler.flush()\n"
    code += f" subprocess.run([sys.executable, '-m', 'runlake', 'close', {FQN!r}, 'm'], check=True)\n run.event('second')\n"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=COMMAND_S)
    assert (lines("m"), lines("m~2")) == (["first"], ["second"])
    assert eventually(lambda: facts("m~2"), lambda known: known["outcome"] != "running")["outcome"] == "succeeded"
    for run_id in ("m", "m~2"):
        eventually(lambda run_id=run_id: "events\tcomplete" in done("status", FQN, run_id)[1])  # type: ignore[misc]


@pytest.mark.parametrize("shift_s", [-3600, 3600], ids=["an hour slow", "an hour fast"])
def test_clock_of_the_client_changes_no_time_of_a_run(shift_s: int, tmp_path: Path) -> None:
    """Every clock that the client's Python reads is off; the stack's is right."""
    (tmp_path / "sitecustomize.py").write_text(
        f"import time\nreal, real_ns = time.time, time.time_ns\ntime.time = lambda: real() + {shift_s}\n"
        f"time.time_ns = lambda: real_ns() + {shift_s} * 10**9\n"
    )
    before_ms, run_id = time.time() * 1000, f"clock{shift_s}"
    path = f"{tmp_path}:{os.environ['PYTHONPATH']}" if os.environ.get("PYTHONPATH") else str(tmp_path)
    assert done("exec", "--run-id", run_id, FQN, "--", "echo", "x", PYTHONPATH=path)[0] == 0
    known = eventually(lambda: facts(run_id), lambda known: known["outcome"] == "succeeded")
    assert before_ms <= known["startedMs"] <= known["lastAppendMs"] <= time.time() * 1000


def test_run_of_no_lines_is_closed_with_its_result_alone() -> None:
    assert done("exec", "--run-id", "n", FQN, "--", "true")[0] == 0
    assert lines("n") == [] and facts("n")["lines"] == 1


def test_killed_command_becomes_silent_and_a_heartbeat_ends_it(stack: Stack) -> None:
    killed = begun("exec", "--run-id", "q", FQN, "--", "sleep", "60")
    since_ms = facts("q")["startedMs"] - 3_600_000
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    with closing(stack.client("dynamodb")) as dynamodb:  # as if it had happened an hour ago
        dynamodb.update_item(
            TableName=stack["runs_table"],
            Key={"fqn": {"S": FQN}, "run_id": {"S": "q"}},
            UpdateExpression="SET last_append_ms = :ms",
            ExpressionAttributeValues={":ms": {"N": str(since_ms)}},
        )
    assert (facts("q")["outcome"], facts("q")["silentSinceMs"]) == ("silent", since_ms)
    assert "silent since" in done("status", FQN, "q")[1] and "silent since" in done("runs", FQN)[1]
    with Archive.of(load_settings()) as archive:
        archive.send_heartbeat(RunName(FQN, "q"))
    assert facts("q")["outcome"] == "running"
    assert done("close", FQN, "q")[0] == 0

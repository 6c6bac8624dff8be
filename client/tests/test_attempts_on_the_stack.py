"""Attempts of a run and runs without lines, by the command, against the deployed local stack."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

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
    run = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(run | {"url": stack.api_url}))
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


def test_run_of_no_lines_is_closed_with_its_result_alone() -> None:
    assert done("exec", "--run-id", "n", FQN, "--", "true")[0] == 0
    assert lines("n") == [] and facts("n")["lines"] == 1

"""Events and steps against the deployed local stack: the behaviour that the fake server assumes."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import runlake
from runlake.__main__ import runlake as command
from runlake.masking import MARK
from runlake.names import new_run_id
from tests.integration.stacks import PATIENCE_S, Stack

pytestmark = pytest.mark.slow
_SRC = Path(__file__).parents[1] / "src"
RUN = new_run_id()
FQN = f"client.events/ü %2F {RUN}"
"""Its own in a stack that is used again."""


@pytest.fixture(autouse=True)
def _settings(stack_settings: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNLAKE_EXIT_S", "120")


def shown(*arguments: str) -> str:
    result = CliRunner().invoke(command, list(arguments))
    assert result.exit_code == 0, result.output
    return result.stdout


def completeness(run: runlake.RunName, state: str, give_up_s: float = 60) -> dict[str, Any]:
    """Wait for this state."""
    give_up = time.monotonic() + give_up_s
    with runlake.Archive.of(runlake.load_settings()) as archive:
        while (found := archive.completeness(run, wait_s=5))["state"] != state:
            assert time.monotonic() < give_up, found
    return found


def test_what_is_said_in_steps_is_read_by_steps(stack: Stack) -> None:
    logger = logging.Logger("app")
    options: dict[str, Any] = {"logger": logger, "events": True, "writer": "main", "secrets": ["hunter2!"]}
    with runlake.run(FQN, "run 1", **options) as run:
        logger.info("begin")
        with run.step("Build/1 ü", "build/1 ü"):
            with run.step("Compile", "compile"):
                for number in range(2000):
                    logger.info("compiled %d", number)
            with suppress(ZeroDivisionError), run.step("Test"):
                run.event(
                    "tested hunter2!\nin two lines",
                    level="ERROR",
                    data={"n": [1, None]},
                    annotations=[runlake.link(0, 6, "https://x.org/")],
                )
                _ = 1 / 0
        with run.events("second") as second:
            second.write("said by another", step="compile")
    found = completeness(run.name, "complete")
    assert {each["writer"]: (each["count"], each["visible"]) for each in found["writers"]} == {
        "main": (2003, 2003),
        "second": (1, 1),
    }
    rows = [line.split("\t") for line in shown("steps", FQN, "run 1").splitlines()]
    assert [(row[0], row[1], row[3], row[4], row[5]) for row in rows] == [
        ("Build/1 ü", "ok", "0", "0", "complete"),
        ("  Compile", "ok", "2001", "0", "complete"),
        ("  Test", "FAILED", "3", "2", "complete"),
    ]
    log = shown("cat", FQN, "run 1", "--step", "Compile").splitlines()
    log.remove("said by another")  # somewhere: writers do not wait for each other
    assert [line.split(": ")[-1] for line in log] == [f"compiled {number}" for number in range(2000)]
    assert len(shown("cat", FQN, "run 1").splitlines()) == 2005
    errors = [json.loads(line) for line in shown("events", FQN, "run 1", "--level", "ERROR", "--json").splitlines()]
    assert errors[0]["message"] == f"tested {MARK}\nin two lines" and errors[0]["data"]["n"] == [1, None]
    assert errors[0]["annotations"] == [{"position": 0, "note": {"kind": "link", "length": 6, "href": "https://x.org/"}}]
    assert errors[1]["message"].startswith("the step Test failed: ZeroDivisionError")
    assert "events\tcomplete\n" in shown("status", FQN, "run 1")


def test_a_killed_writer_is_never_complete(stack: Stack) -> None:
    code = f"import runlake, time\nrun = runlake.run('client.killed', '{RUN}', logger=None, events=True, writer='doomed')\n"
    code += "run.event('one'); run.handler.flush(); print('ready', flush=True); run.event('two'); time.sleep(60)\n"
    with subprocess.Popen(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(_SRC)}, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGKILL)
    name = runlake.RunName("client.killed", RUN)
    with runlake.Archive.of(runlake.load_settings()) as archive:
        archive.close_run(name)
    _eventually(lambda: f"client.killed/{RUN}" in shown("status", "client.killed", RUN))
    found = completeness(name, "pending")
    assert found["sealed"] and [(each["writer"], each["closed"]) for each in found["writers"]] == [("doomed", False)]


def test_a_batch_that_is_sent_again_is_stored_once(stack: Stack) -> None:
    name = runlake.RunName("client.again", RUN)
    events = b"".join(json.dumps({"id": number, "message": f"{number}", "timestamp": 1}).encode() + b"\n" for number in range(10))
    with runlake.Archive.of(runlake.load_settings()) as archive:
        archive.register_writer(name, "w")
        first = archive.append_events(name, "w", events, "key-1")
        again = archive.append_events(name, "w", events, "key-1")
        third = archive.append_events(name, "w", events, "key-1", str(first["position"]))
        archive.close_writer(name, "w", 10)
        archive.close_writer(name, "w", 10)
        with pytest.raises(runlake.RunClosedError):
            archive.close_writer(name, "w", 11)
        archive.close_run(name)
        with pytest.raises(runlake.RunClosedError):
            archive.append_events(name, "w", events, "key-2")
    assert [each["repeated"] for each in (first, again, third)] == [False, True, True]
    completeness(name, "complete")
    assert shown("cat", "client.again", RUN) == "".join(f"{number}\n" for number in range(10))


def _eventually(holds: Callable[[], Any]) -> None:
    give_up = time.monotonic() + PATIENCE_S
    while True:
        with suppress(AssertionError):
            if holds():
                return
        assert time.monotonic() < give_up
        time.sleep(0.2)

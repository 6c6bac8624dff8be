"""The client against the deployed local stack: the behaviour that the fake server assumes."""

from __future__ import annotations

import hashlib
import json
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import runlake
from runlake.__main__ import runlake as command
from tests.integration.stacks import COMMAND_S, eventually

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("stack_settings")]


def executed(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "runlake", "exec", "-q", *arguments], capture_output=True, check=False, timeout=COMMAND_S
    )  # fmt: skip


def test_a_run_is_shipped_followed_and_read() -> None:
    with runlake.run("client.tests/ü %2F", "run 1", logger=None) as run:
        for number in range(3000):
            run.write(f"line {number}")
        run.handler.flush()
        with runlake.Archive.of(runlake.load_settings()) as archive:
            assert archive.page(run.name, tail=1).lines == ["line 2999"]
    expected = [f"line {number}" for number in range(3000)]
    shown = CliRunner().invoke(command, ["tail", "-f", "-n", "3000", "client.tests/ü %2F", "run 1"])
    assert shown.stdout.splitlines() == expected
    assert run.counts.stored_lines == 3000 and run.counts.lost_lines == 0
    with pytest.raises(runlake.RunClosedError), runlake.Archive.of(runlake.load_settings()) as archive:
        archive.append_text(run.name, b"late\n")


def test_bytes_that_are_no_text_come_back_as_they_were(tmp_path: Path) -> None:
    """5 MiB of arbitrary bytes: too large for a response, so they are fetched from the store by a link, in part and then the rest."""
    data = random.Random(7).randbytes(5 << 20) + b"\r\n\0\xff\n"
    (tmp_path / "data").write_bytes(data)
    done = executed("--run-id", "binary", "client.bytes", "--", "cat", str(tmp_path / "data"))
    assert (done.returncode, done.stdout == data, done.stderr) == (0, True, b"")
    (tmp_path / "log.part").write_bytes(data[:1_000_000])
    fetched = CliRunner().invoke(command, ["download", "client.bytes", "binary", "-o", str(tmp_path / "log"), "--json"])
    assert json.loads(fetched.stdout)["resumedAt"] == 1_000_000
    *whole, end = (tmp_path / "log").read_bytes().splitlines(keepends=True)
    assert hashlib.sha256(b"".join((tmp_path / "log").read_bytes().rpartition(end)[:1])).digest() == hashlib.sha256(data).digest()
    assert end.startswith(b"[runlake] exit status 0 after ") and whole


def test_runs_are_found_followed_searched_and_told_about() -> None:
    lines = [f"step {number}: {'ERROR no disk' if number % 40 == 7 else 'ok'}" for number in range(100)]
    for run_id in ("first", "second"):
        with runlake.run("client.commands", run_id, logger=None) as run:
            run.write("\n".join(lines))
    invoke = CliRunner().invoke
    listed = eventually(
        lambda: rows_of(["runs", "client.commands", "--json"]), lambda rows: [row["lines"] for row in rows] == [100, 100]
    )
    assert [row["runId"] for row in listed] == ["second", "first"]
    assert "client.commands" in invoke(command, ["pipelines"]).stdout
    assert invoke(command, ["tail", "-n", "2", "client.commands"]).stdout.splitlines() == lines[-2:]
    assert invoke(command, ["tail", "-f", "-n", "3", "client.commands", "first"]).stdout.splitlines() == lines[-3:]
    found = invoke(command, ["grep", "no disk", "client.commands", "first"]).stdout
    assert found.splitlines() == [line for line in lines if "no disk" in line]
    (told,) = eventually(lambda: rows_of(["status", "client.commands", "first", "--json"]), lambda rows: rows[0]["end"])
    assert (told["lines"], told["end"], told["lost"]) == (100, "closed", 0)


def rows_of(arguments: Sequence[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in CliRunner().invoke(command, arguments).stdout.splitlines()]


def test_an_exit_code_is_the_commands_own() -> None:
    assert executed("--run-id", "r", "client.codes", "--", "sh", "-c", "echo out; exit 9").returncode == 9
    assert CliRunner().invoke(command, ["cat", "client.codes", "r"]).stdout.startswith("out\n[runlake] exit status 9 after ")

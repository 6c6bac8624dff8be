"""`runlake files` on the stack, without AWS credentials, next to the unmodified datalake client: each fetches what the other pushed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from runlake.__main__ import runlake
from tests.integration.datalake.client import Datalake
from tests.integration.stacks import Stack

MIB = 1024 * 1024
DAY = ("--start", "2026-03-20", "--end", "2026-03-21")
INTERVAL = {"start": "2026-03-20T00:05:32.345Z", "end": "2026-03-20T23:59Z"}


@pytest.fixture(autouse=True)
def _settings(stack: Stack, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in os.environ:
        if name.startswith(("AWS_", "RUNLAKE_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("RUNLAKE_CONFIG", os.devnull)
    monkeypatch.setenv("RUNLAKE_URL", stack.api_url)
    monkeypatch.setenv("RUNLAKE_SPOOL_DIR", f"{tmp_path}-spool")
    monkeypatch.chdir(tmp_path)


def answered(*arguments: str, stdin: str = "") -> str:
    result = CliRunner().invoke(runlake, ["files", *arguments], input=stdin)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize("size", [7, 101 * MIB], ids=["one piece", "parts"])
def test_each_client_fetches_what_the_other_pushed(size: int, datalake: Datalake, what: str, where: str, tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours.log", tmp_path / "theirs.log"
    ours.write_bytes(b"x" * size)
    theirs.write_bytes(b"\xff\0" * 3_000_000)
    push = ("push", "--what", what, "--where", where, "--start", INTERVAL["start"], "--end", INTERVAL["end"], str(ours))
    assert answered(*push).endswith(", verified\n")
    assert answered(*push).endswith("the archive has it already\n")
    (url,) = answered("list", what, *DAY, "--format", "s3").splitlines()
    fetched = datalake.run("fetch", "--filename-template", str(tmp_path / "by-theirs"), url)
    assert Path(fetched.strip()).read_bytes() == ours.read_bytes()
    datalake.push(theirs, what=f"{what}-2", where=where, **INTERVAL)
    datalake.listed(what=f"{what}-2", start="2026-03-20", end="2026-03-21")
    line = answered("latest", f"{what}-2", where, "--lookback", "3650")
    Path("by-ours.part").write_bytes(theirs.read_bytes()[:1_000_000])
    assert answered("fetch", "--filename-template", "by-ours", stdin=line) == "by-ours\n"
    assert Path("by-ours").read_bytes() == theirs.read_bytes()

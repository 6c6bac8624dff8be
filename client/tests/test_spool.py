"""A program may die at any write of its spool, or its disk refuse it: each line is stored once and in order, or counted, and no end is invented."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from client.tests.fake_server import FakeServer
from client.tests.mortal_program import NEVER, Mortal, Program
from runlake import Settings
from runlake.buffer import hole_line
from runlake.draining import drain_folder
from runlake.spool import folders_in

LINES = 16


def drain_all(root: Path, url: str) -> None:
    if root.exists():
        for folder in folders_in(root):
            result = drain_folder(folder, Settings(url=url, spool_dir=str(root)), 5)
            assert result is not None and result.is_done, result


def assert_is_start_of_the_log(server: FakeServer, run_id: str) -> int:
    """Lines from the first one on, each once and in order, and the notice of one that was torn by the kill; returns how many."""
    found = server.lines("p", run_id)
    numbers = [int(line.split()[1]) for line in (found[:-1] if found[-1:] == [hole_line(1).strip()] else found)]
    assert numbers == list(range(len(numbers))), numbers
    return len(numbers)


@pytest.mark.behavior("A program that is killed at any write of its spool loses at most the lines that were in memory.")
@pytest.mark.parametrize("halfway", [False, True], ids=["before", "halfway"])
@pytest.mark.parametrize("is_up", [True, False], ids=["up", "away"])
def test_program_killed_at_any_write_leaves_the_start_of_its_log(
    server: FakeServer, program: Program, tmp_path: Path, *, is_up: bool, halfway: bool
) -> None:
    kill_at, ended = 0, 0
    while True:
        run_id, root = f"r{kill_at}", tmp_path / str(kill_at)
        server.fault = lambda method, path: "" if is_up or server.sessions < 2 else "503"
        server.sessions = 0
        mortal = Mortal(server.url, str(root), run_id, lines=LINES, flushes=is_up, kill_at=kill_at, halfway=halfway)
        counts = program(mortal)
        server.fault = lambda method, path: ""
        stored_before = len(server.lines("p", run_id))
        drain_all(root, server.url)
        stored = assert_is_start_of_the_log(server, run_id)
        run = server.runs["p", run_id]
        assert stored >= stored_before
        if run.closed:
            assert stored == LINES and run.end == {"outcome": "failed", "exitCode": 3}
            ended += 1
        if counts is not None:
            assert run.closed and counts["stored_lines"] + counts["kept_lines"] == LINES
            assert kill_at > 5 and ended > 0
            return
        kill_at += 1


@pytest.mark.behavior("A disk that refuses costs no line while the archive is up, and lines that are lost without it are counted.")
@pytest.mark.parametrize("is_up", [True, False], ids=["up", "away"])
def test_disk_that_refuses_from_any_write_on_costs_only_counted_lines(
    server: FakeServer, program: Program, tmp_path: Path, *, is_up: bool
) -> None:
    for fails_from in range(NEVER):
        run_id, root = f"r{fails_from}", tmp_path / str(fails_from)
        server.fault = lambda method, path: "" if is_up else "503"
        options = {"lines": LINES, "fails_from": fails_from, "flushes": is_up, "memory_bytes": 8_000_000 if is_up else 500}
        counts = program(Mortal(server.url, str(root), run_id, **options))  # type: ignore[arg-type]
        assert counts is not None
        of_line = [counts[f"{name}_lines"] for name in ("stored", "dropped", "refused", "kept")]
        assert sum(of_line) == LINES, counts
        assert not is_up or counts["stored_lines"] == LINES
        server.fault = lambda method, path: ""
        drain_all(root, server.url)
        found = server.lines("p", run_id)
        gaps = [int(match[1]) for line in found if (match := re.match(rb"\[runlake\] (\d+) lines are missing here", line))]
        numbers = [int(line.split()[1]) for line in found if line.startswith(b"line ")]
        assert numbers == sorted(set(numbers)) and len(numbers) + len(gaps) == len(found)
        assert len(numbers) == counts["stored_lines"] + counts["kept_lines"]
        assert sum(gaps) <= LINES - len(numbers)
        if fails_from > counts["steps"]:
            assert fails_from > 5
            return

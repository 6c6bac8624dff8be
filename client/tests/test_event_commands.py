"""Commands about events, steps and completeness; secrets of ``exec``."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from pathlib import Path

import pytest

import runlake
from client.tests.fake_server import FakeServer
from client.tests.test_commands import answered, call
from client.tests.test_exec import archived, ran
from runlake import Settings
from runlake.browsing import as_tree
from runlake.masking import MARK


@pytest.fixture
def filled(server: FakeServer, settings: Settings) -> FakeServer:
    with runlake.run("p", "r", logger=None, events=True, writer="w", settings=settings) as run:
        run.event("begin", level="INFO", timestamp_ms=1_780_000_000_001)
        with run.step("build", "build"):
            with run.step("compile", "c-1"):
                for number in range(100):
                    run.event(f"compiled {number}", level="DEBUG", timestamp_ms=1_780_000_060_000)
            with suppress(ZeroDivisionError), run.step("test", "t-1"):
                run.event("trouble\nof two lines", level="ERROR", timestamp_ms=1_780_000_120_000)
                _ = 1 / 0
        with run.step("test", "t-2"):
            pass
    return server


def test_steps_are_a_tree(filled: FakeServer) -> None:
    rows = [line.split("\t") for line in answered(filled, "steps", "p").splitlines()]
    assert [(row[0], row[1], row[3], row[4], row[5], row[6]) for row in rows] == [
        ("build", "ok", "0", "0", "complete", "build"),
        ("  compile", "ok", "100", "0", "complete", "c-1"),
        ("  test", "FAILED", "3", "2", "complete", "t-1"),
        ("test", "ok", "0", "0", "complete", "t-2"),
    ]
    assert all(row[2].endswith(" s") for row in rows)
    assert [json.loads(line)["step"] for line in answered(filled, "steps", "p", "r", "--json").splitlines()] == [
        "build", "c-1", "t-1", "t-2",
    ]  # fmt: skip


def test_a_tree_has_every_step_once_whatever_their_parents_are() -> None:
    steps = [{"step": name, "parent": parent} for name, parent in [("a", "b"), ("b", "a"), ("c", "gone"), ("d", "c"), ("e", "e")]]
    assert [(depth, step["step"]) for depth, step in as_tree(steps)] == [(0, "c"), (1, "d"), (0, "a"), (1, "b"), (0, "e")]
    deep = [{"step": str(n), "parent": str(n - 1)} for n in range(5000)]
    assert as_tree(deep)[-1][0] == 4999


def test_the_log_of_a_step_by_id_and_by_name(filled: FakeServer) -> None:
    whole = "".join(f"compiled {number}\n" for number in range(100))
    assert answered(filled, "cat", "p", "--step", "c-1") == whole
    assert answered(filled, "cat", "p", "r", "--step", "compile") == whole
    ambiguous = call(filled, "cat", "p", "--step", "test")
    assert ambiguous.exit_code == 2 and "several steps have that name ids=t-1, t-2" in ambiguous.stderr
    assert "the run has no such step step='nothing'" in call(filled, "cat", "p", "--step", "nothing").stderr


def test_events_are_filtered_by_the_server(filled: FakeServer) -> None:
    assert answered(filled, "events", "p", "--level", "INFO") == "2026-05-28T20:26:40.001Z\tINFO\t-\tbegin\n"
    assert len(answered(filled, "events", "p", "--step", "c-1").splitlines()) == 100
    assert len(answered(filled, "events", "p", "--step", "c-1", "-n", "30").splitlines()) == 30
    (found,) = [json.loads(line) for line in answered(filled, "events", "p", "--text", "trouble", "--json").splitlines()]
    assert (found["message"], found["writer"], found["line"], found["lines"]) == ("trouble\nof two lines", "w", 101, 2)
    within = answered(filled, "events", "p", "--from", "2026-05-28T20:27:40Z", "--to", "1780000060001")
    assert len(within.splitlines()) == 100
    assert "neither 10m" in call(filled, "events", "p", "--from", "yesterday").stderr


def test_status_names_the_writers_that_are_lost(filled: FakeServer) -> None:
    rows = dict(line.split("\t") for line in answered(filled, "status", "p").splitlines())
    assert (rows["events"], rows["writer w"]) == ("complete", "closed, 103 of 103 events")
    events = filled.runs["p", "r"].events
    del events.stored[5]
    events.writers["dead"] = {"closed": False, "count": None, "lastTimestamp": None}
    rows = dict(line.split("\t") for line in answered(filled, "status", "p").splitlines())
    assert rows["events"] == "lost"
    assert (rows["writer w"], rows["writer dead"]) == ("lost, 102 of 103 events, missing 5", "lost, 0 of ? events")
    assert json.loads(answered(filled, "status", "p", "--json"))["events"]["lost"] == ["w", "dead"]


def test_run_without_events_says_how_to_write_them(server: FakeServer) -> None:
    server.add("p", "r", b"line\n", close=True)
    assert "events" not in answered(server, "status", "p")
    hint = "runlake: the run has no steps: a program writes them with `runlake.run(…, events=True) as run` and `run.step(name)`\n"
    for option, stderr in ((), hint), (("--json",), ""):
        result = call(server, "steps", "p", *option)
        assert (result.exit_code, result.stdout, result.stderr) == (0, "", stderr)


def test_exec_masks_variables_in_the_archive_and_nowhere_else(server: FakeServer, tmp_path: Path) -> None:
    secret = "hunter2-" * 30
    script = "import os, sys\nfor each in os.environ['PASS'] + '\\n':\n"
    script += "    for output in (sys.stdout, sys.stderr): output.write(each); output.flush()\nprint('x' * 70000)"
    out, err, code = ran(
        server, tmp_path, sys.executable, "-c", script, options=("--mask-env", "PASS", "--mask-env", "NONE"), PASS=secret, NONE=""
    )
    assert (out.decode(), err.decode(), code) == (f"{secret}\n{'x' * 70000}\n", f"{secret}\n", 0)
    assert sorted(archived(server)[0].decode().splitlines()) == [MARK, MARK, "x" * 70000]


def test_exec_does_not_run_where_there_is_nothing_to_mask(server: FakeServer, tmp_path: Path) -> None:
    out, err, code = ran(server, tmp_path, "echo", "out", options=("--mask-env", "TYPO"))
    assert (out, code) == (b"", 125) and b"name=TYPO" in err

"""The dataset of a deployed stack: the job in a separate process, from lines appended over HTTP to rows."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import duckdb
import pytest

from bench.spark_dataset_world import RAW
from local.jobs import environment_of
from local.state import PROJECT
from tests.integration.job_process import Ended, run_alone, run_job
from tests.integration.roles import BY_GLUE, UNAVAILABLE, assert_job_fits, output
from tests.integration.stacks import PATIENCE_S, Stack
from tests.permissions import Calls

LOGS = "/v1/services/ingestionPipelines/logs"
LINE = "2026-11-21 03:00:0{},000 - svc.load - INFO - row {}\n"


def job(stack: Stack, *arguments: str, run: Callable[..., Ended] = run_job) -> dict[str, Any]:
    """The job's summary."""
    done = run(stack, "build_dataset", *arguments)
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(json.loads(done.stdout.splitlines()[-1]))


def append(stack: Stack, fqn: str, run_id: str, text: str, *, close: bool, outcome: str = "unknown") -> None:
    base = f"{stack.api_url}{LOGS}/{fqn}/{run_id}"
    with urlopen(Request(base, text.encode(), {"Content-Type": "text/plain"}), timeout=PATIENCE_S) as answer:
        cookie = answer.headers["Set-Cookie"].partition(";")[0]
    if close:
        end = json.dumps({"outcome": outcome}).encode() if outcome != "unknown" else b""
        with urlopen(Request(f"{base}/close", end, {"Cookie": cookie, "Content-Type": "application/json"}), timeout=PATIENCE_S):
            pass


def rows(folder: Path) -> list[tuple[Any, ...]]:
    with duckdb.connect() as connection:
        source = f"read_parquet('{folder}/data/**/*.parquet', hive_partitioning = true)"
        return connection.execute(f"select run_id, line, {RAW}, date::varchar from {source} order by run_id, line").fetchall()


@pytest.mark.sampled(default=2, group="jobs on the stack")
def test_lines_become_rows_once(stack: Stack, tmp_path: Path) -> None:
    fqn = f"dataset-{uuid.uuid4().hex[:8]}.orders"
    where = ("--dest", f"file://{tmp_path}/events", "--fqn", fqn)
    lines = [LINE.format(number, number) for number in range(4)]
    append(stack, fqn, "run-1", "".join(lines[:2]), close=True)
    append(stack, fqn, "run-2", lines[2], close=False)
    ended = [("run-1", number, lines[number].encode(), "2026-11-21") for number in range(2)]

    looked = job(stack, *where, "--dry-run", run=run_alone)
    assert (looked["runs"], looked["bytes_in"]) == (1, 2 * len(lines[0])) and not (tmp_path / "events").exists()
    done = job(stack, *where, "--summary", f"{tmp_path}/summary.json")
    assert {name: done[name] for name in ("entries", "runs", "rows", "files", "bytes_in", "problems")} == {
        "entries": 1, "runs": 1, "rows": 2, "files": 1, "bytes_in": 2 * len(lines[0]), "problems": {},
    }  # fmt: skip
    assert (
        done["requests"]["s3:GetObject"] > 0 and done["dollars"] > 0 and json.loads((tmp_path / "summary.json").read_text()) == done
    )
    assert rows(tmp_path / "events") == ended
    assert job(stack, *where)["entries"] == 0

    append(stack, fqn, "run-2", lines[3], close=False)
    assert job(stack, *where, "--live", "true")["rows"] == 1
    assert rows(tmp_path / "events") == [*ended, ("run-2", 0, lines[2].encode(), "2026-11-21")], "the last event may go on"


@pytest.mark.sampled(default=2, group="jobs on the stack")
def test_rows_have_stated_levels_and_outcomes(stack: Stack, tmp_path: Path) -> None:
    fqn = f"dataset-{uuid.uuid4().hex[:8]}.failed"
    events = [{"message": "two\nlines", "level": "fatal"}, {"message": "ERROR in words only", "level": "info"}]
    for path, document in (
        (f"/v1/events/{fqn}/run-1", events),
        (f"{LOGS}/{fqn}/run-1/close", {"outcome": "failed", "exitCode": 2}),
    ):
        sent = Request(f"{stack.api_url}{path}", json.dumps(document).encode(), {"Content-Type": "application/json"})
        with urlopen(sent, timeout=PATIENCE_S):
            pass
    job(stack, "--dest", f"file://{tmp_path}/events", "--fqn", fqn, "--live")  # does not wait for the explanation
    with duckdb.connect() as connection:
        query = f"select line, level, {RAW}, outcome from '{tmp_path}/events/data/**/*.parquet' order by line"
        assert connection.execute(query).fetchall() == [
            (0, "CRITICAL", b"two\nlines\n", "failed"),
            (2, "INFO", b"ERROR in words only\n", "failed"),
        ]


FILES = """
import sys
from glue_jobs.dataset.s3_destination import s3_files

files = s3_files("s3", sys.argv[1], "events")
files.put("_staging/a", b"x")
assert files.create("log/1", b"x") and not files.create("log/1", b"y")
files.move("_staging/a", "data/a")
assert files.read("data/a") == b"x"
files.clear("data/")
assert [found.name for found in files.list("")] == ["_staging/a", "log/1"]
files.clear("")
"""
"""Every operation of the job on its files. Spark itself cannot write to S3 here: it has no file system for it."""


@pytest.mark.sampled(default=1, group="roles of jobs")
def test_its_role_allows_what_it_does_and_nothing_else(stack: Stack, tmp_path: Path, calls: Calls) -> None:
    fqn = f"dataset-{uuid.uuid4().hex[:8]}.roles"
    append(stack, fqn, "run-1", LINE.format(1, 1), close=True, outcome="failed")
    append(stack, fqn, "run-2", LINE.format(2, 2), close=False)
    summary = f"s3://{output(stack, 'JobsBucketName')}/summaries/build_dataset.json"
    done = job(stack, "--dest", f"file://{tmp_path}/events", "--fqn", fqn, "--live", "--summary", summary)
    assert done["runs"] == 2
    files = [sys.executable, "-c", FILES, output(stack, "DatasetBucketName")]
    told = subprocess.run(files, cwd=PROJECT, env=environment_of(stack), capture_output=True, text=True, timeout=PATIENCE_S)
    assert told.returncode == 0, told.stderr
    assert_job_fits(
        stack,
        "build_dataset",
        calls,
        BY_GLUE | UNAVAILABLE | {"StagedUploads": "Spark gives up what it was writing when a task fails"},
    )

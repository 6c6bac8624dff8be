"""``run_pipelines`` as a process on Spark, killed at work: text files, a handler of the standard library, and the built-in
pipeline."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import psutil
import pytest

from bench.bench_world import set_environment
from bench.spark_bucket import BucketServer
from bench.spark_compaction_archive import BenchRun
from bench.spark_compaction_kill import workers_of
from bench.spark_pipelines_archive import ROLLING, Event, PipelineArchive, document, ended_run, events_of

PROJECT = Path(__file__).parents[2]
LIMIT_S = 900
BASES = ("text-files", "pipeline-files")


@pytest.fixture(scope="module")
def archive() -> Iterator[PipelineArchive]:
    with patch.dict(os.environ):
        server = BucketServer("unused", one_at_a_time=True)
        set_environment(server.url)
        os.environ |= {"RUNLAKE_BUILT_IN_PIPELINE": "true", "RUNLAKE_PIPELINE_CHECKPOINT_INTERVAL_MS": "200"}
        os.environ |= {"PYTHONPATH": str(PROJECT), "SPARK_MASTER": "local[2,4]"}
        with closing(PipelineArchive(server.url)) as made:
            yield made
        server.stop()


@pytest.fixture(scope="module")
def plain(archive: PipelineArchive, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of the handler of the standard library."""
    path = tmp_path_factory.mktemp("plain") / "plain.log"
    files = {"class": ROLLING, "base": "text-files", "format": "text", "formatter": "plain", "max_bytes": 30_000}
    handlers = {"files": files, "plain": {"class": "logging.FileHandler", "filename": str(path), "formatter": "plain"}}
    archive.pipeline("text", document("text", handlers))
    return path


def started() -> psutil.Popen:
    command = [sys.executable, "-m", "glue_jobs.run_pipelines"]
    return psutil.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)


def ended(job: psutil.Popen) -> dict[str, Any]:
    """The job's summary, after a successful exit."""
    out, err = job.communicate(timeout=LIMIT_S)
    assert job.returncode == 0, f"{out}\n{err[-6000:]}"
    return dict(json.loads(out.splitlines()[-1])["pipelines"])


def killed_at_work(job: psutil.Popen, victims: Callable[[], list[psutil.Process]], is_time: Callable[[], bool]) -> None:
    """Sends SIGKILL as soon as a file was written."""
    while not (is_time() and (found := victims())):
        if job.poll() is not None:
            raise AssertionError(f"it ended before {job.communicate()}")
        time.sleep(0.01)
    for each in found:
        each.kill()


def lines_of(path: Path) -> Counter[Event]:
    names = [line.split(" ", 1)[0].split("/") for line in path.read_text().splitlines()]
    return Counter((fqn, run_id, int(number)) for fqn, run_id, number in names)


def check(archive: PipelineArchive, plain: Path, worked: list[BenchRun]) -> None:
    """Checks the files of rows, the plain file, and the checkpoints."""
    expected = events_of(worked)
    for base in BASES:
        found = archive.delivered_events(base)
        assert found == expected, (base, list((found - expected).items())[:3], list((expected - found).items())[:3])
    assert set(lines_of(plain)) >= set(expected), "at least once"
    for name in ("text", "runlake"):
        assert archive.leftover_heads(name) == []
        assert archive.first_unprocessed_lines(name) == {(each.run.fqn, each.run.run_id): each.log.count(b"\n") for each in worked}


def some_runs(archive: PipelineArchive, name: str) -> list[BenchRun]:
    """Runs of one line, of some, and of many; every second one finalized."""
    random = Random(7)
    made = [ended_run(name, number, random.choice((1, 40, 1500))) for number in range(30)]
    archive.fill(made)
    archive.finalize(made[::2])
    return made


@pytest.fixture(scope="module")
def first(archive: PipelineArchive, plain: Path) -> list[BenchRun]:
    """Runs processed by a job of which a Python worker was killed."""
    made = some_runs(archive, "first")
    job = started()
    killed_at_work(job, lambda: workers_of(job)[:1], lambda: plain.exists() and plain.stat().st_size > 0)
    told = ended(job)
    assert {name: each["due"] for name, each in told.items()} == {"runlake": 30, "text": 30}
    assert all(each["runs"] == 30 and each["tasks"] == 8 and not each["problems"] for each in told.values()), told
    return made


def test_a_worker_is_killed_and_each_event_is_in_the_files_once(
    archive: PipelineArchive, plain: Path, first: list[BenchRun]
) -> None:
    check(archive, plain, first)
    assert archive.file_count("text-files") > 16, "they roll"


def test_a_second_run_does_nothing(archive: PipelineArchive, plain: Path, first: list[BenchRun]) -> None:
    size = plain.stat().st_size
    told = ended(started())
    assert [(each["runs"], each["events"]) for each in told.values()] == [(30, 0)] * 2, "nothing is left"
    check(archive, plain, first)
    assert plain.stat().st_size == size


@pytest.mark.thorough
def test_a_job_is_killed_and_begun_again(archive: PipelineArchive, plain: Path, first: list[BenchRun]) -> None:
    second = some_runs(archive, "second")
    files = archive.file_count("pipeline-files")
    job = started()
    killed_at_work(job, lambda: [job, *job.children(recursive=True)], lambda: archive.file_count("pipeline-files") > files)
    job.communicate()
    told = ended(started())
    assert {each["due"] for each in told.values()} == {60}
    check(archive, plain, first + second)

"""``run_pipelines`` over ended runs, on one core and on two: the speedup.

``python -m bench.spark_pipelines``; ``--runs``, ``--lines`` and ``--rounds`` change its size. The best of each counts, because the
machine may have other load.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from bench.bench_world import set_environment
from bench.measure import Measure
from bench.spark_compaction_archive import BUCKET
from bench.spark_job import summary_of
from bench.spark_pipelines_archive import ROLLING, PipelineArchive, document, ended_run
from local.emulator import Emulator, free_port
from local.state import PROJECT

RUNS, LINES, ROUNDS = 32, 30_000, 2
CORES = (1, 2)
GOAL = 1.7


def measure(runs: int = RUNS, lines: int = LINES, rounds: int = ROUNDS) -> list[Measure]:
    """Alternates one core and two, each time with new pipelines."""
    with _archive() as archive:
        made = [ended_run("bench", number, lines, bodies=1, fqns=runs) for number in range(runs)]
        archive.fill(made)
        archive.finalize(made)
        times: dict[int, list[float]] = {cores: [] for cores in CORES}
        for number in range(rounds):
            for cores, each in times.items():
                each.append(_worked(archive, f"files-{cores}-{number}", cores, runs * lines))
            progress = ", ".join(f"{cores}: {each[-1]:.1f} s" for cores, each in times.items())
            print(f"round {number + 1}: {progress}", file=sys.stderr)
    one, two = (min(each) for each in times.values())
    what = f"backfill of pipelines, {runs} runs of {lines:,} lines, files of JSON lines: two cores over one"
    measured = f"{one / two:.2f} ({one:.1f} s and {two:.1f} s, {runs * lines / two:,.0f} events/s with two)"
    return [Measure(what, f"at least {GOAL}", measured, one / two >= GOAL)]


@contextmanager
def _archive() -> Iterator[PipelineArchive]:
    with patch.dict(os.environ), tempfile.TemporaryDirectory(prefix="runlake-pipelines-") as folder:
        emulator = Emulator(free_port(), Path(folder) / "scratch", Path(folder) / "emulator.log")
        try:
            emulator.wait_until_healthy()
            set_environment(emulator.endpoint_url)
            with closing(PipelineArchive(emulator.endpoint_url)) as archive:
                yield archive
        finally:
            emulator.stop()


def _worked(archive: PipelineArchive, name: str, cores: int, events: int) -> float:
    """Seconds from the take-over to the last checkpoint, without the start of Spark."""
    handler = {"class": ROLLING, "base": f"pipeline-files/{name}", "format": "jsonl", "memory_bytes": 32 * 1024 * 1024}
    archive.pipeline(name, document(name, {"h": handler}), name)
    command = [sys.executable, "-m", "glue_jobs.run_pipelines", "--only", name, "--config", f"s3://{BUCKET}/{name}"]
    environment = os.environ | {"SPARK_MASTER": f"local[{cores},4]"}
    done = subprocess.run(command, env=environment, cwd=PROJECT, capture_output=True, text=True, timeout=1800)
    if done.returncode or not done.stdout:
        raise RuntimeError(f"exit_code={done.returncode}\n{done.stdout}\n{done.stderr[-5000:]}")
    summary: dict[str, Any] = summary_of(done.stdout)["pipelines"][name]
    assert summary["events"] == events, summary
    return float(summary["working_seconds"])


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 1 if a goal was missed."""
    from bench.figures import print_rows

    parser = argparse.ArgumentParser(prog="python -m bench.spark_pipelines", description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--lines", type=int, default=LINES)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    arguments = parser.parse_args(argv)
    started_s = time.monotonic()
    rows = measure(arguments.runs, arguments.lines, arguments.rounds)
    print(f"{time.monotonic() - started_s:.0f} s", file=sys.stderr)
    return print_rows(rows)


if __name__ == "__main__":
    sys.exit(main())

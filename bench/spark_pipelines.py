"""``run_pipelines`` over ended runs, on one core and on two: the speedup, and the speedup that two processes have on this machine
at all.

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
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from bench.bench_world import set_environment
from bench.measure import Measure, reported
from bench.spark_compaction_archive import BUCKET
from bench.spark_job import summary_of
from bench.spark_pipelines_archive import ROLLING, PipelineArchive, document, ended_run
from local.emulator import Emulator, free_port
from local.state import PROJECT

RUNS, LINES, ROUNDS = 32, 30_000, 2
CORES = (1, 2)
FILES, NOTHING = "files of JSON lines", "a handler that does nothing"
_SPIN = "import time; t = time.perf_counter(); s = sum(n * n % 7 for n in range(12_000_000)); print(time.perf_counter() - t)"


def measure(runs: int = RUNS, lines: int = LINES, rounds: int = ROUNDS) -> list[Measure]:
    """Alternates one core and two, each time with new pipelines."""
    with _archive() as archive:
        made = [ended_run("bench", number, lines, bodies=1, fqns=runs) for number in range(runs)]
        archive.fill(made)
        archive.finalize(made)
        times: dict[tuple[str, int], list[float]] = {(what, cores): [] for what in (FILES, NOTHING) for cores in CORES}
        gains: list[float] = []
        for number in range(rounds):
            gains.append(_gain())
            for (what, cores), each in times.items():
                each.append(_worked(archive, f"{what.split()[0]}-{cores}-{number}", what, cores, runs * lines))
            progress = ", ".join(f"{what} {cores}: {each[-1]:.1f} s" for (what, cores), each in times.items())
            print(f"round {number + 1}: {progress}; two processes: {gains[-1]:.2f}", file=sys.stderr)
    return list(_measures({name: min(each) for name, each in times.items()}, max(gains), runs, lines))


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


def _worked(archive: PipelineArchive, name: str, what: str, cores: int, events: int) -> float:
    """Seconds from the take-over to the last checkpoint, without the start of Spark."""
    files = {"class": ROLLING, "base": f"pipeline-files/{name}", "format": "jsonl", "memory_bytes": 32 * 1024 * 1024}
    handler = files if what == FILES else {"class": "logging.NullHandler"}
    archive.pipeline(name, document(name, {"h": handler}), name)
    command = [sys.executable, "-m", "glue_jobs.run_pipelines", "--only", name, "--config", f"s3://{BUCKET}/{name}"]
    environment = os.environ | {"SPARK_MASTER": f"local[{cores},4]"}
    done = subprocess.run(command, env=environment, cwd=PROJECT, capture_output=True, text=True, timeout=1800)
    if done.returncode or not done.stdout:
        raise RuntimeError(f"exit_code={done.returncode}\n{done.stdout}\n{done.stderr[-5000:]}")
    summary: dict[str, Any] = summary_of(done.stdout)["pipelines"][name]
    assert summary["events"] == events, summary
    return float(summary["working_seconds"])


def _gain() -> float:
    """Speedup of two compute-only processes over one."""
    alone = max(_spun(1))
    return 2 * alone / max(_spun(2))


def _spun(count: int) -> list[float]:
    started = [subprocess.Popen([sys.executable, "-c", _SPIN], stdout=subprocess.PIPE, text=True) for _ in range(count)]
    return [float(process.communicate()[0]) for process in started]


def _measures(best: dict[tuple[str, int], float], gain: float, runs: int, lines: int) -> Iterator[Measure]:
    over = f"{runs} runs of {lines:,} lines"
    for what, goal in ((FILES, 1.7), (NOTHING, None)):
        one, two = (best[what, cores] for cores in CORES)
        measured = f"{one / two:.2f} ({one:.1f} s and {two:.1f} s, {runs * lines / two:,.0f} events/s with two)"
        row = reported(f"backfill of pipelines, {over}, {what}: two cores over one", measured)
        yield replace(row, goal=f"at least {goal}", reached=one / two >= goal) if goal else row
    yield reported("two processes that only compute over one, at the same time on the same machine", f"{gain:.2f}")


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

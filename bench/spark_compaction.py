"""Bulk compaction: its speed relative to a loop over boto3, and its cost.

``python -m bench.spark_compaction`` measures; ``--kills N --seed S`` kills it N times instead (``bench.spark_compaction_kill``);
``--dirty`` runs it over damaged runs and a run of 100,000 one-line segments.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from bench.figures import print_rows
from bench.measure import Measure, reported
from bench.spark_compaction_archive import bench_archive, uniform_runs
from bench.spark_compaction_kill import dirty, kills
from bench.spark_job import PROCESSES, job
from glue_jobs.job_runtime.prices import DPU_HOUR
from local.state import PROJECT

RUNS, SEGMENTS, SEGMENT_BYTES = 2000, 20, 16 * 1024
THREADS = 8
ROUNDS = 2
_CORES_A_DPU = 4


def measure(runs: int = RUNS, rounds: int = ROUNDS) -> list[Measure]:
    """The job and the loop, alternating; the best of each counts, because the machine has other load."""
    with bench_archive() as (archive, _):
        made = uniform_runs(runs, SEGMENTS, SEGMENT_BYTES)
        archive.fill(made)
        times: dict[str, list[float]] = {name: [] for name in ("job", "job and start", "loop")}
        summary: dict[str, Any] = {}
        for number in range(rounds):
            archive.mark_due(made)
            started_s = time.monotonic()
            summary = job("--parallelism", str(PROCESSES), "--threads", str(THREADS))
            times["job and start"].append(time.monotonic() - started_s)
            assert summary["runs"]["finalized"] == runs, summary
            assert all(archive.artifact(each) == each.log for each in made[::97])
            times["job"].append(summary["working_seconds"])
            times["loop"].append(_loop(runs))
            print(f"round {number + 1}: " + ", ".join(f"{name} {each[-1]:.1f} s" for name, each in times.items()), file=sys.stderr)
    return _measures({name: min(each) for name, each in times.items()}, summary, runs)


def _loop(runs: int) -> float:
    """Seconds of the loop over boto3."""
    arguments = [sys.executable, "-m", "bench.spark_compaction_baseline", str(PROCESSES * THREADS), str(runs)]
    done = subprocess.run(arguments, stdout=subprocess.PIPE, text=True, cwd=PROJECT, check=True)
    return float(done.stdout)


def _measures(best: dict[str, float], summary: dict[str, Any], runs: int) -> list[Measure]:
    what = f"{runs:,} runs × {SEGMENTS} segments × {SEGMENT_BYTES // 1024} KiB"
    ratio, with_start = best["loop"] / best["job"], best["loop"] / best["job and start"]
    mb_per_s = summary["bytes"] / 1e6 / best["job"] / PROCESSES
    hours = 1e6 / (mb_per_s * _CORES_A_DPU) / 3600
    return [
        Measure(
            f"bulk compaction's throughput over a boto3 loop's with the same {PROCESSES * THREADS} threads, {what}",
            "at least 0.8",
            f"{ratio:.2f} ({best['job']:.1f} s over {best['loop']:.1f} s; with the start of Spark {with_start:.2f})",
            ratio >= 0.8,
        ),
        reported(
            f"cost of bulk compaction for each GB, {what}",
            f"${summary['dollars_per_gb']:.3f} of requests; {mb_per_s:.1f} MB/s a core, beside the emulator: about {hours:.0f} DPU-hours "
            f"(${hours * DPU_HOUR:.0f}) for each TB",
        ),
    ]


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 1 if a goal was missed or a check failed."""
    parser = argparse.ArgumentParser(prog="python -m bench.spark_compaction", description=__doc__)
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 10**6)
    parser.add_argument("--dirty", action="store_true")
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    arguments = parser.parse_args(argv)
    if arguments.kills:
        rows = kills(arguments.kills, arguments.seed)
    elif arguments.dirty:
        rows = dirty(100_000)
    else:
        rows = measure(arguments.runs, arguments.rounds)
    return print_rows(rows)


if __name__ == "__main__":
    sys.exit(main())

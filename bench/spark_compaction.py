"""Bulk compaction: its speed relative to a loop over boto3, its requests and processor time.

``python -m bench.spark_compaction`` measures; ``--kills N --seed S`` kills it N times instead (``bench.spark_compaction_kill``);
``--dirty`` runs it over damaged runs and a run of 100,000 one-line segments.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from typing import Any

from bench.figures import print_rows
from bench.measure import Measure, reported
from bench.spark_compaction_archive import BenchArchive, BenchRun, bench_archive, uniform_runs
from bench.spark_compaction_kill import dirty, kills
from bench.spark_job import PROCESSES, job
from glue_jobs.job_runtime.prices import DPU_HOUR
from local.state import PROJECT

RUNS, FEW, SEGMENTS, SEGMENT_BYTES = 2000, 200, 20, 16 * 1024
THREADS = 8
ROUNDS = 2
_CORES_A_DPU = 4


def measure(runs: int = RUNS, few: int = FEW, rounds: int = ROUNDS) -> list[Measure]:
    """The job, the loop, and the job over a tenth of the runs, alternating; the best of each counts, because the machine has other
    load."""
    with bench_archive() as (archive, _):
        made = uniform_runs(runs, SEGMENTS, SEGMENT_BYTES)
        archive.fill(made)
        times: dict[str, list[float]] = {name: [] for name in ("job", "job and start", "few", "one process", "processes")}
        best_summary: dict[str, Any] = {}
        for number in range(rounds):
            for name, count in (("job", runs), ("few", few)):
                archive.mark_due(made[:count])
                archive.mark_finalized(made[count:])
                started_s = time.monotonic()
                summary = job("--parallelism", str(PROCESSES), "--threads", str(THREADS))
                seconds = time.monotonic() - started_s
                _check(archive, made[:count:97], summary, count)
                times[name].append(summary["working_seconds"])
                if name == "job":
                    times["job and start"].append(seconds)
                    best_summary = summary
            times["one process"].append(_loop(runs, 1, PROCESSES * THREADS))
            times["processes"].append(_loop(runs, PROCESSES, THREADS))
            print(f"round {number + 1}: " + ", ".join(f"{name} {each[-1]:.1f} s" for name, each in times.items()), file=sys.stderr)
    return _measures({name: min(each) for name, each in times.items()}, best_summary, runs, few)


def _check(archive: BenchArchive, some: Iterable[BenchRun], summary: dict[str, Any], count: int) -> None:
    assert summary["runs"]["finalized"] == count, summary
    assert all(archive.artifact(each) == each.log for each in some)


def _loop(runs: int, processes: int, threads: int) -> float:
    """Seconds of the slowest process. All start together."""
    share = -(-runs // processes)
    started = []
    for first in range(0, runs, share):
        arguments = [sys.executable, "-m", "bench.spark_compaction_baseline", *map(str, (threads, first, min(share, runs - first)))]
        started.append(subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=PROJECT))
    for process in started:
        assert process.stdout and process.stdout.readline() == "ready\n"
    for process in started:
        assert process.stdin
        process.stdin.write("go\n")
        process.stdin.flush()
    return max(float(process.communicate()[0]) for process in started)


def _measures(best: dict[str, float], summary: dict[str, Any], runs: int, few: int) -> list[Measure]:
    what = f"{runs:,} runs × {SEGMENTS} segments × {SEGMENT_BYTES // 1024} KiB"
    literal, strict = best["one process"] / best["job"], best["processes"] / best["job"]
    with_start = best["one process"] / best["job and start"]
    each, each_of_few = best["job"] / runs * 1000, best["few"] / few * 1000
    flat = max(each, each_of_few) / min(each, each_of_few)
    requests = ", ".join(
        f"{count / runs:.2f} {name.partition(':')[2]}" for name, count in summary["requests"].items() if count > runs / 20
    )
    mb_per_s = summary["bytes"] / 1e6 / best["job"] / PROCESSES
    hours = 1e6 / (mb_per_s * _CORES_A_DPU) / 3600
    return [
        Measure(
            f"bulk compaction's throughput over a boto3 loop's with the same {PROCESSES * THREADS} threads, {what}",
            "at least 0.8",
            f"{literal:.2f} ({best['job']:.1f} s over {best['one process']:.1f} s; with the start of Spark {with_start:.2f})",
            literal >= 0.8,
        ),
        Measure(
            f"the same over a loop in {PROCESSES} processes of {THREADS} threads",
            "at least 0.8",
            f"{strict:.2f} ({best['processes']:.1f} s)",
            strict >= 0.8,
        ),
        Measure(
            f"time per run, {few} runs and {runs:,}",
            "flat within 1.3",
            f"{flat:.2f} ({each_of_few:.1f} ms and {each:.1f} ms, without the start of Spark)",
            flat <= 1.3,
        ),
        reported(f"requests of a run in bulk, {SEGMENTS} segments", requests),
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
        rows = measure(arguments.runs, arguments.runs // 10, arguments.rounds)
    return print_rows(rows)


if __name__ == "__main__":
    sys.exit(main())

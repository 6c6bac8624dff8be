"""Bulk compaction that is killed (SIGKILL) at random points, its driver or a Python worker, and that meets damaged runs.

Each round has some due runs. The job is killed, and restarted unless Spark itself continues; then every log is compared with the
appended lines, and a further run of the job must find no work.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from random import Random
from typing import Any

import psutil

from bench.measure import Measure
from bench.spark_compaction_archive import BenchArchive, BenchRun, bench_archive, body_of, mixed_runs
from bench.spark_job import command, environment, job, summary_of
from chalicelib.ports import Run
from glue_jobs.compaction.task import BUSY, UNDONE
from local.state import PROJECT

RUNS = 120
DRIVER, WORKER = "driver", "worker"
_POLL_S, _EARLY_S, _PATIENCE_S = 0.01, 12.0, 300.0


def kills(count: int, seed: int, runs: int = RUNS, lease_s: int = 10) -> list[Measure]:
    """Kill this many times. ``lease_s``: lease time of the killed job."""
    random = Random(seed)
    faults: list[str] = []
    killed: list[str] = []
    with bench_archive() as (archive, _):
        for number in range(count):
            victim = (DRIVER, WORKER)[number % 2]
            made = mixed_runs(runs, random, f"kill-{number}")
            archive.fill(made)
            what = _kill(archive, made, victim, random, lease_s)
            killed.append(what)
            faults_here = _faults(archive, made, lease_s)
            print(f"{number + 1} of {count}: {what}: {faults_here or 'all as it must be'}", file=sys.stderr, flush=True)
            faults += faults_here
    by_kind = ", ".join(f"{killed.count(kind)} {kind}" for kind in sorted(set(killed)))
    measured = f"{len(faults)} faults ({by_kind}; seed {seed})"
    return [Measure(f"bulk compaction killed {count} times", "same bytes, nothing to do afterwards", measured, not faults)]


def _kill(archive: BenchArchive, made: Sequence[BenchRun], victim: str, random: Random, lease_s: int) -> str:
    """Kill it after some run was finalized, or early; returns the victim and the time."""
    trigger = random.choice(made)
    early_s = random.uniform(0.5, _EARLY_S) if random.random() < 0.2 else _PATIENCE_S
    with tempfile.TemporaryFile("w+") as output:
        process = psutil.Popen(
            command("--lease-seconds", str(lease_s)), env=environment(), cwd=PROJECT, stdout=output, stderr=subprocess.DEVNULL
        )
        began_s = time.monotonic()
        while process.poll() is None and time.monotonic() - began_s < early_s and archive.artifact(trigger) is None:
            time.sleep(_POLL_S)
        time.sleep(random.uniform(0, 0.2))
        done = sum(archive.artifact(each) is not None for each in made)
        if not _killed(process, victim, random):
            return "ended before"
        exit_code = process.wait(_PATIENCE_S)
        output.seek(0)
        printed = output.read()
    if victim == WORKER and exit_code and not _left_to_leases(printed):
        raise AssertionError(f"the job did not survive its worker exit_code={exit_code} printed={printed[-2000:]}")
    return f"{victim} before its work" if not done else f"{victim} at work" if done < len(made) else f"{victim} behind its work"


def _left_to_leases(printed: str) -> bool:
    """Whether all unfinished work was under the lease of the killed worker: on a busy machine, a task may be retried before the
    lease expires."""
    if not printed:
        return False
    runs = summary_of(printed)["runs"]
    return bool(runs[BUSY]) and not any(runs[name] for name in UNDONE if name != BUSY)


def _killed(process: psutil.Process, victim: str, random: Random) -> bool:
    """Kill it; False if the job ended first."""
    while process.poll() is None:
        with suppress(psutil.NoSuchProcess):
            if targets := workers_of(process) if victim == WORKER else [process]:
                random.choice(targets).kill()
                return True
        time.sleep(_POLL_S)
    return False


def workers_of(process: psutil.Process) -> list[psutil.Process]:
    """Python workers that run tasks: forks of the daemon."""
    found = []
    for child in process.children(recursive=True):
        try:
            of_daemon = "pyspark.daemon" in child.cmdline() and "pyspark.daemon" in child.parent().cmdline()
        except (psutil.Error, AttributeError):
            continue
        if of_daemon:
            found.append(child)
    return found


def _faults(archive: BenchArchive, made: Sequence[BenchRun], lease_s: int) -> list[str]:
    faults = []
    job("--lease-seconds", str(lease_s))
    for each in made:
        if archive.artifact(each) != each.log:
            faults.append(f"other bytes run={each.run}")
        if each.is_sealed and archive.get(archive.layout.partial(each.run)) is not None:
            faults.append(f"a partial.txt is left run={each.run}")
    again = job("--lease-seconds", str(lease_s))
    if again["due"]:
        faults.append(f"the second run had something to do summary={again}")
    return faults


def damaged_runs(random: Random) -> dict[str, BenchRun]:
    """Runs by kind of damage, which ``spoil`` inflicts."""
    bodies = [body_of(300, random.randrange(10**6)) for _ in range(5)]
    names = (
        "missing segment",
        "missing first segment",
        "emptied segment",
        "longer segment",
        "no metadata",
        "other metadata",
        "bad partial",
    )
    return {name: BenchRun(Run("svc.damaged", name.replace(" ", "-")), bodies) for name in names}


def spoil(archive: BenchArchive, runs: dict[str, BenchRun]) -> None:
    """Damage the runs; call it after ``fill``."""
    segment, s3, bucket = archive.layout.segment, archive.s3, archive.bucket
    s3.delete_object(Bucket=bucket, Key=segment(runs["missing segment"].run, 2))
    s3.delete_object(Bucket=bucket, Key=segment(runs["missing first segment"].run, 0))
    archive.put(segment(runs["emptied segment"].run, 1), b"", {})
    archive.put(segment(runs["longer segment"].run, 1), b"more than was appended\n" * 50, {})
    archive.put(segment(runs["no metadata"].run, 5), b"", {})
    archive.put(segment(runs["other metadata"].run, 5), b"", {"kind": "seal", "epoch": "x"})
    archive.put(archive.layout.partial(runs["bad partial"].run), b"abc\n", {"next-segment": "1", "last-flushed-line": "1"})


def dirty(lines: int, healthy: int = 20, seed: int = 1) -> list[Measure]:
    """Damaged runs among healthy ones, one with empty segments, and one of this many one-line segments."""
    random = Random(seed)
    with bench_archive() as (archive, _):
        damaged = damaged_runs(random)
        good = mixed_runs(healthy, random, "healthy")
        good.append(BenchRun(Run("svc.healthy-0", "empty-segments"), [b"a\n", b"", b"b\n", b""]))
        good.append(BenchRun(Run("svc.healthy-0", "one-line-segments"), [b"line %d\n" % number for number in range(lines)]))
        archive.fill([*good, *damaged.values()])
        spoil(archive, damaged)
        started_s = time.monotonic()
        summary = job("--parallelism", "2", check=False)
        seconds = time.monotonic() - started_s
        faults = dirty_faults(archive, good, damaged, summary)
    told = f"{summary['runs']['failed']} of {len(damaged)} damaged runs reported, {len(faults)} faults, {seconds:.0f} s"
    what = f"bulk compaction over {len(damaged)} kinds of damage and a run of {lines:,} one-line segments"
    return [Measure(what, "damage reported, all else done", told, not faults)]


def dirty_faults(
    archive: BenchArchive, good: Sequence[BenchRun], damaged: dict[str, BenchRun], summary: dict[str, Any]
) -> list[str]:
    """Descriptions of wrong results."""
    faults = [f"other bytes run={each.run}" for each in good if archive.artifact(each) != each.log]
    if summary["runs"]["failed"] != len(damaged):
        faults.append(f"not all damage was reported summary={summary}")
    faults += [f"something was written run={each.run}" for each in damaged.values() if archive.get(archive.layout.logs(each.run))]
    faults += [
        f"unsaid run={each.run}"
        for each in damaged.values()
        if not any(each.run.run_id in problem for problem in summary["problems"])
    ]
    return faults

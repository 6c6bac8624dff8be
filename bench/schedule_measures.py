"""One tick of the compaction schedule: many open runs, some of them due; by one invocation, and by one and by four that share the work.

``python -m bench.schedule_measures OPEN DUE`` measures it alone at another size; the goals are for the full size.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from bench.bench_world import Function, bench_world
from bench.measure import Measure
from bench.schedule_archive import BUCKET, NAME, RUNS, SEGMENTS, Archive
from chalicelib.catalog.runs import SHARDS

OPEN, DUE = 10_000, 2000
WORKERS = 4
SLOWED = 10
"""To compare workers, each request takes this many times as long as on AWS, because all share one machine, whose processors would be
the limit."""
SLOWED_PART = 20
"""Only one in this many due runs is processed then."""
_WORK = f"{NAME}-work"
_TIMEOUT_S = 600


@dataclass(frozen=True)
class Tick:
    """Totals of all workers of a tick. ``share_s``: time until the first run was processed."""

    due: int
    sent: Counter[str]
    seconds: float
    share_s: float


def schedules(_: Function, open_runs: int = OPEN, due: int = DUE) -> list[Measure]:
    """Some runs are due; then a part of them twice more, with equally many new segments and slowed requests."""
    archive = Archive(open_runs)
    archive.fill()

    def tick(due: int, workers: int, slowed: int) -> Tick:
        archive.append(due)
        done = _tick(due, workers, slowed)
        archive.check_compacted(due)
        return done

    every = tick(due, 1, 0)
    one, four = (tick(due // SLOWED_PART, workers, SLOWED) for workers in (1, WORKERS))
    return [_finding(f"{due:,} of {open_runs:,} open runs due", every), _sharing(one, four)]


def _tick(due: int, workers: int, slowed: int) -> Tick:
    with _workers(workers, -(-due // workers), slowed) as processes:
        first = processes[0]
        assert first.stdout
        _go(first)
        while (line := first.stdout.readline()).startswith("start "):
            _go(processes[int(line.split()[1])])
        others = [process.communicate(timeout=_TIMEOUT_S)[0] for process in processes[1:]]
    outputs = [json.loads(text) for text in (line, *others) if text]  # of the started workers
    results = [each["results"] for each in outputs]
    assert sum(each["done"] for each in results) == sum(sum(each.values()) for each in results) == due, results
    begun_s = outputs[0]["from_s"]
    return Tick(
        due,
        sent=sum((Counter(each["sent"]) for each in outputs), Counter()),
        seconds=max(each["to_s"] for each in outputs) - begun_s,
        share_s=outputs[0]["shared_s"] - begun_s,
    )


@contextmanager
def _workers(count: int, share: int, slowed: int) -> Iterator[list[subprocess.Popen[str]]]:
    """Processes that are ready and wait for their start."""
    arguments = ([sys.executable, "-m", "bench.schedule_worker", *map(str, (number, share, slowed))] for number in range(count))
    options: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": os.environ | _settings()}
    processes = [subprocess.Popen(each, **options) for each in arguments]
    try:
        for process in processes:
            assert process.stdout and process.stdout.readline() == "ready\n"
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def _settings() -> dict[str, str]:
    table = {"table_name": _WORK, "region": os.environ["AWS_REGION"], "on_demand": True}
    return {
        "RUNLAKE_BUCKET_NAME": BUCKET,
        "RUNLAKE_RUNS_TABLE": RUNS,
        "RUNLAKE_SEGMENTS_TABLE": SEGMENTS,
        "RUNLAKE_SOURCE_COORDINATION": json.dumps({"store": {"dynamodb": table}}),
    }


def _go(process: subprocess.Popen[str]) -> None:
    assert process.stdin
    process.stdin.write("go\n")
    process.stdin.flush()


def _finding(what: str, tick: Tick) -> Measure:
    queries, more = tick.sent[f"Query {RUNS}"], tick.sent["ListObjectsV2"] - tick.due
    scans = sum(count for name, count in tick.sent.items() if name.startswith("Scan"))
    return Measure(
        f"requests that find what is due, {what}",
        f"{SHARDS} queries; no scan, no listing of what is not due",
        f"{queries} queries, {scans} scans, {more} listings",
        (queries, scans, more) == (SHARDS, 0, 0),
    )


def _sharing(one: Tick, four: Tick) -> Measure:
    ratio = one.seconds / four.seconds
    return Measure(
        f"a tick of one worker over one of {WORKERS}, where requests take {SLOWED} times as long as on AWS",
        "at least 2",
        f"{ratio:.1f} ({_seconds(one)}; {_seconds(four)})",
        ratio >= 2,
    )


def _seconds(tick: Tick) -> str:
    return f"{tick.due:,} runs in {tick.seconds:.0f} s, {tick.share_s:.1f} s of it to share them out"


if __name__ == "__main__":
    from bench.figures import print_rows

    with bench_world() as function_:
        sys.exit(print_rows(schedules(function_, *map(int, sys.argv[1:3]))))

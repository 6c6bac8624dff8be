"""One tick of the compaction schedule: many open runs, some of them due; by one invocation, and by four that share the work.

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
from bench.measure import Measure, reported
from bench.schedule_archive import BUCKET, NAME, RUNS, SEGMENTS, Archive
from chalicelib.catalog.runs import SHARDS

OPEN, DUE = 10_000, 2000
WORKERS = 4
SLOWED = 10
"""In the second half each request takes this many times as long as on AWS, because all share one machine, whose
processors would be the limit."""
SLOWED_PART = 20
"""Only one in this many due runs is processed then."""
_WORK = f"{NAME}-work"
_TIMEOUT_S = 600
_Ticks = dict[tuple[bool, int], "Tick"]


@dataclass(frozen=True)
class Tick:
    """Totals of all workers of a tick. ``share_s``: time until the first run was processed."""

    due: int
    sent: Counter[str]
    refused: int
    seconds: float
    share_s: float
    cpu_s: float
    printed: int

    @property
    def s3_each(self) -> float:
        """S3 requests for each due run."""
        return sum(count for name, count in self.sent.items() if " " not in name) / self.due  # DynamoDB's name their table

    @property
    def dynamodb_each(self) -> float:
        """DynamoDB requests for each due run, without the queries for due runs."""
        return (self.sent.total() - self.sent[f"Query {RUNS}"]) / self.due - self.s3_each

    @property
    def requests(self) -> str:
        """All requests as text."""
        parts = (f"{count / self.due:.2f} {name.replace(NAME + '-', '')}" for name, count in self.sent.most_common(10))
        return f"{self.s3_each:.2f} and {self.dynamodb_each:.2f} ({', '.join(parts)})"


def schedules(_: Function, open_runs: int = OPEN, due: int = DUE) -> list[Measure]:
    """The same runs are due twice, with equally many new segments; then some of them twice more, with slowed requests."""
    archive = Archive(open_runs)
    archive.fill()
    ticks: _Ticks = {}
    for is_slowed in (False, True):
        for workers in (1, WORKERS):
            part = due // SLOWED_PART if is_slowed else due
            archive.append(part)
            ticks[is_slowed, workers] = _tick(part, workers, SLOWED if is_slowed else 0)
            archive.check_compacted(part)
    return _measures(f"{due:,} of {open_runs:,} open runs due", ticks)


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
        refused=sum(each["refused"] for each in outputs),
        seconds=max(each["to_s"] for each in outputs) - begun_s,
        share_s=outputs[0]["shared_s"] - begun_s,
        cpu_s=sum(each["cpu_s"] for each in outputs),
        printed=sum(each["printed"] for each in outputs),
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


def _measures(what: str, ticks: _Ticks) -> list[Measure]:
    one, four = ticks[False, 1], ticks[False, WORKERS]
    queries, more = one.sent[f"Query {RUNS}"], one.sent["ListObjectsV2"] - one.due
    scans = sum(count for name, count in one.sent.items() if name.startswith("Scan"))
    s3, dynamodb = max(one.s3_each, four.s3_each), max(one.dynamodb_each, four.dynamodb_each)
    refused, ratio = four.refused / four.due, ticks[True, 1].seconds / ticks[True, WORKERS].seconds
    return [
        Measure(
            f"requests that find what is due, {what}",
            f"{SHARDS} queries; no scan, no listing of what is not due",
            f"{queries} queries, {scans} scans, {more} listings",
            (queries, scans, more) == (SHARDS, 0, 0),
        ),
        Measure(
            f"requests of a due run, S3 and DynamoDB, by one worker; by {WORKERS}",
            "at most 9 and 9",
            f"{one.requests}; {four.requests}",
            s3 <= 9 and dynamodb <= 9,
        ),
        Measure(f"refused writes for each due run, {WORKERS} workers", "at most 0.2", f"{refused:.2f}", refused <= 0.2),
        reported(f"a tick of one worker; of {WORKERS}, {what}", f"{_seconds(one)}; {_seconds(four)}"),
        Measure(
            f"a tick of one worker over one of {WORKERS}, where requests take {SLOWED} times as long as on AWS",
            "at least 2",
            f"{ratio:.1f} ({_seconds(ticks[True, 1])}; {_seconds(ticks[True, WORKERS])})",
            ratio >= 2,
        ),
    ]


def _seconds(tick: Tick) -> str:
    each = f"CPU {tick.cpu_s * 1000 / tick.due:.0f} ms and {tick.printed / tick.due:.0f} bytes of metrics a run"
    return f"{tick.due:,} runs in {tick.seconds:.0f} s, {tick.share_s:.1f} s of it to share them out, {each}"


if __name__ == "__main__":
    from bench.figures import print_rows

    with bench_world() as function_:
        sys.exit(print_rows(schedules(function_, *map(int, sys.argv[1:3]))))

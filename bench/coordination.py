"""Acquisition rate and refused writes of leases, compared with Data Prepper's algorithm on the same emulator."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bench.bench_world import Function
from bench.coordination_upstream import DataPrepper
from bench.coordination_worker import SOURCE, coordinator
from bench.measure import Measure
from chalicelib.aws.clients import make_client
from chalicelib.coordination.partition import create_table_request

WORKERS = (1, 8, 16)
PARTITIONS = 800
_TIMEOUT_S = 300


@dataclass(frozen=True)
class Result:
    """Totals of all workers."""

    acquired: int
    refused: int
    requests: int
    seconds: float

    @property
    def rate(self) -> float:
        return self.acquired / self.seconds

    @property
    def refused_each(self) -> float:
        return self.refused / self.acquired

    @property
    def requests_each(self) -> float:
        return self.requests / self.acquired


def coordination(_: Function, workers: Sequence[int] = WORKERS, partitions: int = PARTITIONS) -> list[Measure]:
    """Partitions acquired and completed by processes of one worker each, ours and Data Prepper's alternating."""
    client = make_client("dynamodb", region=None)
    measures = [_creation(client, partitions)]
    for count in workers:
        theirs, ours = (_run(client, which, count, partitions) for which in ("theirs", "ours"))
        measures += _measures(count, ours, theirs)
    return measures


def _measures(workers: int, ours: Result, theirs: Result) -> list[Measure]:
    ratio = ours.rate / theirs.rate
    least = 2.0 if workers == max(WORKERS) else 1.0
    who = f"{workers} worker{'s' if workers > 1 else ''}"
    rates = f"{ratio:.1f} ({ours.rate:.0f} over {theirs.rate:.0f} a second, {ours.requests_each:.1f} over {theirs.requests_each:.1f} requests)"
    refused = f"{ours.refused_each:.2f} (theirs {theirs.refused_each:.2f})"
    return [
        Measure(
            f"partitions taken and completed over Data Prepper's algorithm, {who}", f"at least {least:.0f}", rates, ratio >= least
        ),
        Measure(f"refused writes for each that is taken, {who}", "at most 0.2", refused, ours.refused_each <= 0.2),
    ]


def _creation(client: Any, partitions: int) -> Measure:
    keys = [f"svc.pipeline/{number:05d}" for number in range(partitions)]
    table = _table(client, "created-theirs")
    theirs_s = _seconds(lambda: DataPrepper(client, table, SOURCE, "host").create_partitions(keys))
    table = _table(client, "created-ours")
    node = coordinator(client, table)
    ours_s = _seconds(lambda: node.create_partitions(keys))
    ratio = theirs_s / ours_s
    measured = f"{ratio:.1f} ({partitions / ours_s:.0f} over {partitions / theirs_s:.0f} a second)"
    return Measure("partitions created over Data Prepper's algorithm", "at least 1", measured, ratio >= 1)


def _run(client: Any, which: str, workers: int, partitions: int) -> Result:
    table = _table(client, f"{which}-{workers}")
    coordinator(client, table).create_partitions(f"svc.pipeline/{number:05d}" for number in range(partitions))
    processes = [_worker(which, table, number) for number in range(workers)]
    for process in processes:
        assert process.stdout and process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin
        process.stdin.write("go\n")
        process.stdin.flush()
    done = [json.loads(process.communicate(timeout=_TIMEOUT_S)[0]) for process in processes]
    acquired = sum(each.get("acquired", 0) for each in done)
    assert acquired == partitions, acquired
    seconds = max(each["to_s"] for each in done) - min(each["from_s"] for each in done)
    requests = sum(sum(each["sent"].values()) for each in done)
    return Result(acquired, sum(each["refused"] for each in done), requests, seconds)


def _worker(which: str, table: str, number: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "bench.coordination_worker", which, table, str(number)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _table(client: Any, name: str) -> str:
    name = f"bench-coordination-{name}"
    client.create_table(**create_table_request(name, None))
    return name


def _seconds(call: Any) -> float:
    started_s = time.perf_counter()
    call()
    return time.perf_counter() - started_s

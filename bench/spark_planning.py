"""``python -m bench.spark_planning``: speed of the data source's planning, and bytes that it reads.

Planning is measured in a process of its own, as Spark starts one for it. The bucket is a separate process (``bench.spark_listing``) on the
same machine, so its time counts too.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import EqualTo, Filter, GreaterThanOrEqual, LessThan

from bench.figures import print_rows
from bench.measure import Measure
from bench.spark_bucket import OPTIONS, BucketServer, put_log
from bench.spark_listing import listing_server
from glue_jobs.datasource.options import parse_options
from glue_jobs.datasource.schema import EVENTS, schema_of
from glue_jobs.datasource.source import PushdownReader

RUNS, SEGMENTS = 100_000, 10
_MIB = 1024**2
_PIPELINES, _HOURS, _LOG_BYTES = 5, 24, 1_000_000
_DAY = datetime(2026, 11, 21, tzinfo=UTC)
_HOUR = 10


def bytes_read() -> Measure:
    """One pipeline's hour of a day: 5 pipelines, each with an hourly run of an hour, 1 MB each, all finalized."""
    server = BucketServer()
    try:
        _fill(server)
        return _ratio(server)
    finally:
        server.stop()


def planning(runs: int = RUNS, segments: int = SEGMENTS) -> Measure:
    """Runs of this many segments each."""
    with listing_server(runs, segments) as url:
        command = [sys.executable, "-m", "bench.spark_planning", "--plan", url]
        answer = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    what = f"planning {runs * segments:,} segments ({runs:,} runs): time; memory of the process that plans"
    took = f"{answer['seconds']:.1f} s ({answer['cpu']:.1f} s of CPU) for {answer['tasks']:,} tasks"
    measured = f"{took}; {answer['bytes'] / _MIB:,.0f} MiB"
    return Measure(what, "below 60 s; below 2 GB", measured, answer["seconds"] < 60 and answer["bytes"] < 2e9)


def _plan(url: str) -> dict[str, Any]:
    """The work of the process that Spark starts for planning."""
    reader = PushdownReader(parse_options({"bucket": "logs", "endpoint": url, **OPTIONS}), tuple(schema_of(EVENTS).names))
    started_s = time.perf_counter()
    tasks = reader.partitions()
    took_s = time.perf_counter() - started_s
    return {
        "seconds": took_s,
        "cpu": time.process_time(),
        "tasks": len(tasks),
        "bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def _fill(server: BucketServer) -> None:
    chance = random.Random(1)
    for pipeline in range(_PIPELINES):
        for hour in range(_HOURS):
            first = _DAY + timedelta(hours=hour)
            minutes = [_minute(first + timedelta(minutes=minute), chance) for minute in range(60)]
            times = [int((first + timedelta(minutes=minute + 1)).timestamp() * 1000) for minute in range(60)]
            put_log(server, f"svc.p{pipeline}", f"run-{hour:02d}", minutes, times, is_final=True)


def _minute(moment: datetime, chance: random.Random) -> bytes:
    """A minute's lines, a sixtieth of a run."""
    lines: list[str] = []
    size = 0
    while size < _LOG_BYTES / 60:
        at = moment + timedelta(seconds=59 * size / (_LOG_BYTES / 60))
        lines.append(
            f"{at:%Y-%m-%d %H:%M:%S},000 - svc.load - INFO - row {chance.randrange(10**9)} {'x' * chance.randrange(100)}\n"
        )
        size += len(lines[-1])
    return "".join(lines).encode()


def _ratio(server: BucketServer) -> Measure:
    first = _DAY + timedelta(hours=_HOUR)
    server.traffic.reset()
    rows = _read(
        server,
        EqualTo(("fqn",), "svc.p3"),
        GreaterThanOrEqual(("timestamp",), first),
        LessThan(("timestamp",), first + timedelta(hours=1)),
    )
    matching = sum(len(row["raw"]) for row in rows)
    read, requests = server.traffic.read_bytes, sum(server.traffic.requests.values())
    ratio = read / matching
    assert matching > _LOG_BYTES * 0.95, matching
    return Measure(
        "a pipeline's hour of a day through the data source, bytes read over bytes matching; finished runs, without the catalog's tables",
        "at most 3",
        f"{ratio:.2f} ({read:,} over {matching:,} bytes, {requests:,} requests)",
        ratio <= 3,
    )


def _read(server: BucketServer, *filters: Filter, **options: str) -> list[dict[str, Any]]:
    """Read in this process, as Spark would."""
    parsed = parse_options({**server.options, **options})
    reader = PushdownReader(parsed, ("fqn", "run_id", "line", "timestamp", "raw"))
    reader.pushFilters(list(filters))
    return [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]


def measure(runs: int = RUNS, segments: int = SEGMENTS) -> list[Measure]:
    """The rows of both measurements."""
    return [planning(runs, segments), bytes_read()]


def main() -> int:
    """Exit code 1 if a goal was missed."""
    parser = argparse.ArgumentParser(prog="python -m bench.spark_planning", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="planning, bytes_read; both by default")
    parser.add_argument("--plan", metavar="URL", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.plan:
        print(json.dumps(_plan(arguments.plan)))
        return 0
    os.environ.setdefault("PYTHONPATH", str(Path(__file__).parents[1]))
    known = {each.__name__: each for each in (planning, bytes_read)}
    if unknown := set(arguments.names) - set(known):
        parser.error(f"no such measurement: {', '.join(sorted(unknown))}")
    return print_rows([known[name]() for name in arguments.names or known])


if __name__ == "__main__":
    sys.exit(main())

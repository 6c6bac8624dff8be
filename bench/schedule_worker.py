"""One invocation of the compaction schedule in its own process: warm, with every request counted.

``python -m bench.schedule_worker NUMBER SHARE SLOWED``: prints "ready", waits for a line, works, prints its counts as JSON. Number
0 is the schedule's own invocation: it finds due runs, and prints "start n" instead of starting worker n. ``SHARE``: runs for each
worker. ``SLOWED``: each request is delayed by this many times AWS's latency; 0: no delay.
"""

from __future__ import annotations

import io
import json
import re
import sys
import time
from collections import Counter
from typing import Any, TextIO

import boto3

from bench.bench_world import Context

AWS_S = {"s3": 0.015, "dynamodb": 0.004}
"""Approximate latency of a small request on AWS."""
_TABLE = re.compile(rb'"TableName": ?"([^"]+)"')


class Requests:
    """Counts the requests of this process, retries included, by operation (DynamoDB's with the table)."""

    def __init__(self, slowed: int) -> None:
        self._slowed = slowed
        self.reset()
        boto3.setup_default_session()
        boto3.DEFAULT_SESSION.events.register("before-send", self._sent)  # clients created from now on inherit it

    def reset(self) -> None:
        """Count from 0."""
        self.sent: Counter[str] = Counter()
        self.first_s3_s: float | None = None

    def _sent(self, request: Any, event_name: str, **_: Any) -> None:
        service, operation = event_name.split(".")[1:]
        table = _TABLE.search(request.body or b"") if service == "dynamodb" else None
        self.sent[f"{operation} {table[1].decode()}" if table else operation] += 1
        if service == "s3" and self.first_s3_s is None:
            self.first_s3_s = time.time()
        time.sleep(self._slowed * AWS_S[service])


class StartedWorkers:
    """``ports.Workers`` that prints the workers to start."""

    def __init__(self, answers: TextIO) -> None:
        self._answers = answers

    def start(self, number: int) -> None:
        print(f"start {number}", file=self._answers, flush=True)


class FunctionContext(Context):
    """A context with the function's full timeout."""

    def get_remaining_time_in_millis(self) -> int:
        return 840_000


def main() -> None:
    number, share, slowed = map(int, sys.argv[1:])
    answers, sys.stdout = sys.stdout, io.StringIO()  # the function's own logs and metrics
    requests = Requests(slowed)
    compact = _warm_function(share, answers)
    print("ready", file=answers, flush=True)
    if not sys.stdin.readline():
        return  # the parent has ended
    requests.reset()
    from_s = time.time()
    results = compact(_event(number), FunctionContext())
    result = {"from_s": from_s, "to_s": time.time(), "shared_s": requests.first_s3_s, "results": results, "sent": requests.sent}
    print(json.dumps(result), file=answers, flush=True)


def _warm_function(share: int, answers: TextIO) -> Any:
    """The function's entry with open connections, as after an invocation."""
    import app
    from chalicelib import composition
    from chalicelib.ports import Run
    from chalicelib.triggers import schedules

    services = composition.services().with_ports(workers=StartedWorkers(answers))
    composition.install(services)
    schedules.RUNS_PER_WORKER = share
    nobody = Run("svc.bench", "nobody-s")
    services.runs.get(nobody)
    services.store.list(services.layout.segments(nobody), limit=1)
    composition.coordinator(services, composition.COMPACTION).initialize()
    return app.compact


def _event(worker: int) -> dict[str, Any]:
    """An event in EventBridge's format, as ``chalicelib.aws.workers`` builds it."""
    names = ("version", "account", "region", "detail-type", "time", "id", "source")
    return dict.fromkeys(names, "") | {"resources": [], "detail": {"worker": worker}}


if __name__ == "__main__":
    main()

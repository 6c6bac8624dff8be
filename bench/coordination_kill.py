"""Kills workers: each partition must still be completed, and never have two owners at once.

Sixteen processes share 200 partitions on the emulator. Every second one of them is killed (SIGKILL) and replaced. Their wall clocks
differ by up to 4 s, and 5 % of their store calls fail or return late, before or after taking effect. The check reads their logs
afterwards: every acquisition, step, save and completion, not only the final state.

``python -m bench.coordination_kill [--seed N] [--partitions N] …`` runs it alone; ``python -m bench coordination_kill`` as a
measurement of some minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

from bench.bench_world import Function, set_environment
from bench.coordination_kill_worker import SOURCE
from bench.measure import Measure
from chalicelib.aws.clients import make_client
from chalicelib.aws.clock import SystemClock
from chalicelib.aws.dynamodb import Table
from chalicelib.aws.partition_store import DynamoDbPartitionStore
from chalicelib.coordination import Administration, SourceCoordinator, Status
from chalicelib.coordination.partition import create_table_request
from local.emulator import Emulator, free_port

Event = dict[str, Any]
_POLL_S = 0.1
LONG_STEPS = 12


@dataclass(frozen=True)
class Plan:
    """Parameters of a run. ``skew_s``: largest deviation of a clock; ``allowance_s``: the deviation that leases allow for."""

    seed: int
    partitions: int = 200
    workers: int = 16
    steps: int = 3
    step_s: float = 0.1
    timeout_s: float = 3.0
    allowance_s: float = 4.5
    skew_s: float = 2.0
    failing_share: float = 0.05
    late_s: float = 1.5
    kill_every_s: float = 1.0
    patience_s: float = 240.0


@dataclass(frozen=True)
class Outcome:
    """Result of a run. ``faults``: descriptions of all violations."""

    seconds: float
    kills: int
    events: Counter[str]
    taken_over: int
    faults: Sequence[str]

    def __str__(self) -> str:
        events = ", ".join(f"{count} {name}" for name, count in sorted(self.events.items()))
        return f"{self.seconds:.0f} s, {self.kills} killed, {events}, {self.taken_over} taken over, {len(self.faults)} faults"


def coordination_kill(_: Function, **plan_options: int) -> list[Measure]:
    """The long run: each partition takes some seconds of work, so that most of them are interrupted by a kill."""
    plan = Plan(**{"seed": time.time_ns() % 10**6, "steps": LONG_STEPS} | plan_options)
    print(f"seed={plan.seed}", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="runlake-kill-") as folder:
        outcome = run(plan, Path(folder))
    for fault in outcome.faults:
        print(fault, file=sys.stderr)
    what = (
        f"{plan.workers} processes on {plan.partitions} partitions, one killed every second, clocks 4 s apart, 5 % of calls failing"
    )
    return [Measure(what, "all completed, never two holders", f"{outcome} (seed {plan.seed})", not outcome.faults)]


def run(plan: Plan, folder: Path) -> Outcome:
    """Run on the emulator of the environment; leaves the logs in ``folder``."""
    table = f"bench-kill-{os.getpid()}-{plan.seed}"
    client = make_client("dynamodb", region=None)
    client.create_table(**create_table_request(table, None))
    store = DynamoDbPartitionStore(Table(client, table))
    node = SourceCoordinator(store, SOURCE, SystemClock(), lambda name, value: None)
    node.initialize()
    keys = node.create_partitions(f"svc.pipeline/{number:04}" for number in range(plan.partitions))
    crowd = WorkerProcesses(plan, table, folder)
    started_s = time.monotonic()
    try:
        kills = crowd.work(Administration(store, SOURCE, SystemClock()))
    finally:
        crowd.end()
    seconds = time.monotonic() - started_s
    events = list(read_events(folder))
    stored = {key: store.get(SOURCE.partitions, key) for key in keys}
    faults = violations(events)
    for key, item in stored.items():
        if not item or item.status is not Status.COMPLETED:
            faults.append(f"not completed key={key} item={item}")
        elif any(event["version"] > item.version for event in events if event["key"] == key):
            faults.append(f"a worker logged a version newer than the stored one key={key} item={item}")
    taken_over = sum(len({event["fence"] for event in events if event["key"] == key}) > 1 for key in keys)
    return Outcome(seconds, kills, Counter(event["event"] for event in events), taken_over, faults)


class WorkerProcesses:
    """The worker processes."""

    def __init__(self, plan: Plan, table: str, folder: Path) -> None:
        self._plan, self._table, self._folder, self._random = plan, table, folder, Random(plan.seed)
        self._started = 0
        self._running = [self._start() for _ in range(plan.workers)]

    def work(self, administration: Administration) -> int:
        """Kill and replace workers in turn until all partitions are completed. Returns the number of kills."""
        kills, began_s = 0, time.monotonic()
        while time.monotonic() - began_s < self._plan.patience_s:
            if kills < (time.monotonic() - began_s) / self._plan.kill_every_s - 1:
                kills += 1
                self._replace(self._random.randrange(len(self._running)))
            if _count(administration, Status.COMPLETED) >= self._plan.partitions:
                return kills
            time.sleep(_POLL_S)
        raise TimeoutError(f"not all partitions are completed seconds={self._plan.patience_s} seed={self._plan.seed}")

    def end(self) -> None:
        """Kill all of them."""
        for process in self._running:
            process.kill()
        for process in self._running:
            process.wait()

    def _replace(self, number: int) -> None:
        process = self._running[number]
        if process.poll() is not None:
            raise RuntimeError(f"a worker ended unexpectedly: see {self._folder} exit_code={process.returncode}")
        process.kill()
        process.wait()
        self._running[number] = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        self._started += 1
        plan, name = self._plan, f"worker-{self._started:04}"
        script = {
            "seed": f"{plan.seed}-{self._started}", "table": self._table, "log": str(self._folder / f"{name}.jsonl"),
            "ahead_s": self._random.uniform(-plan.skew_s, plan.skew_s), "timeout_s": plan.timeout_s, "skew_s": plan.allowance_s,
            "failing_share": plan.failing_share, "late_s": plan.late_s, "steps": plan.steps, "step_s": plan.step_s,
        }  # fmt: skip
        with open(self._folder / f"{name}.err", "wb") as errors:
            return subprocess.Popen([sys.executable, "-m", "bench.coordination_kill_worker", json.dumps(script)], stderr=errors)


def read_events(folder: Path) -> Iterable[Event]:
    """Every event of every worker. A line cut short by a kill is the last of its file."""
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text().splitlines(keepends=True):
            if line.endswith("\n"):
                yield json.loads(line)


def violations(events: Sequence[Event]) -> list[str]:
    """Descriptions of all violations; empty if there are none.

    By versions: each fence has one owner, no version is written twice, an owner writes nothing after the next owner's fence, and
    nothing follows a completion. By time (one monotonic clock for all processes of a machine): no step of work after a higher fence
    was acquired.
    """
    by_key: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        by_key[event["key"]].append(event)
    return [fault for key, its in sorted(by_key.items()) for fault in _violations_of(key, its)]


def _violations_of(key: str, events: list[Event]) -> Iterable[str]:
    acquired = sorted((event for event in events if event["event"] == "acquired"), key=lambda event: event["fence"])
    for one, other in pairwise(acquired):
        if one["fence"] == other["fence"]:
            yield f"two acquisitions with one fence key={key} fence={one['fence']}"
        for event in events:
            if event["owner"] == one["owner"] and event["event"] in ("saved", "completed") and event["version"] >= other["fence"]:
                yield f"written after another had it key={key} fence={one['fence']} next={other['fence']} event={event}"
            if event["owner"] == one["owner"] and event["event"] == "step" and event["at_s"] > other["at_s"]:
                yield f"worked after another had it key={key} fence={one['fence']} next={other['fence']} event={event}"
    written = Counter(event["version"] for event in events if event["event"] in ("acquired", "saved", "completed"))
    yield from (f"a version was written twice key={key} version={version}" for version, times in written.items() if times > 1)
    completed = [event for event in events if event["event"] == "completed"]
    if len(completed) > 1:
        yield f"completed twice key={key}"
    if completed and any(version > completed[0]["version"] for version in written):
        yield f"something followed on the completion key={key}"
    known = {event["owner"] for event in acquired}
    yield from (f"worked without an acquisition key={key} event={event}" for event in events if event["owner"] not in known)


def _count(administration: Administration, status: Status) -> int:
    count, cursor = 0, None
    while True:
        page = administration.list(status, limit=500, cursor=cursor)
        count, cursor = count + len(page.partitions), page.cursor
        if cursor is None:
            return count


def main() -> int:
    """Run alone, on a private emulator. Exit code 1 on a violation."""
    parser = argparse.ArgumentParser(prog="python -m bench.coordination_kill", description=__doc__)
    for name, value in asdict(Plan(seed=time.time_ns() % 10**6)).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(value), default=value, help=f"default: {value}")
    plan = Plan(**vars(parser.parse_args()))
    print(plan)
    with tempfile.TemporaryDirectory(prefix="runlake-kill-") as folder:
        emulator = Emulator(free_port(), Path(folder) / "scratch", Path(folder) / "emulator.log")
        try:
            emulator.wait_until_healthy()
            set_environment(emulator.endpoint_url)
            outcome = run(plan, Path(folder))
        finally:
            emulator.stop()
    print(outcome, *outcome.faults, sep="\n")
    return 1 if outcome.faults else 0


if __name__ == "__main__":
    sys.exit(main())

"""A worker that may be killed at any moment, with a skewed clock and a failing store; logs every event.

``python -m bench.coordination_kill_worker SCRIPT``: the plan as JSON, see ``bench.coordination_kill.Plan``. Each line of its log is
one event, appended in one write: acquisition, step of work, save or completion, with key, owner, fence and version.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from chalicelib.aws.clients import make_client
from chalicelib.aws.dynamodb import Table
from chalicelib.aws.partition_store import DynamoDbPartitionStore
from chalicelib.coordination import ItemTtl, Lease, LeaseTerms, Partition, SourceCoordinator, WorkSource
from chalicelib.coordination.store import ConditionFailed, IndexPosition, PartitionQuery, PartitionStore
from chalicelib.errors import LeaseError, OutcomeUnknownError, StoreUnavailableError, UnavailableError

SOURCE = WorkSource("kill")
Answer = TypeVar("Answer")


class SkewedClock:
    """Real time with a wall clock that is ahead or behind."""

    def __init__(self, ahead_s: float) -> None:
        self._ahead_ms = round(ahead_s * 1000)

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000 + self._ahead_ms

    def monotonic_s(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class UnreliableStore:
    """A store whose calls fail or return late at random, before or after they are applied."""

    def __init__(self, inner: PartitionStore, random: Random, share: float, late_s: float) -> None:
        self._inner, self._random, self._share, self._late_s = inner, random, share, late_s

    @property
    def item_ttl(self) -> ItemTtl:
        return self._inner.item_ttl

    def initialize(self) -> None:
        self._inner.initialize()

    def get(self, source: str, key: str) -> Partition | None:
        return self._call(lambda: self._inner.get(source, key), write=False)

    def query(self, query: PartitionQuery) -> tuple[Sequence[Partition], IndexPosition | None]:
        return self._call(lambda: self._inner.query(query), write=False)

    def create(self, new: Partition) -> ConditionFailed | None:
        return self._call(lambda: self._inner.create(new))

    def replace(self, old: Partition, new: Partition) -> ConditionFailed | None:
        return self._call(lambda: self._inner.replace(old, new))

    def delete(self, old: Partition) -> ConditionFailed | None:
        return self._call(lambda: self._inner.delete(old))

    def _call(self, call: Callable[[], Answer], *, write: bool = True) -> Answer:
        if self._random.random() >= self._share:
            return call()
        what = self._random.choice(("fails before", "fails after", "late before", "late after"))
        if what == "late before":
            time.sleep(self._random.random() * self._late_s)
        if what == "fails before":
            raise StoreUnavailableError("injected")
        answer = call()
        if what == "late after":
            time.sleep(self._random.random() * self._late_s)
        if what == "fails after":
            raise (OutcomeUnknownError if write else StoreUnavailableError)("injected")
        return answer


class Log:
    """An append-only file. A write is in the file when it returns, so a kill loses nothing."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def write(self, event: str, lease: Lease, at_s: float) -> None:
        facts = {"key": lease.key, "owner": lease.owner, "fence": lease.fence, "version": lease.partition.version}
        os.write(self._file, (json.dumps({"event": event, "at_s": at_s, **facts}) + "\n").encode())


class Worker:
    """Acquires partitions, works on each in steps with a heartbeat, saves in between, completes."""

    def __init__(self, node: SourceCoordinator, log: Log, random: Random, steps: int, step_s: float) -> None:
        self._node, self._log, self._random, self._steps, self._step_s = node, log, random, steps, step_s

    def run(self) -> None:
        while True:
            try:
                lease = self._node.next_partition()
            except UnavailableError:
                continue
            if lease is None:
                time.sleep(0.2)
                continue
            self._log.write("acquired", lease, time.monotonic())
            try:
                with self._node.heartbeat(lease):
                    self._work(lease)
            except LeaseError:
                self._log.write("lost", lease, time.monotonic())

    def _work(self, lease: Lease) -> None:
        done = (lease.state or {}).get("done", 0)
        for step in range(done, self._steps):
            time.sleep(self._step_s * (0.5 + self._random.random()))
            self._step(lease)
            self._until_certain(partial(self._node.save_state, lease, {"done": step + 1}))
            self._log.write("saved", lease, time.monotonic())
        self._until_certain(partial(self._node.complete, lease))
        self._log.write("completed", lease, time.monotonic())

    def _step(self, lease: Lease) -> None:
        """A step visible to the check: at this moment no other worker may work on the partition."""
        at_s = time.monotonic()
        lease.check()
        self._log.write("step", lease, at_s)

    def _until_certain(self, call: Callable[[], Any]) -> None:
        while True:
            try:
                call()
                return
            except UnavailableError:
                continue


def main() -> None:
    plan = json.loads(sys.argv[1])
    random = Random(plan["seed"])
    store: PartitionStore = DynamoDbPartitionStore(Table(make_client("dynamodb", region=None), plan["table"]))
    store = UnreliableStore(store, random, plan["failing_share"], plan["late_s"])
    terms = LeaseTerms(plan["timeout_s"], plan["skew_s"])
    node = SourceCoordinator(store, SOURCE, SkewedClock(plan["ahead_s"]), lambda name, value: None, terms=terms, random=random)
    log = Log(Path(plan["log"]))
    while True:
        try:
            node.initialize()
            break
        except UnavailableError:
            continue
    Worker(node, log, random, plan["steps"], plan["step_s"]).run()


if __name__ == "__main__":
    main()

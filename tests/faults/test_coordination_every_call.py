"""The life of a node, stopped at every call of its store: before the call took effect, or after it with the response lost, for one call
and for many, as an error and as a crash. The same call, or another node, always continues from the stored state."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from chalicelib.coordination import ItemTtl, Lease, SourceCoordinator, Status
from chalicelib.coordination.partition import to_row
from chalicelib.errors import OutcomeUnknownError, StoreUnavailableError, UnavailableError
from tests.contract.coordination import AFTER, BEFORE, WRITES, Gated, World, in_memory
from tests.faults.interception import Crash

KEYS = [f"k{number}" for number in range(6)]
OUTAGE_CALLS = 9
"""More than the attempts that a write is worth."""
MAX_REPEATS = 40


@dataclass
class StopAt:
    """Fails the call with this ``number`` and ``more`` calls after it."""

    number: int
    moment: str
    how: str
    more: int = 0
    calls: int = 0

    def __call__(self, operation: str, call: Callable[[], Any]) -> Any:
        at, self.calls = self.calls, self.calls + 1
        if at < self.number or (at > self.number + self.more and self.how == "error"):
            return call()
        if self.moment == AFTER and at == self.number:
            call()
        if self.how == "crash":
            raise Crash(operation)  # a dead process makes no further calls
        if self.moment == AFTER and operation in WRITES and at == self.number:
            raise OutcomeUnknownError(f"injected operation={operation}")
        raise StoreUnavailableError(f"injected operation={operation}")


@dataclass
class Life:
    """The steps of one node: it creates partitions by a supplier and ends one in each way. Each step is repeated until it succeeds."""

    world: World
    node: SourceCoordinator
    held: dict[str, Lease] = field(default_factory=dict)
    failures: int = 0

    def run(self) -> None:
        self.do(self.node.initialize)
        self.take()
        for end in (self.complete, self.close, self.release, self.complete_and_delete, self.renew):
            end(self.take())
        self.do(self.node.shutdown)

    def do(self, step: Callable[[], Any]) -> Any:
        for _ in range(MAX_REPEATS):
            try:
                return step()
            except UnavailableError:
                self.failures += 1
        raise AssertionError("it never goes through")

    def take(self) -> Lease:
        def once() -> Lease:
            lease = self.node.next_partition(self.supplier)
            if lease is None:  # a lease whose response was lost expires
                self.world.after_the_lease()
                raise StoreUnavailableError("nothing yet")
            return lease

        lease: Lease = self.do(once)
        return lease

    def supplier(self, shared: dict[str, Any]) -> list[str]:
        shared["calls"] = shared.get("calls", 0) + 1
        return KEYS

    def complete(self, lease: Lease) -> None:
        self.do(lambda: self.node.save_state(lease, {"at": 1}))
        self.do(lambda: self.node.complete(lease))
        assert self.world.partition(lease.key).status is Status.COMPLETED

    def close(self, lease: Lease) -> None:
        self.do(lambda: self.node.close(lease, timedelta(days=1), 3))
        partition = self.world.partition(lease.key)
        assert (partition.status, partition.closed_count) == (Status.CLOSED, 1), "counted once"

    def release(self, lease: Lease) -> None:
        self.do(lambda: self.node.release(lease))
        assert self.world.partition(lease.key).owner is None

    def complete_and_delete(self, lease: Lease) -> None:
        self.do(lambda: self.node.complete_and_delete(lease))
        assert self.world.rows.get(lease.partition.source, lease.key) is None

    def renew(self, lease: Lease) -> None:
        self.do(lambda: self.node.renew(lease))
        lease.check()


def lived(stop: StopAt) -> Life:
    world = World(*in_memory(ItemTtl(86_400)))
    return Life(world, SourceCoordinator(Gated(world.store, stop), world.source, world.clock, world.record))


def number_of_calls() -> int:
    stop = StopAt(10**9, BEFORE, "error")
    lived(stop).run()
    return stop.calls


CALLS = number_of_calls()


def test_there_are_calls_to_stop_at() -> None:
    assert CALLS > 30


@pytest.mark.sampled(default=50)
@pytest.mark.parametrize("more", [0, OUTAGE_CALLS])
@pytest.mark.parametrize("moment", [BEFORE, AFTER])
@pytest.mark.parametrize("number", range(CALLS))
def test_an_error_at_any_call_is_repaired_by_the_same_call(number: int, moment: str, more: int) -> None:
    life = lived(StopAt(number, moment, "error", more))
    life.run()
    assert_all_rows_are_valid(life.world)
    # A single lost response causes at most one failure.
    if moment == AFTER and not more and life.failures:
        assert life.failures == 1


@pytest.mark.sampled(default=30)
@pytest.mark.parametrize("moment", [BEFORE, AFTER])
@pytest.mark.parametrize("number", range(CALLS))
def test_a_crash_at_any_call_is_repaired_by_another_node(number: int, moment: str) -> None:
    life = lived(StopAt(number, moment, "crash"))
    with pytest.raises(Crash):
        life.run()
    world = life.world
    world.advance(86_400 + 3600)
    heir = world.node()
    done = Counter[str]()
    while lease := heir.next_partition(life.supplier if len(done) < len(KEYS) else None):
        done[lease.key] += 1
        heir.complete(lease)
    assert max(done.values(), default=1) == 1
    assert all(world.partition(key).status is Status.COMPLETED for key in KEYS)
    assert_all_rows_are_valid(world)


def assert_all_rows_are_valid(world: World) -> None:
    """Every row is readable and in our layout, and the global item is free or its lease will expire."""
    for row in world.store.rows():  # type: ignore[attr-defined]
        partition = world.store.get(row["sourceIdentifier"], row["sourcePartitionKey"])
        assert partition is not None and to_row(partition) == row
        assert (partition.status is Status.ASSIGNED) == (partition.owner is not None) == (partition.timeout_ms is not None)
        assert (partition.expires_s is not None) == (partition.status is Status.COMPLETED)
        json.loads(partition.state or "null")
    world.after_the_lease()
    assert world.node().run_supplier(lambda shared: ["new"]), "the turn to create is free, or its lease has ended"
    assert world.global_item().status is Status.UNASSIGNED

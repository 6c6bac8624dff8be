"""Acquisition of a partition by its key, over every store."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier

import pytest

from chalicelib.coordination import Lease, Partition, Status
from chalicelib.coordination.metrics import Metric
from chalicelib.errors import NotInitializedError, StoreUnavailableError
from tests.contract import coordination as support
from tests.contract.conftest import MOTO
from tests.contract.coordination import SKEW_S, TIMEOUT_S, Trouble, World

new_world, world = support.new_world, support.world


def test_partition_is_created_with_its_lease_in_one_write(world: World) -> None:
    trouble = Trouble()
    node = world.node(trouble)
    trouble.calls.clear()
    lease = node.acquire("k")
    assert isinstance(lease, Lease) and trouble.calls == {"create": 1}
    assert (lease.key, lease.fence, lease.state, lease.closed_count) == ("k", 1, None, 0)
    assert (lease.partition.status, lease.partition.owner) == (Status.ASSIGNED, lease.owner)
    assert node.leases() == [lease] and world.count(Metric.ACQUIRED) == 1
    assert world.node().acquire_many(1) == [], "nobody else takes it"
    node.complete(lease)
    assert node.leases() == []


def test_waiting_partition_is_acquired_with_its_state(world: World) -> None:
    first = world.leased(world.node())
    node = world.node()
    node.create_partitions(["k"])
    given = node.acquire(first.key)
    assert isinstance(given, Partition) and given.owner == first.owner
    world.clock.advance(TIMEOUT_S + SKEW_S + 1)
    trouble = Trouble()
    other = world.node(trouble)
    trouble.calls.clear()
    taken = other.acquire(first.key)
    assert isinstance(taken, Lease) and taken.fence > first.fence and trouble.calls == {"create": 1, "replace": 1}


def test_partition_that_is_not_free_is_returned_unchanged(world: World) -> None:
    node, other = world.node(), world.node()
    done = node.acquire("done")
    later = node.acquire("later")
    assert isinstance(done, Lease) and isinstance(later, Lease)
    node.complete(done)
    node.close(later, timedelta(hours=1), 5)
    before = [world.row(key) for key in ("done", "later")]
    found = [other.acquire(key) for key in ("done", "later")]
    assert [each.status for each in found if isinstance(each, Partition)] == [Status.COMPLETED, Status.CLOSED]
    assert [world.row(key) for key in ("done", "later")] == before
    sooner = other.acquire("later", lambda partition: partition.status is Status.CLOSED)
    assert isinstance(sooner, Lease) and sooner.closed_count == 1


def test_outcome_of_a_lost_response_is_resolved(world: World) -> None:
    lease = world.node(Trouble(lost=1)).acquire("k")
    assert isinstance(lease, Lease) and lease.fence == 1


def test_an_item_that_keeps_going_away_is_an_error(world: World) -> None:
    """The item exists at each creation and is deleted before each acquisition."""
    trouble = Trouble()
    node, other = world.node(trouble), world.node()

    def appear() -> None:
        other.create_partitions(["k"])
        trouble.before_next["replace"] = vanish

    def vanish() -> None:
        lease = other.acquire("k")
        assert isinstance(lease, Lease)
        other.complete_and_delete(lease)
        trouble.before_next["create"] = appear

    trouble.before_next["create"] = appear
    with pytest.raises(StoreUnavailableError, match="the partition keeps changing key=k"):
        node.acquire("k")
    trouble.before_next.clear()
    assert isinstance(node.acquire("k"), Lease)


def test_not_before_initialize_and_not_after_shutdown(world: World) -> None:
    node = world.node(initialize=False)
    with pytest.raises(NotInitializedError):
        node.acquire("k")
    node.initialize()
    lease = node.acquire("k")
    node.shutdown()
    with pytest.raises(NotInitializedError):
        node.acquire("l")
    assert isinstance(lease, Lease) and lease.is_over
    assert isinstance(world.node().acquire("k"), Lease)


def test_one_of_many_acquires_a_key(world: World, kind: str) -> None:
    if kind == MOTO:
        return  # its writes are not atomic between threads
    nodes = [world.node() for _ in range(8)]
    start = Barrier(len(nodes))

    def take(number: int) -> Lease | Partition:
        start.wait(60)
        return nodes[number].acquire("k")

    with ThreadPoolExecutor(len(nodes)) as threads:
        found = list(threads.map(take, range(len(nodes))))
    assert sum(isinstance(each, Lease) for each in found) == 1

"""When a partition is free, and effects of deletions and renewals on other nodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from chalicelib.coordination import InMemoryPartitionStore, ItemTtl, LeaseTerms, Partition, SourceCoordinator, Status
from chalicelib.coordination.candidates import CandidatePool
from chalicelib.coordination.partition import new_partition
from chalicelib.errors import OutcomeUnknownError
from tests.contract.coordination import START_MS, Gated, World, in_memory
from tests.support.clock import ManualClock

TERMS = LeaseTerms(timeout_s=600, skew_s=5)
NEW = new_partition("compaction|PARTITION", "k", START_MS * 1000)


@pytest.mark.parametrize(
    ("partition", "is_free"),
    [
        (NEW, True),
        (NEW.assigned("another", START_MS + 1), False),
        (NEW.assigned("another", START_MS - TERMS.skew_ms + 1), False),
        (NEW.assigned("another", START_MS - TERMS.skew_ms), True),
        (replace(NEW, status=Status.ASSIGNED), True),
        (NEW.closed(START_MS + 1, 9), False),
        (NEW.closed(START_MS, 9), True),
        (replace(NEW, status=Status.CLOSED), True),
        (NEW.completed(), False),
    ],
)
def test_partition_is_free_at_its_time_and_not_before(partition: Partition, is_free: bool) -> None:
    acquisition = CandidatePool(InMemoryPartitionStore(), NEW.source, TERMS, ManualClock(START_MS), Random(0))
    assert acquisition.is_free(partition) == is_free


def test_renewal_by_a_clock_that_is_behind_shortens_no_lease() -> None:
    taken = NEW.assigned("us", START_MS + 600_000)
    renewed = taken.renewed(START_MS + 500_000)
    assert (renewed.timeout_ms, renewed.priority, renewed.version) == (taken.timeout_ms, taken.priority, taken.version + 1)


def test_deletion_with_lost_response_leaves_a_new_item() -> None:
    world = World(*in_memory(ItemTtl()))
    successor: list[Partition] = []

    def gate(operation: str, call: Callable[[], Any]) -> Any:
        answer = call()
        if operation == "delete" and not successor:
            successor.append(new_partition(world.source.partitions, "k", START_MS * 1000 + 7))
            assert world.store.create(successor[0]) is None
            raise OutcomeUnknownError("the answer is lost")
        return answer

    node = SourceCoordinator(Gated(world.store, gate), world.source, world.clock, world.record)
    node.initialize()
    node.create_partitions(["k"])
    lease = node.next_partition()
    assert lease and lease.partition.version > 0
    node.complete_and_delete(lease)
    assert world.store.get(world.source.partitions, "k") == successor[0]

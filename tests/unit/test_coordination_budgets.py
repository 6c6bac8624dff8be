"""Requests and billed units of each operation on the table: the figures of decision 0012."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest

from chalicelib.coordination import ItemTtl, Lease, Partition, SourceCoordinator
from chalicelib.coordination.partition import to_row
from chalicelib.coordination.store import ConditionFailed, IndexPosition, PartitionQuery
from tests.contract.coordination import Gated, Supplier, World, in_memory

KEY = "warehouse.orders_pipeline/0f1e2d3c-0000-4000-8000-00000000"
STATE = {"error": "StoreUnavailableError: put failed code=SlowDown", "failed_ms": 1_790_000_000_000}


class Billed(Gated):
    """A store that counts units: one for each KB of an item and of its index entry written, one for 4 KB read, half of that in the index."""

    def __init__(self, world: World) -> None:
        super().__init__(world.store, lambda operation, call: call())
        self.requests: Counter[str] = Counter()
        self.write_units, self.read_units = 0, 0.0

    def get(self, source: str, key: str) -> Partition | None:
        self.requests["get"] += 1
        found = super().get(source, key)
        self.read_units += max(1, -(-_size([found] if found else []) // 4096))
        return found

    def query(self, query: PartitionQuery) -> tuple[Sequence[Partition], IndexPosition | None]:
        self.requests["query"] += 1
        found, more = super().query(query)
        self.read_units += max(1, -(-_size(found) // 4096)) / 2
        return found, more

    def create(self, new: Partition) -> ConditionFailed | None:
        return self._written(super().create(new), None, new)

    def replace(self, old: Partition, new: Partition) -> ConditionFailed | None:
        return self._written(super().replace(old, new), old, new)

    def delete(self, old: Partition) -> ConditionFailed | None:
        return self._written(super().delete(old), old, None)

    def _written(self, refused: ConditionFailed | None, old: Partition | None, new: Partition | None) -> ConditionFailed | None:
        self.requests["write"] += 1
        self.write_units += 1
        if refused is None:
            entries = [(each.status, each.priority) for each in (old, new) if each]
            self.write_units += 1 if len(entries) == 1 or entries[0] == entries[1] else 2
        return refused


def _size(partitions: Sequence[Partition]) -> int:
    return sum(len(json.dumps(to_row(each))) for each in partitions)


class Scene:
    def __init__(self) -> None:
        self.world = World(*in_memory(ItemTtl()))
        self.store = Billed(self.world)
        self.node = SourceCoordinator(self.store, self.world.source, self.world.clock, self.world.record)
        self.node.initialize()

    def held(self) -> Lease:
        self.node.create_partitions([KEY])
        lease = self.node.next_partition()
        assert lease
        self.world.advance(1)
        return lease

    def spent(self, call: Callable[[], Any]) -> tuple[int, int, int, int, float]:
        self.store.requests.clear()
        self.store.write_units, self.store.read_units = 0, 0.0
        call()
        asked = self.store.requests
        return asked["get"], asked["query"], asked["write"], self.store.write_units, self.store.read_units


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        (lambda scene, lease: scene.node.save_state(lease, STATE), (0, 0, 1, 3, 0)),
        (lambda scene, lease: scene.node.renew(lease), (0, 0, 1, 3, 0)),
        (lambda scene, lease: scene.node.complete(lease), (0, 0, 1, 3, 0)),
        (lambda scene, lease: scene.node.close(lease, timedelta(hours=1), 9, STATE), (0, 0, 1, 3, 0)),
        (lambda scene, lease: scene.node.release(lease), (0, 0, 1, 3, 0)),
        (lambda scene, lease: scene.node.complete_and_delete(lease), (0, 0, 1, 2, 0)),
        (lambda scene, lease: lease.check(), (0, 0, 0, 0, 0)),
        (lambda scene, lease: scene.node.create_partitions(["new"]), (0, 0, 1, 2, 0)),
        (lambda scene, lease: scene.node.create_partitions([KEY]), (0, 0, 1, 1, 0)),
        (lambda scene, lease: scene.node.initialize(), (1, 0, 0, 0, 1)),
        (lambda scene, lease: scene.node.next_partition(), (0, 3, 0, 0, 1.5)),
        (lambda scene, lease: scene.node.next_partition(Supplier()), (1, 5, 2, 6, 3.5)),
    ],
    ids=[
        "save",
        "renew",
        "complete",
        "close",
        "give up",
        "forget",
        "check",
        "create",
        "create again",
        "initialize",
        "idle",
        "idle with supplier",
    ],
)
def test_what_an_operation_costs(operation: Callable[[Scene, Lease], Any], expected: tuple[int, int, int, int, float]) -> None:
    scene = Scene()
    lease = scene.held()
    assert scene.spent(lambda: operation(scene, lease)) == expected


def test_a_query_serves_25_acquisitions() -> None:
    scene = Scene()
    scene.node.create_partitions(f"{KEY}{number:04}" for number in range(100))
    assert scene.spent(scene.node.next_partition) == (0, 3, 1, 3, 2.0)
    for _ in range(24):
        assert scene.spent(scene.node.next_partition) == (0, 0, 1, 3, 0)
    assert scene.spent(lambda: scene.node.acquire_many(25)) == (0, 1, 25, 75, 1.0)


def test_work_that_comes_and_goes_costs_three_writes() -> None:
    """Created, acquired, deleted: 7 units, and its share of a query."""
    scene = Scene()

    def work() -> None:
        scene.node.create_partitions(f"{KEY}{number:04}" for number in range(100))
        for lease in scene.node.acquire_many(100):
            scene.node.complete_and_delete(lease)

    gets, queries, writes, write_units, read_units = scene.spent(work)
    assert (gets, writes, write_units) == (0, 300, 700)
    assert queries <= 6 and read_units <= 9

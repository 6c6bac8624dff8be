"""The 18 behaviours of source coordination, over every store. Races are run where writes are atomic: in memory and on ministack."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from random import Random
from threading import Barrier, Lock
from typing import Any

import pytest

from chalicelib.coordination import (
    Lease,
    NotInitializedError,
    PartitionNotFoundError,
    PartitionNotOwnedError,
    SourceCoordinator,
    Status,
    StoreUnavailableError,
)
from chalicelib.coordination.metrics import Metric
from chalicelib.coordination.partition import GLOBAL_KEY, format_timestamp, new_partition
from chalicelib.coordination.store import ConditionFailed
from tests.contract import coordination as support
from tests.contract.conftest import MOTO
from tests.contract.coordination import SKEW_S, START_MS, TERMS, TIMEOUT_S, Supplier, Trouble, World, never

HOUR = timedelta(hours=1)
new_world, world = support.new_world, support.world


# ---------------------------------------------------------------- 1 to 7: initialization and creation


def test_behaviour_01_initialize_makes_table_and_global_item(world: World) -> None:
    node = world.node()
    fresh = world.rows.get(world.source.global_state, GLOBAL_KEY)
    assert fresh == {
        "sourceIdentifier": "compaction|GLOBAL_STATE",
        "sourcePartitionKey": "GLOBAL_STATE_SOURCE_PARTITION_KEY_FOR_CREATING_PARTITIONS",
        "sourceStatusCombinationKey": "compaction|GLOBAL_STATE|UNASSIGNED",
        "sourcePartitionStatus": "UNASSIGNED",
        "partitionPriority": "2026-09-21T14:13:20.000000Z",
        "closedCount": 0,
        "version": 0,
    }
    node.next_partition(Supplier("a"))
    item = world.global_item()
    node.initialize()
    world.node()
    assert world.global_item() == item, "the second time changes nothing"


def test_behaviour_01_two_nodes_initialize_at_once(world: World) -> None:
    world.store.initialize()
    overtaken = Trouble(before_next={"create": world.node})
    world.node(overtaken)
    assert overtaken.calls == {"initialize": 1, "get": 2, "create": 1}
    assert (world.global_item().status, world.global_item().version) == (Status.UNASSIGNED, 0)


def test_behaviour_02_nothing_goes_before_initialize(world: World) -> None:
    lease = world.leased(world.node())
    node = world.node(initialize=False)
    calls: list[Callable[[], object]] = [
        node.next_partition,
        lambda: node.acquire_many(2),
        lambda: node.create_partitions(["k"]),
        lambda: node.save_state(lease, {}),
        lambda: node.renew(lease),
        lambda: node.complete(lease),
        lambda: node.close(lease, HOUR, 1),
        lambda: node.release(lease),
        lambda: node.complete_and_delete(lease),
    ]
    before = world.row("k")
    for call in calls:
        with pytest.raises(NotInitializedError):
            call()
    assert world.row("k") == before


def test_behaviour_03_what_is_there_is_acquired_without_the_supplier(world: World) -> None:
    node = world.node()
    node.create_partitions(["k"])
    lease = node.next_partition(never())
    assert lease and (lease.key, lease.fence, lease.state, lease.closed_count) == ("k", 1, None, 0)
    assert world.count(Metric.ACQUIRED) == 1
    assert world.count(Metric.NONE_ACQUIRED) == world.count(Metric.SUPPLIER_INVOCATIONS) == 0


@pytest.mark.behavior("The supplier runs once among any number of nodes.")
def test_behaviour_04_the_supplier_runs_once_among_any_number_of_nodes(world: World) -> None:
    """Nodes whose queries were empty before the supplier ran, and that read the global item afterwards, acquire its partitions."""
    supplier = Supplier("a", "b", "c")
    found: list[Lease | None] = []
    late = Trouble(before_next={"get": lambda: found.append(world.node().next_partition(supplier))})
    node = world.node()
    late_node = world.node(late, initialize=False)
    late_node._is_ready = True  # its first read is that of the global item, after empty queries
    found += [late_node.next_partition(supplier), node.next_partition(supplier)]
    assert supplier.calls == world.count(Metric.SUPPLIER_INVOCATIONS) == 1
    assert {lease.key for lease in found if lease} == {"a", "b", "c"}
    assert json.loads(world.global_item().state or "") == {"calls": 1}
    assert world.global_item().status is Status.UNASSIGNED


def test_behaviour_04_the_map_is_shared(world: World) -> None:
    one, other = Supplier(), Supplier("a")
    assert world.node().next_partition(one) is None
    assert world.node().next_partition(other)
    assert (one.seen, other.seen) == ([{}], [{"calls": 1}])


def test_behaviour_04_in_a_race(world: World, kind: str) -> None:
    if kind == MOTO:
        pytest.skip("its conditional writes are not atomic between threads")
    supplier = Supplier(*map(str, range(30)))
    nodes = [world.node(random=Random(number)) for number in range(8)]
    start = Barrier(len(nodes))

    def work(node: SourceCoordinator) -> Lease | None:
        start.wait()
        return node.next_partition(supplier)

    with ThreadPoolExecutor(len(nodes)) as threads:
        found = [lease for lease in threads.map(work, nodes) if lease]
    assert supplier.calls == 1
    assert len({lease.key for lease in found}) == len(found) >= 1


def test_behaviour_05_keys_that_exist_are_skipped(world: World) -> None:
    node = world.node()
    lease = world.leased(node, "b")
    before = world.row("b")
    assert node.create_partitions(["a", "b", "c", "a"]) == ["a", "c"]
    assert world.row("b") == before and lease.key == "b"
    assert world.count(Metric.CREATED) == 3
    assert {world.partition(key).status for key in "ac"} == {Status.UNASSIGNED}


def test_behaviour_06_an_expired_owner_of_the_global_item_is_replaced(world: World) -> None:
    world.node()
    dead = world.global_item().assigned("another-host", START_MS + 600_000)
    world.overwrite(world.global_item(), status=dead.status, owner=dead.owner, timeout_ms=dead.timeout_ms, priority=dead.priority)
    trouble = Trouble()
    node = world.node(trouble)
    trouble.calls.clear()
    before = world.global_item()
    world.advance(600)
    assert node.next_partition(never()) is None
    assert world.global_item() == before and not {"replace", "create"} & set(trouble.calls), "it is alive: nothing is written"
    world.advance(SKEW_S)
    supplier = Supplier("a")
    assert node.next_partition(supplier)
    assert supplier.calls == 1 and world.global_item().owner is None


def test_behaviour_07_a_supplier_that_raises_leaves_no_lease(world: World) -> None:
    class SupplierError(Exception):
        pass

    def supplier(shared: dict[str, Any]) -> Iterator[str]:
        shared["half"] = True
        yield "a"
        raise SupplierError

    node = world.node()
    with pytest.raises(SupplierError):
        node.next_partition(supplier)
    item = world.global_item()
    assert (item.status, item.owner, item.timeout_ms, item.state) == (Status.UNASSIGNED, None, None, None)
    assert node.next_partition(Supplier("b")), "the next one may at once"


# ---------------------------------------------------------------- 8 to 14: life of a partition


@pytest.mark.parametrize("operation", ["complete", "close", "save_state"])
def test_behaviour_08_a_partition_that_is_missing_or_anothers(world: World, operation: str) -> None:
    node, other = world.node(), world.node()

    def call(lease: Lease) -> None:
        arguments: dict[str, tuple[Any, ...]] = {"complete": (), "close": (HOUR, 3), "save_state": ({"at": 1},)}
        getattr(node, operation)(lease, *arguments[operation])

    gone = world.leased(node, "gone")
    assert world.store.delete(world.partition("gone")) is None
    with pytest.raises(PartitionNotFoundError):
        call(gone)
    assert world.count(Metric.NOT_FOUND) == 1

    lost = world.leased(node, "lost")
    world.after_the_lease()
    thief = other.next_partition()
    assert thief and thief.key == "lost"
    before = world.row("lost")
    with pytest.raises(PartitionNotOwnedError):
        call(lost)
    assert world.count(Metric.NOT_OWNED) == 1
    assert world.row("lost") == before
    assert lost not in node.leases() and thief in other.leases()


def test_behaviour_09_complete_clears_and_may_be_repeated(world: World) -> None:
    node = world.node()
    lease = world.leased(node)
    node.save_state(lease, {"at": 1})
    priority = world.partition("k").priority
    node.complete(lease)
    row = world.row("k")
    assert not {"partitionOwner", "partitionOwnershipTimeout", "reOpenAt"} & set(row)
    assert (row["sourcePartitionStatus"], row["partitionPriority"]) == ("COMPLETED", priority)
    node.complete(lease)
    assert world.row("k") == row and world.count(Metric.COMPLETED) == 1
    assert node.next_partition() is None


def test_behaviour_10_close_counts_up_to_the_maximum(world: World) -> None:
    node = world.node()
    lease = world.leased(node)
    for times in (1, 2):
        reopen_ms = world.clock.now_ms() + 3_600_000
        assert node.close(lease, HOUR, 3) is Status.CLOSED
        row = world.row("k")
        assert (row["sourcePartitionStatus"], row["closedCount"]) == ("CLOSED", times)
        assert row["reOpenAt"] == row["partitionPriority"] == format_timestamp(reopen_ms)
        assert not {"partitionOwner", "partitionOwnershipTimeout"} & set(row)
        world.advance(3600)
        again = node.next_partition()
        assert again and again.closed_count == times
        lease = again
    assert node.close(lease, HOUR, 3) is Status.COMPLETED
    row = world.row("k")
    assert (row["sourcePartitionStatus"], row["closedCount"]) == ("COMPLETED", 3) and "reOpenAt" not in row
    assert (world.count(Metric.CLOSED), world.count(Metric.COMPLETED)) == (2, 1)


@pytest.mark.behavior("A closed partition is acquired only after its reopening time.")
def test_behaviour_11_a_closed_partition_opens_at_its_time(world: World) -> None:
    node = world.node()
    node.close(world.leased(node), HOUR, 9)
    world.advance(3599.999)
    assert node.next_partition() is None
    assert world.count(Metric.NONE_ACQUIRED) == 1
    world.advance(0.001)
    lease = node.next_partition()
    assert lease and lease.partition.reopen_ms is None and "reOpenAt" not in world.row("k")


def test_behaviour_12_save_state_stores_json_and_renews(world: World) -> None:
    node = world.node()
    lease = world.leased(node)
    world.advance(300)
    state = {"at": 7, "naïve": ["\U0001f600", None, 1.5], "deep": {"a": {}}}
    node.save_state(lease, state)
    row = world.row("k")
    assert json.loads(row["partitionProgressState"]) == lease.state == state
    assert row["partitionOwnershipTimeout"] == row["partitionPriority"] >= format_timestamp(world.clock.now_ms() + 600_000)
    assert world.count(Metric.STATES_SAVED) == 1
    world.advance(500)
    lease.check()
    assert world.node().next_partition() is None, "it is held for longer"


@pytest.mark.behavior("The partition of a crashed owner continues elsewhere with its saved progress.")
def test_behaviour_13_a_crashed_owners_partition_goes_on_elsewhere(world: World) -> None:
    node, other = world.node(), world.node()
    first = world.leased(node)
    node.save_state(first, {"at": 7})
    world.advance(TIMEOUT_S + SKEW_S - 0.001)
    assert other.next_partition() is None
    world.advance(0.001)
    second = other.next_partition()
    assert second and second.state == {"at": 7} and second.fence > first.fence
    for write in (
        lambda: node.save_state(first, {"at": 8}),
        lambda: node.complete(first),
        lambda: node.renew(first) or first.check(),
    ):
        with pytest.raises(PartitionNotOwnedError):
            write()
    assert node.release(first) is False
    assert second.state == {"at": 7} and world.partition("k") == second.partition
    other.complete(second)


@pytest.mark.behavior("Release and shutdown make partitions available at once.")
def test_behaviour_14_release_and_shutdown_free_at_once(world: World) -> None:
    node, other = world.node(), world.node()
    lease = world.leased(node)
    node.save_state(lease, {"at": 7})
    assert node.release(lease) is True
    again = other.next_partition()
    assert again and again.state == {"at": 7}
    other.create_partitions(["l", "m"])
    assert len(other.acquire_many(5)) == 2 and len(other.leases()) == 3
    other.shutdown()
    assert other.leases() == [] and world.count(Metric.RELEASED) == 4
    assert {lease.key for lease in node.acquire_many(5)} == {"k", "l", "m"}
    with pytest.raises(NotInitializedError):
        other.next_partition()


# ---------------------------------------------------------------- 15 to 18: races, outages, layout


def test_behaviour_15_a_lost_race_moves_on_to_the_next(world: World) -> None:
    rival = world.node()
    rival.create_partitions(["a", "b", "c"])
    trouble = Trouble()
    node = world.node(trouble)

    def overtake() -> None:
        assert rival.next_partition()

    trouble.before_next["replace"] = lambda: (overtake(), overtake())
    first = node.next_partition()
    assert first and len({first.key, *(lease.key for lease in rival.leases())}) == 3
    assert node.next_partition() is None


def test_behaviour_15_exhausted_candidates_give_none(world: World) -> None:
    rival = world.node()
    rival.create_partitions(map(str, range(5)))
    trouble = Trouble()
    node = world.node(trouble)
    trouble.before_next["replace"] = lambda: rival.acquire_many(5)
    assert node.next_partition() is None
    assert trouble.calls["replace"] == 1, "the next look shows that there is nothing"


@pytest.mark.behavior("Any number of workers complete each partition once, with one holder at a time.")
def test_behaviour_16_sixteen_workers_share_two_hundred_partitions(world: World, kind: str) -> None:
    if kind == MOTO:
        pytest.skip("its conditional writes are not atomic between threads")
    world.node().create_partitions(map(str, range(200)))
    history: list[tuple[str, str, int]] = []
    working: set[str] = set()
    lock = Lock()

    def work(number: int) -> None:
        node = world.node(random=Random(number))
        while lease := node.next_partition():
            with lock:
                assert lease.key not in working
                working.add(lease.key)
                history.append(("acquired", lease.key, lease.fence))
            node.save_state(lease, {"by": number})
            with lock:
                working.discard(lease.key)
            node.complete(lease)

    with ThreadPoolExecutor(16) as threads:
        list(threads.map(work, range(16)))
    assert Counter(key for _, key, _ in history) == {str(number): 1 for number in range(200)}
    assert {fence for *_, fence in history} == {1}
    partitions = [world.partition(str(number)) for number in range(200)]
    assert {(each.status, each.version) for each in partitions} == {(Status.COMPLETED, 3)}
    assert world.count(Metric.ACQUIRED) == world.count(Metric.COMPLETED) == 200


@pytest.mark.behavior("An outage of the store raises an error and creates no partition.")
def test_behaviour_17_an_outage_raises_and_creates_nothing(world: World) -> None:
    trouble = Trouble()
    node = world.node(trouble)
    lease = world.leased(node)
    trouble.outage = True
    calls: list[Callable[[], object]] = [
        lambda: node.next_partition(never()),
        lambda: node.acquire_many(3),
        lambda: node.create_partitions(["a", "b"]),
        lambda: node.save_state(lease, {}),
        lambda: node.complete(lease),
        lambda: node.close(lease, HOUR, 1),
        lambda: node.release(lease),
        lambda: node.complete_and_delete(lease),
        lambda: world.administration(trouble).list(Status.ASSIGNED),
        lambda: world.administration(trouble).get("k"),
        lambda: world.administration(trouble).release("k"),
        node.initialize,
    ]
    before = world.row("k")
    for call in calls:
        with pytest.raises(StoreUnavailableError):
            call()
    trouble.outage = False
    assert world.row("k") == before and world.rows.get(world.source.partitions, "a") is None
    assert world.count(Metric.SUPPLIER_INVOCATIONS) == 0
    assert world.count(Metric.SAVE_STATE_ERRORS) == world.count(Metric.CLOSE_ERRORS) == world.count(Metric.COMPLETE_ERRORS) == 1
    node.complete(lease)


def test_behaviour_17_an_outage_between_two_queries_raises_too(world: World) -> None:
    """Results of the first query do not hide the failure of the second."""
    node = world.node(trouble := Trouble())
    for nth in range(3):
        looks = itertools.count()

        def fail(operation: str, call: Callable[[], Any], nth: int = nth, looks: Iterator[int] = looks) -> Any:
            trouble.outage = operation == "query" and next(looks) == nth
            return Trouble.__call__(trouble, operation, call)

        node._candidates._waiting._store._gate = fail
        world.advance(60)
        with pytest.raises(StoreUnavailableError):
            node.next_partition(never())


@pytest.mark.behavior("Items are written as Data Prepper reads them.")
def test_behaviour_18_items_are_laid_out_by_the_rules(world: World) -> None:
    node = world.node()
    node.create_partitions(["p/1", "p/2"])
    base = {"sourceIdentifier": "compaction|PARTITION", "closedCount": 0}
    waiting = base | {
        "sourcePartitionKey": "p/2", "sourceStatusCombinationKey": "compaction|PARTITION|UNASSIGNED", "version": 0,
        "sourcePartitionStatus": "UNASSIGNED", "partitionPriority": "2026-09-21T14:13:20.000001Z",
    }  # fmt: skip
    assert world.row("p/2") == waiting
    lease = next(lease for lease in node.acquire_many(2) if lease.key == "p/2")
    timeout = "2026-09-21T14:23:20.000000Z"
    assigned = waiting | {
        "sourceStatusCombinationKey": "compaction|PARTITION|ASSIGNED", "sourcePartitionStatus": "ASSIGNED", "version": 1,
        "partitionPriority": timeout, "partitionOwnershipTimeout": timeout, "partitionOwner": lease.owner,
    }  # fmt: skip
    assert world.row("p/2") == assigned
    node.save_state(lease, {"at": 7})
    assert world.row("p/2") == assigned | {"version": 2, "partitionProgressState": '{"at":7}'}
    node.close(lease, HOUR, 2)
    reopen = "2026-09-21T15:13:20.000000Z"
    closed = waiting | {
        "sourceStatusCombinationKey": "compaction|PARTITION|CLOSED", "sourcePartitionStatus": "CLOSED", "version": 3, "closedCount": 1,
        "partitionPriority": reopen, "reOpenAt": reopen, "partitionProgressState": '{"at":7}',
    }  # fmt: skip
    assert world.row("p/2") == closed


def test_behaviour_18_a_prefix_is_in_front(world: World) -> None:
    world.source = type(world.source)("s3", "cluster-b")
    lease = world.leased(world.node())
    assert world.row("k")["sourceIdentifier"] == "cluster-b|s3|PARTITION"
    assert world.row("k")["sourceStatusCombinationKey"] == "cluster-b|s3|PARTITION|ASSIGNED"
    assert world.global_item().source == "cluster-b|s3|GLOBAL_STATE" and lease.fence == 1


FOREIGN = {
    "sourceIdentifier": "compaction|PARTITION",
    "closedCount": 0,
    "version": 4,
    "partitionProgressState": '{"at":7}',
    "somethingNew": {"of": ["theirs"]},
}


@pytest.mark.behavior("Items of Data Prepper's table are read.")
@pytest.mark.parametrize(
    "status_and_more",
    [
        ("UNASSIGNED", {"partitionPriority": "2026-09-21T14:13:19.123456789Z"}),
        ("UNASSIGNED", {"partitionPriority": "2026-09-21T14:13:19Z", "partitionOwner": None, "reOpenAt": None}),
        ("ASSIGNED", {"partitionOwnershipTimeout": "2026-09-21T14:03:20.123456Z", "partitionOwner": "pipeline:host-1"}),
        ("CLOSED", {"reOpenAt": "2026-09-21T14:13:20Z"}),
    ],
    ids=str,
)
def test_behaviour_18_items_of_others_are_read(world: World, status_and_more: tuple[str, dict[str, Any]]) -> None:
    status, more = status_and_more
    node = world.node()
    priority = more.get("reOpenAt") or more.get("partitionOwnershipTimeout")
    named = {
        "sourcePartitionKey": "theirs", "sourcePartitionStatus": status, "partitionPriority": priority,
        "sourceStatusCombinationKey": f"compaction|PARTITION|{status}",
    }  # fmt: skip
    world.rows.put(FOREIGN | named | more)
    lease = node.next_partition(never())
    assert lease and (lease.key, lease.state, lease.fence) == ("theirs", {"at": 7}, 5)
    node.complete(lease)
    assert world.row("theirs") == FOREIGN | {
        "sourcePartitionKey": "theirs", "sourcePartitionStatus": "COMPLETED", "version": 6,
        "sourceStatusCombinationKey": "compaction|PARTITION|COMPLETED", "partitionPriority": lease.partition.priority,
    }, "what we do not know is kept"  # fmt: skip


def test_the_order_is_expired_then_closed_then_waiting(world: World) -> None:
    node = world.node()
    node.close(world.leased(node, "closed"), timedelta(minutes=1), 9)
    world.leased(world.node(), "expired")
    world.after_the_lease()
    node.create_partitions(["waiting"])
    found = [node.next_partition() for _ in range(3)]
    assert [lease.key for lease in found if lease] == ["expired", "closed", "waiting"]


def test_a_lease_lasts_as_its_terms_say(world: World) -> None:
    lease = world.leased(world.node())
    assert lease.remaining_s() == TIMEOUT_S - TERMS.margin_s
    assert lease.partition.timeout_ms == START_MS + 600_000


@pytest.mark.parametrize(
    "changes", [{"version": 1}, {"owner": "another"}, {"priority": "2026-11-22T00:00:00.000Z"}], ids=lambda each: next(iter(each))
)
def test_a_write_replaces_and_removes_exactly_what_was_read(world: World, changes: dict[str, Any]) -> None:
    world.node().initialize()
    old = new_partition(world.source.partitions, "k", 1_790_000_000_000_000)
    current = replace(old, **changes)
    assert world.store.create(current) is None
    assert world.store.replace(old, old.completed()) == ConditionFailed(current)
    assert world.store.delete(old) == ConditionFailed(current)
    assert world.store.get(old.source, "k") == current
    assert world.store.replace(current, old) is None
    assert world.store.delete(old) is None

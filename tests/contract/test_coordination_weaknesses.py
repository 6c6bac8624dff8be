"""Weaknesses of Data Prepper's coordination: a test or two for each of twelve, over every store.

The last test here patches each weakness into our code and asserts that its test fails.
"""

from __future__ import annotations

import dataclasses
import json
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import Any

import pytest

from chalicelib.aws.dynamodb import Table, deserialize_item, serialize_item
from chalicelib.aws.partition_store import DynamoDbPartitionStore
from chalicelib.coordination import (
    InMemoryPartitionStore,
    ItemTtl,
    Lease,
    PartitionNotOwnedError,
    SourceCoordinator,
    Status,
    StoreUnavailableError,
    candidates,
    coordinator,
    creation,
    lease,
    store,
)
from chalicelib.coordination.metrics import Metric
from chalicelib.coordination.partition import Partition, format_timestamp, to_row
from chalicelib.errors import OutcomeUnknownError, RunlakeError
from tests.contract import coordination as support
from tests.contract.canned import answer, cut_off
from tests.contract.coordination import (
    SKEW_S,
    TERMS,
    TIMEOUT_S,
    Supplier,
    Ticks,
    Trouble,
    World,
    in_memory,
    never,
)

HOUR = timedelta(hours=1)
DAY_S = 86_400
Check = Callable[[World], None]
new_world, world = support.new_world, support.world


class Sink:
    """A sink that rejects fences lower than the highest one so far."""

    def __init__(self) -> None:
        self.highest, self.lines = 0, list[str]()

    def write(self, fence: int, line: str) -> bool:
        if fence < self.highest:
            return False
        self.highest = fence
        self.lines.append(line)
        return True


def test_weak_01_processes_of_a_host_have_different_owners(world: World) -> None:
    """One process stalls, another takes over, the first resumes: its lease check fails, and the sink rejects its writes."""
    stalled, other = world.node(), world.node()
    first = world.leased(stalled)
    world.after_the_lease()
    second = other.next_partition()
    assert second and second.owner != first.owner and second.owner.partition(":")[0] == first.owner.partition(":")[0]
    before, sink = world.row("k"), Sink()
    for write in (lambda: stalled.save_state(first, {}), lambda: stalled.complete(first), lambda: stalled.close(first, HOUR, 1)):
        with pytest.raises(PartitionNotOwnedError):
            write()
    assert world.row("k") == before
    assert [sink.write(each.fence, "x") for each in (first, second, first)] == [True, True, False]


def test_weak_01_an_owner_is_one_acquisitions(world: World) -> None:
    node = world.node()
    owner_factory = set()
    for _ in range(3):
        one = node.next_partition() if owner_factory else world.leased(node)
        assert one
        owner_factory.add(one.owner)
        node.release(one)
    assert len(owner_factory) == 3


def test_weak_01_versions_are_those_of_one_item(world: World) -> None:
    """An item that was deleted and created again repeats the old versions. The holder of the old item cannot write to the new one."""
    node, other = world.node(), world.node()
    stale = world.leased(node)
    world.after_the_lease()
    thief = other.next_partition()
    assert thief
    other.complete_and_delete(thief)
    again = world.leased(other)
    assert again.fence == stale.fence, "versions begin anew"
    with pytest.raises(PartitionNotOwnedError):
        node.complete(stale)
    assert world.partition("k") == again.partition


def test_weak_02_reads_of_the_table_are_strongly_consistent() -> None:
    with cut_off("dynamodb", answer(200, b"{}", {"Content-Type": "application/x-amz-json-1.0"})) as (client, network):
        assert DynamoDbPartitionStore(Table(client, "t")).get("s", "k") is None
        assert json.loads(network.requests[0].body).get("ConsistentRead") is True


def test_weak_03_an_outage_is_not_an_empty_store(world: World) -> None:
    trouble = Trouble()
    node = world.node(trouble)
    lease_ = world.leased(node)
    node.create_partitions(["other"])
    trouble.outage = True
    for call in (node.next_partition, lambda: node.acquire_many(2), lambda: node.complete(lease_)):
        with pytest.raises(StoreUnavailableError):
            call()
    with pytest.raises(StoreUnavailableError):
        world.administration(trouble).list(Status.UNASSIGNED)
    trouble.outage = False
    node.complete(lease_)
    assert world.count(Metric.NOT_FOUND) == world.count(Metric.NOT_OWNED) == world.count(Metric.NONE_ACQUIRED) == 0


LOST: dict[str, Callable[[SourceCoordinator, Lease], object]] = {
    "save_state": lambda node, held: node.save_state(held, {"at": 7}),
    "renew": lambda node, held: node.renew(held),
    "complete": lambda node, held: node.complete(held),
    "close": lambda node, held: node.close(held, HOUR, 3),
    "release": lambda node, held: node.release(held),
    "forget": lambda node, held: node.complete_and_delete(held),
}


@pytest.mark.behavior("A lost response of the store is not taken for a lost lease.")
@pytest.mark.parametrize("operation", LOST)
@pytest.mark.parametrize("times", [1, 2])
def test_weak_04_a_lost_answer_is_no_lost_lease(world: World, operation: str, times: int) -> None:
    trouble = Trouble()
    node = world.node(trouble)
    held = world.leased(node)
    trouble.lost = times
    LOST[operation](node, held)
    assert trouble.lost == 0 and world.count(Metric.NOT_OWNED) == 0
    if operation == "forget":
        assert world.rows.get(world.source.partitions, "k") is None
    else:
        assert world.partition("k") == held.partition and held.partition.version == 2, "it was applied once"


def test_weak_04_an_acquisition_and_a_creation_whose_answers_are_lost(world: World) -> None:
    trouble = Trouble()
    node = world.node(trouble)
    trouble.lost = 1
    assert node.create_partitions(["k"]) == ["k"]
    trouble.lost = 1
    held = node.next_partition(never())
    assert held and held.partition == world.partition("k") and held.fence == 1
    trouble.lost = 1
    supplier = Supplier("l")
    assert node.next_partition(supplier) and supplier.calls == 1


def test_weak_04_call_with_unknown_outcome_can_be_repeated(world: World) -> None:
    """Also much later, when the store has recovered."""
    for operation, call in LOST.items():
        trouble = Trouble()
        node = world.node(trouble)
        held = world.leased(node, operation)
        trouble.lost = 99
        with pytest.raises(OutcomeUnknownError):
            call(node, held)
        trouble.lost = 0
        world.advance(1)
        call(node, held)
        assert world.count(Metric.NOT_OWNED) == 0


def test_weak_05_supplier_that_raises_blocks_no_other_node(world: World) -> None:
    def supplier(shared: dict[str, Any]) -> list[str]:
        raise LookupError("the source is down")

    with pytest.raises(LookupError, match="the source is down"):
        world.node().next_partition(supplier)
    assert world.node().next_partition(Supplier("a")), "at once, not after ten minutes"


def test_weak_06_the_creation_lease_is_renewed(world: World) -> None:
    """A supplier runs longer than the timeout of a lease; no other supplier runs meanwhile."""
    ticks, other, seen = Ticks(), world.node(), []

    def supplier(shared: dict[str, Any]) -> list[str]:
        for _ in range(8):
            world.advance(TIMEOUT_S / 3)
            ticks.tick()
            seen.append(other.next_partition(never()))
        shared["cursor"] = 1
        return ["a"]

    found = world.node(stop_factory=lambda: ticks).next_partition(supplier)
    assert found and seen == [None] * 8
    assert json.loads(world.global_item().state or "") == {"cursor": 1}


def test_weak_06_supplier_that_lost_its_lease_saves_no_map(world: World) -> None:
    """The supplier's node stalls, another acquires the creation lease and saves; the first resumes and does not overwrite that map."""

    def supplier(shared: dict[str, Any]) -> list[str]:
        shared["cursor"] = "old"
        world.after_the_lease()
        assert world.node().next_partition(newer) is None
        return []

    def newer(shared: dict[str, Any]) -> list[str]:
        shared["cursor"] = "new"
        return []

    with pytest.raises(PartitionNotOwnedError):
        world.node(stop_factory=Ticks).next_partition(supplier)
    assert json.loads(world.global_item().state or "") == {"cursor": "new"}


def test_weak_07_only_what_is_completed_expires(new_world: Callable[..., World]) -> None:
    world = new_world(ItemTtl(7 * DAY_S))
    node = world.node()
    node.next_partition(Supplier())
    held = world.leased(node)
    rows = [world.row("k")]
    node.save_state(held, {})
    rows.append(world.row("k"))
    node.close(held, HOUR, 9)
    rows.append(world.row("k"))
    node.create_partitions(["waiting"])
    rows += [world.row("waiting"), dict(world.rows.get(world.source.global_state, world.global_item().key) or {})]
    assert [row for row in rows if "expirationTime" in row] == []
    world.advance(3600)
    done = node.next_partition()
    assert done
    node.complete(done)
    assert world.row(done.key)["expirationTime"] == world.clock.now_ms() // 1000 + 7 * DAY_S
    assert "expirationTime" not in to_row(world.administration().retry(done.key)), "what is taken up again is live again"


def test_weak_07_all_statuses_expire_with_ttl_everything(new_world: Callable[..., World]) -> None:
    world = new_world(ItemTtl(DAY_S, everything=True))
    node = world.node()
    node.next_partition(Supplier())
    node.create_partitions(["k"])
    assert world.row("k")["expirationTime"] == world.clock.now_ms() // 1000 + DAY_S
    world.advance(60)
    held = node.next_partition()
    assert held and world.row("k")["expirationTime"] == world.clock.now_ms() // 1000 + DAY_S, "extended at every update"
    assert world.global_item().expires_s is None, "never the item that all nodes need"


@pytest.mark.behavior("A node whose clock is ahead takes no partition from its holder.")
def test_weak_08_a_clock_that_is_ahead_steals_nothing(world: World) -> None:
    """A holder trusts its lease up to the margin before the deadline; a node with a fast clock waits for longer than that."""
    held = world.leased(world.node())
    ahead = world.node(ahead_s=SKEW_S)
    world.advance(TIMEOUT_S - TERMS.margin_s - 0.001)
    held.check()
    assert ahead.next_partition() is None
    world.advance(0.001)
    with pytest.raises(PartitionNotOwnedError):
        held.check()
    assert ahead.next_partition() is None, "the holder has stopped before anybody else begins"
    world.advance(TERMS.margin_s)
    assert ahead.next_partition()


def test_weak_08_a_holder_goes_by_its_monotonic_clock(world: World) -> None:
    """The holder's wall clock is set back: it does not trust the lease for longer."""
    node = world.node(ahead_s=-3600)
    held = world.leased(node)
    world.advance(TIMEOUT_S - TERMS.margin_s)
    with pytest.raises(PartitionNotOwnedError):
        held.check()
    assert held.remaining_s() == 0


def test_weak_09_queries_are_bounded(world: World) -> None:
    """Every acquisition of 120 partitions is lost: a worker tries pages of 25 and gives up after a bounded number of queries."""
    node = world.node()
    node.create_partitions(map(str, range(120)))
    trouble = Trouble()
    seen: list[int] = []

    def refuse(operation: str, call: Callable[[], Any]) -> Any:
        trouble.calls[operation] += 1
        found = call() if operation != "replace" else support.ConditionFailed(None)
        if operation == "query":
            seen.append(len(found[0]))
        return found

    unlucky = world.node(initialize=False)
    unlucky._store = support.Gated(world.store, refuse)
    unlucky = SourceCoordinator(unlucky._store, world.source, world.clock, world.record, random=Random(7))
    unlucky.initialize()
    assert unlucky.next_partition(never()) is None
    assert max(seen) <= 25 and trouble.calls["replace"] <= 30 and trouble.calls["query"] <= 60


def test_weak_09_candidates_are_shuffled(world: World) -> None:
    node = world.node()
    node.create_partitions(map(str, range(25)))
    first = []
    for seed in range(8):
        one = world.node(random=Random(seed)).next_partition()
        assert one
        first.append(one.key)
        node._writer.end(one, lambda partition: partition.released(world.clock.now_ms()))
    assert len(set(first)) > 3, "not all begin with the same one"


def test_weak_10_released_partition_sorts_as_new(world: World) -> None:
    node = world.node()
    held = world.leased(node, "released")
    world.advance(60)
    node.release(held)
    assert world.row("released")["partitionPriority"] == format_timestamp(world.clock.now_ms())
    world.advance(60)
    node.create_partitions(["later"])
    page = world.administration().list(Status.UNASSIGNED)
    assert [partition.key for partition in page.partitions] == ["released", "later"]


def test_weak_11_every_store_reclaims_expired_leases(world: World) -> None:
    world.leased(world.node())
    world.after_the_lease()
    found = world.node().next_partition()
    assert found and found.key == "k"


def test_weak_11_returned_states_are_copies(world: World) -> None:
    node = world.node()
    held = world.leased(node)
    state = {"list": [1]}
    node.save_state(held, state)
    state["list"].append(2)
    held.state["list"].append(3)
    before = world.row("k")
    found = world.partition("k")
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.owner = "me"  # type: ignore[misc]
    assert json.loads(found.state or "") == {"list": [1]} and world.row("k") == before
    assert world.partition("k") == found and held.state == {"list": [1]}


def test_weak_12_keys_are_created_in_parallel_without_reads(world: World) -> None:
    trouble = Trouble()
    node = world.node(trouble)
    trouble.calls.clear()
    running, most, patience_s = 0, 0, 2.0
    changed = threading.Condition()

    def watched(operation: str, call: Callable[[], Any]) -> Any:
        nonlocal running, most, patience_s
        with changed:
            running += 1
            most = max(most, running)
            changed.notify_all()
            if not changed.wait_for(lambda: most >= 2, timeout=patience_s):
                patience_s = 0  # they come one by one
        try:
            return trouble(operation, call)
        finally:
            with changed:
                running -= 1

    node._creator._store._gate = watched  # type: ignore[attr-defined]
    assert len(node.create_partitions(map(str, range(40)))) == 40
    assert trouble.calls == {"create": 40}, "one request each"
    assert 2 <= most <= store.MAX_THREADS


# ---------------------------------------------------------------- the same tests on weakened code


def _host_as_owner(patch: pytest.MonkeyPatch) -> None:
    """The owner is a host name, compared before the write."""

    def replaced(self: InMemoryPartitionStore, old: Partition, new: Partition) -> Any:
        current = self.get(old.source, old.key)
        if current is None or current.owner not in (old.owner, None):
            return support.ConditionFailed(current)
        self.put_row(to_row(new))
        return None

    patch.setattr(coordinator.SourceCoordinator.__init__, "__kwdefaults__", _with_owner("host"))
    patch.setattr(InMemoryPartitionStore, "replace", replaced)


def _with_owner(owner: str) -> dict[str, Any]:
    return {**coordinator.SourceCoordinator.__init__.__kwdefaults__, "owner_factory": lambda: owner}


def _version_alone(patch: pytest.MonkeyPatch) -> None:
    def replaced(self: InMemoryPartitionStore, old: Partition, new: Partition) -> Any:
        current = self.get(old.source, old.key)
        if current is None or current.version != old.version:
            return support.ConditionFailed(current)
        self.put_row(to_row(new))
        return None

    patch.setattr(InMemoryPartitionStore, "replace", replaced)


def _eventually_consistent(patch: pytest.MonkeyPatch) -> None:
    def get(self: Table, key: dict[str, Any]) -> Any:
        found = self._client.get_item(TableName=self._name, Key=serialize_item(key))
        return deserialize_item(found["Item"]) if "Item" in found else None

    patch.setattr(Table, "get", get)


def _swallowed(patch: pytest.MonkeyPatch) -> None:
    def next_page(self: candidates.CandidateScan, *args: Any) -> Any:
        try:
            return original(self, *args)
        except RunlakeError:
            return []

    original = candidates.CandidateScan.next_page
    patch.setattr(candidates.CandidateScan, "next_page", next_page)


def _outcome_is_not_resolved(patch: pytest.MonkeyPatch) -> None:
    """A failed condition always counts as a lost lease."""

    def resolve_outcome(write: Callable[[], Any], is_ours: Any, clock: Any) -> Any:
        for _ in range(3):
            try:
                return write()
            except OutcomeUnknownError:
                continue
        raise OutcomeUnknownError("thrice")

    for module in (lease, creation):
        patch.setattr(module, "resolve_outcome", resolve_outcome)


def _owner_is_ignored(patch: pytest.MonkeyPatch) -> None:
    """The item after a failed condition always counts as another worker's."""

    def still_ours(self: lease.LeaseWriter, held: Lease, current: Partition | None) -> Partition:
        error = PartitionNotOwnedError("lost")
        held.mark_lost(error)
        raise error

    _outcome_is_not_resolved(patch)
    patch.setattr(lease.LeaseWriter, "_still_ours", still_ours)


def _leaks_the_creation_lease(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(creation.PartitionCreator, "_release_after", lambda self, error, lock: None)


def _no_heartbeat(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(lease.Heartbeat, "renew_due", lambda self: True)


def _unconditional(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(InMemoryPartitionStore, "replace", lambda self, old, new: self.put_row(to_row(new)))


def _everything_expires(patch: pytest.MonkeyPatch) -> None:
    def stamped(self: ItemTtl, partition: Partition, now_ms: int) -> Partition:
        return replace(partition, expires_s=now_ms // 1000 + (self.ttl_s or 0)) if self.ttl_s else partition

    patch.setattr(ItemTtl, "stamped", stamped)


def _no_allowance(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(lease.LeaseTerms, "skew_ms", 0)


def _wall_clock(patch: pytest.MonkeyPatch) -> None:
    def remaining_s(self: Lease) -> float:
        return ((self.partition.timeout_ms or 0) - self._clock.now_ms()) / 1000 - TERMS.margin_s + 3600

    patch.setattr(Lease, "remaining_s", remaining_s)


def _unbounded(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(candidates.SearchBudget.__init__, "__defaults__", (10**6, False))


def _in_order(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(candidates.CandidateScan, "_shuffled", lambda self, page: page)


def _stale_priority(patch: pytest.MonkeyPatch) -> None:
    def released(self: Partition, now_ms: int) -> Partition:
        return self._released(Status.UNASSIGNED)

    patch.setattr(Partition, "released", released)


def _never_reclaimed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(candidates.CandidatePool, "is_free", lambda self, partition: partition.status is Status.UNASSIGNED)


def _live_objects(patch: pytest.MonkeyPatch) -> None:
    states: dict[str, Any] = {}
    patch.setattr(Lease, "state", property(lambda self: states.setdefault(self.key, json.loads(self.partition.state))))


def _one_by_one(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(creation, "in_parallel", lambda call, items: [call(item) for item in items])


def _read_first(patch: pytest.MonkeyPatch) -> None:
    def created(self: creation.PartitionCreator, new: Partition) -> bool:
        return self._store.get(new.source, new.key) is None and creates(self, new)

    creates = creation.PartitionCreator._created
    patch.setattr(creation.PartitionCreator, "_created", created)


def _with_world(check: Callable[..., None], *arguments: Any) -> Check:
    return lambda world: check(world, *arguments)


def _with_maker(check: Callable[..., None]) -> Check:
    return lambda world: check(lambda item_ttl=None: World(*in_memory(item_ttl or ItemTtl())))


WEAKENED: list[tuple[Callable[[pytest.MonkeyPatch], None], Check]] = [
    (_host_as_owner, test_weak_01_processes_of_a_host_have_different_owners),
    (_host_as_owner, test_weak_01_an_owner_is_one_acquisitions),
    (_version_alone, test_weak_01_versions_are_those_of_one_item),
    (_eventually_consistent, lambda world: test_weak_02_reads_of_the_table_are_strongly_consistent()),
    (_swallowed, test_weak_03_an_outage_is_not_an_empty_store),
    *((_owner_is_ignored, _with_world(test_weak_04_a_lost_answer_is_no_lost_lease, operation, 1)) for operation in LOST),
    (_outcome_is_not_resolved, test_weak_04_an_acquisition_and_a_creation_whose_answers_are_lost),
    (_owner_is_ignored, test_weak_04_call_with_unknown_outcome_can_be_repeated),
    (_leaks_the_creation_lease, test_weak_05_supplier_that_raises_blocks_no_other_node),
    (_no_heartbeat, test_weak_06_the_creation_lease_is_renewed),
    (_unconditional, test_weak_06_supplier_that_lost_its_lease_saves_no_map),
    (_everything_expires, _with_maker(test_weak_07_only_what_is_completed_expires)),
    (_everything_expires, _with_maker(test_weak_07_all_statuses_expire_with_ttl_everything)),
    (_no_allowance, test_weak_08_a_clock_that_is_ahead_steals_nothing),
    (_wall_clock, test_weak_08_a_holder_goes_by_its_monotonic_clock),
    (_unbounded, test_weak_09_queries_are_bounded),
    (_in_order, test_weak_09_candidates_are_shuffled),
    (_stale_priority, test_weak_10_released_partition_sorts_as_new),
    (_never_reclaimed, test_weak_11_every_store_reclaims_expired_leases),
    (_live_objects, test_weak_11_returned_states_are_copies),
    (_one_by_one, test_weak_12_keys_are_created_in_parallel_without_reads),
    (_read_first, test_weak_12_keys_are_created_in_parallel_without_reads),
]


def _name(value: Any) -> str:
    return getattr(value, "__name__", "check").strip("_").removeprefix("test_")


@pytest.mark.parametrize(("weaken", "check"), WEAKENED, ids=_name)
def test_these_tests_fail_on_the_weak_behaviour(
    weaken: Callable[[pytest.MonkeyPatch], None], check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(World(*in_memory(ItemTtl())))
    weaken(monkeypatch)
    with pytest.raises((AssertionError, RunlakeError, pytest.fail.Exception)):
        check(World(*in_memory(ItemTtl())))


def test_every_weakness_has_such_a_test() -> None:
    tests = {name.removeprefix("test_weak_")[:2] for name in globals() if name.startswith("test_weak_")}
    assert tests == {f"{number:02}" for number in range(1, 13)}

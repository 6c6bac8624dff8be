"""Leases, heartbeats, lease checks, candidate scans and parallel requests: in memory, with a manual clock."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from random import Random
from typing import Any

import pytest

from chalicelib.coordination import (
    InMemoryPartitionStore,
    ItemTtl,
    LeaseTerms,
    NotInitializedError,
    PartitionNotOwnedError,
    Status,
    StoreUnavailableError,
    WorkSource,
)
from chalicelib.coordination.candidates import CONTESTED_SPREAD, CandidateScan
from chalicelib.coordination.lease import lease_checked, new_owner
from chalicelib.coordination.metrics import Metric
from chalicelib.coordination.partition import format_timestamp, new_partition
from chalicelib.coordination.store import MAX_ATTEMPTS, PAGE_SIZE, ConditionFailed, in_parallel, resolve_outcome
from chalicelib.errors import DamagedPartitionError, OutcomeUnknownError
from tests.contract.coordination import TERMS, TIMEOUT_S, Ticks, Trouble, World, in_memory, never
from tests.support.clock import ManualClock


@pytest.fixture
def world() -> World:
    return World(*in_memory(ItemTtl()))


# ---------------------------------------------------------------- leases


def test_a_lease_is_trusted_until_its_margin(world: World) -> None:
    lease = world.leased(world.node())
    lease.check()
    world.advance(TIMEOUT_S - TERMS.margin_s - 0.001)
    lease.check()
    world.advance(0.001)
    with pytest.raises(PartitionNotOwnedError, match=r"not renewed in time key=k fence=1"):
        lease.check()


def test_a_lease_that_was_not_renewed_in_time_may_still_be_ours(world: World) -> None:
    """No other node acquired it meanwhile, so the store accepts its writes."""
    node = world.node()
    lease = world.leased(node)
    world.advance(TIMEOUT_S)
    node.renew(lease)
    lease.check()
    world.advance(2 * TIMEOUT_S)
    node.complete(lease)
    assert world.partition("k").status is Status.COMPLETED


def test_a_lease_is_counted_from_before_the_request(world: World) -> None:
    """The response takes 20 s, which do not extend the lease."""
    trouble = Trouble(before_next={"replace": lambda: world.advance(20)})
    node = world.node(trouble)
    lease = world.leased(node)
    assert lease.remaining_s() == TIMEOUT_S - TERMS.margin_s - 20


def test_a_lease_that_is_over_says_so(world: World) -> None:
    node = world.node()
    for end in (node.complete, node.complete_and_delete, node.release):
        lease = world.leased(node, end.__name__)
        end(lease)
        assert lease.is_over and lease not in node.leases()
        for call in (lease.check, lambda lease=lease: node.save_state(lease, {})):
            with pytest.raises(PartitionNotOwnedError, match="the lease was ended"):
                call()
        node.renew(lease)


def test_state_that_is_not_json_is_an_error(world: World) -> None:
    node = world.node()
    lease = world.leased(node)
    lease._partition = lease.partition.with_state("{")
    with pytest.raises(DamagedPartitionError, match="key=k"):
        _ = lease.state


def test_states_without_json_form_are_errors(world: World) -> None:
    node = world.node()
    lease = world.leased(node)
    for state in (object(), float("nan"), {1: {2}}):
        with pytest.raises((TypeError, ValueError)):
            node.save_state(lease, state)
    node.complete(lease)


def test_owners_are_unique() -> None:
    owner_factory = {new_owner() for _ in range(100)}
    assert len(owner_factory) == 100 and len({owner.rpartition(":")[0] for owner in owner_factory}) == 1


def test_close_can_store_a_state_along_with_it(world: World) -> None:
    node = world.node()
    lease = world.leased(node)
    node.close(lease, timedelta(hours=1), 3, {"error": "x"})
    assert world.partition("k").state == '{"error":"x"}' and world.partition("k").version == 2


# ---------------------------------------------------------------- heartbeats


def test_a_heartbeat_renews_while_work_runs(world: World) -> None:
    ticks = Ticks()
    node, other = world.node(stop_factory=lambda: ticks), world.node()
    lease = world.leased(node)
    with node.heartbeat():
        for _ in range(9):
            world.advance(TIMEOUT_S / 3)
            ticks.tick()
            lease.check()
            assert other.next_partition() is None
        node.complete(lease)
    assert lease.partition.version == 1 + 9 + 1
    assert threading.active_count() == 1 or not [each for each in threading.enumerate() if each.name == "heartbeat"]


def test_a_heartbeat_leaves_what_was_written_lately(world: World) -> None:
    ticks, trouble = Ticks(), Trouble()
    node = world.node(trouble, stop_factory=lambda: ticks)
    lease = world.leased(node)
    with node.heartbeat(lease):
        world.advance(TIMEOUT_S / 3)
        node.save_state(lease, {})
        trouble.calls.clear()
        ticks.tick()
        assert not trouble.calls


def test_heartbeat_renews_leases_acquired_later(world: World) -> None:
    ticks = Ticks()
    node = world.node(stop_factory=lambda: ticks)
    with node.heartbeat():
        ticks.tick()
        lease = world.leased(node)
        world.advance(TIMEOUT_S / 3)
        ticks.tick()
        assert lease.partition.version == 2


def test_an_outage_during_a_heartbeat_stops_the_work_in_time(world: World) -> None:
    """A failed renewal is repeated sooner. If the store recovers, the lease continues; otherwise the work stops before the deadline."""
    waits: list[float] = []

    class Listening(Ticks):
        def wait(self, timeout: float) -> bool:
            waits.append(timeout)
            return super().wait(timeout)

    ticks, trouble = Listening(), Trouble()
    node = world.node(trouble, stop_factory=lambda: ticks)
    lease = world.leased(node)
    with node.heartbeat():
        world.advance(TIMEOUT_S / 3)
        trouble.outage = True
        ticks.tick()
        lease.check()
        trouble.outage = False
        ticks.tick()
        assert lease.remaining_s() == TIMEOUT_S - TERMS.margin_s and lease.renewal_error is None
        trouble.outage = True
        world.advance(TIMEOUT_S - TERMS.margin_s)
        ticks.tick()
        with pytest.raises(PartitionNotOwnedError, match="not renewed in time") as caught:
            lease.check()
        assert isinstance(caught.value.__cause__, StoreUnavailableError)
    assert waits[:3] == [TIMEOUT_S / 3, TIMEOUT_S / 15, TIMEOUT_S / 3]


def test_lease_lost_during_a_heartbeat_stops_the_next_call(world: World) -> None:
    ticks = Ticks()
    node = world.node(stop_factory=lambda: ticks)
    lease = world.leased(node)
    written: list[str] = []

    class Sink:
        bucket = "b"

        def put(self, key: str) -> str:
            written.append(key)
            return key

    sink = lease_checked(Sink(), lease)
    with node.heartbeat():
        assert sink.put("one") == "one" and sink.bucket == "b"
        world.administration().release("k")
        world.advance(TIMEOUT_S / 3)
        ticks.tick()
        with pytest.raises(PartitionNotOwnedError, match="another worker changed the partition"):
            sink.put("two")
    assert written == ["one"] and world.count(Metric.NOT_OWNED) == 1 and node.leases() == []


def test_a_heartbeat_ends_with_its_block_whatever_happens(world: World) -> None:
    node = world.node()
    with pytest.raises(LookupError), node.heartbeat():
        raise LookupError
    assert not [each for each in threading.enumerate() if each.name == "heartbeat"]


# ---------------------------------------------------------------- ends


def test_a_shutdown_tries_each_and_raises_the_first_error(world: World) -> None:
    trouble = Trouble()
    node = world.node(trouble)
    node.create_partitions(map(str, range(5)))
    leases = node.acquire_many(5)

    def fail() -> None:
        raise StoreUnavailableError("injected")

    trouble.before_next["replace"] = fail
    with pytest.raises(StoreUnavailableError):
        node.shutdown()
    assert sum(world.partition(lease.key).status is Status.UNASSIGNED for lease in leases) == 4


def test_leases_acquired_during_a_shutdown_are_released(world: World) -> None:
    trouble = Trouble()
    node = world.node(trouble)
    node.create_partitions(["k"])
    trouble.before_next["replace"] = node.shutdown
    with pytest.raises(NotInitializedError):
        node.next_partition()
    assert world.partition("k").status is Status.UNASSIGNED and node.leases() == []


def test_creation_lease_that_cannot_be_released_is_noted_on_the_error(world: World) -> None:
    trouble = Trouble()
    node = world.node(trouble)

    def supplier(shared: dict[str, Any]) -> list[str]:
        trouble.outage = True
        raise LookupError("the source is down")

    with pytest.raises(LookupError) as caught:
        node.next_partition(supplier)
    assert "could not be released" in caught.value.__notes__[0]
    trouble.outage = False
    world.after_the_lease()
    assert world.node().next_partition(lambda shared: ["a"]), "it ended by itself"


def test_no_supplier_runs_after_lost_races(world: World) -> None:
    """Every race is lost, so partitions are free: the node does not create new ones."""
    world.node().create_partitions(map(str, range(400)))
    node = world.node(trouble := Trouble())

    def refuse(operation: str, call: Callable[[], Any]) -> Any:
        trouble.calls[operation] += 1
        return ConditionFailed(None) if operation == "replace" else call()

    node._writer._store._gate = refuse  # type: ignore[attr-defined]
    assert node.next_partition(never()) is None
    assert world.count(Metric.NONE_ACQUIRED) == 1


# ---------------------------------------------------------------- candidate scans


def scan_over(count: int, seed: int = 1) -> tuple[CandidateScan, InMemoryPartitionStore]:
    store = InMemoryPartitionStore()
    for number in range(count):
        store.create(new_partition(WorkSource("s").partitions, f"{number:04}", number * 1000))
    return CandidateScan(store, WorkSource("s").partitions, Status.UNASSIGNED, Random(seed)), store


def test_scan_without_losses_returns_the_oldest_page() -> None:
    scan, _ = scan_over(100)
    for _ in range(3):
        assert sorted(each.key for each in scan.next_page(None, lambda each: True)) == [
            f"{number:04}" for number in range(PAGE_SIZE)
        ]
    assert not scan.is_contested


def test_scan_widens_with_losses_and_narrows_with_wins() -> None:
    scan, _ = scan_over(2000)
    scan.next_page(None, lambda each: True)
    for _ in range(9):
        scan.lost()
    assert scan.is_contested and scan.spread > CONTESTED_SPREAD
    pages = [scan.next_page(None, lambda each: True) for _ in range(60)]
    assert all(0 < len(page) <= PAGE_SIZE / 5 for page in pages), "few of each"
    starts = [int(min(each.key for each in page)) for page in pages]
    assert len({start // PAGE_SIZE for start in starts}) > 10 and sum(start < PAGE_SIZE for start in starts) >= 1
    for _ in range(60):
        scan.won()
    assert not scan.is_contested and scan.spread == 1.0
    assert len(scan.next_page(None, lambda each: True)) == PAGE_SIZE


def test_scan_reaches_partitions_created_in_bursts() -> None:
    """A few partitions, none for an hour, then a thousand: contended workers read different pages of these."""
    scan, store = scan_over(40)
    for number in range(1000):
        store.create(new_partition(WorkSource("s").partitions, f"late-{number:04}", 3_600_000_000 + number))
    scan.next_page(None, lambda each: True)
    seen = Counter[str]()
    for _ in range(300):
        scan.lost()
        seen.update(each.key for each in scan.next_page(None, lambda each: True))
    late = [key for key in seen if key.startswith("late")]
    assert len(late) > 200


def test_scan_skips_pages_of_outdated_candidates() -> None:
    scan, _ = scan_over(80)
    found = scan.next_page(None, lambda each: int(each.key) >= 60)
    assert {int(each.key) for each in found} <= set(range(60, 80)) and found
    assert scan.next_page(None, lambda each: False) == []


def test_scan_accepts_foreign_priorities() -> None:
    scan, store = scan_over(0)
    for number in range(60):
        row = {
            "sourceIdentifier": "s|PARTITION",
            "sourcePartitionKey": str(number),
            "sourcePartitionStatus": "UNASSIGNED",
            "version": 0,
        }
        store.put_row(row | {"sourceStatusCombinationKey": "s|PARTITION|UNASSIGNED", "partitionPriority": f"prio-{number:02}"})
    for _ in range(20):
        assert scan.next_page(None, lambda each: True)
        scan.lost()


# ---------------------------------------------------------------- certain outcomes, and parallel requests


def outcomes(*steps: Any) -> Callable[[], Any]:
    todo = list(steps)

    def write() -> Any:
        step = todo.pop(0)
        if isinstance(step, Exception):
            raise step
        return step

    return write


def test_outage_after_a_lost_response_leaves_the_outcome_unknown() -> None:
    lost, down = OutcomeUnknownError("lost"), StoreUnavailableError("down")
    with pytest.raises(OutcomeUnknownError):
        resolve_outcome(outcomes(lost, *[down] * MAX_ATTEMPTS), lambda current: False, ManualClock())
    with pytest.raises(StoreUnavailableError):
        resolve_outcome(outcomes(down), lambda current: False, ManualClock())
    assert resolve_outcome(outcomes(lost, down, None), lambda current: False, ManualClock()) is None


def test_pauses_between_attempts_grow() -> None:
    clock = ManualClock()
    with pytest.raises(OutcomeUnknownError):
        resolve_outcome(outcomes(*[OutcomeUnknownError("lost")] * MAX_ATTEMPTS), lambda current: False, clock)
    assert clock.monotonic_s() == pytest.approx(0.05 + 0.1 + 0.2)


def test_results_are_in_order_and_an_error_stops_further_calls() -> None:
    assert in_parallel(lambda number: number * 2, range(50)) == [number * 2 for number in range(50)]
    assert in_parallel(lambda number: number, []) == []
    called: list[int] = []

    def call(number: int) -> int:
        called.append(number)
        if number == 3:
            raise LookupError(number)
        return number

    with pytest.raises(LookupError):
        in_parallel(call, range(10_000), threads=2)
    assert len(called) <= 5


def test_timestamps_of_a_lease_are_whole_milliseconds() -> None:
    assert LeaseTerms(1.5, 0.25).timeout_ms == 1500 and LeaseTerms(1.5, 0.25).skew_ms == 250
    assert format_timestamp(1500) == "1970-01-01T00:00:01.500000Z"

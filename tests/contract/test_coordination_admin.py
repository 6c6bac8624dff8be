"""Operations of operators and bulk work, over every store: lists, retry, release, deletion, many partitions at once."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from random import Random

import pytest

from chalicelib.coordination import ItemTtl, PartitionNotFoundError, PartitionNotOwnedError, Status
from chalicelib.coordination.metrics import Metric
from chalicelib.coordination.partition import format_timestamp
from chalicelib.coordination.store import PartitionQuery
from chalicelib.errors import InvalidCursorError, InvalidInputError, PartitionUpdateError, StoreUnavailableError
from tests.contract import coordination as support
from tests.contract.coordination import START_MS, Trouble, World

new_world, world = support.new_world, support.world
HOUR = timedelta(hours=1)


def test_partitions_are_listed_by_status_in_pages(world: World) -> None:
    node, administration = world.node(), world.administration()
    keys = [f"k{number:02}" for number in range(23)]
    node.create_partitions(keys)
    for limit in (1, 7, 23, 50):
        read, cursor = [], None
        while True:
            page = administration.list(Status.UNASSIGNED, limit=limit, cursor=cursor)
            assert len(page.partitions) <= limit
            read += [partition.key for partition in page.partitions]
            cursor = page.cursor
            if cursor is None:
                break
        assert read == keys, "in the order in which they were named"
    assert administration.list(Status.COMPLETED).partitions == []
    for lease in node.acquire_many(23)[:3]:
        node.complete(lease)
    assert [len(administration.list(status, limit=50).partitions) for status in Status] == [0, 20, 0, 3]


def test_pages_go_on_while_partitions_come_and_go(world: World) -> None:
    node, administration = world.node(), world.administration()
    node.create_partitions(map(str, range(10)))
    first = administration.list(Status.UNASSIGNED, limit=4)
    node.acquire_many(7)
    world.advance(1)
    node.create_partitions(["new"])
    rest = administration.list(Status.UNASSIGNED, limit=40, cursor=first.cursor)
    assert "new" in {each.key for each in rest.partitions} and not {each.key for each in first.partitions} & {
        each.key for each in rest.partitions
    }


@pytest.mark.parametrize("cursor", ["x", "bnVsbA", "W10", "WyIiLCJrIl0", "WzEsMl0", "\u00fc"])
def test_a_cursor_that_was_not_made_here_is_refused(world: World, cursor: str) -> None:
    world.node()
    with pytest.raises(InvalidCursorError):
        world.administration().list(Status.UNASSIGNED, cursor=cursor)


def test_listings_have_owner_and_age(world: World) -> None:
    lease = world.leased(world.node())
    (shown,) = world.administration().list(Status.ASSIGNED).partitions
    assert shown == lease.partition == world.administration().get("k")
    assert (shown.owner, shown.timeout_ms) == (lease.owner, START_MS + 600_000)


def test_missing_partition_is_an_error(world: World) -> None:
    world.node()
    administration = world.administration()
    for call in (administration.get, administration.retry, administration.release):
        with pytest.raises(PartitionNotFoundError):
            call("nothing")


def test_retry_opens_what_is_completed_or_closed_and_keeps_its_state(new_world: Callable[..., World]) -> None:
    world = new_world(ItemTtl(60))
    node, administration = world.node(), world.administration()
    for key, most in (("closed", 9), ("set-aside", 1)):
        lease = world.leased(node, key)
        node.save_state(lease, {"why": "it fails"})
        node.close(lease, HOUR, most)
        before = world.partition(key)
        world.advance(1)
        retried = administration.retry(key)
        assert retried == world.partition(key)
        assert (retried.status, retried.closed_count, retried.version) == (Status.UNASSIGNED, 0, before.version + 1)
        assert retried.state == before.state and retried.reopen_ms is None and retried.expires_s is None
        assert retried.priority == format_timestamp(world.clock.now_ms())
        assert administration.retry(key) == retried, "once more changes nothing"
        again = node.next_partition()
        assert again and again.key == key and again.state == {"why": "it fails"}
        assert administration.retry(key) == again.partition, "nor does it take what is worked"
        node.complete(again)


def test_release_takes_a_partition_from_its_owner(world: World) -> None:
    node, other, administration = world.node(), world.node(), world.administration()
    lease = world.leased(node)
    released = administration.release("k")
    assert (released.status, released.owner, released.version) == (Status.UNASSIGNED, None, lease.fence + 1)
    assert administration.release("k") == released, "once more changes nothing"
    taken = other.next_partition()
    assert taken
    with pytest.raises(PartitionNotOwnedError):
        node.complete(lease)
    with pytest.raises(PartitionNotOwnedError):
        lease.check()
    other.complete(taken)


def test_administration_meets_lost_answers_and_races(world: World) -> None:
    trouble = Trouble()
    administration = world.administration(trouble)
    node = world.node()
    lease = world.leased(node)
    trouble.lost = 1
    assert administration.release("k").version == 2
    second = node.next_partition()
    assert second
    trouble.before_next["replace"] = lambda: node.save_state(second, {"at": 7})
    assert administration.release("k").version == 5 and lease.fence == 1
    trouble.before_next["replace"] = lambda: None
    third = node.next_partition()
    assert third
    keep_saving = [lambda: node.save_state(third, {})]

    def again() -> None:
        trouble.before_next["replace"] = again
        keep_saving[0]()

    again()
    with pytest.raises(PartitionUpdateError, match="keeps changing"):
        administration.release("k")
    trouble.before_next.clear()
    trouble.outage = True
    with pytest.raises(StoreUnavailableError):
        administration.release("k")


# ---------------------------------------------------------------- bulk work, and recurring work


def test_many_are_acquired_with_one_query(world: World) -> None:
    trouble = Trouble()
    node = world.node(trouble)
    node.create_partitions(map(str, range(60)))
    trouble.calls.clear()
    leases = node.acquire_many(25)
    assert len({lease.key for lease in leases}) == len({lease.owner for lease in leases}) == 25
    assert trouble.calls == {"query": 3, "replace": 25}, "expired, closed, waiting"
    trouble.calls.clear()
    assert len(node.acquire_many(100)) == 35
    assert trouble.calls["query"] <= 6 and trouble.calls["replace"] == 35
    assert world.count(Metric.ACQUIRED) == 60
    assert node.acquire_many(1) == [] and world.count(Metric.NONE_ACQUIRED) == 1


def test_one_query_serves_several_acquisitions(world: World) -> None:
    trouble = Trouble()
    node = world.node(trouble)
    node.create_partitions(map(str, range(26)))
    trouble.calls.clear()
    for _ in range(25):
        assert node.next_partition()
    assert trouble.calls == {"query": 3, "replace": 25}


def test_supplier_can_run_while_partitions_are_free(world: World) -> None:
    node = world.node()
    node.create_partitions(["a"])
    supplier = support.Supplier("a", "b")
    assert node.run_supplier(supplier) is True
    assert {lease.key for lease in node.acquire_many(5)} == {"a", "b"}
    rival: list[bool] = []
    assert node.run_supplier(lambda shared: rival.append(world.node().run_supplier(supplier)) or [str(shared["calls"])]) is True
    assert rival == [False] and supplier.calls == 1, "one at a time"
    lease = node.next_partition()
    assert lease and lease.key == "1"


def test_if_one_acquisition_fails_all_are_released(world: World) -> None:
    trouble = Trouble()
    node = world.node(trouble)
    node.create_partitions(map(str, range(9)))

    def fail() -> None:
        raise StoreUnavailableError("injected")

    trouble.before_next["replace"] = fail
    with pytest.raises(StoreUnavailableError):
        node.acquire_many(9)
    assert node.leases() == []
    assert len(world.node().acquire_many(9)) == 9


def test_work_that_recurs_under_its_key(world: World) -> None:
    node = world.node()
    for _ in range(3):
        lease = world.leased(node)
        assert lease.fence == 1
        node.complete_and_delete(lease)
        assert world.rows.get(world.source.partitions, "k") is None
    assert world.count(Metric.COMPLETED) == 3 and node.leases() == []


def test_lost_lease_deletes_no_item(world: World) -> None:
    node, other = world.node(), world.node()
    lease = world.leased(node)
    world.after_the_lease()
    taken = other.next_partition()
    assert taken
    with pytest.raises(PartitionNotOwnedError):
        node.complete_and_delete(lease)
    assert world.partition("k") == taken.partition


def test_deletion_of_a_deleted_item_is_a_success(world: World) -> None:
    node = world.node()
    lease = world.leased(node)
    assert world.store.delete(lease.partition) is None
    node.complete_and_delete(lease)


def test_keys_that_cannot_be_stored_are_refused_before_any_request(world: World) -> None:
    trouble = Trouble()
    node = world.node(trouble)
    trouble.calls.clear()
    for key in ("", "x" * 1025, "ü" * 513):
        with pytest.raises(InvalidInputError):
            node.create_partitions(["fine", key])
    assert not trouble.calls
    longest = ["x" * 1024, "ü" * 512, "a|b/c d"]
    assert node.create_partitions(longest) == longest
    assert {lease.key for lease in node.acquire_many(5)} == set(longest)


def test_state_size_is_limited(world: World) -> None:
    node = world.node()
    lease = world.leased(node)
    node.save_state(lease, "x" * 299_990)
    with pytest.raises(PartitionUpdateError, match="at most 300000 bytes"):
        node.save_state(lease, "x" * 300_000)
    assert world.count(Metric.SAVE_STATE_ERRORS) == 1
    lease.check()
    node.complete(lease)


def test_item_that_keeps_changing_is_an_error(world: World) -> None:
    """A writer without conditions changes the item again and again."""
    trouble = Trouble()
    node = world.node(trouble)
    lease = world.leased(node)

    def meddle() -> None:
        world.overwrite(world.partition("k"))
        trouble.before_next["replace"] = meddle

    meddle()
    with pytest.raises(PartitionUpdateError, match="keeps changing"):
        node.complete(lease)
    assert world.count(Metric.COMPLETE_ERRORS) == 1
    trouble.before_next.clear()
    node.complete(lease)
    assert world.partition("k").status is Status.COMPLETED


def test_ranges_of_the_index(world: World) -> None:
    node = world.node()
    for number in range(8):
        node.create_partitions([str(number)])
        world.advance(1)
    at = [format_timestamp(START_MS + number * 1000) for number in range(8)]

    def keys(**bounds: object) -> str:
        found, _ = world.store.query(PartitionQuery(world.source.partitions, Status.UNASSIGNED, **bounds))  # type: ignore[arg-type]
        return "".join(partition.key for partition in found)

    assert keys() == "01234567" and keys(newest_first=True) == "76543210"
    assert keys(first=at[3]) == "34567" and keys(last=at[3]) == "0123" and keys(first=at[2], last=at[4]) == "234"
    assert keys(first=at[4], last=at[2]) == "" and keys(first=at[2], last=at[6], limit=2) == "23"
    assert keys(first=at[2], last=at[6], limit=2, newest_first=True) == "65"
    _, place = world.store.query(PartitionQuery(world.source.partitions, Status.UNASSIGNED, limit=3))
    assert place and keys(after=place) == "34567" and keys(after=place, newest_first=True) == "10"


def test_contended_workers_acquire_the_oldest_early(world: World) -> None:
    """Contended workers read later pages, and yet acquire the oldest partitions early."""
    world.node().create_partitions(f"{number:03}" for number in range(200))
    node = world.node(random=Random(3))
    node._candidates._waiting.spread = 32.0
    taken = []
    for _ in range(100):
        node._candidates._waiting.spread = 32.0
        lease = node.next_partition()
        assert lease
        taken.append(int(lease.key))
    assert sum(key < 100 for key in taken) > 40 and max(taken) > 30

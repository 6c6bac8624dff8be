"""Nodes that stop before each of their store calls while others continue and time passes: any interleaving, with failing calls.

The tests check the whole stored history: each version of an item is written once, by its owner or by a node that acquired it while free.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import groupby, pairwise
from typing import Any

from greenlet import getcurrent, greenlet
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chalicelib.coordination import ItemTtl, Lease, Partition, SourceCoordinator, Status
from chalicelib.coordination.partition import GLOBAL_KEY
from chalicelib.coordination.store import ConditionFailed
from chalicelib.errors import LeaseError, OutcomeUnknownError, StoreUnavailableError, UnavailableError
from tests.contract.coordination import AFTER, BEFORE, SKEW_S, TIMEOUT_S, WRITES, Gated, World, in_memory
from tests.sampling import examples

KEYS = ("a", "b", "c")


@dataclass
class History:
    """A store that records its writes in order."""

    inner: Any
    written: dict[str, list[Partition]] = field(default_factory=lambda: defaultdict(list))
    removed: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def create(self, new: Partition) -> ConditionFailed | None:
        return self._noted(new, self.inner.create(new))

    def replace(self, old: Partition, new: Partition) -> ConditionFailed | None:
        return self._noted(new, self.inner.replace(old, new))

    def _noted(self, new: Partition, refused: ConditionFailed | None) -> ConditionFailed | None:
        if refused is None:
            self.written[new.key].append(new)
        return refused


class Actor:
    """A node as a greenlet: it runs while the test waits for it."""

    def __init__(self, work: Callable[[Callable[[str, Callable[[], Any]], Any]], None]) -> None:
        self.done, self.error = False, None
        self._fault: str | None = None
        self._greenlet = greenlet(self._run)
        self._greenlet.switch(work)

    def step(self, fault: str | None) -> None:
        self._fault = fault
        self._greenlet.switch()

    def _gate(self, operation: str, call: Callable[[], Any]) -> Any:
        if getcurrent() is not self._greenlet:
            return call()  # threads of a pool: the test does not control their order
        self._greenlet.parent.switch()
        fault, self._fault = self._fault, None
        if fault == BEFORE:
            raise StoreUnavailableError(f"injected operation={operation}")
        found = call()
        if fault == AFTER:
            raise (OutcomeUnknownError if operation in WRITES else StoreUnavailableError)(f"injected operation={operation}")
        return found

    def _run(self, work: Callable[[Any], None]) -> None:
        try:
            work(self._gate)
        except BaseException as error:
            self.error = error
        self.done = True


class Scene:
    """Nodes that acquire, save and complete partitions, and a log of the leases that they consider valid."""

    def __init__(self) -> None:
        store, rows = in_memory(ItemTtl())
        self.world = World(History(store), rows)
        self.completed: list[str] = []
        self.world.node().create_partitions(KEYS)

    def node(self, number: int) -> Actor:
        def work(gate: Callable[[str, Callable[[], Any]], Any]) -> None:
            node = SourceCoordinator(Gated(self.world.store, gate), self.world.source, self.world.clock, self.world.record)
            node._is_ready = True
            for _ in range(6):
                try:
                    self.once(node, number)
                except (UnavailableError, LeaseError):  # the latter of the creation lease
                    continue

        return Actor(work)

    def once(self, node: SourceCoordinator, number: int) -> None:
        lease = node.next_partition(lambda shared: ["d"])
        if lease is None:
            return
        try:
            node.save_state(lease, {"by": number})
            self.end(node, lease, number)
        except LeaseError:
            return

    def end(self, node: SourceCoordinator, lease: Lease, number: int) -> None:
        if lease.fence % 3 == 0:
            node.release(lease)
        elif lease.fence % 5 == 0:
            node.close(lease, timedelta(seconds=30), 9)
        else:
            node.complete(lease)
            self.completed.append(lease.key)

    def check(self) -> None:
        history: History = self.world.store  # type: ignore[assignment]
        for key, items in history.written.items():
            assert [item.version for item in items] == list(range(len(items))), f"each version once key={key}"
            for before, after in pairwise(items):
                if before.owner is not None and after.owner not in (None, before.owner):
                    took_ms = (after.timeout_ms or 0) - round(TIMEOUT_S * 1000)
                    assert took_ms >= (before.timeout_ms or 0) + SKEW_S * 1000, "taken only when it had ended"
                assert before.status is not Status.COMPLETED, "nothing follows on completion"
            if key != GLOBAL_KEY:
                owner_factory = [item.owner for item in items if item.owner]
                turns = [owner for owner, _ in groupby(owner_factory)]
                assert len(turns) == len(set(turns)), "nobody comes back under an owner that was overtaken"
        assert len(self.completed) == len(set(self.completed)), "completed once"


STEPS = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from([None] * 8 + [BEFORE, AFTER]), st.sampled_from([0] * 12 + [61, 602, 606])),
    min_size=40,
    max_size=120,
)
"""Whose next call goes through, what becomes of it, and how many seconds pass before."""


@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
@given(STEPS)
def test_no_interleaving_gives_a_partition_two_holders(steps: Sequence[tuple[int, str | None, int]]) -> None:
    scene = Scene()
    actors = [scene.node(number) for number in range(3)]
    for number, fault, seconds in steps:
        if seconds:
            scene.world.advance(seconds)
        if not actors[number].done:
            actors[number].step(fault)
    for actor in actors:
        while not actor.done:
            actor.step(None)
        assert actor.error is None, repr(actor.error)
    scene.check()
    heir = scene.world.node()
    scene.world.advance(86_400)
    while lease := heir.next_partition():
        heir.complete(lease)
        scene.completed.append(lease.key)
    scene.check()
    assert set(KEYS) <= {key for key, items in scene.world.store.written.items() if items[-1].status is Status.COMPLETED}  # type: ignore[attr-defined]


def test_stalled_worker_overwrites_no_later_write() -> None:
    """The unsafe sequence of decision 0012: a query, a stall, another node acquires and completes, a write."""
    scene = Scene()
    slow = scene.node(0)
    for _ in range(3):  # expired, closed, waiting: all of them
        slow.step(None)
    quick = scene.world.node()
    taken = quick.acquire_many(3)
    for lease in taken:
        quick.complete(lease)
    while not slow.done:
        slow.step(None)
    assert slow.error is None
    scene.check()
    assert [scene.world.partition(key).version for key in KEYS] == [2, 2, 2]


def test_sixteen_threads_of_one_node_share_its_queries() -> None:
    """Each partition is acquired by one of them, and they do not try each other's candidates."""
    world = World(*in_memory(ItemTtl()))
    world.node().create_partitions(map(str, range(200)))
    calls: dict[str, int] = defaultdict(int)
    lock = threading.Lock()

    def counted(operation: str, call: Callable[[], Any]) -> Any:
        with lock:
            calls[operation] += 1
        return call()

    node = SourceCoordinator(Gated(world.store, counted), world.source, world.clock, world.record)
    node.initialize()
    taken: list[str] = []

    def work() -> None:
        while lease := node.next_partition():
            taken.append(lease.key)
            node.complete(lease)

    threads = [threading.Thread(target=work) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(int, taken)) == list(range(200))
    assert calls["replace"] == 400, "one write to take each, one to complete it"
    assert calls["query"] <= 8 + 3 * 16 + 20

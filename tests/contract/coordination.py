"""Nodes with a common store of partitions and a manual clock; stores that fail, or change between calls, at chosen points."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from threading import Condition, Lock
from typing import Any

import pytest

from chalicelib.aws.coordination import CoordinationAws, make_store
from chalicelib.aws.dynamodb import Table, deserialize_item, serialize_item
from chalicelib.aws.partition_store import DynamoDbPartitionStore
from chalicelib.coordination import (
    Administration,
    InMemoryPartitionStore,
    ItemTtl,
    Lease,
    LeaseTerms,
    Partition,
    SourceCoordinator,
    WorkSource,
)
from chalicelib.coordination.metrics import Metric, metric_name
from chalicelib.coordination.partition import GLOBAL_KEY, KEY, SOURCE, to_row
from chalicelib.coordination.settings import parse_settings
from chalicelib.coordination.store import ConditionFailed, IndexPosition, PartitionQuery, PartitionStore
from chalicelib.errors import OutcomeUnknownError, StoreUnavailableError
from local.emulator import CREDENTIALS, REGION
from tests.support.clock import ManualClock

START_MS = 1_790_000_000_000
SOURCE_NAME = "compaction"
TERMS = LeaseTerms()
TIMEOUT_S, SKEW_S = TERMS.timeout_s, TERMS.skew_s
BEFORE, AFTER = "before", "after"
WRITES = ("create", "replace", "delete")
Gate = Callable[[str, Callable[[], Any]], Any]
_tables = (f"coordination-{number}" for number in itertools.count())


class Rows:
    """Raw rows of a store, without the code under test."""

    def __init__(self, get: Callable[[str, str], Mapping[str, Any] | None], put: Callable[[Mapping[str, Any]], None]) -> None:
        self.get, self.put = get, put


def in_memory(item_ttl: ItemTtl) -> tuple[PartitionStore, Rows]:
    """A store in memory, and its rows."""
    store = InMemoryPartitionStore(item_ttl)

    def get(source: str, key: str) -> Mapping[str, Any] | None:
        return next((row for row in store.rows() if (row[SOURCE], row[KEY]) == (source, key)), None)

    return store, Rows(get, store.put_row)


def on_dynamodb(client: Any, endpoint_url: str, table: str, item_ttl: ItemTtl) -> tuple[PartitionStore, Rows]:
    """A store with a table that ``initialize`` creates, and its rows."""
    dynamodb = {"table_name": table, "region": REGION, "on_demand": True}
    aws = CoordinationAws(ManualClock(), endpoint_url, **CREDENTIALS)
    made = make_store(parse_settings({"store": {"dynamodb": dynamodb}}), aws)
    assert isinstance(made, DynamoDbPartitionStore)
    store = DynamoDbPartitionStore(Table(client, table), item_ttl, made.initialize)

    def get(source: str, key: str) -> Mapping[str, Any] | None:
        found = client.get_item(TableName=table, Key=serialize_item({SOURCE: source, KEY: key}), ConsistentRead=True)
        return deserialize_item(found["Item"]) if "Item" in found else None

    return store, Rows(get, lambda row: client.put_item(TableName=table, Item=serialize_item(row)))


class Gated:
    """A store whose calls pass through ``gate(operation, call)``, which may delay them or raise."""

    def __init__(self, inner: PartitionStore, gate: Gate) -> None:
        self._inner, self._gate = inner, gate

    @property
    def item_ttl(self) -> ItemTtl:
        return self._inner.item_ttl

    def initialize(self) -> None:
        self._gate("initialize", self._inner.initialize)

    def get(self, source: str, key: str) -> Partition | None:
        return self._gate("get", lambda: self._inner.get(source, key))

    def query(self, query: PartitionQuery) -> tuple[Sequence[Partition], IndexPosition | None]:
        return self._gate("query", lambda: self._inner.query(query))

    def create(self, new: Partition) -> ConditionFailed | None:
        return self._gate("create", lambda: self._inner.create(new))

    def replace(self, old: Partition, new: Partition) -> ConditionFailed | None:
        return self._gate("replace", lambda: self._inner.replace(old, new))

    def delete(self, old: Partition) -> ConditionFailed | None:
        return self._gate("delete", lambda: self._inner.delete(old))


@dataclass
class Trouble:
    """A gate that fails on demand: ``outage`` fails every call; ``lost``: number of next writes that are applied without a response."""

    outage: bool = False
    lost: int = 0
    calls: Counter[str] = field(default_factory=Counter)
    before_next: dict[str, Callable[[], object]] = field(default_factory=dict)

    def __call__(self, operation: str, call: Callable[[], Any]) -> Any:
        self.calls[operation] += 1
        if first := self.before_next.pop(operation, None):
            first()
        if self.outage:
            raise StoreUnavailableError(f"injected operation={operation}")
        found = call()
        if self.lost and operation in WRITES:
            self.lost -= 1
            raise OutcomeUnknownError(f"injected operation={operation}")
        return found


class Ahead:
    """A clock that is ahead of the common one, or behind."""

    def __init__(self, clock: ManualClock, by_s: float) -> None:
        self._clock, self._by_ms = clock, round(by_s * 1000)

    def now_ms(self) -> int:
        return self._clock.now_ms() + self._by_ms

    def monotonic_s(self) -> float:
        return self._clock.monotonic_s()

    def sleep(self, seconds: float) -> None:
        self._clock.sleep(seconds)


class Ticks:
    """A ``StopSignal`` for tests: ``tick()`` lets a heartbeat renew once and returns when it waits again."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._due, self._waiting, self._is_set = 0, False, False

    def wait(self, timeout: float) -> bool:
        with self._changed:
            self._waiting = True
            self._changed.notify_all()
            assert self._changed.wait_for(lambda: self._due or self._is_set, timeout=60)
            self._waiting = False
            self._due = max(0, self._due - 1)
            return self._is_set

    def set(self) -> None:
        with self._changed:
            self._is_set = True
            self._changed.notify_all()

    def tick(self) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self._waiting, timeout=60)
            self._due, self._waiting = 1, False
            self._changed.notify_all()
            assert self._changed.wait_for(lambda: self._waiting, timeout=60)


class World:
    """One store, one clock, any number of nodes."""

    def __init__(self, store: PartitionStore, rows: Rows) -> None:
        self.store, self.rows = store, rows
        self.clock = ManualClock(START_MS)
        self.source = WorkSource(SOURCE_NAME)
        self.counted: Counter[str] = Counter()
        self._counting = Lock()

    def node(
        self, trouble: Trouble | None = None, *, ahead_s: float = 0, initialize: bool = True, **options: Any
    ) -> SourceCoordinator:
        """Another node, with ``trouble`` before its store and a clock that is ``ahead_s``."""
        store: PartitionStore = Gated(self.store, trouble) if trouble else self.store
        options = {"random": Random(7), "terms": TERMS} | options
        node = SourceCoordinator(store, self.source, Ahead(self.clock, ahead_s), self.record, **options)
        if initialize:
            node.initialize()
        return node

    def record(self, name: str, value: float) -> None:
        with self._counting:
            self.counted[name] += int(value)

    def count(self, metric: Metric) -> int:
        return self.counted[metric_name(SOURCE_NAME, metric)]

    def administration(self, trouble: Trouble | None = None) -> Administration:
        return Administration(Gated(self.store, trouble) if trouble else self.store, self.source, self.clock)

    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)

    def partition(self, key: str) -> Partition:
        found = self.store.get(self.source.partitions, key)
        assert found
        return found

    def global_item(self) -> Partition:
        found = self.store.get(self.source.global_state, GLOBAL_KEY)
        assert found
        return found

    def row(self, key: str) -> dict[str, Any]:
        found = self.rows.get(self.source.partitions, key)
        assert found
        return dict(found)

    def overwrite(self, partition: Partition, **changes: Any) -> Partition:
        """Write an item without conditions, as foreign code could."""
        changed = replace(partition, version=partition.version + 1, **changes)
        self.rows.put(to_row(changed))
        return changed

    def leased(self, node: SourceCoordinator, key: str = "k") -> Lease:
        """Create a partition and acquire it; no other may be free."""
        node.create_partitions([key])
        lease = node.next_partition()
        assert lease and lease.key == key
        return lease

    def after_the_lease(self) -> None:
        """Advance the clock until all current leases have expired for every node."""
        self.advance(TIMEOUT_S + SKEW_S)


def never() -> Any:
    """A supplier that must not run."""

    def supplier(shared: dict[str, Any]) -> list[str]:
        raise AssertionError("the supplier ran")

    return supplier


class Supplier:
    """Returns these keys at each call, and counts calls."""

    def __init__(self, *keys: str) -> None:
        self.keys, self.calls, self.seen = keys, 0, []

    def __call__(self, shared: dict[str, Any]) -> list[str]:
        self.calls += 1
        self.seen.append(dict(shared))
        shared["calls"] = self.calls
        return list(self.keys)


# Fixtures; a test module imports them by ``new_world, world = support.new_world, support.world``.


@pytest.fixture
def new_world(endpoint_url: str | None, dynamodb_of: Callable[[str], Any]) -> Callable[..., World]:
    """Creates worlds with a new store; the first node that initializes creates its table."""

    def make(item_ttl: ItemTtl | None = None) -> World:
        if endpoint_url is None:
            return World(*in_memory(item_ttl or ItemTtl()))
        return World(*on_dynamodb(dynamodb_of(endpoint_url), endpoint_url, next(_tables), item_ttl or ItemTtl()))

    return make


@pytest.fixture
def world(new_world: Callable[..., World]) -> World:
    return new_world()

"""Selection of the next partition to acquire: expired leases, then closed partitions whose time has come, then waiting ones, roughly
oldest first.

One query of the index returns 25 candidates, which serve several acquisitions. Workers that read the same page compete for the same
candidates, and each lost race costs a request. So a scan measures how often it loses. Each loss widens its spread: it reads pages that
start at a random later priority, and takes fewer candidates of each. Each win narrows it. A single worker uses the whole oldest
page. However many there are, at least a tenth of the queries read the oldest page, so that no partition starves.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from random import Random
from threading import Lock

from chalicelib.coordination.lease import LeaseTerms
from chalicelib.coordination.partition import Partition, Status, format_timestamp_us, parse_timestamp_us, upper_bound
from chalicelib.coordination.store import PAGE_SIZE, IndexPosition, PartitionQuery, PartitionStore
from chalicelib.ports import Clock

CANDIDATES_TTL_S = 2.0
"""How long the candidates of a page are used before the next query, and the interval of queries for expired and closed ones."""
MAX_QUERIES = 24
"""Queries of one acquisition: a worker that loses so often leaves the work to others."""
MAX_PAGES = 8
"""Pages per query while all candidates of a page are known to be outdated."""
MAX_SPREAD = 32.0
SPREAD_ON_LOSS, SPREAD_ON_WIN = 3.0, 0.9
CONTESTED_SPREAD = 2.0
"""Above this spread, a candidate is read before its conditional write."""
MIN_PICKS = 3
_MAX_FURTHER_RATE = 0.9
_NEWEST_USES = 8
_MAX_OUTDATED = 2000

Accepts = Callable[[Partition], bool]


class CandidateScan:
    """Pages of candidates in one status. ``spread`` estimates how many workers compete for them. Not thread-safe."""

    def __init__(self, store: PartitionStore, source: str, status: Status, random: Random) -> None:
        self._store, self._source, self._status, self._random = store, source, status, random
        self.spread = 1.0
        # First and last priority of the latest full pages: of the oldest one, and of one further on.
        self._spans: list[tuple[str, str]] = []
        self._newest: str | None = None
        self._newest_uses = 0

    @property
    def is_contested(self) -> bool:
        """Whether other workers compete for the same candidates."""
        return self.spread > CONTESTED_SPREAD

    def won(self) -> None:
        """A candidate was acquired."""
        self.spread = max(1.0, self.spread * SPREAD_ON_WIN)

    def lost(self) -> None:
        """Another worker acquired a candidate first."""
        self.spread = min(MAX_SPREAD, self.spread * SPREAD_ON_LOSS)

    def next_page(self, last: str | None, accepts: Accepts) -> Sequence[Partition]:
        """Candidates with a priority up to ``last``, shuffled, as many as should be tried before the next query. Empty if there are none."""
        page: Sequence[Partition] = []
        if self._spans and self._random.random() < min(1 - 1 / self.spread, _MAX_FURTHER_RATE):
            page = self._further(last, accepts)
        return self._shuffled(page or self._oldest(last, accepts))

    def _oldest(self, last: str | None, accepts: Accepts) -> Sequence[Partition]:
        page, more = self._read(PartitionQuery(self._source, self._status, None, last), accepts)
        self._spans = _span(page, more)
        return page

    def _further(self, last: str | None, accepts: Accepts) -> Sequence[Partition]:
        newest = self._newest_priority(last)
        if newest is None:
            return []
        page, more = self._read(PartitionQuery(self._source, self._status, self._random_start(newest), last), accepts)
        self._spans[1:] = _span(page, more)
        if not page:
            self._newest = None
        return page

    def _newest_priority(self, last: str | None) -> str | None:
        self._newest_uses -= 1
        if self._newest is None or self._newest_uses < 0:
            newest, _ = self._store.query(PartitionQuery(self._source, self._status, None, last, limit=1, newest_first=True))
            self._newest, self._newest_uses = newest[0].priority if newest else None, _NEWEST_USES
        return self._newest

    def _random_start(self, newest: str) -> str:
        """A random priority behind a known page, within the distance that all workers need if the rest is as dense as that page."""
        first, last = self._random.choice(self._spans)
        try:
            low, end = parse_timestamp_us(last), parse_timestamp_us(newest)
            dense_us = low - parse_timestamp_us(first)
        except ValueError:  # a priority in a foreign format
            return last
        high = min(end, low + round(dense_us * self.spread))
        return format_timestamp_us(self._random.randint(low, max(low, high)))

    def _read(self, query: PartitionQuery, accepts: Accepts) -> tuple[Sequence[Partition], IndexPosition | None]:
        after: IndexPosition | None = None
        for _ in range(MAX_PAGES):
            found, after = self._store.query(PartitionQuery(query.source, query.status, query.first, query.last, after))
            page = [partition for partition in found if accepts(partition)]
            if page or after is None:
                return page, after
        return [], after

    def _shuffled(self, page: Sequence[Partition]) -> Sequence[Partition]:
        """A random choice in which older candidates are likelier to come first; fewer with a larger spread."""
        picked = sorted(enumerate(page, 1), key=lambda numbered: numbered[0] * self._random.random())
        return [partition for _, partition in picked[: max(MIN_PICKS, round(PAGE_SIZE / self.spread))]]


def _span(page: Sequence[Partition], more: IndexPosition | None) -> list[tuple[str, str]]:
    return [(page[0].priority, more.priority)] if page and more else []


@dataclass(frozen=True, slots=True)
class Candidate:
    """A partition that may be free, and the scan that returned it."""

    partition: Partition
    scan: CandidateScan


@dataclass(slots=True)
class SearchBudget:
    """The remaining queries of one acquisition."""

    queries_left: int = MAX_QUERIES
    checked_urgent: bool = False

    @property
    def is_exhausted(self) -> bool:
        """Whether the acquisition ended without a result although partitions may be free."""
        return self.queries_left <= 0


class CandidatePool:
    """Candidates of one coordinator. Its threads share them, so that no two try the same one and a query serves all."""

    def __init__(self, store: PartitionStore, source: str, terms: LeaseTerms, clock: Clock, random: Random) -> None:
        self._terms, self._clock = terms, clock
        self._expired, self._closed, self._waiting = (
            CandidateScan(store, source, status, random) for status in (Status.ASSIGNED, Status.CLOSED, Status.UNASSIGNED)
        )
        self._pooled: deque[Candidate] = deque()
        self._fresh_until_s = self._urgent_from_s = float("-inf")
        self._outdated: dict[str, Partition] = {}
        self._reserved: set[str] = set()
        self._lock, self._querying = Lock(), Lock()

    def take(self, count: int, budget: SearchBudget) -> Sequence[Candidate]:
        """Up to ``count`` candidates, reserved for the caller until ``done``. Empty: none is free, or the budget is exhausted."""
        while not (candidates := self._reserve(count)):
            with self._querying:
                if candidates := self._reserve(count):  # another thread has refilled the pool meanwhile
                    break
                if budget.queries_left <= 0 or not self._refill(budget):
                    break
        return candidates

    def done(self, candidates: Iterable[Candidate]) -> None:
        """End the reservation of these candidates."""
        with self._lock:
            self._reserved.difference_update(candidate.partition.key for candidate in candidates)

    def won(self, candidate: Candidate) -> None:
        """The candidate was acquired."""
        with self._lock:
            self._mark_outdated(candidate.partition)
            candidate.scan.won()

    def lost(self, candidate: Candidate) -> None:
        """Another worker acquired the candidate first. The pool is emptied: its other candidates are likely lost as well."""
        with self._lock:
            self._mark_outdated(candidate.partition)
            candidate.scan.lost()
            self._pooled.clear()
            if candidate.scan is not self._waiting:
                self._urgent_from_s = float("-inf")

    def removed(self, key: str) -> None:
        """The item was deleted: a new one under its key may have the same version and priority."""
        with self._lock:
            self._outdated.pop(key, None)

    def is_free(self, partition: Partition) -> bool:
        """Whether a partition may be acquired now by this node's clock."""
        now_ms = self._clock.now_ms()
        match partition.status:
            case Status.ASSIGNED:
                return partition.timeout_ms is None or partition.timeout_ms + self._terms.skew_ms <= now_ms
            case Status.CLOSED:
                return partition.reopen_ms is None or partition.reopen_ms <= now_ms
            case _:
                return partition.status is Status.UNASSIGNED

    def _reserve(self, count: int) -> Sequence[Candidate]:
        with self._lock:
            if self._clock.monotonic_s() >= self._fresh_until_s:
                self._pooled.clear()
            candidates = [self._pooled.popleft() for _ in range(min(count, len(self._pooled)))]
            self._reserved.update(candidate.partition.key for candidate in candidates)
            return candidates

    def _refill(self, budget: SearchBudget) -> bool:
        budget.queries_left -= 1
        is_due = self._clock.monotonic_s() >= self._urgent_from_s
        if is_due and self._query_urgent(budget):
            return True
        if self._pool(self._query(self._waiting, None)):
            return True
        return not budget.checked_urgent and self._query_urgent(budget)

    def _query_urgent(self, budget: SearchBudget) -> bool:
        budget.checked_urgent = True
        self._urgent_from_s = self._clock.monotonic_s() + CANDIDATES_TTL_S
        now_ms = self._clock.now_ms()
        expired = self._query(self._expired, upper_bound(now_ms - self._terms.skew_ms))
        return self._pool([*expired, *self._query(self._closed, upper_bound(now_ms))])

    def _query(self, scan: CandidateScan, last: str | None) -> list[Candidate]:
        return [Candidate(partition, scan) for partition in scan.next_page(last, self._accepts)]

    def _accepts(self, partition: Partition) -> bool:
        with self._lock:
            outdated, is_reserved = self._outdated.get(partition.key), partition.key in self._reserved
        is_known = outdated and (outdated.version, outdated.priority) == (partition.version, partition.priority)
        return not is_known and not is_reserved and self.is_free(partition)

    def _pool(self, candidates: Iterable[Candidate]) -> bool:
        with self._lock:
            self._pooled.extend(candidates)
            self._fresh_until_s = self._clock.monotonic_s() + CANDIDATES_TTL_S
            return bool(self._pooled)

    def _mark_outdated(self, partition: Partition) -> None:
        """Remember that the item has changed: the index may still return this image for a while."""
        if len(self._outdated) >= _MAX_OUTDATED:
            self._outdated.clear()
        self._outdated[partition.key] = partition

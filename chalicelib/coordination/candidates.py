"""The candidates of one status, and where among them a worker looks so that it seldom meets the others.

One look at the index reads 25 candidates, which serve several acquisitions. Workers that look at the same page try each other's
candidates, and each such try is lost. So a lane measures how often it loses: with each loss it spreads out, to pages that begin at a
random priority further on, and takes fewer candidates from each before it looks again; with each success it comes back a little to
the oldest. A worker alone reads the oldest page and uses all of it. However many there are, each tenth look is at the oldest.
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

MAX_PAGES = 8
"""Pages of one look, where all of a page is known to be out of date."""
MAX_SPREAD = 32.0
SPREAD_ON_LOSS, SPREAD_ON_WIN = 3.0, 0.9
CONTESTED_SPREAD = 2.0
"""From this spread on, a candidate is read before it is tried."""
MIN_PICKS = 3
_MOST_LEAPS = 0.9
_NEWEST_FOR_LOOKS = 8

Accepts = Callable[[Partition], bool]


class CandidateScan:
    """``spread``: about how many workers are at it. Not for several threads at once."""

    def __init__(self, store: PartitionStore, source: str, status: Status, random: Random) -> None:
        self._store, self._source, self._status, self._random = store, source, status, random
        self.spread = 1.0
        self._spans: list[
            tuple[str, str]
        ] = []  # first and last priority of the last full pages: of the oldest, and of one further on
        self._newest: str | None = None
        self._newest_looks = 0

    @property
    def is_contested(self) -> bool:
        """Whether others are at the same candidates."""
        return self.spread > CONTESTED_SPREAD

    def won(self) -> None:
        """A candidate was acquired."""
        self.spread = max(1.0, self.spread * SPREAD_ON_WIN)

    def lost(self) -> None:
        """Another was faster."""
        self.spread = min(MAX_SPREAD, self.spread * SPREAD_ON_LOSS)

    def next_page(self, last: str | None, accepts: Accepts) -> Sequence[Partition]:
        """Candidates of a priority up to ``last``, as many as should be tried before the next look, shuffled. Empty: there are none."""
        page: Sequence[Partition] = []
        if self._spans and self._random.random() < min(1 - 1 / self.spread, _MOST_LEAPS):
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
        page, more = self._read(PartitionQuery(self._source, self._status, self._somewhere(newest), last), accepts)
        self._spans[1:] = _span(page, more)
        if not page:
            self._newest = None
        return page

    def _newest_priority(self, last: str | None) -> str | None:
        self._newest_looks -= 1
        if self._newest is None or self._newest_looks < 0:
            newest, _ = self._store.query(PartitionQuery(self._source, self._status, None, last, limit=1, newest_first=True))
            self._newest, self._newest_looks = newest[0].priority if newest else None, _NEWEST_FOR_LOOKS
        return self._newest

    def _somewhere(self, newest: str) -> str:
        """A priority behind a page that was read, not further than all workers need room, were the rest as dense as that page."""
        first, last = self._random.choice(self._spans)
        try:
            low, end, dense_us = (
                parse_timestamp_us(last),
                parse_timestamp_us(newest),
                parse_timestamp_us(last) - parse_timestamp_us(first),
            )
        except ValueError:  # another's idea of a priority
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
        """Any may be first, the older the likelier, so that none waits for ever; no more than should be tried before the next look."""
        picked = sorted(enumerate(page, 1), key=lambda each: each[0] * self._random.random())
        return [partition for _, partition in picked[: max(MIN_PICKS, round(PAGE_SIZE / self.spread))]]


def _span(page: Sequence[Partition], more: IndexPosition | None) -> list[tuple[str, str]]:
    return [(page[0].priority, more.priority)] if page and more else []


CANDIDATES_TTL_S = 2.0
"""How long a page's candidates are tried before the index is asked anew, and how often expired and closed ones are looked for."""
MAX_QUERIES = 24
"""Looks of one acquisition: who loses that often leaves the work to the others."""
_MOST_OUTDATED = 2000


@dataclass(frozen=True, slots=True)
class Candidate:
    """A partition that can be tried, and the scan that it came from."""

    partition: Partition
    scan: CandidateScan


@dataclass(slots=True)
class SearchBudget:
    """One acquisition's looks. ``is_contested``: it was given up although there may be something."""

    queries_left: int = MAX_QUERIES
    checked_urgent: bool = False

    @property
    def is_contested(self) -> bool:
        return self.queries_left <= 0


class CandidatePool:
    """The candidates of one coordinator; its threads share it, so that none tries what another has in hand, and one look serves all."""

    def __init__(self, store: PartitionStore, source: str, terms: LeaseTerms, clock: Clock, random: Random) -> None:
        self._terms, self._clock = terms, clock
        self._expired, self._closed, self._waiting = (
            CandidateScan(store, source, status, random) for status in (Status.ASSIGNED, Status.CLOSED, Status.UNASSIGNED)
        )
        self._remembered: deque[Candidate] = deque()
        self._fresh_until_s = self._urgent_from_s = float("-inf")
        self._outdated: dict[str, Partition] = {}
        self._in_hand: set[str] = set()
        self._lock, self._looking = Lock(), Lock()

    def take(self, count: int, search: SearchBudget) -> Sequence[Candidate]:
        """Up to ``count`` candidates that nobody else of this process tries, until they are ``done``. Empty: nothing is available, or the
        search is contested."""
        while not (offered := self._pop(count)):
            with self._looking:
                if offered := self._pop(count):  # another thread has looked meanwhile
                    break
                if search.queries_left <= 0 or not self._refill(search):
                    break
        return offered

    def done(self, candidates: Iterable[Candidate]) -> None:
        """Whatever came of it."""
        with self._lock:
            self._in_hand.difference_update(candidate.partition.key for candidate in candidates)

    def won(self, candidate: Candidate) -> None:
        """It was acquired."""
        with self._lock:
            self._note(candidate.partition)
            candidate.scan.won()

    def lost(self, candidate: Candidate) -> None:
        """Another was faster: what came with it is not worth more tries."""
        with self._lock:
            self._note(candidate.partition)
            candidate.scan.lost()
            self._remembered.clear()
            if candidate.scan is not self._waiting:
                self._urgent_from_s = float("-inf")

    def removed(self, key: str) -> None:
        """The item is gone: one that comes in its place may look the same."""
        with self._lock:
            self._outdated.pop(key, None)

    def is_free(self, partition: Partition) -> bool:
        """Whether a partition may be acquired now, by this node's clock."""
        now_ms = self._clock.now_ms()
        match partition.status:
            case Status.ASSIGNED:
                return partition.timeout_ms is None or partition.timeout_ms + self._terms.skew_ms <= now_ms
            case Status.CLOSED:
                return partition.reopen_ms is None or partition.reopen_ms <= now_ms
            case _:
                return partition.status is Status.UNASSIGNED

    def _pop(self, count: int) -> Sequence[Candidate]:
        with self._lock:
            if self._clock.monotonic_s() >= self._fresh_until_s:
                self._remembered.clear()
            offered = [self._remembered.popleft() for _ in range(min(count, len(self._remembered)))]
            self._in_hand.update(candidate.partition.key for candidate in offered)
            return offered

    def _refill(self, search: SearchBudget) -> bool:
        search.queries_left -= 1
        is_due = self._clock.monotonic_s() >= self._urgent_from_s
        if is_due and self._query_urgent(search):
            return True
        if self._remember(self._of(self._waiting, None)):
            return True
        return not search.checked_urgent and self._query_urgent(search)

    def _query_urgent(self, search: SearchBudget) -> bool:
        search.checked_urgent = True
        self._urgent_from_s = self._clock.monotonic_s() + CANDIDATES_TTL_S
        now_ms = self._clock.now_ms()
        expired = self._of(self._expired, upper_bound(now_ms - self._terms.skew_ms))
        return self._remember([*expired, *self._of(self._closed, upper_bound(now_ms))])

    def _of(self, scan: CandidateScan, last: str | None) -> list[Candidate]:
        return [Candidate(partition, scan) for partition in scan.next_page(last, self._accepts)]

    def _accepts(self, partition: Partition) -> bool:
        with self._lock:
            outdated, is_in_hand = self._outdated.get(partition.key), partition.key in self._in_hand
        is_known = outdated and (outdated.version, outdated.priority) == (partition.version, partition.priority)
        return not is_known and not is_in_hand and self.is_free(partition)

    def _remember(self, candidates: Iterable[Candidate]) -> bool:
        with self._lock:
            self._remembered.extend(candidates)
            self._fresh_until_s = self._clock.monotonic_s() + CANDIDATES_TTL_S
            return bool(self._remembered)

    def _note(self, partition: Partition) -> None:
        """The index may show this image for a while yet, but the item has changed since."""
        if len(self._outdated) >= _MOST_OUTDATED:
            self._outdated.clear()
        self._outdated[partition.key] = partition

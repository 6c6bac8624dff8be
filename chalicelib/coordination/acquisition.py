"""Which partition to try next: expired leases first, then closed ones whose time has come, then those that wait, roughly oldest first."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random
from threading import Lock

from chalicelib.coordination.lane import CandidateScan
from chalicelib.coordination.lease import LeaseTerms
from chalicelib.coordination.partition import Partition, Status, upper_bound
from chalicelib.coordination.store import PartitionStore
from chalicelib.ports import Clock

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

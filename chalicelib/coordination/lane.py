"""The candidates of one status, and where among them a worker looks so that it seldom meets the others.

One look at the index reads 25 candidates, which serve several acquisitions. Workers that look at the same page try each other's
candidates, and each such try is lost. So a lane measures how often it loses: with each loss it spreads out, to pages that begin at a
random priority further on, and takes fewer candidates from each before it looks again; with each success it comes back a little to
the oldest. A worker alone reads the oldest page and uses all of it. However many there are, each tenth look is at the oldest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from chalicelib.coordination.partition import Partition, Status, format_timestamp_us, parse_timestamp_us
from chalicelib.coordination.store import PAGE_SIZE, IndexPosition, PartitionQuery, PartitionStore

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

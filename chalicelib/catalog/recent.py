"""Lists runs of all pipelines by outcome, ordered by last activity, for example the failed or the running ones.

Indexes give the keys, the table the rows, so a run whose outcome has changed since the index entry is left out. Runs that the
caller may not see or does not ask for are skipped before anything is counted (decision 0041).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from chalicelib.catalog.runs import ENDED, RUNNING, SILENT, RunCatalog, RunKeyPage, RunRow, activity_key_ms, merge_newest
from chalicelib.ports import Run

NOT_ENDED = (RUNNING, SILENT)
OUTCOMES = (*NOT_ENDED, *ENDED)
MAX_ROUNDS = 4
"""For one page. A round is one query for each outcome of ended runs, and one of each shard of ``activity`` for runs that have not ended."""
KEYS_PER_OUTCOME = 250
"""Keys read per outcome and round: at most 40 KB for usual names."""
KEYS_PER_SHARD = 16


@dataclass(frozen=True, slots=True)
class RecentQuery:
    """Runs with one of ``outcomes`` whose last activity was at ``since_ms`` or later and that ``may_see`` accepts."""

    outcomes: Sequence[str] = OUTCOMES
    since_ms: int = 0
    may_see: Callable[[Run], bool] = lambda _: True


@dataclass(frozen=True, slots=True)
class RecentPage:
    """``after``: the activity key after which the next page begins, None at the end. A page may be short: only None marks the
    end."""

    rows: Sequence[RunRow]
    after: str | None


@dataclass(frozen=True, slots=True)
class RecentRuns:
    """Lists runs across pipelines."""

    runs: RunCatalog

    def page(self, query: RecentQuery, now_ms: int, limit: int, after: str = "") -> RecentPage:
        """Up to ``limit`` runs, 100 at most, after an activity key, with their outcomes at ``now_ms``. At most ``MAX_ROUNDS``
        rounds of queries, and one read of rows. Raises InvalidInputError for an invalid key, UnavailableError."""
        if after:
            activity_key_ms(after)
        found, next_after = self._find(query, limit, after)
        rows = self.runs.get_many(found) if found else {}
        listed = [rows[run] for run in found if run in rows and rows[run].outcome_at(now_ms) in query.outcomes]
        return RecentPage(listed, next_after)

    def _find(self, query: RecentQuery, limit: int, after: str) -> tuple[list[Run], str | None]:
        """Runs from the indexes, in order, and the key after which the next page begins."""
        found: list[Run] = []
        for _ in range(MAX_ROUNDS):
            round_ = self._round(query, after)
            for key, run in round_.keys:
                if query.may_see(run) and run not in found:
                    if len(found) == limit:
                        return found, after
                    found.append(run)
                after = key
            if round_.is_complete:
                return found, None
        return found, after

    def _round(self, query: RecentQuery, after: str) -> RunKeyPage:
        parts = [self.runs.ended(each, query.since_ms, after, KEYS_PER_OUTCOME) for each in query.outcomes if each in ENDED]
        if set(NOT_ENDED) & set(query.outcomes):
            parts.append(self.runs.running(query.since_ms, after, KEYS_PER_SHARD))
        return merge_newest(parts, after)

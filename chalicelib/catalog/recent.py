"""Runs of all pipelines by outcome, the last to be active first: what failed since yesterday, what runs now.

Keys come from indexes and the rows themselves from the table, so a run whose outcome has changed since is left out. What may not be seen is
passed over before anything is counted, and so is what the pattern does not stand for (decision 0041).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from chalicelib.catalog.runs import ENDED, RUNNING, SILENT, RunCatalog, RunKeyPage, RunRow, activity_key_ms, merge_newest
from chalicelib.ports import Run

OPEN = (RUNNING, SILENT)
OUTCOMES = (*OPEN, *ENDED)
MAX_ROUNDS = 4
"""For one page. Each is a query for each outcome that has ended, and for runs that have not one of each shard of ``activity``."""
KEYS = 250
"""In a round, of each outcome: 40 KB at most for usual names."""
KEYS_OF_A_SHARD = 16


@dataclass(frozen=True, slots=True)
class RecentQuery:
    """Runs with one of some ``outcomes`` whose last activity was at ``since_ms`` or later, of pipelines that may be seen."""

    outcomes: Sequence[str] = OUTCOMES
    since_ms: int = 0
    may_see: Callable[[str], bool] = lambda _: True


@dataclass(frozen=True, slots=True)
class RecentPage:
    """``after``: the place behind which the next page begins, None at the end. Short pages happen: it alone tells."""

    rows: Sequence[RunRow]
    after: str | None


@dataclass(frozen=True, slots=True)
class RecentRuns:
    """Lists runs across pipelines."""

    runs: RunCatalog

    def page(self, query: RecentQuery, now_ms: int, limit: int, after: str = "") -> RecentPage:
        """Up to ``limit`` runs, 100 at most, behind a place, with their outcomes at ``now_ms``. At most ``MAX_ROUNDS`` of queries, and one read of
        rows. Raises InvalidInputError for what is no place, UnavailableError."""
        if after:
            activity_key_ms(after)
        found, next_after = self._find(query, limit, after)
        rows = self.runs.get_many(found) if found else {}
        listed = [rows[run] for run in found if run in rows and rows[run].outcome_at(now_ms) in query.outcomes]
        return RecentPage(listed, next_after)

    def _find(self, query: RecentQuery, limit: int, after: str) -> tuple[list[Run], str | None]:
        """The runs that the indexes name, in order, and where the next page begins."""
        found: list[Run] = []
        for _ in range(MAX_ROUNDS):
            round_ = self._round(query, after)
            for key, run in round_.keys:
                if query.may_see(run.fqn) and run not in found:
                    if len(found) == limit:
                        return found, after
                    found.append(run)
                after = key
            if round_.is_complete:
                return found, None
        return found, after

    def _round(self, query: RecentQuery, before: str) -> RunKeyPage:
        parts = [self.runs.ended(each, query.since_ms, before, KEYS) for each in query.outcomes if each in ENDED]
        if set(OPEN) & set(query.outcomes):
            parts.append(self.runs.running(query.since_ms, before, KEYS_OF_A_SHARD))
        return merge_newest(parts, before)

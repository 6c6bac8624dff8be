"""Runs of all pipelines by outcome: pages of any size are together the list that a sort gives, and each costs a bounded number of reads."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from chalicelib.catalog import recent
from chalicelib.catalog.recent import MAX_ROUNDS, OUTCOMES, RecentQuery, RecentRuns
from chalicelib.catalog.runs import SILENT_AFTER_MS, place_of
from chalicelib.errors import InvalidInputError
from chalicelib.memory.run_catalog import InMemoryRunCatalog
from chalicelib.ports import Run, RunEnd, SegmentEntry
from tests.world import START_MS

SILENT_BEFORE_MS = START_MS + 15
NOW_MS = SILENT_BEFORE_MS + SILENT_AFTER_MS


def entry(number: int, at_ms: int, reason: str = "", end: RunEnd | None = None) -> SegmentEntry:
    return SegmentEntry(number, "seal" if reason else "data", 1, number, number, 1, 1, "s", number, "", at_ms, "", reason, end=end)


def filled(chance: random.Random, count: int) -> tuple[InMemoryRunCatalog, list[tuple[str, Run, str, int]]]:
    """A catalog, and what is in it: place, run, outcome and time of each run."""
    runs, known = InMemoryRunCatalog(), []
    for number in range(count):
        run, outcome = Run(f"svc.{chance.choice('abc')}", f"r{number}"), chance.choice(OUTCOMES)
        at_ms = START_MS + chance.randrange(count // 2 + 1)
        runs.segment_landed(run, entry(0, at_ms))
        if outcome in ("running", "silent"):
            outcome = "silent" if at_ms < SILENT_BEFORE_MS else "running"
        else:
            reason, end = (
                "abandoned" if outcome == "lost" else "closed",
                RunEnd(outcome) if outcome not in ("lost", "unknown") else None,
            )
            runs.segment_landed(run, entry(1, at_ms, reason, end))
        known.append((place_of(run, at_ms), run, outcome, at_ms))
    return runs, known


class Counting:
    """Counts reads of a catalog."""

    def __init__(self, runs: InMemoryRunCatalog) -> None:
        self.runs, self.reads = runs, Counter[str]()

    def __getattr__(self, name: str) -> Any:
        self.reads[name] += 1
        return getattr(self.runs, name)


@pytest.mark.parametrize("seed", range(20))
def test_pages_are_together_what_a_sort_gives(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    print(f"seed: {seed}")
    chance = random.Random(seed)
    monkeypatch.setattr(recent, "KEYS", chance.choice([1, 3, 250]))
    monkeypatch.setattr(recent, "KEYS_OF_A_SHARD", 16)
    runs, known = filled(chance, 60)
    wanted = tuple(chance.sample(OUTCOMES, chance.randint(1, len(OUTCOMES))))
    since_ms, fqns = START_MS + chance.choice([0, 10]), {"svc.a", "svc.b"}
    expected = [
        run for _, run, outcome, at_ms in sorted(known, reverse=True) if outcome in wanted and run.fqn in fqns and at_ms >= since_ms
    ]
    found: list[Run] = []
    after: str | None = ""
    while after is not None:
        counting = Counting(runs)
        page = RecentRuns(counting).page(RecentQuery(wanted, since_ms, fqns.__contains__), NOW_MS, chance.randint(1, 7), after)
        found += [row.run for row in page.rows]
        after = page.after
        reads = counting.reads
        assert reads["ended"] <= MAX_ROUNDS * len(wanted) and reads["running"] <= MAX_ROUNDS and reads["get_many"] <= 1
    assert found == expected


def test_run_whose_outcome_has_changed_since_the_index_was_read_is_left_out() -> None:
    runs, run = InMemoryRunCatalog(), Run("svc.a", "r")
    runs.segment_landed(run, entry(0, START_MS, "abandoned"))
    stale = runs.ended("lost", 0, "", 10)
    runs.segment_landed(run, entry(1, START_MS + 1))
    runs.ended = lambda *_: stale  # type: ignore[method-assign]
    assert RecentRuns(runs).page(RecentQuery(("lost",)), NOW_MS, 10).rows == []


@pytest.mark.parametrize("place", ["x", "1", "0" * 15, f"{'0' * 15}.{'g' * 16}", f"{'٣' * 15}.{'0' * 16}"])
def test_place_that_is_none_is_refused(place: str) -> None:
    with pytest.raises(InvalidInputError):
        RecentRuns(InMemoryRunCatalog()).page(RecentQuery(), NOW_MS, 1, place)

"""Runs of all pipelines by outcome: pages of any size are together the list that a sort gives, and each costs a bounded number of reads."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from chalicelib.catalog import recent
from chalicelib.catalog.recent import ENDED, MAX_ROUNDS, OUTCOMES, RecentQuery, RecentRuns
from chalicelib.catalog.runs import SILENT_AFTER_MS, RunKeyPage, RunRow, activity_key
from chalicelib.errors import InvalidInputError
from chalicelib.ports import Run, RunEnd, RunStart, SegmentEntry
from tests.support.run_catalog import InMemoryRunCatalog
from tests.world import START_MS

SILENT_BEFORE_MS = START_MS + 15
NOW_MS = SILENT_BEFORE_MS + SILENT_AFTER_MS


def entry(number: int, at_ms: int, reason: str = "", end: RunEnd | None = None) -> SegmentEntry:
    return SegmentEntry(number, "seal" if reason else "data", 1, number, number, 1, 1, "s", number, "", at_ms, "", reason, end=end)


def filled(chance: random.Random, count: int) -> tuple[InMemoryRunCatalog, list[tuple[str, Run, str, int]]]:
    """A catalog, and the activity key, run, outcome and time of each of its runs."""
    runs, known = InMemoryRunCatalog(), []
    for number in range(count):
        run, outcome = Run(f"svc.{chance.choice('abc')}", f"r{number}"), chance.choice(OUTCOMES)
        at_ms = START_MS + chance.randrange(count // 2 + 1)
        runs.record_segment(run, entry(0, at_ms))
        if outcome in ("running", "silent"):
            outcome = "silent" if at_ms < SILENT_BEFORE_MS else "running"
        else:
            reason, end = (
                "abandoned" if outcome == "lost" else "closed",
                RunEnd(outcome) if outcome not in ("lost", "unknown") else None,
            )
            runs.record_segment(run, entry(1, at_ms, reason, end))
        known.append((activity_key(run, at_ms), run, outcome, at_ms))
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
    monkeypatch.setattr(recent, "KEYS_PER_OUTCOME", chance.choice([1, 3, 250]))
    monkeypatch.setattr(recent, "KEYS_PER_SHARD", 16)
    runs, known = filled(chance, 60)
    outcomes = chance.choice([OUTCOMES, ENDED])  # the list of active runs has all of these runs, also the ended ones
    wanted = tuple(chance.sample(outcomes, chance.randint(1, len(outcomes))))
    since_ms, fqns = START_MS + chance.choice([0, 10]), {"svc.a", "svc.b"}
    expected = [
        run for _, run, outcome, at_ms in sorted(known, reverse=True) if outcome in wanted and run.fqn in fqns and at_ms >= since_ms
    ]
    found: list[Run] = []
    after: str | None = ""
    while after is not None:
        counting = Counting(runs)
        page = RecentRuns(counting).page(
            RecentQuery(wanted, since_ms, lambda run: run.fqn in fqns), NOW_MS, chance.randint(1, 7), after
        )
        found += [row.run for row in page.rows]
        after = page.after
        reads = counting.reads
        assert reads["ended"] <= MAX_ROUNDS * len(wanted) and reads["running"] <= MAX_ROUNDS and reads["get_many"] <= 1
    assert found == expected


def test_run_whose_outcome_has_changed_since_the_index_was_read_is_left_out() -> None:
    runs, run = InMemoryRunCatalog(), Run("svc.a", "r")
    runs.record_segment(run, entry(0, START_MS, "abandoned"))
    stale = runs.ended("lost", 0, "", 10)
    runs.record_segment(run, entry(1, START_MS + 1))
    runs.ended = lambda *_: stale  # type: ignore[method-assign]
    assert RecentRuns(runs).page(RecentQuery(("lost",)), NOW_MS, 10).rows == []
    runs.record_segment(run, entry(2, START_MS + 2, "closed", RunEnd("failed")))
    runs.ended = lambda outcome, *_: stale if outcome == "lost" else RunKeyPage([(activity_key(run, START_MS + 2), run)], True)  # type: ignore[method-assign]
    rows = RecentRuns(runs).page(RecentQuery(("lost", "failed")), NOW_MS, 10).rows
    assert [row.outcome_at(NOW_MS) for row in rows] == ["failed"], "once"


_HOUR_MS = 3_600_000
_START = RunStart("s", "r", 1, "", "", START_MS, START_MS)
_PROMISE = replace(_START, heartbeat_s=60)


@pytest.mark.parametrize(
    ("row", "quiet_ms", "outcome", "status"),
    [
        ({"segments": 1}, _HOUR_MS, "running", "open"),
        ({"segments": 1}, _HOUR_MS + 1, "silent", "open"),
        ({"segments": 1, "start": _PROMISE}, 180_000, "running", "open"),
        ({"segments": 1, "start": _PROMISE}, 180_001, "silent", "open"),
        ({"segments": 1, "start": _PROMISE, "alive_ms": START_MS + 9}, 180_001, "running", "open"),
        ({"segments": 1, "last_append_ms": 0}, _HOUR_MS + 1, "running", "open"),  # no time is known
        ({"start": _START}, 0, "running", "open"),  # no line yet
        ({"start": _START}, _HOUR_MS + 1, "silent", "open"),
        ({"compacted_bytes": 5}, 0, "unknown", "open"),  # OpenMetadata's own object
        ({"compacted_bytes": 5}, _HOUR_MS + 1, "unknown", "open"),
        ({"final_segments": 2}, 0, "unknown", "finalized"),  # known by logs.txt alone
        ({"final_segments": 2, "start": _START}, _HOUR_MS + 1, "unknown", "finalized"),
        ({"final_segments": 2, "segments": 1}, _HOUR_MS + 1, "running", "finalized"),  # the seal is still to be notified
        ({"final_segments": 2, "segments": 3}, 0, "running", "open"),  # reopened
        ({"final_segments": 2, "segments": 3}, _HOUR_MS + 1, "silent", "open"),
        ({"segments": 2, "seal": "closed"}, _HOUR_MS + 1, "unknown", "sealed"),
        ({"segments": 2, "seal": "abandoned"}, 0, "lost", "sealed"),
        ({"segments": 2, "seal": "abandoned", "end": RunEnd("unknown")}, 0, "unknown", "sealed"),
        ({"segments": 2, "seal": "closed", "end": RunEnd("failed"), "final_segments": 2}, 0, "failed", "finalized"),
    ],
)
def test_outcome_and_status_of_a_row(row: dict[str, Any], quiet_ms: int, outcome: str, status: str) -> None:
    made = RunRow(Run("svc.a", "r"), **{"last_append_ms": START_MS, **row})
    assert (made.outcome_at(START_MS + quiet_ms), made.status) == (outcome, status)
    assert (made.silent_since_ms(START_MS + quiet_ms) is not None) == (outcome == "silent")
    began = replace(made, started_ms=START_MS - 5)
    assert began.duration_ms(START_MS + quiet_ms) == 5 + (quiet_ms if outcome == "running" else 0)


@pytest.mark.parametrize("place", ["x", "1", "0" * 15, f"{'0' * 15}.{'g' * 16}", f"{'٣' * 15}.{'0' * 16}"])
def test_place_that_is_none_is_refused(place: str) -> None:
    with pytest.raises(InvalidInputError):
        RecentRuns(InMemoryRunCatalog()).page(RecentQuery(), NOW_MS, 1, place)

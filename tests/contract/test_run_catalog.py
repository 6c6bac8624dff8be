"""The behaviour of every ``RunCatalog``: events in any order, any number of times, end in the same row."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

from chalicelib.catalog.runs import ENDED, EXPLAIN_WITHIN_MS, RunCatalog, RunKeyPage, activity_key, shard_of
from chalicelib.errors import InvalidInputError, RunDeletedError
from chalicelib.ports import Run, RunEnd, RunStart, SegmentEntry

RUN = Run("svc.pipeline", "run-1")
START_MS = 1_790_000_000_000


def segment(sequence: int, seal: str = "", epoch: int = 1) -> SegmentEntry:
    """Two lines of 10 bytes each; a seal has none. Ten seconds lie between two."""
    lines = 0 if seal else 2
    kind = "seal" if seal else "data"
    at_ms = START_MS + sequence * 10_000
    return SegmentEntry(sequence, kind, epoch, sequence * 2, sequence * 20, lines, lines * 10, "s", sequence, "", at_ms, "", seal)


History = list[Callable[[RunCatalog], object]]


def history() -> History:
    """A run that is written, compacted, abandoned, finalized, reopened, and compacted again."""
    events: History = [lambda runs, n=n: runs.record_segment(RUN, segment(n)) for n in range(4)]  # type: ignore[misc]
    events += [
        lambda runs: runs.record_compaction(RUN, 40, 2, START_MS + 5),
        lambda runs: runs.record_segment(RUN, replace(segment(4, "abandoned"), line=8, byte=80)),
        lambda runs: runs.record_finalization(RUN, 8, 80, 5, START_MS + 7),
        lambda runs: runs.record_segment(RUN, replace(segment(5, epoch=2), line=8, byte=80)),
        lambda runs: runs.record_compaction(RUN, 100, 6, START_MS + 9),
    ]
    return events


def test_row_has_the_values_of_the_highest_numbered_segment(runs: RunCatalog) -> None:
    for event in history():
        event(runs)
    row = runs.get(RUN)
    assert row
    assert (row.segments, row.lines, row.bytes, row.epoch, row.seal) == (6, 10, 100, 2, "")
    assert (row.started_ms, row.last_append_ms) == (START_MS, START_MS + 50_000)
    assert (row.compacted_segments, row.compacted_bytes, row.final_segments) == (6, 100, 5)
    assert (row.status, row.pending_bytes, row.is_due) == ("open", 0, False)


@pytest.mark.parametrize("seed", range(12))
def test_events_twice_and_in_any_order_end_in_the_same_row(runs: RunCatalog, seed: int) -> None:
    print(f"seed: {seed}")
    events = history()
    for event in events:
        event(runs)
    expected = runs.get(RUN)
    other = Run("svc.pipeline", "run-2")
    chance = random.Random(seed)
    shuffled = events + chance.choices(events, k=6)
    chance.shuffle(shuffled)
    for event in shuffled:
        event(_Renamed(runs, other))  # type: ignore[arg-type]
    found = runs.get(other)
    assert found and expected
    # A row that an artifact's event created has the artifact's time until a segment gives a better one; so has the model.
    assert replace(found, run=RUN, started_ms=0) == replace(expected, started_ms=0)
    assert found.started_ms <= START_MS + 10


class _Renamed:
    """Sends events of RUN to another run."""

    def __init__(self, runs: RunCatalog, run: Run) -> None:
        self._runs, self._run = runs, run

    def __getattr__(self, name: str) -> Callable[..., object]:
        return lambda _, *rest: getattr(self._runs, name)(self._run, *rest)


START = RunStart("s", "run-1", 1, "host", "./load.sh", START_MS - 1000, START_MS - 900)


def test_started_run_is_listed_and_due_for_the_sweep_before_its_first_line(runs: RunCatalog) -> None:
    runs.record_start(RUN, START)
    row = runs.get(RUN)
    assert row and (row.status, row.start, row.started_ms, row.last_append_ms) == ("open", START, START_MS - 1000, START_MS - 900)
    assert [each.run for each in runs.newest("svc.pipeline", 10, None).rows] == [RUN]
    assert [each.run for each in runs.active(START_MS)] == [RUN]
    assert not row.is_due


@pytest.mark.parametrize("place", range(10))
def test_start_that_is_notified_late_or_twice_ends_in_the_same_row(runs: RunCatalog, place: int) -> None:
    events = history()
    events.insert(place, lambda runs: runs.record_start(RUN, START))
    for event in [*events, events[place]]:
        event(runs)
    row = runs.get(RUN)
    assert row and (row.start, row.started_ms, row.last_append_ms) == (START, START_MS - 1000, START_MS + 50_000)
    assert (row.segments, row.compacted_segments, row.final_segments) == (6, 6, 5)
    runs.mark_retired(RUN, 6)
    runs.record_start(RUN, START)
    assert not list(runs.active(START_MS + 10**9)), "a late start does not wake a run that is done"


def test_end_is_that_of_the_last_segment(runs: RunCatalog) -> None:
    end = RunEnd("failed", 3, "", "no disk", "load", 7)
    runs.record_segment(RUN, segment(0))
    runs.record_segment(RUN, replace(segment(1, "closed"), line=2, byte=20, end=end))
    runs.record_segment(RUN, segment(0))
    row = runs.get(RUN)
    assert row and (row.end, row.outcome_at(START_MS)) == (end, "failed")
    runs.record_segment(RUN, replace(segment(2, "abandoned"), line=2, byte=20))
    row = runs.get(RUN)
    assert row and (row.end, row.outcome_at(START_MS)) == (None, "lost")


def test_zone_is_that_of_the_start_until_a_segment_settles_it(runs: RunCatalog) -> None:
    zones = []
    runs.record_start(RUN, replace(START, zone="Europe/Berlin"))
    for zone in (None, "", "+09:00"):
        if zone is not None:
            runs.record_segment(RUN, replace(segment(len(zones)), zone=zone))
        row = runs.get(RUN)
        zones.append(row and row.zone)
    assert zones == ["Europe/Berlin", "", "+09:00"]


def test_heartbeat_is_recorded_of_an_open_run_and_moves_forward_only(runs: RunCatalog) -> None:
    assert not runs.record_heartbeat(RUN, START_MS) and runs.get(RUN) is None, "a heartbeat makes no row"
    runs.record_start(RUN, START)
    recorded = [runs.record_heartbeat(RUN, START_MS + age) for age in (1000, 3000, 3000, 2000)]
    assert recorded == [True, True, True, False]
    runs.record_segment(RUN, segment(0))
    row = runs.get(RUN)
    assert row and (row.alive_ms, row.last_append_ms, row.last_sign_ms) == (START_MS + 3000, START_MS, START_MS + 3000)
    assert [each.alive_ms for each in runs.active(START_MS + 1)] == [START_MS + 3000]
    runs.record_segment(RUN, replace(segment(1, "closed"), line=2, byte=20))
    assert not runs.record_heartbeat(RUN, START_MS + 4000)
    runs.record_segment(RUN, replace(segment(2), line=2, byte=20))
    assert runs.record_heartbeat(RUN, START_MS + 5000), "it is open again"
    runs.forget(RUN)
    assert not runs.record_heartbeat(RUN, START_MS + 6000) and runs.get(RUN) is None, "a late one brings no deleted run back"


def test_mark_of_deleted_run_refuses_late_notifications(runs: RunCatalog) -> None:
    runs.record_segment(RUN, segment(0))
    for _ in range(2):
        runs.mark_deleted(RUN, START_MS)
        runs.record_start(RUN, START)
        assert not runs.record_segment(RUN, segment(1, "closed")).advanced
        runs.record_compaction(RUN, 10, 2, START_MS)
        runs.record_finalization(RUN, 1, 10, 2, START_MS)
        runs.record_legacy_artifact(RUN, 10, START_MS + 1, final=True)
        assert not runs.record_heartbeat(RUN, START_MS + 1)
    with pytest.raises(RunDeletedError):
        runs.get(RUN)
    listed = [*runs.newest(RUN.fqn, 9, None).rows, *runs.get_many([RUN]), *runs.active(START_MS * 2)]
    keys = [*runs.running(0, "", 9).keys, *(key for outcome in ENDED for key in runs.ended(outcome, 0, "", 9).keys)]
    assert listed == keys == []


def test_explanation_is_recorded_once_of_the_final_log(runs: RunCatalog) -> None:
    def recorded(segments: int, text: str) -> tuple[int, str, bool]:
        runs.record_explanation(RUN, segments, text)
        row = runs.get(RUN)
        assert row
        assert not row.explanation or [row] == list(runs.newest(RUN.fqn, 1, None).rows) == list(runs.get_many([RUN]).values())
        return row.explained_segments, row.explanation, row.is_explained

    runs.record_explanation(RUN, 0, "of no run")
    assert runs.get(RUN) is None
    runs.record_segment(RUN, segment(0))
    runs.record_segment(RUN, replace(segment(1, "abandoned"), line=2, byte=20))
    assert recorded(2, "early") == (0, "", False), "logs.txt is not known yet"
    runs.record_finalization(RUN, 2, 20, 2, START_MS)
    row = runs.get(RUN)
    assert row and row.awaits_explanation(START_MS + 20_000)
    assert not row.awaits_explanation(row.last_append_ms + EXPLAIN_WITHIN_MS)
    assert recorded(1, "of less") == recorded(3, "of more") == (0, "", False)
    assert recorded(2, "{}") == (2, "{}", True)
    assert recorded(2, "another worker's") == (2, "{}", True)
    row = runs.get(RUN)
    assert row and not row.awaits_explanation(START_MS + 20_000)
    runs.record_segment(RUN, replace(segment(2), line=2, byte=20))
    assert recorded(2, "late") == (2, "{}", False), "the run was reopened"
    runs.record_segment(RUN, replace(segment(3, "closed"), line=4, byte=40, end=RunEnd("failed")))
    runs.record_finalization(RUN, 4, 40, 4, START_MS)
    row = runs.get(RUN)
    assert row and not row.is_explained and row.awaits_explanation(START_MS + 40_000)
    assert recorded(4, "[]") == (4, "[]", True)
    for _ in range(2):
        runs.remove_explanation(RUN)
        assert recorded(4, "late") == (4, "", True), "the log is deleted"


def test_only_finalized_runs_have_explanations_to_remove(runs: RunCatalog) -> None:
    runs.remove_explanation(RUN)
    assert runs.get(RUN) is None
    runs.record_segment(RUN, segment(0))
    runs.remove_explanation(RUN)
    row = runs.get(RUN)
    assert row and not row.is_explained


@pytest.mark.parametrize(
    ("reason", "end", "is_awaited"),
    [
        ("closed", RunEnd("failed"), True),
        ("abandoned", None, True),
        ("abandoned", RunEnd("lost"), True),
        ("abandoned", RunEnd("unknown"), False),
        ("closed", RunEnd("succeeded"), False),
        ("closed", RunEnd("cancelled"), False),
        ("closed", None, False),
    ],
)
def test_only_failed_and_lost_runs_await_an_explanation(
    runs: RunCatalog, reason: str, end: RunEnd | None, is_awaited: bool
) -> None:
    runs.record_segment(RUN, replace(segment(0, reason), end=end))
    row = runs.get(RUN)
    assert row and not row.awaits_explanation(START_MS)
    runs.record_finalization(RUN, 0, 0, 1, START_MS)
    row = runs.get(RUN)
    assert row and row.awaits_explanation(START_MS) == is_awaited


def test_runs_by_outcome_are_those_of_their_last_segments_newest_first(runs: RunCatalog) -> None:
    failed = RunEnd("failed", 1)
    ends: dict[str, tuple[RunEnd | None, int]] = {
        "a": (failed, 5),
        "b": (failed, 5),
        "c": (None, 7),
        "d": (failed, 9),
        "e": (None, 3),
    }
    for name, (end, second) in ends.items():
        seal = replace(segment(1, "closed" if end else "abandoned"), end=end, appended_ms=START_MS + second * 1000)
        for entry in (segment(0), seal, segment(0)):
            runs.record_segment(Run(f"svc.{name}", "r"), entry)
    runs.record_segment(Run("svc.d", "r"), replace(segment(2), appended_ms=START_MS + 11_000))
    runs.record_segment(Run("svc.c", "r"), replace(segment(2, "closed"), end=failed, appended_ms=START_MS + 12_000))
    assert _names(runs.ended("failed", 0, "", 10)) == ["svc.c", *sorted(["svc.a", "svc.b"], key=_digest, reverse=True)]
    assert _names(runs.ended("lost", 0, "", 10)) == ["svc.e"]
    assert _names(runs.ended("failed", START_MS + 6000, "", 10)) == ["svc.c"]
    first = runs.ended("failed", 0, "", 2)
    assert (len(first.keys), first.is_complete) == (2, False)
    rest = runs.ended("failed", 0, first.keys[-1][0], 2)
    assert ([*_names(first), *_names(rest)], rest.is_complete) == (_names(runs.ended("failed", 0, "", 10)), True)
    assert not runs.ended("failed", START_MS + 50_000, first.keys[-1][0], 2).keys, "the page is older than what is asked for"
    assert not runs.running(START_MS + 50_000, first.keys[-1][0], 2).keys, "and here"
    assert "svc.d" in _names(runs.running(0, "", 10)), "which was reopened"
    wanted = [Run("svc.d", "r"), Run("svc.a", "r"), Run("svc.a", "none")]
    assert {run: row.outcome_at(START_MS) for run, row in runs.get_many(wanted).items()} == {
        wanted[0]: "running",
        wanted[1]: "failed",
    }
    runs.forget(Run("svc.e", "r"))
    assert not runs.ended("lost", 0, "", 10).keys


@pytest.mark.parametrize("limit", [1, 2, 3, 20])
def test_runs_of_one_ms_and_one_shard_are_each_listed_once(runs: RunCatalog, limit: int) -> None:
    """DynamoDB orders them as it likes, and a page may end among them."""
    alike = [run for number in range(2000) if shard_of(run := Run(f"svc.{number}", "r")) == "open#7"][:9]
    for number, run in enumerate(alike):
        runs.record_segment(run, replace(segment(0), appended_ms=START_MS + number // 4))
    listed: list[Run] = []
    before = ""
    while True:
        page = runs.running(0, before, limit)
        listed += [run for _, run in page.keys]
        assert [key for key, _ in page.keys] == sorted((key for key, _ in page.keys), reverse=True)
        if page.is_complete:
            break
        before = page.keys[-1][0]
    assert listed == sorted(alike, key=lambda run: activity_key(run, START_MS + alike.index(run) // 4), reverse=True)


def _names(found: RunKeyPage) -> list[str]:
    return [run.fqn for _, run in found.keys]


def _digest(fqn: str) -> str:
    return activity_key(Run(fqn, "r"), 0)


def test_status_on_the_way(runs: RunCatalog) -> None:
    assert runs.get(RUN) is None
    runs.record_segment(RUN, segment(0))
    assert _status(runs) == ("open", 20, 1)
    runs.record_segment(RUN, replace(segment(1, "closed"), line=2, byte=20))
    assert _status(runs) == ("sealed", 20, 2)
    runs.record_compaction(RUN, 20, 1, START_MS)
    assert _status(runs) == ("sealed", 0, 1)
    runs.record_finalization(RUN, 2, 20, 2, START_MS)
    assert _status(runs) == ("finalized", 0, 0)


def test_a_segment_tells_when_the_one_before_it_came(runs: RunCatalog) -> None:
    assert runs.record_segment(RUN, segment(0)).previous_append_ms is None
    landed = runs.record_segment(RUN, segment(1))
    assert (landed.advanced, landed.previous_append_ms) == (True, START_MS)
    assert not runs.record_segment(RUN, segment(1)).advanced
    assert not runs.record_segment(RUN, segment(0)).advanced


def test_runs_of_a_pipeline_newest_first_each_once(runs: RunCatalog) -> None:
    for number in (3, 0, 4, 1, 2):
        runs.record_segment(Run("svc.pipeline", f"run-{number}"), replace(segment(0), appended_ms=START_MS + number))
    runs.record_segment(Run("svc.other", "run-9"), segment(0))
    seen: list[str] = []
    cursor: str | None = None
    while True:
        page = runs.newest("svc.pipeline", 2, cursor)
        seen += [row.run.run_id for row in page.rows]
        cursor = page.cursor
        if cursor is None:
            break
    assert seen == [f"run-{number}" for number in (4, 3, 2, 1, 0)]
    assert list(runs.newest("svc.none", 10, None).rows) == []


@pytest.mark.parametrize("cursor", ["x", "!!!", "W10", "WzEsMl0", "eyJhIjoxfQ", "WyJhIiwiYiJd", "a" * 3000, "é"])
def test_a_cursor_that_was_not_made_here_is_refused(runs: RunCatalog, cursor: str) -> None:
    with pytest.raises(InvalidInputError, match="cursor"):
        runs.newest("svc.pipeline", 10, cursor)


def test_active_runs_by_age_until_they_are_retired(runs: RunCatalog) -> None:
    for number in range(20):
        runs.record_segment(Run("svc.pipeline", f"run-{number}"), replace(segment(0), appended_ms=START_MS + number))
    assert {row.run.run_id for row in runs.active(START_MS + 5)} == {f"run-{number}" for number in range(5)}
    first = Run("svc.pipeline", "run-0")
    runs.record_segment(first, replace(segment(1), appended_ms=START_MS + 100))
    runs.mark_retired(first, 1)
    assert first in {row.run for row in runs.active(START_MS + 1000)}, "it has grown since"
    runs.mark_retired(first, 2)
    assert first not in {row.run for row in runs.active(START_MS + 1000)}
    runs.record_segment(first, segment(1))
    assert first not in {row.run for row in runs.active(START_MS + 10**6)}, "a late duplicate does not wake it"


def test_threads_do_not_lose_the_highest(runs: RunCatalog, kind: str) -> None:
    """moto's conditional writes are not atomic between threads, so there one thread does it all, in a bad order."""
    order = list(range(24))[::-1]
    if kind == "moto":
        for number in order:
            runs.record_segment(RUN, segment(number))
    else:
        threads = [threading.Thread(target=runs.record_segment, args=(RUN, segment(number))) for number in order]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    row = runs.get(RUN)
    assert row and (row.segments, row.lines, row.started_ms) == (24, 48, START_MS)


def _status(runs: RunCatalog) -> tuple[str, int, int]:
    row = runs.get(RUN)
    assert row
    return row.status, row.pending_bytes, row.pending_segments


def test_a_finished_log_is_a_compacted_one_unless_partial_txt_reaches_further(runs: RunCatalog) -> None:
    runs.record_segment(RUN, segment(4, "abandoned"))
    runs.record_compaction(RUN, 20, 2, START_MS)
    runs.record_finalization(RUN, 8, 80, 5, START_MS)
    assert _reach(runs) == (5, 80, 5)
    runs.record_compaction(RUN, 100, 7, START_MS)
    runs.record_finalization(RUN, 9, 90, 6, START_MS)
    assert _reach(runs) == (7, 100, 6)
    runs.record_finalization(RUN, 8, 80, 5, START_MS)
    runs.record_compaction(RUN, 20, 2, START_MS)
    assert _reach(runs) == (7, 100, 6), "late ones"


@pytest.mark.parametrize("order", [1, -1])
def test_objects_of_openmetadata_are_as_they_were_written_last(runs: RunCatalog, order: int) -> None:
    versions = [(10, START_MS, False), (30, START_MS + 2000, False), (40, START_MS + 9000, True)]
    for size, at_ms, final in versions[::order]:
        runs.record_legacy_artifact(RUN, size, at_ms, final=final)
    row = runs.get(RUN)
    assert row and (row.segments, row.final_segments, row.compacted_segments, row.compacted_bytes) == (0, 0, 0, 40)
    assert (row.started_ms, row.last_append_ms) == (START_MS + 9000, START_MS + 9000)
    runs.record_segment(RUN, segment(0))
    runs.record_legacy_artifact(RUN, 50, START_MS + 99_000, final=True)
    row = runs.get(RUN)
    assert row and (row.segments, row.started_ms, row.compacted_bytes) == (1, START_MS, 40), "where segments are, they count"


def _reach(runs: RunCatalog) -> tuple[int, int, int]:
    row = runs.get(RUN)
    assert row
    return row.compacted_segments, row.compacted_bytes, row.final_segments

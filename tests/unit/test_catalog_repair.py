"""Rows of runs rebuilt from S3 alone equal those of the live system, after any loss or damage and with concurrent writers."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from chalicelib.aws.run_catalog import deleted_item, row_of
from chalicelib.aws.segment_index import entry_of_row, segment_rows
from chalicelib.catalog.runs import shard_of
from chalicelib.deadline import Deadline
from chalicelib.errors import RunDeletedError
from chalicelib.ports import PutOptions, Run, RunEnd, SegmentEntry, run_key
from chalicelib.runlog.artifact import artifact_metadata
from chalicelib.runlog.batch import Batch
from chalicelib.runlog.deletion_marks import DeletionMark, DeletionOrder
from chalicelib.runlog.segment import metadata_of
from glue_jobs.catalog.catalog_repair import CORRECT, FAILED, GONE, REPAIRED
from glue_jobs.catalog.deletion_marks import restore_marks
from glue_jobs.catalog.files import register_logs
from tests.faults.interception import AFTER, BEFORE, Crash, Intercepted, StopAt
from tests.rebuild_harness import KEEP_S, Items, LiveSystem, live_through
from tests.world import RUN, START_MS

OTHER = Run("svc.pipeline", "another")


def check(live: LiveSystem, items: Items) -> None:
    """Asserts that the items equal those of the live system."""
    assert {run: row_of(item) for run, item in items.runs.items()} == {run: row for run in live.runs if (row := live.row(run))}
    assert {run for run, item in items.runs.items() if "activity_shard" in item} == live.active()
    ended = {run: (row.outcome_at(START_MS), row.activity_key) for run in live.runs if (row := live.row(run)) and row.seal}
    assert {run: (item["outcome"], item["ended_at"]) for run, item in items.runs.items() if "ended_at" in item} == ended
    assert items.rows == live.rows()


@pytest.mark.sampled(default=6)
@pytest.mark.parametrize("seed", range(40))
def test_lost_tables_are_made_as_the_live_system_keeps_them(seed: int) -> None:
    print(f"seed: {seed}")
    live, items = live_through(seed), Items()
    results = [live.repairer(items).repair(run) for run in live.runs]
    assert [(result.problems, result.unknown) for result in results] == [([], 0)] * len(results)
    check(live, items)
    again = [live.repairer(items).repair(run) for run in live.runs]
    assert {result.outcome for result in again} <= {CORRECT}, again


@pytest.mark.parametrize(("value", "kept"), [(START_MS + 9, START_MS + 9), ("x", 0), (True, 0)])
def test_heartbeat_of_a_row_is_kept_unless_it_is_damaged(value: object, kept: int) -> None:
    live, items = LiveSystem(), Items()
    live.append(RUN, "one\n")
    live.notify()
    live.repairer(items).repair(RUN)
    items.runs[RUN] |= {"alive_ms": value, "lines": 7}
    live.repairer(items).repair(RUN)
    row = row_of(items.runs[RUN])
    assert (row.alive_ms, row.lines) == (kept, 1)
    assert live.repairer(items).repair(RUN).outcome == CORRECT


def failed_run(live: LiveSystem, items: Items) -> None:
    """A failed run that the schedule has explained, with the live system's row."""
    live.start(RUN, "a")
    live.append(RUN, "ERROR boom\n")
    live.close(RUN)
    live.notify()
    live.repairer(items).repair(RUN)
    for _ in range(3):
        live.world.clock.advance(1300)
        live.tick()
    live.repairer(items).repair(RUN)
    row = live.catalog.get(RUN)
    assert row and row.is_explained and "boom" in row.explanation
    items.runs[RUN] |= {"explained_segments": row.explained_segments, "explanation": row.explanation}


@pytest.mark.parametrize("dry_run", [False, True])
def test_row_of_an_explained_run_is_right(dry_run: bool) -> None:
    live, items = LiveSystem(), Items()
    failed_run(live, items)
    before = items.snapshot()
    result = live.repairer(items, dry_run=dry_run).repair(RUN)
    assert (result.outcome, result.differences, result.rows, items.snapshot()) == (CORRECT, [], {}, before)


def test_report_of_wrong_rows_has_names_and_numbers_without_text() -> None:
    live, items = LiveSystem(), Items()
    failed_run(live, items)
    items.runs[RUN] |= {"lines": 7, "explained_segments": 7, "seal": "boom", "end": {"exception": "boom"}}
    del items.runs[RUN]["bytes"]
    result = live.repairer(items).repair(RUN)
    (difference,) = result.differences
    names = "lines=7, not 1 bytes=None, not 11 seal end explained_segments=7, not None explanation"
    assert difference == f"runs wrong: {RUN.fqn}/{RUN.run_id} {names}"
    assert live.repairer(items).repair(RUN).outcome == CORRECT


def test_report_of_a_foreign_error_has_its_class_and_place_alone() -> None:
    live, items = LiveSystem(), Items()

    def gate(operation: str, call: Callable[[], Any]) -> Any:
        raise ValueError("text of a log")

    result = live.repairer(items, port=lambda inner: Intercepted(inner, gate)).repair(RUN)
    assert result.outcome == FAILED
    assert re.fullmatch(rf"{RUN.fqn}/{RUN.run_id}: ValueError at \w+\.py:\d+", *result.problems)


def test_run_that_awaits_its_explanation_stays_active() -> None:
    """Or the bundling of its sidecars: S3 does not show what the schedule still has to do."""
    live, items = LiveSystem(), Items()
    failed_run(live, items)
    items.runs[RUN] = {name: value for name, value in items.runs[RUN].items() if not name.startswith("expla")}
    items.runs[RUN]["activity_shard"] = shard_of(RUN)
    before = items.snapshot()
    assert live.repairer(items).repair(RUN).outcome == CORRECT
    assert items.snapshot() == before
    items.runs[RUN]["activity_shard"] = "open#x"
    assert live.repairer(items).repair(RUN).outcome == REPAIRED
    assert "activity_shard" not in items.runs[RUN]


@pytest.mark.sampled(default=10)
@pytest.mark.parametrize("seed", range(25))
def test_damaged_rows_are_put_right_and_right_ones_are_left(seed: int) -> None:
    print(f"seed: {seed}")
    live, items, chance = live_through(seed, steps=40), Items(), random.Random(seed)
    for run in live.runs:
        live.repairer(items).repair(run)
    right = items.snapshot()
    for _ in range(chance.randint(1, 12)):
        damage(items, chance)
    for run in live.runs:
        live.repairer(items, dry_run=True).repair(run)
    damaged = items.snapshot()
    results = [live.repairer(items).repair(run) for run in live.runs]
    assert items.snapshot() == right
    assert any(result.outcome == REPAIRED for result in results) == (damaged != right)


def damage(items: Items, chance: random.Random) -> None:
    """Delete or falsify a row: behind, ahead, of the wrong type, or of an unrelated run."""
    table: dict[Any, Any] = chance.choice([items.runs, items.rows])
    if not table:
        return
    key = chance.choice(sorted(table, key=str))
    row = table[key]
    names = [name for name in row if name not in ("fqn", "run_id", "run", "at")]
    match chance.choice(["gone", "another", "lacks", "more", "twin"]):
        case "gone":
            del table[key]
        case "another":
            name = chance.choice(names)
            row[name] = chance.choice([row[name], 0, -1, 10**6, 2**40, "x", None, [1], {"a": 1}])
        case "lacks":
            del row[chance.choice(names)]
        case "more":
            row["failures"] = 3
        case "twin" if table is items.rows:
            at = chance.choice(["0000000000000001#0000000000", "9" * 16 + "#" + "9" * 10, "key#k-0", "x"])
            table[key[0], at] = row | {"at": at}


def test_a_row_that_is_moved_meanwhile_is_not_set_back() -> None:
    live, items = LiveSystem(), Items()
    live.append(RUN, "one\n")
    moved: list[str] = []

    def gate(operation: str, call: Callable[[], Any]) -> Any:
        if operation == "replace_run" and len(moved) < 3:
            moved.append(operation)
            items.runs.pop(RUN, None)
            live.append(RUN, "more\n")
            live.notify()
            assert live.repairer(items).repair(RUN).outcome == REPAIRED  # as ingestion would change it
        return call()

    result = live.repairer(items, port=lambda inner: Intercepted(inner, gate)).repair(RUN)
    assert result.outcome in (CORRECT, REPAIRED)
    check(live, items)
    assert items.runs[RUN]["segments"] == 2 and len(moved) == 1, "the second look found it right"


def expire(live: LiveSystem, left: str) -> None:
    """Delete all objects except ``logs.txt`` and those of ``left``."""
    store, layout = live.world.store, live.world.layout
    for key in list(store._objects):
        if not key.endswith("/logs.txt") and not (left == "entries" and key.startswith(layout.all_retired(RUN))):
            store.delete(key)
    if left == "partial.txt":
        store.put(layout.partial(RUN), b"line 0\n", PutOptions(artifact_metadata(1, 7, 1, 1)))
    if left == "a segment":
        entry = SegmentEntry(1, "data", 1, 1, 7, 1, 7, "s", 1, "d", START_MS)
        store.put(layout.segment(RUN, 1), b"line 1\n", PutOptions(metadata_of(entry)))


_OF_SEAL = ("segments", "lines", "bytes", "epoch", "seal", "end", "outcome", "ended_at", "activity_shard")


class Ingestion:
    """Changes a run's row as ingestion does, segment by segment: one update of one group of attributes, forward only."""

    def __init__(self, live: LiveSystem, items: Items, run: Run) -> None:
        self.live, self.items, self.run, self.landed = live, items, run, 0

    def append(self) -> None:
        self.live.append(self.run, f"line {self.landed}\n")
        self.live.notify()

    def land(self) -> None:
        """Ingest the next segment for which no notification has come."""
        (entry,) = self.live.world.index.rows_from(self.run, 0, 0, 10_000)[self.landed : self.landed + 1]
        self.landed += 1
        row = self.items.runs.setdefault(self.run, {"fqn": self.run.fqn, "run_id": self.run.run_id})
        row["started_ms"] = min(row.get("started_ms", entry.appended_ms), entry.appended_ms)
        if row.get("segments", 0) <= entry.sequence:
            row |= {
                "segments": entry.sequence + 1, "lines": entry.end_line, "bytes": entry.end_byte, "epoch": entry.epoch,
                "seal": entry.reason, "last_append_ms": entry.appended_ms, "expires_at": entry.appended_ms // 1000 + KEEP_S,
                "activity_shard": shard_of(self.run),
            }  # fmt: skip


STREAM_S = 60


@pytest.mark.parametrize("backlog", [0, 40])
@pytest.mark.parametrize("lost", ["row", "first line's time", "artifact", "nothing", "behind", "ahead"])
def test_row_of_a_run_with_continuous_appends_is_put_right(lost: str, backlog: int) -> None:
    """For 60 s a segment is added at every call of the job. ``backlog``: notifications that are still outstanding at its start."""
    live, items = LiveSystem(), Items()
    ingestion = Ingestion(live, items, RUN)
    for _ in range(50):
        ingestion.append()
        live.world.clock.advance(1)
    live.tick()
    assert live.repairer(items).repair(RUN).outcome == REPAIRED
    ingestion.landed = 50 - backlog
    row = items.runs[RUN]
    match lost:
        case "row":
            del items.runs[RUN]
        case "first line's time":
            row["started_ms"] += 10**6
        case "artifact":
            del row["compacted_segments"], row["compacted_bytes"]
        case "behind":
            row |= {"segments": 3, "lines": 3}
        case "ahead":
            row |= {"segments": 10**9, "lines": 7}
    ends_ms = live.world.clock.now_ms() + STREAM_S * 1000

    def gate(operation: str, call: Callable[[], Any]) -> Any:
        if live.world.clock.now_ms() < ends_ms:
            live.world.clock.advance(0.05)
            ingestion.append()
            ingestion.land()
        return call()

    result = live.repairer(items, port=intercepted(gate), threads=1).repair(RUN)
    assert result.outcome in (CORRECT, REPAIRED), result
    while ingestion.landed < len(live.world.index.rows_from(RUN, 0, 0, 10_000)):
        ingestion.land()
    expected = live.row(RUN)
    assert expected and row_of(items.runs[RUN]) == expected
    assert live.repairer(items, dry_run=True).repair(RUN).rows["runs.wrong"] == 0


def test_run_that_is_let_go_of_meanwhile_stays_let_go_of() -> None:
    live = finished(LiveSystem())
    items, right = Items(), Items()
    live.repairer(right).repair(RUN)
    items.runs[RUN] = right.runs[RUN] | {"activity_shard": shard_of(RUN), "compacted_bytes": 1}

    def gate(operation: str, call: Callable[[], Any]) -> Any:
        if operation == "list":
            items.runs[RUN].pop("activity_shard", None)
        return call()

    assert live.repairer(items, port=intercepted(gate)).repair(RUN).outcome == REPAIRED
    assert items.runs == right.runs


def test_row_that_was_deleted_meanwhile_does_not_come_back() -> None:
    live, items = LiveSystem(), Items()
    live.append(RUN, "one\n")
    live.repairer(items).repair(RUN)
    items.runs[RUN]["lines"] = 5

    def gate(operation: str, call: Callable[[], Any]) -> Any:
        if operation == "change_run":
            items.runs.clear()
            for name in list(live.world.store._objects):
                live.world.store.delete(name)
        return call()

    assert live.repairer(items, port=intercepted(gate)).repair(RUN).outcome == GONE
    assert RUN not in items.runs


def test_row_that_keeps_changing_is_an_error() -> None:
    live, items = LiveSystem(), Items()
    live.append(RUN, "one\n")

    def gate(operation: str, call: Callable[[], Any]) -> Any:
        return False if operation == "replace_run" else call()

    result = live.repairer(items, port=lambda inner: Intercepted(inner, gate)).repair(RUN)
    assert result.outcome == FAILED and "keeps changing" in result.problems[0]


def intercepted(gate: Callable[[str, Callable[[], Any]], Any]) -> Callable[[Any], Any]:
    return lambda inner: Intercepted(inner, gate)


@pytest.mark.parametrize("how", ["error", "crash"])
@pytest.mark.parametrize("moment", [BEFORE, AFTER])
def test_stop_at_every_call(moment: str, how: str) -> None:
    number = 0
    live = finished(LiveSystem())
    expected = Items()
    live.repairer(expected).repair(RUN)
    while True:
        items, stop = Items(), StopAt(number, moment, how)
        items.rows[run_key(RUN), "x"] = {"run": run_key(RUN), "at": "x"}
        try:
            result = live.repairer(items, port=intercepted(stop)).repair(RUN)
            assert result.outcome == (FAILED if stop.fired else REPAIRED)
        except Crash:
            pass
        if not stop.fired:
            break
        assert live.repairer(items).repair(RUN).outcome in (REPAIRED, CORRECT)
        assert items.snapshot() == expected.snapshot()
        number += 1
    assert number >= 10


def finished(live: LiveSystem, lines: int = 30) -> LiveSystem:
    """A finalized run with only its seal left; two passes have deleted its segments."""
    for number in range(lines):
        live.append(RUN, f"line {number}\n", key=f"key-{number}" if number % 7 == 0 else None)
    live.notify()
    live.world.clock.advance(1300)
    live.append(RUN, "late\n")
    live.tick()
    live.close(RUN)
    live.notify()
    live.world.clock.advance(1300)
    live.tick()
    assert len(live.world.retired_entries()) == lines + 1 and RUN not in live.active()
    return live


def without_entries(live: LiveSystem) -> LiveSystem:
    """Entries of deleted segments expire, and may be deleted."""
    for found in live.world.store.list(live.world.layout.all_retired(RUN)).objects:
        live.world.store.delete(found.key)
    return live


def test_rows_stay_whose_entries_are_gone() -> None:
    live, items = finished(LiveSystem()), Items()
    live.repairer(items).repair(RUN)
    right = items.snapshot()
    without_entries(live)
    result = live.repairer(items).repair(RUN)
    assert (result.outcome, result.unknown, items.snapshot()) == (CORRECT, 31, right)


def test_lost_rows_without_entries_become_one_row_with_landmarks() -> None:
    live, items = finished(LiveSystem(), lines=4), Items()
    for number in range(40):
        live.append(OTHER, "".join(f"{number} {line} {'x' * 1000}\n" for line in range(100)))
    live.close(OTHER)
    live.notify()
    live.world.clock.advance(1300)
    live.tick()
    for found in live.world.store.list(live.world.layout.all_retired(OTHER)).objects:
        live.world.store.delete(found.key)
    result = live.repairer(items).repair(OTHER)
    assert result.unknown == 40 and result.rows == {"segments.missing": 2, "runs.missing": 1}
    mark, seal = (entry_of_row(row) for row in items.segments(OTHER))
    log = b"".join(f"{number} {line} {'x' * 1000}\n".encode() for number in range(40) for line in range(100))
    assert (mark.line, mark.lines, mark.bytes, seal.kind) == (0, 4000, len(log), "seal")
    assert 10 <= len(mark.landmarks) <= 96
    for line, byte in mark.landmarks:
        assert (log.count(b"\n", 0, byte), log[byte - 1 : byte]) == (line, b"\n")
    assert live.repairer(items).repair(OTHER).outcome == CORRECT


@pytest.mark.parametrize("row", ["right", "lost", "without its seal"])
@pytest.mark.parametrize("left", ["nothing", "entries", "a segment", "partial.txt"])
@pytest.mark.parametrize(
    ("end", "outcome", "seal"),
    [(RunEnd("failed", exit_code=3), "failed", "closed"), (None, "unknown", "closed"), (None, "lost", "abandoned")],
)
def test_run_whose_seal_expired_before_its_log_keeps_its_outcome(
    end: RunEnd | None, outcome: str, seal: str, left: str, row: str
) -> None:
    """``left``: objects that remain with ``logs.txt``."""
    live, items = LiveSystem(), Items()
    for number in range(3):
        live.append(RUN, f"line {number}\n")
    live.notify()
    if seal == "closed":
        live.services.finalizer.close(RUN, None, end)
    else:
        live.world.clock.advance(25 * 3600)
        live.sweep()
    live.notify()
    live.world.clock.advance(1300)
    live.tick()
    right = live.row(RUN)
    assert right and (right.status, right.seal, right.outcome_at(0)) == ("finalized", seal, outcome)
    live.repairer(items).repair(RUN)
    expire(live, left)
    match row:
        case "lost":
            items.runs.clear()
        case "without its seal":  # whose notification was lost
            items.runs[RUN] = {name: value for name, value in items.runs[RUN].items() if name not in _OF_SEAL}
    live.repairer(items).repair(RUN)
    item = items.runs[RUN]
    made = row_of(item)
    assert (item["outcome"], item["ended_at"], made.outcome_at(0)) == (outcome, made.activity_key, outcome)
    if row == "right":
        assert made == right
    times = {"started_ms": made.started_ms, "last_append_ms": made.last_append_ms}
    assert made == replace(right, **times) and 0 <= made.last_append_ms - right.last_append_ms <= 1000
    assert ("activity_shard" in item) == (left in ("a segment", "partial.txt")), "whether the schedule has something to remove"
    assert live.repairer(items).repair(RUN).outcome == CORRECT


@pytest.mark.parametrize("is_compacted", [False, True])
def test_reopened_run_whose_segments_expired_has_no_end(is_compacted: bool) -> None:
    """Before its compaction the segments after the seal exist."""
    live, items = LiveSystem(), Items()
    live.append(RUN, "old\n")
    live.notify()
    live.world.clock.advance(25 * 3600)
    live.sweep()
    for number in range(3):
        live.append(RUN, f"reopened {number}\n")
    live.notify()
    if is_compacted:
        live.world.parts().compactor.compact(RUN, Deadline(live.world.clock))
    for found in live.world.store.list(live.world.layout.segments(RUN)).objects:
        if is_compacted or found.key <= live.world.layout.segment(RUN, 1):
            live.world.store.delete(found.key)
    assert live.world.names()[:2] == (["logs.txt", "partial.txt"] if is_compacted else ["logs.txt", "segments/0000000002"])
    live.repairer(items).repair(RUN)
    row, now_ms = row_of(items.runs[RUN]), live.world.clock.now_ms()
    assert (row.seal, row.outcome_at(now_ms)) == ("", "unknown" if is_compacted else "running")
    assert "outcome" not in items.runs[RUN]


@pytest.mark.parametrize("damaged", ["segment", "artifact", "entries", "foreign", "gap", "empty"])
def test_dirty_objects_are_reported_and_other_rows_repaired(damaged: str) -> None:
    live, items = finished(LiveSystem()), Items()
    live.append(OTHER, "one\n")
    live.append(OTHER, "two\n")
    live.append(OTHER, "three\n")
    store, layout = live.world.store, live.world.layout
    match damaged:
        case "segment":
            store.put(layout.segment(OTHER, 1), b"two\n", PutOptions({"kind": "data", "epoch": "x"}))
        case "artifact":
            store.put(layout.partial(OTHER), b"one\n", PutOptions({"next-segment": "many"}))
        case "entries":
            store.put(layout.retired(OTHER, "A" * 11), b"\x1f\x8bnothing", PutOptions())
        case "foreign":
            store.put(layout.run_prefix(OTHER) + "notes/readme.md", b"", PutOptions())
        case "gap":
            store.delete(layout.segment(OTHER, 1))
        case "empty":
            store.put(layout.segment(OTHER, 1), b"", PutOptions())
    result = live.repairer(items).repair(OTHER)
    assert result.outcome == REPAIRED and len(result.problems) in (1, 2), result
    assert items.runs[OTHER]["lines"] == 3
    assert live.repairer(items).repair(RUN).problems == []


def test_rows_of_runs_that_are_gone_are_removed_when_asked_and_old() -> None:
    live, items = finished(LiveSystem()), Items()
    live.repairer(items).repair(RUN)
    for name in list(live.world.store._objects):
        live.world.store.delete(name)
    before = items.snapshot()
    assert live.repairer(items).repair(RUN).outcome == GONE and items.snapshot() == before
    assert live.repairer(items, prune=True).repair(RUN).outcome == GONE and items.snapshot() == before, "it is young"
    live.world.clock.advance(3600)
    assert live.repairer(items, prune=True, dry_run=True).repair(RUN).rows["runs.extra"] == 1 and items.snapshot() == before
    assert live.repairer(items, prune=True).repair(RUN).rows["runs.extra"] == 1
    assert items.snapshot() == ({}, {})


def test_deleted_run_is_listed_by_nothing_while_its_last_objects_stay() -> None:
    """Neither notifications of its deletion nor a rebuild of runs or files adds it to a list; its tail and its emptied log remain
    for minutes."""
    live, items = finished(LiveSystem()), Items()
    live.world.clock.advance(1)
    files = live.services.pipeline_files
    assert files.delete("svc", RUN.fqn, Deadline(live.world.clock)).runs == 1
    live.notify()
    assert live.world.names(RUN), "nothing is left that a rebuild could find"
    with pytest.raises(RunDeletedError):
        live.row(RUN)
    assert live.repairer(items).repair(RUN).problems == []
    assert items.runs == {} and items.rows == {}
    assert [result["counts"]["file_gone"] for result in register_logs(live.services, [RUN], dry_run=False)] == [1]


@pytest.mark.behavior("A rebuild restores the marks of deleted runs.")
def test_rebuild_restores_the_mark_that_refuses_a_deleted_run() -> None:
    live, items = finished(LiveSystem()), Items()
    live.services.removal.delete(RUN, DeletionOrder("ada"), Deadline(live.world.clock))
    live.world.clock.advance(1300)
    live.services.removal.resume(Deadline(live.world.clock))
    live.world.index.clear()
    live.catalog.forget(RUN)
    assert restore_marks(live.services, lambda fqn: fqn != RUN.fqn) == 0
    assert restore_marks(live.services, lambda fqn: True) == 1
    with pytest.raises(RunDeletedError):
        live.services.writer.append(RUN, Batch.from_text("late\n"))
    with pytest.raises(RunDeletedError):
        live.row(RUN)
    items.runs[RUN] = deleted_item(RUN, START_MS)
    items.put_segments(segment_rows(RUN, DeletionMark(RUN.fqn, RUN.run_id, 1, "ada").entry(), KEEP_S))
    live.world.clock.advance(10**6)
    before = items.snapshot()
    assert live.repairer(items, prune=True).repair(RUN).outcome == CORRECT and items.snapshot() == before


def test_a_run_of_thousands_of_one_line_segments() -> None:
    live, items = LiveSystem(), Items()
    count = 3000
    for number in range(count):
        entry = SegmentEntry(number, "data", 1, number, 2 * number, 1, 2, "s", number, "d", START_MS + number)
        live.world.store.put(live.world.layout.segment(RUN, number), b"x\n", PutOptions(metadata_of(entry)))
    live.world.store.calls.clear()
    result = live.repairer(items).repair(RUN)
    assert result.rows == {"runs.missing": 1, "segments.missing": count} and result.problems == []
    assert live.world.store.calls == {"list": count // 1000, "head": count}
    assert items.runs[RUN]["lines"] == count == len(items.rows)

"""Repairs the catalog rows of one run from S3, while appends continue.

Rows are read **before** S3, so a row that S3 then lacks is wrong. If ingestion or a schedule changes the run's row meanwhile, its
change is merged with the state on S3 (``glue_jobs.catalog.row_merging``). Only the remaining differences are written, on the condition that the
row has not changed since.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from random import random
from types import NoneType
from typing import Any

from chalicelib.aws.segment_index import entry_of_row, segment_rows
from chalicelib.catalog.runs import shard_of
from chalicelib.errors import StoreUnavailableError
from chalicelib.ingestion.run_objects import known_since_ms
from chalicelib.ports import DELETED, Clock, ObjectStore, Run, SegmentEntry
from chalicelib.runlog.compaction import RETIRABLE_MS
from chalicelib.runlog.layout import Layout
from glue_jobs.catalog.row_merging import is_ahead, merge_forward, names_to_change
from glue_jobs.catalog.run_inspection import RunInspection, RunInspector, StoredArtifact
from glue_jobs.catalog.run_items import RunItems
from glue_jobs.catalog.run_row_builder import ArtifactExtent, RunFacts, run_item
from glue_jobs.job_runtime.summary import error_text

CORRECT, REPAIRED, GONE, FAILED = "right", "mended", "gone", "failed"
"""Results of a run: all rows were correct; rows were repaired; S3 has no objects of the run, and its rows were or may be removed;
failed. The values are those of the job's summary."""
MISSING, WRONG, EXTRA = "missing", "wrong", "extra"
"""Kinds of differences."""
RUNS, SEGMENTS = "runs", "segments"
ATTEMPTS = 8
"""Reads of S3 until the repair gives up."""
WRITES = 32
"""Attempts to write a run's row before S3 is read again."""
_PAUSE_S = 0.05
MAX_REPORTED = 20
Item = dict[str, Any]
_ROWS_AT_ONCE = 250


@dataclass(slots=True)
class RunRepair:
    """The result for a run. ``rows``: number of differences by ``table.kind``; ``unknown``: segments of which only the bytes are
    left; ``differences``: the first ones, as text without text of logs."""

    run: Run
    outcome: str = CORRECT
    rows: Counter[str] = field(default_factory=Counter)
    unknown: int = 0
    bytes: int = 0
    problems: list[str] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)
    noted: set[tuple[str, str]] = field(default_factory=set)

    def note(self, table: str, kind: str, at: str = "", what: str = "") -> None:
        """Record a difference; each row is counted once."""
        self.outcome = REPAIRED
        if (table, at) in self.noted:
            return
        self.noted.add((table, at))
        self.rows[f"{table}.{kind}"] += 1
        if len(self.differences) < MAX_REPORTED:
            self.differences.append(f"{table} {kind}: {self.run.fqn}/{self.run.run_id} {at}{what}".rstrip())


@dataclass(frozen=True, slots=True)
class RunRepairer:
    """``keep_s``: as in the catalog. ``tables``: the tables to repair. ``prune``: remove the rows of runs without objects on S3
    whose last sign of life is older than ``grace_ms``. ``threads``: concurrent requests. ``events``: rebuilds the index of a
    run's events, with its segment rows."""

    items: RunItems
    store: ObjectStore
    layout: Layout
    clock: Clock
    keep_s: int
    tables: frozenset[str] = frozenset([RUNS, SEGMENTS])
    threads: int = 8
    prune: bool = False
    grace_ms: int = 3_600_000
    dry_run: bool = False
    events: Callable[[Run], object] | None = None

    def repair(self, run: Run) -> RunRepair:
        """One GetItem, one Query and the requests of ``RunInspector``; writes for the rows that differ. Idempotent; an error is
        part of the result."""
        try:
            return self._repaired(run)
        except Exception as error:  # a failed run does not stop other runs
            return RunRepair(run, FAILED, problems=[f"{run.fqn}/{run.run_id}: {error_text(error)}"[:500]])

    def _repaired(self, run: Run) -> RunRepair:
        inspector, repair_ = RunInspector(self.store, self.layout, run, self.threads), RunRepair(run)
        for _ in range(ATTEMPTS):
            seen, rows = self.items.run(run), self.items.segments(run)
            if DELETED in {(seen or {}).get("seal"), *(row.get("reason") for row in rows)}:
                return repair_  # its marks refuse everything else (decision 0058)
            inspection = inspector.inspect()
            repair_.problems = [f"{run.fqn}/{run.run_id}: {problem}" for problem in inspection.problems]
            if not inspection.exists:
                return self._gone(repair_, seen, rows)
            repair_.unknown = sum(map(len, inspection.unknown))
            repair_.bytes = inspection.tail.end_byte if inspection.tail else 0
            if SEGMENTS in self.tables:
                self._repair_segments(repair_, inspector, inspection, rows)
            if RUNS not in self.tables or self._repair_run(repair_, inspection, seen):
                self._index_events(run)
                return repair_
        raise StoreUnavailableError(f"the run's row keeps changing tries={ATTEMPTS}")

    def _index_events(self, run: Run) -> None:
        """Called last: the row of a busy run changes while its events are read."""
        if self.events and SEGMENTS in self.tables and not self.dry_run:
            self.events(run)

    def _repair_run(self, repair_: RunRepair, inspection: RunInspection, seen: Item | None) -> bool:
        """False if S3 must be read again."""
        item = run_item(repair_.run, self._facts(repair_.run, inspection, seen), self.keep_s)
        if seen is None:
            repair_.note(RUNS, MISSING)
        elif (right := merge_forward(item, seen, seen)) != seen:
            repair_.note(RUNS, WRONG, what=_difference_text(seen, right))
        else:
            return True
        return self.dry_run or self._write_run(repair_.run, seen, item)

    def _write_run(self, run: Run, seen: Item | None, item: Item) -> bool:
        """False if S3 must be read again: the row is gone, its wrong attributes keep changing, or it was ahead of S3 and may have
        missed changes since."""
        now = seen
        for attempt in range(WRITES):
            merged = merge_forward(item, seen, now)
            names = names_to_change(now or {}, merged)
            if not names or self._is_written(run, now, merged, names):
                return not is_ahead(now or {}, merged)
            self.clock.sleep(_PAUSE_S * min(attempt, 8) * random())
            now = self.items.run(run)
            if now is None and seen is not None:
                return False
        return False

    def _is_written(self, run: Run, now: Item | None, merged: Item, names: Sequence[str]) -> bool:
        return self.items.replace_run(run, None, merged) if now is None else self.items.change_run(run, now, merged, names)

    def _facts(self, run: Run, inspection: RunInspection, seen: Item | None) -> RunFacts:
        entries = [inspection.entries[number] for number in sorted(inspection.entries)]
        partial, logs = _reached(inspection.partial), _reached(inspection.logs)
        first = entries[0] if entries else None
        is_whole = first is not None and (first.sequence, first.byte) == (0, 0)
        since_ms = (seen or {}).get("started_ms", 0)
        known = since_ms if isinstance(since_ms, int) and not is_whole and (entries or inspection.base) else 0
        alive_ms = (seen or {}).get("alive_ms", 0)
        alive = alive_ms if type(alive_ms) is int else 0
        if seal := inspection.expired_seal:
            entries.append(_at_its_time(seal, seen or {}))
        is_active = (seen or {}).get("activity_shard") == shard_of(run)  # the schedule decides when it is done with a run
        return RunFacts(entries, partial, logs, not is_active and self._is_settled(inspection), known, inspection.start, alive)

    def _is_settled(self, inspection: RunInspection) -> bool:
        """Finalized with nothing left to delete: the schedules no longer process the run, or stop at their next check."""
        if inspection.expired_seal:
            return not inspection.partial and not inspection.live
        tail, logs = inspection.tail, inspection.logs
        if (
            tail is None
            or logs is None
            or logs.artifact.lines is None
            or inspection.partial
            or list(inspection.live) != [tail.sequence]
        ):
            return False
        return logs.artifact.next_segment > tail.sequence and self.clock.now_ms() - tail.appended_ms >= RETIRABLE_MS

    def _repair_segments(
        self, repair_: RunRepair, inspector: RunInspector, inspection: RunInspection, rows: Sequence[Item]
    ) -> None:
        expected = {item["at"]: item for item in self._expected_rows(repair_.run, inspector, inspection, rows)}
        there = {row["at"]: row for row in rows}
        put = [item for at, item in expected.items() if there.get(at) != item]
        for item in put:
            repair_.note(SEGMENTS, WRONG if item["at"] in there else MISSING, item["at"])
        extra = [row for at, row in there.items() if at not in expected and not self._has_expired(row)]
        for row in extra:
            repair_.note(SEGMENTS, EXTRA, row["at"])
        if not self.dry_run:
            self._put(put)
            for row in extra:
                self.items.remove_segment(row)

    def _put(self, rows: Sequence[Item]) -> None:
        batches = [rows[first : first + _ROWS_AT_ONCE] for first in range(0, len(rows), _ROWS_AT_ONCE)]
        if len(batches) > 1:
            with ThreadPoolExecutor(self.threads) as threads:
                list(threads.map(self.items.put_segments, batches))
        elif batches:
            self.items.put_segments(rows)

    def _expected_rows(self, run: Run, inspector: RunInspector, inspection: RunInspection, rows: Sequence[Item]) -> Iterator[Item]:
        entries = list(inspection.entries.values())
        for numbers in inspection.unknown:
            known = _covering(inspection, numbers, rows)
            mark = None if known else inspector.placeholder_entry(inspection, numbers)
            entries += known or ([mark] if mark else [])
        for entry in entries:
            yield from (item for item in segment_rows(run, entry, self.keep_s) if not self._has_expired(item))

    def _has_expired(self, row: Item) -> bool:
        expires_at = row.get("expires_at")
        return isinstance(expires_at, int) and expires_at <= self.clock.now_ms() // 1000

    def _gone(self, repair_: RunRepair, seen: Item | None, rows: Sequence[Item]) -> RunRepair:
        """S3 has no objects: remove the rows, with ``prune`` and if none of them is recent."""
        signs = [row.get(name, 0) for row in [seen or {}, *rows] for name in ("last_append_ms", "appended_ms")]
        newest_ms = max((sign for sign in signs if isinstance(sign, int)), default=0)
        if not self.prune or newest_ms > self.clock.now_ms() - self.grace_ms or not (seen or rows):
            repair_.outcome = CORRECT if not (seen or rows) else GONE
            return repair_
        for table, row in [*([(RUNS, seen)] if seen else []), *((SEGMENTS, row) for row in rows)]:
            repair_.note(table, EXTRA, row.get("at", ""))
        repair_.outcome = GONE
        if not self.dry_run:
            for row in rows:
                self.items.remove_segment(row)
            if seen:
                self.items.replace_run(repair_.run, seen, None)
        return repair_


def _reached(stored: StoredArtifact | None) -> ArtifactExtent | None:
    if stored is None:
        return None
    artifact = stored.artifact
    written_ms = stored.modified_ms if artifact.lines is None else known_since_ms(stored.modified_ms)
    return ArtifactExtent(artifact.bytes, artifact.lines, artifact.next_segment, written_ms, artifact.zone)


def _at_its_time(seal: SegmentEntry, seen: Item) -> SegmentEntry:
    """An expired seal with the time from the row; if that is lost, with that of ``logs.txt``, which was written soon after it."""
    written_ms, time_ms = known_since_ms(seal.appended_ms), seen.get("last_append_ms")
    if seen.get("segments") == seal.sequence + 1 and isinstance(time_ms, int) and 0 < time_ms < written_ms:
        return replace(seal, appended_ms=time_ms)
    return replace(seal, appended_ms=written_ms)


def _covering(inspection: RunInspection, numbers: range, rows: Sequence[Item]) -> list[SegmentEntry]:
    """The table's entries for segments that S3 no longer has, if they are complete and fit the entries before and after;
    otherwise none."""
    by_number: dict[int, SegmentEntry] = {}
    for row in rows:
        try:
            entry = entry_of_row(row)
        except (KeyError, TypeError, ValueError):
            continue
        if entry.sequence in numbers:
            by_number[entry.sequence] = entry
    before, after = inspection.entries.get(numbers.start - 1), inspection.entries.get(numbers.stop)
    at = (before.end_line, before.end_byte) if before else (0, 0)
    for entry in (by_number[number] for number in sorted(by_number)):
        if (entry.line, entry.byte) != at:
            return []
        at = (entry.end_line, entry.end_byte)
    return list(by_number.values()) if after is None or at == (after.line, after.byte) else []


def _difference_text(seen: Item, right: Item) -> str:
    """The attributes that differ, with their values if these are numbers: any other value may quote the log."""
    names = [name for name in {**right, **seen} if seen.get(name) != right.get(name)]
    return " ".join(f"{name}{_numbers_text(seen.get(name), right.get(name))}" for name in names)[:300]


def _numbers_text(seen: object, right: object) -> str:
    return f"={seen}, not {right}" if {type(seen), type(right)} <= {int, NoneType} else ""

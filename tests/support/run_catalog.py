"""``RunCatalog`` in memory: the rows, conditions and order of the DynamoDB table, for tests and for runs without AWS."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from threading import Lock

from chalicelib.aws.run_catalog import read_cursor, write_cursor
from chalicelib.catalog.runs import RunKeyPage, RunPage, RunRow, SegmentUpdate, merge_newest, outcome_of_end, shard_of
from chalicelib.errors import RunDeletedError
from chalicelib.ports import DELETED, MAX_SEQUENCE, Run, RunStart, SegmentEntry
from tests.support.failures import Failures, can_fail


class InMemoryRunCatalog:
    """Rows in a dictionary under one lock."""

    def __init__(self) -> None:
        self.failures = Failures()
        self._rows: dict[Run, RunRow] = {}
        self._active: set[Run] = set()
        self._lock = Lock()

    @can_fail
    def record_start(self, run: Run, start: RunStart) -> None:
        """See ``RunCatalog``."""
        with self._lock:
            old = self._rows.get(run)
            if self._is_deleted(run):
                return
            if old is None or not old.last_append_ms:
                self._active.add(run)
                self._rows[run] = RunRow(run, start=start, started_ms=start.started_ms, last_append_ms=start.registered_ms)
            else:
                self._rows[run] = replace(old, start=start, started_ms=min(old.started_ms or start.started_ms, start.started_ms))

    @can_fail
    def record_segment(self, run: Run, entry: SegmentEntry) -> SegmentUpdate:
        """See ``RunCatalog``."""
        with self._lock:
            old = self._rows.get(run)
            if self._is_deleted(run):
                return SegmentUpdate(False, entry.appended_ms)
            row = old or RunRow(run, started_ms=entry.appended_ms)
            row = replace(row, started_ms=min(row.started_ms or entry.appended_ms, entry.appended_ms))
            if row.segments > entry.sequence:
                self._rows[run] = row
                return SegmentUpdate(False, entry.appended_ms)
            self._active.add(run)
            self._rows[run] = replace(
                row,
                segments=entry.sequence + 1,
                lines=entry.end_line,
                bytes=entry.end_byte,
                epoch=entry.epoch,
                seal=entry.reason,
                last_append_ms=entry.appended_ms,
                end=entry.end,
                segment_zone=entry.zone,
            )
            is_first = old is None or (old.start is not None and not old.segments)
            return SegmentUpdate(True, None if is_first or old is None else old.last_append_ms or None)

    @can_fail
    def record_compaction(self, run: Run, size: int, next_segment: int, at_ms: int) -> None:
        """See ``RunCatalog``."""

        def change(row: RunRow) -> RunRow:
            if row.compacted_segments >= next_segment:
                return row
            return replace(row, compacted_segments=next_segment, compacted_bytes=size)

        self._change(run, at_ms, change)

    @can_fail
    def record_finalization(self, run: Run, lines: int, size: int, next_segment: int, at_ms: int) -> None:
        """See ``RunCatalog``."""

        def change(row: RunRow) -> RunRow:
            if row.final_segments >= next_segment:
                return row
            row = replace(row, final_segments=next_segment)
            is_further = row.compacted_segments < next_segment
            return replace(row, compacted_segments=next_segment, compacted_bytes=size) if is_further else row

        self._change(run, at_ms, change)

    @can_fail
    def record_legacy_artifact(self, run: Run, size: int, at_ms: int, *, final: bool) -> None:
        """See ``RunCatalog``."""
        with self._lock:
            row = self._rows.get(run, RunRow(run))
            if not row.segments and row.last_append_ms <= at_ms:
                self._rows[run] = replace(row, compacted_bytes=size, started_ms=at_ms, last_append_ms=at_ms)

    @can_fail
    def record_heartbeat(self, run: Run, at_ms: int) -> bool:
        """See ``RunCatalog``."""
        with self._lock:
            row = self._rows.get(run)
            if row is None or row.seal or row.alive_ms > at_ms:
                return False
            self._rows[run] = replace(row, alive_ms=at_ms)
            return True

    @can_fail
    def record_explanation(self, run: Run, next_segment: int, explanation: str) -> None:
        """See ``RunCatalog``."""
        with self._lock:
            row = self._rows.get(run)
            if row and row.segments <= next_segment == row.final_segments > row.explained_segments:
                self._rows[run] = replace(row, explained_segments=next_segment, explanation=explanation)

    @can_fail
    def remove_explanation(self, run: Run) -> None:
        """See ``RunCatalog``."""
        with self._lock:
            if (row := self._rows.get(run)) and row.final_segments and not self._is_deleted(run):
                self._rows[run] = replace(row, explained_segments=row.final_segments, explanation="")

    @can_fail
    def mark_retired(self, run: Run, next_segment: int) -> None:
        """See ``RunCatalog``."""
        with self._lock:
            if run in self._active and self._rows[run].segments <= next_segment:
                self._active.discard(run)

    @can_fail
    def get(self, run: Run) -> RunRow | None:
        """See ``RunCatalog``."""
        with self._lock:
            if self._is_deleted(run):
                raise RunDeletedError(run.fqn, run.run_id)
            return self._rows.get(run)

    @can_fail
    def newest(self, fqn: str, limit: int, cursor: str | None) -> RunPage:
        """See ``RunCatalog``."""
        with self._lock:
            rows = [row for row in self._rows.values() if row.run.fqn == fqn and row.started_ms]
        rows.sort(key=_newest_first, reverse=True)
        if cursor:
            start = read_cursor(cursor)
            rows = [row for row in rows if _newest_first(row) < (start["started_ms"], start["run_id"])]
        page, more = rows[:limit], len(rows) > limit
        return RunPage(page, write_cursor(page[-1].started_ms, page[-1].run.run_id) if more else None)

    @can_fail
    def get_many(self, runs: Sequence[Run]) -> Mapping[Run, RunRow]:
        """See ``RunCatalog``."""
        with self._lock:
            return {run: self._rows[run] for run in runs if run in self._rows and not self._is_deleted(run)}

    @can_fail
    def ended(self, outcome: str, since_ms: int, before: str, limit: int) -> RunKeyPage:
        """See ``RunCatalog``."""
        with self._lock:
            rows = [
                row for row in self._rows.values() if row.seal not in ("", DELETED) and outcome_of_end(row.seal, row.end) == outcome
            ]
        return _key_page(rows, since_ms, before, limit)

    @can_fail
    def running(self, since_ms: int, before: str, limit: int) -> RunKeyPage:
        """See ``RunCatalog``."""
        with self._lock:
            shards: dict[str, list[RunRow]] = {}
            for run in self._active:
                shards.setdefault(shard_of(run), []).append(self._rows[run])
        return merge_newest([_key_page(rows, since_ms, before, limit) for rows in shards.values()], before)

    @can_fail
    def forget(self, run: Run) -> None:
        """See ``RunCatalog``."""
        with self._lock:
            self._rows.pop(run, None)
            self._active.discard(run)

    @can_fail
    def mark_deleted(self, run: Run, at_ms: int) -> None:
        """See ``RunCatalog``."""
        with self._lock:
            last = MAX_SEQUENCE + 1
            self._active.discard(run)
            self._rows[run] = RunRow(
                run, segments=last, compacted_segments=last, final_segments=last, seal=DELETED, last_append_ms=at_ms
            )

    @can_fail
    def active(self, before_ms: int) -> Iterator[RunRow]:
        """See ``RunCatalog``."""
        with self._lock:
            rows = [self._rows[run] for run in self._active]
        yield from (row for row in rows if row.last_append_ms < before_ms)

    def _change(self, run: Run, at_ms: int, change: Callable[[RunRow], RunRow]) -> None:
        with self._lock:
            if self._is_deleted(run):
                return
            row = self._rows.get(run, RunRow(run))
            seen = replace(row, started_ms=row.started_ms or at_ms, last_append_ms=row.last_append_ms or at_ms)
            self._rows[run] = change(seen)

    def _is_deleted(self, run: Run) -> bool:
        return run in self._rows and self._rows[run].seal == DELETED


def _newest_first(row: RunRow) -> tuple[int, str]:
    return row.started_ms, row.run.run_id


def _key_page(rows: Sequence[RunRow], since_ms: int, before: str, limit: int) -> RunKeyPage:
    within = [row for row in rows if row.last_append_ms >= since_ms and (not before or row.activity_key < before)]
    found = RunKeyPage.sorted(((row.activity_key, row.run) for row in within), is_complete=len(within) <= limit)
    return replace(found, keys=found.keys[:limit])

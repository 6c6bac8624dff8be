"""Removes files by age, total bytes and number, as configured in their handler. The oldest go first.

A pass also completes interrupted work: expiring files, and rows that are still staged. It can be stopped anywhere, and repeated.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from chalicelib.deadline import Deadline
from chalicelib.pipelines.files.key_layout import DAY_MS
from chalicelib.pipelines.files.output_sets import OutputSet
from chalicelib.pipelines.files.removal import FileRemoval
from chalicelib.pipelines.files.rows import EXPIRING, OPEN, FileRow, FileRows
from chalicelib.pipelines.files.table import COMMITS, TABLE, rows_of_partition
from chalicelib.pipelines.transactions import apply_write, transact_with_retry
from chalicelib.ports import Clock, Database, Delete, Key, ObjectStore

STILL_OPEN_MS = 12 * 3_600_000
"""An open file without writes for this long has no writer any more: handlers close theirs after hours."""
KEEP_COMMITS_MS = 2 * DAY_MS
"""A writer without a commit for this long is gone, and all its staged rows were settled by a pass."""


@dataclass(slots=True)
class RetentionResult:
    """The result of a pass. ``is_complete``: it reached its end."""

    removed: int = 0
    removed_bytes: int = 0
    settled: int = 0
    remaining: int = 0
    is_complete: bool = True


def due_files(rows: Iterable[FileRow], base: OutputSet, now_ms: int) -> list[FileRow]:
    """The files to remove, oldest first: expiring ones, those whose last event is too old, then the oldest beyond the limits. A
    file that is being written stays."""
    going: list[FileRow] = []
    staying: list[FileRow] = []
    for row in sorted(rows, key=lambda row: (row.contents.to_ms, row.at)):
        is_old = base.keep_ms > 0 and row.contents.to_ms < now_ms - base.keep_ms
        if row.state == EXPIRING or (is_old and not _is_written(row, now_ms)):
            going.append(row)
        else:
            staying.append(row)
    return going + _too_many([row for row in staying if row.contents.size], base, now_ms)


def _too_many(rows: list[FileRow], base: OutputSet, now_ms: int) -> list[FileRow]:
    """Of rows, oldest first, those beyond the limits of number and bytes."""
    count, size = len(rows), sum(row.contents.size for row in rows)
    going = []
    for row in rows:
        is_over = (0 < base.keep_files < count) or (0 < base.keep_bytes < size)
        if not is_over:
            break
        if _is_written(row, now_ms):
            continue
        going.append(row)
        count, size = count - 1, size - row.contents.size
    return going


def _is_written(row: FileRow, now_ms: int) -> bool:
    return (row.state == OPEN or row.staged is not None) and row.changed_ms >= now_ms - STILL_OPEN_MS


class OutputRetention:
    """Passes over the files of one output set. Memory: half a KB a file."""

    def __init__(self, store: ObjectStore, database: Database, clock: Clock) -> None:
        self._database, self._clock = database, clock
        self._removal = FileRemoval(store, database, clock)

    def run(self, base: OutputSet, deadline: Deadline) -> RetentionResult:
        """Remove the files that are due. A Query for 1,000 files, three requests for each that is removed. Raises
        UnavailableError: run it again."""
        done, rows = RetentionResult(), FileRows(self._database)
        files: list[FileRow] = []
        for row in rows.listed(base.name, ""):
            if isinstance(row, FileRow):
                files.append(row)
                done.settled += self._settle(row)
        going = due_files(files, base, self._clock.now_ms())
        for row in going:
            if deadline.remaining_s() <= 0:
                done.is_complete = False
                break
            if self._removal.remove(row):
                done.removed += 1
                done.removed_bytes += row.contents.size
        done.remaining = len(files) - done.removed
        return done

    def forget_writers(self) -> int:
        """Remove the commit numbers of writers that are long gone: only after complete passes over all output sets. Returns how
        many."""
        before_ms = self._clock.now_ms() - KEEP_COMMITS_MS
        old = [row["at"] for row in rows_of_partition(self._database, COMMITS) if row["changed_ms"] < before_ms]
        for first in range(0, len(old), 100):
            transact_with_retry(self._database, self._clock, [Delete(Key(TABLE, COMMITS, at)) for at in old[first : first + 100]])
        return len(old)

    def _settle(self, row: FileRow) -> bool:
        """Write the committed contents of a staged row, if its writer is long gone. A read and a write."""
        if row.changed_ms > self._clock.now_ms() - KEEP_COMMITS_MS // 2 or row.state == EXPIRING:
            return False
        found = FileRows(self._database).reread(row)
        if found is None or found.staged is None:
            return False
        return apply_write(self._database, self._clock, row.written(staged=None)[1])

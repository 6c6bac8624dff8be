"""Commits any number of changed rows with one transaction.

A few rows are written by the checkpoint's transaction itself. More are staged before, a hundred at a time: each row holds its
committed contents and the new ones, with this writer's number. The transaction then writes the number, which commits all of them.
Decision 0029.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from chalicelib.errors import PartitionNotOwnedError, PreconditionFailedError, StoreUnavailableError
from chalicelib.pipelines.files.appendable_object import AppendableFile
from chalicelib.pipelines.files.rows import NOTHING, FileContents, FileRow, FileRows, Staged, commit_write
from chalicelib.pipelines.ports import Fence
from chalicelib.pipelines.transactions import transact_with_retry
from chalicelib.ports import MAX_TRANSACTION_WRITES, Clock, Database, Write

_TRIES = 4
DIRECT_ROWS = 10
"""Rows that are written by the checkpoint's own transaction: several handlers of a pipeline share it."""


class TwoPhaseCommit:
    """The pending commit of one handler. ``writer`` is new in each process."""

    def __init__(self, database: Database, fence: Fence, clock: Clock, writer: str) -> None:
        self._database, self._fence, self._clock, self._writer = database, fence, clock, writer
        self._number = 0
        self._handed: list[tuple[AppendableFile, FileRow]] = []
        self._is_staged = False
        self._is_refused = False

    @property
    def has_uncommitted(self) -> bool:
        """Whether rows were returned and not committed, or rejected."""
        return bool(self._handed) or self._is_refused

    def writes(self, changed: Sequence[tuple[AppendableFile, FileRow]]) -> list[Write]:
        """The transaction's writes for these files and their stored rows. Raises PartitionNotOwnedError if another writer has
        changed a row, UnavailableError."""
        self._is_staged = len(changed) > DIRECT_ROWS or any(row.staged for _, row in changed)
        if self._is_staged:
            for first in range(0, len(changed), MAX_TRANSACTION_WRITES):
                self._stage_rows(changed[first : first + MAX_TRANSACTION_WRITES])
            self._handed = [(file, file.row) for file, _ in changed if file.row]
            return [commit_write(self._writer, self._number + 1, self._clock.now_ms())] if changed else []
        written = [(file, row.written(state=file.state, contents=file.contents)) for file, row in changed]
        self._handed = [(file, row) for file, (row, _) in written]
        return [write for _, (_, write) in written]

    def committed(self) -> None:
        """The transaction was applied: update the files' rows."""
        for file, row in self._handed:
            staged = row.staged
            file.row = replace(row, state=staged.state, contents=staged.contents, staged=None) if staged else row
        self._number += self._is_staged
        self._handed, self._is_staged, self._is_refused = [], False, False

    def _stage_rows(self, changed: Sequence[tuple[AppendableFile, FileRow]]) -> None:
        """Stage rows, except those that are staged already with the same contents."""
        for _ in range(_TRIES):
            staged = [
                (file, row.written(staged=self._staged_of(file), contents=_committed_contents(row)))
                for file, row in changed
                if not self._is_staged_already(file, row)
            ]
            if not staged:
                return
            self._fence()
            try:
                transact_with_retry(self._database, self._clock, [write for _, (_, write) in staged])
            except PreconditionFailedError:
                changed = [(file, self._reread(row)) for file, row in changed]
                continue
            for file, (row, _) in staged:
                file.row = row
            return
        raise StoreUnavailableError("the rows of files keep changing")

    def _staged_of(self, file: AppendableFile) -> Staged:
        return Staged(self._writer, self._number + 1, file.state, file.contents)

    def _is_staged_already(self, file: AppendableFile, row: FileRow) -> bool:
        if row.staged != self._staged_of(file):
            return False
        file.row = row
        return True

    def _reread(self, row: FileRow) -> FileRow:
        """Read a row again after a transaction was rejected: if a response was lost, some rows may be staged by us already.
        Raises if another writer changed it."""
        found = FileRows(self._database).reread(row)
        if (found.version if found else 0) == row.version:
            return row
        if found and found.staged and (found.staged.writer, found.staged.number) == (self._writer, self._number + 1):
            return found
        self._is_refused = True
        raise PartitionNotOwnedError(f"another writer has changed this file path={row.object_key}")


def _committed_contents(row: FileRow) -> FileContents:
    """The committed contents of a file: none for a new one."""
    return row.contents if row.version else NOTHING

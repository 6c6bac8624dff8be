"""Commits one entry of the ledger atomically, with any writer of files.

::

    settle      finish the last committed entry; the state is then N - 1
    plan        _ledger/N.plan: the offset up to which to read, fixed by the first job
    stage       files are written to _staging/N-…/, which readers ignore
    commit      create _ledger/N.json unless it exists: its rows are now in the dataset
    publish     files move to data/, replaced ones and the staging folder are removed

A job that stops before the commit leaves the dataset unchanged: the next one reads the same plan and produces the same rows. If
it stops after the commit, the next job first finishes it. Of two concurrent jobs one commits; the other finds the number taken
and starts over.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from chalicelib.lines.version import LAYOUTS_VERSION
from glue_jobs.dataset.entries import APPEND, REWRITE, Added, DataFile, Entry, Layout, StagedFile, State
from glue_jobs.dataset.files import Files
from glue_jobs.dataset.ledger import Ledger
from glue_jobs.dataset.publication import Publisher, number_of
from glue_jobs.dataset.staged import added_files, staged_files

Stage = Callable[[str], Sequence[StagedFile] | None]
"""Writes the files of the named attempt to the attempt's folder. Returns those that count; None: all that are there, and complete."""


class CommitConflictError(Exception):
    """Another job has committed the same entry. The attempt's files are removed; start over."""


@dataclass(frozen=True, slots=True)
class Change:
    """The content of an entry. ``offset`` None: unchanged. ``counts``: for people."""

    kind: str
    offset: Mapping[str, Any] | None = None
    removed: Sequence[DataFile] = ()
    counts: Mapping[str, int] = field(default_factory=dict)


class Committer:
    """Takes a dataset from one state to the next."""

    def __init__(self, files: Files, layout: Layout) -> None:
        self.ledger = Ledger(files)
        self._files, self._layout = files, layout
        self._publisher = Publisher(files, self.ledger)

    def settled(self) -> State:
        """The newest state, after its entry is completely published. Raises InvalidConfigurationError if the dataset has another
        layout."""
        state = self._publisher.settle()
        self._layout.check(state.layout)
        return state

    def commit(self, state: State, change: Change, stage: Stage | None) -> Entry:
        """Commit and publish the entry after ``state``. ``stage`` None: no files to add. Raises CommitConflictError."""
        number = state.number + 1
        attempt = f"{number:010d}-{uuid.uuid4().hex[:12]}"
        added = self._staged(stage, attempt, change) if stage else ()
        counts = {**change.counts, "files": len(added), **_sizes(each.file for each in added)}
        removed = tuple(file.path for file in change.removed)
        layouts = LAYOUTS_VERSION if change.kind == APPEND else None
        entry = Entry(number, attempt, change.kind, self._layout, change.offset, added, removed, counts, layouts)
        if not self.ledger.commit(entry):
            self._publisher.discard(attempt)
            raise CommitConflictError(f"another job has committed entry {number}")
        self._publisher.publish(entry)
        self.ledger.keep(state.after(entry))
        return entry

    def _staged(self, stage: Stage, attempt: str, change: Change) -> tuple[Added, ...]:
        number = number_of(attempt)
        self._publisher.begin(attempt)
        try:
            staged = stage(attempt)
            added = added_files(staged_files(self._files, attempt) if staged is None else staged, number)
            _check_rows(change, added)
            return added
        except Exception as error:  # any error of Spark
            # The job that takes the number removes all other attempts at it, and a rewrite may remove files that are read here.
            is_overtaken = self.ledger.entry(number) is not None
            self._publisher.discard(attempt)
            if is_overtaken:
                raise CommitConflictError(f"another job has committed entry {number}") from error
            raise


def _sizes(files: Iterable[DataFile]) -> dict[str, int]:
    sizes = [(file.rows, file.bytes) for file in files]
    return {"rows": sum(rows for rows, _ in sizes), "bytes_out": sum(size for _, size in sizes)}


def _check_rows(change: Change, added: Sequence[Added]) -> None:
    before, after = _sizes(change.removed)["rows"], _sizes(each.file for each in added)["rows"]
    if change.kind == REWRITE and before != after:
        raise AssertionError(f"a rewrite must have the rows that it replaces before={before} after={after}")

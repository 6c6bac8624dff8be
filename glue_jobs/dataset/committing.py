"""One entry of the ledger, all of it or nothing, whatever writes the files.

::

    settle      finish what an earlier job has committed; the state behind it is N - 1
    plan        _ledger/N.plan: up to where is read, fixed by whoever comes first
    stage       files are written into _staging/N-…/, which nobody reads
    commit      _ledger/N.json, if there is none: from now on the rows are in the dataset
    publish     the files move to data/, replaced ones are removed, the staging folder goes

Where a job is stopped before the commit, nothing has happened: the next one reads the same plan and has the same rows. Where it is
stopped behind it, the next one finishes it first. Two jobs at once: one commits, the other finds the number taken and begins anew.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from glue_jobs.dataset.entries import REWRITE, Added, DataFile, Entry, Layout, State
from glue_jobs.dataset.files import Files
from glue_jobs.dataset.ledger import Ledger
from glue_jobs.dataset.publication import Publisher, number_of
from glue_jobs.dataset.staged import staged

Stage = Callable[[str], None]
"""Writes the files of an attempt, which is named, into its folder."""


class CommitConflictError(Exception):
    """Another job has committed what this one was at. Nothing is left behind; begin anew."""


@dataclass(frozen=True, slots=True)
class Change:
    """What an entry is to say. ``offset`` None: as before. ``counts``: for people."""

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
        """The newest state, finished. Raises InvalidConfigurationError when the dataset was begun with another layout."""
        state = self._publisher.settle()
        self._layout.check(state.layout)
        return state

    def commit(self, state: State, change: Change, stage: Stage | None) -> Entry:
        """The next entry behind a state, published. ``stage`` None: there are no files to add. Raises OvertakenError."""
        number = state.number + 1
        attempt = f"{number:010d}-{uuid.uuid4().hex[:12]}"
        added = self._staged(stage, attempt, change) if stage else ()
        counts = {**change.counts, "files": len(added), **_sizes(each.file for each in added)}
        removed = tuple(file.path for file in change.removed)
        entry = Entry(number, attempt, change.kind, self._layout, change.offset, added, removed, counts)
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
            stage(attempt)
            added = staged(self._files, attempt, number)
            _check_rows(change, added)
            return added
        except Exception as error:  # whatever Spark says
            # Whoever takes the number removes all other attempts at it, and a rewrite what may be read here.
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

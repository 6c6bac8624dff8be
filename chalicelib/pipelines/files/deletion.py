"""Deletes the logs of a pipeline or a namespace: tombstone, then objects, then rows. After an interruption, the same request
resumes it.

The tombstone ends the generation: from then on none of its files is read, and late events are dropped. A process that was active
before may still write one of its files, so a dead generation is searched again, and counts as swept once nothing is found an hour
later.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from chalicelib.deadline import Deadline
from chalicelib.errors import DeadlineExceededError
from chalicelib.pipelines.files.generations import DeadGeneration, Generations
from chalicelib.pipelines.files.key_layout import prefix_of
from chalicelib.pipelines.files.output_sets import OutputSet, list_output_sets
from chalicelib.pipelines.files.removal import FileRemoval
from chalicelib.pipelines.files.rows import FileRow, FileRows
from chalicelib.ports import Clock, Database, ObjectStore, Run
from chalicelib.runlog.deletion_marks import NOBODY, DeletionOrder
from chalicelib.runlog.layout import shared_legacy_name

LATE_MS = 3_600_000
"""No process that was active before the end runs for longer."""


@dataclass(slots=True)
class DeletionResult:
    """``files`` and ``runs`` that this call removed; ``waiting``: runs that are removed once no writer can be active; ``shared``:
    runs that remain, since OpenMetadata stored them under a name of several pipelines; ``newer``: runs that began after the
    deletion; ``is_complete``: everything else was removed; ``is_cut``: not everything could be removed in this call; ``counts``:
    of what was removed with the runs, by kind."""

    files: int = 0
    bytes: int = 0
    runs: int = 0
    waiting: int = 0
    shared: set[Run] = field(default_factory=set)
    newer: set[Run] = field(default_factory=set)
    is_complete: bool = True
    is_cut: bool = False
    counts: Counter[str] = field(default_factory=Counter)


class RunLogs(Protocol):
    """The run logs of pipelines."""

    def remove(self, ended: DeadGeneration, fqn: str, done: DeletionResult, deadline: Deadline) -> None:
        """Remove the runs of a pipeline that started no later than its deletion."""

    def fqns(self, namespace: str) -> Sequence[str]:
        """The pipelines of a namespace that have run logs."""


class Deletion:
    """Deletes from all output sets. ``store_of`` returns the bucket of an output set."""

    def __init__(
        self,
        database: Database,
        generations: Generations,
        clock: Clock,
        store_of: Callable[[OutputSet], ObjectStore],
        runs: RunLogs | None = None,
    ) -> None:
        self._database, self._generations, self._clock, self._store_of, self._runs = database, generations, clock, store_of, runs

    def delete(
        self,
        namespace: str,
        fqn: str | None,
        deadline: Deadline,
        may: Callable[[str], bool] | None = None,
        order: DeletionOrder = NOBODY,
    ) -> DeletionResult:
        """Delete the logs of a pipeline, or (None) of a namespace. ``may``: whether the caller may delete the logs of a pipeline
        (None: of all); other pipelines of a namespace remain, and with them the namespace. A log that OpenMetadata stored
        under a name of several pipelines remains unless the caller may delete all of them, regardless of who resumes the
        deletion. Raises UnavailableError: repeat it."""
        allowed = may or _every_pipeline

        def covers(name: str) -> bool:
            return allowed(shared_legacy_name(name))

        if fqn is None and may is not None:
            listed = {*self._generations.alive(namespace), *(self._runs.fqns(namespace) if self._runs else ())}
            return self._sweep(
                self._generations.end_each(namespace, {each for each in listed if may(each)}, covers, order), deadline
            )
        return self._sweep(self._generations.end(namespace, fqn, covers, order), deadline)

    def resume(self, deadline: Deadline) -> DeletionResult:
        """Complete the deletions that any caller began, and search again for late files."""
        return self._sweep([each for each in self._generations.dead() if not each.is_swept], deadline)

    def _sweep(self, ended: Sequence[DeadGeneration], deadline: Deadline) -> DeletionResult:
        done = DeletionResult()
        if not ended:
            return done
        dead = {each.generation: each for each in ended}
        try:
            for base in list_output_sets(self._database):
                for namespace in sorted({each.namespace for each in ended}):
                    self._remove_files(base, namespace, dead, done, deadline)
            for each in ended:
                self._remove_runs(each, done, deadline)
        except DeadlineExceededError:
            done.is_complete = False
        done.is_cut = not done.is_complete
        done.is_complete = done.is_complete and not done.waiting
        if done.is_complete:
            self._mark(ended, is_clean=not (done.files or done.runs))
        return done

    def _mark(self, ended: Sequence[DeadGeneration], *, is_clean: bool) -> None:
        """Mark generations as done, or as swept if nothing was found an hour after the end."""
        before_ms = self._clock.now_ms() - LATE_MS
        swept = [each for each in ended if is_clean and each.deleted_ms < before_ms]
        for each in swept:
            self._generations.mark_swept(each)
        self._generations.mark_done([each for each in ended if each not in swept])

    def _remove_files(
        self, base: OutputSet, namespace: str, dead: Mapping[str, DeadGeneration], done: DeletionResult, deadline: Deadline
    ) -> None:
        for row in FileRows(self._database).listed(base.name, prefix_of(namespace)):
            if isinstance(row, FileRow) and row.generation in dead:
                deadline.check()
                # not before: a bucket without such files may be gone
                store, is_ours = self._store_of(base), not base.location.role
                if FileRemoval(store, self._database, self._clock, has_versions=is_ours).remove(row):
                    done.files += 1
                    done.bytes += row.contents.size
                else:
                    done.is_complete = False

    def _remove_runs(self, ended: DeadGeneration, done: DeletionResult, deadline: Deadline) -> None:
        if self._runs is None:
            return
        for fqn in [ended.fqn] if ended.fqn else self._runs.fqns(ended.namespace):
            self._runs.remove(ended, fqn, done, deadline)


def _every_pipeline(name: str) -> bool:
    """For a caller with the permission to delete all pipelines' logs."""
    return True

"""Deletes the runs of a deleted pipeline that began before its deletion: all of them become unreadable, then they are removed.

A log that OpenMetadata stored under a name of several pipelines remains, if the requester may not delete all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import unquote

from chalicelib.catalog.runs import RunCatalog
from chalicelib.deadline import Deadline
from chalicelib.errors import DamagedLogError, InvalidNameError, RunDeletedError
from chalicelib.pipelines.files.deletion import DeletionResult
from chalicelib.pipelines.files.generations import DeadGeneration
from chalicelib.pipelines.records import split_fqn
from chalicelib.ports import ListedObject, ObjectStore, Run
from chalicelib.removal.run_removal import RunRemoval
from chalicelib.runlog.artifact import find_artifact
from chalicelib.runlog.deletion_marks import marked_runs
from chalicelib.runlog.layout import Layout, checked_run, encode_name, may_share_legacy_name
from chalicelib.runlog.legacy import without_caller
from chalicelib.runlog.log_end import list_all
from chalicelib.runlog.segment import entry_of


def started_ms(runs: RunCatalog, run: Run) -> int | None:
    """When a run started; 0 if it was deleted, so that its events are dropped; None if the catalog does not know it."""
    try:
        row = runs.get(run)
    except RunDeletedError:
        return 0
    return row.started_ms if row else None


class PipelineRuns:
    """``RunLogs`` in the bucket of logs."""

    def __init__(self, store: ObjectStore, layout: Layout, runs: RunCatalog, removal: RunRemoval) -> None:
        self._store, self._layout, self._runs, self._removal = store, layout, runs, removal

    def fqns(self, namespace: str) -> Sequence[str]:
        """See ``RunLogs``: by their names. Two LISTs, and one more for each 1,000."""
        beginnings = [f"{self._layout.prefix}/{encode_name(each)}" for each in (namespace, f'"{namespace}"')]
        return [fqn for each in beginnings for fqn in self._names(each) if split_fqn(fqn)[0] == namespace]

    def remove(self, ended: DeadGeneration, fqn: str, done: DeletionResult, deadline: Deadline) -> None:
        """See ``RunLogs``. Applies the permissions of the deletion's requester: they are the same for another request, and for
        the schedule. Raises DeadlineExceededError, UnavailableError: call it again."""
        with without_caller():
            self._remove(ended, fqn, done, deadline)

    def _remove(self, ended: DeadGeneration, fqn: str, done: DeletionResult, deadline: Deadline) -> None:
        marked = frozenset(marked_runs(self._store, fqn))
        for run_id in self._names(f"{self._layout.prefix}/{encode_name(fqn)}/"):
            deadline.check()
            try:
                run = checked_run(fqn, run_id)
            except InvalidNameError:
                continue
            if run not in marked and self._is_due(run, ended, done):
                self._removal.begin(run, ended.order, has_attempts=False)
                done.newer.discard(run)
                done.runs += 1
        for run, is_due in list(self._removal.registered(fqn)):
            if not is_due:
                done.waiting += 1
                continue
            before = self._removal.begin(run, ended.order, has_attempts=False)
            done.waiting += not self._removal.proceed(run, deadline)
            after = self._removal.deletion(run)
            if after:
                done.counts.update({kind: number - before.counts.get(kind, 0) for kind, number in after.counts.items()})

    def _is_due(self, run: Run, ended: DeadGeneration, done: DeletionResult) -> bool:
        objects = list(list_all(self._store, self._layout.run_prefix(run)))
        if not objects:
            return False
        if self._start_ms(run, objects) > ended.deleted_ms:
            done.newer.add(run)
            return False
        if not ended.all_spellings and self._is_shared(run, objects):
            done.shared.add(run)
            return False
        return True

    def _is_shared(self, run: Run, objects: Sequence[ListedObject]) -> bool:
        """Whether OpenMetadata's objects may belong to another pipeline: this run has no segment that continues them. No request
        for names that are no spelling; else a HEAD for each artifact, and one for the first segment if OpenMetadata stored an
        artifact."""
        if not may_share_legacy_name(run.fqn):
            return False
        keys = {each.key for each in objects}
        listed = keys.intersection([self._layout.logs(run), self._layout.partial(run)])
        if not any(self._is_legacy(key) for key in sorted(listed)):
            return False
        return self._layout.segment(run, 0) not in keys or not self._begins_behind(run)

    def _is_legacy(self, key: str) -> bool:
        try:
            artifact = find_artifact(self._store, key)
        except DamagedLogError:
            return False  # its metadata is Runlake's
        return artifact is not None and artifact.is_legacy

    def _begins_behind(self, run: Run) -> bool:
        """Whether the run's first segment continues a log that was stored before."""
        info = self._store.head(self._layout.segment(run, 0))
        return entry_of(0, info.metadata, info.size).byte > 0

    def _start_ms(self, run: Run, objects: Sequence[ListedObject]) -> int:
        times = [each.last_modified_ms for each in objects]
        try:
            row = self._runs.get(run)
        except RunDeletedError:
            row = None
        return min([*times, row.started_ms] if row and row.started_ms else times)

    def _names(self, beginning: str) -> list[str]:
        names: list[str] = []
        start_after: str | None = ""
        while start_after is not None:
            page = self._store.list_folders(beginning, start_after=start_after)
            names += [unquote(each) for each in page.names]
            start_after = page.start_after
        return names

"""Deletes the run logs of a deleted pipeline: closed for good, recorded, then removed, objects first, then rows.

::

    shared?      a log that OpenMetadata stored under a name of several pipelines remains, if the requester may not delete all of them
    close        appends are rejected as closed; a large log is finalized by the schedule, and removed the next time
    tombstone    the reason (``runlog.tombstones``), and a row: from now on events of this run are dropped
    objects      logs.txt becomes empty and marked as deleted, all other objects but the tail are removed: no lines can be read,
                 appends are rejected, and neither its notification nor a rebuild of the catalog lists the run again; its dead
                 letters are removed too
    rows         lists do not contain the run any more
    the rest     logs.txt and the tail, 20 minutes later, when no writer with an older read can still be active (decision 0001)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from urllib.parse import unquote

from chalicelib.deadline import Deadline
from chalicelib.errors import DamagedLogError, InvalidNameError
from chalicelib.pipelines.dead_letters import dead_prefixes
from chalicelib.pipelines.files.deletion import DeletionResult
from chalicelib.pipelines.files.generations import DeadGeneration, Generations
from chalicelib.pipelines.records import split_fqn
from chalicelib.ports import Clock, ListedObject, ObjectStore, PutOptions, Run
from chalicelib.runlog.artifact import artifact_metadata, find_artifact
from chalicelib.runlog.compaction import RETIRE_AFTER_MS
from chalicelib.runlog.finalization import Finalizer
from chalicelib.runlog.layout import Layout, checked_run, encode_name, may_share_legacy_name
from chalicelib.runlog.legacy import without_caller
from chalicelib.runlog.log_end import delete_all, list_all
from chalicelib.runlog.segment import CLOSED, entry_of
from chalicelib.runlog.tombstones import Tombstone, put_tombstone

REASON = "deleted"


class StoredRunLogs:
    """``RunLogs`` in the bucket of logs. ``started_ms`` returns a run's start time, if the catalog knows it; ``forget`` removes
    its rows."""

    def __init__(
        self,
        store: ObjectStore,
        layout: Layout,
        finalizer: Finalizer,
        clock: Clock,
        generations: Generations,
        started_ms: Callable[[Run], int | None],
        forget: Callable[[Run], None],
    ) -> None:
        self._store, self._layout, self._finalizer, self._clock, self._generations = store, layout, finalizer, clock, generations
        self._started_ms, self._forget = started_ms, forget

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
        run_ids = self._names(f"{self._layout.prefix}/{encode_name(fqn)}/")
        marked = self._generations.marked(fqn, run_ids)
        for run_id in run_ids:
            deadline.check()
            try:
                run = checked_run(fqn, run_id)
            except InvalidNameError:
                continue
            objects = list(list_all(self._store, self._layout.run_prefix(run)))
            if not objects or (run_id not in marked and self._start_ms(run, objects) > ended.deleted_ms):
                continue
            if not ended.all_spellings and self._is_shared(run, objects):
                done.shared.add(run)
            else:
                self._remove_one(run, objects, done)

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

    def _remove_one(self, run: Run, objects: Sequence[ListedObject], done: DeletionResult) -> None:
        self._generations.mark_runs(run.fqn, [run.run_id])
        if any(each.size for each in objects):
            self._record_tombstone(run, objects)
            if not self._is_ended(run):
                done.waiting += 1
                return
            objects = self._empty_log(run)
            done.runs += 1
        for prefix in dead_prefixes(run):
            self._delete(list_all(self._store, prefix))
        self._forget(run)
        if max(each.last_modified_ms for each in objects) > self._clock.now_ms() - RETIRE_AFTER_MS:
            done.waiting += 1
        else:
            self._delete(objects)

    def _is_ended(self, run: Run) -> bool:
        """Close the run. Returns whether its log is final: finalized, or OpenMetadata's own logs.txt, which is the whole log, or
        damaged, since a damaged log is not compacted for a deletion."""
        try:
            return self._finalizer.close(run).finalized or self._is_legacy(self._layout.logs(run))
        except DamagedLogError:
            return True

    def _empty_log(self, run: Run) -> list[ListedObject]:
        """Remove all lines of a closed log; the remaining objects mark it as closed and empty."""
        key, logs = self._layout.logs(run), None
        with suppress(DamagedLogError):
            logs = find_artifact(self._store, key)
        epoch, next_segment = (logs.epoch, logs.next_segment) if logs else (0, 0)
        metadata = artifact_metadata(0, 0, next_segment, epoch, CLOSED, deleted=True)
        self._store.put(key, b"", PutOptions(metadata))
        objects = list(list_all(self._store, self._layout.run_prefix(run)))
        tail = list(self._layout.segments_among(run, objects))[-1:]
        staying = [each for each in objects if each.key == key or each in tail]
        markers = list(list_all(self._store, self._layout.markers(run)))
        self._delete(each for each in [*objects, *markers] if each not in staying)
        return staying

    def _delete(self, objects: Iterable[ListedObject]) -> None:
        delete_all(self._store, [each.key for each in objects])

    def _record_tombstone(self, run: Run, objects: Sequence[ListedObject]) -> None:
        size, last_ms = sum(each.size for each in objects), max(each.last_modified_ms for each in objects)
        now_ms = self._clock.now_ms()
        tombstone = Tombstone(run.fqn, run.run_id, REASON, -1, "", now_ms, last_ms, -1, size, len(objects), -1, -1, "")
        put_tombstone(self._store, self._layout, tombstone)

    def _start_ms(self, run: Run, objects: Sequence[ListedObject]) -> int:
        return min([each.last_modified_ms for each in objects] + [ms for ms in [self._started_ms(run)] if ms])

    def _names(self, beginning: str) -> list[str]:
        names: list[str] = []
        start_after: str | None = ""
        while start_after is not None:
            page = self._store.list_folders(beginning, start_after=start_after)
            names += [unquote(each) for each in page.names]
            start_after = page.start_after
        return names

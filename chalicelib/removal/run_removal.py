"""Removes a run: deletes it on request, or expires it. Every step can be repeated, and any call may be the last one of a process.

A **deletion** first makes the run unreadable, in a few requests whatever its size, then removes it::

    registration   a row: the schedule continues what a process leaves undone
    mark           who, when, why, on S3; never removed (``runlog.deletion_marks``)
    seal           takes the next number, as an append does: appends after it are refused
    marker         an empty ``logs.txt``: the first object that every reader reads
    rows           the marks in the tables: cold appends, reads of rows, and late notifications are refused
    steps          everything in ``places``; of the objects the marker, the seal and empty ones in place of young segments stay, so that
                   no writer finds its number free
    the rest       20 minutes later, when no process that read the run before can still write (decision 0001): the steps again, then
                   all objects

An **expiry** has no marks, seal or marker, because its run was closed 20 minutes ago: the name may be used again. Decision 0058.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from chalicelib.catalog.runs import RunCatalog
from chalicelib.deadline import Deadline
from chalicelib.errors import DamagedLogError, DeadlineExceededError, ObjectNotFoundError, RunDeletedError, RunlakeError
from chalicelib.pipelines.files.generations import Generations
from chalicelib.pipelines.files.key_layout import element
from chalicelib.pipelines.files.table import TABLE, rows_of_partition
from chalicelib.pipelines.transactions import apply_write
from chalicelib.ports import (
    DELETED,
    Clause,
    Clock,
    Database,
    Delete,
    Key,
    ListedObject,
    ObjectStore,
    Put,
    PutOptions,
    Row,
    RowCondition,
    Run,
    SegmentEntry,
    SegmentIndex,
)
from chalicelib.removal.places import STEPS, STEPS_ON_EXPIRY
from chalicelib.removal.run_steps import RemovalPass, RunSteps
from chalicelib.runlog.artifact import artifact_metadata, find_artifact
from chalicelib.runlog.attempts import read_start
from chalicelib.runlog.compaction import RETIRE_AFTER_MS
from chalicelib.runlog.deletion_marks import DeletionMark, DeletionOrder, find_mark, put_mark, replace_mark
from chalicelib.runlog.layout import Layout, is_key, legacy_name
from chalicelib.runlog.legacy import find_legacy, find_shared, without_caller
from chalicelib.runlog.log_end import delete_all, list_all
from chalicelib.runlog.writer import Writer

REMOVALS = "#removals"
"""The partition of registered removals in the table of pipelines' files, which S3 cannot restore either."""
_OF_A_LOG = ("segment", "partial", "logs")
_IS_NO_DELETION: RowCondition = ((Clause(("by",), "absent"),),)
"""A run's registration is not that of a deletion, or does not exist. A deletion replaces an expiry, never the reverse."""


@dataclass(frozen=True, slots=True)
class Registration:
    """A removal that is not complete. ``since_ms``: nothing of the run is older. ``order`` None: its run expired. ``has_passed``: all steps were
    run once, so that only late writes can be left."""

    run: Run
    since_ms: int
    begun_ms: int
    order: DeletionOrder | None
    has_passed: bool = False

    @property
    def key(self) -> Key:
        """The key of its row."""
        return registration_key(self.run)

    @property
    def when(self) -> RowCondition:
        """The condition of writes to its row."""
        return () if self.order else _IS_NO_DELETION

    def put(self) -> Put:
        """The write of its row."""
        row = {"fqn": self.run.fqn, "run_id": self.run.run_id, "since_ms": self.since_ms, "begun_ms": self.begun_ms}
        row |= {"has_passed": self.has_passed}
        order = {"by": self.order.by, "why": self.order.why} if self.order else {}
        return Put(self.key, {"partition": self.key.partition, "at": self.key.sort, **row, **order}, self.when)

    @classmethod
    def of_row(cls, row: Row) -> Registration:
        """The inverse of ``put``. Raises DamagedLogError."""
        try:
            order = DeletionOrder(row["by"], row["why"]) if "by" in row else None
            run, has_passed = Run(row["fqn"], row["run_id"]), bool(row.get("has_passed"))
            return cls(run, int(row["since_ms"]), int(row["begun_ms"]), order, has_passed)
        except (KeyError, TypeError, ValueError) as error:
            raise DamagedLogError(f"the registration of a removal cannot be read at={row.get('at')}") from error


def registration_key(run: Run) -> Key:
    """The key of a run's registration."""
    return Key(TABLE, REMOVALS, f"{element(run.fqn)}:{element(run.run_id)}")


def _mark(run: Run, order: DeletionOrder, now_ms: int) -> DeletionMark:
    return DeletionMark(run.fqn, run.run_id, now_ms, order.by, order.why)


def put_rows(mark: DeletionMark, runs: RunCatalog, index: SegmentIndex) -> None:
    """Write the rows that are derived from a mark. Idempotent. Two writes."""
    runs.mark_deleted(mark.run, mark.deleted_ms)
    index.put(mark.run, [mark.entry()])


class RunRemoval:
    """Removes runs. ``steps`` has the steps of ``places``."""

    def __init__(
        self,
        store: ObjectStore,
        layout: Layout,
        writer: Writer,
        runs: RunCatalog,
        index: SegmentIndex,
        database: Database,
        clock: Clock,
        generations: Generations,
        steps: RunSteps,
    ) -> None:
        self._store, self._layout, self._writer, self._runs, self._index = store, layout, writer, runs, index
        self._database, self._clock, self._generations, self._steps = database, clock, generations, steps

    def delete(self, run: Run, order: DeletionOrder, deadline: Deadline) -> DeletionMark:
        """Delete a run and its later attempts. From then on nobody reads them or appends to them. Returns the mark, with the counts of all. Raises
        ObjectNotFoundError for an unknown run; DeadlineExceededError, UnavailableError: call it again, or leave the rest to the schedule."""
        mark = self.begin(run, order)
        for each in (run, *self._others(mark)):
            self.proceed(each, deadline)
        return self.deletion(run) or mark

    def begin(self, run: Run, order: DeletionOrder, *, has_attempts: bool = True) -> DeletionMark:
        """Make a run unreadable, with its later attempts and the beginning of its log that OpenMetadata stored. Returns its mark. Raises as
        ``delete``. A few requests for each, and a LIST for 1,000 objects."""
        mark = find_mark(self._store, run)
        if mark and mark.is_done:
            return mark
        if mark is None:
            self._check_access(run)
        spelled = self._stored_by_openmetadata(run) if mark is None else None
        with without_caller():
            found = self._attempts(run) if has_attempts and mark is None else ()
            attempts = mark.attempts if mark else tuple(each.run_id for each in found)
            if mark is None and not attempts and not spelled and not self._exists(run):
                raise ObjectNotFoundError(f"there is no such run run={run.fqn}/{run.run_id}")
            new = replace(_mark(run, order, self._clock.now_ms()), attempts=attempts)
            for run_id in attempts:
                self._block(replace(new, run_id=run_id, attempts=()))
            if spelled:
                self._block(replace(new, fqn=spelled.fqn, attempts=()))
            return self._block(mark or new)

    def proceed(self, run: Run, deadline: Deadline) -> bool:
        """Remove a run that is unreadable. Returns whether nothing is left of it. Raises DeadlineExceededError, UnavailableError."""
        registration = self._registration(run)
        if registration and not self._is_due(registration):
            return False
        with without_caller():
            return registration is None or self._remove(registration, deadline)

    def registered(self, fqn: str) -> Iterator[tuple[Run, bool]]:
        """The runs of a pipeline whose deletion is not complete, and whether ``proceed`` can remove something now. One query for 1,000."""
        for row in rows_of_partition(self._database, REMOVALS, f"{element(fqn)}:"):
            registration = Registration.of_row(row)
            if registration.order:
                yield registration.run, self._is_due(registration)

    def _is_due(self, registration: Registration) -> bool:
        """Whether a pass may remove something: late writes are removed together, once no process can write any more."""
        return not registration.has_passed or registration.begun_ms <= self._clock.now_ms() - RETIRE_AFTER_MS

    def deletion(self, run: Run) -> DeletionMark | None:
        """The mark of a deleted run, with the counts of what was deleted with it; it is done once all of that is. A GET for each."""
        mark = find_mark(self._store, run)
        if mark is None:
            return None
        found = filter(None, (find_mark(self._store, each) for each in self._others(mark)))
        others = [each for each in found if each.fqn == run.fqn or each.deleted_ms == mark.deleted_ms]
        counts = Counter(mark.counts)
        for each in others:
            counts.update(each.counts)
        return replace(mark, counts=dict(counts), is_done=mark.is_done and all(each.is_done for each in others))

    def expire(self, run: Run, deadline: Deadline) -> None:
        """Remove a run that was closed 20 minutes ago or earlier; its name may be used again. A run whose deletion is in progress is left
        to that. Raises UnavailableError: call it again, or leave it to the schedule."""
        registration = Registration(run, 0, self._clock.now_ms(), None)
        if apply_write(self._database, self._clock, registration.put()):
            self._remove(registration, deadline)

    def is_expiring(self, run: Run) -> bool:
        """Whether an expiry of the run was begun and is not complete. One read."""
        registration = self._registration(run)
        return registration is not None and registration.order is None

    def resume(self, deadline: Deadline) -> int:
        """Continue all removals. Returns the number of runs of which nothing is left. A run that fails does not stop others: its error is raised
        at the end."""
        done, errors = 0, list[RunlakeError]()
        for row in rows_of_partition(self._database, REMOVALS):
            deadline.check()
            try:
                registration = Registration.of_row(row)
                if not self._is_due(registration):
                    continue
                with without_caller():
                    if registration.order:
                        self._block(_mark(registration.run, registration.order, self._clock.now_ms()))
                    done += self._remove(registration, deadline)
            except RunlakeError as error:
                errors.append(error)
        if errors:
            raise errors[0]
        return done

    def _registration(self, run: Run) -> Registration | None:
        """One read."""
        key = registration_key(run)
        row = self._database.get_many([key]).get(key)
        return None if row is None else Registration.of_row(row)

    def _others(self, mark: DeletionMark) -> list[Run]:
        """Runs that may have been deleted with a run."""
        spelled = Run(legacy_name(mark.fqn), mark.run_id)
        return [*(Run(mark.fqn, run_id) for run_id in mark.attempts), *([spelled] if spelled != mark.run else [])]

    def _stored_by_openmetadata(self, run: Run) -> Run | None:
        """OpenMetadata's name of a run, if it stored the log or its beginning under a name of several pipelines: that of a run without objects if
        the caller may delete all of these, that of a run whose first segment continues it. A query, else up to four requests more."""
        spelled, store, layout = Run(legacy_name(run.fqn), run.run_id), self._store, self._layout
        if spelled == run or layout.run_prefix(spelled) != layout.legacy_run_prefix(run):
            return None
        first = self._first_segment(run)
        if first and not first.byte:
            return None
        if first is None and store.list(layout.run_prefix(run), limit=1).objects:
            return None
        if not (find_legacy if first else find_shared)(store, layout, run):
            return None
        return None if store.list(layout.segments(spelled), limit=1).objects else spelled

    def _first_segment(self, run: Run) -> SegmentEntry | None:
        with suppress(RunDeletedError, DamagedLogError, ObjectNotFoundError):
            rows = self._index.rows_from(run, 0, 0, 1)
            return rows[0] if rows else self._writer.tails.segment(run, 0)
        return None

    def _check_access(self, run: Run) -> None:
        """Raises ForbiddenError for a log that OpenMetadata stored under a name of several pipelines, if the caller may not delete all of them."""
        with suppress(RunDeletedError, DamagedLogError):
            self._writer.tails.find(run)

    def _exists(self, run: Run) -> bool:
        """Whether something of the run may be stored: an expired one may have files of pipelines, dead letters, and rows of the dataset."""
        keys = (self._layout.run_prefix(run), self._layout.tombstone(run))
        if any(self._store.list(key, limit=1).objects for key in keys if is_key(key)):
            return True
        try:
            return self._runs.get(run) is not None
        except RunDeletedError:
            return True

    def _attempts(self, first: Run) -> Iterator[Run]:
        """The later attempts of a run."""
        prefix, start_after = self._layout.later_attempts(first), ""
        while True:
            page = self._store.list_folders(prefix, start_after=start_after)
            for key in (f"{prefix.rpartition('/')[0]}/{name}/logs.txt" for name in page.names):
                parsed = self._layout.parse(key)
                with suppress(DamagedLogError):
                    start = read_start(self._store, self._layout, parsed.run) if parsed else None
                    if parsed and start and start.first_run_id == first.run_id:
                        yield parsed.run
            if page.start_after is None:
                return
            start_after = page.start_after

    def _block(self, mark: DeletionMark) -> DeletionMark:
        """Make one run unreadable. Returns the mark that counts: that of the first request. A read, a query and a GET if it is already; then it
        is registered again if the table of registrations was lost."""
        run, known = mark.run, self._registration(mark.run)
        order = DeletionOrder(mark.by, mark.why)
        try:
            self._writer.tails.check_deleted(run)
        except RunDeletedError:
            mark = find_mark(self._store, run) or mark
            if known is None and not mark.is_done:
                self._database.put_many([Registration(run, 0, self._clock.now_ms(), order).put()])
            return mark
        page, started_ms = self._store.list(self._layout.run_prefix(run)), self._started_ms(run)
        if known is None or known.order is None:
            is_enough = started_ms or not page.truncated
            objects = page.objects if is_enough else list_all(self._store, self._layout.run_prefix(run))
            times = [each.last_modified_ms for each in objects] + [ms for ms in [started_ms] if ms]
            self._database.put_many([Registration(run, min(times, default=0), mark.deleted_ms, order).put()])
        self._generations.mark_runs(run.fqn, [run.run_id])
        mark = put_mark(self._store, mark)
        if page.objects:
            self._seal(run)
            self._put_marker(run)
        put_rows(mark, self._runs, self._index)
        return mark

    def _started_ms(self, run: Run) -> int:
        with suppress(RunDeletedError):
            row = self._runs.get(run)
            if row:
                return row.started_ms
        return 0

    def _seal(self, run: Run) -> None:
        """Take the next number. A damaged log has no end: its marks alone refuse appends. A log of OpenMetadata alone is closed already."""
        with suppress(RunDeletedError, DamagedLogError):
            while True:
                tail = self._writer.tails.find(run)
                if tail.seal and tail.sequence == 0:
                    return
                self._writer.seal(run, DELETED, tail)  # then the search raises RunDeletedError

    def _put_marker(self, run: Run) -> None:
        key, epoch = self._layout.logs(run), 0
        with suppress(DamagedLogError):
            logs = find_artifact(self._store, key)
            if logs and logs.is_deleted:
                return
            epoch = logs.epoch if logs else 0
        metadata = artifact_metadata(0, 0, self._next_segment(run), epoch, DELETED, deleted=True)
        self._store.put(key, b"", PutOptions(metadata))

    def _next_segment(self, run: Run) -> int:
        segments = list(self._layout.segments_among(run, list_all(self._store, self._layout.segments(run))))
        return self._layout.sequence_of(run, segments[-1].key) + 1 if segments else 0

    def _remove(self, registration: Registration, deadline: Deadline) -> bool:
        """Whether nothing is left of the run."""
        run, is_expiry = registration.run, registration.order is None
        prefixes = [self._layout.run_prefix(run)] if is_expiry else [self._layout.logs(run), self._layout.segments(run)]
        objects = [each for prefix in prefixes for each in list_all(self._store, prefix)]
        if is_expiry:
            if self._is_another(registration, objects):
                return self._unregister(registration, Counter())
            self._runs.forget(run)
        last = self._last(run, objects, is_expiry=is_expiry)
        before_ms = self._clock.now_ms() - RETIRE_AFTER_MS
        is_settled = is_expiry or max([registration.begun_ms, *(each.last_modified_ms for each in last)]) <= before_ms
        segments = () if is_settled else self._layout.segments_among(run, objects)
        young = [each for each in segments if each.last_modified_ms > before_ms]
        last_keys = [each.key for each in last]
        kept = {*last_keys, *(each.key for each in young if not each.size and each.last_modified_ms > registration.begun_ms)}
        emptied = frozenset(each.key for each in young if each.key not in kept)
        work = RemovalPass(run, registration.since_ms, frozenset(kept), emptied, deadline)
        try:
            self._run_steps(work, STEPS_ON_EXPIRY if is_expiry else STEPS)
            if is_settled:
                self._delete_last(work, is_expiry=is_expiry)
        except RunlakeError:
            self._count(registration, work.counts, is_done=False)
            raise
        if not is_settled:
            self._count(registration, work.counts, is_done=False)
            if not registration.has_passed:
                apply_write(self._database, self._clock, replace(registration, has_passed=True).put())
            return False
        return self._unregister(registration, work.counts)

    def _delete_last(self, work: RemovalPass, *, is_expiry: bool) -> None:
        """Delete the last objects, and the versions of them that this makes old."""
        delete_all(self._store, sorted(work.last))
        work.counts["objects"] += len(work.last)
        if work.last and not is_expiry:
            self._steps.versions(work)

    def _run_steps(self, work: RemovalPass, steps: Sequence[str]) -> None:
        """A step that fails, as for a bucket of files that is gone, does not stop the others: its error is raised at the end."""
        errors: list[RunlakeError] = []
        for step in steps:
            work.deadline.check()
            try:
                getattr(self._steps, step)(work)
            except DeadlineExceededError:
                raise
            except RunlakeError as error:
                errors.append(error)
        if errors:
            raise errors[0]

    def _is_another(self, registration: Registration, objects: Sequence[ListedObject]) -> bool:
        """Whether a new run has the name of an expired one. All objects of that were written 20 minutes before the expiry began."""
        kinds = ((self._layout.parse(each.key), each.last_modified_ms) for each in objects)
        written_ms = [modified_ms for parsed, modified_ms in kinds if parsed and parsed.kind in _OF_A_LOG]
        return max(written_ms, default=0) > registration.begun_ms - RETIRE_AFTER_MS // 2

    def _last(self, run: Run, objects: Sequence[ListedObject], *, is_expiry: bool) -> list[ListedObject]:
        """The objects that go last, in one request: logs.txt and the segment with the highest number, which appends and readers check. Of a
        deleted run only if they are empty: a damaged log has no seal at its end."""
        tail = list(self._layout.segments_among(run, objects))[-1:]
        checked = (each for each in objects if each.key == self._layout.logs(run) or each in tail)
        return [each for each in checked if is_expiry or not each.size]

    def _unregister(self, registration: Registration, counts: Counter[str]) -> bool:
        self._count(registration, counts, is_done=True)
        return apply_write(self._database, self._clock, Delete(registration.key, registration.when))

    def _count(self, registration: Registration, counts: Counter[str], *, is_done: bool) -> None:
        """Add to the counts of a deletion; at its end its rows are written again, which a late write of an expiry may have deleted."""
        mark = find_mark(self._store, registration.run) if registration.order and (is_done or +counts) else None
        if mark:
            replace_mark(self._store, replace(mark, counts=dict(Counter(mark.counts) + counts), is_done=mark.is_done or is_done))
        if mark and is_done:
            put_rows(mark, self._runs, self._index)

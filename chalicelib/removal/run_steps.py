"""The steps that remove a run from each place of ``places``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice

from chalicelib.deadline import Deadline
from chalicelib.pipelines.dead_letters import dead_prefixes
from chalicelib.pipelines.files.bucket_location import BucketLocation
from chalicelib.pipelines.files.key_layout import prefix_of
from chalicelib.pipelines.files.output_sets import list_output_sets
from chalicelib.pipelines.files.removal import FileRemoval
from chalicelib.pipelines.files.rows import FileRow, FileRows
from chalicelib.pipelines.records import split_fqn
from chalicelib.ports import Clock, Database, ObjectStore, PutOptions, Run, SegmentIndex
from chalicelib.runlog.deletion_marks import DELETED_ENTRY
from chalicelib.runlog.layout import Layout, is_key
from chalicelib.runlog.log_end import delete_all, list_all
from chalicelib.runlog.segment import metadata_of

_AT_ONCE = 1000
_THREADS, _EMPTIED_AT_ONCE = 8, 64
_SKEW_MS = 60_000
"""By how much the clocks of S3, of the run's clients and of the handlers of pipelines may differ."""


@dataclass(frozen=True, slots=True)
class RemovalPass:
    """One pass over a run. ``since_ms``: nothing of it is older; ``last``: keys of its prefix that are not deleted yet; ``emptied``: keys of young
    segments that this deletion has not emptied, whose numbers a writer may still present; ``counts``: of what was removed, by kind."""

    run: Run
    since_ms: int
    last: frozenset[str]
    emptied: frozenset[str]
    deadline: Deadline
    counts: Counter[str] = field(default_factory=Counter)


class RunSteps:
    """``unlist`` removes the archive's record of a run's log, ``release`` the partitions of its background work; both return their number.
    ``stores`` returns the buckets of pipelines' files."""

    def __init__(
        self,
        store: ObjectStore,
        layout: Layout,
        index: SegmentIndex,
        database: Database,
        clock: Clock,
        stores: Callable[[BucketLocation], ObjectStore],
        unlist: Callable[[Run], int],
        release: Callable[[Run], int],
    ) -> None:
        self._store, self._layout, self._index, self._database, self._clock = store, layout, index, database, clock
        self._stores, self._unlist, self._release = stores, unlist, release

    def objects(self, work: RemovalPass) -> None:
        """Objects below the run's prefix; young segments become empty seals. A LIST and a request for 1,000, and a PUT for each of those."""
        self._delete_below(work, "objects", self._layout.run_prefix(work.run))
        seal = PutOptions(metadata_of(DELETED_ENTRY))
        keys = sorted(work.emptied)
        with ThreadPoolExecutor(_THREADS) as threads:
            for first in range(0, len(keys), _EMPTIED_AT_ONCE):
                work.deadline.check()
                list(threads.map(lambda key: self._store.put(key, b"", seal), keys[first : first + _EMPTIED_AT_ONCE]))

    def uploads(self, work: RemovalPass) -> None:
        """Parts of open uploads, such as those of a compaction that was killed. A LIST, and a request for each."""
        for upload in self._store.open_uploads(self._layout.run_prefix(work.run)):
            self._store.abort_multipart(upload.key, upload.upload_id)
            work.counts["uploads"] += 1

    def versions(self, work: RemovalPass) -> None:
        """Old versions of all of the run's objects in the bucket of logs. A LIST for each of five prefixes, and a request for 1,000."""
        run, layout = work.run, self._layout
        for prefix in (layout.run_prefix(run), layout.markers(run), layout.tombstone(run), *dead_prefixes(run)):
            self._delete_versions(work, prefix)

    def markers(self, work: RemovalPass) -> None:
        """Heartbeat markers."""
        self._delete_below(work, "objects", self._layout.markers(work.run))

    def tombstone(self, work: RemovalPass) -> None:
        """The record of an earlier run of this name that expired."""
        self._delete_below(work, "objects", self._layout.tombstone(work.run))

    def dead_letters(self, work: RemovalPass) -> None:
        """Dead letters of all pipelines."""
        self._delete_below(work, "deadLetters", *dead_prefixes(work.run))

    def rows(self, work: RemovalPass) -> None:
        """Rows of segments and events."""
        work.counts["rows"] += self._index.forget(work.run)

    def file_record(self, work: RemovalPass) -> None:
        """The record of the archive."""
        work.counts["rows"] += self._unlist(work.run)

    def work(self, work: RemovalPass) -> None:
        """Partitions of background work."""
        work.counts["rows"] += self._release(work.run)

    def pipeline_files(self, work: RemovalPass) -> None:
        """Every file of the pipeline that was written to since the run began: a file has events of one pipeline, and text does not say of which
        run. A query for each base, three requests for each file."""
        for base in list_output_sets(self._database):
            for row in FileRows(self._database).listed(base.name, prefix_of(*split_fqn(work.run.fqn)[:2])):
                if isinstance(row, FileRow) and row.fqn == work.run.fqn and row.changed_ms >= work.since_ms - _SKEW_MS:
                    self._remove_file(work, row, base.location)

    def _remove_file(self, work: RemovalPass, row: FileRow, location: BucketLocation) -> None:
        """Until no handler changes its row meanwhile."""
        current: FileRow | None = row
        removal = FileRemoval(self._stores(location), self._database, self._clock, has_versions=not location.role)
        while current and not removal.remove(current):
            work.deadline.check()
            current = FileRows(self._database).reread(current)
        work.counts["files"] += 1

    def _delete_versions(self, work: RemovalPass, prefix: str) -> None:
        while is_key(prefix) and (versions := self._store.old_versions(prefix, _AT_ONCE)):
            work.deadline.check()
            self._store.delete_versions(versions)
            work.counts["versions"] += len(versions)

    def _delete_below(self, work: RemovalPass, kind: str, *prefixes: str) -> None:
        kept = work.last | work.emptied
        for prefix in filter(is_key, prefixes):  # nothing is stored below a longer one
            listed = list_all(self._store, prefix)
            while page := list(islice(listed, _AT_ONCE)):
                work.deadline.check()
                keys = [each.key for each in page if each.key not in kept]
                delete_all(self._store, keys)
                work.counts[kind] += len(keys)

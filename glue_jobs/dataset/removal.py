"""Removes the rows of deleted runs: files that contain some are written again without them, in one entry of the ledger.

``_ledger/removed`` has the time up to which the marks of deleted runs are done, so that a job reads only the marks since the one before. A run's
rows are in one bucket of ``what``, in any partition of days.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from chalicelib.errors import ObjectNotFoundError
from chalicelib.ports import ObjectStore, Run
from chalicelib.runlog.deletion_marks import marked_runs
from glue_jobs.dataset.committing import Change, Committer
from glue_jobs.dataset.entries import REMOVAL, STAGING, DataFile, Entry, StagedFile, State
from glue_jobs.dataset.files import Files
from glue_jobs.dataset.ledger import FOLDER
from glue_jobs.dataset.partition_files import PartitionFiles
from glue_jobs.dataset.publication import OUTPUT
from glue_jobs.dataset.row_tables import REPEATED, SCHEMA, values_of

MAX_FILES = 64
"""Files that one entry replaces."""
_DONE = FOLDER + "removed"
_MARGIN_MS = 3_600_000
"""Clocks differ, and a mark is read again if it was written about when the job before began."""


@dataclass(frozen=True, slots=True)
class MarkedRows:
    """``store``: the bucket of logs, which has the marks. ``begun_ms``: when this job began; rows that it adds may be of runs that were marked
    since, also if another job has recorded a later time. Raises DamagedLogError if the ledger and the files contradict each other."""

    files: Files
    committer: Committer
    store: ObjectStore
    buckets: int
    now_s: Callable[[], float]
    begun_ms: int

    def remove(self) -> Entry | None:
        """Commit the removal of rows from up to ``MAX_FILES`` files; None if there are none. Reads all files of the runs' buckets, if there are
        new marks. Raises CommitConflictError."""
        began_ms = int(self.now_s() * 1000)
        marked = frozenset(marked_runs(self.store, since_ms=min(self._done_ms(), self.begun_ms) - _MARGIN_MS))
        if not marked:
            return None
        state = self.committer.settled()
        files = self._with_rows(state, marked)
        if not files:
            self.files.put(_DONE, str(began_ms).encode())
            return None
        change = Change(REMOVAL, removed=files, counts={"replaced": len(files), "runs": len(marked)})
        return self.committer.commit(state, change, lambda attempt: self._write(files, marked, attempt))

    def _done_ms(self) -> int:
        try:
            return int(self.files.read(_DONE))
        except (ObjectNotFoundError, ValueError):
            return 0

    def _with_rows(self, state: State, marked: Collection[Run]) -> list[DataFile]:
        folders = {f"what_bucket={values_of(run.fqn, 0, (), self.buckets).bucket}" for run in marked}
        files: list[DataFile] = []
        for file in state.files.values():
            if file.partition.rpartition("/")[2] in folders and len(files) < MAX_FILES:
                names = self._open(file).read(columns=["fqn", "run_id"])
                if pc.any(_is_of(names, marked)).as_py():
                    files.append(file)
        return files

    def _write(self, files: Sequence[DataFile], marked: Collection[Run], attempt: str) -> list[StagedFile]:
        with closing(PartitionFiles(self.files, f"{STAGING}{attempt}/{OUTPUT}")) as written:
            for file in files:
                for rows in self._without(file, marked):
                    written.write(file.partition, rows)
            return written.finish()

    def _without(self, file: DataFile, marked: Collection[Run]) -> Iterator[pa.Table]:
        """A file's rows of other runs, by row group."""
        source = self._open(file)
        for group in range(source.num_row_groups):
            rows = source.read_row_group(group, columns=SCHEMA.names)
            rows = rows.filter(pc.invert(_is_of(rows, marked)))
            if rows.num_rows:
                yield rows.select(SCHEMA.names).cast(SCHEMA).combine_chunks()

    def _open(self, file: DataFile) -> pq.ParquetFile:
        return pq.ParquetFile(io.BytesIO(self.files.read(file.path)), read_dictionary=sorted(REPEATED))


def _is_of(rows: pa.Table, runs: Collection[Run]) -> pa.ChunkedArray:
    """Whether each row is of one of the runs."""
    fqn, run_id = (pc.cast(rows[name], pa.string()) for name in ("fqn", "run_id"))
    is_of = pa.chunked_array([pa.array([False] * rows.num_rows, pa.bool_())])
    ids: dict[str, list[str]] = {}
    for run in runs:
        ids.setdefault(run.fqn, []).append(run.run_id)
    for name, some in ids.items():
        is_of = pc.or_(is_of, pc.and_(pc.equal(fqn, name), pc.is_in(run_id, value_set=pa.array(some, pa.string()))))
    return is_of

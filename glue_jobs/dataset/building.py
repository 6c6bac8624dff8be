"""Builds the dataset with Spark: appends new events and merges small files, one ledger entry at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from chalicelib.catalog.runs import RunCatalog
from glue_jobs.dataset.committing import Change, Committer
from glue_jobs.dataset.entries import APPEND, REWRITE, STAGING, Entry, Layout, StagedFile
from glue_jobs.dataset.explanations import RecordedExplanations
from glue_jobs.dataset.files import Files
from glue_jobs.dataset.publication import OUTPUT
from glue_jobs.dataset.removal import MarkedRows
from glue_jobs.dataset.row_tables import values_of
from glue_jobs.dataset.runs import NewRuns, Work
from glue_jobs.dataset.small_files import Sizes, bins
from glue_jobs.dataset.tallies import Tally, tally
from glue_jobs.dataset.write_tasks import WriteTask, write_events, write_tasks
from glue_jobs.dataset.writing import rows_of_bins, stage
from glue_jobs.datasource.clients import clients_of
from glue_jobs.datasource.options import Options

MAX_BINS = 64
"""Number of larger files that one rewrite makes: some 16 GB."""


@dataclass(frozen=True, slots=True)
class DatasetSpec:
    """Content and layout of a dataset. ``live``: include running runs."""

    options: Options
    layout: Layout
    sizes: Sizes = field(default_factory=Sizes)
    live: bool = False


@dataclass(slots=True)
class BuildResult:
    """Committed entries. ``problems`` and ``requests``: counts from planning and from Spark's workers."""

    entries: list[Entry] = field(default_factory=list)
    problems: Counter[str] = field(default_factory=Counter)
    requests: Counter[str] = field(default_factory=Counter)

    def total(self, kind: str, name: str) -> int:
        """A count, summed over all entries of a kind."""
        return sum(entry.counts.get(name, 0) for entry in self.entries if entry.kind == kind)


class Builder:
    """Builds one dataset. ``runs``: has the explanations of failed runs; None: rows have none. Raises DamagedLogError if the ledger and
    the files contradict each other."""

    def __init__(
        self, session: SparkSession, files: Files, spec: DatasetSpec, now_s: Callable[[], float], runs: RunCatalog | None = None
    ) -> None:
        self._session, self._files, self._spec = session, files, spec
        self._committer = Committer(files, spec.layout)
        self._explanations = RecordedExplanations(runs, now_s)
        self._runs = NewRuns(spec.options, self._explanations, now_s, live=spec.live)
        logs, begun_ms = clients_of(spec.options)[0].store, int(now_s() * 1000)
        self._marked = MarkedRows(files, self._committer, logs, spec.layout.buckets, now_s, begun_ms)
        self._problems: Tally = tally(session.sparkContext)
        self._requests: Tally = tally(session.sparkContext)

    def preview(self) -> Work | None:
        """The next batch; None if nothing is new. Writes nothing."""
        ledger = self._committer.ledger
        state = ledger.head().state
        self._spec.layout.check(state.layout)
        offset = ledger.planned(state.number + 1) or self._runs.latest(state.offset)
        return self._runs.work(state.offset, offset) if offset else None

    def append(self) -> Entry | None:
        """Commit the next batch of new events; None if nothing is new. Raises CommitConflictError."""
        state, ledger = self._committer.settled(), self._committer.ledger
        offset = ledger.planned(state.number + 1)
        if offset is None:
            latest = self._runs.latest(state.offset)
            if latest is None:
                return None
            offset = ledger.plan(state.number + 1, latest)
        work = self._runs.work(state.offset, offset)
        change = Change(APPEND, offset, counts={"runs": len(work.arrived_s), "bytes_in": work.bytes})
        tasks = self._tasks(work)
        return self._committer.commit(state, change, (lambda attempt: self._write(tasks, attempt)) if tasks else None)

    def rewrite(self) -> Entry | None:
        """Merge small files; None if no merge is worthwhile. Raises CommitConflictError."""
        state = self._committer.settled()
        packed = bins(state.files.values(), self._spec.sizes)[:MAX_BINS]
        if not packed:
            return None
        removed = [file for each in packed for file in each]
        change = Change(REWRITE, removed=removed, counts={"replaced": len(removed)})

        def put_together(attempt: str) -> None:  # fails if another job has removed the files; Committer detects that case
            stage(rows_of_bins(self._session, self._files, packed), self._files, attempt)

        return self._committer.commit(state, change, put_together)

    def remove(self) -> Entry | None:
        """Remove rows of deleted runs; None if there are none. Raises CommitConflictError."""
        return self._marked.remove()

    def add_counts(self, done: BuildResult) -> None:
        """Add problems and requests to the result."""
        done.problems.update(self._problems.value + self._runs.problems())
        done.requests.update(self._requests.value)

    def _tasks(self, work: Work) -> list[WriteTask]:
        causes, buckets = self._explanations.causes(work.failed), self._spec.layout.buckets
        runs = {run: values_of(run.fqn, at_s, causes.get(run, ()), buckets) for run, at_s in work.arrived_s.items()}
        return write_tasks(work.slices, runs)

    def _write(self, tasks: Sequence[WriteTask], attempt: str) -> list[StagedFile]:
        folder = f"{STAGING}{attempt}/{OUTPUT}"
        return write_events(self._session, self._spec.options, tasks, self._files.uri, folder, self._problems, self._requests)

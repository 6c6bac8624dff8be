"""One world for tests: a clock, a store and a catalog in memory, and Runlake's parts built over them (or over wrappers of them)."""

from __future__ import annotations

from dataclasses import dataclass

from chalicelib.catalog.runs import RunCatalog
from chalicelib.composition import in_memory_work_sources
from chalicelib.deadline import Deadline
from chalicelib.pipelines.files.generations import Generations
from chalicelib.ports import Database, ObjectStore, Run, SegmentEntry, SegmentIndex
from chalicelib.removal.run_removal import RunRemoval
from chalicelib.removal.run_steps import RunSteps
from chalicelib.runlog.compaction import Compactor
from chalicelib.runlog.finalization import Finalizer
from chalicelib.runlog.layout import Layout
from chalicelib.runlog.log_end import list_all
from chalicelib.runlog.position import PositionSigner
from chalicelib.runlog.reader import PageRequest, Reader
from chalicelib.runlog.segment_gc import read_retired_entries
from chalicelib.runlog.writer import Writer
from tests.support.clock import ManualClock
from tests.support.database import InMemoryDatabase
from tests.support.object_store import InMemoryObjectStore
from tests.support.segment_index import InMemorySegmentIndex

START_MS = 1_790_000_000_000
RUN = Run("svc.pipeline", "0f1e2d3c-0000-4000-8000-000000000001")


@dataclass
class Parts:
    """Runlake's core over one store and one catalog."""

    writer: Writer
    compactor: Compactor
    finalizer: Finalizer
    reader: Reader


class World:
    """A bucket, a catalog and a clock that tests own. ``parts()`` builds any number of processes over them."""

    def __init__(self) -> None:
        self.clock = ManualClock(START_MS)
        self.store = InMemoryObjectStore(self.clock)
        self.archive_store = InMemoryObjectStore(self.clock)
        self.database = InMemoryDatabase()
        self.index = InMemorySegmentIndex(self.database)
        self.work_sources = in_memory_work_sources()
        self.layout = Layout("pipeline-logs")
        self.signer = PositionSigner(["test-key"])
        self.expiration_ms = 0

    def parts(self, store: ObjectStore | None = None, index: SegmentIndex | None = None) -> Parts:
        store, index = store or self.store, index or self.index
        writer = Writer(store, index, self.layout, self.signer, self.clock)
        compactor = Compactor(store, index, self.layout, self.clock)
        finalizer = Finalizer(store, compactor, writer, self.clock, "STANDARD_IA", expiration_ms=self.expiration_ms)
        return Parts(writer, compactor, finalizer, Reader(store, index, self.layout, self.clock, compactor))

    def removal(
        self,
        runs: RunCatalog,
        store: ObjectStore | None = None,
        index: SegmentIndex | None = None,
        database: Database | None = None,
    ) -> RunRemoval:
        store, index, database = store or self.store, index or self.index, database or self.database
        steps = RunSteps(store, self.layout, index, database, self.clock, lambda _: store, lambda _: 0, lambda _: 0)
        generations = Generations(database, self.clock)
        return RunRemoval(store, self.layout, self.parts(store).writer, runs, index, database, self.clock, generations, steps)

    def deadline(self, seconds: float = float("inf")) -> Deadline:
        return Deadline(self.clock, seconds)

    def names(self, run: Run = RUN) -> list[str]:
        """Names of a run's objects, without the run's prefix; entries of deleted segments are listed separately."""
        prefix = self.layout.run_prefix(run)
        keys = [found.key for found in list_all(self.store, prefix)]
        return [key.removeprefix(prefix) for key in keys if not key.startswith(self.layout.all_retired(run))]

    def retired_entries(self, run: Run = RUN) -> list[SegmentEntry]:
        """The stored entries of deleted segments, by number."""
        objects = [found.key for found in list_all(self.store, self.layout.all_retired(run))]
        entries = [entry for key in objects for entry in read_retired_entries(self.store.get(key).body)]
        return sorted(entries, key=lambda entry: entry.sequence)

    def body(self, name: str, run: Run = RUN) -> bytes:
        """The bytes of one of a run's objects."""
        return self.store.get(self.layout.run_prefix(run) + name).body

    def read_all(self, run: Run = RUN, limit: int = 1000) -> list[str]:
        """Every line by pages, as a viewer would."""
        lines: list[str] = []
        after: int | None = 0
        while after is not None:
            page = self.parts().reader.page(run, PageRequest(after=after, limit=limit))
            lines += page.logs.split("\n") if page.total else []
            after = page.after
        return lines

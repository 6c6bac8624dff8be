"""Plans a batch read on the driver: selects runs, locates their bytes, skips unneeded ones, and assigns the rest to tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from chalicelib.catalog.runs import RunCatalog
from chalicelib.errors import DamagedLogError, ObjectNotFoundError, StoreConditionError, StoreUnavailableError
from chalicelib.ports import ObjectStore, Run, SegmentIndex
from chalicelib.runlog.layout import Layout
from chalicelib.runlog.segment import entry_of
from glue_jobs.datasource.arrival import ArrivalFilter, ArrivalWindow, read_sample
from glue_jobs.datasource.clients import THREADS
from glue_jobs.datasource.content import Content
from glue_jobs.datasource.listing import KeyListing, RunFinder, objects_of
from glue_jobs.datasource.log import Log, MissingSegments, Resolver, SegmentChain
from glue_jobs.datasource.objects import RunObjects
from glue_jobs.datasource.options import Options
from glue_jobs.datasource.planning import LogSlicer, packed, sample_of
from glue_jobs.datasource.problems import KEY, Problems
from glue_jobs.datasource.selection import Selection
from glue_jobs.datasource.slices import BACK, CUT, EXACT, Edge, Slice
from glue_jobs.datasource.tasks import Slices

_TRIES = 5
_FEW_SEGMENTS = 16


class RunLocator:
    """Lists runs and locates their bytes at one point in time."""

    def __init__(self, keys: KeyListing, store: ObjectStore, options: Options, problems: Problems) -> None:
        self._keys, self._store, self._problems = keys, store, problems
        self._layout = Layout(options.prefix)
        self._folders_of_openmetadata: set[str] = set()
        self._resolver = Resolver(store, self._layout, problems, self._may_be_openmetadatas)

    def find(self, selection: Selection) -> list[RunObjects]:
        """The selected runs. See ``RunFinder``; one more LIST for each pipeline with runs that have no artifact yet."""
        finder = RunFinder(
            self._keys, self._layout, lambda run, key: self._problems.report(run, KEY, key, "not an object of a run's log")
        )
        objects = finder.find(selection)
        self._folders_of_openmetadata |= self._find_openmetadatas(objects)
        return objects

    def logs(self, runs: Sequence[RunObjects]) -> Iterator[tuple[RunObjects, Log]]:
        """Logs of the runs, in order. A HEAD or two for runs whose listing is not enough."""
        with ThreadPoolExecutor(THREADS) as threads:
            asked = {run.base: threads.submit(self.log, run) for run in runs if self._is_asked(run)}
            for run in runs:
                yield asked.pop(run.base).result() if run.base in asked else (run, self._resolver.log_of(run))

    def log(self, run: RunObjects) -> tuple[RunObjects, Log]:
        """A run's log. Lists the run again if its objects have changed, and before segments count as missing: a compaction
        between two pages of a listing looks the same."""
        is_sure = False
        for _ in range(_TRIES):
            try:
                log = self._resolver.log_of(run)
                if is_sure or not any(isinstance(piece, MissingSegments) for piece in log.pieces):
                    return run, log
                is_sure = True
            except StoreConditionError:
                is_sure = False
            run = objects_of(self._store, self._layout, run.run, run.base)
        raise StoreUnavailableError(f"the run keeps changing run={run.run.fqn}/{run.run.run_id}")

    def _is_asked(self, run: RunObjects) -> bool:
        has_gap = len(run.segment_ranges) > 1 or (not run.logs and not run.partial and run.segment_ranges[0].first > 0)
        return has_gap or self._resolver.needs_requests(run)

    def read(self, run: RunObjects, at_end: bool) -> tuple[bytes, str]:
        """A run's first or last few KiB, and its zone."""
        objects, log = self.log(run)
        content = Content(self._store, self._layout, objects.run, objects.base, log.pieces, self._problems)
        return read_sample(content.read, log, at_end=at_end), content.zone

    def _may_be_openmetadatas(self, run: Run) -> bool:
        return self._layout.legacy_run_prefix(run) in self._folders_of_openmetadata

    def _find_openmetadatas(self, runs: Sequence[RunObjects]) -> set[str]:
        """Run folders under OpenMetadata's own names of pipelines, which may have the beginnings of these runs."""
        layout = self._layout
        begun = {run.run for run in runs if not run.logs and not run.partial}
        prefixes = {layout.legacy_fqn_prefix(run.fqn) for run in begun if layout.legacy_run_prefix(run) != layout.run_prefix(run)}
        with ThreadPoolExecutor(THREADS) as threads:
            return {folder for folders in threads.map(self._keys.folders, sorted(prefixes)) for folder in folders}


class Planner:
    """Plans one read. Requests: see ``RunLocator``, ``ArrivalFilter`` and ``LogSlicer``."""

    def __init__(
        self,
        locator: RunLocator,
        store: ObjectStore,
        options: Options,
        runs: RunCatalog | None = None,
        index: SegmentIndex | None = None,
    ) -> None:
        self._locator, self._store, self._options = locator, store, options
        self._runs, self._index = runs, index
        self._cutter = LogSlicer(store, index, options.bytes_per_partition)

    def plan(self, selection: Selection) -> list[Slices]:
        """Tasks, in the order of pipelines and runs. Memory: about 12 bytes a segment, and 1 KB a run."""
        objects = self._locator.find(selection)
        window = ArrivalWindow.of(selection, self._options)
        arrivals = ArrivalFilter(window, self._options, self._started_s(objects), self._locator.read) if window else None
        if arrivals:
            objects = arrivals.select(objects)
        slices = self._slices(objects, selection, arrivals)
        return [Slices(tuple(each)) for each in packed(slices, self._options.bytes_per_partition)]

    def _slices(self, objects: Sequence[RunObjects], selection: Selection, arrivals: ArrivalFilter | None) -> Iterator[Slice]:
        for run_objects, log in self._locator.logs(objects):
            if self._options.status and log.status not in self._options.status:
                continue
            start, end = Edge(0), Edge(log.end, None, EXACT)
            firsts, ends = zip(
                arrivals.edges(log, run_objects, self._index) if arrivals else (None, None),
                self._edges_of_lines(log, selection) if selection.bounds_lines else (None, None),
                strict=True,
            )
            first = max((edge for edge in firsts if edge), key=lambda edge: edge.byte, default=None)
            start = first._replace(kind=BACK) if first else start
            last = min((edge for edge in ends if edge), key=lambda edge: edge.byte, default=end)
            yield from self._cutter.slices(log, start, last, until=end, sample_bytes=sample_of(log))

    def _started_s(self, objects: Sequence[RunObjects]) -> Mapping[Run, float]:
        """Start times of runs from the catalog. A query for each pipeline (and each MB of its rows)."""
        if self._runs is None:
            return {}
        runs = self._runs
        selected = {each.run for each in objects}

        def rows(fqn: str) -> dict[Run, float]:
            started: dict[Run, float] = {}
            cursor: str | None = None
            while True:
                page = runs.newest(fqn, 1000, cursor)
                started |= {row.run: row.started_ms / 1000 for row in page.rows if row.run in selected and row.started_ms}
                cursor = page.cursor
                if cursor is None:
                    return started

        with ThreadPoolExecutor(THREADS) as threads:
            return {run: at for by_run in threads.map(rows, {run.fqn for run in selected}) for run, at in by_run.items()}

    def _edges_of_lines(self, log: Log, selection: Selection) -> tuple[Edge | None, Edge | None]:
        """Edges around the selected lines."""
        if self._index is not None:
            return self._edges_of_rows(self._index, log, selection)
        chain = log.pieces[0] if len(log.pieces) == 1 else None
        if not isinstance(chain, SegmentChain) or len(chain.sizes) <= _FEW_SEGMENTS:
            return None, None
        first = self._bisected(log, chain, selection.first_line)
        start = Edge(chain.starts[first], None, CUT) if first else None
        behind = len(chain.sizes) if selection.end_line is None else self._bisected(log, chain, selection.end_line) + 1
        return start, Edge(chain.starts[behind], None, CUT) if behind < len(chain.sizes) else None

    def _edges_of_rows(self, index: SegmentIndex, log: Log, selection: Selection) -> tuple[Edge | None, Edge | None]:
        row = index.at_line(log.run, selection.first_line) if selection.first_line else None
        last = index.at_line(log.run, selection.end_line) if selection.end_line is not None else None
        start = Edge(row.byte, row.line, CUT) if row and 0 < row.byte < log.end else None
        # Rows may lag behind the log: the last one says nothing about later lines.
        is_inside = last is not None and selection.end_line is not None and last.end_line > selection.end_line
        return start, Edge(last.end_byte, last.end_line, CUT) if last and is_inside and last.end_byte < log.end else None

    def _bisected(self, log: Log, chain: SegmentChain, line: int) -> int:
        """The index of the last segment that begins at or before a line. A HEAD a step."""
        low, high = 0, len(chain.sizes)
        while high - low > 1:
            middle = (low + high) // 2
            first = self._first_line(f"{chain.base}segments/{chain.first + middle:010d}", chain.first + middle)
            if first is None:
                return 0  # damaged, or gone: read all
            low, high = (middle, high) if first <= line else (low, middle)
        return low

    def _first_line(self, key: str, sequence: int) -> int | None:
        try:
            info = self._store.head(key)
            return entry_of(sequence, info.metadata, info.size).line
        except (ObjectNotFoundError, DamagedLogError):
            return None

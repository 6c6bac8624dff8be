"""Operations on files from outside of pipelines: reading, retention, deletion, repair. One instance per process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from chalicelib.deadline import Deadline
from chalicelib.errors import InvalidInputError, RunlakeError
from chalicelib.lines.levels import level_of_name
from chalicelib.pipelines.files.bucket_location import HOME, BucketLocation
from chalicelib.pipelines.files.deletion import Deletion, DeletionResult, RunLogs
from chalicelib.pipelines.files.generations import Generations
from chalicelib.pipelines.files.key_layout import is_base
from chalicelib.pipelines.files.output_sets import OutputSet, get_output_set, list_output_sets, output_set_names
from chalicelib.pipelines.files.reading import FileEventQuery, FileReader, MergePosition
from chalicelib.pipelines.files.records import FileEvent
from chalicelib.pipelines.files.repair import FileFinding, Repair
from chalicelib.pipelines.files.retention import OutputRetention, RetentionResult
from chalicelib.pipelines.files.rows import FileRow
from chalicelib.pipelines.records import split_fqn
from chalicelib.ports import Clock, Database, ObjectStore, Run
from chalicelib.response_size import PAGE_BYTES, document_bytes
from chalicelib.runlog.deletion_marks import NOBODY, DeletionOrder

MAX_FINDINGS = 1000


@dataclass(frozen=True, slots=True)
class FileEventPage:
    """``after`` None: there is no more now. A page that the deadline cut may be empty although there is more. ``left_out``: files
    and rows that are missing or damaged, each with the reason. ``unsupported``: the number of files in a format that cannot be
    read here."""

    events: list[FileEvent]
    after: MergePosition | None
    left_out: list[tuple[str, str]] = field(default_factory=list)
    unsupported: int = 0


@dataclass(frozen=True, slots=True)
class FileListPage:
    """``after``: the row after which the next page begins, None at the end. ``store`` has the files' objects, of which the first
    ``size`` bytes count. ``left_out`` as of ``FileEventPage``."""

    files: list[FileRow]
    after: str | None
    store: ObjectStore
    left_out: list[tuple[str, str]] = field(default_factory=list)


class PipelineFiles:
    """``stores`` returns buckets by location. ``run_logs`` None: deletions leave run logs alone."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        stores: Callable[[BucketLocation], ObjectStore],
        run_logs: RunLogs | None = None,
        started_ms: Callable[[Run], int | None] = lambda _: None,
    ) -> None:
        self._database, self._clock, self._stores, self._started_ms = database, clock, stores, started_ms
        self.generations = Generations(database, clock)
        self._deletion = Deletion(database, self.generations, clock, lambda base: stores(base.location), run_logs)

    def generation_of(self, run: Run) -> str | None:
        """For the framework: a run's generation; None if it was deleted and its events are to be dropped. A run that the catalog
        does not know starts now. Two reads."""
        started_ms = self._started_ms(run)
        return self.generations.of_run(
            split_fqn(run.fqn)[0], run.fqn, run.run_id, self._clock.now_ms() if started_ms is None else started_ms
        )

    def page(
        self, query: FileEventQuery, limit: int, deadline: Deadline, after: MergePosition | None = None, level: str | None = None
    ) -> FileEventPage:
        """Events of a range, or those of a ``level``, in any spelling, limited by ``limit``, 4 MiB as JSON, and the deadline. A
        single event that is larger is truncated.
        Each page advances beyond the one before, if only by a file without events in the range. Raises InvalidInputError
        (unknown base), UnavailableError."""
        base = self._base(query.base)
        reading, left_out = self._reader(self._stores(base.location))
        merge = reading.merge(query, deadline, after)
        events: list[FileEvent] = []
        size, severity = 0, level_of_name(level or "")
        for event in merge.events():
            if level is not None and level_of_name(event.level) != severity:
                continue
            event_bytes = document_bytes(event.document())
            if event_bytes > PAGE_BYTES:
                event = event.clipped()
                event_bytes = document_bytes(event.document())
            size += event_bytes
            if events and (len(events) == limit or size > PAGE_BYTES):
                return FileEventPage(events, merge.position, left_out, len(reading.unsupported))
            events.append(event)
        return FileEventPage(events, merge.position if merge.is_cut else None, left_out, len(reading.unsupported))

    def files(self, query: FileEventQuery, limit: int, after: str = "") -> FileListPage:
        """Files with events of a range, by program and first time, ``limit`` of them from the row ``after`` on. Each page reads the rows
        of the range, as a page of events does. Raises InvalidInputError (unknown base), UnavailableError."""
        base = self._base(query.base)
        store = self._stores(base.location)
        reader, left_out = self._reader(store)
        rows = sorted((row for row in reader.files(query) if row.at > after), key=lambda row: row.at)
        listed = rows[:limit]
        return FileListPage(listed, listed[-1].at if len(rows) > limit else None, store, left_out)

    def bases(self, limit: int, after: str = "") -> tuple[list[str], str | None]:
        """See ``output_set_names``. Raises UnavailableError."""
        return output_set_names(self._database, after, limit)

    def delete(
        self,
        namespace: str,
        fqn: str | None,
        deadline: Deadline,
        may: Callable[[str], bool] | None = None,
        order: DeletionOrder = NOBODY,
    ) -> DeletionResult:
        """See ``Deletion.delete``."""
        return self._deletion.delete(namespace, fqn, deadline, may, order)

    def run_maintenance(self, deadline: Deadline) -> tuple[DeletionResult, dict[str, RetentionResult]]:
        """The work of a schedule: resume deletions, then remove the files that are due from each output set. Can be stopped
        anywhere, and repeated. A bucket that fails does not stop the others: its error is raised at the end."""
        deleted, results, errors = DeletionResult(is_complete=False), {}, list[RunlakeError]()
        try:
            deleted = self._deletion.resume(deadline)
        except RunlakeError as error:
            errors.append(error)
        for base in list_output_sets(self._database):
            if deadline.remaining_s() <= 0:
                break
            try:
                results[base.name] = OutputRetention(self._stores(base.location), self._database, self._clock).run(base, deadline)
            except RunlakeError as error:
                errors.append(error)
        else:
            if not errors and all(each.is_complete for each in results.values()):
                OutputRetention(self._stores(HOME), self._database, self._clock).forget_writers()
        if errors:
            raise errors[0]
        return deleted, results

    def findings(self, base_name: str) -> tuple[list[FileFinding], bool]:
        """The inconsistencies of an output set, up to 1,000 findings and 4 MiB as JSON; and whether these are all."""
        base = self._base(base_name)
        listed: list[FileFinding] = []
        size = _ListedSize()
        for finding in self._repair(base).findings(base):
            listed.append(finding)
            if not size.add(finding):
                return listed, False
        return listed, True

    def repair(self, base_name: str, deadline: Deadline) -> tuple[list[FileFinding], bool]:
        """Repair as many findings as one response lists. Returns the repaired findings, and whether none is left."""
        base = self._base(base_name)
        return self._repair(base).repair_all(base, deadline, _ListedSize().add)

    def _reader(self, store: ObjectStore) -> tuple[FileReader, list[tuple[str, str]]]:
        """A reader, and what it will have left out."""
        left_out: list[tuple[str, str]] = []
        generations = Generations(self._database, self._clock)  # a fresh cache: recent deletions apply
        return FileReader(store, self._database, generations, lambda what, why: left_out.append((what, why))), left_out

    def _repair(self, base: OutputSet) -> Repair:
        return Repair(self._stores(base.location), self._database, self._clock)

    def _base(self, name: str) -> OutputSet:
        base = get_output_set(self._database, name) if is_base(name) else None
        if base is None:
            raise InvalidInputError(f"no handler has this base, GET /v1/pipeline-files/bases lists them base={name[:200]!r}")
        return base


class _ListedSize:
    """The size of the findings in a response."""

    def __init__(self) -> None:
        self._count = self._bytes = 0

    def add(self, finding: FileFinding) -> bool:
        """Add one. Returns whether there is room for another."""
        self._count += 1
        self._bytes += document_bytes({"kind": finding.kind, "path": finding.path, "detail": finding.detail})
        return self._count < MAX_FINDINGS and self._bytes < PAGE_BYTES

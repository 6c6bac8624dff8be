"""Update the catalog rows of files from the current state of their objects, all rows of a file in one transaction.

Table ``objects`` has the state that a file's rows were written from, with a revision that each update increments:

    key            row
    file#{id}      revision, url, document (absent: the file is deleted or rejected), problem, unsettled, expires_at
    url#{url}      revision, id, expires_at     if the object's key does not contain the file's id

An object is read **after** its row was read, and the result is written on condition that the row still has that revision. Every
update makes a new revision, even if nothing has changed. So updates of an object are ordered by revision, and a notification that
is late, duplicated or out of order can only write the current state. The row of a deleted file expires after 15 days.

Decision 0008 has the unsafe sequences.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from random import random

from chalicelib.catalog.file_ids import data_key, has_data_key, run_object_id
from chalicelib.catalog.file_state import FileState, UrlState, file_key, file_state_of_row, url_key, url_state_of_row
from chalicelib.catalog.files import FileRecord
from chalicelib.catalog.latest import LatestFiles, Source
from chalicelib.catalog.listing import directory_keys, listing_rows
from chalicelib.errors import PreconditionFailedError, StoreUnavailableError, UnavailableError, WriteConflictError
from chalicelib.ports import ABSENT_ROW, MAX_TRANSACTION_WRITES, Clause, Clock, Database, Delete, Key, Put, Row, Write

ATTEMPTS = 8
THREADS = 8
_FIRST_PAUSE_S = 0.01
_MAX_KNOWN = 50_000


@dataclass(frozen=True, slots=True)
class ObjectRef:
    """An object whose file is to be updated. ``id``: the file's, if the object's key contains it."""

    bucket: str
    key: str
    id: str | None

    @property
    def url(self) -> str:
        """The object's URL."""
        return f"s3://{self.bucket}/{self.key}"

    @property
    def is_run_log(self) -> bool:
        """Whether it is a run's own log; any other object is in the bucket of the archive."""
        return self.id == run_object_id(self.key)


@dataclass(frozen=True, slots=True)
class Description:
    """The current state of an object: a file (``record``), deleted (neither), or not to be listed, with the reason (``problem``).

    ``rejected_id``: with a problem, the file that is marked with it. ``by_presigned_url``: the object was uploaded through a
    presigned URL, which creates an object at most once.
    """

    record: FileRecord | None = None
    problem: str = ""
    rejected_id: str | None = None
    by_presigned_url: bool = False

    @property
    def id(self) -> str | None:
        """The id of the object's file."""
        return self.record.id if self.record else self.rejected_id


Describe = Callable[[ObjectRef], Description]
"""Reads an object. Called from several threads; an UnavailableError fails this object only."""


@dataclass(frozen=True, slots=True)
class RegistrationResult:
    """The result for an object. ``error``: retryable; the rows may have been written or not. ``former_ids``: files that the
    object was before this update, or is rejected as: another object may now be one of them."""

    description: Description = Description()
    error: UnavailableError | None = None
    former_ids: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class _Plan:
    """The writes for one object, with the record that it adds (``gained``) and those that it removes or backdates (``lost``), for
    the latest files.

    ``unsettled``: sources that an earlier update may not have settled. The writes clear them in the rows, so they are settled
    before.
    """

    description: Description
    writes: tuple[Write, ...] = ()
    gained: FileRecord | None = None
    lost: tuple[FileRecord, ...] = ()
    unsettled: frozenset[Source] = frozenset()
    former_ids: frozenset[str] = frozenset()
    is_partial: bool = False

    @property
    def is_too_large(self) -> bool:
        """Whether it exceeds a transaction, together with the writes for the latest files."""
        return len(self.writes) + 1 + len(self.lost) > MAX_TRANSACTION_WRITES


@dataclass(frozen=True, slots=True)
class _Stored:
    """The rows that were read before the objects: of URLs, for objects whose keys do not contain the file's id, and of files."""

    names: Mapping[Key, UrlState]
    files: Mapping[Key, FileState]

    def name(self, ref: ObjectRef) -> UrlState | None:
        """The stored state of the object's URL, if it has any."""
        return self.names.get(url_key(ref.url))

    def of(self, ref: ObjectRef) -> list[FileState]:
        """The files that the object may have been: by its key, and by its URL's row."""
        name = self.name(ref)
        return [self.files[file_key(each)] for each in dict.fromkeys([ref.id, name.id if name else None]) if each]

    def pending_originals(self, ref: ObjectRef) -> frozenset[str]:
        """Former files of the object whose originals an interrupted update may not have read. Files that the object may still be
        are left out: they are updated after it."""
        name = self.name(ref)
        return frozenset(name.former_ids if name else ()) - {state.id for state in self.of(ref)} - {ref.id or ""}


class FileCatalogWriter:
    """Keeps all tables of files consistent with each other and with the objects."""

    def __init__(self, database: Database, latest: LatestFiles, clock: Clock) -> None:
        self._database, self._latest, self._clock = database, latest, clock
        self._known: frozenset[Key] = frozenset()

    def update(
        self, refs: Sequence[ObjectRef], describe: Describe, *, rewrite: bool = False
    ) -> dict[ObjectRef, RegistrationResult]:
        """Write the current state of distinct objects to the catalog. Ten new files cost ten reads of objects, two reads of rows
        and a transaction, and a batch write if one is the first of its source or period in this process. ``rewrite``: also write
        the rows of unchanged files, to rebuild a lost table."""
        try:
            memory = self._read(refs)
        except UnavailableError as error:
            return {ref: RegistrationResult(error=error) for ref in refs}
        outcomes: dict[ObjectRef, RegistrationResult] = {}
        plans: dict[ObjectRef, _Plan | None] = {}
        for ref, description in _descriptions(refs, describe):
            if isinstance(description, UnavailableError):
                outcomes[ref] = RegistrationResult(error=description)
            else:
                plans[ref] = self._plan(ref, description, memory, rewrite=rewrite)
        ready = {ref: plan for ref, plan in plans.items() if plan and not plan.is_partial and not memory.pending_originals(ref)}
        for group in _groups(ready):
            if self._apply(list(group.values()), alone=False):
                outcomes |= {ref: RegistrationResult(plan.description, former_ids=plan.former_ids) for ref, plan in group.items()}
        for ref in refs:
            outcome = outcomes.get(ref) or self._update_one(ref, describe, rewrite=rewrite)
            behind = self._update_originals(ref, outcome.former_ids, describe)
            outcomes[ref] = replace(outcome, error=outcome.error or behind)
        return {ref: outcomes[ref] for ref in refs}

    def _update_originals(self, ref: ObjectRef, ids: Iterable[str], describe: Describe) -> UnavailableError | None:
        """If a copy under another key was its file's object, the object under ``{id}/data`` becomes the file's object again."""
        for file_id in sorted(filter(has_data_key, ids)):
            original = ObjectRef(ref.bucket, data_key(file_id), file_id)
            if error := self._update_one(original, describe, rewrite=False, is_original=True).error:
                return error
        return None

    def find(self, file_id: str) -> FileState | None:
        """The stored state of a file. One read."""
        key = file_key(file_id)
        row = self._database.get_many([key]).get(key)
        return file_state_of_row(key, row) if row else None

    def _update_one(self, ref: ObjectRef, describe: Describe, *, rewrite: bool, is_original: bool = False) -> RegistrationResult:
        """Update one object, and retry while concurrent writers change its rows. ``is_original``: the update follows from that
        of another object, so it leaves its own pending originals to a later update."""
        met: set[str] = set()
        try:
            for attempt in range(ATTEMPTS):
                self._clock.sleep(_FIRST_PAUSE_S * 2**attempt * (0.5 + random()) if attempt > 1 else 0)
                memory = self._read([ref], met)
                pending_originals = frozenset() if is_original else memory.pending_originals(ref)
                if pending_originals:
                    if error := self._update_originals(ref, pending_originals, describe):
                        return RegistrationResult(error=error)
                    before, memory = memory, self._read([ref], met)  # their updates may have changed these rows
                    pending_originals = pending_originals if memory.name(ref) == before.name(ref) else frozenset()
                description = describe(ref)
                plan = self._plan(ref, description, memory, rewrite=rewrite, settled=pending_originals)
                if plan and self._apply([plan], alone=True) and not plan.is_partial:
                    return RegistrationResult(plan.description, former_ids=plan.former_ids)
                met |= {description.id} if description.id else set()
        except UnavailableError as error:
            return RegistrationResult(error=error)
        return RegistrationResult(error=StoreUnavailableError(f"the file keeps changing while it is catalogued url={ref.url}"))

    def _read(self, refs: Sequence[ObjectRef], ids: Iterable[str] = ()) -> _Stored:
        """The stored files that the objects may be, by id and by URL. One read, and a second one if there are rows of URLs."""
        urls = [url_key(ref.url) for ref in refs]
        files = [file_key(each) for each in [*(ref.id for ref in refs), *ids] if each]
        rows = dict(self._database.get_many(urls + files))
        names = {key: url_state_of_row(rows[key]) for key in urls if key in rows}
        if further := [file_key(name.id) for name in names.values() if name.id and file_key(name.id) not in files]:
            rows |= self._database.get_many(further)
        return _Stored(names, {key: file_state_of_row(key, rows.get(key)) for key in [*files, *further]})

    def _plan(
        self, ref: ObjectRef, description: Description, memory: _Stored, *, rewrite: bool, settled: frozenset[str] = frozenset()
    ) -> _Plan | None:
        """The writes; None if the row of the file that the object turned out to be was not read before the object.

        Every update is recorded in the file's row, or in the URL's row if the key does not contain the id, even if nothing has
        changed: the condition of a concurrent update that read the object earlier must fail. ``settled``: former files of the
        object whose originals have been updated since.
        """
        if description.id and file_key(description.id) not in memory.files:
            return None
        if description.id:
            description = admitted(ref, description, memory.files[file_key(description.id)])
        name, was = memory.name(ref), memory.of(ref)
        is_named = name is not None or ref.id is None or description.id not in (None, ref.id)
        removals = [
            self._removal(ref, state)
            for state in was
            if state.id != description.id and (state.is_at(ref.url) or state.id == ref.id or not is_named)
        ]
        former_ids = {state.id for state in was} - {description.record.id if description.record else None, ref.id}
        plan = _Plan(
            description,
            unsettled=frozenset(source for state in was for source in state.unsettled),
            former_ids=frozenset(former_ids),
        )
        if is_named:
            remembered = sorted(former_ids | (memory.pending_originals(ref) - settled))
            more: Row = ({} if description.id else {"expires_at": self._expires_at()}) | (
                {"left": remembered} if remembered else {}
            )
            plan = replace(plan, writes=(_url_row(ref, description.id or (name.id if name else ""), name, more),))
        for removal in removals:
            plan = _joined(plan, removal)
        if description.id:
            lost = [record.source for record in plan.lost]
            plan = _joined(plan, _change(ref, description, memory.files[file_key(description.id)], lost, rewrite=rewrite))
        if plan.is_too_large:  # a file of a month moves: delete the old rows first, then write the new ones
            halves = [*removals, *([self._gone(ref, memory.files[file_key(description.id)])] if description.id else [])]
            half = max(halves, key=lambda half: len(half.writes))
            return replace(half, is_partial=True, unsettled=plan.unsettled)
        return plan

    def _removal(self, ref: ObjectRef, state: FileState) -> _Plan:
        """The object is not, or is no longer, this file."""
        if state.is_known and not state.is_at(ref.url):  # another object is this file
            return _Plan(Description(), (Put(state.key, state.next_row(state.url, state.record, state.problem), state.unchanged),))
        return self._gone(ref, state)

    def _gone(self, ref: ObjectRef, state: FileState) -> _Plan:
        lost = (state.record,) if state.record else ()
        row = state.next_row(ref.url, None, "", [record.source for record in lost]) | {"expires_at": self._expires_at()}
        writes: tuple[Write, ...] = (Put(state.key, row, state.unchanged), *(Delete(key) for key in _rows(state.record)))
        return _Plan(Description(), writes, lost=lost)

    def _expires_at(self) -> int:
        return self._clock.now_ms() // 1000 + FileState.DELETED_TTL_S

    def _apply(self, plans: Sequence[_Plan], *, alone: bool) -> bool:
        """Execute the plans; False if any condition failed. Raises UnavailableError only if ``alone``, else returns False."""
        gained = [plan.gained for plan in plans if plan.gained]
        lost = [record for plan in plans for record in plan.lost]
        try:
            self._settle(source for plan in plans for source in plan.unsettled)
            self._put_directory_rows(gained)
            writes = [write for plan in plans for write in plan.writes] + self._latest.writes(gained, lost)
            if writes:
                self._database.transact(writes)
            self._settle(record.source for record in lost)
        except (PreconditionFailedError, WriteConflictError):
            return False
        except UnavailableError:
            if alone:
                raise
            return False
        return True

    def _settle(self, sources: Iterable[Source]) -> None:
        for source in sorted(set(sources)):
            self._latest.settle(*source)

    def _put_directory_rows(self, records: Iterable[FileRecord]) -> None:
        """Write directory rows before the first file that needs them, so that queries find every listed file."""
        keys = {key for record in records for key in directory_keys(record)} - self._known
        if keys:
            self._database.put_many([Put(key, {"partition": key.partition, "at": key.sort}) for key in keys])
            self._known = frozenset(keys) | (self._known if len(self._known) < _MAX_KNOWN else frozenset())


def _descriptions(refs: Sequence[ObjectRef], describe: Describe) -> Iterator[tuple[ObjectRef, Description | UnavailableError]]:
    def described(ref: ObjectRef) -> Description | UnavailableError:
        try:
            return describe(ref)
        except UnavailableError as error:
            return error

    if len(refs) == 1:
        yield refs[0], described(refs[0])
        return
    with ThreadPoolExecutor(THREADS) as threads:
        yield from zip(refs, threads.map(described, refs), strict=True)


def admitted(ref: ObjectRef, description: Description, state: FileState) -> Description:
    """The description of an object, or why it cannot be the file that it describes, whose stored state is ``state``.

    Only a run's own log becomes, or is rejected as, a file that is a run's log; the log takes its id from any other object. A presigned
    URL creates an object at most once: an upload through it after the file was deleted is ignored. The row keeps that fact until it
    expires, and each update of the object extends it.
    """
    record = description.record
    if not ref.is_run_log and state.is_run_log(ref.bucket):
        return Description(problem=f"the id is that of a run's log, and no other object can have it id={state.id} url={ref.url}")
    if record and description.by_presigned_url and state.is_late_upload(ref.url, record.create_time):
        return Description(problem=f"the file was deleted, and a presigned upload cannot restore it id={record.id}")
    return description


def _change(ref: ObjectRef, description: Description, state: FileState, unsettled: Sequence[Source], *, rewrite: bool) -> _Plan:
    """The object is, or is rejected as, this file. ``unsettled``: sources that lose a file in the same transaction."""
    record, before = description.record, state.record
    is_same = (state.url, before, state.problem) == (ref.url, record, description.problem)
    if record is None and before and not state.is_at(ref.url):  # another, valid object is that file
        is_same, record = True, before
    if is_same and not rewrite:
        row = state.next_row(state.url, record, state.problem, unsettled)
        return _Plan(description, (Put(state.key, row, state.unchanged),), unsettled=frozenset(state.unsettled))
    steps_back = before and not (record and record.source == before.source and record.age >= before.age)
    lost = (before,) if before and steps_back else ()
    row = state.next_row(ref.url, record, description.problem, [*unsettled, *(each.source for each in lost)])
    rows = _rows(record)
    gone = (Delete(key) for key in _rows(before) if key not in rows)
    writes: tuple[Write, ...] = (Put(state.key, row, state.unchanged), *(Put(key, row) for key, row in rows.items()), *gone)
    return _Plan(description, writes, record, lost, frozenset(state.unsettled))


def _url_row(ref: ObjectRef, file_id: str, name: UrlState | None, more: Row) -> Put:
    """The next revision of a URL's row: which file the object is."""
    key = url_key(ref.url)
    row = {"key": key.partition, "id": file_id, "revision": name.revision + 1 if name else 1, **more}
    return Put(key, row, ((Clause(("revision",), "=", name.revision),),) if name else ABSENT_ROW)


def _joined(one: _Plan, other: _Plan) -> _Plan:
    return replace(
        one,
        writes=one.writes + other.writes,
        gained=other.gained,
        lost=one.lost + other.lost,
        unsettled=one.unsettled | other.unsettled,
    )


def _rows(record: FileRecord | None) -> dict[Key, Row]:
    return {**record.file_rows(), **listing_rows(record)} if record else {}


def _groups(plans: Mapping[ObjectRef, _Plan]) -> Iterator[dict[ObjectRef, _Plan]]:
    """Plans that fit into one transaction together, no two of the same file."""
    group: dict[ObjectRef, _Plan] = {}
    keys: set[Key] = set()
    room = MAX_TRANSACTION_WRITES
    for ref, plan in plans.items():
        own = {write.key for write in plan.writes}
        needed = len(own) + 1 + len(plan.lost)  # and the latest file of each source
        if group and (needed > room or own & keys):
            yield group
            group, keys, room = {}, set(), MAX_TRANSACTION_WRITES
        group[ref], keys, room = plan, keys | own, room - needed
    if group:
        yield group

"""Bringing the catalog up to date with what objects are now, all rows of a file in one transaction.

Table ``objects`` remembers what a file's rows were made of, with a revision that grows with each change:

    key            row
    file#{id}      revision, url, document (absent: the file is gone, or was refused), problem, unsettled, expires_at
    url#{url}      id, expires_at          where the object's key does not tell the file's id

An object is looked at **after** its file's row was read, and written only while the row is still of that revision. So the looks at an
object follow each other as the revisions do, and a notification that comes late, twice or in the wrong order can only write what
is true now. What is gone leaves a row that expires after 15 days: else a process that had looked before could bring it back.

Decision 0008 has the unsafe sequences.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from chalicelib.catalog.files import FileRecord
from chalicelib.catalog.latest import LatestFiles, Source
from chalicelib.catalog.listing import directory_keys, listing_rows
from chalicelib.catalog.remembered import FileState, file_key, remembered_file, url_key
from chalicelib.errors import PreconditionFailedError, StoreUnavailableError, UnavailableError, WriteConflictError
from chalicelib.ports import ABSENT_ROW, MAX_TRANSACTION_WRITES, Clause, Clock, Database, Delete, Key, Put, Row, Write

ATTEMPTS = 8
THREADS = 8
_FIRST_PAUSE_S = 0.01
_MAX_KNOWN = 50_000


@dataclass(frozen=True, slots=True)
class Subject:
    """An object whose file is to be brought up to date. ``id``: the file's, where the object's key tells it."""

    bucket: str
    key: str
    id: str | None

    @property
    def url(self) -> str:
        """Where it is."""
        return f"s3://{self.bucket}/{self.key}"


@dataclass(frozen=True, slots=True)
class Description:
    """What an object is now: a file (``record``), nothing (neither), or something that is not listed, and why (``problem``).

    ``refused_id``: with a problem, the file that is marked with it.
    """

    record: FileRecord | None = None
    problem: str = ""
    refused_id: str | None = None

    @property
    def id(self) -> str | None:
        """The file that the object is."""
        return self.record.id if self.record else self.refused_id


Describe = Callable[[Subject], Description]
"""Looks at an object. It is called from several threads; an UnavailableError of it is the subject's alone."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a subject. ``error``: trouble of ours, to be tried again; the rows may have been written or not."""

    description: Description = Description()
    error: UnavailableError | None = None


@dataclass(frozen=True, slots=True)
class _Plan:
    """What to write for one object, and whose latest file that concerns: of the record that comes, of those that go or step back."""

    description: Description
    writes: tuple[Write, ...] = ()
    gained: FileRecord | None = None
    lost: tuple[FileRecord, ...] = ()
    unsettled: frozenset[Source] = frozenset()


class Registration:
    """Keeps all tables of files in step with each other and with the objects."""

    def __init__(self, database: Database, latest: LatestFiles, clock: Clock) -> None:
        self._database, self._latest, self._clock = database, latest, clock
        self._known: frozenset[Key] = frozenset()

    def bring_up_to_date(self, subjects: Sequence[Subject], describe: Describe) -> dict[Subject, Outcome]:
        """Make the catalog say what the objects are. Ten new files: ten looks, two reads and a transaction, and a batch write when
        one of them is the first of its source or period that this process meets. Each subject is there once."""
        try:
            states = self._remembered(subjects)
        except UnavailableError as error:
            return {subject: Outcome(error=error) for subject in subjects}
        outcomes: dict[Subject, Outcome] = {}
        plans: dict[Subject, _Plan | None] = {}
        for subject, look in _looks(subjects, describe):
            if isinstance(look, UnavailableError):
                outcomes[subject] = Outcome(error=look)
            else:
                plans[subject] = self._plan(subject, look, states)
        ready = {subject: plan for subject, plan in plans.items() if plan}
        for group in _groups(ready):
            if self._carried_out(list(group.values()), alone=False):
                outcomes |= {subject: Outcome(plan.description) for subject, plan in group.items()}
        return {subject: outcomes.get(subject) or self._one(subject, describe) for subject in subjects}

    def find(self, file_id: str) -> FileState | None:
        """What is remembered of a file. One read."""
        key = file_key(file_id)
        row = self._database.get_many([key]).get(key)
        return remembered_file(key, row) if row else None

    def _one(self, subject: Subject, describe: Describe) -> Outcome:
        """One subject by itself, again as long as others change what was read."""
        met: set[str] = set()
        try:
            for attempt in range(ATTEMPTS):
                self._clock.sleep(_FIRST_PAUSE_S * 2**attempt if attempt > 1 else 0)
                states = self._remembered([subject], met)
                look = describe(subject)
                plan = self._plan(subject, look, states)
                if plan and self._carried_out([plan], alone=True):
                    return Outcome(look)
                met |= {look.id} if look.id else set()
        except UnavailableError as error:
            return Outcome(error=error)
        return Outcome(error=StoreUnavailableError(f"the file changes faster than it is catalogued url={subject.url}"))

    def _remembered(self, subjects: Sequence[Subject], ids: Iterable[str] = ()) -> dict[Key, FileState]:
        """The files by id, and by the url that an odd key's row leads from. One read, and one more where there are odd keys."""
        urls = [url_key(subject.url) for subject in subjects]
        files = [file_key(each) for each in [*(subject.id for subject in subjects), *ids] if each]
        rows = dict(self._database.get_many(urls + files))
        named = {key: file_key(rows[key]["id"]) for key in urls if key in rows}
        if further := [key for key in named.values() if key not in files]:
            rows |= self._database.get_many(further)
        states = {key: remembered_file(key, rows.get(key)) for key in [*files, *named.values()]}
        return states | {url: states[key] for url, key in named.items()}

    def _plan(self, subject: Subject, look: Description, states: Mapping[Key, FileState]) -> _Plan | None:
        """What to write; None when the file that the object turned out to be was not read before the look."""
        if look.id and file_key(look.id) not in states:
            return None
        named = states.get(url_key(subject.url))
        told = states.get(file_key(subject.id)) if subject.id else None
        was = {state.id: state for state in (named, told) if state and state.url == subject.url and state.is_known}
        plan = _Plan(look, unsettled=frozenset(source for state in was.values() for source in state.unsettled))
        for state in was.values():
            if state.id != look.id:
                plan = _joined(plan, self._removal(subject, state, named))
        return _joined(plan, _change(subject, look, states[file_key(look.id)], named)) if look.id else plan

    def _removal(self, subject: Subject, state: FileState, named: FileState | None) -> _Plan:
        """The file is not there any more."""
        expires_at = self._clock.now_ms() // 1000 + FileState.KEPT_GONE_S
        sources = [state.record.source] if state.record else []
        row = state.next_row(subject.url, None, "", sources) | {"expires_at": expires_at}
        writes: list[Write] = [Put(state.key, row, state.unchanged), *(Delete(key) for key in _rows(state.record))]
        if named and named.id == state.id:
            writes.append(_naming(subject, state.id, named, {"expires_at": expires_at}))
        return _Plan(Description(), tuple(writes), lost=(state.record,) if state.record else ())

    def _carried_out(self, plans: Sequence[_Plan], *, alone: bool) -> bool:
        """Whether all of the plans were carried out. Raises UnavailableError, when the plan stands alone."""
        gained = [plan.gained for plan in plans if plan.gained]
        lost = [record for plan in plans for record in plan.lost]
        unsettled = {record.source for record in lost}.union(*(plan.unsettled for plan in plans))
        try:
            self._announce(gained)
            writes = [write for plan in plans for write in plan.writes] + self._latest.writes(gained, lost)
            if writes:
                self._database.transact(writes)
            for source in unsettled:
                self._latest.settle(*source)
        except (PreconditionFailedError, WriteConflictError):
            return False
        except UnavailableError:
            if alone:
                raise
            return False
        return True

    def _announce(self, records: Iterable[FileRecord]) -> None:
        """Names and periods, before the first file that needs them, so that whoever sees the file's rows finds them."""
        keys = {key for record in records for key in directory_keys(record)} - self._known
        if keys:
            self._database.put_many([Put(key, {"partition": key.partition, "at": key.sort}) for key in keys])
            self._known = frozenset(keys) | (self._known if len(self._known) < _MAX_KNOWN else frozenset())


def _looks(subjects: Sequence[Subject], describe: Describe) -> Iterator[tuple[Subject, Description | UnavailableError]]:
    def look(subject: Subject) -> Description | UnavailableError:
        try:
            return describe(subject)
        except UnavailableError as error:
            return error

    if len(subjects) == 1:
        yield subjects[0], look(subjects[0])
        return
    with ThreadPoolExecutor(THREADS) as threads:
        yield from zip(subjects, threads.map(look, subjects), strict=True)


def _change(subject: Subject, look: Description, state: FileState, named: FileState | None) -> _Plan:
    """The object is this file now, or is refused as it."""
    record, before = look.record, state.record
    is_told = subject.id == state.id or (named is not None and named.id == state.id and state.is_known)
    naming = () if is_told else (_naming(subject, state.id, named, {}),)
    if (state.url, before, state.problem) == (subject.url, record, look.problem):
        return _Plan(look, naming, unsettled=frozenset(state.unsettled))
    if record is None and before and state.url != subject.url:
        return _Plan(look)  # another object is that file, and a good one
    steps_back = before and not (record and record.source == before.source and record.age >= before.age)
    row = state.next_row(subject.url, record, look.problem, [before.source] if before and steps_back else [])
    rows = _rows(record)
    gone = (Delete(key) for key in _rows(before) if key not in rows)
    writes = (*naming, Put(state.key, row, state.unchanged), *(Put(key, row) for key, row in rows.items()), *gone)
    return _Plan(look, writes, record, (before,) if before and steps_back else ())


def _naming(subject: Subject, file_id: str, named: FileState | None, row: Row) -> Put:
    """An odd key's row, while it still leads where it led."""
    key = url_key(subject.url)
    is_as_read = ((Clause(("id",), "=", named.id),),) if named else ABSENT_ROW
    return Put(key, {"key": key.partition, "id": file_id, **row}, is_as_read)


def _joined(one: _Plan, other: _Plan) -> _Plan:
    naming = {
        write.key: write for write in (*one.writes, *other.writes)
    }  # a name that led elsewhere is written once, as the later says
    return _Plan(one.description, tuple(naming.values()), other.gained, one.lost + other.lost, one.unsettled | other.unsettled)


def _rows(record: FileRecord | None) -> dict[Key, Row]:
    return {**record.file_rows(), **listing_rows(record)} if record else {}


def _groups(plans: Mapping[Subject, _Plan]) -> Iterator[dict[Subject, _Plan]]:
    """Plans that fit into one transaction together, no two of the same file."""
    group: dict[Subject, _Plan] = {}
    keys: set[Key] = set()
    room = MAX_TRANSACTION_WRITES
    for subject, plan in plans.items():
        own = {write.key for write in plan.writes}
        needed = len(own) + 1 + len(plan.lost)  # and the latest of each source
        if group and (needed > room or own & keys):
            yield group
            group, keys, room = {}, set(), MAX_TRANSACTION_WRITES
        group[subject], keys, room = plan, keys | own, room - needed
    if group:
        yield group

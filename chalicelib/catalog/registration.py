"""Bringing the catalog up to date with what objects are now, all rows of a file in one transaction.

Table ``objects`` remembers what a file's rows were made of, with a revision that grows with each change:

    key            row
    file#{id}      revision, url, document (absent: the file is gone, or was refused), problem, unsettled, expires_at
    url#{url}      revision, id, expires_at     where the object's key does not tell the file's id

An object is looked at **after** its row was read, and what was seen is written only while the row is still of that revision. Every look
makes a new revision, whatever it finds. So the looks at an object follow each other as the revisions do, and a notification that
comes late, twice or in the wrong order can only write what is true now. What is gone leaves a row that expires after 15 days.

Decision 0008 has the unsafe sequences.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from random import random

from chalicelib.catalog.files import FileRecord
from chalicelib.catalog.latest import LatestFiles, Source
from chalicelib.catalog.listing import directory_keys, listing_rows
from chalicelib.catalog.remembered import FileState, Name, file_key, remembered_file, remembered_name, url_key
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


def data_key(file_id: str) -> str:
    """The key that tells which file its object is: where the datalake's client puts it."""
    return f"{file_id}/data"


@dataclass(frozen=True, slots=True)
class Description:
    """What an object is now: a file (``record``), nothing (neither), or something that is not listed, and why (``problem``).

    ``refused_id``: with a problem, the file that is marked with it. ``by_link``: it came by a presigned upload, which makes an object once.
    """

    record: FileRecord | None = None
    problem: str = ""
    refused_id: str | None = None
    by_link: bool = False

    @property
    def id(self) -> str | None:
        """The file that the object is."""
        return self.record.id if self.record else self.refused_id


Describe = Callable[[Subject], Description]
"""Looks at an object. It is called from several threads; an UnavailableError of it is the subject's alone."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a subject. ``error``: trouble of ours, to be tried again; the rows may have been written or not. ``left``: the files
    that the object was before this look, or that it is refused as: another object may be one of them now."""

    description: Description = Description()
    error: UnavailableError | None = None
    left: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class _Plan:
    """What to write for one object, and whose latest file that concerns: of the record that comes, of those that go or step back.

    ``unsettled``: sources that an earlier look may not have settled. The writes remove them from the rows, so they are settled before.
    """

    description: Description
    writes: tuple[Write, ...] = ()
    gained: FileRecord | None = None
    lost: tuple[FileRecord, ...] = ()
    unsettled: frozenset[Source] = frozenset()
    left: frozenset[str] = frozenset()
    is_first_half: bool = False

    @property
    def is_too_large(self) -> bool:
        """Whether it would not fit into a transaction, beside what belongs to the latest files."""
        return len(self.writes) + 1 + len(self.lost) > MAX_TRANSACTION_WRITES


@dataclass(frozen=True, slots=True)
class _Memory:
    """What was read before objects were looked at: names, of those whose keys do not tell the file, and files."""

    names: Mapping[Key, Name]
    files: Mapping[Key, FileState]

    def name(self, subject: Subject) -> Name | None:
        """What is remembered of the object, where its key does not tell the file."""
        return self.names.get(url_key(subject.url))

    def of(self, subject: Subject) -> list[FileState]:
        """The files that the object may have been: as its key tells, and as its name does."""
        name = self.name(subject)
        return [self.files[file_key(each)] for each in dict.fromkeys([subject.id, name.id if name else None]) if each]

    def owed(self, subject: Subject) -> frozenset[str]:
        """Files that an earlier look left, which may have stopped before it looked at their originals. Those that the object may still be
        are looked at behind this look."""
        name = self.name(subject)
        return frozenset(name.left if name else ()) - {state.id for state in self.of(subject)} - {subject.id or ""}


class Registration:
    """Keeps all tables of files in step with each other and with the objects."""

    def __init__(self, database: Database, latest: LatestFiles, clock: Clock) -> None:
        self._database, self._latest, self._clock = database, latest, clock
        self._known: frozenset[Key] = frozenset()

    def bring_up_to_date(self, subjects: Sequence[Subject], describe: Describe, *, anew: bool = False) -> dict[Subject, Outcome]:
        """Make the catalog say what the objects are. Ten new files: ten looks, two reads and a transaction, and a batch write when
        one of them is the first of its source or period that this process meets. Each subject is there once. ``anew``: write the rows
        of files too that are remembered as they are, for a table that was lost."""
        try:
            memory = self._remembered(subjects)
        except UnavailableError as error:
            return {subject: Outcome(error=error) for subject in subjects}
        outcomes: dict[Subject, Outcome] = {}
        plans: dict[Subject, _Plan | None] = {}
        for subject, look in _looks(subjects, describe):
            if isinstance(look, UnavailableError):
                outcomes[subject] = Outcome(error=look)
            else:
                plans[subject] = self._plan(subject, look, memory, anew=anew)
        ready = {subject: plan for subject, plan in plans.items() if plan and not plan.is_first_half and not memory.owed(subject)}
        for group in _groups(ready):
            if self._carried_out(list(group.values()), alone=False):
                outcomes |= {subject: Outcome(plan.description, left=plan.left) for subject, plan in group.items()}
        for subject in subjects:
            outcome = outcomes.get(subject) or self._one(subject, describe, anew=anew)
            behind = self._look_at_originals(subject, outcome.left, describe)
            outcomes[subject] = replace(outcome, error=outcome.error or behind)
        return {subject: outcomes[subject] for subject in subjects}

    def _look_at_originals(self, subject: Subject, ids: Iterable[str], describe: Describe) -> UnavailableError | None:
        """Where a copy under an odd key was its file's object, the object under the key that tells the file takes its place again."""
        for file_id in sorted(ids):
            original = Subject(subject.bucket, data_key(file_id), file_id)
            if error := self._one(original, describe, anew=False, is_original=True).error:
                return error
        return None

    def find(self, file_id: str) -> FileState | None:
        """What is remembered of a file. One read."""
        key = file_key(file_id)
        row = self._database.get_many([key]).get(key)
        return remembered_file(key, row) if row else None

    def _one(self, subject: Subject, describe: Describe, *, anew: bool, is_original: bool = False) -> Outcome:
        """One subject by itself, again as long as others change what was read. ``is_original``: it is looked at because of another
        subject, so originals that it owes itself wait for its own turn."""
        met: set[str] = set()
        try:
            for attempt in range(ATTEMPTS):
                self._clock.sleep(_FIRST_PAUSE_S * 2**attempt * (0.5 + random()) if attempt > 1 else 0)
                memory = self._remembered([subject], met)
                owed = frozenset() if is_original else memory.owed(subject)
                if owed:
                    if error := self._look_at_originals(subject, owed, describe):
                        return Outcome(error=error)
                    before, memory = memory, self._remembered([subject], met)  # they may have changed what was read
                    owed = owed if memory.name(subject) == before.name(subject) else frozenset()
                look = describe(subject)
                plan = self._plan(subject, look, memory, anew=anew, settled=owed)
                if plan and self._carried_out([plan], alone=True) and not plan.is_first_half:
                    return Outcome(plan.description, left=plan.left)
                met |= {look.id} if look.id else set()
        except UnavailableError as error:
            return Outcome(error=error)
        return Outcome(error=StoreUnavailableError(f"the file changes faster than it is catalogued url={subject.url}"))

    def _remembered(self, subjects: Sequence[Subject], ids: Iterable[str] = ()) -> _Memory:
        """The files that the objects may be, by id and by name. One read, and one more where there are names."""
        urls = [url_key(subject.url) for subject in subjects]
        files = [file_key(each) for each in [*(subject.id for subject in subjects), *ids] if each]
        rows = dict(self._database.get_many(urls + files))
        names = {key: remembered_name(rows[key]) for key in urls if key in rows}
        if further := [file_key(name.id) for name in names.values() if name.id and file_key(name.id) not in files]:
            rows |= self._database.get_many(further)
        return _Memory(names, {key: remembered_file(key, rows.get(key)) for key in [*files, *further]})

    def _plan(
        self, subject: Subject, look: Description, memory: _Memory, *, anew: bool, settled: frozenset[str] = frozenset()
    ) -> _Plan | None:
        """What to write; None when the file that the object turned out to be was not read before the look.

        Every look is written down, in the file's row, or in the name's where the key does not tell the file, also one that finds
        nothing new: whoever looked before, and writes after it, must find the row changed. ``settled``: files that the object left
        earlier, whose originals were looked at since.
        """
        if look.id and file_key(look.id) not in memory.files:
            return None
        look = _once(subject, look, memory)
        name, was = memory.name(subject), memory.of(subject)
        is_named = name is not None or subject.id is None or look.id not in (None, subject.id)
        removals = [
            self._removal(subject, state)
            for state in was
            if state.id != look.id and (state.is_at(subject.url) or state.id == subject.id or not is_named)
        ]
        left = {state.id for state in was} - {look.record.id if look.record else None, subject.id}
        plan = _Plan(look, unsettled=frozenset(source for state in was for source in state.unsettled), left=frozenset(left))
        if is_named:
            remembered = sorted(left | (memory.owed(subject) - settled))
            more: Row = ({} if look.id else {"expires_at": self._forgotten_at()}) | ({"left": remembered} if remembered else {})
            plan = replace(plan, writes=(_naming(subject, look.id or (name.id if name else ""), name, more),))
        for removal in removals:
            plan = _joined(plan, removal)
        if look.id:
            lost = [record.source for record in plan.lost]
            plan = _joined(plan, _change(subject, look, memory.files[file_key(look.id)], lost, anew=anew))
        if plan.is_too_large:  # a file of a month moves: away first, and then there
            halves = [*removals, *([self._gone(subject, memory.files[file_key(look.id)])] if look.id else [])]
            half = max(halves, key=lambda half: len(half.writes))
            return replace(half, is_first_half=True, unsettled=plan.unsettled)
        return plan

    def _removal(self, subject: Subject, state: FileState) -> _Plan:
        """The object is not this file, or not any more."""
        if state.is_known and not state.is_at(subject.url):  # another object is
            return _Plan(Description(), (Put(state.key, state.next_row(state.url, state.record, state.problem), state.unchanged),))
        return self._gone(subject, state)

    def _gone(self, subject: Subject, state: FileState) -> _Plan:
        lost = (state.record,) if state.record else ()
        row = state.next_row(subject.url, None, "", [record.source for record in lost]) | {"expires_at": self._forgotten_at()}
        writes: tuple[Write, ...] = (Put(state.key, row, state.unchanged), *(Delete(key) for key in _rows(state.record)))
        return _Plan(Description(), writes, lost=lost)

    def _forgotten_at(self) -> int:
        return self._clock.now_ms() // 1000 + FileState.KEPT_GONE_S

    def _carried_out(self, plans: Sequence[_Plan], *, alone: bool) -> bool:
        """Whether all of the plans were carried out. Raises UnavailableError, when the plan stands alone."""
        gained = [plan.gained for plan in plans if plan.gained]
        lost = [record for plan in plans for record in plan.lost]
        try:
            self._settle(source for plan in plans for source in plan.unsettled)
            self._announce(gained)
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


def _once(subject: Subject, look: Description, memory: _Memory) -> Description:
    """A link makes an object once: what comes by it after the file was deleted is none. The row says so until it expires, and each look
    at the object puts that off."""
    record = look.record
    if record and look.by_link and memory.files[file_key(record.id)].is_made_again(subject.url, record.create_time):
        return Description(problem=f"the file was deleted, and a link for an upload does not bring it back id={record.id}")
    return look


def _change(subject: Subject, look: Description, state: FileState, unsettled: Sequence[Source], *, anew: bool) -> _Plan:
    """The object is this file now, or is refused as it. ``unsettled``: sources that lose a file in the same transaction."""
    record, before = look.record, state.record
    is_same = (state.url, before, state.problem) == (subject.url, record, look.problem)
    if record is None and before and not state.is_at(subject.url):  # another object is that file, and a good one
        is_same, record = True, before
    if is_same and not anew:
        row = state.next_row(state.url, record, state.problem, unsettled)
        return _Plan(look, (Put(state.key, row, state.unchanged),), unsettled=frozenset(state.unsettled))
    steps_back = before and not (record and record.source == before.source and record.age >= before.age)
    lost = (before,) if before and steps_back else ()
    row = state.next_row(subject.url, record, look.problem, [*unsettled, *(each.source for each in lost)])
    rows = _rows(record)
    gone = (Delete(key) for key in _rows(before) if key not in rows)
    writes: tuple[Write, ...] = (Put(state.key, row, state.unchanged), *(Put(key, row) for key, row in rows.items()), *gone)
    return _Plan(look, writes, record, lost, frozenset(state.unsettled))


def _naming(subject: Subject, file_id: str, name: Name | None, more: Row) -> Put:
    """Which file an object under an odd key is, and that it was looked at once more."""
    key = url_key(subject.url)
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

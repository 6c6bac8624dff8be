"""The metadata rows of files: (context, first event time, creation time) to path, sizes, times; and which of them are committed.

A row says how many bytes of its object are committed. Bytes after these are invisible until the checkpoint's transaction writes
the row again. If more rows change than a transaction allows, they are **staged** first, each with a writer and a number: they are
committed once the writer's own row, the one that the transaction writes, has reached that number. Decision 0029.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

from chalicelib.pipelines.files.key_layout import FileContext, prefix_end
from chalicelib.pipelines.files.path_template import is_templated_key
from chalicelib.pipelines.files.table import COMMITS, TABLE, next_key, pages
from chalicelib.ports import Clause, Database, Delete, Key, Put, Row, RowCondition, Write

OPEN, CLOSED, EXPIRING = "open", "closed", "condemned"
"""May grow; complete; being removed, and not read any more."""
_PROGRAM_PARTS, _TIME_DIGITS = 3, 15
"""The parts of a row's key before its time (namespace, application, program), and the digits of the time."""
IS_NEW: RowCondition = ((Clause(("at",), "absent"),),)


@dataclass(frozen=True, slots=True)
class FileContents:
    """The committed part of an object: its first ``size`` bytes with ``events`` events, from the earliest to the latest time.
    ``disorder_ms``: the most by which an event is earlier than one before it. ``etag`` of the object at that size.
    ``landmarks``: (latest time, bytes) of some of its prefixes, ascending: reading from a time on need not begin at the file's
    first byte."""

    size: int
    etag: str
    events: int
    from_ms: int
    to_ms: int
    disorder_ms: int
    changed_ms: int
    landmarks: tuple[tuple[int, int], ...] = ()

    def start(self, from_ms: int) -> tuple[int, int]:
        """The longest known prefix of which all events are earlier than a time: its latest time and bytes."""
        return max((each for each in self.landmarks if each[0] < from_ms), default=(self.from_ms, 0))


NOTHING = FileContents(0, "", 0, 0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Staged:
    """Contents that are committed once ``writer`` has committed ``number``."""

    writer: str
    number: int
    state: str
    contents: FileContents


@dataclass(frozen=True, slots=True)
class FileRow:
    """A file. ``first_ms`` is the time of the event that it was created for; ``extension`` distinguishes the handlers of one
    base. ``path``: the object's key, if a template made it."""

    context: FileContext
    first_ms: int
    created_ms: int
    sequence: int
    extension: str
    format: str
    day: int
    fqn: str
    generation: str
    state: str
    contents: FileContents
    staged: Staged | None = None
    version: int = 0
    path: str = ""

    @property
    def object_key(self) -> str:
        """The key of its object."""
        return self.path or self.context.key(self.day, self.sequence, self.extension)

    @property
    def at(self) -> str:
        """The row's sort key."""
        times = f"{self.first_ms:015d}:{self.created_ms:015d}"
        at = f"{self.context.prefix}{times}:{self.sequence:08d}.{self.extension}"
        return (
            f"{at}:{_digest(self.path)}" if self.path else at
        )  # numbers are unique within a folder, and a context may have several

    @property
    def changed_ms(self) -> int:
        """The time of the last write to the file, committed or staged."""
        return max(self.created_ms, self.contents.changed_ms, self.staged.contents.changed_ms if self.staged else 0)

    @property
    def row_key(self) -> Key:
        """The row's key."""
        return Key(TABLE, self.context.base, self.at)

    @property
    def unchanged(self) -> RowCondition:
        """The condition that it has not changed since it was read: version 0 is a row that is not stored yet."""
        return ((Clause(("version",), "=", self.version),),) if self.version else IS_NEW

    def written(self, **changes: Any) -> tuple[FileRow, Write]:
        """The row after a change, and the write that stores it: it fails if another change came first."""
        changed = replace(self, version=self.version + 1, **changes)
        return changed, Put(self.row_key, changed.document(), self.unchanged)

    def removed(self) -> Write:
        """The write that removes it, if it is unchanged."""
        return Delete(self.row_key, self.unchanged)

    def document(self) -> Row:
        """As stored in the table."""
        context = self.context
        row: dict[str, Any] = {
            "partition": context.base,
            "at": self.at,
            "names": [context.namespace, context.app, context.program],
            "path": self.object_key,
            "times": [self.first_ms, self.created_ms],
            "file": [self.sequence, self.extension, self.format, self.day],
            "fqn": self.fqn,
            "generation": self.generation,
            "state": self.state,
            "contents": _packed(self.contents),
            "version": self.version,
        }
        if self.staged:
            staged = self.staged
            row["staged"] = [staged.writer, staged.number, staged.state, _packed(staged.contents)]
        return row


def row_of(row: Row) -> FileRow:
    """The inverse of ``document``. Raises ValueError for an invalid row."""
    try:
        namespace, app, program = row["names"]
        sequence, extension, format_, day = row["file"]
        first_ms, created_ms = row["times"]
        staged = row.get("staged")
        context = FileContext(row["partition"], namespace, app, program)
        return FileRow(
            context,
            int(first_ms),
            int(created_ms),
            int(sequence),
            extension,
            format_,
            int(day),
            row["fqn"],
            row["generation"],
            row["state"],
            _contents(row["contents"]),
            Staged(staged[0], int(staged[1]), staged[2], _contents(staged[3])) if staged else None,
            int(row["version"]),
            _path(context.base, row["path"], f"~{int(sequence):08d}.{extension}"),
        )
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise ValueError(f"not a row of a file at={row.get('at')!r}") from error


def _path(base: str, path: str, ending: str) -> str:
    """The path of a template, or "" for a key of the default layout, which the row's other fields determine. Raises ValueError
    for another one: the object of a row is deleted with it."""
    if "~" not in path.rpartition("/")[2]:
        return ""
    if not is_templated_key(base, path) or not path.endswith(ending):
        raise ValueError(f"not the path of a file path={path[:200]!r}")
    return path


def _digest(path: str) -> str:
    return blake2b(path.encode(), digest_size=8).hexdigest()


def _packed(contents: FileContents) -> list[Any]:
    return [
        contents.size, contents.etag, contents.events, contents.from_ms, contents.to_ms, contents.disorder_ms, contents.changed_ms,
        [number for landmark in contents.landmarks for number in landmark],
    ]  # fmt: skip


def _contents(packed: Sequence[Any]) -> FileContents:
    size, etag, events, from_ms, to_ms, disorder_ms, changed_ms, flat = packed
    landmarks = tuple((int(time_ms), int(end)) for time_ms, end in zip(flat[::2], flat[1::2], strict=True))
    return FileContents(int(size), str(etag), int(events), int(from_ms), int(to_ms), int(disorder_ms), int(changed_ms), landmarks)


@dataclass(frozen=True, slots=True)
class DamagedRow:
    """A row that cannot be read."""

    key: Key
    reason: str


class FileRows:
    """Reads rows in their committed state. Caches the commit numbers of writers: build one for each request or pass."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._committed: dict[str, int] = {}

    def listed(self, base: str, prefix: str, first: str = "", last: str | None = None) -> Iterator[FileRow | DamagedRow]:
        """Rows whose keys begin with ``prefix`` and continue from ``first`` to ``last``, in their committed state, in order of
        key. A Query for each 1,000, and a read for each writer of staged rows."""
        start, end = prefix + first or None, prefix_end(prefix) if last is None and prefix else prefix + last if last else None
        for page in pages(self._database, base, start, end):
            yield from self._resolved([_parsed(row) for row in page])

    def of_days(self, base: str, prefix: str, first_ms: int, last_ms: int) -> Iterator[FileRow | DamagedRow]:
        """Rows of an application, or of one of its programs, whose first event is in a time range, in their committed state, in
        order of key. The rows of an application in a time range are not contiguous: a Query for each 1,000 rows, but
        consecutive rows of other times are skipped; and a read for each writer of staged rows."""
        is_program = prefix.count(":") == _PROGRAM_PARTS
        start, end = (f"{prefix}{first_ms:015d}", f"{prefix}{last_ms:015d};") if is_program else (prefix, prefix_end(prefix))

        def onward(at: str) -> str:
            time_ms, program = _begun_ms(at), _program_of(at)
            if time_ms is None or first_ms <= time_ms <= last_ms:
                return next_key(at)
            return prefix_end(program) if time_ms > last_ms else f"{program}{first_ms:015d}"

        for page in pages(self._database, base, start, end, onward):
            in_range = [row for row in page if (time_ms := _begun_ms(row["at"])) is None or first_ms <= time_ms <= last_ms]
            yield from self._resolved([_parsed(row) for row in in_range])

    def newest(self, context: FileContext, day_first_ms: int, day_last_ms: int, limit: int) -> list[FileRow]:
        """The latest rows of a context's day. One Query."""
        first, last = f"{context.prefix}{day_first_ms:015d}", f"{context.prefix}{day_last_ms:015d};"
        rows, _ = self._database.query(TABLE, context.base, first, last, limit=limit, newest_first=True)
        return [row for row in self._resolved([_parsed(row) for row in rows]) if isinstance(row, FileRow)]

    def reread(self, row: FileRow) -> FileRow | None:
        """The current row, staged or not. One read."""
        found = self._database.get_many([row.row_key]).get(row.row_key)
        return row_of(found) if found else None

    def resolved(self, row: FileRow) -> FileRow:
        """A row in its committed state: with its staged contents if they are committed, else without."""
        staged = row.staged
        if staged is None or not self.is_committed(staged):
            return row
        return replace(row, contents=staged.contents, state=row.state if row.state == EXPIRING else staged.state, staged=None)

    def is_committed(self, staged: Staged) -> bool:
        """Whether staged contents are committed."""
        if staged.writer not in self._committed:
            self._read_commits([staged.writer])
        return self._committed[staged.writer] >= staged.number

    def _resolved(self, rows: Sequence[FileRow | DamagedRow]) -> Iterator[FileRow | DamagedRow]:
        writers = {row.staged.writer for row in rows if isinstance(row, FileRow) and row.staged}
        if unknown := sorted(writers - self._committed.keys()):
            self._read_commits(unknown)
        for row in rows:
            yield self.resolved(row) if isinstance(row, FileRow) else row

    def _read_commits(self, writers: Sequence[str]) -> None:
        keys = {commit_key(writer): writer for writer in writers}
        found = self._database.get_many(list(keys))
        for key, writer in keys.items():
            self._committed[writer] = int(found[key]["committed"]) if key in found else 0


def commit_key(writer: str) -> Key:
    """The key of a writer's commit number."""
    return Key(TABLE, COMMITS, writer)


def commit_write(writer: str, number: int, now_ms: int) -> Put:
    """The one write that commits everything that was staged under a number."""
    key = commit_key(writer)
    return Put(key, {"partition": key.partition, "at": key.sort, "committed": number, "changed_ms": now_ms})


def _program_of(at: str) -> str:
    """The common prefix of all keys of a row's program: no name has a colon there."""
    return ":".join(at.split(":", _PROGRAM_PARTS)[:_PROGRAM_PARTS]) + ":"


def _begun_ms(at: str) -> int | None:
    """The time in a row's key; None if it is no key of a file."""
    digits = at[len(_program_of(at)) :].partition(":")[0]
    return int(digits) if digits.isdecimal() and len(digits) == _TIME_DIGITS else None


def _parsed(row: Row) -> FileRow | DamagedRow:
    try:
        return row_of(row)
    except ValueError as error:
        return DamagedRow(Key(TABLE, row["partition"], row["at"]), str(error))

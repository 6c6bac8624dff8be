"""Reads the files of an application as one stream, in order of time, limited to committed events of live generations.

The merge opens a file at its first event, and closes it after its last: memory is a piece of each file that covers the same
moment. Another process can continue a merge from its ``MergePosition``, without reading exhausted files again. A missing or
damaged file or row is skipped with one warning, and never fails the read. So is a file whose format cannot be read here; it is
counted separately, since it is not damaged.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from chalicelib.deadline import Deadline
from chalicelib.errors import (
    DamagedLogError,
    FormatUnavailableError,
    InvalidConfigurationError,
    ObjectNotFoundError,
    PreconditionFailedError,
    RangeNotSatisfiableError,
)
from chalicelib.pipelines.files.generations import Generations
from chalicelib.pipelines.files.key_layout import DAY_MS, LAST_MS, clamped, prefix_of
from chalicelib.pipelines.files.records import FileEvent
from chalicelib.pipelines.files.rows import EXPIRING, DamagedRow, FileRow, FileRows
from chalicelib.pipelines.files.streams import events_of, ordered
from chalicelib.ports import Database, ObjectStore

Warn = Callable[[str, str], None]
"""Called with a skipped file or row, and the reason."""
_LEFT_OUT = (
    DamagedLogError, InvalidConfigurationError, ObjectNotFoundError, PreconditionFailedError, RangeNotSatisfiableError, ValueError,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class FileEventQuery:
    """Events of an application, or of one of its programs, with ``from_ms`` <= time < ``to_ms``. ``key``: only of the file with this
    object. ``may_see``: whether the caller may see the events of an FQN."""

    base: str
    namespace: str
    app: str
    program: str | None = None
    from_ms: int = 0
    to_ms: int = LAST_MS + 1
    key: str | None = None
    may_see: Callable[[str], bool] = lambda _: True


@dataclass(frozen=True, slots=True)
class MergePosition:
    """Where a merge continues: at ``time_ms``, in the file whose key is ``at``, after ``skipped`` of its events of that time.
    Files with a lower key have no event before ``next_ms``."""

    time_ms: int
    at: str
    skipped: int
    next_ms: int

    def first_ms(self, at: str) -> int:
        """A time before which the merge has returned all events of a file."""
        return self.next_ms if at < self.at else self.time_ms


@dataclass(slots=True)
class _Stream:
    """A file in the merge: its events, and the next one once the file is open. Events before ``first_ms`` are ignored."""

    row: FileRow
    first_ms: int
    events: Iterator[FileEvent] | None = None
    head: FileEvent | None = None


class Merge:
    """Events of files in order of time; at the same time, in order of their files' keys, then in file order.

    Stops at the deadline, which it checks before it opens a file and before each event, but not before it has advanced beyond its
    start: so a sequence of pages ends. Past the deadline it searches at most one file for its next event."""

    def __init__(
        self,
        reading: FileReader,
        files: Sequence[FileRow],
        query: FileEventQuery,
        deadline: Deadline | None,
        after: MergePosition | None,
    ):
        self._reading, self._query, self._deadline, self._after = reading, query, deadline, after
        self._streams = [_Stream(row, self._first_ms(row)) for row in sorted(files, key=lambda row: row.at)]
        self._upcoming = [(max(each.first_ms, each.row.contents.from_ms), number) for number, each in enumerate(self._streams)]
        heapq.heapify(self._upcoming)
        self._passed = 0  # events of the current time and file
        self.is_cut = False
        """Whether it stopped at the deadline."""

    @property
    def position(self) -> MergePosition:
        """Where another merge continues: at the event that was returned last, or after those before it. Only valid while there is
        more."""
        time_ms, number = self._upcoming[0]
        next_ms = min((other_ms for other_ms, other in self._upcoming if other < number), default=LAST_MS + 1)
        return MergePosition(time_ms, self._streams[number].row.at, self._passed, next_ms)

    def events(self) -> Iterator[FileEvent]:
        """Raises UnavailableError."""
        begin = self._upcoming[0] if self._upcoming else None
        has_returned = False
        while self._upcoming and self._upcoming[0][0] < self._query.to_ms:
            if (has_returned or self._upcoming[0] != begin) and self._deadline and self._deadline.remaining_s() <= 0:
                self.is_cut = True
                return
            time_ms, number = self._upcoming[0]
            stream = self._streams[number]
            if stream.head:
                if not self._was_returned(time_ms, stream.row.at):
                    yield stream.head
                    has_returned = True
                self._passed += stream.head.time >= time_ms
            self._advance(stream)

    def _was_returned(self, time_ms: int, at: str) -> bool:
        """Whether the merge's current event was in the previous page."""
        after = self._after
        return after is not None and (time_ms, at) == (after.time_ms, after.at) and self._passed < after.skipped

    def _advance(self, stream: _Stream) -> None:
        """Move the merge's current file to its next event."""
        time_ms, number = self._upcoming[0]
        stream.head = self._reading.next(stream)
        if stream.head is None:
            heapq.heappop(self._upcoming)
        else:
            heapq.heapreplace(self._upcoming, (max(stream.head.time, time_ms), number))
        if not self._upcoming or self._upcoming[0] != (time_ms, number):
            self._passed = 0

    def _first_ms(self, row: FileRow) -> int:
        return max(self._query.from_ms, self._after.first_ms(row.at) if self._after else 0)


class FileReader:
    """Reads the files of one output set, which are in ``store``."""

    def __init__(self, store: ObjectStore, database: Database, generations: Generations, warn: Warn) -> None:
        self._store, self._database, self._generations, self._warn = store, database, generations, warn
        self.unsupported: list[FileRow] = []
        """Files that were skipped because the library of their format is not installed here."""

    def files(self, query: FileEventQuery) -> list[FileRow]:
        """Rows of files that have events of the range, earliest first; includes files that begin before it, on the same day.
        Requests as of ``FileRows.of_days``. Memory: a KB a file. Raises UnavailableError."""
        matching: list[FileRow] = []
        for row in FileRows(self._database).of_days(query.base, _prefix(query), *_days(query)):
            if isinstance(row, DamagedRow):
                self._warn(row.key.sort, row.reason)
                continue
            contents = row.contents
            is_there = contents.size > 0 and row.state != EXPIRING and query.key in (None, row.object_key)
            if is_there and contents.from_ms < query.to_ms and contents.to_ms >= query.from_ms and query.may_see(row.fqn):
                matching.append(row)
        dead = self._generations.dead_among(sorted({row.generation for row in matching}))
        alive = [row for row in matching if row.generation not in dead]
        return sorted(alive, key=lambda row: (row.contents.from_ms, row.at))

    def merge(self, query: FileEventQuery, deadline: Deadline | None = None, after: MergePosition | None = None) -> Merge:
        """Events of the range, from a position on. Raises UnavailableError."""
        since = query if after is None else replace(query, from_ms=max(query.from_ms, after.time_ms))
        files = [row for row in self.files(since) if after is None or row.contents.to_ms >= after.first_ms(row.at)]
        return Merge(self, files, query, deadline, after)

    def events(self, query: FileEventQuery) -> Iterator[FileEvent]:
        """All events of a range. Raises UnavailableError."""
        return self.merge(query).events()

    def next(self, stream: _Stream) -> FileEvent | None:
        """A file's next event, or None if there is none or the rest is unreadable. Raises UnavailableError."""
        try:
            if stream.events is None:
                stream.events = ordered(events_of(self._store, stream.row, stream.first_ms), stream.row.contents.disorder_ms)
            return next((event for event in stream.events if event.time >= stream.first_ms), None)
        except FormatUnavailableError:
            self.unsupported.append(stream.row)
            return None
        except _LEFT_OUT as error:
            self._warn(stream.row.object_key, f"{type(error).__name__}: {error}")
            return None


def _prefix(query: FileEventQuery) -> str:
    names = [query.namespace, query.app] + ([query.program] if query.program is not None else [])
    return prefix_of(*names)


def _days(query: FileEventQuery) -> tuple[int, int]:
    """First and last ms of the days of a range: a file has the events of one day, and its key has the time of one of them."""
    return clamped(query.from_ms) // DAY_MS * DAY_MS, clamped(query.to_ms) // DAY_MS * DAY_MS + DAY_MS - 1

"""Files of an application read together: one stream, in order of time, of what counts and is alive.

A file is opened when the merge comes to its first event, and closed behind its last: memory is a piece of each file that covers the same
moment. A merge that stops goes on from its ``Place`` in another process, and reads no file again that has nothing more. A file or row that
is missing or makes no sense is left out, with one warning, and never fails the read. So is a file whose format cannot be read here; it is
counted apart, since nothing is wrong with it."""

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
from chalicelib.pipelines.files.rows import CONDEMNED, DamagedRow, FileRow, FileRows
from chalicelib.pipelines.files.streams import events_of, ordered
from chalicelib.ports import Database, ObjectStore

Warn = Callable[[str, str], None]
"""Told of what was left out: which, and why."""
_LEFT_OUT = (
    DamagedLogError, InvalidConfigurationError, ObjectNotFoundError, PreconditionFailedError, RangeNotSatisfiableError, ValueError,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class FileEventQuery:
    """Events of an application, or of one program of it, with ``from_ms`` <= time < ``to_ms``. ``may_see`` is asked for each FQN."""

    base: str
    namespace: str
    app: str
    program: str | None = None
    from_ms: int = 0
    to_ms: int = LAST_MS + 1
    may_see: Callable[[str], bool] = lambda _: True


@dataclass(frozen=True, slots=True)
class MergePosition:
    """Where a merge goes on: at ``time_ms``, with the file whose key is ``at``, behind ``skipped`` of its events of that time. Files with a
    lesser key have no event before ``next_ms``."""

    time_ms: int
    at: str
    skipped: int
    next_ms: int

    def first_ms(self, at: str) -> int:
        """Before this time a file has no event that was not merged yet."""
        return self.next_ms if at < self.at else self.time_ms


@dataclass(slots=True)
class _Stream:
    """A file's place in the merge: its events, and the next of them once the file is open. Those before ``first_ms`` do not count."""

    row: FileRow
    first_ms: int
    events: Iterator[FileEvent] | None = None
    head: FileEvent | None = None


class Merge:
    """Events of files in order of time; of the same time, in order of their files' keys, then as they stand.

    Stops at the deadline, which it looks at before it opens a file and before each event, but not before it has come further than where it
    began: pages that are made of merges come to an end. What it does past the deadline is to look through one file for its next event."""

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
        self._passed = 0  # events of the time and file that the merge is at
        self.is_cut = False
        """Whether the deadline stopped it."""

    @property
    def position(self) -> MergePosition:
        """Where another merge goes on: with the event that was given last, or behind those before it. Only while there is more."""
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
        """Whether the event that the merge is at is of the page before."""
        after = self._after
        return after is not None and (time_ms, at) == (after.time_ms, after.at) and self._passed < after.skipped

    def _advance(self, stream: _Stream) -> None:
        """Move the file that the merge is at to its next event."""
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
    """Reads files of one base, which stand in ``store``."""

    def __init__(self, store: ObjectStore, database: Database, generations: Generations, warn: Warn) -> None:
        self._store, self._database, self._generations, self._warn = store, database, generations, warn
        self.unsupported: list[FileRow] = []
        """Files that were left out because the library of their format is not installed here."""

    def files(self, query: FileEventQuery) -> list[FileRow]:
        """Rows of files that have events of the range, earliest first: those too that began before it, on the same day. Requests
        as of ``FileRows.of_days``. Memory: a KB a file. Raises UnavailableError."""
        matching: list[FileRow] = []
        for row in FileRows(self._database).of_days(query.base, _prefix(query), *_days(query)):
            if isinstance(row, DamagedRow):
                self._warn(row.key.sort, row.reason)
                continue
            contents = row.contents
            is_there = contents.size > 0 and row.state != CONDEMNED
            if is_there and contents.from_ms < query.to_ms and contents.to_ms >= query.from_ms and query.may_see(row.fqn):
                matching.append(row)
        dead = self._generations.dead_of(sorted({row.generation for row in matching}))
        alive = [row for row in matching if row.generation not in dead]
        return sorted(alive, key=lambda row: (row.contents.from_ms, row.at))

    def merge(self, query: FileEventQuery, deadline: Deadline | None = None, after: MergePosition | None = None) -> Merge:
        """Events of the range, from a place on. Raises UnavailableError."""
        since = query if after is None else replace(query, from_ms=max(query.from_ms, after.time_ms))
        files = [row for row in self.files(since) if after is None or row.contents.to_ms >= after.first_ms(row.at)]
        return Merge(self, files, query, deadline, after)

    def events(self, query: FileEventQuery) -> Iterator[FileEvent]:
        """All events of a range. Raises UnavailableError."""
        return self.merge(query).events()

    def next(self, stream: _Stream) -> FileEvent | None:
        """A file's next event, or None: there is none, or the rest cannot be read. Raises UnavailableError."""
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
    """First and last ms of the days of a range: a file has the events of one day, and its key the time of one of them."""
    return clamped(query.from_ms) // DAY_MS * DAY_MS, clamped(query.to_ms) // DAY_MS * DAY_MS + DAY_MS - 1

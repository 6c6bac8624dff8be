"""Files of an application read together: one stream, in order of time, of what counts and is alive.

A file is opened when the merge comes to its first event, and closed behind its last: memory is a piece of each file that covers the same
moment. A file or row that is missing or makes no sense is left out, with one warning, and never fails the read. So is a file whose format cannot be
read here; it is counted apart, since nothing is wrong with it.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from chalicelib.errors import (
    DamagedLogError,
    FormatUnavailableError,
    InvalidConfigurationError,
    ObjectNotFoundError,
    PreconditionFailedError,
    RangeNotSatisfiableError,
)
from chalicelib.pipelines.files.generations import Generations
from chalicelib.pipelines.files.place import DAY_MS, LAST_MS, clamped, prefix_of
from chalicelib.pipelines.files.records import FileEvent
from chalicelib.pipelines.files.rows import CONDEMNED, Damaged, FileRow, FileRows
from chalicelib.pipelines.files.streams import events_of, ordered
from chalicelib.ports import Database, ObjectStore

Warn = Callable[[str, str], None]
"""Told of what was left out: which, and why."""
_LEFT_OUT = (
    DamagedLogError, InvalidConfigurationError, ObjectNotFoundError, PreconditionFailedError, RangeNotSatisfiableError, ValueError,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class FileQuery:
    """Events of an application, or of one program of it, with ``from_ms`` <= time < ``to_ms``. ``may_see`` is asked for each FQN."""

    base: str
    namespace: str
    app: str
    program: str | None = None
    from_ms: int = 0
    to_ms: int = LAST_MS + 1
    may_see: Callable[[str], bool] = lambda _: True


@dataclass(slots=True)
class _Stream:
    """A file's place in the merge: its next event, and those behind it."""

    row: FileRow
    events: Iterator[FileEvent] | None = None


class Reading:
    """Reads files of one base, which stand in ``store``."""

    def __init__(self, store: ObjectStore, database: Database, generations: Generations, warn: Warn) -> None:
        self._store, self._database, self._generations, self._warn = store, database, generations, warn
        self.unsupported: list[FileRow] = []
        """Files that were left out because the library of their format is not installed here."""

    def files(self, query: FileQuery) -> list[FileRow]:
        """Rows of files that have events of the range, earliest first: those too that began before it, on the same day. Queries for the days
        of the range, 1,000 rows each. Memory: a KB a file. Raises UnavailableError."""
        found: list[FileRow] = []
        for row in self._listed(query):
            if isinstance(row, Damaged):
                self._warn(row.key.sort, row.reason)
                continue
            contents = row.contents
            is_there = contents.size > 0 and row.state != CONDEMNED
            if is_there and contents.from_ms < query.to_ms and contents.to_ms >= query.from_ms and query.may_see(row.fqn):
                found.append(row)
        dead = self._generations.dead_of(sorted({row.generation for row in found}))
        alive = [row for row in found if row.generation not in dead]
        return sorted(alive, key=lambda row: (row.contents.from_ms, row.at))

    def events(self, query: FileQuery) -> Iterator[FileEvent]:
        """Events in order of time; of the same time, in order of their files' keys, then as they stand. Raises UnavailableError."""
        files = self.files(query)
        upcoming = [(row.contents.from_ms, number, _Stream(row)) for number, row in enumerate(_by_key(files))]
        heapq.heapify(upcoming)
        heads: dict[int, FileEvent] = {}
        while upcoming:
            time_ms, number, stream = upcoming[0]
            if time_ms >= query.to_ms:
                return
            if number in heads:
                event = heads.pop(number)
                if event.time >= query.from_ms:
                    yield event
            following = self._next(stream, query.from_ms)
            if following is None:
                heapq.heappop(upcoming)
                continue
            heads[number] = following
            heapq.heapreplace(upcoming, (max(following.time, time_ms), number, stream))

    def _next(self, stream: _Stream, from_ms: int) -> FileEvent | None:
        try:
            if stream.events is None:
                stream.events = ordered(events_of(self._store, stream.row, from_ms), stream.row.contents.disorder_ms)
            return next(stream.events, None)
        except FormatUnavailableError:
            self.unsupported.append(stream.row)
            return None
        except _LEFT_OUT as error:
            self._warn(stream.row.object_key, f"{type(error).__name__}: {error}")
            return None

    def _listed(self, query: FileQuery) -> Iterator[FileRow | Damaged]:
        """Rows of the days of the range: a file has the events of one day, and its key the time of one of them."""
        rows = FileRows(self._database)
        if query.program is None:
            yield from rows.listed(query.base, prefix_of(query.namespace, query.app))
            return
        first_ms = clamped(query.from_ms) // DAY_MS * DAY_MS
        last_ms = clamped(query.to_ms) // DAY_MS * DAY_MS + DAY_MS - 1
        prefix = prefix_of(query.namespace, query.app, query.program)
        yield from rows.listed(query.base, prefix, f"{first_ms:015d}", f"{last_ms:015d};")


def _by_key(files: Sequence[FileRow]) -> list[FileRow]:
    return sorted(files, key=lambda row: row.at)

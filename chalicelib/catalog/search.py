"""Queries over files: by what, where, work id and time, in the order of their start, a page at a time.

A query stands for lanes (``catalog.listing``), and a page is their merge. A lane is read in pieces no larger than its share of the page,
period after period; a period that turns out empty is where the directory is asked for the next that is not. So a page costs about
one query a lane and full period, reads about the rows that it answers, and passes ten empty years at the cost of one query.
"""

from __future__ import annotations

import heapq
import json
import re
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import islice
from typing import Any

from chalicelib.catalog.files import FileRecord
from chalicelib.catalog.listing import (
    LISTING,
    Lane,
    period_number,
    period_text,
    position,
    source_scope,
    timed_lane,
    what_scope,
    work_lane,
)
from chalicelib.catalog.moments import FIRST_MS, LAST_MS
from chalicelib.errors import TooManyNamesError
from chalicelib.ports import Database, Row

MAX_PAGE = 100
MAX_LANES = 200
"""What one request looks into at once."""
THREADS = 8
_SPARE_ROWS = 8
_MOST_ROWS = 2000
_PERIODS_ASKED = 100
_NAMES_ASKED = 1000
_NAMES = re.compile(r"[a-z0-9_*-]+")
_FIRST, _LAST = " ", "~"
"""Before and behind every key."""


@dataclass(frozen=True, slots=True)
class FileQuery:
    """Which files, in which order, and after which place (start, id). Names may hold ``*``; None: any. Times in ms, both inclusive.

    A file is in the interval when it overlaps it; an instant, when it lies in it.
    """

    whats: tuple[str, ...]
    where: str | None = None
    work_id: str | None = None
    start_ms: int = FIRST_MS
    end_ms: int = LAST_MS
    newest_first: bool = False
    after: tuple[int, str] | None = None


@dataclass(frozen=True, slots=True)
class FilePage:
    """Documents of records, and the place (start, id) of the last when there are more behind it."""

    documents: Sequence[dict[str, Any]]
    after: tuple[int, str] | None


class Search:
    """Reads the table ``listing``."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def page(self, query: FileQuery, limit: int = MAX_PAGE) -> FilePage:
        """Up to ``limit`` files, each once, by (start, id) or against it. Raises TooManyNamesError."""
        found = list(islice(self._documents(query, limit + 1), limit + 1))
        last = _place(found[limit - 1]) if len(found) > limit else None
        return FilePage(found[:limit], last)

    def newest(self, what: str, where: str, before_ms: int = LAST_MS) -> FileRecord | None:
        """The file of a source with the greatest start up to a time; of several, the one that was created last."""
        query = FileQuery((what,), where, end_ms=before_ms, newest_first=True)
        best: FileRecord | None = None
        for document in self._documents(query, 2):
            record = FileRecord.from_document(document)
            if best and record.metadata.start < best.metadata.start:
                break
            best = record if best is None or record.age > best.age else best
        return best

    def _documents(self, query: FileQuery, wanted: int) -> Iterator[dict[str, Any]]:
        lanes = self._lanes(query)
        piece = -(-wanted // max(1, len(lanes))) + (_SPARE_ROWS if len(lanes) > 1 else 0)
        readers = [_LaneReader(self._database, lane, query, piece) for lane in lanes]
        if len(readers) > 1:
            with ThreadPoolExecutor(THREADS) as threads:
                list(threads.map(_LaneReader.read_ahead, readers))
        return heapq.merge(*readers, key=_place, reverse=query.newest_first)

    def _lanes(self, query: FileQuery) -> list[Lane]:
        if not all(map(_NAMES.fullmatch, (*query.whats, query.where or "*", query.work_id or "*"))):
            return []  # no file is named so
        if query.work_id is not None:
            return [work_lane(query.work_id)]
        whats = {name for pattern in query.whats for name in self._whats(pattern, query.where)}
        if query.where is None:
            scopes = [what_scope(what) for what in whats]
        elif "*" in query.where:
            scopes = [source_scope(what, where) for what in whats for where in self._names(f"n#where@{what}", query.where)]
        else:
            scopes = [source_scope(what, query.where) for what in whats]
        if len(scopes) > MAX_LANES:
            raise TooManyNamesError(f"the names stand for too many sources: ask for fewer sources={len(scopes)} most={MAX_LANES}")
        return [timed_lane(scope, int(class_)) for scope in sorted(scopes) for class_ in self._names(f"c#{scope}", "*")]

    def _whats(self, pattern: str, where: str | None) -> Iterator[str]:
        if "*" not in pattern:
            return iter((pattern,))
        directory = "n#what" if where is None or "*" in where else f"n#what@{where}"
        return self._names(directory, pattern)

    def _names(self, directory: str, pattern: str) -> Iterator[str]:
        """Names that a pattern stands for. One query for a thousand that begin as it does."""
        start = pattern.partition("*")[0]
        first, more = start or _FIRST, True
        while more:
            rows, more = self._database.query(LISTING, directory, first, start + _LAST, limit=_NAMES_ASKED)
            yield from (row["at"] for row in rows if fnmatchcase(row["at"], pattern))
            first = rows[-1]["at"] + _FIRST if rows else _LAST


class _LaneReader:
    """A lane's files in order, read piece by piece."""

    def __init__(self, database: Database, lane: Lane, query: FileQuery, piece: int) -> None:
        self._database, self._lane, self._query, self._piece = database, lane, query, piece
        self._read: deque[dict[str, Any]] = deque()
        self._first, self._last = _bounds(lane, query)
        # What is ahead lies between these two periods.
        earliest_ms = max(query.start_ms - lane.longest_ms, FIRST_MS)
        ahead = [lane.period_of(earliest_ms), lane.period_of(query.end_ms)]
        if query.after:
            ahead[query.newest_first] = lane.period_of(query.after[0])
        self._period, self._end = reversed(ahead) if query.newest_first else ahead
        self._step = -1 if query.newest_first else 1
        self._listed: deque[int] | None = None
        self._is_done = self._is_behind(self._period)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        while self._read or not self._is_done:
            if not self._read:
                self.read_ahead()
            else:
                yield self._read.popleft()

    def read_ahead(self) -> None:
        """One query, and where it finds nothing, those to the next period that holds files."""
        while not self._read and not self._is_done:
            rows, more = self._database.query(
                LISTING,
                self._lane.partition(self._period),
                self._first,
                self._last,
                limit=self._piece,
                newest_first=self._query.newest_first,
            )
            self._read.extend(document for document in map(_document, rows) if self._is_answer(document))
            if rows:
                self._go_on_behind(rows[-1]["at"])
            if not self._read:
                self._piece = min(2 * self._piece, _MOST_ROWS)
            if not more:
                self._next_period(was_empty=not rows)

    def _go_on_behind(self, at: str) -> None:
        if self._query.newest_first:
            self._last = _just_before(at)
        else:
            self._first = at + _FIRST

    def _next_period(self, *, was_empty: bool) -> None:
        if self._listed is None and not was_empty:
            self._period += self._step
        else:
            self._period = self._next_listed()
        self._is_done = self._is_behind(self._period)

    def _next_listed(self) -> int:
        """The next period that holds files, as the directory has it."""
        if not self._listed:
            first, last = sorted((period_text(self._period + self._step), period_text(self._end)))
            if self._is_behind(self._period + self._step):
                return self._end + self._step
            rows, _ = self._database.query(
                LISTING, self._lane.periods, first, last, limit=_PERIODS_ASKED, newest_first=self._query.newest_first
            )
            self._listed = deque(period_number(row["at"]) for row in rows)
        return self._listed.popleft() if self._listed else self._end + self._step

    def _is_behind(self, period: int) -> bool:
        return (self._end - period) * self._step < 0

    def _is_answer(self, document: dict[str, Any]) -> bool:
        query, metadata = self._query, document["metadata"]
        end_ms = metadata["start"] if metadata.get("end") is None else metadata["end"]
        if metadata["start"] > query.end_ms or end_ms < query.start_ms:
            return False
        if query.work_id is None:
            return True
        return any(fnmatchcase(metadata["what"], what) for what in query.whats) and (
            query.where is None or fnmatchcase(metadata["where"], query.where)
        )


def _bounds(lane: Lane, query: FileQuery) -> tuple[str, str]:
    first = position(max(query.start_ms - lane.longest_ms, FIRST_MS))
    last = position(query.end_ms, _LAST)
    if query.after is None:
        return first, last
    at = position(*query.after)
    return (first, min(last, _just_before(at))) if query.newest_first else (max(first, at + _FIRST), last)


def _just_before(at: str) -> str:
    """A key behind every shorter-sorting one and before ``at``."""
    return at[:-1] + chr(ord(at[-1]) - 1) + _LAST


def _document(row: Row) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(row["document"])
    return document


def _place(document: dict[str, Any]) -> tuple[int, str]:
    return document["metadata"]["start"], document["metadata"]["id"]

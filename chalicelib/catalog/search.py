"""Queries for files by what, where, work id and time, in order of their start, a page at a time.

A query reads several sort key indexes (``catalog.listing``) and merges them. It reads an index period by period, in pieces of its
share of the page; after an empty period it asks the directory for the next one with files. So a page costs about one query for each
index and non-empty period, reads few rows more than it returns, and skips ten empty years with one query.
"""

from __future__ import annotations

import heapq
import json
import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence, Sized
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from chalicelib.catalog.files import FileRecord
from chalicelib.catalog.listing import (
    LISTING,
    SortKeyIndex,
    day_index,
    duration_index,
    key_after,
    key_before,
    last_sort_key,
    period_number,
    period_text,
    sort_key,
    source_scope,
    what_scope,
    whats_of_work,
    work_index,
)
from chalicelib.catalog.timestamps import DAY_MS, FIRST_MS, LAST_MS
from chalicelib.errors import TooManyNamesError
from chalicelib.ports import Database

MAX_PAGE = 100
MAX_DAYS = 8
"""A query that begins at midnight and spans at most so many days reads the index by day."""
MAX_ROWS = 2000
"""A page with at least one file ends before the next request once it has read so many rows without returning them: the files that overlap
a moment are among all those that began before it."""
MAX_INDEXES = 200
"""The most indexes that one request reads."""
THREADS = 8
_SPARE_ROWS = 8
_MAX_PIECE_ROWS = 2000
"""Rows of one query at most; a piece doubles while its rows are not of the answer."""
_PERIODS_ASKED = 100
_NAMES_ASKED = 1000
_NAMES = re.compile(r"[a-z0-9_*-]{1,256}")
_FIRST, _LAST = " ", "~"
"""Below and above every name of a directory, and every key of a file, which begins with digits."""


@dataclass(frozen=True, slots=True)
class FileQuery:
    """Filter, order and start of a page: files after ``after`` (start, id). Names may contain ``*``; None: any. Times in ms, both
    inclusive.

    A file matches an interval that it overlaps, an instant one that contains it.
    """

    whats: tuple[str, ...]
    where: str | None = None
    work_id: str | None = None
    start_ms: int = FIRST_MS
    end_ms: int = LAST_MS
    newest_first: bool = False
    after: tuple[int, str] | None = None

    @property
    def is_of_days(self) -> bool:
        """Whether it begins at midnight and spans at most ``MAX_DAYS`` days."""
        return self.start_ms % DAY_MS == 0 and self.end_ms - self.start_ms < MAX_DAYS * DAY_MS


@dataclass(frozen=True, slots=True)
class FilePage:
    """Documents of records, and the (start, id) of the last one if more follow."""

    documents: Sequence[dict[str, Any]]
    after: tuple[int, str] | None


NameFilter = Callable[[str], bool]


def _any_name(_: str) -> bool:
    return True


class Search:
    """Queries of the table ``listing``."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def page(self, query: FileQuery, limit: int = MAX_PAGE, whats: NameFilter = _any_name) -> FilePage:
        """Up to ``limit`` distinct files, ordered by (start, id), ascending or descending. Files of a ``what`` that the filter
        ``whats`` rejects are left out at no cost. Raises TooManyNamesError."""
        budget = _Budget()
        found: list[dict[str, Any]] = []
        try:
            for document in _merged(self._readers(query, limit + 1, budget, whats), query):
                if len(found) == limit:
                    return FilePage(found, _place(found[-1]))
                found.append(document)
                budget.may_end = True
        except _BudgetSpentError:
            return FilePage(found, _place(found[-1]))
        return FilePage(found, None)

    def newest(self, what: str, where: str, before_ms: int = LAST_MS) -> FileRecord | None:
        """The file of a source with the greatest start up to a time; of several, the one that was created last."""
        query = FileQuery((what,), where, end_ms=before_ms, newest_first=True)
        best: FileRecord | None = None
        for document in _merged(self._readers(query, 2, _Budget()), query):
            record = FileRecord.from_document(document)
            if best and record.metadata.start < best.metadata.start:
                break
            best = record if best is None or record.age > best.age else best
        return best

    def _readers(self, query: FileQuery, count: int, budget: _Budget, whats: NameFilter = _any_name) -> list[_IndexReader]:
        indexes = self._indexes(query, whats)
        piece = -(-count // max(1, len(indexes))) + (_SPARE_ROWS if len(indexes) > 1 else 0)
        readers = [_IndexReader(self._database, index, query, piece, budget) for index in indexes]
        if len(readers) > 1:
            with ThreadPoolExecutor(THREADS) as threads:
                list(threads.map(_IndexReader.read_ahead, readers))
        return readers

    def _indexes(self, query: FileQuery, allowed: NameFilter) -> list[SortKeyIndex]:
        if not all(map(_NAMES.fullmatch, (query.where or "*", query.work_id or "*"))):
            return []  # no file has such a name
        patterns = filter(_NAMES.fullmatch, query.whats)
        whats = {name for pattern in patterns for name in self._whats(pattern, query) if allowed(name)}
        if query.work_id is not None:
            _check_count(whats)
            return [work_index(query.work_id, what) for what in sorted(whats)]
        if query.where is None:
            scopes = [what_scope(what) for what in whats]
        elif "*" in query.where:
            scopes = [source_scope(what, where) for what in whats for where in self._names(f"n#where@{what}", query.where)]
        else:
            scopes = [source_scope(what, query.where) for what in whats]
        _check_count(scopes)
        if query.where is None and query.is_of_days:
            return [day_index(what) for what in sorted(whats)]
        return [duration_index(scope, class_) for scope in sorted(scopes) for class_ in self._names(f"c#{scope}", "*")]

    def _whats(self, pattern: str, query: FileQuery) -> Iterator[str]:
        if "*" not in pattern:
            return iter((pattern,))
        if query.work_id is not None:
            return self._names(whats_of_work(query.work_id), pattern)
        if query.where is None or "*" in query.where:
            return self._names("n#what", pattern)
        return self._names(f"n#what@{query.where}", pattern)

    def _names(self, directory: str, pattern: str) -> Iterator[str]:
        """Names that match a pattern. One query for each thousand names with the pattern's literal prefix."""
        start = pattern.partition("*")[0]
        first, more = start or _FIRST, True
        while more:
            rows, more = self._database.query(LISTING, directory, first, start + _LAST, limit=_NAMES_ASKED)
            yield from (row["at"] for row in rows if fnmatchcase(row["at"], pattern))
            first = rows[-1]["at"] + _FIRST if rows else _LAST


def _check_count(sources: Sized) -> None:
    if len(sources) > MAX_INDEXES:
        raise TooManyNamesError(
            f"the patterns match too many sources: narrow what or where sources={len(sources)} limit={MAX_INDEXES}"
        )


class _BudgetSpentError(Exception):
    """The page ends early."""


@dataclass(slots=True)
class _Budget:
    """Rows that a page's readers have read and not returned. ``may_end``: the page has a file."""

    skipped_rows: int = 0
    may_end: bool = False

    def check(self) -> None:
        """Called before each request. Raises _BudgetSpentError."""
        if self.may_end and self.skipped_rows > MAX_ROWS:
            raise _BudgetSpentError


class _IndexReader:
    """An index's files in order, read in pieces."""

    def __init__(self, database: Database, index: SortKeyIndex, query: FileQuery, piece: int, budget: _Budget) -> None:
        self._database, self._index, self._query, self._piece, self._budget = database, index, query, piece, budget
        self._read: deque[dict[str, Any]] = deque()
        # The unread periods are between these two; the earliest one also has files that began before it.
        self._opening = index.period_of(query.start_ms)
        ahead = [self._opening, index.period_of(query.end_ms)]
        if query.after:
            ahead[query.newest_first] = max(index.period_of(query.after[0]), self._opening)
        self._period, self._end = reversed(ahead) if query.newest_first else ahead
        self._step = -1 if query.newest_first else 1
        self._listed: deque[int] | None = None
        self._after = sort_key(*query.after) if query.after else None
        self._is_done = self._is_behind(self._period)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        while self._read or not self._is_done:
            if not self._read:
                self.read_ahead()
            else:
                yield self._read.popleft()

    def read_ahead(self) -> None:
        """One query, and if it returns nothing, further ones up to the next period with files."""
        while not self._read and not self._is_done:
            self._budget.check()
            rows, more = self._database.query(
                LISTING,
                self._index.partition(self._period),
                *self._bounds(),
                limit=self._piece,
                newest_first=self._query.newest_first,
                only="document",
            )
            documents = [json.loads(row["document"]) for row in rows]
            self._read.extend(filter(self._is_answer, documents))
            self._budget.skipped_rows += len(rows) - len(self._read)
            if documents:
                self._after = sort_key(*_place(documents[-1]))
            if not self._read:
                self._piece = min(2 * self._piece, _MAX_PIECE_ROWS)
            if not more:
                self._next_period(was_empty=not rows)

    def _bounds(self) -> tuple[str | None, str | None]:
        """The unread range of sort keys in this period: from the first start that can overlap the interval, or without files
        that a row of the period before has returned."""
        query, index = self._query, self._index
        first = None
        if self._period != self._opening:
            first = sort_key(self._period * index.period_ms)
        elif not index.is_by_day and query.start_ms - index.longest_ms > FIRST_MS:
            first = sort_key(query.start_ms - index.longest_ms)
        is_cut = self._period == index.period_of(query.end_ms) == index.period_of(query.end_ms + 1)
        last = last_sort_key(query.end_ms) if is_cut else None
        if self._after is None:
            return first, last
        if query.newest_first:
            return first, min(last or _LAST, key_before(self._after))
        return max(first or _FIRST, key_after(self._after)), last

    def _next_period(self, *, was_empty: bool) -> None:
        if self._listed is None and not (was_empty and self._index.is_listed):
            self._period += self._step
        else:
            self._period = self._next_listed()
        self._is_done = self._is_behind(self._period)

    def _next_listed(self) -> int:
        """The next period with files, by the directory."""
        if not self._listed:
            first, last = sorted((period_text(self._period + self._step), period_text(self._end)))
            if self._is_behind(self._period + self._step):
                return self._end + self._step
            rows, _ = self._database.query(
                LISTING, self._index.periods, first, last, limit=_PERIODS_ASKED, newest_first=self._query.newest_first
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
        return query.work_id is None or query.where is None or fnmatchcase(metadata["where"], query.where)


def _merged(readers: Sequence[_IndexReader], query: FileQuery) -> Iterator[dict[str, Any]]:
    return heapq.merge(*readers, key=_place, reverse=query.newest_first)


def _place(document: dict[str, Any]) -> tuple[int, str]:
    return document["metadata"]["start"], document["metadata"]["id"]

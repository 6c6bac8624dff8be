"""Searching a run on the server: matching lines over several requests, and the lines around them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from runlake.archive import Archive
from runlake.errors import UnavailableError
from runlake.names import RunName

Json = dict[str, Any]
MAX_CONTEXT = 1000
_PAGE_MATCHES = 1000
_PAGE_LINES = 10_000
_NEAR_LINES = 200
"""Groups of lines that are this close are read by one request: it costs little more than the request itself."""


@dataclass(frozen=True)
class ResultLine:
    """``number``: from 0. ``spans``: those of the matches in ``text``; None for a line around a match. ``begins_group``: it is the run's first,
    or lines before it are left out."""

    number: int
    text: str
    spans: Sequence[Sequence[int]] | None = None
    begins_group: bool = False


@dataclass(frozen=True)
class Search:
    """A search for ``query``, as ``Archive.grep`` takes it. ``before``, ``after``: lines around each match. ``max_count``: matches for each run.

    ``on_request`` is called before each request, and may raise. A run takes a request per 1000 matches and per 128 MiB or 5 s of searching;
    its lines around matches one for matches that are close, and for each one that is not. Memory: one response of each kind, and at most
    ``after`` matches of earlier ones. A response that does not advance is an error.
    """

    archive: Archive
    query: Json
    before: int = 0
    after: int = 0
    max_count: int | None = None
    on_request: Callable[[], None] = lambda: None

    def lines(self, run: RunName) -> Iterator[ResultLine]:
        """Matches and the lines around them, each once and in order. Raises ApiError, UnavailableError."""
        waiting: list[Json] = []
        around = _Surroundings(self, run)
        for answer in self._answers(run):
            waiting += answer["matches"]
            around.total = int(answer["total"])
            # The lines after a match are known not to match once they were searched.
            searched = float("inf") if answer["after"] is None else int(answer["after"])
            ready = [each for each in waiting if each["line"] + self.after < searched]
            waiting = waiting[len(ready) :]
            yield from around.of(ready, waiting[0]["line"] if waiting else None)

    def _answers(self, run: RunName) -> Iterator[Json]:
        """``after`` of the last one is None."""
        left = self.max_count
        after: str | None = "0"
        while after is not None:
            self.on_request()
            limit = min(left or _PAGE_MATCHES, _PAGE_MATCHES)
            answer = self.archive.grep(run, **self.query, after=after, limit=limit)
            _check_progress(answer, int(after), limit)
            left = None if left is None else left - len(answer["matches"])
            after = None if left == 0 else answer["after"]
            yield answer | {"after": after}


def _check_progress(answer: Json, after: int, limit: int) -> None:
    """Matches are new ones in the searched lines, and the next request continues behind them: a search of any server's answers ends, and it keeps
    no more matches than lines are wanted after one. Raises UnavailableError."""
    is_last = answer["after"] is None
    end = int(answer["total"] if is_last else answer["after"])
    lines = [after - 1, *(int(match["line"]) for match in answer["matches"])]
    is_new = len(lines) <= limit + 1 and all(line < following for line, following in zip(lines, lines[1:]))
    if not is_new or (end <= after and not is_last) or (lines[-1] >= max(end, after)):
        raise _no_progress(after)


def _no_progress(line: int) -> UnavailableError:
    return UnavailableError(f"invalid response: the server's answer does not advance line={line}")


@dataclass
class _Surroundings:
    """Puts matches of a run between the lines around them. ``total``: the lines of the log."""

    search: Search
    run: RunName
    total: int = 0
    _next: int | None = None
    _first: int = 0
    _page: list[str] = field(default_factory=list)

    def of(self, matches: Sequence[Json], following: int | None) -> Iterator[ResultLine]:
        """``following``: the line of the match after these, if it is known."""
        for index, match in enumerate(matches):
            number = int(match["line"])
            begin = max(self._next or 0, number - self.search.before)
            is_first = self._next is None or self._next < begin
            for line in self._around(range(begin, number), matches[index:]):
                yield ResultLine(line.number, line.text, None, is_first)
                is_first = False
            yield ResultLine(number, match["text"], match["spans"], is_first)
            self._next = number + 1 + self.search.after
            limit = matches[index + 1]["line"] if index + 1 < len(matches) else following
            if limit is not None:
                self._next = min(self._next, int(limit))
            yield from self._around(range(number + 1, self._next), matches[index:])

    def _around(self, numbers: range, matches: Sequence[Json]) -> Iterator[ResultLine]:
        for number in numbers:
            if number >= self.total:
                return
            if not 0 <= number - self._first < len(self._page):
                self._read(number, matches)
            if number < self.total:
                yield ResultLine(number, self._page[number - self._first])

    def _read(self, number: int, matches: Sequence[Json]) -> None:
        """A page from a line on, up to the end of the lines around the next matches that are near."""
        end = number
        for match in matches:
            line = int(match["line"])
            if line - self.search.before > end + _NEAR_LINES or line > number + _PAGE_LINES:
                break
            end = line + 1 + self.search.after
        self.search.on_request()
        page = self.search.archive.page(self.run, after=number, limit=max(min(end - number, _PAGE_LINES), 1))
        self._first, self._page = page.after - len(page.lines), page.lines
        if not page.lines:
            self.total = number
        elif not 0 <= number - self._first < len(page.lines):
            raise _no_progress(number)

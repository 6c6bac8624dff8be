"""Reading: pages by line, the last lines, lines since a time, the whole log.

A line number leads to a byte by one query of the catalog: the last row that begins at or before it, and its nearest landmark. The page is
then read forward from there. A catalog that lags or is lost makes a page read more, never wrong: without a row it reads from the start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from chalicelib.deadline import Deadline
from chalicelib.errors import ObjectNotFoundError, StoreUnavailableError, UnavailableError
from chalicelib.ports import Clock, ObjectStore, Run, SegmentIndex
from chalicelib.runlog.compaction import Compactor
from chalicelib.runlog.landing import Landing, Landings, landing_on
from chalicelib.runlog.layout import Layout
from chalicelib.runlog.page import RAW_BYTES, fit, take_lines
from chalicelib.runlog.tail import Tail, TailFinder
from chalicelib.runlog.view import TornViewError, Viewer

DEFAULT_LIMIT = 1000
MAX_LIMIT = 10_000
MAX_WAIT_S = 20.0
POLL_S = 0.5

INLINE_BYTES = 4 * 1024 * 1024
"""A log up to this size is answered inline, a larger one by redirect (Lambda takes 6 MB, base64 makes 4.5 of it)."""
SCAN_PIECE_BYTES = 5 * 1024 * 1024
_MIN_READ_BYTES = 64 * 1024
_GENEROUS = 1.2  # a page is read in one request when lines are up to this much longer than they were so far
_TRIES = 5

Outcome = TypeVar("Outcome")


@dataclass(frozen=True, slots=True)
class PageRequest:
    """Which lines: ``limit`` from line ``after`` on; or the last ``tail``; or those that arrived since ``since_ms``. ``wait_s``: how
    long to hold when there are none yet."""

    after: int = 0
    limit: int = DEFAULT_LIMIT
    tail: int | None = None
    since_ms: int | None = None
    wait_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Page:
    """``logs``: lines joined by newlines, none at the end. ``after``: the next line, None when there is no more now. ``total``: lines
    of the whole log. ``streaming``: more may come. ``truncated``: a line longer than a page was cut."""

    logs: str
    after: int | None
    total: int
    streaming: bool
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class Look:
    """A page and what was seen with it: its first line, how many lines it has, and the log's end."""

    page: Page
    line: int
    count: int
    end: Tail


@dataclass(frozen=True, slots=True)
class Scan:
    """The log's bytes from a place on that is ``skip`` lines before the one that is wanted, and its end. Reading may raise
    TornViewError: begin again where one has come to."""

    chunks: Iterator[bytes]
    skip: int
    end: Tail


@dataclass(frozen=True, slots=True)
class Stretch:
    """Bytes of a log from a place on, as many as were asked for or up to its end, and its end as it was then."""

    body: bytes
    end: Tail


@dataclass(frozen=True, slots=True)
class WholeLog:
    """A log for download: ``body`` when it is small, else ``key`` of the object that holds all of it."""

    size_bytes: int
    body: bytes | None
    key: str | None


class Reader:
    """Reads runs, open and finished, by anyone and any number at once."""

    def __init__(self, store: ObjectStore, index: SegmentIndex, layout: Layout, clock: Clock, compactor: Compactor) -> None:
        self._store, self._index, self._layout, self._clock, self._compactor = store, index, layout, clock, compactor
        self._tails = TailFinder(store, index, layout)
        self._viewer = Viewer(store, layout, self._tails)
        self._landings = Landings()

    def page(self, run: Run, request: PageRequest) -> Page:
        """One page. An unknown run is an empty page. A finished log costs at most one query and two GETs. Raises UnavailableError."""
        look = self.look(run, request)
        may_grow = not look.page.logs and look.page.after is None and not look.end.seal
        if may_grow and self._more_came(run, look.end, min(request.wait_s, MAX_WAIT_S)):
            return self.look(run, request).page
        return look.page

    def look(self, run: Run, request: PageRequest) -> Look:
        """A page as it is now, whatever ``wait_s`` says. Requests and errors as of ``page``."""
        return self._untorn(lambda: self._look(run, request))

    def scan(self, run: Run, line: int) -> Scan:
        """The log from a line on, in large pieces, read as they are asked for. The requests of an empty page; a GET for each 5 MiB of an
        artifact, and for each segment. Raises TornViewError, UnavailableError."""
        start = self._locate(run, line)
        view = self._viewer.take(run, start.byte, SCAN_PIECE_BYTES)
        if start.byte > view.end_byte:
            start = Landing()
        return Scan(self._viewer.read(view, start.byte, view.end_byte), line - start.line, self._viewer.tail(run, view))

    def stretch(self, run: Run, start: int, length: int) -> Stretch:
        """Bytes [start, start + length) of the log, fewer at its end. The requests of an empty page, and a GET for each segment that
        the bytes are of; no query. Raises UnavailableError."""

        def read() -> Stretch:
            view = self._viewer.take(run, start, length)
            body = b"".join(self._viewer.read(view, start, min(start + length, view.end_byte)))
            return Stretch(body, self._viewer.tail(run, view))

        return self._untorn(read)

    def whole(self, run: Run) -> WholeLog | None:
        """The whole log as it is now, or None for a run that is unknown. A large open log is compacted first, so that one object has it."""
        found = self._untorn(lambda: self._whole_if_small(run))
        if found is not None and found.body is None and found.key is None:
            self._compactor.compact(run, Deadline(self._clock))
            found = self._untorn(lambda: self._whole_if_small(run))
        return found

    def _whole_if_small(self, run: Run) -> WholeLog | None:
        view = self._viewer.take(run, 0, INLINE_BYTES)
        if view.artifact is None and not view.segments:
            return None
        if view.end_byte <= INLINE_BYTES:
            return WholeLog(view.end_byte, b"".join(self._viewer.read(view, 0, view.end_byte)), None)
        # Lines that came since the compaction are left to the next download, rather than none being ever complete.
        return WholeLog(view.extent.bytes, None, view.artifact.key if view.artifact else None)

    def _look(self, run: Run, request: PageRequest) -> Look:
        line = self._first_line(run, request)
        start = self._locate(run, line)
        length = int((line - start.line + request.limit) * start.bytes_per_line * _GENEROUS)
        view = self._viewer.take(run, start.byte, min(max(length, _MIN_READ_BYTES), RAW_BYTES))
        if start.byte > view.end_byte:
            start = Landing()  # rows of a log that is no more
        taken = take_lines(self._viewer.read(view, start.byte, view.end_byte), line - start.line, request.limit)
        end = self._viewer.tail(run, view)
        logs, count, shortened = fit(taken.lines)
        truncated = shortened or taken.cut
        if not truncated:
            self._landings.remember(run, taken.landing_behind(start, line, count))
        after = line + count if line + count < end.line else None
        return Look(Page(logs, after, end.line, end.exists and not end.seal, truncated), line, count, end)

    def _first_line(self, run: Run, request: PageRequest) -> int:
        if request.tail is not None:
            return max(0, self._viewer.tail(run, self._viewer.take(run)).line - request.tail)
        if request.since_ms is not None:
            return max(request.after, self._line_since(run, request.since_ms))
        return request.after

    def _line_since(self, run: Run, since_ms: int) -> int:
        """The first line that arrived at or after a time: a search by halves in the catalog, one query a step."""
        last = self._index.last(run)
        if last is None:
            return 0
        if last.appended_ms < since_ms:
            return last.end_line
        low, high = 0, last.line  # the first row that is late enough begins in [low, high]
        while low < high:
            row = self._index.at_line(run, (low + high) // 2)
            if row is None or row.appended_ms < since_ms:
                low = max(row.end_line if row else 0, (low + high) // 2 + 1)
            else:
                high = row.line
        return min(low, high)

    def _locate(self, run: Run, line: int) -> Landing:
        """The nearest known place at or before a line. One query; none for the first line, nor where a page that was read here ended."""
        if line <= 0:
            return Landing()
        if known := self._landings.recall(run, line):
            return known
        try:
            row = self._index.at_line(run, line)
        except UnavailableError:
            return Landing()
        return landing_on(row, line) if row else Landing()

    def _more_came(self, run: Run, end: Tail, wait_s: float) -> bool:
        """Look for the next number twice a second: a HEAD each."""
        deadline = Deadline(self._clock, wait_s)
        while deadline.remaining_s() > 0:
            self._clock.sleep(min(POLL_S, deadline.remaining_s()))
            try:
                self._tails.segment(run, end.sequence)
                return True
            except ObjectNotFoundError:
                continue
        return False

    @staticmethod
    def _untorn(attempt: Callable[[], Outcome]) -> Outcome:
        for _ in range(_TRIES - 1):
            with suppress(TornViewError):
                return attempt()
        try:
            return attempt()
        except TornViewError as error:
            raise StoreUnavailableError(f"the log keeps changing while it is read tries={_TRIES} last={error}") from error

"""Reading: pages by line, the last lines, lines since a time, the whole log.

A line number leads to a byte by one query of the catalog: the last row that begins at or before it, and its nearest landmark. The page is
then read forward from there. A catalog that lags or is lost makes a page read more, never wrong: without a row it reads from the start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import chain

from chalicelib.deadline import Deadline
from chalicelib.errors import ObjectNotFoundError, UnavailableError
from chalicelib.ports import Clock, ObjectStore, Run, SegmentEntry, SegmentIndex
from chalicelib.runlog.attempts import read_start
from chalicelib.runlog.compaction import Compactor
from chalicelib.runlog.conflicts import retry_on_change
from chalicelib.runlog.layout import Layout
from chalicelib.runlog.line_index import LineOffset, LineOffsetCache, nearest_offset
from chalicelib.runlog.log_end import LogEnd, LogEndFinder
from chalicelib.runlog.log_snapshot import LogSnapshot, SnapshotReader
from chalicelib.runlog.page import RAW_BYTES, fit, take_lines
from chalicelib.runlog.since_search import SinceSearch

DEFAULT_LIMIT = 1000
MAX_LIMIT = 10_000
MAX_WAIT_S = 20.0
POLL_S = 0.5

INLINE_BYTES = 4 * 1024 * 1024
"""A log up to this size is answered inline, a larger one by redirect (Lambda takes 6 MB, base64 makes 4.5 of it)."""
SCAN_PIECE_BYTES = 5 * 1024 * 1024
_MIN_READ_BYTES = 64 * 1024
_GENEROUS = 1.2  # a page is read in one request when lines are up to this much longer than they were so far


@dataclass(frozen=True, slots=True)
class PageRequest:
    """Which lines: ``limit`` from line ``after`` on; or the last ``tail``; or those since ``since_ms``, by the times of ``clock`` (None: by their
    own or those of arrival, see ``SinceSearch``). ``wait_s``: how long to hold when there are none yet."""

    after: int = 0
    limit: int = DEFAULT_LIMIT
    tail: int | None = None
    since_ms: int | None = None
    wait_s: float = 0.0
    clock: str | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """``logs``: lines joined by newlines, none at the end. ``after``: the next line, None when there is no more now. ``total``: lines
    of the whole log. ``streaming``: more may come. ``truncated``: a line longer than a page was cut. ``clock``: whose times ``since_ms``
    was compared with, None without it."""

    logs: str
    after: int | None
    total: int
    streaming: bool
    truncated: bool = False
    clock: str | None = None


@dataclass(frozen=True, slots=True)
class PageSnapshot:
    """A page and what was seen with it: its first line, how many lines it has, and the log's end."""

    page: Page
    line: int
    count: int
    end: LogEnd


@dataclass(frozen=True, slots=True)
class Scan:
    """The log's bytes from a place on that is ``skip`` lines before the one that is wanted, and its end. Reading may raise
    SnapshotChangedError: begin again where one has come to."""

    chunks: Iterator[bytes]
    skip: int
    end: LogEnd


@dataclass(frozen=True, slots=True)
class LogRange:
    """Bytes of a log from a place on, as many as were asked for or up to its end, and its end as it was then."""

    body: bytes
    end: LogEnd


@dataclass(frozen=True, slots=True)
class LogDownload:
    """A log for download: ``body`` when it is small, else ``key`` of the object that holds all of it."""

    size_bytes: int
    body: bytes | None
    key: str | None


@dataclass(frozen=True, slots=True)
class _Opened:
    """``chunks``: the bytes of ``view`` from ``start`` on."""

    start: LineOffset
    view: LogSnapshot
    chunks: Iterator[bytes]


class Reader:
    """Reads runs, open and finished, by anyone and any number at once."""

    def __init__(self, store: ObjectStore, index: SegmentIndex, layout: Layout, clock: Clock, compactor: Compactor) -> None:
        self._store, self._index, self._layout, self._clock, self._compactor = store, index, layout, clock, compactor
        self._tails = LogEndFinder(store, index, layout)
        self._viewer = SnapshotReader(store, layout, self._tails)
        self._offsets = LineOffsetCache()
        self._since = SinceSearch(index, lambda run, start, length: self.read_range(run, start, length).body)

    def page(self, run: Run, request: PageRequest) -> Page:
        """One page. An unknown run is an empty page. A finished log costs at most one query and two GETs. Raises UnavailableError."""
        snapshot = self.page_snapshot(run, request)
        may_grow = not snapshot.page.logs and snapshot.page.after is None and not snapshot.end.seal
        if may_grow and self._more_came(run, snapshot.end, min(request.wait_s, MAX_WAIT_S)):
            return self.page_snapshot(run, request).page
        return snapshot.page

    def page_snapshot(self, run: Run, request: PageRequest) -> PageSnapshot:
        """A page as it is now, whatever ``wait_s`` says. Requests and errors as of ``page``."""
        return retry_on_change(lambda: self._page_snapshot(run, request))

    def scan(self, run: Run, line: int) -> Scan:
        """The log from a line on, in large pieces, read as they are asked for. The requests of an empty page; a GET for each 5 MiB of an
        artifact, and for each segment. Raises SnapshotChangedError, UnavailableError."""
        opened = self._open(run, line, lambda _: SCAN_PIECE_BYTES)
        return Scan(opened.chunks, line - opened.start.line, self._viewer.tail(run, opened.view))

    def read_range(self, run: Run, start: int, length: int) -> LogRange:
        """Bytes [start, start + length) of the log, fewer at its end. The requests of an empty page, and a GET for each segment that
        the bytes are of; no query. Raises UnavailableError."""

        def read() -> LogRange:
            view = self._viewer.take(run, start, length)
            body = b"".join(self._viewer.read(view, start, min(start + length, view.end_byte)))
            return LogRange(body, self._viewer.tail(run, view))

        return retry_on_change(read)

    def download(self, run: Run) -> LogDownload | None:
        """The whole log as it is now, or None for a run that is unknown. A large open log is compacted first, so that one object has it."""
        found = retry_on_change(lambda: self._download_if_small(run))
        if found is None and self._is_started(run):
            return LogDownload(0, b"", None)
        if found is not None and found.body is None and found.key is None:
            self._compactor.compact(run, Deadline(self._clock))
            found = retry_on_change(lambda: self._download_if_small(run))
        return found

    def _download_if_small(self, run: Run) -> LogDownload | None:
        view = self._viewer.take(run, 0, INLINE_BYTES)
        if view.artifact is None and not view.segments:
            return None
        if view.end_byte <= INLINE_BYTES:
            return LogDownload(view.end_byte, b"".join(self._viewer.read(view, 0, view.end_byte)), None)
        # Lines that came since the compaction are left to the next download, rather than none being ever complete.
        return LogDownload(view.extent.bytes, None, view.artifact.key if view.artifact else None)

    def _page_snapshot(self, run: Run, request: PageRequest) -> PageSnapshot:
        line, clock = self._first_line(run, request)

        def page_bytes(start: LineOffset) -> int:
            length = int((line - start.line + request.limit) * start.bytes_per_line * _GENEROUS)
            return min(max(length, _MIN_READ_BYTES), RAW_BYTES)

        opened = self._open(run, line, page_bytes)
        start, view = opened.start, opened.view
        taken = take_lines(opened.chunks, line - start.line, request.limit)
        end = self._viewer.tail(run, view)
        logs, count, shortened = fit(taken.lines)
        truncated = shortened or taken.cut
        if not truncated:
            behind = taken.offset_after(start, line, count)
            self._offsets.remember(run, replace(behind, etag=view.object_before(behind.byte)[1]))
        after = line + count if line + count < end.line else None
        streaming = not end.seal and (end.exists or self._is_started(run))
        return PageSnapshot(Page(logs, after, end.line, streaming, truncated, clock), line, count, end)

    def _is_started(self, run: Run) -> bool:
        """Whether a run without a line was started. One GET."""
        return read_start(self._store, self._layout, run) is not None

    def _first_line(self, run: Run, request: PageRequest) -> tuple[int, str | None]:
        if request.tail is not None:
            return max(0, self._viewer.tail(run, self._viewer.take(run)).line - request.tail), None
        if request.since_ms is not None:
            line, clock = self._since.line(run, request.since_ms, request.clock)
            return max(request.after, line), clock
        return request.after, None

    def _open(self, run: Run, line: int, length: Callable[[LineOffset], int]) -> _Opened:
        """The log from the nearest known place at or before a line. A place of an earlier log of the same name is passed over, which
        costs a second view. ``length``: how many bytes from a place on are wanted. Raises SnapshotChangedError."""
        for place in self._places(run, line):
            view = self._viewer.take(run, place.byte - len(place.before), length(place) + len(place.before))
            if chunks := self._chunks_from(view, place):
                return _Opened(place, view, chunks)
            self._offsets.forget(run, place)
        raise AssertionError("every log has a beginning")

    def _places(self, run: Run, line: int) -> Iterator[LineOffset]:
        """Where a page that was read here ended; what one query of the catalog tells; the log's beginning, which is always valid."""
        if line > 0 and (known := self._offsets.recall(run, line)):
            yield known
        if line > 0 and (row := self._row_at(run, line)):
            yield nearest_offset(row, line)
        yield LineOffset()

    def _row_at(self, run: Run, line: int) -> SegmentEntry | None:
        try:
            return self._index.at_line(run, line)
        except UnavailableError:
            return None

    def _chunks_from(self, view: LogSnapshot, place: LineOffset) -> Iterator[bytes] | None:
        """The bytes from a place on, or None when something else stands before it. Never a request more: where a segment ends, its ETag
        is compared instead of bytes that nothing else is read of."""
        object_start, etag = view.object_before(place.byte)
        if etag:
            is_same = place.etag in ("", etag)
            return self._viewer.read(view, place.byte, view.end_byte) if is_same else None
        before = place.before[-(place.byte - object_start) :]
        chunks, head = self._viewer.read(view, place.byte - len(before), view.end_byte), b""
        while len(head) < len(before) and (chunk := next(chunks, b"")):
            head += chunk
        return chain([head[len(before) :]], chunks) if head.startswith(before) else None

    def _more_came(self, run: Run, end: LogEnd, wait_s: float) -> bool:
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

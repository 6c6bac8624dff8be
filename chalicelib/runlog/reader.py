"""Reads a run's log: pages by line number, the last lines, lines since a time, the complete log.

One query of the catalog maps a line number to a byte: the last row that begins at or before it, and its nearest landmark. The page is read
forward from there. A late or lost catalog makes a page slower, never wrong: without a row the read starts at byte 0.
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
"""A log up to this size is returned inline, a larger one by redirect (Lambda accepts 6 MB, base64 leaves 4.5 of them)."""
SCAN_PIECE_BYTES = 5 * 1024 * 1024
_MIN_READ_BYTES = 64 * 1024
_GENEROUS = 1.2  # one request suffices for a page if its lines are at most this much longer than the average so far


@dataclass(frozen=True, slots=True)
class PageRequest:
    """The requested lines: ``limit`` from line ``after`` on; or the last ``tail``; or those since ``since_ms``, by the times of ``clock`` (None:
    lines or arrival, see ``SinceSearch``). ``wait_s``: how long to wait if there are none yet."""

    after: int = 0
    limit: int = DEFAULT_LIMIT
    tail: int | None = None
    since_ms: int | None = None
    wait_s: float = 0.0
    clock: str | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """``logs``: lines joined by newlines, without a final one. ``after``: the next line, None at the current end. ``total``: lines of the log.
    ``streaming``: more lines may follow. ``truncated``: a line longer than a page was cut. ``clock``: the times that ``since_ms`` was compared
    with, None without ``since_ms``. ``zone``: the run's, see ``SegmentEntry``."""

    logs: str
    after: int | None
    total: int
    streaming: bool
    truncated: bool = False
    clock: str | None = None
    zone: str = ""


@dataclass(frozen=True, slots=True)
class PageSnapshot:
    """A page with its first line, its number of lines, and the log's end at the same moment. ``end_byte``: the log's size up to the end of the
    page; less by the rest of a line that was cut."""

    page: Page
    line: int
    count: int
    end: LogEnd
    end_byte: int


@dataclass(frozen=True, slots=True)
class Scan:
    """The log's bytes from ``skip`` lines before the requested line on, and the log's end. Iteration may raise SnapshotChangedError: start
    again at the line that was reached. ``snapshot``: the one that is read."""

    chunks: Iterator[bytes]
    skip: int
    end: LogEnd
    snapshot: LogSnapshot


@dataclass(frozen=True, slots=True)
class LogRange:
    """Bytes of a log from an offset on, as many as requested or up to its end, and the log's end at the same moment. ``end.appended_ms`` of a
    running run that is compacted completely: when that was."""

    body: bytes
    end: LogEnd


@dataclass(frozen=True, slots=True)
class LogDownload:
    """A complete log: ``body`` if it is small, else ``key`` of the object that contains it."""

    size_bytes: int
    body: bytes | None
    key: str | None


@dataclass(frozen=True, slots=True)
class _Opened:
    """``chunks``: the bytes of ``log`` from ``start`` on."""

    start: LineOffset
    log: LogSnapshot
    chunks: Iterator[bytes]


class Reader:
    """Reads running and ended runs. Thread-safe."""

    def __init__(self, store: ObjectStore, index: SegmentIndex, layout: Layout, clock: Clock, compactor: Compactor) -> None:
        self._store, self._index, self._layout, self._clock, self._compactor = store, index, layout, clock, compactor
        self._tails = LogEndFinder(store, index, layout)
        self._snapshots = SnapshotReader(store, layout, self._tails)
        self._offsets = LineOffsetCache()
        self._since = SinceSearch(index, lambda run, start, length: self.read_range(run, start, length).body)

    def page(self, run: Run, request: PageRequest) -> Page:
        """One page; empty for an unknown run. A finalized log costs at most one query and two GETs. Raises UnavailableError."""
        snapshot = self.page_snapshot(run, request)
        may_grow = not snapshot.page.logs and snapshot.page.after is None and not snapshot.end.seal
        if may_grow and self._more_came(run, snapshot.end, min(request.wait_s, MAX_WAIT_S)):
            return self.page_snapshot(run, request).page
        return snapshot.page

    def page_snapshot(self, run: Run, request: PageRequest) -> PageSnapshot:
        """The current page, without the wait of ``wait_s``. Requests and errors: see ``page``."""
        return retry_on_change(lambda: self._page_snapshot(run, request))

    def scan(self, run: Run, line: int) -> Scan:
        """The log from a line on, in large pieces, read lazily. Requests: those of an empty page; a GET per 5 MiB of an artifact, and per
        segment. Raises SnapshotChangedError, UnavailableError."""
        opened = self._open(run, line, lambda _: SCAN_PIECE_BYTES)
        return Scan(opened.chunks, line - opened.start.line, self._snapshots.tail(run, opened.log), opened.log)

    def read_range(self, run: Run, start: int, length: int) -> LogRange:
        """Bytes [start, start + length) of the log, fewer at its end. Requests: those of an empty page without the query, and a GET per segment
        of the range. Raises UnavailableError."""

        def read() -> LogRange:
            log = self._snapshots.take(run, start, length)
            body = b"".join(self._snapshots.read(log, start, min(start + length, log.end_byte)))
            end = self._snapshots.tail(run, log)
            if log.artifact and not log.segments and not end.seal:
                end = replace(end, appended_ms=log.artifact.modified_ms)  # the last append was not later
            return LogRange(body, end)

        return retry_on_change(read)

    def read_end(self, run: Run, length: int) -> LogRange:
        """The last ``length`` bytes of the log, or all. Requests: those of an empty page without the query, and a GET per 5 MiB of an artifact
        and per segment of the range. Raises UnavailableError."""

        def read() -> LogRange:
            log = self._snapshots.take(run)
            body = b"".join(self._snapshots.read(log, max(0, log.end_byte - length), log.end_byte))
            return LogRange(body, self._snapshots.tail(run, log))

        return retry_on_change(read)

    def download(self, run: Run) -> LogDownload | None:
        """The current log, or None for an unknown run. A large log of a running run is compacted first, so that one object contains it."""
        found = retry_on_change(lambda: self._download_if_small(run))
        if found is None and self.is_started(run):
            return LogDownload(0, b"", None)
        if found is not None and found.body is None and found.key is None:
            self._compactor.compact(run, Deadline(self._clock))
            found = retry_on_change(lambda: self._download_if_small(run))
        return found

    def _download_if_small(self, run: Run) -> LogDownload | None:
        log = self._snapshots.take(run, 0, INLINE_BYTES)
        if log.artifact is None and not log.segments:
            return None
        if log.end_byte <= INLINE_BYTES:
            return LogDownload(log.end_byte, b"".join(self._snapshots.read(log, 0, log.end_byte)), None)
        # Lines appended since the compaction are left to the next download; otherwise no download of a busy run would finish.
        return LogDownload(log.extent.bytes, None, log.artifact.key if log.artifact else None)

    def _page_snapshot(self, run: Run, request: PageRequest) -> PageSnapshot:
        line, clock = self._first_line(run, request)

        def page_bytes(start: LineOffset) -> int:
            length = int((line - start.line + request.limit) * start.bytes_per_line * _GENEROUS)
            return min(max(length, _MIN_READ_BYTES), RAW_BYTES)

        opened = self._open(run, line, page_bytes)
        start, log = opened.start, opened.log
        taken = take_lines(opened.chunks, line - start.line, request.limit)
        end = self._snapshots.tail(run, log)
        logs, count, shortened = fit(taken.lines)
        truncated = shortened or taken.cut
        behind = taken.offset_after(start, line, count)
        if not truncated:
            self._offsets.remember(run, replace(behind, etag=log.object_before(behind.byte)[1]))
        after = line + count if line + count < end.line else None
        streaming = not end.seal and (end.exists or self.is_started(run))
        return PageSnapshot(Page(logs, after, end.line, streaming, truncated, clock, end.zone), line, count, end, behind.byte)

    def is_started(self, run: Run) -> bool:
        """Whether a start is stored for a run without lines. One GET."""
        return read_start(self._store, self._layout, run) is not None

    def _first_line(self, run: Run, request: PageRequest) -> tuple[int, str | None]:
        if request.tail is not None:
            return max(0, self._snapshots.tail(run, self._snapshots.take(run)).line - request.tail), None
        if request.since_ms is not None:
            line, clock = self._since.line(run, request.since_ms, request.clock)
            return max(request.after, line), clock
        return request.after, None

    def _open(self, run: Run, line: int, length: Callable[[LineOffset], int]) -> _Opened:
        """The log from the nearest known offset at or before a line. An offset in an earlier log of the same name is skipped, which costs a
        second snapshot. ``length``: number of bytes to read from an offset. Raises SnapshotChangedError."""
        for place in self._places(run, line):
            log = self._snapshots.take(run, place.byte - len(place.before), length(place) + len(place.before))
            if chunks := self._chunks_from(log, place):
                return _Opened(place, log, chunks)
            self._offsets.forget(run, place)
        raise AssertionError("every log has a beginning")

    def _places(self, run: Run, line: int) -> Iterator[LineOffset]:
        """Candidates: the cached end of an earlier page; the catalog's row (one query); the log's beginning, which is always valid."""
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

    def _chunks_from(self, log: LogSnapshot, place: LineOffset) -> Iterator[bytes] | None:
        """The bytes from an offset on, or None if the bytes before it differ from the expected ones. No additional request: at the end of a
        segment its ETag is compared, because the bytes of that segment are not read otherwise."""
        object_start, etag = log.object_before(place.byte)
        if etag:
            is_same = place.etag in ("", etag)
            return self._snapshots.read(log, place.byte, log.end_byte) if is_same else None
        before = place.before[-(place.byte - object_start) :]
        chunks, head = self._snapshots.read(log, place.byte - len(before), log.end_byte), b""
        while len(head) < len(before) and (chunk := next(chunks, b"")):
            head += chunk
        return chain([head[len(before) :]], chunks) if head.startswith(before) else None

    def _more_came(self, run: Run, end: LogEnd, wait_s: float) -> bool:
        """Wait for the segment with the next number: a HEAD every ``POLL_S``."""
        deadline = Deadline(self._clock, wait_s)
        while deadline.remaining_s() > 0:
            self._clock.sleep(min(POLL_S, deadline.remaining_s()))
            try:
                self._tails.segment(run, end.sequence)
                return True
            except ObjectNotFoundError:
                continue
        return False

"""Follows a run by long polling: lines after a given line, as soon as they are appended, without state on the server.

The client sends the number of its next line, and receives the lines from there on, or those that arrive during the wait. If the end of the
log is known, the next segment has a known key: one GET shows that it does not exist yet, or returns it. The end is known from the catalog's
last row, from a recent response of this process, or from a read of the run's objects.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from threading import Lock

from chalicelib.deadline import Deadline
from chalicelib.errors import UnavailableError
from chalicelib.ports import Clock, ObjectStore, Run, SegmentEntry, SegmentIndex
from chalicelib.runlog.layout import Layout
from chalicelib.runlog.log_end import LogEnd, LogEndFinder
from chalicelib.runlog.new_segments import NewSegmentReader, ReadSegment
from chalicelib.runlog.page import RAW_BYTES, fit
from chalicelib.runlog.position import YOUNG_MS
from chalicelib.runlog.reader import PageRequest, PageSnapshot, Reader
from chalicelib.runlog.segment import ABANDONED, SEAL
from chalicelib.runlog.tombstones import Tombstone, find_tombstone

HOLD_S = 25.0
"""Longest wait of a request: the gateway times out after 29 s."""
MIN_PAUSE_S, MAX_PAUSE_S = 0.25, 5.0
UNKNOWN_PAUSE_S = 1.0
"""Polling interval for a run that does not exist yet, or whose last append time is unknown."""
_PATIENCE = 20
"""The polling interval is the time since the last line divided by this number: polling adds only a small part to the delay."""
REPLAY_LINES = 100_000
_MOST_SEGMENTS = 32
"""Segments read sequentially for one response."""
MAX_REMEMBERED = 4096


class FollowEnd(StrEnum):
    """Why a client should stop, or wait for a run that is idle."""

    RUN_FINISHED = "runFinished"
    IDLE_TIMEOUT = "idleTimeout"
    MAX_BYTES = "maxBytes"
    UNTIL_REACHED = "untilReached"


@dataclass(frozen=True, slots=True)
class FollowRequest:
    """``after``: the first line; ``tail``: instead, this many lines before the end. ``until_ms``: the client stops following at this time.
    ``has_limit``: the limit of bytes applies."""

    after: int = 0
    tail: int | None = None
    until_ms: int | None = None
    has_limit: bool = False


@dataclass(frozen=True, slots=True)
class FollowUpdate:
    """A response to a client. ``logs``: complete lines, each with its newline; ``after``: the next line to request. ``replay``: the lines existed
    when the request arrived; ``truncated``: the only line was cut, because it exceeds a response; ``more``: further lines exist already;
    ``tombstone``: of a run that has expired, so that no line follows."""

    after: int
    logs: str = ""
    replay: bool = False
    truncated: bool = False
    more: bool = False
    end: FollowEnd | None = None
    tombstone: Tombstone | None = None


class Follower:
    """Serves any number of following clients. ``idle_ms``: a run without a line for this long is idle. ``max_bytes``: a client with a limit
    gets no lines after the response in which the log reaches this size; 0: no limit."""

    def __init__(
        self,
        store: ObjectStore,
        index: SegmentIndex,
        layout: Layout,
        clock: Clock,
        reader: Reader,
        idle_ms: int,
        max_bytes: int = 0,
    ) -> None:
        self._store, self._index, self._layout, self._clock = store, index, layout, clock
        self._reader, self._idle_ms, self._max_bytes = reader, idle_ms, max_bytes
        self._segments = NewSegmentReader(LogEndFinder(store, index, layout))
        self._log_ends = _LogEndCache(clock)

    def follow(self, run: Run, request: FollowRequest, hold_s: float = HOLD_S) -> FollowUpdate:
        """Lines from a line on; else lines that arrive within ``hold_s``; else none. With the reason if the client should stop. Also waits for a
        run that does not exist yet, or is idle, but not for one that has expired.

        Requests: if the end is known at most a query, and a GET per new segment and per poll without one; else those of a page in addition,
        and a GET for a run that does not exist.
        Raises UnavailableError, DamagedLogError.
        """
        deadline = Deadline(self._clock, min(hold_s, HOLD_S))
        remembered = self._log_ends.recall(run, request.after) if request.tail is None else None
        last = None if remembered else self._last_row(run)
        if tail := remembered or _log_end_at(last, request):
            return self._poll(run, request, deadline, request.after, tail)
        snapshot = self._reader.page_snapshot(run, _page_of(request))
        if snapshot.count:
            return self._replayed(run, request, snapshot)
        exists = snapshot.end.exists or snapshot.page.streaming
        if tombstone := None if exists else find_tombstone(self._store, self._layout, run):
            return FollowUpdate(snapshot.line, tombstone=tombstone)
        return self._poll(run, request, deadline, snapshot.line, _with_time(snapshot.end, last))

    def _replayed(self, run: Run, request: FollowRequest, snapshot: PageSnapshot, replay: bool = True) -> FollowUpdate:
        page, after, more = snapshot.page, snapshot.line + snapshot.count, snapshot.page.after is not None
        if not more:
            self._log_ends.remember(run, snapshot.end)
        end = self._follow_end(request, None if more else snapshot.end, snapshot.end_byte)
        return FollowUpdate(after, f"{page.logs}\n" if snapshot.count else "", replay, page.truncated, more, end)

    def _poll(self, run: Run, request: FollowRequest, deadline: Deadline, line: int, tail: LogEnd) -> FollowUpdate:
        has_waited = False
        while True:
            if end := self._follow_end(request, tail, tail.byte, is_read=False):
                return FollowUpdate(line, end=end)
            segments, are_all = self._segments_from(run, tail.sequence)
            if segments:
                return self._update_from(run, request, line, segments, replay=not has_waited, are_all=are_all)
            if end := self._follow_end(request, tail, tail.byte):
                return FollowUpdate(line, end=end)
            pause_s = min(self._pause_s(tail), deadline.remaining_s())
            if pause_s <= 0:
                self._log_ends.remember(run, tail)
                return FollowUpdate(line, end=FollowEnd.IDLE_TIMEOUT if self._is_idle(tail) else None)
            self._clock.sleep(pause_s)
            has_waited = True

    def _update_from(
        self, run: Run, request: FollowRequest, line: int, segments: Sequence[ReadSegment], *, replay: bool, are_all: bool
    ) -> FollowUpdate:
        """The update from segments after the known end, for a client at ``line``, which may be after these segments. The end of the last one is
        that of the log only if they are all: more may follow, also after a seal, and be retired at any time."""
        if segments[0].entry.line > line or not all(each.is_complete for each in segments):
            snapshot = self._reader.page_snapshot(run, PageRequest(after=line, limit=REPLAY_LINES))
            return self._replayed(run, request, snapshot, replay)
        lines = b"".join(each.body for each in segments).split(b"\n")[:-1][line - segments[0].entry.line :]
        logs, count, truncated = fit(lines)
        if count < len(lines):
            return FollowUpdate(line + count, f"{logs}\n", replay, truncated, more=True)
        tail = LogEnd.after(segments[-1].entry)
        if are_all:
            self._log_ends.remember(run, tail)
        end = self._follow_end(request, tail if are_all else None, tail.byte)
        return FollowUpdate(line + count, f"{logs}\n" if count else "", replay, truncated, not are_all, end)

    def _last_row(self, run: Run) -> SegmentEntry | None:
        try:
            return self._index.last(run)
        except UnavailableError:
            return None

    def _segments_from(self, run: Run, sequence: int) -> tuple[list[ReadSegment], bool]:
        """Existing segments from a number on, until they fill a response, and whether they are all. An abandoned run may have been reopened
        after its seal. One GET per segment, and one 404."""
        segments: list[ReadSegment] = []
        size = 0
        while size < RAW_BYTES and len(segments) < _MOST_SEGMENTS:
            each = self._segments.read_one(run, sequence + len(segments), RAW_BYTES)
            if each is None:
                return segments, True
            segments.append(each)
            size += len(each.body)
            if each.entry.kind == SEAL and each.entry.reason != ABANDONED:
                return segments, True
        return segments, False

    def _follow_end(self, request: FollowRequest, tail: LogEnd | None, byte: int, *, is_read: bool = True) -> FollowEnd | None:
        """Why a client that has the log up to ``byte`` should stop. ``tail``: the log's end if the client has all lines; ``is_read``: whether
        the segment after it was requested, so that lines which exist come before the end of the client's time."""
        if tail and tail.seal:
            return FollowEnd.RUN_FINISHED
        if request.has_limit and 0 < self._max_bytes <= byte:
            return FollowEnd.MAX_BYTES
        is_over = tail and is_read and request.until_ms is not None and self._clock.now_ms() >= request.until_ms
        return FollowEnd.UNTIL_REACHED if is_over else None

    def _is_idle(self, tail: LogEnd) -> bool:
        return bool(tail.appended_ms) and self._clock.now_ms() - tail.appended_ms >= self._idle_ms

    def _pause_s(self, tail: LogEnd) -> float:
        if not tail.appended_ms:
            return UNKNOWN_PAUSE_S
        quiet_s = (self._clock.now_ms() - tail.appended_ms) / 1000
        return min(max(quiet_s / _PATIENCE, MIN_PAUSE_S), MAX_PAUSE_S)


class _LogEndCache:
    """Log ends that this process read recently. Entries expire after ``YOUNG_MS``: later, the segment of the number may have been written and
    retired (decision 0001). Thread-safe."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._lock = clock, Lock()
        self._known: OrderedDict[Run, tuple[LogEnd, int]] = OrderedDict()

    def recall(self, run: Run, line: int) -> LogEnd | None:
        with self._lock:
            tail, seen_ms = self._known.get(run, (None, 0))
        is_young = 0 <= self._clock.now_ms() - seen_ms < YOUNG_MS
        return tail if tail and tail.line == line and is_young and tail.seal != ABANDONED else None

    def remember(self, run: Run, tail: LogEnd) -> None:
        with self._lock:
            self._known.pop(run, None)
            self._known[run] = (tail, self._clock.now_ms())
            if len(self._known) > MAX_REMEMBERED:
                self._known.popitem(last=False)


def _page_of(request: FollowRequest) -> PageRequest:
    return PageRequest(request.after, REPLAY_LINES if request.tail is None else max(request.tail, 1), request.tail)


def _log_end_at(last: SegmentEntry | None, request: FollowRequest) -> LogEnd | None:
    """The log end after the catalog's last row, if the client is at that line. An abandoned run may have been reopened since."""
    is_there = last and request.tail is None and last.end_line == request.after and last.reason != ABANDONED
    return LogEnd.after(last) if last and is_there else None


def _with_time(tail: LogEnd, last: SegmentEntry | None) -> LogEnd:
    """The log end with the time of the last line, which an artifact does not contain."""
    return LogEnd.after(last) if last and last.sequence + 1 == tail.sequence and not tail.appended_ms and not tail.seal else tail

"""Reads the log of one step, or the overall log, by byte offset. The cost depends on the size of the step, not of the run.

An ended run costs a query of the step's rows and a few GETs. Segments of a running run that are not indexed yet are read from S3.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from threading import Lock

from chalicelib.events.byte_ranges import ByteRange, merge_adjacent, plan_reads
from chalicelib.events.index import EventIndex
from chalicelib.events.ports import LogText
from chalicelib.events.snapshots import LogSnapshots
from chalicelib.events.step_segments import StepSegment, step_segments_of
from chalicelib.events.tail import EventTail, EventTails
from chalicelib.events.text import ANSWER_BYTES, cut, decode_text
from chalicelib.ports import Run
from chalicelib.runlog.conflicts import retry_on_change
from chalicelib.runlog.log_snapshot import LogSnapshot

MAX_READS = 16
"""Requests for the bytes of one response. A step that is scattered over the run gets shorter responses."""
MAX_READ_BYTES = 8 * 1024 * 1024
"""Bytes read for one response: those between the lines of a scattered step count too."""
_MAX_REMEMBERED = 4096


@dataclass(frozen=True, slots=True)
class _Reach:
    """Byte ranges of a step from an offset on, enough for one response. ``more``: further ranges follow."""

    byte_ranges: Sequence[ByteRange]
    more: bool


class StepLogs:
    """Reads logs. Remembers in memory where responses ended, so that the next read does not count a step's rows again."""

    def __init__(self, snapshots: LogSnapshots, index: EventIndex, tails: EventTails) -> None:
        self._snapshots, self._index, self._tails = snapshots, index, tails
        self._places = _Places()

    def overall_log(self, run: Run, start: int = 0, max_lines: int | None = None) -> LogText:
        """The overall log from a byte on. The requests of a snapshot; a GET for each segment in it. Raises UnavailableError."""

        def attempt() -> LogText:
            snapshot = self._snapshots.take(run, start, ANSWER_BYTES)
            end = min(start + ANSWER_BYTES, snapshot.end_byte)
            data = b"".join(self._snapshots.bytes(snapshot, [(start, end)])) if start < end else b""
            answer = cut(data, max_lines, more=end < snapshot.end_byte)
            at_end = start + len(answer) >= snapshot.end_byte
            return LogText(decode_text(answer), start + len(answer), at_end and self._snapshots.is_ended(run, snapshot))

        return retry_on_change(attempt)

    def step_log(self, run: Run, step: str, start: int = 0, max_lines: int | None = None) -> LogText:
        """A step's log from a byte of the step on. A query for each MB of the step's rows, a snapshot, and at most ``MAX_READS``
        GETs of ``MAX_READ_BYTES`` together; for a running run also the requests of ``EventTails``. Raises UnavailableError."""
        return retry_on_change(lambda: self._step(run, step, start, max_lines))

    def _step(self, run: Run, step: str, start: int, max_lines: int | None) -> LogText:
        sequence, before = self._places.near(run, step, start)
        segments = _enough(self._index.step_segments(run, step, sequence), start - before + ANSWER_BYTES)
        reach = _reach(segments, start - before)
        snapshot = self._first_snapshot(run, reach)
        tail = self._tails.read(run, snapshot)
        segments = merge_tail(segments, tail, step, sequence)
        reach = _reach(segments, start - before)
        data = self._read(snapshot, reach.byte_ranges)
        answer = cut(data, max_lines, more=reach.more)
        self._remember(run, step, segments, before, start + len(answer))
        at_end = not reach.more and len(answer) == len(data) and not tail.has_pending
        return LogText(decode_text(answer), start + len(answer), at_end and self._snapshots.is_ended(run, snapshot))

    def _first_snapshot(self, run: Run, reach: _Reach) -> LogSnapshot:
        """A snapshot with the first bytes of the response, if they are known already."""
        ranges = plan_reads(reach.byte_ranges)
        return self._snapshots.take(run, ranges[0][0], ranges[0][1] - ranges[0][0]) if ranges else self._snapshots.take(run)

    def _read(self, snapshot: LogSnapshot, byte_ranges: Sequence[ByteRange]) -> bytes:
        ranges = plan_reads(byte_ranges)
        bodies = self._snapshots.bytes(snapshot, ranges)
        return b"".join(_sliced(byte_ranges, ranges, bodies))

    def _remember(self, run: Run, step: str, segments: Sequence[StepSegment], before: int, end: int) -> None:
        """Remember the last segment that begins before the end of the response."""
        for segment in segments:
            if before + segment.bytes > end:
                self._places.remember((run, step, end), (segment.sequence, before))
                return
            before += segment.bytes
        if segments:
            self._places.remember((run, step, end), (segments[-1].sequence + 1, before))


def merge_tail(segments: Iterable[StepSegment], tail: EventTail, step: str | None, first: int = 0) -> list[StepSegment]:
    """Indexed step segments and those that the index lacks, in the log's order, up to the end of the tail."""
    lacking = [
        segment
        for each in tail.sidecars
        if each.sequence >= first
        for segment in step_segments_of(each)
        if step in (None, segment.step)
    ]
    # A sidecar that is being indexed right now may have some rows already: they equal the ones computed here.
    by_place = {(segment.sequence, segment.step): segment for segment in [*segments, *lacking] if tail.includes(segment.sequence)}
    return sorted(by_place.values(), key=lambda segment: segment.sequence)


def _enough(segments: Iterable[StepSegment], min_bytes: int) -> list[StepSegment]:
    """The first segments that together have at least ``min_bytes``, and one more if there is one."""
    chosen: list[StepSegment] = []
    size = 0
    for segment in segments:
        chosen.append(segment)
        if size >= min_bytes:
            break
        size += segment.bytes
    return chosen


def _reach(segments: Sequence[StepSegment], skip: int) -> _Reach:
    """The byte ranges after the first ``skip`` bytes, up to the size of a response, and no more than ``MAX_READS`` requests can
    read."""
    ranges: list[ByteRange] = []
    room = ANSWER_BYTES
    for each in merge_adjacent(each for segment in segments for each in segment.byte_ranges):
        if skip >= each.bytes:
            skip -= each.bytes
            continue
        rest = ByteRange(each.byte + skip, each.bytes - skip, each.line, each.lines)
        skip = 0
        if not room or (room < rest.bytes and room <= ANSWER_BYTES // 2):
            return _fewer(ranges, True)  # a range ends with a line: no part of a line is read twice
        ranges.append(ByteRange(rest.byte, min(rest.bytes, room), rest.line, rest.lines))
        room -= ranges[-1].bytes
        if ranges[-1].bytes < rest.bytes:
            return _fewer(ranges, True)
    return _fewer(ranges, False)


def _fewer(byte_ranges: Sequence[ByteRange], more: bool) -> _Reach:
    """The first ranges that ``MAX_READS`` requests for ``MAX_READ_BYTES`` cover; at least one range."""
    while byte_ranges:
        end = _end_of(plan_reads(byte_ranges))
        fewer = [each for each in byte_ranges if each.end_byte <= end] or byte_ranges[:1]
        if len(fewer) == len(byte_ranges):
            break
        byte_ranges, more = fewer, True
    return _Reach(byte_ranges, more)


def _end_of(ranges: Sequence[tuple[int, int]]) -> int:
    """The byte up to which planned requests stay within the bounds of a response."""
    room = MAX_READ_BYTES
    for start, end in ranges[:MAX_READS]:
        if end - start >= room:
            return start + room
        room -= end - start
    return ranges[:MAX_READS][-1][1]


def _sliced(byte_ranges: Sequence[ByteRange], ranges: Sequence[tuple[int, int]], bodies: Sequence[bytes]) -> Iterator[bytes]:
    at = 0
    for each in byte_ranges:
        while each.byte >= ranges[at][1]:
            at += 1
        start = each.byte - ranges[at][0]
        yield bodies[at][start : start + each.bytes]


class _Places:
    """Where responses ended: (run, step, position) to the segment to continue with, and the step's bytes before it. Thread-safe."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[Run, str, int], tuple[int, int]] = OrderedDict()
        self._lock = Lock()

    def near(self, run: Run, step: str, start: int) -> tuple[int, int]:
        with self._lock:
            return self._known.get((run, step, start), (0, 0))

    def remember(self, place: tuple[Run, str, int], known: tuple[int, int]) -> None:
        with self._lock:
            self._known[place] = known
            if len(self._known) > _MAX_REMEMBERED:
                self._known.popitem(last=False)

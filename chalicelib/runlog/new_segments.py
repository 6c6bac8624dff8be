"""Reads what was appended after a known end of a log, without a snapshot: the next segment has a known key, so one GET returns it or shows
that it does not exist.

Each answer is checked: a segment begins at the known end, and the catalog knows of no more bytes than were found. Otherwise segments were
retired or deleted, or the log is another one of the same name, and the caller takes a snapshot (decision 0050).
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice

from chalicelib.errors import DamagedLogError, ObjectNotFoundError, RangeNotSatisfiableError
from chalicelib.ports import ListedObject, Run, SegmentEntry
from chalicelib.runlog.concatenation import READERS
from chalicelib.runlog.log_end import LogEnd, LogEndFinder
from chalicelib.runlog.segment import DATA

MAX_SINGLE_READS = 2
"""Segments that are read one after the other. If the catalog knows of more, they are listed: a LIST and parallel reads are faster."""
MAX_LISTED_SEGMENTS = 256
"""Segments that are listed and read together."""


@dataclass(frozen=True, slots=True)
class ReadSegment:
    """A segment; ``body`` is its beginning if it is larger than the request."""

    entry: SegmentEntry
    body: bytes

    @property
    def is_complete(self) -> bool:
        """Whether ``body`` is all of it."""
        return len(self.body) == self.entry.bytes

    def continues(self, end: LogEnd) -> bool:
        """Whether it contains the lines after an end of a log, all of them."""
        entry = self.entry
        begins_there = (entry.sequence, entry.line, entry.byte) == (end.sequence, end.line, end.byte)
        return begins_there and entry.kind == DATA and self.is_complete


@dataclass(frozen=True, slots=True)
class NewSegments:
    """Complete segments of lines, in order. ``end``: that of the last one. ``is_log_end``: no segment followed it."""

    segments: Sequence[ReadSegment]
    end: LogEnd
    is_log_end: bool


class NewSegmentReader:
    """Reads segments by their numbers. Stateless."""

    def __init__(self, tails: LogEndFinder) -> None:
        self._tails = tails

    def read_one(self, run: Run, sequence: int, max_bytes: int) -> ReadSegment | None:
        """The segment with a number; None if there is none. One GET, and a HEAD for a seal. Raises DamagedLogError, UnavailableError."""
        try:
            stored = self._tails.store.get(self._tails.layout.segment(run, sequence), 0, max_bytes)
            return ReadSegment(self._tails.entry(run, sequence, stored.info), stored.body)
        except RangeNotSatisfiableError:  # a seal is empty
            return self._read_seal(run, sequence)
        except ObjectNotFoundError:
            return None

    def _read_seal(self, run: Run, sequence: int) -> ReadSegment | None:
        try:
            return ReadSegment(self._tails.segment(run, sequence), b"")
        except ObjectNotFoundError:  # retired between the two requests
            return None

    def read_after(self, run: Run, end: LogEnd, max_bytes: int, known_bytes: int) -> NewSegments | None:
        """The segments of lines after ``end``, at most ``max_bytes`` of them. None if the log has to be read from a snapshot: the next
        segment is a seal, is larger than ``max_bytes``, does not begin at ``end``, or is missing although the catalog knows of it.

        ``end``: an end that this log had less than ``RETIRE_AFTER_MS`` ago; ``known_bytes``: the log's size in the catalog. Requests: a
        GET for each new segment; one more if there are less than two; a LIST more if the catalog knows of more than two. Raises
        UnavailableError."""
        segments: list[ReadSegment] = []
        size = 0
        try:
            while len(segments) < MAX_SINGLE_READS and size < max_bytes:
                each = self.read_one(run, end.sequence, max_bytes - size)
                if each is None and end.byte < known_bytes:
                    return None
                if each is None:
                    return NewSegments(segments, end, is_log_end=True)
                if not each.continues(end):
                    return NewSegments(segments, end, is_log_end=False) if segments else None
                segments.append(each)
                end, size = LogEnd.after(each.entry), size + each.entry.bytes
            if end.byte >= known_bytes or size >= max_bytes:
                return NewSegments(segments, end, is_log_end=False)
            return self._with_listed(run, NewSegments(segments, end, is_log_end=False), max_bytes - size, known_bytes)
        except DamagedLogError:
            return None  # a snapshot does without the metadata that is damaged, or reports it

    def _with_listed(self, run: Run, read: NewSegments, max_bytes: int, known_bytes: int) -> NewSegments:
        """More segments from one LIST, read in parallel. The first one that is gone or does not fit ends them."""
        listed, are_all = self._fitting(run, read.end.sequence, max_bytes)
        segments, end = list(read.segments), read.end
        with ThreadPoolExecutor(READERS) as readers:
            numbers = [self._tails.layout.sequence_of(run, found.key) for found in listed]
            sizes = [max(found.size, 1) for found in listed]
            for each in readers.map(self.read_one, [run] * len(numbers), numbers, sizes):
                if each is None or not each.continues(end):
                    return NewSegments(segments, end, is_log_end=False)
                segments.append(each)
                end = LogEnd.after(each.entry)
        return NewSegments(segments, end, is_log_end=are_all and bool(listed) and end.byte >= known_bytes)

    def _fitting(self, run: Run, first: int, max_bytes: int) -> tuple[list[ListedObject], bool]:
        """Listed segments from a number on that fit, and whether they are all. One LIST."""
        listed = list(islice(self._tails.list_segments(run, first), MAX_LISTED_SEGMENTS + 1))
        fitting: list[ListedObject] = []
        for found in listed[:MAX_LISTED_SEGMENTS]:
            max_bytes -= found.size
            if max_bytes < 0:
                break
            fitting.append(found)
        return fitting, len(fitting) == len(listed)

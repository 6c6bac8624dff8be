"""The tail of a run's events: the segments after the artifact, and those before its end whose sidecars may be missing from the
index.

Events may be read up to a segment if no sidecar can still appear before it. A segment of events without a sidecar belongs to an
append that is in progress (or failed): events from there on are withheld for ``APPEND_TIMEOUT_MS``.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from threading import Lock

from chalicelib.events.index import EventIndex
from chalicelib.events.indexing import EventIndexing
from chalicelib.events.sidecar import APPEND_TIMEOUT_MS, Sidecar, decode_outline
from chalicelib.events.snapshots import LogSnapshots, first_uncompacted
from chalicelib.ports import Clock, ListedObject, Run
from chalicelib.runlog.compaction import EVENTS_LOOK_BACK
from chalicelib.runlog.log_snapshot import LogSnapshot
from chalicelib.runlog.segment import CLOSED

SETTLED_MS = 30 * 60_000
"""A run that was finalized this long ago is indexed completely: its segments are deleted 21 minutes after its last line."""
MAX_EVENTS = 200_000
"""Unindexed events in one response; at least those of one sidecar. Further ones are withheld until they are indexed."""
_THREADS = 16
_MAX_REMEMBERED = 8192


@dataclass(frozen=True, slots=True)
class EventTail:
    """``end``: the first sequence number that must not be read yet; None: the snapshot can be read to its end. ``sidecars``:
    outlines of those that the index lacks. ``has_pending``: events are withheld."""

    end: int | None
    sidecars: Sequence[Sidecar] = ()
    has_pending: bool = False

    def includes(self, sequence: int) -> bool:
        """Whether a segment's events may be read."""
        return self.end is None or sequence < self.end


class EventTails:
    """Examines the end of the log, and a few segments before the end of the artifact: compaction may have copied lines whose
    sidecar was not written yet."""

    def __init__(self, snapshots: LogSnapshots, indexing: EventIndexing, index: EventIndex, clock: Clock) -> None:
        self._snapshots, self._indexing, self._index, self._clock = snapshots, indexing, index, clock
        self._counts: OrderedDict[tuple[Run, int, str], int] = OrderedDict()
        self._lock = Lock()

    def read(self, run: Run, snapshot: LogSnapshot) -> EventTail:
        """Two LISTs and a query; a GET for each unindexed sidecar, a HEAD for each recent segment without one. No request for a run
        that was finalized ``SETTLED_MS`` ago. Raises SnapshotChangedError."""
        if self._is_settled(snapshot):
            return EventTail(None)
        first, sequences, end = self._under_way(run, snapshot)
        shown = [number for number in sequences if number < end]
        known = self._index.indexed(run, first) if shown else set()
        lacking = [number for number in shown if number not in known]
        sidecars: list[Sidecar] = []
        events = 0
        for sidecar in self._indexing.sidecars.read_numbers(run, lacking, decode=decode_outline):
            events += len(sidecar.events)
            if sidecars and events > MAX_EVENTS:
                end = sidecar.sequence
                break
            sidecars.append(sidecar)
        return EventTail(end, sidecars, end < self._behind(run, snapshot))

    def end_line(self, run: Run, snapshot: LogSnapshot | None = None) -> int | None:
        """The first line of a snapshot that must not be read yet; None without one. The LISTs and HEADs of ``read``, and a snapshot if none
        is given. Raises SnapshotChangedError."""
        snapshot = snapshot or self._snapshots.take(run)
        if self._is_settled(snapshot):
            return None
        _, _, end = self._under_way(run, snapshot)
        return None if end >= self._behind(run, snapshot) else self._snapshots.tails.segment(run, end).line

    def _is_settled(self, snapshot: LogSnapshot) -> bool:
        """Whether the index is complete: segments are deleted only after they are indexed."""
        artifact = snapshot.artifact
        if artifact is None or artifact.reason != CLOSED:
            return False
        return not snapshot.segments and self._clock.now_ms() - artifact.modified_ms > SETTLED_MS

    def _behind(self, run: Run, snapshot: LogSnapshot) -> int:
        """The sequence number after the last segment of a snapshot."""
        last = (self._snapshots.layout.sequence_of(run, found.key) + 1 for found in snapshot.segments)
        return max(last, default=first_uncompacted(snapshot))

    def _under_way(self, run: Run, snapshot: LogSnapshot) -> tuple[int, Sequence[int], int]:
        """The first sequence number that was examined, the sidecars from there on, and the first number that must not be read
        yet."""
        first = max(0, first_uncompacted(snapshot) - EVENTS_LOOK_BACK)
        segments = list(self._snapshots.tails.list_segments(run, first))
        # Listed after the segments: a finished append has its sidecar by now. Those in bundles are old, and indexed.
        sequences = self._indexing.single_numbers(run, first)
        there, behind = set(sequences), self._behind(run, snapshot)
        numbered = ((self._snapshots.layout.sequence_of(run, found.key), found) for found in segments)
        end = self._end(run, [found for number, found in numbered if first <= number < behind and number not in there])
        return first, sequences, behind if end is None else end

    def _end(self, run: Run, without: Sequence[ListedObject]) -> int | None:
        """The first of these segments whose sidecar may still be written."""
        since_ms = self._clock.now_ms() - APPEND_TIMEOUT_MS
        young = [found for found in without if found.last_modified_ms > since_ms]
        with ThreadPoolExecutor(_THREADS) as threads:
            counts = list(threads.map(partial(self._events, run), young) if young else ())
        numbers = (self._snapshots.layout.sequence_of(run, found.key) for found in young)
        return next((number for number, count in zip(numbers, counts, strict=True) if count), None)

    def _events(self, run: Run, listed: ListedObject) -> int:
        """The number of events in a segment. One HEAD, cached in memory: segments are immutable."""
        sequence = self._snapshots.layout.sequence_of(run, listed.key)
        place = run, sequence, listed.etag
        with self._lock:
            if place in self._counts:
                return self._counts[place]
        count = self._snapshots.tails.listed_segment(run, sequence).events
        with self._lock:
            self._counts[place] = count
            if len(self._counts) > _MAX_REMEMBERED:
                self._counts.popitem(last=False)
        return count

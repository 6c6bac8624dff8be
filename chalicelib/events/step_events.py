"""The events of one step, read only from the sidecars and bytes of segments that have some."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from chalicelib.events.byte_ranges import ByteRange, plan_reads
from chalicelib.events.event import Loggable
from chalicelib.events.event_view import EventView, build_event_view
from chalicelib.events.index import EventIndex
from chalicelib.events.indexing import EventIndexing
from chalicelib.events.sidecar import Sidecar, SidecarEntry
from chalicelib.events.snapshots import LogSnapshots, has_ended_before
from chalicelib.events.step_log import merge_tail
from chalicelib.events.tail import EventTails
from chalicelib.events.weight import weight
from chalicelib.ports import Run
from chalicelib.runlog.log_snapshot import LogSnapshot

_TOGETHER, _TOGETHER_IN_BUNDLES = 8, 64
"""Segments whose events are read together: each costs a request, or is in a bundle."""
MAX_BATCH_BYTES = 8 * 1024 * 1024
"""Text, data and annotations of events whose messages are read together; at least those of one event."""


class StepEvents:
    """Reads a step's events in the log's order."""

    def __init__(self, snapshots: LogSnapshots, index: EventIndex, indexing: EventIndexing, tails: EventTails) -> None:
        self._snapshots, self._index, self._indexing, self._tails = snapshots, index, indexing, tails

    def read(self, run: Run, step: str, after: int, loggable: Loggable) -> Iterator[EventView]:
        """Events from line ``after`` on, a few segments at a time: for each a GET of its sidecar, or one for a bundle, and the GETs of
        ``plan_reads``. Before that a query for each MB of the step's rows, a LIST of the bundles of a run that has ended, and the
        requests of ``EventTails``. Raises SnapshotChangedError, also while it is iterated."""
        snapshot = self._snapshots.take(run)
        tail = self._tails.read(run, snapshot)
        segments = [
            segment
            for segment in merge_tail(self._index.step_segments(run, step), tail, step)
            if segment.byte_ranges[-1].end_line > after
        ]
        bundles = self._indexing.sidecars.bundles(run) if segments and has_ended_before(snapshot) else ()
        together = _TOGETHER_IN_BUNDLES if bundles else _TOGETHER
        for first in range(0, len(segments), together):
            some = segments[first : first + together]
            numbers = [segment.sequence for segment in some]
            yield from self._some(step, after, loggable, snapshot, self._indexing.sidecars.read_numbers(run, numbers, bundles))

    def _some(
        self, step: str, after: int, loggable: Loggable, snapshot: LogSnapshot, sidecars: Iterable[Sidecar]
    ) -> Iterator[EventView]:
        entries: list[tuple[Sidecar, SidecarEntry]] = []
        batch_bytes = 0
        for sidecar in sidecars:
            head = replace(sidecar, events=())
            for entry in (each for each in sidecar.events if each.step == step and each.line >= after):
                entries.append((head, entry))
                batch_bytes += entry.bytes + weight(entry.data) + weight(entry.annotations)
                if batch_bytes > MAX_BATCH_BYTES:
                    yield from self._views_of(entries, loggable, snapshot)
                    entries, batch_bytes = [], 0
        yield from self._views_of(entries, loggable, snapshot)

    def _views_of(
        self, entries: Sequence[tuple[Sidecar, SidecarEntry]], loggable: Loggable, snapshot: LogSnapshot
    ) -> Iterator[EventView]:
        ranges = plan_reads([ByteRange(entry.byte, entry.end_byte - entry.byte, entry.line, entry.lines) for _, entry in entries])
        bodies = self._snapshots.bytes(snapshot, ranges)
        at = 0
        for sidecar, entry in entries:
            while entry.byte >= ranges[at][1]:
                at += 1
            start = entry.byte - ranges[at][0]
            yield build_event_view(entry, sidecar, bodies[at][start : start + entry.bytes], loggable)

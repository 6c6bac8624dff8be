"""Snapshots of a run's log for readers of events: bytes by position, and the sequence numbers in the artifact."""

from __future__ import annotations

from collections.abc import Sequence

from chalicelib.ports import ObjectStore, Run, SegmentIndex
from chalicelib.runlog.layout import Layout
from chalicelib.runlog.log_end import LogEndFinder
from chalicelib.runlog.log_snapshot import LogSnapshot, SnapshotReader
from chalicelib.runlog.segment import CLOSED


class Views:
    """Takes snapshots and reads them. Callers retry if compaction changes the log in between."""

    def __init__(self, store: ObjectStore, index: SegmentIndex, layout: Layout) -> None:
        self.layout = layout
        self.tails = LogEndFinder(store, index, layout)
        self.viewer = SnapshotReader(store, layout, self.tails)

    def take(self, run: Run, start: int = 0, length: int = 1) -> LogSnapshot:
        """A snapshot with bytes of its artifact (see ``Viewer.take``)."""
        return self.viewer.take(run, start, max(length, 1))

    def is_ended(self, run: Run, view: LogSnapshot) -> bool:
        """Whether no line can follow those of a snapshot. A HEAD if segments follow the artifact."""
        return self.viewer.tail(run, view).seal == CLOSED

    def bytes(self, view: LogSnapshot, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Several ranges of the log. A GET for each, and for each segment in it. Raises SnapshotChangedError."""
        return [b"".join(self.viewer.read(view, start, end)) for start, end in ranges]


def first_uncompacted(view: LogSnapshot) -> int:
    """The first sequence number whose segment is not in the snapshot's artifact. All sidecars below it are indexed."""
    return view.artifact.next_segment if view.artifact else 0

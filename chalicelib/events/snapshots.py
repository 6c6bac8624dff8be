"""Snapshots of a run's log for readers of events: bytes by offset, and the sequence numbers in the artifact."""

from __future__ import annotations

from collections.abc import Sequence

from chalicelib.ports import ObjectStore, Run, SegmentIndex
from chalicelib.runlog.layout import Layout
from chalicelib.runlog.log_end import FIRST_EPOCH, LogEndFinder
from chalicelib.runlog.log_snapshot import LogSnapshot, SnapshotReader
from chalicelib.runlog.segment import CLOSED


class LogSnapshots:
    """Takes snapshots and reads them. Callers retry if compaction changes the log in between."""

    def __init__(self, store: ObjectStore, index: SegmentIndex, layout: Layout) -> None:
        self.layout = layout
        self.tails = LogEndFinder(store, index, layout)
        self.reader = SnapshotReader(store, layout, self.tails)

    def take(self, run: Run, start: int = 0, length: int = 1) -> LogSnapshot:
        """A snapshot with bytes of its artifact (see ``SnapshotReader.take``)."""
        return self.reader.take(run, start, max(length, 1))

    def is_ended(self, run: Run, snapshot: LogSnapshot) -> bool:
        """Whether no line can follow those of a snapshot. A HEAD if segments follow the artifact."""
        return self.reader.tail(run, snapshot).seal == CLOSED

    def bytes(self, snapshot: LogSnapshot, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Several ranges of the log. A GET for each, and for each segment in it. Raises SnapshotChangedError."""
        return [b"".join(self.reader.read(snapshot, start, end)) for start, end in ranges]


def first_uncompacted(snapshot: LogSnapshot) -> int:
    """The first sequence number whose segment is not in the snapshot's artifact. All sidecars below it are indexed."""
    return snapshot.artifact.next_segment if snapshot.artifact else 0


def has_ended_before(snapshot: LogSnapshot) -> bool:
    """Whether the run has ended, also if it was reopened: only then sidecars may be in bundles."""
    artifact = snapshot.artifact
    return artifact is not None and (bool(artifact.reason) or artifact.epoch > FIRST_EPOCH)

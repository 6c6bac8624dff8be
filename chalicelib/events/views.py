"""A run's log as readers of events look at it: bytes by their places, and which numbers an artifact holds."""

from __future__ import annotations

from collections.abc import Sequence

from chalicelib.ports import ObjectStore, Run, SegmentIndex
from chalicelib.runlog.layout import Layout
from chalicelib.runlog.segment import CLOSED
from chalicelib.runlog.tail import TailFinder
from chalicelib.runlog.view import View, Viewer


class Views:
    """Takes views and reads them; what was torn by a compaction is done again."""

    def __init__(self, store: ObjectStore, index: SegmentIndex, layout: Layout) -> None:
        self.layout = layout
        self.tails = TailFinder(store, index, layout)
        self.viewer = Viewer(store, layout, self.tails)

    def take(self, run: Run, start: int = 0, length: int = 1) -> View:
        """A view with bytes of its artifact (see ``Viewer.take``)."""
        return self.viewer.take(run, start, max(length, 1))

    def is_ended(self, run: Run, view: View) -> bool:
        """Whether nothing will ever follow what a view has. A HEAD where segments stand behind the artifact."""
        return self.viewer.tail(run, view).seal == CLOSED

    def bytes(self, view: View, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Several ranges of the log. A GET for each, and for each segment in it. Raises SnapshotChangedError."""
        return [b"".join(self.viewer.read(view, start, end)) for start, end in ranges]


def first_uncompacted(view: View) -> int:
    """The first number whose segment is not in the view's artifact: below it the index knows every companion."""
    return view.artifact.next_segment if view.artifact else 0

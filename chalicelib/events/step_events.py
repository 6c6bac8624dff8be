"""The events of one step: companions and bytes of the segments that have any of it, and of no others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from chalicelib.events.companion import Companion, Noted
from chalicelib.events.event import Loggable
from chalicelib.events.index import EventIndex
from chalicelib.events.indexing import EventIndexing
from chalicelib.events.parts import Part
from chalicelib.events.shown import ShownEvent, shown
from chalicelib.events.spans import Span, reads
from chalicelib.events.step_log import with_tail
from chalicelib.events.tail import EventTails
from chalicelib.events.views import Views
from chalicelib.events.weight import weight
from chalicelib.ports import Run
from chalicelib.runlog.view import View

_TOGETHER = 8
MAX_HELD_BYTES = 8 * 1024 * 1024
"""Of events whose messages are read together: text, data and annotations. Those of one event at least."""


class StepEvents:
    """Reads a step's events in the log's order."""

    def __init__(self, views: Views, index: EventIndex, indexing: EventIndexing, tails: EventTails) -> None:
        self._views, self._index, self._indexing, self._tails = views, index, indexing, tails

    def read(self, run: Run, step: str, after: int, loggable: Loggable) -> Iterator[ShownEvent]:
        """Those from a line on, a few segments at a time: for each a GET of its companion, and the GETs of ``spans.reads``. Before that a query
        for each MB of the step's rows, and what ``EventTails`` asks. Raises SnapshotChangedError, as does every step."""
        view = self._views.take(run)
        tail = self._tails.look(run, view)
        parts = [part for part in with_tail(self._index.parts(run, step), tail, step) if part.spans[-1].end_line > after]
        for first in range(0, len(parts), _TOGETHER):
            yield from self._some(run, step, after, loggable, view, parts[first : first + _TOGETHER])

    def _some(self, run: Run, step: str, after: int, loggable: Loggable, view: View, parts: Sequence[Part]) -> Iterator[ShownEvent]:
        found: list[tuple[Companion, Noted]] = []
        held_bytes = 0
        for companion in self._indexing.companions(run, [part.sequence for part in parts]):
            head = replace(companion, events=())
            for noted in (each for each in companion.events if each.step == step and each.line >= after):
                found.append((head, noted))
                held_bytes += noted.bytes + weight(noted.data) + weight(noted.annotations)
                if held_bytes > MAX_HELD_BYTES:
                    yield from self._shown(found, loggable, view)
                    found, held_bytes = [], 0
        yield from self._shown(found, loggable, view)

    def _shown(self, found: Sequence[tuple[Companion, Noted]], loggable: Loggable, view: View) -> Iterator[ShownEvent]:
        ranges = reads([Span(noted.byte, noted.end_byte - noted.byte, noted.line, noted.lines) for _, noted in found])
        bodies = self._views.bytes(view, ranges)
        at = 0
        for companion, noted in found:
            while noted.byte >= ranges[at][1]:
                at += 1
            start = noted.byte - ranges[at][0]
            yield shown(noted, companion, bodies[at][start : start + noted.bytes], loggable)

"""The end of an open run's events: what stands behind the artifact, where the index may lag.

The log up to a place may be shown when no companion can come to stand before it any more. A segment of events whose companion is not there
is one whose append is still under way (or broke off): it holds back what follows, for ``UNDER_WAY_MS``.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from threading import Lock

from chalicelib.errors import ObjectNotFoundError
from chalicelib.events.companion import Companion
from chalicelib.events.index import EventIndex
from chalicelib.events.indexing import EventIndexing
from chalicelib.events.views import Views, held
from chalicelib.ports import Clock, ListedObject, Run
from chalicelib.runlog.view import TornViewError, View

UNDER_WAY_MS = 60_000
"""A function lives 30 s: an append whose companion is not there after this has broken off."""
_THREADS = 16
_MAX_REMEMBERED = 8192


@dataclass(frozen=True, slots=True)
class EventTail:
    """``end``: the first number that is not to be shown yet, None: all that the view has. ``companions``: those that the index lacks."""

    end: int | None
    companions: Sequence[Companion] = ()

    def has(self, sequence: int) -> bool:
        """Whether a segment's events may be shown."""
        return self.end is None or sequence < self.end


class EventTails:
    """Looks behind the artifact. A view that has all of the log in its artifact costs nothing."""

    def __init__(self, views: Views, indexing: EventIndexing, index: EventIndex, clock: Clock) -> None:
        self._views, self._indexing, self._index, self._clock = views, indexing, index, clock
        self._counts: OrderedDict[tuple[Run, int, str], int] = OrderedDict()
        self._lock = Lock()

    def look(self, run: Run, view: View) -> EventTail:
        """A LIST and a query; a GET for each companion that is not indexed, a HEAD for each segment without one. Raises TornViewError."""
        if not view.segments:
            return EventTail(held(view))
        first, layout = held(view), self._views.layout
        companions = list(self._indexing.numbers(run, first))
        by_number = {layout.sequence_of(run, found.key): found for found in view.segments}
        end = self._end(run, [by_number[number] for number in sorted(set(by_number) - set(companions))])
        limit = max(by_number) + 1 if end is None else end
        shown = [number for number in companions if number < limit]
        known = self._index.indexed(run, first) if shown else set()
        return EventTail(limit, list(self._indexing.companions(run, [number for number in shown if number not in known])))

    def end_line(self, run: Run) -> int | None:
        """The first line that is not to be shown yet; None: none. A view, and the LIST and the HEADs of ``look``. Raises TornViewError."""
        view = self._views.take(run)
        if not view.segments:
            return None
        companions = set(self._indexing.numbers(run, held(view)))
        numbers = ((self._views.layout.sequence_of(run, found.key), found) for found in view.segments)
        end = self._end(run, [found for number, found in numbers if number not in companions])
        return None if end is None else self._views.tails.segment(run, end).line

    def _end(self, run: Run, without: Sequence[ListedObject]) -> int | None:
        """The first of these segments whose companion is still to come."""
        since_ms = self._clock.now_ms() - UNDER_WAY_MS
        young = [found for found in without if found.last_modified_ms > since_ms]
        with ThreadPoolExecutor(_THREADS) as threads:
            counts = list(threads.map(partial(self._events, run), young) if young else ())
        numbers = (self._views.layout.sequence_of(run, found.key) for found in young)
        return next((number for number, count in zip(numbers, counts, strict=True) if count), None)

    def _events(self, run: Run, found: ListedObject) -> int:
        """How many events a segment is made of. One HEAD, once in a process: a segment never changes."""
        sequence = self._views.layout.sequence_of(run, found.key)
        place = run, sequence, found.etag
        with self._lock:
            if place in self._counts:
                return self._counts[place]
        try:
            count = self._views.tails.segment(run, sequence).events
        except ObjectNotFoundError as error:
            raise TornViewError(str(error)) from error
        with self._lock:
            self._counts[place] = count
            if len(self._counts) > _MAX_REMEMBERED:
                self._counts.popitem(last=False)
        return count

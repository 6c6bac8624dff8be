"""The ordering buffer: events of many runs, in the order of (event time, run, line).

::

    read ──► settling, a heap a run ──► delayed, one heap   ──► taken, once older than the delay
             until no earlier event     (running runs)
             of the run can follow      ready, one heap     ──► taken at once
                                        (ended runs)

A run is read in pieces, and its writers' events may be in any order within the delay: an event settles once its run was read
``event_delay_ms`` beyond it, or to its end. An event of a running run is then delayed until it is old enough; one that settles
after later events were taken is late, is taken at once, and is counted. Ended runs wait for no clock: the delayed events of a run that
ends are ready too, so that its last ones do not overtake them. A full buffer is drained to half, in order, regardless of the delay.

An event with a time in the future is ordered by the time at which it was read: nothing waits for its time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple

from chalicelib.lines.parsed import ParsedLine

OVERHEAD_BYTES = 1024
"""The memory of an event in addition to its text: some 700 were measured, including one copy of the text."""
_DATA_TIMES = 8


class EventContext(NamedTuple):
    """The fields of a structured event that its text does not have. ``step`` "": none. ``id``, ``writer``: as in
    ``events.event_view``; ``level``: as stated; ``instance``: the installation that stored it."""

    step: str
    data: Mapping[str, Any]
    id: int = 0
    writer: str = ""
    level: str | None = None
    annotations: Sequence[Mapping[str, Any]] = ()
    instance: str = ""


class PendingEvent(NamedTuple):
    """An event between reading and processing. Sorts by (time, run, line): ``order_ms`` is its time, or when it was read.

    ``size``: bytes of memory, an upper estimate. ``context`` None: a plain line."""

    order_ms: int
    partition: str
    line: int
    byte: int
    time_ms: int
    size: int
    parsed: ParsedLine
    context: EventContext | None = None


def memory_bytes_of(text_bytes: int, context: EventContext | None = None) -> int:
    """The memory of an event with this many bytes of text. Data and annotations take about eight times the size of their text."""
    details = [each for each in (context.data, context.annotations) if each] if context is not None else []
    return 2 * text_bytes + OVERHEAD_BYTES + _DATA_TIMES * sum(len(str(each)) for each in details)


class OrderingBuffer:
    """``bytes``: the current size. ``late``: events that settled after later ones were taken. Not thread-safe."""

    def __init__(self, delay_ms: int, max_bytes: int) -> None:
        self._delay_ms, self.max_bytes = delay_ms, max_bytes
        self._settling: dict[str, list[PendingEvent]] = {}
        self._furthest: dict[str, int] = {}
        self._delayed: list[PendingEvent] = []
        self._delayed_of: Counter[str] = Counter()  # by run: only runs with delayed events
        self._ready: list[PendingEvent] = []
        self._last: PendingEvent | None = None  # the last one that was taken from a heap that is not ready
        self.bytes = 0
        self.late = 0
        self.count = 0

    @property
    def is_full(self) -> bool:
        """Whether it has to be drained before more is read."""
        return self.bytes >= self.max_bytes

    def add(self, pending: PendingEvent) -> None:
        """Add an event; call ``settle`` for its run afterwards."""
        heappush(self._settling.setdefault(pending.partition, []), pending)
        if pending.order_ms > self._furthest.get(pending.partition, -1):
            self._furthest[pending.partition] = pending.order_ms
        self.bytes += pending.size
        self.count += 1

    def settle(self, partition: str, *, at_end: bool, final: bool) -> None:
        """Call after a piece of a run was read. ``at_end``: it ended at the log's current end; ``final``: the run has ended. A pass
        over all delayed events if some are of a run that has ended."""
        if final and partition in self._delayed_of:
            self._end_delay(partition)
        waiting = self._settling.get(partition)
        if not waiting:
            return
        until_ms = self._furthest[partition] - self._delay_ms
        while waiting and (at_end or waiting[0].order_ms <= until_ms):
            self._settled(heappop(waiting), final)
        if at_end:
            del self._settling[partition]
            del self._furthest[partition]

    def _end_delay(self, partition: str) -> None:
        """A run's last events are ready: its earlier ones must not wait behind them."""
        for pending in self._delayed:
            if pending.partition == partition:
                heappush(self._ready, pending)
        self._delayed = [pending for pending in self._delayed if pending.partition != partition]
        heapify(self._delayed)
        del self._delayed_of[partition]

    def _settled(self, pending: PendingEvent, final: bool) -> None:
        if final:
            heappush(self._ready, pending)
            return
        if self._last is not None and pending < self._last:
            self.late += 1
        heappush(self._delayed, pending)
        self._delayed_of[pending.partition] += 1

    def take(self, now_ms: int, limit: int = 1000) -> list[PendingEvent]:
        """Take up to ``limit`` events that are due, in order."""
        taken: list[PendingEvent] = []
        old_ms = now_ms - self._delay_ms
        while len(taken) < limit and (pending := self._due(old_ms)) is not None:
            taken.append(pending)
            self._leaves(pending)
        return taken

    def drain(self, limit: int = 1000) -> list[PendingEvent]:
        """Take up to ``limit`` of the first events, due or not, until the buffer is half full."""
        taken: list[PendingEvent] = []
        while len(taken) < limit and 2 * self.bytes > self.max_bytes and (pending := self._first()) is not None:
            taken.append(pending)
            self._leaves(pending)
        return taken

    def _due(self, old_ms: int) -> PendingEvent | None:
        delayed = self._delayed[0] if self._delayed else None
        if delayed is not None and delayed.order_ms > old_ms and (self._last is None or delayed > self._last):
            delayed = None
        if self._ready and (delayed is None or self._ready[0] < delayed):
            return heappop(self._ready)
        if delayed is not None:
            self._last = max(delayed, self._last) if self._last is not None else delayed
            return self._pop_delayed()
        return None

    def _first(self) -> PendingEvent | None:
        """The first event of all, settled or not."""
        heaps = [heap for heap in (self._ready, self._delayed, *self._settling.values()) if heap]
        if not heaps:
            return None
        heap = min(heaps, key=lambda each: each[0])
        pending = self._pop_delayed() if heap is self._delayed else heappop(heap)
        if heap is not self._ready:
            self._last = max(pending, self._last) if self._last is not None else pending
        return pending

    def _pop_delayed(self) -> PendingEvent:
        pending = heappop(self._delayed)
        if self._delayed_of[pending.partition] == 1:
            del self._delayed_of[pending.partition]
        else:
            self._delayed_of[pending.partition] -= 1
        return pending

    def _leaves(self, pending: PendingEvent) -> None:
        self.bytes -= pending.size
        self.count -= 1

    def put_back(self, taken: list[PendingEvent]) -> None:
        """Return events that could not be processed now: they are due at once."""
        for pending in taken:
            heappush(self._ready, pending)
            self.bytes += pending.size
            self.count += 1

    def forget(self, partition: str) -> None:
        """Drop a run's events."""
        waiting = self._settling.pop(partition, [])
        self._furthest.pop(partition, None)
        self._delayed_of.pop(partition, None)
        for pending in waiting:
            self._leaves(pending)
        for heap in (self._delayed, self._ready):
            remaining = [pending for pending in heap if pending.partition != partition]
            for pending in heap:
                if pending.partition == partition:
                    self._leaves(pending)
            remaining.sort()
            heap[:] = remaining


def automatic_bytes(memory_bytes: int, fetch_bytes: int, pipelines: int, used_bytes: int = 0) -> int:
    """The size of each pipeline's buffer if none is configured: 70 % of the available memory, less the fetch buffers, in equal
    parts. A fetch takes its bytes three times: as read, as lines, as events. At least 1 MiB."""
    there = int((memory_bytes - used_bytes) * AUTOMATIC_SHARE) - pipelines * FETCHES * fetch_bytes
    return max(MIN_BUFFER_BYTES, there // max(1, pipelines))


AUTOMATIC_SHARE = 0.7
FETCHES = 3
MIN_BUFFER_BYTES = 1024 * 1024

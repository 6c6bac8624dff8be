"""The ordering buffer: events of many runs, in the order of (event time, run, line).

::

    read ──► settling, a heap a run ──► held, one heap      ──► taken, once older than the delay
             until the run's own         (running runs)
             events cannot be           ready, one heap     ──► taken at once
             overtaken any more          (runs that have ended)

A run is read in pieces, and its writers' events may stand in any order within the delay: an event settles when its run was read
``event_delay_ms`` further than it, or to its end. Of a running run it is then held until it is so old; what comes after events that
are later than it has gone out is late, goes out at once, and is counted. A run that has ended waits for no clock. When the buffer is
full it is drained to half, in order, whatever the delay.

An event that says it is from the future counts as one of the moment in which it was read: nothing waits for its time.
"""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heappop, heappush
from typing import Any, NamedTuple

from chalicelib.lines.parsed import Parsed

OVERHEAD_BYTES = 1024
"""Of an event in memory, beside its text: measured it is some 700, and the text stands there once."""
_DATA_TIMES = 8
_TIME_BITS = 20


class EventContext(NamedTuple):
    """What an event that came as one says besides: its step ("" none), and its data."""

    step: str
    data: Mapping[str, Any]


class PendingEvent(NamedTuple):
    """An event between its reading and its processing. It sorts by (time, run, line): ``order_ms`` is its time, or when it was read.

    ``size``: bytes of memory, at most about. ``told`` None: it came as text."""

    order_ms: int
    partition: str
    line: int
    byte: int
    time_ms: int
    size: int
    parsed: Parsed
    context: EventContext | None = None


def memory_bytes_of(text_bytes: int, context: EventContext | None = None) -> int:
    """Of an event with so much text. Data takes some eight times what it takes as text."""
    more = _DATA_TIMES * len(str(context.data)) if context is not None and context.data else 0
    return 2 * text_bytes + OVERHEAD_BYTES + more


def display_key(time_ms: int, offset: int) -> int:
    """One number for an event's place, as CDAP shows it."""
    return (time_ms << _TIME_BITS) + (offset & ((1 << _TIME_BITS) - 1))


class OrderingBuffer:
    """``bytes``: what is in it now. ``late``: events that came after later ones had gone out. Not for several threads."""

    def __init__(self, delay_ms: int, max_bytes: int) -> None:
        self._delay_ms, self.max_bytes = delay_ms, max_bytes
        self._settling: dict[str, list[PendingEvent]] = {}
        self._furthest: dict[str, int] = {}
        self._delayed: list[PendingEvent] = []
        self._ready: list[PendingEvent] = []
        self._last: PendingEvent | None = None  # of those that were held
        self.bytes = 0
        self.late = 0
        self.count = 0

    @property
    def is_full(self) -> bool:
        """Whether it has to be drained before more is read."""
        return self.bytes >= self.max_bytes

    def add(self, pending: PendingEvent) -> None:
        """Take an event in; ``settle`` follows for its run."""
        heappush(self._settling.setdefault(pending.partition, []), pending)
        if pending.order_ms > self._furthest.get(pending.partition, -1):
            self._furthest[pending.partition] = pending.order_ms
        self.bytes += pending.size
        self.count += 1

    def settle(self, partition: str, *, at_end: bool, final: bool) -> None:
        """A piece of a run was read. ``at_end``: there is no more of it now; ``final``: the run has ended."""
        waiting = self._settling.get(partition)
        if not waiting:
            return
        until_ms = self._furthest[partition] - self._delay_ms
        while waiting and (at_end or waiting[0].order_ms <= until_ms):
            self._settled(heappop(waiting), final)
        if at_end:
            del self._settling[partition]
            del self._furthest[partition]

    def _settled(self, pending: PendingEvent, final: bool) -> None:
        if final:
            heappush(self._ready, pending)
            return
        if self._last is not None and pending < self._last:
            self.late += 1
        heappush(self._delayed, pending)

    def take(self, now_ms: int, limit: int = 1000) -> list[PendingEvent]:
        """Up to ``most`` events that are due, in order. Of a full buffer as many as bring it to half."""
        taken: list[PendingEvent] = []
        old_ms = now_ms - self._delay_ms
        while len(taken) < limit and (pending := self._due(old_ms)) is not None:
            taken.append(pending)
            self._leaves(pending)
        return taken

    def drain(self, limit: int = 1000) -> list[PendingEvent]:
        """Up to ``most`` of the first events, due or not, until the buffer is half full."""
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
            return heappop(self._delayed)
        return None

    def _first(self) -> PendingEvent | None:
        """The first of all, settled or not."""
        heaps = [heap for heap in (self._ready, self._delayed, *self._settling.values()) if heap]
        if not heaps:
            return None
        heap = min(heaps, key=lambda each: each[0])
        pending = heappop(heap)
        if heap is not self._ready:
            self._last = max(pending, self._last) if self._last is not None else pending
        return pending

    def _leaves(self, pending: PendingEvent) -> None:
        self.bytes -= pending.size
        self.count -= 1

    def put_back(self, taken: list[PendingEvent]) -> None:
        """Events that could not be processed now: they are due at once."""
        for pending in taken:
            heappush(self._ready, pending)
            self.bytes += pending.size
            self.count += 1

    def forget(self, partition: str) -> None:
        """Let a run's events go."""
        waiting = self._settling.pop(partition, [])
        self._furthest.pop(partition, None)
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
    """The size of each pipeline's buffer where none is configured: 70 % of the memory that is there, less the fetch buffers, in equal
    parts. A fetch takes its bytes three times: as they came, as lines, as events. At least 1 MiB."""
    there = int((memory_bytes - used_bytes) * AUTOMATIC_SHARE) - pipelines * FETCHES * fetch_bytes
    return max(MIN_BUFFER_BYTES, there // max(1, pipelines))


AUTOMATIC_SHARE = 0.7
FETCHES = 3
MIN_BUFFER_BYTES = 1024 * 1024

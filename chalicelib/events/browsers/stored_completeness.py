"""Whether a store has all events of its closed writers (decision 0023, without the end of the run, which other stores do not know)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from chalicelib.events.completeness import COMPLETE, LOST, MAX_LISTED_RANGES, PENDING, Completeness, WriterState
from chalicelib.events.event import Event, WriterEndEvent
from chalicelib.events.ranges import Range, merged, missing, size

_MANY_RANGES = 1_000


class StoredIds:
    """The ids of the events that were read so far, by writer. Events without a writer's name do not count. ``after``: the position
    after the last one."""

    def __init__(self) -> None:
        self.after: str | None = None
        self.last_ms: dict[str, int] = {}
        self._ranges: dict[str, list[Range]] = {}

    def add(self, event: Event, position: str) -> None:
        """Add the next event."""
        self.after = position
        if not event.writer:
            return
        self.last_ms[event.writer] = max(event.timestamp, self.last_ms.get(event.writer, 0))
        ranges = self._ranges.setdefault(event.writer, [])
        if ranges and ranges[-1][1] + 1 == event.id:
            ranges[-1] = (ranges[-1][0], event.id)
        else:
            ranges.append((event.id, event.id))
            if len(ranges) % _MANY_RANGES == 0:
                ranges[:] = merged(ranges)

    @property
    def writers(self) -> Iterable[str]:
        """Names of writers with events."""
        return self._ranges.keys()

    def visible(self, writer: str) -> list[Range]:
        """The ids of a writer, merged."""
        return merged(self._ranges.get(writer, ()))

    def lacks_any(self, ends: Iterable[WriterEndEvent]) -> bool:
        """Whether events of closed writers are missing."""
        return any(missing(self.visible(end.writer), end.id) for end in ends)


def completeness_of(ends: Mapping[str, WriterEndEvent], ids: StoredIds, now_ms: int, grace_ms: int) -> Completeness:
    """``complete``: every writer is closed and its events are visible; ``lost``: events of a closed writer are still missing
    ``grace_ms`` after its end; else ``pending``."""
    states = [_state(writer, ends.get(writer), ids, now_ms, grace_ms) for writer in sorted({*ends, *ids.writers})]
    if all(each.complete for each in states):
        return Completeness(COMPLETE, False, states)
    return Completeness(LOST if any(each.lost for each in states) else PENDING, False, states)


def _state(writer: str, end: WriterEndEvent | None, ids: StoredIds, now_ms: int, grace_ms: int) -> WriterState:
    ranges = ids.visible(writer)
    count = end.id if end else ranges[-1][1] + 1
    lacks = missing(ranges, count)
    return WriterState(
        writer=writer,
        opened=True,
        closed=end is not None,
        count=end.id if end else None,
        visible=size(ranges),
        missing=lacks[:MAX_LISTED_RANGES],
        last_timestamp_ms=end.last_timestamp_ms if end else ids.last_ms[writer],
        lost=end is not None and bool(lacks) and now_ms - end.timestamp > grace_ms,
    )

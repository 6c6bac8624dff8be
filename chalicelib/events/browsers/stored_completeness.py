"""Whether a store has all events of its closed writers (decision 0023, without the end of the run, which other stores do not know)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from chalicelib.events.completeness import COMPLETE, LOST, PENDING, Completeness, WriterState, writer_state
from chalicelib.events.event import Event, WriterEndEvent
from chalicelib.events.index import VisibleIds
from chalicelib.events.ranges import Range, add_id, merged, missing


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
        add_id(self._ranges.setdefault(event.writer, []), event.id)

    @property
    def writers(self) -> Iterable[str]:
        """Names of writers with events."""
        return self._ranges.keys()

    def all(self) -> Iterator[VisibleIds]:
        """The ids of each writer. The store does not say when they became visible."""
        for writer in self._ranges:
            yield VisibleIds(writer, tuple(self.visible(writer)), self.last_ms[writer], indexed_ms=0)

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
    if end is None:
        return writer_state(writer, None, ids.visible(writer), ids.last_ms[writer])
    return writer_state(writer, end.id, ids.visible(writer), end.last_timestamp_ms, is_due=now_ms - end.timestamp > grace_ms)

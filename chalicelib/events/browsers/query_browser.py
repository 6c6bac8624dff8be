"""The base of log browsers that query another store."""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, TextIO

from chalicelib.deadline import Deadline
from chalicelib.errors import DeadlineExceededError, InvalidInputError, StoreUnavailableError
from chalicelib.events.browsers.query import EventHit, EventHits, EventQuery
from chalicelib.events.browsers.stored_completeness import StoredIds, completeness_of
from chalicelib.events.completeness import PENDING, Completeness
from chalicelib.events.event import Event, Loggable, WriterEndEvent, run_of
from chalicelib.events.event_view import EventFilter
from chalicelib.events.index import VisibleIds
from chalicelib.events.log_streams import open_buffered, write_temporary_file
from chalicelib.events.ports import LogText
from chalicelib.events.text import ANSWER_BYTES, cut, decode_text
from chalicelib.ports import Clock

DEFAULT_LIMIT, MAX_LIMIT = 100, 1000
BATCH_EVENTS, BATCH_KEYS = 500, 5_000
"""Events of a query, and of one without messages."""
MAX_PAGE_BYTES = 1024 * 1024
MAX_TIME_S, MAX_COUNT_S = 5.0, 10.0


@dataclass(frozen=True, slots=True)
class StoredPage:
    """``after``: the position after the events that were read, with which the next page continues, also later, when the log has
    grown. ``has_more``: events may follow at present."""

    events: Sequence[Event]
    after: str | None
    has_more: bool


@dataclass(frozen=True, slots=True)
class _Mark:
    """A byte offset at the end of an event. ``has_writer``: an event before it has a writer's name."""

    byte: int = 0
    position: str | None = None
    has_writer: bool = False


class QueryBrowser(ABC):
    """``LogBrowser`` of events that a target has, each as a document (``targets.document``). Order: timestamp, writer, id; an event that
    the store has twice is returned once.

    An event that arrives late, with an earlier time than events that were read, is not after their position: whoever needs such
    events reads again from the beginning once ``completeness`` is final. Not thread-safe. Memory: an answer of the store, at most
    ``BATCH_EVENTS`` events, and a mark for each step read. Raises UnavailableError, and DamagedLogError for a document that is not an
    event.
    """

    def __init__(self, loggable: Loggable, clock: Clock, grace_ms: int) -> None:
        run_of(loggable)
        self._loggable, self._clock, self._grace_ms = loggable, clock, grace_ms
        self._marks: dict[str | None, _Mark] = {}
        self._ids = StoredIds()

    @abstractmethod
    def find(self, query: EventQuery) -> EventHits:
        """The first events after a position, in order. Raises InvalidCursorError for a position of another store."""

    @abstractmethod
    def ends(self) -> Iterator[WriterEndEvent]:
        """The records of closed writers, in any order."""

    @abstractmethod
    def time_of_last(self, count: int) -> int | None:
        """A time in ms from which on there are at least the last ``count`` events (all, if there are fewer); None: there are none. Reads
        from the end."""

    @abstractmethod
    def delete_events(self) -> None:
        """Delete the events and the records of closed writers."""

    def delete(self) -> None:
        """See ``LogBrowser``. Repeatable: after an error some events may be left."""
        self._marks, self._ids = {}, StoredIds()
        self.delete_events()

    def page(self, event_filter: EventFilter, after: str | None = None, limit: int = DEFAULT_LIMIT) -> StoredPage:
        """The matching events after a position. Ends at ``limit`` events (at most ``MAX_LIMIT``), about 1 MiB, or after about 5 s,
        which a filter by text or level may need, since these are compared here."""
        limit, deadline = max(1, min(limit, MAX_LIMIT)), Deadline(self._clock, MAX_TIME_S)
        events, size, is_exact = list[Event](), 0, not event_filter.text and event_filter.level is None
        while True:
            batch = min(BATCH_EVENTS, limit - len(events)) if is_exact else BATCH_EVENTS
            answer = self.find(EventQuery(event_filter, after, batch))
            for hit in answer.hits:
                if len(events) >= limit or size >= MAX_PAGE_BYTES:
                    return StoredPage(events, after, True)
                after = hit.position
                if _matches(hit.event, event_filter):
                    events.append(hit.event)
                    size += len(hit.event.message) + len(str(hit.event.data)) + len(str(hit.event.annotations))
            after = answer.after or after
            is_full = len(events) >= limit or size >= MAX_PAGE_BYTES or deadline.remaining_s() <= 0
            if not answer.has_more or is_full:
                return StoredPage(events, after, answer.has_more)

    def visible(self) -> dict[str, VisibleIds]:
        """See ``LogBrowser``. Counts all events, since some may have arrived late: a query for each ``BATCH_KEYS``, none after
        ``MAX_COUNT_S``, then DeadlineExceededError. Memory: ranges of ids."""
        self._ids = StoredIds()
        self._count_ids(Deadline(self._clock, MAX_COUNT_S))
        return {each.writer: each for each in self._ids.all()}

    def completeness(self) -> Completeness:
        """Whether all events of the writers that the store knows are visible. A writer that has sent nothing yet is not known, and
        ``sealed`` is always False, since the end of a run is not stored. Pending if no writer is closed.

        One query, and another for each ``BATCH_KEYS`` events that were not counted before; all are counted again while events of
        closed writers are missing. Memory: ranges of ids.
        """
        ends = {end.writer: end for end in self.ends()}
        if not ends:
            return Completeness(PENDING, False, ())
        is_new = self._ids.after is None
        self._count_ids()
        if not is_new and self._ids.lacks_any(ends.values()):
            self._ids = StoredIds()  # events that arrived late
            self._count_ids()
        return completeness_of(ends, self._ids, self._clock.now_ms(), self._grace_ms)

    def overall_log(self, start: int = 0) -> LogText:
        """See ``LogBrowser``: the messages, each with a newline. Complete when ``completeness`` is not pending any more. The first
        call with a ``start`` that no earlier call of this browser returned reads the log from the beginning. Begins no query after
        ``MAX_TIME_S`` but those for completeness: raises DeadlineExceededError if it has not reached ``start``, and a repeated call
        continues."""
        return self._text(EventFilter(), start, is_completed=False)

    def step_log(self, step: str, completed: bool, start: int = 0) -> LogText:
        """See ``LogBrowser``, and ``overall_log``. Relies on the caller's ``completed`` only if the step has events and none
        has a writer's name, so that no record of an end can follow."""
        return self._text(EventFilter(step=step), start, is_completed=completed)

    def open_binary(self) -> BinaryIO:
        """See ``LogBrowser``."""
        return open_buffered(_line(event) for event in self.events())

    def open_text(self) -> TextIO:
        """See ``LogBrowser``. Lines end only at ``\\n``."""
        return io.TextIOWrapper(self.open_binary(), encoding="utf-8", errors="replace", newline="\n")

    def lines(self, maximum: int) -> list[str]:
        """See ``LogBrowser``: the requests of ``time_of_last``, and those for the events from that time on. Memory: the lines."""
        if maximum < 0:
            raise InvalidInputError(f"the number of lines must not be negative lines={maximum}")
        lines: deque[str] = deque(maxlen=maximum)
        first_ms = self.time_of_last(maximum) if maximum else None
        if first_ms is not None:
            for hit in self._hits(EventQuery(EventFilter(from_ms=first_ms))):
                lines.extend(_line(hit.event).decode()[:-1].split("\n"))
        return list(lines)

    def log_file(self) -> Path:
        """See ``LogBrowser``: a temporary file."""
        return write_temporary_file(self.open_binary())

    def events(self) -> Iterator[Event]:
        """See ``LogBrowser``."""
        return (hit.event for hit in self._hits(EventQuery(limit=BATCH_EVENTS)))

    def _hits(self, query: EventQuery, deadline: Deadline | None = None) -> Iterator[EventHit]:
        """Raises DeadlineExceededError instead of a further query after the deadline."""
        while True:
            answer = self.find(query)
            for hit in answer.hits:
                if _matches(hit.event, query.event_filter):
                    yield hit
            if not answer.has_more:
                return
            if answer.after is None or answer.after == query.after:
                raise StoreUnavailableError("the store returned a page without an end")
            if deadline is not None and deadline.remaining_s() <= 0:
                raise DeadlineExceededError("the store did not return this part of the log in time")
            query = replace(query, after=answer.after)

    def _count_ids(self, deadline: Deadline | None = None) -> None:
        for hit in self._hits(EventQuery(after=self._ids.after, limit=BATCH_KEYS, is_keys_only=True), deadline):
            self._ids.add(hit.event, hit.position)

    def _text(self, event_filter: EventFilter, start: int, *, is_completed: bool) -> LogText:
        mark = self._marks.get(event_filter.step, _Mark())
        if mark.byte > start:
            mark = _Mark()
        end, near, read, has_more = mark, mark, bytearray(), False
        try:
            for hit in self._hits(EventQuery(event_filter, mark.position, BATCH_EVENTS), Deadline(self._clock, MAX_TIME_S)):
                if len(read) >= ANSWER_BYTES:
                    has_more = True
                    break
                line = _line(hit.event)
                read += line[max(0, start - end.byte) :]
                end = _Mark(end.byte + len(line), hit.position, end.has_writer or bool(hit.event.writer))
                if end.byte <= start:
                    mark = end
                if end.byte <= start + ANSWER_BYTES:
                    near = end
        except DeadlineExceededError:
            if not read:
                self._marks[event_filter.step] = mark
                raise
            has_more = True
        is_last = not has_more and len(read) <= ANSWER_BYTES
        data = cut(bytes(read[:ANSWER_BYTES]), more=not is_last)
        following = start + len(data)
        is_last = is_last and following >= end.byte
        self._marks[event_filter.step] = near if near.byte <= following else mark
        return LogText(decode_text(data), following, is_last and self._is_over(event_filter, end, is_completed))

    def _is_over(self, event_filter: EventFilter, end: _Mark, is_completed: bool) -> bool:
        """Whether no text can follow: all events are visible, and none became visible since the text was read."""
        is_over = (is_completed and end.byte > 0 and not end.has_writer) or self.completeness().state != PENDING
        return is_over and next(self._hits(EventQuery(event_filter, end.position)), None) is None


def _matches(event: Event, event_filter: EventFilter) -> bool:
    return not isinstance(event, WriterEndEvent) and event_filter.matches(event) and event_filter.matches_time(event.timestamp)


def _line(event: Event) -> bytes:
    return event.message.encode(errors="replace") + b"\n"

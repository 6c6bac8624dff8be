"""A run's events in the log's order, page by page: those that have companions, and between them plain lines, lifted.

A page ends at the border of an event, after so many of them, or where its bytes or its time are used up: the next one goes on there. S3
alone is asked, so what is durable is seen; of a step, which takes the index too, the segments are read that have any of it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from threading import Lock

from chalicelib.deadline import Deadline
from chalicelib.events.companion import Companion
from chalicelib.events.event import Loggable
from chalicelib.events.indexing import EventIndexing
from chalicelib.events.lifting import format_of, lifted
from chalicelib.events.shown import ShownEvent, Wanted, shown
from chalicelib.events.step_events import StepEvents
from chalicelib.events.tail import EventTails
from chalicelib.events.times import LOOK_BACK_LINES, EventTimes, Stated
from chalicelib.events.views import Views
from chalicelib.lines.formats import LogFormat
from chalicelib.lines.text import LineCursor, number_lines
from chalicelib.ports import Clock, Run, SegmentIndex
from chalicelib.runlog.conflicts import retry_on_change
from chalicelib.runlog.reader import Reader

DEFAULT_LIMIT, MAX_LIMIT = 100, 1000
MAX_READ_BYTES = 16 * 1024 * 1024
MAX_ANSWER_BYTES = 1024 * 1024
MAX_TIME_S = 5.0
_SAMPLE_BYTES = 64 * 1024
_COMPANIONS = 64
_MAX_FORMATS = 256


@dataclass(frozen=True, slots=True)
class EventPage:
    """``after``: the line with which the next page begins; None: there is no more now."""

    events: Sequence[ShownEvent]
    after: int | None


@dataclass(slots=True)
class _Page:
    """What is gathered. ``line``: the border that was come to."""

    line: int
    limit: int
    deadline: Deadline
    events: list[ShownEvent]
    read_bytes: int = 0
    answer_bytes: int = 0

    @property
    def is_full(self) -> bool:
        is_answer = len(self.events) >= self.limit or self.answer_bytes >= MAX_ANSWER_BYTES
        return is_answer or self.read_bytes >= MAX_READ_BYTES or self.deadline.remaining_s() <= 0

    def filled(self, events: Iterator[ShownEvent], wanted: Wanted, times: EventTimes) -> EventPage:
        """The wanted ones of them, until it is full or they end."""
        for event in events:
            if self.is_full:
                return EventPage(self.events, self.line)
            self.line = event.end_line
            self.read_bytes += event.bytes
            times.note(event)
            if wanted.has(event) and not (wanted.is_timed and not wanted.is_in_time(times.of(event))):
                self.events.append(event)
                self.answer_bytes += event.bytes + len(str(event.data)) + len(str(event.annotations))
        return EventPage(self.events, None)


class EventBrowser:
    """Pages of events. ``instance_id`` is put where a companion does not tell it."""

    def __init__(
        self,
        reader: Reader,
        views: Views,
        tails: EventTails,
        indexing: EventIndexing,
        steps: StepEvents,
        index: SegmentIndex,
        clock: Clock,
        instance_id: str,
    ) -> None:
        self._reader, self._views, self._tails, self._indexing, self._index = reader, views, tails, indexing, index
        self._clock, self._instance_id, self._steps = clock, instance_id, steps
        self._formats: OrderedDict[Run, LogFormat] = OrderedDict()
        self._lock = Lock()

    def page(
        self, run: Run, wanted: Wanted, after: int = 0, limit: int = DEFAULT_LIMIT, *, is_last_included: bool = False
    ) -> EventPage:
        """The wanted ones from a line on. The requests of a scan of the log, a LIST and a GET for each companion in it; at most 5 s and 16 MiB
        more or less. Of a span of time also those of ``EventTimes.of``, and the scan of a few lines before the page where its first events
        have no time. ``is_last_included``: also the last event of a growing log, which may get more lines. Raises UnavailableError."""
        return retry_on_change(lambda: self._page(run, wanted, after, limit, is_last_included))

    def all(self, run: Run) -> Iterator[ShownEvent]:
        """Every event, page after page."""
        after: int | None = 0
        while after is not None:
            page = self.page(run, Wanted(), after, MAX_LIMIT)
            yield from page.events
            after = page.after

    def _page(self, run: Run, wanted: Wanted, after: int, limit: int, is_last_included: bool) -> EventPage:
        page = _Page(after, limit, Deadline(self._clock, MAX_TIME_S), [])
        loggable = Loggable.of_run(run, self._instance_id)
        times = EventTimes(run, self._index, self._clock, after, lambda line: self._stated_before(run, loggable, line))
        if wanted.step is not None:
            return page.filled(self._steps.read(run, wanted.step, after, loggable), wanted, times)
        scan = self._reader.scan(run, after)
        if after >= scan.end.line:
            return EventPage([], None)
        under_way = self._tails.end_line(run)
        is_final = is_last_included or (bool(scan.end.seal) and under_way is None)
        lines = number_lines(scan.chunks, after - scan.skip)
        wanted_lines = ((number, raw) for number, raw in lines if number >= after and (under_way is None or number < under_way))
        return page.filled(self._events(run, loggable, wanted_lines, after, is_final=is_final), wanted, times)

    def _stated_before(self, run: Run, loggable: Loggable, line: int) -> Stated | None:
        """The last time that an event states in ``LOOK_BACK_LINES`` lines before a line; None too where these are as much as a page may read."""
        first, found, read_bytes = max(0, line - LOOK_BACK_LINES), None, 0
        scan = self._reader.scan(run, first)
        lines = takewhile(lambda each: each[0] < line, number_lines(scan.chunks, first - scan.skip))
        for event in self._events(run, loggable, (each for each in lines if each[0] >= first), first, is_final=True):
            read_bytes += event.bytes
            if read_bytes > MAX_READ_BYTES:
                return None
            if event.timestamp is not None:
                found = Stated(event.line, event.timestamp)
        return found

    def _events(
        self, run: Run, loggable: Loggable, lines: Iterator[tuple[int, bytes]], after: int, *, is_final: bool
    ) -> Iterator[ShownEvent]:
        at, ahead = after, LineCursor(lines)
        for companion in self._companions(run, after):
            if not ahead.has_more():
                return
            if companion.line > at:
                yield from lifted(ahead.until(companion.line), self._format(run), final=True)
            yield from self._noted(companion, loggable, ahead, max(at, companion.line))
            at = max(at, companion.end_line)
        if ahead.has_more():
            yield from lifted(ahead.until(None), self._format(run), final=is_final)

    def _noted(self, companion: Companion, loggable: Loggable, ahead: LineCursor, at: int) -> Iterator[ShownEvent]:
        for noted in companion.events:
            if noted.line >= at:
                ahead.skip(noted.line)
                raw = [line for _, line in ahead.until(noted.end_line)]
                if len(raw) != noted.lines:
                    return  # it came after the log was looked at: another page
                yield shown(noted, companion, b"\n".join(raw), loggable)

    def _companions(self, run: Run, line: int) -> Iterator[Companion]:
        """Those that reach behind a line, in order: a row of the index tells where to begin, where it knows."""
        row = self._index.at_line(run, line) if line else None
        numbers = self._indexing.numbers(run, row.sequence if row else 0)
        while batch := [number for number, _ in zip(numbers, range(_COMPANIONS), strict=False)]:
            yield from (each for each in self._indexing.companions(run, batch) if each.end_line > line)

    def _format(self, run: Run) -> LogFormat:
        """Of the run's plain lines, by what the log begins with."""
        with self._lock:
            known = self._formats.get(run)
        if known is not None:
            return known
        view = self._views.take(run, 0, _SAMPLE_BYTES)
        sample = b"".join(self._views.bytes(view, [(0, min(_SAMPLE_BYTES, view.end_byte))]))
        found = format_of(sample[: sample.rfind(b"\n") + 1] or sample)
        if view.end_byte >= _SAMPLE_BYTES:  # it will not change
            with self._lock:
                self._formats[run] = found
                if len(self._formats) > _MAX_FORMATS:
                    self._formats.popitem(last=False)
        return found

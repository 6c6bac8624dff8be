"""Pages of a run's events in the log's order: events of sidecars, and plain lines between them, parsed.

A page ends at the end of an event, when it has enough events, bytes read, bytes of response, or time; the next page continues
there. Only S3 is read, so every durable event is found. A step also uses the index, to read only segments with events of the step.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from itertools import islice, takewhile
from threading import Lock

from chalicelib.deadline import Deadline
from chalicelib.events.event import Loggable
from chalicelib.events.event_times import LOOK_BACK_LINES, EventTimes, StatedTime
from chalicelib.events.event_view import EventFilter, EventView, build_event_view
from chalicelib.events.indexing import EventIndexing
from chalicelib.events.line_parsing import detect_log_format, parse_lines
from chalicelib.events.sidecar import Sidecar
from chalicelib.events.sidecar_store import TOGETHER
from chalicelib.events.snapshots import LogSnapshots
from chalicelib.events.step_events import StepEvents
from chalicelib.events.tail import EventTails
from chalicelib.lines.formats import LogFormat
from chalicelib.lines.text import LineCursor, number_lines
from chalicelib.ports import Clock, Run, SegmentIndex
from chalicelib.runlog.conflicts import retry_on_change
from chalicelib.runlog.reader import Reader, Scan
from chalicelib.runlog.zone import tz_of

DEFAULT_LIMIT, MAX_LIMIT = 100, 1000
MAX_READ_BYTES = 16 * 1024 * 1024
MAX_ANSWER_BYTES = 1024 * 1024
MAX_TIME_S = 5.0
_SAMPLE_BYTES = 64 * 1024
_MAX_FORMATS = 256


@dataclass(frozen=True, slots=True)
class EventPage:
    """``after``: the first line of the next page; None: no events follow at present."""

    events: Sequence[EventView]
    after: int | None


@dataclass(slots=True)
class _Page:
    """A page under construction. ``line``: the end of the last event that was read."""

    line: int
    limit: int
    deadline: Deadline
    events: list[EventView]
    read_bytes: int = 0
    answer_bytes: int = 0

    @property
    def is_full(self) -> bool:
        is_answer = len(self.events) >= self.limit or self.answer_bytes >= MAX_ANSWER_BYTES
        return is_answer or self.read_bytes >= MAX_READ_BYTES or self.deadline.remaining_s() <= 0

    def filled(self, events: Iterator[EventView], event_filter: EventFilter, times: EventTimes) -> EventPage:
        """Add matching events until the page is full or they end."""
        for event in events:
            if self.is_full:
                return EventPage(self.events, self.line)
            self.line = event.end_line
            self.read_bytes += event.bytes
            times.record(event)
            if event_filter.matches(event) and (
                not event_filter.has_time_bounds or event_filter.matches_time(times.time_of(event))
            ):
                self.events.append(event)
                self.answer_bytes += event.answer_bytes
        return EventPage(self.events, None)


class EventBrowser:
    """Pages of events. ``instance_id``: this installation; a sidecar names the one that stored its events."""

    def __init__(
        self,
        reader: Reader,
        snapshots: LogSnapshots,
        tails: EventTails,
        indexing: EventIndexing,
        steps: StepEvents,
        index: SegmentIndex,
        clock: Clock,
        instance_id: str,
    ) -> None:
        self._reader, self._snapshots, self._tails, self._indexing, self._index = reader, snapshots, tails, indexing, index
        self._clock, self._instance_id, self._steps = clock, instance_id, steps
        self._formats: OrderedDict[Run, LogFormat] = OrderedDict()
        self._lock = Lock()

    def page(
        self, run: Run, event_filter: EventFilter, after: int = 0, limit: int = DEFAULT_LIMIT, *, is_last_included: bool = False
    ) -> EventPage:
        """The matching events from a line on. The requests of a scan of the log, a LIST and a GET for each sidecar in it, or for each bundle of an
        ended run; at most
        about 5 s and 16 MiB. With time bounds also those of ``EventTimes.time_of``, and a scan of a few lines before the page if
        its first events have no time. ``is_last_included``: also the last event of a growing log, which may get more lines. Raises
        UnavailableError."""
        return retry_on_change(lambda: self._page(run, event_filter, after, limit, is_last_included))

    def _page(self, run: Run, event_filter: EventFilter, after: int, limit: int, is_last_included: bool) -> EventPage:
        page = _Page(after, limit, Deadline(self._clock, MAX_TIME_S), [])
        loggable = Loggable.of_run(run, self._instance_id)
        times = EventTimes(run, self._index, self._clock, after, lambda line: self._stated_before(run, loggable, line))
        if event_filter.step is not None:
            return page.filled(self._steps.read(run, event_filter.step, after, loggable), event_filter, times)
        scan = self._reader.scan(run, after)
        if after >= scan.end.line:
            return EventPage([], None)
        under_way = self._tails.end_line(run, scan.snapshot)
        is_final = is_last_included or (bool(scan.end.seal) and under_way is None)
        lines = _lines_between(scan, after, under_way)
        found = self._events(run, loggable, lines, after, tz_of(scan.end.zone), is_final=is_final)
        return page.filled(found, event_filter, times)

    def _stated_before(self, run: Run, loggable: Loggable, line: int) -> StatedTime | None:
        """The last time that an event states in the ``LOOK_BACK_LINES`` lines before a line; None also if these exceed the bytes
        that a page may read."""
        first, found, read_bytes = max(0, line - LOOK_BACK_LINES), None, 0
        scan = self._reader.scan(run, first)
        lines = _lines_between(scan, first, line)
        for event in self._events(run, loggable, lines, first, tz_of(scan.end.zone), is_final=True):
            read_bytes += event.bytes
            if read_bytes > MAX_READ_BYTES:
                return None
            if event.timestamp is not None:
                found = StatedTime(event.line, event.timestamp)
        return found

    def _events(
        self, run: Run, loggable: Loggable, lines: Iterator[tuple[int, bytes]], after: int, zone: tzinfo, *, is_final: bool
    ) -> Iterator[EventView]:
        at, ahead = after, LineCursor(lines)
        for sidecar in self._sidecars(run, after):
            if not ahead.has_more():
                return
            if sidecar.line > at:
                yield from parse_lines(ahead.until(sidecar.line), self._format(run), zone, final=True)
            yield from self._sidecar_events(sidecar, loggable, ahead, max(at, sidecar.line))
            at = max(at, sidecar.end_line)
        if ahead.has_more():
            yield from parse_lines(ahead.until(None), self._format(run), zone, final=is_final)

    def _sidecar_events(self, sidecar: Sidecar, loggable: Loggable, ahead: LineCursor, at: int) -> Iterator[EventView]:
        for entry in sidecar.events:
            if entry.line >= at:
                ahead.skip(entry.line)
                raw = [line for _, line in ahead.until(entry.end_line)]
                if len(raw) != entry.lines:
                    return  # written after the log was listed: the next page has it
                yield build_event_view(entry, sidecar, b"\n".join(raw), loggable)

    def _sidecars(self, run: Run, line: int) -> Iterator[Sidecar]:
        """The sidecars that end after a line, in order, starting at the segment that the index has for the line, if any."""
        row = self._index.at_line(run, line) if line else None
        sidecars = self._indexing.sidecars
        groups = sidecars.groups(run, row.sequence if row else 0)
        while batch := list(islice(groups, TOGETHER)):
            yield from (each for each in sidecars.read(run, batch) if each.end_line > line)

    def _format(self, run: Run) -> LogFormat:
        """The format of the run's plain lines, detected in the first bytes of the log."""
        with self._lock:
            known = self._formats.get(run)
        if known is not None:
            return known
        snapshot = self._snapshots.take(run, 0, _SAMPLE_BYTES)
        sample = b"".join(self._snapshots.bytes(snapshot, [(0, min(_SAMPLE_BYTES, snapshot.end_byte))]))
        found = detect_log_format(sample[: sample.rfind(b"\n") + 1] or sample)
        if snapshot.end_byte >= _SAMPLE_BYTES:  # later appends cannot change it
            with self._lock:
                self._formats[run] = found
                if len(self._formats) > _MAX_FORMATS:
                    self._formats.popitem(last=False)
        return found


def _lines_between(scan: Scan, first: int, end: int | None) -> Iterator[tuple[int, bytes]]:
    """The lines [first, end) of a scan that was requested from ``first`` on; ``end=None``: to the end of the log."""
    numbered = takewhile(lambda each: end is None or each[0] < end, number_lines(scan.chunks, first - scan.skip))
    return (each for each in numbered if each[0] >= first)

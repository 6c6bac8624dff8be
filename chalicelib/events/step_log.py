"""The log of one step, by position, and the whole log by position: a step costs what the step has, not what the run has.

A finished run: a query of the step's rows and a GET or a few. What the index cannot know yet of an open run is read from S3.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from threading import Lock

from chalicelib.events.index import EventIndex
from chalicelib.events.parts import Part, parts_of
from chalicelib.events.ports import LogText
from chalicelib.events.spans import Span, joined, reads
from chalicelib.events.tail import EventTail, EventTails
from chalicelib.events.text import ANSWER_BYTES, cut, shown
from chalicelib.events.views import Views
from chalicelib.ports import Run
from chalicelib.runlog.conflicts import retry_on_change
from chalicelib.runlog.view import View

MAX_READS = 16
"""Requests for the bytes of one answer. A step that is strewn over the run has shorter answers."""
_MAX_REMEMBERED = 4096


@dataclass(frozen=True, slots=True)
class _Reach:
    """Spans of a step from a position on, enough for an answer. ``more``: there are others behind them."""

    spans: Sequence[Span]
    more: bool


class StepLogs:
    """Reads. A process remembers where answers ended, so that reading on does not count a step's rows again."""

    def __init__(self, views: Views, index: EventIndex, tails: EventTails) -> None:
        self._views, self._index, self._tails = views, index, tails
        self._places = _Places()

    def whole(self, run: Run, start: int = 0, max_lines: int | None = None) -> LogText:
        """The overall log from a byte on. The requests of a view; a GET for each segment in it. Raises UnavailableError."""

        def attempt() -> LogText:
            view = self._views.take(run, start, ANSWER_BYTES)
            end = min(start + ANSWER_BYTES, view.end_byte)
            data = b"".join(self._views.bytes(view, [(start, end)])) if start < end else b""
            answer = cut(data, max_lines, more=end < view.end_byte)
            at_end = start + len(answer) >= view.end_byte
            return LogText(shown(answer), start + len(answer), at_end and self._views.is_ended(run, view))

        return retry_on_change(attempt)

    def step(self, run: Run, step: str, start: int = 0, max_lines: int | None = None) -> LogText:
        """A step's log from its own byte on. A query for each MB of the step's rows, a view, and at most ``MAX_READS`` GETs; of an open run
        those of ``EventTails`` too. Raises UnavailableError."""
        return retry_on_change(lambda: self._step(run, step, start, max_lines))

    def _step(self, run: Run, step: str, start: int, max_lines: int | None) -> LogText:
        sequence, before = self._places.near(run, step, start)
        parts = _enough(self._index.parts(run, step, sequence), start - before + ANSWER_BYTES)
        reach = _reach(parts, start - before)
        view = self._first_view(run, reach)
        tail = self._tails.look(run, view)
        parts = with_tail(parts, tail, step, sequence)
        reach = _reach(parts, start - before)
        data = self._read(view, reach.spans)
        answer = cut(data, max_lines, more=reach.more)
        self._remember(run, step, parts, before, start + len(answer))
        at_end = not reach.more and len(answer) == len(data) and not tail.holds_back
        return LogText(shown(answer), start + len(answer), at_end and self._views.is_ended(run, view))

    def _first_view(self, run: Run, reach: _Reach) -> View:
        """With the first bytes that are wanted, where they are known by now."""
        ranges = reads(reach.spans)
        return self._views.take(run, ranges[0][0], ranges[0][1] - ranges[0][0]) if ranges else self._views.take(run)

    def _read(self, view: View, spans: Sequence[Span]) -> bytes:
        ranges = reads(spans)
        bodies = self._views.bytes(view, ranges)
        return b"".join(_sliced(spans, ranges, bodies))

    def _remember(self, run: Run, step: str, parts: Sequence[Part], before: int, end: int) -> None:
        """The last segment that begins before the answer's end."""
        for part in parts:
            if before + part.bytes > end:
                self._places.remember((run, step, end), (part.sequence, before))
                return
            before += part.bytes
        if parts:
            self._places.remember((run, step, end), (parts[-1].sequence + 1, before))


def with_tail(parts: Iterable[Part], tail: EventTail, step: str | None, first: int = 0) -> list[Part]:
    """Parts of the index and those that it lacks, in the log's order, as far as they may be shown."""
    lacking = [part for each in tail.companions if each.sequence >= first for part in parts_of(each) if step in (None, part.step)]
    # Of a companion that is just being indexed the index has some parts by now: they are the same.
    by_place = {(part.sequence, part.step): part for part in [*parts, *lacking] if tail.has(part.sequence)}
    return sorted(by_place.values(), key=lambda part: part.sequence)


def _enough(parts: Iterable[Part], wanted: int) -> list[Part]:
    """The first parts, until they have so many bytes and one more is there."""
    found: list[Part] = []
    size = 0
    for part in parts:
        found.append(part)
        if size >= wanted:
            break
        size += part.bytes
    return found


def _reach(parts: Sequence[Part], skip: int) -> _Reach:
    """Spans behind so many bytes, up to an answer's size, and no more than can be read in a few requests."""
    spans: list[Span] = []
    room = ANSWER_BYTES
    for span in joined(span for part in parts for span in part.spans):
        if skip >= span.bytes:
            skip -= span.bytes
            continue
        rest = Span(span.byte + skip, span.bytes - skip, span.line, span.lines)
        skip = 0
        if not room:
            return _Reach(spans, True)
        spans.append(Span(rest.byte, min(rest.bytes, room), rest.line, rest.lines))
        room -= spans[-1].bytes
        if spans[-1].bytes < rest.bytes:
            return _fewer(spans, True)
    return _fewer(spans, False)


def _fewer(spans: Sequence[Span], more: bool) -> _Reach:
    while len(ranges := reads(spans)) > MAX_READS:
        spans, more = [each for each in spans if each.byte < ranges[MAX_READS - 1][1]], True
    return _Reach(spans, more)


def _sliced(spans: Sequence[Span], ranges: Sequence[tuple[int, int]], bodies: Sequence[bytes]) -> Iterator[bytes]:
    at = 0
    for span in spans:
        while span.byte >= ranges[at][1]:
            at += 1
        start = span.byte - ranges[at][0]
        yield bodies[at][start : start + span.bytes]


class _Places:
    """Where answers ended: (run, step, position) to the segment to begin with, and the step's bytes before it. Threads may share it."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[Run, str, int], tuple[int, int]] = OrderedDict()
        self._lock = Lock()

    def near(self, run: Run, step: str, start: int) -> tuple[int, int]:
        with self._lock:
            return self._known.get((run, step, start), (0, 0))

    def remember(self, place: tuple[Run, str, int], known: tuple[int, int]) -> None:
        with self._lock:
            self._known[place] = known
            if len(self._known) > _MAX_REMEMBERED:
                self._known.popitem(last=False)

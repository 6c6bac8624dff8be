"""Pages of a run that is read from another store than the run log, over the port ``LogBrowser``.

Positions are lines of the browser's overall log, which it can only read from its beginning: a page costs what reading the log up to its end
costs. Each page is bounded in time; one whose beginning is not reached in time fails.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import BinaryIO

from chalicelib.deadline import Deadline
from chalicelib.errors import DeadlineExceededError, InvalidInputError
from chalicelib.events.event import Event
from chalicelib.events.event_browser import MAX_ANSWER_BYTES, EventPage
from chalicelib.events.event_view import EventFilter, EventView
from chalicelib.events.index import VisibleIds
from chalicelib.events.ports import LogBrowser, LogText
from chalicelib.events.text import cut, decode_text
from chalicelib.ports import Clock
from chalicelib.response_size import fits_response
from chalicelib.runlog.following import REPLAY_LINES, FollowEnd, FollowRequest, FollowUpdate
from chalicelib.runlog.page import RAW_BYTES, fit
from chalicelib.runlog.reader import INLINE_BYTES, Page, PageRequest

MAX_TIME_S, POLL_S = 5.0, 5.0


class BrowsedRun:
    """Reads one run. ``is_ended``: whether the run has ended. Raises UnavailableError if a store does, or a page begins too late in the
    log."""

    def __init__(self, browser: LogBrowser, clock: Clock, is_ended: Callable[[], bool]) -> None:
        self._browser, self._clock, self._is_ended = browser, clock, is_ended

    def log(self, start: int, max_lines: int | None) -> LogText:
        """The overall log from a byte on."""
        return _first_lines(self._browser.overall_log(start), start, max_lines)

    def step_log(self, step: str, start: int, max_lines: int | None) -> LogText:
        """A step's log from a byte of the step on."""
        return _first_lines(self._browser.step_log(step, self._is_ended(), start), start, max_lines)

    def events(self, event_filter: EventFilter, first: int, limit: int) -> EventPage:
        """The matching events from a line on, at most ``limit`` and about 1 MiB. An event without a time matches every time."""
        deadline, matching, size = Deadline(self._clock, MAX_TIME_S), list[EventView](), 0
        line = 0
        for view in self._views():
            if view.line >= first:
                if len(matching) == limit or size >= MAX_ANSWER_BYTES or deadline.remaining_s() <= 0:
                    return EventPage(matching, view.line)
                if event_filter.matches(view) and event_filter.matches_time(view.timestamp or None):
                    matching.append(view)
                    size += view.answer_bytes
            elif deadline.remaining_s() <= 0:
                raise _too_late(first, line)
            line = view.end_line
        return EventPage(matching, None)

    def page(self, request: PageRequest) -> Page:
        """A page of lines; an empty one of a run that goes on is read again every ``POLL_S`` until ``wait_s`` is over. ``total`` is the
        number of lines that were counted in time, at least those of the page. Memory: about 3 MiB. Raises InvalidInputError for a page by
        time."""
        if request.since_ms is not None:
            raise InvalidInputError("a log in another store has no lines by time: read its events by time instead parameter=since")
        deadline = Deadline(self._clock, request.wait_s)
        while True:
            page = self._page(request)
            may_grow = not page.logs and page.after is None and page.streaming
            if not may_grow or deadline.remaining_s() <= 0:
                return page
            self._clock.sleep(min(POLL_S, deadline.remaining_s()))

    def _page(self, request: PageRequest) -> Page:
        deadline, tail = Deadline(self._clock, MAX_TIME_S), request.tail
        first, limit = (0, tail) if tail is not None else (request.after, request.limit)
        lines, size, total, is_end = deque[bytes](), 0, 0, True
        with self._browser.open_binary() as file:
            for line in _lines(file):
                if tail is not None or (first <= total < first + limit and size < RAW_BYTES):
                    lines.append(line)
                    size += len(line)
                while tail is not None and lines and (len(lines) > tail or size > RAW_BYTES):
                    size -= len(lines.popleft())
                total += 1
                if deadline.remaining_s() <= 0:
                    is_end = False
                    break
        if not is_end and (tail is not None or total <= first):
            raise _too_late(first, total)
        if tail is not None:
            first = total - len(lines)
        logs, count, truncated = fit(list(lines))
        after = first + count if first + count < total or not is_end else None
        return Page(logs, after, total, streaming=not self._is_ended(), truncated=truncated)

    def follow(self, request: FollowRequest, hold_s: float) -> FollowUpdate:
        """Lines from a line on, or those that arrive within ``hold_s``: a page, read again every ``POLL_S``. Before it reports the end of a run, it
        reads once more after that time, since the store may show the last events late. Raises as ``page``."""
        deadline, line, tail, is_ended = Deadline(self._clock, hold_s - MAX_TIME_S), request.after, request.tail, False
        while True:
            page = self._page(PageRequest(line, REPLAY_LINES, tail))
            after = page.total if page.after is None else page.after
            if after > line and tail != 0:
                return FollowUpdate(after, f"{page.logs}\n", replay=True, truncated=page.truncated, more=page.after is not None)
            line, tail = max(line, after), None
            pause_s = min(POLL_S, deadline.remaining_s())
            if is_ended or (pause_s <= 0 and not page.streaming):
                return FollowUpdate(line, end=FollowEnd.RUN_FINISHED)
            is_ended = not page.streaming
            if pause_s <= 0:
                is_over = request.until_ms is not None and self._clock.now_ms() >= request.until_ms
                return FollowUpdate(line, end=FollowEnd.UNTIL_REACHED if is_over else None)
            self._clock.sleep(pause_s)

    def visible(self) -> Mapping[str, VisibleIds]:
        """See ``LogBrowser``."""
        return self._browser.visible()

    def download(self) -> str:
        """The log as text, "" for an unknown run. Raises InvalidInputError if it does not fit a response."""
        with self._browser.open_binary() as file:
            body = file.read(INLINE_BYTES + 1)
        text = decode_text(body)
        if len(body) > INLINE_BYTES or not fits_response(text):
            raise InvalidInputError(
                f"a log in another store is too large for one download: read it by position limit={INLINE_BYTES}"
            )
        return text

    def _views(self) -> Iterator[EventView]:
        line = 0
        for event in self._browser.events():
            view = _view(event, line)
            yield view
            line = view.end_line


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """Lines without their newlines. What is longer than a page is cut."""
    while raw := file.readline(RAW_BYTES):
        line = raw.removesuffix(b"\n")
        while raw and not raw.endswith(b"\n"):
            raw = file.readline(RAW_BYTES)
        yield line


def _view(event: Event, line: int) -> EventView:
    return EventView(
        id=event.id,
        writer=event.writer,
        line=line,
        lines=event.message.count("\n") + 1,
        timestamp=event.timestamp,
        level=event.level,
        step=event.step,
        message=event.message,
        data=event.data,
        annotations=[each.model_dump() for each in event.annotations],
        bytes=len(event.message.encode(errors="replace")) + 1,
    )


def _first_lines(part: LogText, start: int, max_lines: int | None) -> LogText:
    """A part of a log, cut to what a response may have."""
    body = part.text.encode()
    data = cut(body, max_lines, more=False)
    return part if len(data) == len(body) else LogText(decode_text(data), start + len(data), False)


def _too_late(first: int, read: int) -> DeadlineExceededError:
    return DeadlineExceededError(f"the other store did not return this part of the log in time line={first} read={read}")

"""Stores of events that are written by targets and read by browsers: fakes in memory, emulators and servers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from chalicelib.aws.cloudwatch_browser import CloudWatchBrowser
from chalicelib.aws.cloudwatch_logs import CloudWatchLogsTarget
from chalicelib.events.browsers.elasticsearch import ElasticsearchBrowser
from chalicelib.events.browsers.query_browser import QueryBrowser
from chalicelib.events.event import Event, Loggable, WriterEndEvent
from chalicelib.events.event_view import EventFilter
from chalicelib.events.forwarding import Forwarder
from chalicelib.events.ports import Target
from chalicelib.events.targets.elasticsearch import ElasticsearchTarget
from chalicelib.events.targets.transport import Transport
from chalicelib.ports import Clock, Run
from tests.vendors import LogsClient, Searchable, Wire

GRACE_MS = 3_600_000
_numbers = count()


class StoredWriter:
    """A writer that forwards numbered events to a store; the last one sent is the record of its end."""

    def __init__(self, target: Target, loggable: Loggable, clock: Clock, name: str) -> None:
        self._forwarder, self._loggable, self._clock, self._name = Forwarder(target, loggable, clock), loggable, clock, name
        self._count = self._last_ms = 0

    def write(self, message: str, step: str | None = None, ms: int | None = None, level: str | None = None) -> None:
        at_ms = self._clock.now_ms() if ms is None else ms
        data = self._loggable.mandatory_data(step)
        self._forwarder.add(Event(id=self._count, message=message, timestamp=at_ms, data=data, level=level, writer=self._name))
        self._count, self._last_ms = self._count + 1, max(self._last_ms, at_ms)

    def flush(self) -> None:
        self._forwarder.flush()

    def close(self, unsent: int = 0) -> None:
        """``unsent``: events that it counted and did not send."""
        end = WriterEndEvent(
            id=self._count + unsent,
            message="writer closed",
            timestamp=max(self._clock.now_ms(), self._last_ms),
            data=self._loggable.mandatory_data(),
            writer=self._name,
            last_timestamp_ms=self._last_ms if self._count else None,
        )
        self._forwarder.end(end)
        self._forwarder.close()


@dataclass
class StoredLog:
    """The log of one run in a store. ``refresh`` makes what was sent visible."""

    make_target: Callable[[], Target]
    make_browser: Callable[[Loggable], QueryBrowser]
    clock: Clock
    refresh: Callable[[], None] = lambda: None
    url: str = ""
    index: str = ""
    loggable: Loggable = field(default_factory=lambda: Loggable.of_run(Run("svc:orders*", f"run-{next(_numbers)}"), "here"))

    @property
    def browser(self) -> QueryBrowser:
        self.refresh()
        return self.make_browser(self.loggable)

    def writer(self, name: str, loggable: Loggable | None = None) -> StoredWriter:
        return StoredWriter(self.make_target(), loggable or self.loggable, self.clock, name)

    def send(self, *events: Event) -> None:
        assert self.make_target().send(self.loggable, events) == ()

    def event(self, number: int, message: str, ms: int, **more: Any) -> Event:
        data = more.pop("loggable", self.loggable).mandatory_data(more.pop("step", None))
        return Event(id=number, message=message, timestamp=self.clock.now_ms() + ms, data=data, **{"writer": "w", **more})


def in_elasticsearch(
    transport: Transport,
    clock: Clock,
    refresh: Callable[[], None] = lambda: None,
    index: str = "logs",
    url: str = "http://es:9200",
) -> StoredLog:
    return StoredLog(
        lambda: ElasticsearchTarget(transport, url, index),
        lambda loggable: ElasticsearchBrowser(transport, url, index, loggable, clock, GRACE_MS),
        clock,
        refresh,
        url,
        index,
    )


def in_searchable(vendor: Searchable, clock: Clock) -> StoredLog:
    return in_elasticsearch(Wire(vendor), clock)


def in_cloudwatch(client: Any, clock: Clock) -> StoredLog:
    return StoredLog(
        lambda: CloudWatchLogsTarget(client, "runs", event_bytes=500 if isinstance(client, LogsClient) else 262_144),
        lambda loggable: CloudWatchBrowser(client, "runs", loggable, clock, GRACE_MS),
        clock,
    )


def text_of(log: StoredLog, step: str | None = None) -> str:
    """The text by positions in bytes, each of which another browser reads."""
    text, start = "", 0
    while (answer := read_text(log.browser, start, step)).next != start:
        text, start = text + answer.text, answer.next
    return text


def read_text(browser: QueryBrowser, start: int, step: str | None, completed: bool = False) -> Any:
    return browser.overall_log(start) if step is None else browser.step_log(step, completed, start)


def paged(log: StoredLog, event_filter: EventFilter, limit: int) -> Iterator[Event]:
    """The events page by page, each of which another browser reads."""
    after, has_more = None, True
    while has_more:
        page = log.browser.page(event_filter, after, limit)
        assert len(page.events) <= limit
        yield from page.events
        after, has_more = page.after, page.has_more
    assert log.browser.page(event_filter, after, limit).events == []

"""Browsers of other stores read what writers sent, for any interleaving: on fakes, on emulators of CloudWatch Logs, on a server that is
compatible with OpenSearch, and with the vendors' clients."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest
from elasticsearch import Elasticsearch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opensearchpy import OpenSearch

from chalicelib.aws.clock import SystemClock
from chalicelib.aws.http import Urllib3Transport
from chalicelib.events.browsers.elasticsearch import ElasticsearchBrowser
from chalicelib.events.completeness import COMPLETE, PENDING
from chalicelib.events.event import Event, Loggable
from chalicelib.events.event_view import EventFilter
from chalicelib.events.targets.document import document
from chalicelib.lines.errors import level_of_text
from chalicelib.ports import Run
from tests.contract.conftest import client_of
from tests.sampling import examples, pick
from tests.stored_logs import StoredLog, in_cloudwatch, in_elasticsearch, in_searchable, paged, read_text, text_of
from tests.vendors import LogsClient, Searchable, VendorServers

FAKES = ("elasticsearch", "elasticsearch keyword", "elasticsearch flattened", "cloudwatch")
SERVERS = ("opensearch server", "cloudwatch moto", "cloudwatch ministack")
BACK_MS = 60_000
"""How long ago the events are: CloudWatch Logs refuses old ones."""
STEPS = (None, "a", "b c*")
MESSAGES = ("", "plain", "two\nlines\r\n", "ERROR ünï \U0001f600", '{"a": 1}', "x" * 700)
write = st.tuples(st.sampled_from("vwx"), st.sampled_from(STEPS), st.sampled_from(MESSAGES), st.integers(0, 3))
operations = st.lists(st.one_of(write, write, st.sampled_from("vwx"), st.none()), max_size=25)
"""Writes, flushes of a writer, and None: the log is read."""
FILTERS = (
    EventFilter(), EventFilter(step="a"), EventFilter(level="error"), EventFilter(text="line"), EventFilter(step="b c*", text="x"),
)  # fmt: skip


class Model:
    """Writers of a log, and its visible events."""

    def __init__(self, log: StoredLog) -> None:
        self.log, self.writers = log, {name: log.writer(name) for name in "vwx"}
        self.pending: dict[str, list[Event]] = {name: [] for name in "vwx"}
        self.counts = dict.fromkeys("vwx", 0)
        self.closed: set[str] = set()
        self.visible: list[Event] = []
        self.start_ms = log.clock.now_ms() - BACK_MS

    def write(self, writer: str, step: str | None, message: str, ms: int) -> None:
        at_ms = self.start_ms + ms
        self.writers[writer].write(message, step, at_ms)
        data = self.log.loggable.mandatory_data(step)
        level = level_of_text(message.encode())
        event = Event(id=self.counts[writer], message=message, timestamp=at_ms, data=data, writer=writer, level=level)
        self.counts[writer] += 1
        self.pending[writer].append(event)

    def flush(self, writer: str, *, is_last: bool = False) -> None:
        self.writers[writer].close() if is_last else self.writers[writer].flush()
        self.closed |= {writer} if is_last else set()
        self.visible = sorted([*self.visible, *self.pending[writer]], key=lambda event: (event.timestamp, event.writer, event.id))
        self.pending[writer] = []

    def text(self, step: str | None = None) -> str:
        return "".join(f"{event.message}\n" for event in self.visible if step is None or event.step == step)

    def matching(self, event_filter: EventFilter) -> list[Event]:
        times = (event for event in self.visible if event_filter.matches_time(event.timestamp))
        return [event for event in times if event_filter.matches(event)]


@pytest.fixture(params=[*FAKES, *(pytest.param(each, marks=pytest.mark.slow) for each in SERVERS)])
def log_kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def make_log(log_kind: str, request: pytest.FixtureRequest) -> Iterator[Any]:
    """A function that returns an empty log."""
    clock = SystemClock()
    store, _, detail = log_kind.partition(" ")
    with ExitStack() as stack:
        if store == "elasticsearch":
            yield lambda: in_searchable(Searchable(mapping=detail or "dynamic"), clock)
        elif store == "opensearch":
            yield lambda: request.getfixturevalue("opensearch_server")()
        elif not detail:
            yield lambda: in_cloudwatch(_small_pages(LogsClient(clock, event_bytes=500)), clock)
        else:
            client = stack.enter_context(closing(client_of("logs", request.getfixturevalue(f"{detail}_url"))))
            yield lambda: in_cloudwatch(client, clock)


def _small_pages(client: LogsClient) -> LogsClient:
    client.page_rows = 3
    return client


@pytest.fixture(scope="session")
def opensearch_server() -> Iterator[Any]:
    """A server that is compatible with OpenSearch, without analysis or storage, from PyPI."""
    osmem = pytest.importorskip("osmem_server")
    transport = Urllib3Transport()
    with ExitStack() as stack:
        server = osmem.OsmemServer.start()
        for pipe in (server.process.stdin, server.process.stdout, server.process.stderr):
            stack.callback(pipe.close) if pipe else None
        stack.callback(server.close)
        stack.callback(transport.close)
        numbers = iter(range(1_000_000))

        def make(index: str | None = None) -> StoredLog:
            index = index or f"logs-{next(numbers)}"
            return in_elasticsearch(
                transport,
                SystemClock(),
                lambda: transport.post(f"{server.url}/{index}/_refresh", {}, b"") and None,
                index,
                server.url,
            )

        yield make


@pytest.mark.behavior("Logs in Elasticsearch, OpenSearch and CloudWatch Logs are read there: all, a step, and pages, in one order.")
def test_any_interleaving_is_read_as_written(make_log: Any, log_kind: str) -> None:
    @settings(
        deadline=None, max_examples=examples(60) if log_kind in FAKES else pick(2, 3, 12), suppress_health_check=list(HealthCheck)
    )
    @given(operations, st.permutations("vwx"), st.integers(1, 4), st.integers(0, 3))
    def check(steps: list[Any], closing_order: list[str], limit: int, from_ms: int) -> None:
        model = Model(make_log())
        other = Loggable.of_run(Run(model.log.loggable.job_id or "", "another"), "here")
        noise = model.log.writer("v", other)
        noise.write("of another run", ms=model.start_ms)
        noise.close()
        for step in steps:
            if isinstance(step, tuple):
                model.write(*step)
            elif step:
                model.flush(step)
            else:
                assert_is_read(model, limit, from_ms)
        for writer in closing_order:
            assert_is_read(model, limit, from_ms)
            model.flush(writer, is_last=True)
        assert_is_read(model, limit, from_ms)
        completeness = model.log.browser.completeness()
        assert [(each.writer, each.count) for each in completeness.writers] == sorted(model.counts.items())
        assert completeness.state == COMPLETE
        assert all(read_text(model.log.browser, 0, step).complete for step in STEPS)

    check()


def assert_is_read(model: Model, limit: int, from_ms: int) -> None:
    """Every way of reading returns the visible events, once and in order."""
    log = model.log
    assert list(log.browser.events()) == model.visible
    assert text_of(log) == model.text() and log.browser.open_text().read() == model.text()
    assert text_of(log, "a") == model.text("a")
    lines = model.text().split("\n")[:-1]
    assert (log.browser.lines(limit), log.browser.lines(99)) == (lines[-limit:], lines)
    for event_filter in (*FILTERS, EventFilter(step="a", from_ms=model.start_ms + from_ms, to_ms=model.start_ms + 3)):
        assert list(paged(log, event_filter, limit)) == model.matching(event_filter)
    ids = {writer: {event.id for event in model.visible if event.writer == writer} for writer in "vwx"}
    visible = {
        writer: {each for low, high in its.ranges for each in range(low, high + 1)} for writer, its in log.browser.visible().items()
    }
    assert visible == {writer: its for writer, its in ids.items() if its}
    has_known_open = any(event.writer not in model.closed for event in model.visible)
    assert log.browser.completeness().state == (PENDING if has_known_open or not model.closed else COMPLETE)


def test_growing_log_is_read_by_one_browser_without_gaps_or_repeats(make_log: Any) -> None:
    log = make_log()
    browser, writer, read, after, expected = log.browser, log.writer("w"), {None: "", "a": ""}, None, list[str]()
    start = {None: 0, "a": 0}
    for number in range(12):
        writer.write(f"line {number}\n more", STEPS[number % 3], log.clock.now_ms() - BACK_MS + number // 4)
        writer.close() if number == 11 else writer.flush()
        log.refresh()
        for step in read:
            answer = read_text(browser, start[step], step, completed=True)
            read[step], start[step] = read[step] + answer.text, answer.next
            assert answer.complete == (number == 11), "a caller's word does not count while a writer is open"
        page = browser.page(EventFilter(), after)
        expected.append(f"line {number}\n more")
        assert [event.message for event in page.events] == [f"line {number}\n more"]
        after = page.after
    assert read[None] == "".join(f"{message}\n" for message in expected)
    assert read["a"] == "".join(f"{message}\n" for message in expected[1::3])
    assert browser.lines(3) == [" more", "line 11", " more"]


def test_deleted_log_is_empty_and_others_stay(make_log: Any) -> None:
    log = make_log()
    log.browser.delete()
    assert (text_of(log), log.browser.completeness().state) == ("", PENDING)
    other = make_log().loggable
    for loggable in (log.loggable, other):
        writer = log.writer("w", loggable)
        for number in range(2_500 if isinstance(log.browser, ElasticsearchBrowser) else 20):
            writer.write(str(number))
        writer.close()
    browser = log.browser
    assert (browser.completeness().state, browser.overall_log().text[:4]) == (COMPLETE, "0\n1\n")
    browser.delete()
    browser.delete()
    assert (text_of(log), browser.completeness().state) == ("", PENDING)
    writer = log.writer("w")
    writer.write("again")
    writer.close()
    log.refresh()
    assert (browser.completeness().state, text_of(log)) == (COMPLETE, "again\n")
    assert len(list(log.make_browser(other).events())) in (2_500, 20)


@pytest.mark.slow
@pytest.mark.parametrize(("make_client", "is_server"), [(Elasticsearch, False), (OpenSearch, False), (OpenSearch, True)])
def test_vendors_clients_read_the_same_index(make_client: Any, is_server: bool, request: pytest.FixtureRequest) -> None:
    """They get what the browser gets, so the stand-in answers as the clients expect."""
    vendor = Searchable()
    log = request.getfixturevalue("opensearch_server")("clients") if is_server else in_searchable(vendor, SystemClock())
    log.send(*(log.event(number, f"line {number}", number // 3) for number in range(10)))
    events = list(log.browser.events())
    with VendorServers({"es": vendor}) as there, closing(make_client(log.url if is_server else f"{there.url}/es")) as client:
        by_client, after = list[Any](), None
        while hits := _search(client, log, after)["hits"]["hits"]:
            by_client += [hit["_source"] for hit in hits]
            after = hits[-1]["sort"]
    assert by_client == [json.loads(json.dumps(document(event))) for event in events] and len(by_client) == 10


def _search(client: Any, log: StoredLog, after: Any) -> Any:
    body: dict[str, Any] = {
        "query": {"bool": {"filter": [{"term": {"data.loggableId.keyword": {"value": log.loggable.loggable_id}}}]}},
        "sort": [{"@timestamp": "asc"}, {"writer.keyword": "asc"}, {"id": "asc"}],
        "size": 4,
    } | ({"search_after": after} if after else {})
    if isinstance(client, OpenSearch):
        return client.search(index=log.index, body=body, params={"allow_partial_search_results": "false"})
    return client.search(index=log.index, allow_partial_search_results=False, **body)

"""Browsers of other stores: failures of the store, damaged answers, positions, mappings, late and missing events."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from chalicelib.aws import targets
from chalicelib.aws.browsers import make_browser
from chalicelib.errors import (
    DamagedLogError,
    DeadlineExceededError,
    InvalidConfigurationError,
    InvalidCursorError,
    InvalidInputError,
    RequestRefusedError,
    RunlakeError,
    StoreUnavailableError,
    UnavailableError,
)
from chalicelib.events.browsers import query_browser
from chalicelib.events.browsers.query import encode_position
from chalicelib.events.browsers.query_browser import BATCH_EVENTS, QueryBrowser
from chalicelib.events.choices import RunChoices
from chalicelib.events.completeness import COMPLETE, LOST, PENDING
from chalicelib.events.configuration import EventsConfiguration
from chalicelib.events.event import Loggable
from chalicelib.events.event_view import EventFilter
from chalicelib.events.options import OTHER_STORES
from chalicelib.events.registry import Context, Registry
from chalicelib.events.targets.configuration import target_of
from chalicelib.events.targets.document import document, parse_document, uid
from chalicelib.events.targets.transport import Answer
from chalicelib.ports import Run
from tests.stored_logs import GRACE_MS, StoredLog, in_cloudwatch, in_elasticsearch, in_searchable, paged, text_of
from tests.support.clock import ManualClock
from tests.vendors import LogsClient, Searchable, Wire
from tests.world import World

NOW_MS = 1_795_000_000_000
PARTIAL: Mapping[str, Callable[[dict[str, Any]], None]] = {
    "timed out": lambda answer: answer.update(timed_out=True),
    "a shard failed": lambda answer: answer["_shards"].update(failed=1),
}


def searchable(vendor: Searchable | None = None) -> StoredLog:
    return in_searchable(vendor or Searchable(), ManualClock(NOW_MS))


def cloudwatch(faults: Any = ()) -> tuple[StoredLog, LogsClient]:
    clock = ManualClock(NOW_MS)
    client = LogsClient(clock, faults, event_bytes=500)
    return in_cloudwatch(client, clock), client


def written(log: StoredLog) -> StoredLog:
    writer = log.writer("w")
    writer.write("x", "s")
    writer.close()
    return log


def test_log_is_read_in_every_way() -> None:
    for log in (searchable(), cloudwatch()[0]):
        writer = log.writer("w")
        for number, (message, step) in enumerate((("a", "s"), ("b\nc", None), ("d", "s"))):
            writer.write(message, step, NOW_MS - 9 + number)
        writer.flush()
        browser = log.browser
        with browser.open_binary() as binary, browser.open_text() as text:
            assert binary.read() == text.read().encode() == b"a\nb\nc\nd\n"
        assert [browser.lines(most) for most in (0, 2, 99)] == [[], ["c", "d"], ["a", "b", "c", "d"]]
        with pytest.raises(InvalidInputError, match="lines=-1"):
            browser.lines(-1)
        first = browser.step_log("s", False)
        assert (first.text, first.complete) == ("a\nd\n", False)
        assert browser.step_log("s", False, 2).text == "d\n" and browser.step_log("none", False).text == ""
        path = browser.log_file()
        assert path.read_text() == "a\nb\nc\nd\n"
        path.unlink()


def read_and_delete(browser: QueryBrowser) -> None:
    answer = browser.step_log("s", True)
    assert (answer.text, answer.complete, browser.completeness().state) == ("x\n", True, COMPLETE)
    browser.delete()


def is_reported(act: Callable[[], None]) -> bool:
    try:
        act()
    except UnavailableError:
        return True
    return False


@pytest.mark.parametrize("fault", [500, 429, 401, 403, "refused", "cut", "lost"])
def test_each_failed_request_to_elasticsearch_is_reported(fault: Any) -> None:
    """And a deletion can be repeated, whether or not the request took effect."""
    at, is_over = 0, False
    while not is_over:
        log = written(searchable(vendor := Searchable()))
        wire = Wire(vendor, [*[None] * at, fault])
        browser = in_elasticsearch(wire, log.clock).make_browser(log.loggable)
        is_over = not is_reported(lambda browser=browser: read_and_delete(browser))  # type: ignore[misc]
        at += not is_over
        assert is_over or len(wire.sent) == at
        log.browser.delete()
        assert text_of(log) == ""
    assert at == 10


@pytest.mark.parametrize("fault", [500, 429, "refused", "cut"])
def test_each_failed_request_to_cloudwatch_is_reported(fault: Any) -> None:
    at, is_over = 0, False
    while not is_over:
        log, client = cloudwatch()
        browser = written(log).browser
        client.fail_next([*[None] * at, fault])
        client.calls.clear()
        is_over = not is_reported(lambda browser=browser: read_and_delete(browser))  # type: ignore[misc]
        at += not is_over
        assert is_over or len(client.calls) == at
    assert at == 11


@pytest.mark.parametrize("kind", PARTIAL)
def test_partial_search_is_not_a_short_log(kind: str) -> None:
    log = searchable(vendor := Searchable())
    log.send(log.event(0, "x", 0))
    vendor.alter = PARTIAL[kind]
    with pytest.raises(StoreUnavailableError, match="partial"):
        log.browser.overall_log()


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (Answer(200, b"no"), StoreUnavailableError),
        (Answer(200, b"[]"), StoreUnavailableError),
        (Answer(200, b'{"timed_out": false}'), DamagedLogError),
        (
            Answer(200, b'{"timed_out": false, "_shards": {"failed": 0}, "hits": {"hits": [{"_source": {}, "sort": []}]}}'),
            DamagedLogError,
        ),
        (Answer(400, b'{"error": "no"}'), RequestRefusedError),
        (Answer(404, b'{"error": "no handler"}'), StoreUnavailableError),
        (Answer(302), StoreUnavailableError),
        (Answer(200, is_too_long=True), StoreUnavailableError),
    ],
)
def test_answers_that_cannot_be_read(answer: Answer, error: type[RunlakeError]) -> None:
    class Broken(Searchable):
        def handle(self, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
            return answer if "/_search" in url else super().handle(url, headers, body)

    log = searchable(Broken())
    log.send(log.event(0, "x", 0))
    with pytest.raises(error):
        list(log.browser.events())


def test_mapping_that_ignores_case_mixes_no_runs() -> None:
    """Whoever may read a pipeline may not read another one whose name differs only in case."""

    class Normalizing(Searchable):
        def _is_match(self, document: Any, query: Any) -> bool:
            ((kind, what),) = query.items()
            if kind != "term":
                return super()._is_match(document, query)
            ((name, wanted),) = what.items()
            return str(self._value(document, name)).lower() == wanted["value"].lower()

    log = searchable(Normalizing(mapping="keyword"))
    fqn, run_id = str(log.loggable.job_id), log.loggable.loggable_id
    other = Loggable.of_run(Run(fqn.upper(), run_id), "here")
    for number in range(3):
        log.send(log.event(number, f"own {number}", 2 * number))
        log.send(log.event(number, "foreign", 2 * number + 1, loggable=other))
    log.writer("w", other).close()
    assert text_of(log) == "own 0\nown 1\nown 2\n" and log.browser.lines(2) == ["own 1", "own 2"]
    assert [each.message for each in paged(log, EventFilter(), 1)] == ["own 0", "own 1", "own 2"]
    assert log.browser.completeness().state == PENDING


def test_answer_that_is_too_long_is_asked_for_in_parts() -> None:
    sizes = list[int]()

    class Small(Searchable):
        def handle(self, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
            if "/_search" in url:
                sizes.append(json.loads(body)["size"])
                if sizes[-1] > 3:
                    return Answer(200, is_too_long=True)
            return super().handle(url, headers, body)

    log = searchable(Small())
    log.send(*(log.event(number, str(number), 0) for number in range(7)))
    assert text_of(log) == "".join(f"{number}\n" for number in range(7))
    assert max(sizes[-3:]) <= 500 and min(sizes) == 3


@pytest.mark.parametrize("position", ["", "no", "é", "bm8=", encode_position([1]), encode_position(["a", "w", 0]), "A" * 5_000])
def test_invalid_positions_are_refused(position: str) -> None:
    for log in (searchable(), cloudwatch()[0]):
        log.send(log.event(0, "x", 0))
        with pytest.raises(InvalidCursorError):
            log.browser.page(EventFilter(), position)


@pytest.mark.parametrize(
    ("types", "error"),
    [
        ({"writer": {"text": {}}}, "field=writer"),
        ({"writer": {"text": {}, "keyword": {}}, "writer.keyword": {"keyword": {}}}, "field=writer"),
        ({"writer": {"keyword": {}}, "data.instanceId": {"long": {}}}, "field=data.instanceId"),
        ({"writer": {"keyword": {}}, "data": {"object": {}, "flattened": {}}}, "field=data.instanceId"),
    ],
)
def test_fields_that_cannot_be_compared_are_named(types: Any, error: str) -> None:
    class Mapped(Searchable):
        def handle(self, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
            answers = Answer(200, json.dumps({"fields": types}).encode())
            return answers if "/_field_caps" in url else super().handle(url, headers, body)

    log = searchable(Mapped())
    log.send(log.event(0, "x", 0))
    with pytest.raises(InvalidConfigurationError, match=error):
        log.browser.overall_log()


def test_long_name_needs_a_mapping() -> None:
    for mapping in ("dynamic", "keyword"):
        log = searchable(Searchable(mapping=mapping))
        log.loggable = Loggable.of_run(Run("p" * 300, "run"), "here")
        log.send(log.event(0, "x", 0))
        if mapping == "keyword":
            assert text_of(log) == "x\n"
            continue
        with pytest.raises(InvalidConfigurationError, match=r"field=data\.jobId"):
            text_of(log)


def test_late_and_missing_events_decide_completeness() -> None:
    for log in (searchable(), cloudwatch()[0]):
        writer = log.writer("w")
        writer.close()
        browser = log.browser
        assert browser.completeness().state == COMPLETE
        other = log.writer("v")
        for number in range(3):
            other.write(str(number), ms=log.clock.now_ms() - number)
        other.flush()
        assert [each.writer for each in browser.completeness().writers if not each.closed] == ["v"]
        other.close()
        assert (browser.completeness().state, browser.overall_log().complete) == (COMPLETE, True)
        lacking = log.writer("u")
        lacking.write("sent")
        lacking.close(unsent=2)
        for state in (PENDING, LOST):
            found = browser.completeness()
            assert (found.state, found.lost) == (state, ["u"] if state == LOST else [])
            assert browser.overall_log().complete == (state == LOST)
            assert [each.missing for each in found.writers if each.writer == "u"] == [[(1, 2)]]
            log.clock.advance(GRACE_MS / 1000 + 1)  # type: ignore[attr-defined]
        log.send(log.event(2, "late", -90_000_000, writer="u"), log.event(1, "late", -90_000_000, writer="u"))
        assert browser.completeness().state == COMPLETE


def test_visible_ids_include_events_that_arrived_late() -> None:
    log = in_searchable(Searchable(), ManualClock(NOW_MS))
    browser = log.browser
    log.send(log.event(1, "second", 1))
    assert browser.visible()["w"].ranges == ((1, 1),)
    log.send(log.event(0, "first", 0))
    assert browser.visible()["w"].ranges == ((0, 1),)


def test_log_that_ends_while_it_is_read_is_not_complete_without_its_last_events() -> None:
    """The text is read, then the writer sends its last event and is closed, then the records of closed writers are read."""

    class Racing(Searchable):
        def handle(self, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
            if "/_search" in url and "must_not" not in json.loads(body)["query"]["bool"]:
                writer.close()
            return super().handle(url, headers, body)

    log = searchable(Racing())
    writer = log.writer("w")
    writer.write("first")
    writer.flush()
    writer.write("last")
    browser = log.browser
    answers = [browser.overall_log(), browser.overall_log(len("first\n"))]
    assert [(answer.text, answer.complete) for answer in answers] == [("first\n", False), ("last\n", True)]


def test_repeated_and_foreign_rows_of_cloudwatch() -> None:
    log, client = cloudwatch()
    long = log.event(1, "é\n" * 300, 0)
    for _ in range(2):
        log.send(log.event(0, "a", 0), long)
    (stream,) = client.groups["runs"].values()
    stream[:0] = [{"timestamp": NOW_MS, "message": text} for text in ("plain", '{"uid": 1}', "plain")]
    other = Loggable.of_run(Run("svc:orders*", log.loggable.loggable_id), "another installation")
    stream.append({"timestamp": NOW_MS, "message": json.dumps(document(long.model_copy(update={"data": other.mandatory_data()})))})
    cut_short = log.event(9, "y" * 700, 1)
    log.send(cut_short)
    stream.pop()
    for limit in (1, 2, 5):
        found = list(paged(log, EventFilter(), limit))
        assert [event.message for event in found] == ["plain", '{"uid": 1}', "plain", "a", long.message]
    assert found[-1] == long and found[0].data == log.loggable.mandatory_data()
    stream.insert(0, {"timestamp": NOW_MS + 5, "message": "x"})
    client.get_log_events = lambda **_: {"events": stream, "nextForwardToken": "f/1"}  # type: ignore[method-assign]
    with pytest.raises(DamagedLogError, match="order"):
        log.browser.overall_log()


@pytest.mark.parametrize("starts", [(0,), (2, 0, 1)])
def test_many_events_of_one_millisecond_are_read_within_bounds(starts: Sequence[int]) -> None:
    log, client = cloudwatch()
    events = [log.event(number, str(number), 0) for number in range(3_000)]
    for at in starts:
        log.send(*events[at :: len(starts)])
    client.calls.clear()
    assert list(log.browser.events()) == events
    pages, requests = len(events) // BATCH_EVENTS, len(events) // (BATCH_EVENTS + 1) + 3
    assert client.calls == ["GetLogEvents"] * (pages * requests), "each page reads the complete millisecond"
    for few in range(2, 6):
        log, client = cloudwatch()
        events = [log.event(number, str(number), 0) for number in range(few)]
        log.send(*events)
        assert list(paged(log, EventFilter(), 1)) == events, "the last page is full"


def test_text_continues_within_a_message_and_after_it_grew() -> None:
    log = searchable()
    text = "".join(f"{'y' * (number % 90)}{number}\n" for number in range(40_000))
    big = log.event(0, text[:-1], 0)
    log.send(big, log.event(1, "tail", 1))
    browser, read, start = log.browser, "", 0
    while (answer := browser.overall_log(start)).text:
        read, start = read + answer.text, answer.next
    assert read == text + "tail\n" and not answer.complete
    log.send(log.event(2, "more", 2))
    assert browser.overall_log(start).text == "more\n" and browser.overall_log(start - 5).text == "tail\nmore\n"
    assert browser.overall_log(start + 100).text == ""


def test_log_and_ids_are_read_within_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call of a browser in a request begins no search after ``MAX_TIME_S``; a repeated one of the same browser continues."""

    class Slow(Searchable):
        def _search(self, asked: Any, query: Any) -> dict[str, Any]:
            log.clock.sleep(3)
            return super()._search(asked, query)

    log = in_searchable(vendor := Slow(), ManualClock(NOW_MS))
    log.send(*(log.event(number, "x", 0) for number in range(5 * BATCH_EVENTS)))
    browser, batch = log.browser, 2 * BATCH_EVENTS
    for _ in range(2):
        vendor.paths.clear()
        with pytest.raises(DeadlineExceededError):
            browser.overall_log(5 * batch - 2)
        assert vendor.paths.count("logs/_search") == 2
    assert browser.overall_log(5 * batch - 2).text == "x\n"
    first = log.browser.overall_log()
    assert (first.text, first.complete) == ("x\n" * 2 * BATCH_EVENTS, False)
    assert [(each.writer, each.ranges) for each in log.browser.visible().values()] == [("w", ((0, 5 * BATCH_EVENTS - 1),))]
    monkeypatch.setattr(query_browser, "BATCH_KEYS", BATCH_EVENTS)
    with pytest.raises(DeadlineExceededError):
        log.browser.visible()


@pytest.mark.parametrize(
    "change",
    [{"id": "1"}, {"id": -1}, {"message": None}, {"@timestamp": 5}, {"@timestamp": "yesterday"}, {"data": []}, {"annotations": [1]},
     {"writerEnd": {}}, {"writerEnd": None}],
)  # fmt: skip
def test_document_that_is_no_event_is_damaged_and_its_values_stay_private(change: dict[str, Any]) -> None:
    log = searchable()
    fields = document(log.event(1, "geheim", 0))
    assert parse_document(fields) == log.event(1, "geheim", 0)
    assert parse_document(fields | {"@timestamp": "2026-11-18T08:26:40.123456789+01:00"}).timestamp == 1_794_986_800_123
    with pytest.raises(DamagedLogError) as caught:
        parse_document(fields | change)
    assert "geheim" not in str(caught.value) and uid(log.event(1, "", 0)) not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "options", "error"),
    [
        ("elasticsearch", {"url": "https://es:9200", "index": "logs", "headers": {"Authorization": "ApiKey x"}}, None),
        ("opensearch", {"url": "https://es:9200", "index": "logs"}, None),
        ("cloudwatch", {"group": "runs", "region": "eu-central-1"}, None),
        ("elasticsearch", {"index": "logs"}, "field=elasticsearch.url"),
        ("cloudwatch", {"group": "a b"}, "field=cloudwatch.group"),
        ("cloudwatch", {"group": "runs", "kind": "otlp"}, "field=kind"),
    ],
)
def test_registry_builds_browsers_from_documents_of_targets(name: str, options: Any, error: str | None) -> None:
    def build(document: Any, loggable: Loggable) -> Any:
        return make_browser(target_of(document), loggable, ManualClock(NOW_MS), GRACE_MS)

    world, configuration = World(), EventsConfiguration(browser=name, browsers={name: options})
    choices = RunChoices(world.store, world.layout, configuration)
    registry = Registry(Context(world.clock, GRACE_MS, build), configuration, choices)
    loggable = Loggable.of_run(Run("svc", "run-1"), "here")
    if error is None:
        assert name in OTHER_STORES and type(registry.open_browser(loggable)).__name__.endswith("Browser")
        return
    with pytest.raises(InvalidConfigurationError, match=error):
        registry.open_browser(loggable)


def test_request_that_hangs_ends_before_the_function_does(monkeypatch: pytest.MonkeyPatch) -> None:
    timeouts: list[float] = []
    monkeypatch.setattr(targets, "Urllib3Transport", lambda connect_s, read_s, **_: timeouts.append(connect_s + read_s))
    target = target_of({"kind": "elasticsearch", "url": "https://es.example.com", "index": "logs"})
    make_browser(target, Loggable.of_run(Run("svc.a", "r"), "here"), ManualClock(NOW_MS), GRACE_MS)
    (timeout_s,) = timeouts
    assert 2 * timeout_s < 29


def test_stores_that_cannot_be_read_are_named() -> None:
    with pytest.raises(InvalidConfigurationError, match="kind=otlp"):
        make_browser(target_of({"kind": "otlp", "url": "https://o"}), Loggable.of_run(Run("svc", "r"), "here"), ManualClock(0), 0)

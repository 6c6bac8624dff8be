"""The live stream over HTTP: frames for a plain ``EventSource``, each line once, an end, and recovery from failures."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from chalicelib.errors import IdentityUnavailableError, StoreUnavailableError
from chalicelib.ports import PutOptions, Run
from chalicelib.runlog.batch import Batch
from chalicelib.runlog.following import HOLD_S
from chalicelib.runlog.tombstones import Tombstone, put_tombstone
from tests.faults.interception import Intercepted
from tests.functional.gateway import Answer, Context, call, get, installed, post
from tests.issuer import JWT, Issuer, bearer
from tests.support.log_page import LogPage
from tests.support.run_catalog import InMemoryRunCatalog
from tests.world import World

RUN_PATH, STREAM = "svc.pipe/run-1", "svc.pipe/stream/run-1"
RUN = Run("svc.pipe", "run-1")
LAMBDA_BYTES = 6 * 1024 * 1024


@dataclass
class EventSource:
    """A browser's ``EventSource`` by the standard: fields, the last event id, dispatched events."""

    url: str = STREAM
    last_event_id: str = ""
    retry_ms: int = 3000
    events: list[dict[str, Any]] = field(default_factory=list)
    comments: list[str] = field(default_factory=list)

    def connect(self, **options: Any) -> Answer:
        headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": self.last_event_id} if self.last_event_id else {})
        answer = get(self.url, headers=headers, **options)
        assert answer.status == 200 and answer.headers["Content-Type"].startswith("text/event-stream")
        assert len(json.dumps({"body": answer.body})) < LAMBDA_BYTES
        self._read(answer.body)
        return answer

    def _read(self, body: str) -> None:
        data: list[str] = []
        for line in re.split("\r\n|\n|\r", body):
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            match name:
                case "" if line:
                    self.comments.append(value)
                case "" if data:
                    self.events.append(json.loads("\n".join(data)))
                    data = []
                case "data":
                    data.append(value)
                case "id":
                    self.last_event_id = value
                case "retry":
                    self.retry_ms = int(value)
        assert not data, "an event that no empty line ends is not dispatched"

    @property
    def lines(self) -> list[str]:
        return [line for event in self.events for line in event.get("logs", "").split("\n")[:-1]]


@pytest.fixture
def world() -> Iterator[World]:
    with installed(World()) as world:
        yield world


@pytest.mark.behavior("A live run can be followed to its end with server-sent events.")
def test_a_run_is_followed_to_its_end(world: World) -> None:
    source = EventSource()
    source.connect()
    continues = {"eventType": "complete", "runId": "run-1", "after": "0", "reason": "maxDuration"}
    assert (source.events, source.last_event_id, source.retry_ms) == ([continues], "0", 250)
    post(RUN_PATH, '"one\\ntwo"')
    source.connect()
    assert source.events[1:] == [
        {"eventType": "logs", "runId": "run-1", "logs": "one\ntwo\n", "after": "2", "replay": True, "cut": False},
        continues | {"after": "2"},
    ]
    assert source.last_event_id == "2"
    source.connect()
    assert source.events[3:] == [continues | {"after": "2"}]
    post(RUN_PATH, '"three"')
    post(f"{RUN_PATH}/close")
    source.connect()
    assert source.lines == ["one", "two", "three"]
    assert source.events[-1] == {"eventType": "complete", "runId": "run-1", "after": "3", "reason": "runFinished"}


def test_the_frames_letter_by_letter(world: World) -> None:
    post(RUN_PATH, '"a\\rb\\u2028c"')
    post(f"{RUN_PATH}/close")
    answer = get(STREAM)
    assert answer.body == (
        "retry: 250\n\n"
        'id: 1\ndata: {"eventType":"logs","runId":"run-1","logs":"a\\rb\\u2028c\\n","after":"1","replay":true,"cut":false}\n\n'
        'id: 1\ndata: {"eventType":"complete","runId":"run-1","after":"1","reason":"runFinished"}\n\n'
    )
    assert answer.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize(
    ("query", "last_event_id", "told"),
    [
        ("", None, ["0", "1", "2", "3"]),
        ("?after=1", None, ["1", "2", "3"]),
        ("?after=1", "3", ["3"]),
        ("?after=1", "0", ["0", "1", "2", "3"]),
        ("?after=1", "nonsense", ["1", "2", "3"]),
        ("?after=nonsense", None, ["0", "1", "2", "3"]),
        ("?tail=2", None, ["2", "3"]),
        ("?tail=2", "1", ["1", "2", "3"]),
        ("?tail=0", None, []),
        ("?tail=2&after=1", None, ["1", "2", "3"]),
        ("?tail=2&after=nonsense", None, ["2", "3"]),
    ],
)
def test_where_a_viewer_begins(world: World, query: str, last_event_id: str | None, told: list[str]) -> None:
    post(RUN_PATH, '"0\\n1\\n2\\n3"')
    source = EventSource(STREAM + query, last_event_id or "")
    source.connect()
    assert source.lines == told and source.last_event_id == "4"


def test_stream_waits_no_longer_than_the_functions_time(world: World) -> None:
    EventSource().connect()
    assert world.clock.monotonic_s() == HOLD_S
    EventSource().connect(context=Context(remaining_ms=10_000))
    assert world.clock.monotonic_s() == HOLD_S + 7
    EventSource().connect(context=Context(remaining_ms=500))
    assert world.clock.monotonic_s() == HOLD_S + 7


@pytest.mark.parametrize(
    ("wait", "held_s"),
    [("0", 0), ("0.5", 0.5), ("7", 7), ("26", HOLD_S), ("99999", HOLD_S), ("-1", HOLD_S), ("nan", HOLD_S), ("", HOLD_S)],
)
def test_wait_that_is_no_number_of_seconds_is_the_default(world: World, wait: str, held_s: float) -> None:
    """Without any wait a client would send request after request."""
    EventSource(f"{STREAM}?wait={wait}").connect()
    assert world.clock.monotonic_s() == held_s


@pytest.mark.slow
@pytest.mark.parametrize(
    "line", ["x" * 1_000_000, "\x01" * 700_000, "😀" * 250_000, "\u2028" * 300_000, "\r" * 1000, "data: x\\n\\n"]
)
def test_large_and_odd_lines_fit_an_answer(world: World, line: str) -> None:
    post(RUN_PATH, json.dumps("before"))
    source = EventSource()
    source.connect()
    for _ in range(6):
        post(RUN_PATH, json.dumps(line))
    while len(source.lines) < 7:
        source.connect()
    assert source.lines == ["before"] + [line] * 6


def test_the_next_request_is_sent_at_once_while_more_is_there(world: World) -> None:
    post(RUN_PATH, json.dumps("\n".join("x" * 1000 for _ in range(4000))))
    source = EventSource()
    source.connect()
    assert source.retry_ms == 0 and 0 < len(source.lines) < 4000
    source.connect()
    assert source.retry_ms == 250 and len(source.lines) == 4000


@pytest.mark.parametrize(
    ("until", "reason"), [("20300101", "maxDuration"), ("20200101", "untilReached"), ("20301301", "maxDuration")]
)
def test_until_can_be_a_date_of_eight_digits(world: World, until: str, reason: str) -> None:
    source = EventSource(f"{STREAM}?until={until}")
    source.connect()
    assert source.events[-1]["reason"] == reason


def test_until_is_final() -> None:
    with installed(World()) as world:
        post(RUN_PATH, '"one"')
        page = page_of(world).follow(query=f"?until={world.clock.now_ms() + 40_000}")
    assert (page.logs, page.reasons, page.requests) == ("one\n", ["maxDuration", "maxDuration", "untilReached"], 3)


def test_a_store_that_is_away_interrupts_the_stream() -> None:
    world, is_away = World(), [False]

    def gate(_: str, call: Any) -> Any:
        if is_away[0]:
            raise StoreUnavailableError("the store is away")
        return call()

    with installed(world, store=Intercepted(world.store, gate)):
        post(RUN_PATH, '"one"')
        source = EventSource()
        source.connect()
        is_away[0] = True
        source.connect()
        assert source.events[-1] == {"eventType": "interrupted", "runId": "run-1", "message": "the store is away"}
        assert (source.last_event_id, source.retry_ms) == ("1", 1000)
        is_away[0] = False
        post(RUN_PATH, '"two"')
        source.connect()
        assert source.lines == ["one", "two"]


def test_keys_that_are_away_interrupt_the_stream() -> None:
    issuer = Issuer()
    with installed(World(), keys=issuer.read, **JWT):
        issuer.failure = IdentityUnavailableError("the keys are away")
        headers = bearer(issuer.granted(logs_read=["*"]))
        assert get("svc.pipe/run-1", headers=headers).status == 503
        answer = get(STREAM, headers=headers)
    assert (answer.status, answer.headers["Content-Type"]) == (200, "text/event-stream; charset=utf-8")
    assert "interrupted" in answer.body and "complete" not in answer.body and answer.body.startswith("retry: 1000\n")


def test_defect_of_the_service_is_no_interruption() -> None:
    """A client that repeats the request would get it again and again."""
    world = World()

    def gate(_: str, call_store: Any) -> Any:
        raise RuntimeError("a defect")

    with installed(world, store=Intercepted(world.store, gate)):
        answer = get(STREAM)
    assert (answer.status, answer.json["message"]) == (500, "internal server error")


def test_a_damaged_log_is_a_permanent_error(world: World) -> None:
    post(RUN_PATH, '"one"')
    world.store.put(world.layout.segment(RUN, 1), b"two\n", PutOptions(metadata={"kind": "?"}))
    page = page_of(world).follow()
    assert page.is_done and page.error and page.requests == 1


@pytest.mark.parametrize("query", ["", "?after=3", "?tail=2"])
def test_stream_of_an_expired_run_is_a_permanent_error(world: World, query: str) -> None:
    """At once: no line follows. A new run of the same name is followed."""
    put_tombstone(world.store, world.layout, Tombstone(RUN.fqn, RUN.run_id, "age", 0, "plan-1", 2, 1, 3, 4, 5))
    before_ms = world.clock.now_ms()
    page = page_of(world).follow(query=query)
    assert page.is_done and "has expired" in page.error and page.requests == 1 and world.clock.now_ms() == before_ms
    starts = f"/v1/events/{RUN.fqn}/{RUN.run_id}/starts/s"
    assert call("PUT", starts, "{}", {"Content-Type": "application/json"}).status == 200
    source = EventSource()
    source.connect()
    assert "reason" in source.events[-1], "a new run without lines is waited for"
    post(RUN_PATH, '"one"')
    post(f"{RUN_PATH}/close")
    assert page_of(world).follow().reasons == ["runFinished"]


# OpenMetadata's page


def page_of(world: World) -> LogPage:
    """The page: an answer takes no time but what the function waits."""

    def read(path: str) -> tuple[int, str]:
        answer = call("GET", path)
        return answer.status, answer.body

    return LogPage("svc.pipe", "run-1", read, world.clock.sleep)


@pytest.mark.behavior("OpenMetadata's log page follows a live run without pauses after failures.")
def test_page_follows_a_run_with_a_line_every_300_ms() -> None:
    """A minute; the writer is the clock: a line is appended at its time, whether the function waits or not."""
    lines, due_s = [f"line {number}" for number in range(200)], 0.3
    world = World()

    def gate(_: str, call_store: Any) -> Any:
        while appended < len(lines) and world.clock.monotonic_s() >= appended * due_s:
            append_next()
        return call_store()

    appended = 0

    def append_next() -> None:
        nonlocal appended
        appended += 1
        world.parts().writer.append(RUN, Batch.from_text(lines[appended - 1] + "\n"))
        if appended == len(lines):
            world.parts().finalizer.close(RUN)

    with installed(world, store=Intercepted(world.store, gate)):
        page = page_of(world).follow()
    assert page.logs.splitlines() == lines
    assert (page.backoffs, page.end_reason, page.health, page.is_truncated) == ([], "runFinished", "live", False)
    assert world.clock.monotonic_s() <= len(lines) * due_s + 2, "the end is shown within two seconds"
    assert page.requests <= len(lines) + 1


@pytest.mark.parametrize("is_known", [True, False])
def test_page_of_a_quiet_run_sends_one_request_per_wait(is_known: bool) -> None:
    with installed(World(), viewer_idle_minutes=1) as world:
        if is_known:
            post(RUN_PATH, '"one"')
        page = page_of(world).follow(most_requests=11)
        assert (page.is_done, page.backoffs) == (False, [])
        assert world.clock.monotonic_s() >= 10 * HOLD_S
        assert page.reasons[-1] == ("idleTimeout" if is_known else "maxDuration")


@pytest.mark.parametrize(("query", "logs"), [("?tail=2", "2\n3\n"), ("?tail=0", ""), ("?after=1", "2\n3\n")])
def test_a_page_whose_address_names_its_beginning_gets_each_line_once(query: str, logs: str) -> None:
    with installed(World()) as world:
        post(RUN_PATH, '"1\\n2\\n3"')
        page = page_of(world).follow(most_requests=3, query=query)
        post(RUN_PATH, '"4"')
        post(f"{RUN_PATH}/close")
        page.follow(query=query)
    assert (page.logs, page.end_reason) == (f"{logs}4\n", "runFinished")


def test_page_survives_failures_and_continues_at_its_place() -> None:
    world, failing = World(), [False]

    def gate(_: str, call_store: Any) -> Any:
        if failing[0] and world.clock.monotonic_s() < 12:
            raise StoreUnavailableError("the store is away")
        return call_store()

    with installed(world, store=Intercepted(world.store, gate)):
        post(RUN_PATH, '"one"')
        page = page_of(world).follow(most_requests=1)
        failing[0] = True
        page.follow(most_requests=12)
        post(RUN_PATH, '"two"')
        post(f"{RUN_PATH}/close")
        page.follow()
    assert (page.logs, page.end_reason, page.error) == ("one\ntwo\n", "runFinished", None)
    assert page.backoffs == [1.0] * 12, "each response was a success without an end"


def test_page_stops_at_the_limit_of_bytes_and_reads_the_log_by_pages() -> None:
    with installed(World(), stream_max_bytes=6) as world:
        for number in range(3):
            post(RUN_PATH, f'"{number}"')
        page = page_of(world).follow()
        assert (page.logs, page.reasons) == ("0\n1\n2\n", ["maxBytes"])
        for source in (EventSource(last_event_id="3"), EventSource(f"{STREAM}?tail=3")):
            source.connect()
            assert source.events[-1]["reason"] == "maxDuration", "other clients have no limit"


def test_page_reads_the_history_by_pages() -> None:
    lines, runs, world = [f"line {number}" for number in range(2500)], InMemoryRunCatalog(), World()
    entry = world.parts().writer.append(RUN, Batch.from_text("\n".join(lines))).entry
    assert entry
    runs.record_segment(RUN, entry)
    with installed(world, runs=runs):
        texts = page_of(world).history("svc.pipe")
    assert len(texts) == 3 and "\n".join(texts).splitlines() == lines


@pytest.mark.parametrize("path", ["a%00b/stream/run-1", "svc/stream/a%2Fb", "svc/stream/last", "%FF/stream/run-1"])
def test_names_that_cannot_be(world: World, path: str) -> None:
    answer = get(path)
    assert (answer.status, answer.json["code"]) == (400, 400)


@pytest.mark.parametrize("fqn", ["a/b.c", "a%2Fb.c"])
def test_names_with_slashes(world: World, fqn: str) -> None:
    post(f"{fqn}/run-1", '"one"')
    source = EventSource(f"{fqn}/stream/run-1")
    source.connect()
    assert source.lines == ["one"]

"""Forwarding from a position: no event is skipped. Targets of a configuration, and places of annotations in masked text."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from chalicelib.errors import InvalidConfigurationError, TargetUnavailableError
from chalicelib.events.event import Annotation, Event, Loggable
from chalicelib.events.forwarding import Forwarder, RetryPolicy
from chalicelib.events.ports import Limits, Refused
from chalicelib.events.run_forwarding import ApiSource, EventBatch, event_of, follow, forward
from chalicelib.events.targets.configuration import TargetConfiguration, parsed_target, target_of, target_over_http
from chalicelib.events.targets.elasticsearch import ElasticsearchTarget
from chalicelib.events.targets.shippers import ShipperTarget, logstash_record
from chalicelib.masking.mask import Edit
from chalicelib.masking.offsets import OffsetMap
from tests.faults.interception import Crash
from tests.support.clock import ManualClock
from tests.unit.test_event_targets import LOGGABLE, NOW_MS, es, events_of
from tests.vendors import Bulk, Otlp, Shipper, Wire

QUIET = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


# Forwarding from a position


class Log:
    """A browser of a growing log."""

    def __init__(self, count: int) -> None:
        self.all = events_of(count)
        self.shown = count

    def events(self) -> Iterator[Event]:
        return iter(self.all[: self.shown])


class BrowserSource:
    """The events of a log browser; a position is the number of events before it, which are read again."""

    def __init__(self, browser: Log, is_complete: Callable[[], bool] = lambda: True) -> None:
        self._browser, self._is_complete = browser, is_complete

    def pages(self, position: str | None) -> Iterator[EventBatch]:
        """See the port."""
        at = int(position or 0)
        rest = islice(self._browser.events(), at, None)
        while events := list(islice(rest, 1_000)):
            at += len(events)
            yield EventBatch(events, str(at))

    def is_complete(self) -> bool:
        """See the port."""
        return self._is_complete()


@pytest.mark.sampled(default=5)
@pytest.mark.slow
@pytest.mark.parametrize("stop", range(1, 12))
def test_forwarding_continues_from_the_settled_position(stop: int) -> None:
    """The target fails at the nth request; all events before the saved position are settled, and the next call sends the rest."""
    bulk, kept = Bulk(), list[str]()
    log, source = Log(4_500), BrowserSource(Log(4_500))
    kit = es([None] * (stop - 1) + [503] * 9, vendor=bulk)
    small = _Small(kit.target)
    first = Forwarder(small, LOGGABLE, kit.clock, policy=RetryPolicy(attempts=2), random=Random(1))
    try:
        forward(source, first, None, kept.append)
        assert stop > 9
    except TargetUnavailableError:
        assert len(bulk.documents) >= int(kept[-1] if kept else 0)
        assert len(bulk.documents) - int(kept[-1] if kept else 0) < 1_500
    rest = Forwarder(es(vendor=bulk).target, LOGGABLE, kit.clock)
    assert forward(source, rest, kept[-1] if kept else None, kept.append) == "4500" == kept[-1]
    assert [each["id"] for each in bulk.documents.values()] == [event.id for event in log.all]
    assert kept == sorted(kept, key=int)


class _Small:
    def __init__(self, inner: Any) -> None:
        from chalicelib.events.ports import Limits

        self.limits, self.size, self.send, self.close = Limits(500, 1 << 30), inner.size, inner.send, inner.close


@pytest.mark.behavior("Forwarding that is interrupted at any request continues and loses no event.")
@pytest.mark.sampled(default=4)
@pytest.mark.slow
@pytest.mark.parametrize("is_applied", [False, True])
@pytest.mark.parametrize("stop", range(1, 10))
def test_crash_and_restart_at_every_request(stop: int, is_applied: bool) -> None:
    """The process dies at the nth request, before or after it was applied: the saved position is never ahead of the target."""

    class Stopping(Wire):
        def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Any:
            is_last = len(self.sent) == stop - 1
            if is_last and not is_applied:
                raise Crash
            answer = super().post(url, headers, body)
            if is_last:
                raise Crash
            return answer

    log = BrowserSource(Log(4_500))
    for there, make in (
        (Bulk(), lambda wire: ElasticsearchTarget(wire, "https://es", "logs")),
        (Shipper(), lambda wire: ShipperTarget(wire, "http://l", logstash_record)),
    ):
        kept = list[str]()
        with pytest.raises(Crash):
            forward(log, Forwarder(_Small(make(Stopping(there))), LOGGABLE, ManualClock(0)), None, kept.append)
        found = list(there.documents.values()) if isinstance(there, Bulk) else there.records
        assert int(kept[-1] if kept else 0) <= len(found)
        forward(log, Forwarder(make(Wire(there)), LOGGABLE, ManualClock(0)), kept[-1] if kept else None, kept.append)
        ids = [each["id"] for each in (there.documents.values() if isinstance(there, Bulk) else there.records)]
        assert sorted(set(ids)) == list(range(4_500)) and kept[-1] == "4500"
        if isinstance(there, Bulk):
            assert ids == list(range(4_500)), "each once, in order"


def test_position_stays_before_a_deferred_event() -> None:
    """Other events of its batch are accepted, then the target fails: the next call begins at the deferred event."""
    calls = []

    def reject(found: Mapping[str, Any]) -> int:
        calls.append(found["id"])
        return 429 if found["id"] == 0 and len(calls) <= 5 else 201

    bulk, kept = Bulk(reject), list[str]()
    kit = es([None] + [503] * 3, vendor=bulk)
    first = Forwarder(kit.target, LOGGABLE, kit.clock, policy=RetryPolicy(attempts=3), random=Random(1))
    with pytest.raises(TargetUnavailableError):
        forward(BrowserSource(Log(5)), first, None, kept.append)
    assert len(bulk.documents) == 4 and kept == [] and first.done == 0
    forward(BrowserSource(Log(5)), Forwarder(es(vendor=bulk).target, LOGGABLE, kit.clock), None, kept.append)
    assert len(bulk.documents) == 5 and kept == ["5"]


def test_a_live_run_is_followed_until_it_is_complete() -> None:
    log, kit, kept = Log(100), es(), list[str]()
    log.shown = 10
    clock = ManualClock(0)

    def grow(_: float) -> None:
        log.shown = min(log.shown + 30, 100)

    clock.sleep = grow  # type: ignore[method-assign]
    source = BrowserSource(log, lambda: log.shown == 100)
    assert follow(source, Forwarder(kit.target, LOGGABLE, kit.clock), clock, None, kept.append) == "100"
    assert kit.received() == log.all and kept == ["10", "40", "70", "100"]


@pytest.mark.parametrize(("times", "wanted"), [((0, 0, 5, 0, 7, 0), (5, 5, 5, 5, 7, 7)), ((0, 0), (NOW_MS, NOW_MS))])
def test_lines_without_a_time_have_that_of_the_event_before_them(times: Sequence[int], wanted: Sequence[int]) -> None:
    log, kit = Log(len(times)), es()
    log.all = [each.model_copy(update={"timestamp": ms}) for each, ms in zip(log.all, times, strict=True)]
    forward(BrowserSource(log), Forwarder(kit.target, LOGGABLE, kit.clock))
    assert [each.timestamp for each in kit.received()] == list(wanted)


class Api:
    """The events of a run over HTTP: pages of three with a cursor, none after the last."""

    def __init__(self, events: Sequence[Event]) -> None:
        self.events = list(events)
        self.asked: list[Mapping[str, str]] = []

    def get(self, path: str, query: Mapping[str, str]) -> Any:
        if path == "/completeness":
            return {"state": "complete"}
        self.asked.append(query)
        at = int(query.get("after", "0").removeprefix("c"))
        page = self.events[at : at + 3]
        behind = f"c{at + 3}" if at + 3 < len(self.events) else None
        more = {"line": 1, "lines": 1, "step": None}
        return {"events": [{**json.loads(each.model_dump_json()), **more} for each in page], "after": behind}


@pytest.mark.parametrize("cut", range(8))
def test_events_are_read_over_http_from_a_growing_log(cut: int) -> None:
    events, kit = events_of(8), es()
    position = None
    for shown in (cut, cut, 8):
        source = ApiSource(Api(events[:shown]).get)
        position = forward(source, Forwarder(kit.target, LOGGABLE, kit.clock), position)
        assert kit.received() == events[:shown]
    assert source.is_complete()
    api = Api(events)
    list(ApiSource(api.get).pages(position))
    assert [query.get("after") for query in api.asked] == ["c6"], "what was read is not read again"


def test_an_event_of_the_api_is_an_event() -> None:
    one = events_of(1)[0].model_copy(update={"annotations": (Annotation(position=1, note=[1]),), "level": "INFO"})
    found = {**json.loads(one.model_dump_json()), "line": 4, "lines": 1, "step": None}
    assert event_of(found) == one
    assert event_of({**found, "timestamp": None, "level": None}) == one.model_copy(update={"timestamp": 0, "level": None})


# Configuration


@pytest.mark.parametrize(
    ("text", "vendor"),
    [
        ({"kind": "opensearch", "url": "https://es:9200", "index": "logs", "headers_from": {"Authorization": "ssm:/es"}}, Bulk()),
        ({"kind": "fluentd", "url": "http://f:9880/app.log"}, Shipper()),
        ({"kind": "logstash", "url": "http://l:8080", "shape": "json_lines"}, Shipper()),
        ({"kind": "otlp", "url": "https://o:4318", "headers": {"x-key": "hush"}}, Otlp()),
    ],
)
def test_a_target_of_a_configuration_works(text: Mapping[str, Any], vendor: Any) -> None:
    seen: list[Mapping[str, str]] = []

    class Seeing(Wire):
        def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Any:
            seen.append(headers)
            return super().post(url, headers, body)

    made = target_over_http(parsed_target(json.dumps(text)), Seeing(vendor), lambda name: f"read of {name.name}")  # type: ignore[arg-type]
    assert made.send(LOGGABLE, events_of(2)) == ()
    assert target_of(dict(text)) == parsed_target(json.dumps(text))
    assert seen[0].get("Authorization") == ("read of /es" if "headers_from" in text else None)
    assert seen[0].get("x-key") == text.get("headers", {}).get("x-key")
    made.close()


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("no", "kind"),
        ('{"kind": "kafka"}', "kind"),
        ('{"kind": "otlp"}', "otlp.url"),
        ('{"kind": "otlp", "url": "https://user:hush@h"}', "otlp.url"),
        ('{"kind": "otlp", "url": "https://h", "headers": {"a": 1}}', "otlp.headers.a"),
        ('{"kind": "otlp", "url": "https://h", "headers_from": {"a": "hush"}}', "otlp.headers_from"),
        ('{"kind": "cloudwatch", "group": "a b"}', "cloudwatch.group"),
    ],
)
def test_target_errors_contain_no_values(text: str, field: str) -> None:
    with pytest.raises(InvalidConfigurationError) as caught:
        parsed_target(text)
    assert str(caught.value).endswith(f"field={field}") and "hush" not in str(caught.value)
    kinds = TypeAdapter(TargetConfiguration).json_schema()["discriminator"]["mapping"]
    assert field != "kind" or f"known={','.join(sorted(kinds))} " in str(caught.value) or text == "no"


@QUIET
@given(
    st.lists(st.tuples(st.text("aé\U0001f600\n", max_size=4), st.text("bü", min_size=1, max_size=4)), max_size=5),
    st.lists(st.integers(0, 60), max_size=6),
)
def test_annotations_keep_their_place_in_the_text(parts: list[tuple[str, str]], positions: list[int]) -> None:
    """A model: each character of the text has its position in the masked text; one in a secret, the start of the marker."""
    text, masked, places, edits = "", "", list[int](), list[Edit]()
    for plain, secret in parts:
        places += [len(masked) + offset for offset in range(len(plain))]
        text, masked = text + plain, masked + plain
        start = len(text.encode())
        places += [len(masked)] * len(secret)
        text, masked = text + secret, masked + "***"
        edits.append(Edit(start, start + len(secret.encode()), 3))
    positions = [min(each, len(text)) for each in positions]
    wanted = [places[each] if each < len(places) else len(masked) for each in positions]
    assert OffsetMap(edits).map_positions(positions, text, masked.encode()) == wanted


def test_position_is_saved_once_all_before_it_is_settled_when_a_forwarder_is_used_again() -> None:
    """A failed first call leaves events in the forwarder. The second is killed: the saved position must not be ahead of the
    target."""

    class Pages:
        def pages(self, position: str | None) -> Iterator[EventBatch]:
            for at in range(int(position or 0), 12, 4):
                yield EventBatch(events_of(12)[at : at + 4], str(at + 4))

        def is_complete(self) -> bool:
            return True

    class Target:
        limits = Limits(events=5, bytes=10**6)

        def __init__(self) -> None:
            self.ids: list[int] = []
            self.away, self.requests_left = True, 2

        def size(self, event: Event) -> int:
            return 10

        def send(self, loggable: Loggable, events: Sequence[Event]) -> Sequence[Refused]:
            if self.away:
                raise TargetUnavailableError("away")
            if not self.requests_left:
                raise Crash
            self.requests_left -= 1
            self.ids += [event.id for event in events]
            return []

        def close(self) -> None:
            """Does nothing."""

    target, kept = Target(), list[str]()
    forwarder = Forwarder(target, LOGGABLE, ManualClock(0), policy=RetryPolicy(attempts=2))
    with pytest.raises(TargetUnavailableError):
        forward(Pages(), forwarder, None, kept.append)
    target.away = False
    with pytest.raises(Crash):
        forward(Pages(), forwarder, kept[-1] if kept else None, kept.append)
    assert set(range(int(kept[-1]))) <= set(target.ids), f"saved={kept} sent={target.ids}"
    target.requests_left = 99
    assert forward(Pages(), Forwarder(target, LOGGABLE, ManualClock(0)), kept[-1], kept.append) == "12"
    assert set(target.ids) == set(range(12))

"""Targets and forwarding: vendors get all events, in order and in their format, also when requests fail."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chalicelib.aws import targets
from chalicelib.aws.cloudwatch_logs import CloudWatchLogsTarget, stream_name
from chalicelib.aws.http import is_local
from chalicelib.errors import (
    DeadlineExceededError,
    InvalidConfigurationError,
    RequestRefusedError,
    TargetUnavailableError,
    UnavailableError,
)
from chalicelib.events.event import Annotation, Event, Loggable
from chalicelib.events.forwarding import MAX_LISTED_REJECTIONS, Forwarder, RetryPolicy
from chalicelib.events.ports import Limits, Refused, Target
from chalicelib.events.targets.configuration import target_of
from chalicelib.events.targets.document import document, packed, timestamp_of, uid
from chalicelib.events.targets.elasticsearch import ElasticsearchTarget
from chalicelib.events.targets.otlp import OtlpTarget
from chalicelib.events.targets.shippers import ShipperTarget, fluentd_record, logstash_record
from chalicelib.events.targets.transport import Answer, retry_after_s
from chalicelib.ports import Run
from tests.sampling import examples
from tests.support.clock import ManualClock
from tests.vendors import DAY_MS, Bulk, LogsClient, Otlp, Shipper, Wire, faults_of

NOW_MS = 1_795_000_000_000
RUN = Run("svc.orders", "run-1")
LOGGABLE = Loggable.of_run(RUN, "here")
KINDS = (500, 429, 503, "refused", "cut", "lost")


def event(number: int, message: str | None = None, ms: int | None = None, **more: Any) -> Event:
    """Three events per millisecond."""
    at = NOW_MS + number // 3 if ms is None else ms
    data = LOGGABLE.mandatory_data(more.pop("step", None)) | more.pop("data", {})
    return Event(id=number, message=f"line {number}" if message is None else message, timestamp=at, data=data, writer="w", **more)


def events_of(count: int) -> list[Event]:
    return [event(number) for number in range(count)]


@dataclass
class Kit:
    """A target and its fake vendor, whose events are read back in the vendor's format."""

    target: Target
    received: Callable[[], list[Event]]
    knows_repeats: bool
    clock: ManualClock


def es(faults: Sequence[Any] = (), vendor: Bulk | None = None) -> Kit:
    bulk = vendor or Bulk()
    target = ElasticsearchTarget(Wire(bulk, faults), "https://es:9200/", "logs")
    return Kit(target, lambda: [of_document(each) for each in bulk.documents.values()], True, ManualClock(NOW_MS))


def shipper(record: Any, shape: Any, faults: Sequence[Any] = (), vendor: Shipper | None = None) -> Kit:
    there = vendor or Shipper()
    target = ShipperTarget(Wire(there, faults), "http://fluent:9880/app.log", record, shape=shape)
    return Kit(target, lambda: [of_document(each) for each in there.records], False, ManualClock(NOW_MS))


def otlp(faults: Sequence[Any] = (), vendor: Otlp | None = None) -> Kit:
    there = vendor or Otlp()
    faults = [503 if fault == 500 else fault for fault in faults]
    return Kit(
        OtlpTarget(Wire(there, faults), "https://otel:4318"),
        lambda: [of_record(each) for each in there.records],
        False,
        ManualClock(NOW_MS),
    )


def cloudwatch(faults: Sequence[Any] = ()) -> Kit:
    clock = ManualClock(NOW_MS)
    client = LogsClient(clock, faults)

    def received() -> list[Event]:
        return [of_document(json.loads(row["message"])) for stream in client.groups.get("runs", {}).values() for row in stream]

    return Kit(CloudWatchLogsTarget(client, "runs"), received, False, clock)


KITS: dict[str, Callable[..., Kit]] = {
    "elasticsearch": es,
    "fluentd": partial(shipper, fluentd_record, "json_batch"),
    "logstash": partial(shipper, logstash_record, "json_batch"),
    "logstash lines": partial(shipper, logstash_record, "json_lines"),
    "otlp": otlp,
    "cloudwatch": cloudwatch,
}
every_target = pytest.mark.parametrize("name", KITS)


def of_document(found: dict[str, Any]) -> Event:
    at = int(__import__("datetime").datetime.fromisoformat(found["@timestamp"].replace("Z", "+00:00")).timestamp() * 1000 + 0.5)
    if "time" in found:
        assert abs(found["time"] * 1000 - at) < 1
    return Event(
        id=found["id"], message=found["message"], timestamp=at, data=found["data"], writer=found["writer"], level=found.get("level"),
        annotations=tuple(Annotation.model_validate(each) for each in found.get("annotations", ())),
    )  # fmt: skip


def of_record(found: dict[str, Any]) -> Event:
    own = dict(found["attributes"])
    number, writer, notes = own.pop("runlake.id"), own.pop("runlake.writer"), own.pop("runlake.annotations", ())
    made = Event(
        id=number, message=found["message"], timestamp=found["ns"] // 1_000_000, data={k: v for k, v in own.items() if k != "log.record.uid"},
        writer=writer, level=found["level"], annotations=tuple(Annotation.model_validate(each) for each in notes),
    )  # fmt: skip
    assert own["log.record.uid"] == uid(made)
    return made


def forwarder(kit: Kit, seed: int = 1, **more: Any) -> Forwarder:
    return Forwarder(kit.target, LOGGABLE, kit.clock, random=Random(seed), **more)


def sent(kit: Kit, events: Sequence[Event], every: int = 7, **more: Any) -> Forwarder:
    """Forward events with a flush now and then, for several requests."""
    found = forwarder(kit, **more)
    for number, each in enumerate(events):
        found.add(each)
        if number % every == every - 1:
            found.flush()
    found.flush()
    return found


# Round trips

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**62), 2**62)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
NEWS = st.builds(
    lambda message, offset, data, level, notes: event(0, message, NOW_MS + offset, data=data, level=level, annotations=notes),
    st.text(max_size=30),
    st.integers(-5, 5),
    st.dictionaries(st.text(min_size=1, max_size=5).filter(lambda key: not key.startswith("runlake")), JSON, max_size=3),
    st.none() | st.sampled_from(["INFO", "ERROR", "custom"]),
    st.lists(st.builds(Annotation, position=st.integers(0, 40), note=JSON), max_size=2).map(tuple),
)


@pytest.mark.behavior("Events arrive at each kind of target with all of their fields.")
@every_target
@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(NEWS, max_size=5))
def test_round_trip(name: str, given_events: list[Event]) -> None:
    events = [each.model_copy(update={"id": number}) for number, each in enumerate(given_events)]
    kit = KITS[name]()
    figures = sent(kit, events, every=100).figures
    assert (figures.taken, figures.refused) == (len(events), 0)
    wanted = sorted(events, key=lambda each: each.timestamp) if name == "cloudwatch" else events
    assert (kit.received() if events else []) == wanted


@pytest.mark.behavior("Events reach a failing target in order, each at least once.")
@every_target
@pytest.mark.parametrize("seed", range(8))
def test_whatever_fails_every_event_arrives_in_order(name: str, seed: int) -> None:
    events = events_of(100)
    kit = KITS[name](faults_of(seed, 60, KINDS))
    found = sent(kit, events, seed=seed)
    assert found.figures.taken == len(events) and found.figures.refused == 0 and found.done == len(events)
    received = kit.received()
    if kit.knows_repeats:
        assert received == events
        return
    first_times = [each for number, each in enumerate(received) if each not in received[:number]]
    assert first_times == events, "at least once, the first time in order"
    assert len(received) - len(events) <= 7 * 60


@pytest.mark.sampled(default=2)
@pytest.mark.slow
@every_target
def test_many_events_go_in_batches_that_the_vendor_takes(name: str) -> None:
    kit = KITS[name]()
    events = [event(number, "x" * 300) for number in range(12_000)]
    found = forwarder(kit)
    for each in events:
        found.add(each)
    found.flush()
    assert [each.id for each in kit.received()] == list(range(12_000))
    assert 2 <= found.figures.requests <= 8 and found.figures.repeated == 0


@every_target
def test_the_size_of_an_event_is_no_less_than_what_it_takes(name: str) -> None:
    kit = KITS[name]()
    one = [event(0, "é\u0000\n" * 50, level="INFO", annotations=(Annotation(position=3, note={"a": None}),))]
    if name == "cloudwatch":
        assert kit.target.size(one[0]) == len(packed(document(one[0]))) + 26
        return
    kit.target.send(LOGGABLE, one)
    (body,) = kit.target._transport.sent  # type: ignore[attr-defined]
    around = 1_000 if name == "otlp" else 2
    assert len(body) - around <= kit.target.size(one[0])


@every_target
def test_no_events_send_no_request(name: str) -> None:
    kit = KITS[name]()
    kit.target.send(LOGGABLE, [])
    found = forwarder(kit)
    found.flush()
    found.close()
    assert found.figures.requests == 0


def test_uid_is_unique() -> None:
    one = event(7)
    others = [
        event(8),
        one.model_copy(update={"writer": "v"}),
        one.model_copy(update={"data": {**one.data, "loggableId": "run-2"}}),
    ]
    assert uid(one) == uid(event(7, "another text")) and len({uid(one), *map(uid, others)}) == 4
    assert timestamp_of(event(0, ms=0)) == "1970-01-01T00:00:00.000Z"


# Failures


@pytest.mark.parametrize(
    ("headers", "wanted"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "Sat, 21 Nov 2026 10:00:30 GMT", "date": "Sat, 21 Nov 2026 10:00:00 GMT"}, 30.0),
        ({"retry-after": "Sat, 21 Nov 2026 10:00:30 GMT"}, None),
        ({"retry-after": "soon"}, None),
        ({}, None),
    ],
)
def test_retry_after(headers: dict[str, str], wanted: float | None) -> None:
    assert retry_after_s(headers) == wanted


def test_pauses_are_exponential_random_and_honor_retry_after() -> None:
    kit = es([500, 500, 500, 429, None])
    slept: list[float] = []
    kit.clock.sleep = slept.append  # type: ignore[method-assign]
    sent(kit, events_of(1))
    assert all(0 <= pause <= 0.5 * 2**number for number, pause in enumerate(slept[:3])) and len(set(slept)) == 4
    assert slept[3] >= 7


def test_outage_of_target_raises_and_loses_nothing() -> None:
    kit = es([503] * 9)
    found = forwarder(kit, policy=RetryPolicy(attempts=8))
    for each in events_of(5):
        found.add(each)
    with pytest.raises(TargetUnavailableError, match="status=503"):
        found.flush()
    assert found.done == 0 and found.figures.taken == 0
    found.flush()
    assert found.done == 5 and kit.received() == events_of(5)


@pytest.mark.parametrize("status", [401, 403, 404])
def test_no_event_is_given_up_for_wrong_credentials(status: int) -> None:
    kit = es([status] * 3)
    found = forwarder(kit, policy=RetryPolicy(attempts=3))
    found.add(event(0))
    with pytest.raises(UnavailableError, match=f"status={status}"):
        found.flush()
    found.flush()
    assert len(kit.received()) == 1


UNAVAILABLE = TargetUnavailableError("away")


def test_pauses_of_a_flush_end_with_its_time_and_begin_anew() -> None:
    kit = es()
    found, slept = paused(kit, [UNAVAILABLE] * 8)
    for _ in range(2):
        with pytest.raises(TargetUnavailableError):
            found.flush()
        assert slept == [1, 2, 4]
        slept.clear()
    found.flush()
    assert kit.received() == events_of(4)


def test_flush_whose_time_is_over_does_not_pause() -> None:
    kit = es()

    def answers() -> Iterator[Exception]:
        yield RequestRefusedError("one of them")
        kit.clock.advance(6)
        yield UNAVAILABLE

    found, slept = paused(kit, answers())
    with pytest.raises(DeadlineExceededError):
        found.flush()
    assert slept == []
    found.flush()
    assert kit.received() == events_of(4)


def paused(kit: Kit, answers: Iterable[Exception]) -> tuple[Forwarder, list[float]]:
    """A forwarder with four events whose flush may take 5 s, and its pauses, the longest of the policy."""
    slept: list[float] = []
    policy = RetryPolicy(attempts=8, first_pause_s=1.0, max_s=5.0)
    found = Forwarder(Small(kit.target, 8, answers=answers), LOGGABLE, kit.clock, policy=policy, random=Longest())
    kit.clock.sleep = lambda pause: (slept.append(pause), kit.clock.advance(pause))  # type: ignore[method-assign,assign]
    for each in events_of(4):
        found.add(each)
    return found, slept


def test_requests_for_events_that_are_all_refused_are_about_two_each() -> None:
    kit = es()
    found = Forwarder(Small(kit.target, 16, answers=[RequestRefusedError("bad")] * 100), LOGGABLE, kit.clock)
    for each in events_of(16):
        found.add(each)
    found.flush()
    assert found.figures.refused == 16 and found.figures.requests <= 2 * 16 + 4


def test_an_event_that_was_not_taken_can_be_added_again() -> None:
    kit = es([503] * 2)
    found = Forwarder(Small(kit.target, 2), LOGGABLE, kit.clock, policy=RetryPolicy(attempts=2), random=Random(1))
    for each in events_of(2):
        found.add(each)
    with pytest.raises(TargetUnavailableError):
        found.add(event(2))
    found.add(event(2))
    found.flush()
    assert kit.received() == events_of(3)


class Longest(Random):
    """The longest pauses."""

    def uniform(self, a: float, b: float) -> float:
        return b


class Small:
    """A target with other limits, which first raises ``answers``."""

    def __init__(self, inner: Target, events: int, size: int = 1 << 20, answers: Iterable[Exception] = ()) -> None:
        self._inner, self.limits, self._answers = inner, Limits(events, size), iter(answers)

    def size(self, event: Event) -> int:
        return self._inner.size(event)

    def send(self, loggable: Loggable, events: Sequence[Event]) -> Sequence[Refused]:
        assert len(events) <= self.limits.events and sum(map(self.size, events)) <= self.limits.bytes
        for answer in self._answers:
            raise answer
        return self._inner.send(loggable, events)

    def close(self) -> None:
        self._inner.close()


# Results of single items


def test_deferred_items_are_sent_first_and_others_not_again() -> None:
    busy = {3: 2, 5: 1}

    def reject(found: Any) -> int:
        left = busy.get(found["id"], 0)
        busy[found["id"]] = left - 1
        return 429 if left > 0 else 201

    bulk = Bulk(reject)
    kit = es(vendor=bulk)
    found = sent(kit, events_of(8), every=8)
    assert [each["id"] for each in bulk.documents.values()] == [0, 1, 2, 4, 6, 7, 5, 3]
    assert (found.figures.taken, found.figures.refused, found.figures.repeated) == (8, 0, 3)


def test_target_that_defers_all_items_is_unavailable_whatever_the_time() -> None:
    """Else its handler in a pipeline is never suspended, and the others' checkpoints wait."""
    found = forwarder(es(vendor=Bulk(lambda _: 429)), policy=RetryPolicy(attempts=3, max_s=0.0))
    found.add(event(0))
    with pytest.raises(TargetUnavailableError, match="deferred events count=1"):
        found.flush()
    assert found.figures.requests == 3


def test_refused_items_are_listed_and_counted() -> None:
    kit = es(vendor=Bulk(lambda found: 400 if found["id"] in (2, 6) else 201))
    found = sent(kit, events_of(8), every=8)
    assert (found.figures.taken, found.figures.refused, found.done) == (6, 2, 8)
    assert [(each.event.id, each.reason) for each in found.figures.rejections if each.event] == [
        (2, "status=400 document_parsing_exception: no"),
        (6, "status=400 document_parsing_exception: no"),
    ]


@pytest.mark.parametrize("name", ["fluentd", "logstash", "logstash lines"])
@pytest.mark.parametrize("bad", [(0,), (99,), (3, 4, 50)])
def test_item_that_fails_a_request_is_found_by_bisection(name: str, bad: tuple[int, ...]) -> None:
    there = Shipper(lambda found: 400 if found["id"] in bad else 200)
    kit = KITS[name](vendor=there)
    found = sent(kit, events_of(100), every=100)
    assert [each.id for each in kit.received()] == [number for number in range(100) if number not in bad]
    assert [each.event.id for each in found.figures.rejections if each.event] == list(bad)
    assert there.requests <= 1 + 16 * len(bad)


def test_too_large_event_is_listed() -> None:
    kit = KITS["logstash"]()
    found = sent(kit, [event(0), event(1, "x" * 5_000_000), event(2)])
    assert [each.id for each in kit.received()] == [0, 2] and found.done == 3
    assert found.figures.rejections[0].reason.startswith("too large bytes=5000")


def test_further_refused_events_are_only_counted() -> None:
    kit = es(vendor=Bulk(lambda _: 400))
    found = sent(kit, events_of(MAX_LISTED_REJECTIONS + 50), every=1000)
    assert found.figures.refused == MAX_LISTED_REJECTIONS + 50 and len(found.figures.rejections) == MAX_LISTED_REJECTIONS


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"[]", b'{"errors": true, "items": []}', b'{"errors":true,"items":[{"index":{}}]}']
)
def test_unreadable_response_is_an_unknown_outcome(body: bytes) -> None:
    class Odd:
        def handle(self, *_: object) -> Answer:
            return Answer(200, body)

    with pytest.raises(UnavailableError):
        ElasticsearchTarget(Wire(Odd()), "https://es", "logs").send(LOGGABLE, events_of(2))


def test_deferred_item_of_a_part_is_sent_before_the_rest() -> None:
    """The target refuses requests of more than four events, and defers the second event of a request once."""

    class Strict:
        limits = Limits(100, 1 << 30)
        taken: list[int] = []  # noqa: RUF012
        put_off: set[int] = set()  # noqa: RUF012

        def size(self, event: Event) -> int:
            return 1

        def send(self, loggable: Loggable, events: Sequence[Event]) -> Sequence[Refused]:
            if len(events) > 4:
                raise RequestRefusedError("too many")
            refused = [Refused(1, "busy", True)] if len(events) > 1 and events[1].id not in self.put_off else []
            self.put_off |= {events[each.index].id for each in refused}
            self.taken += [event.id for index, event in enumerate(events) if index not in {each.index for each in refused}]
            return refused

        def close(self) -> None:
            pass

    target = Strict()
    found = Forwarder(target, LOGGABLE, ManualClock(0), random=Random(1))
    for each in events_of(16):
        found.add(each)
    found.flush()
    assert sorted(target.taken) == list(range(16)) and found.figures.taken == 16
    assert all(abs(place - number) <= 4 for place, number in enumerate(target.taken)), "none waits for the others"


# OTLP


def test_otlp_resource_names_the_run() -> None:
    there = Otlp()
    sent(otlp(vendor=there), [event(0, level="WARNING", step="build")])
    assert there.resources == [
        {
            "service.name": "svc.orders",
            "service.instance.id": "run-1",
            "runlake.instance_id": "here",
            "runlake.loggable_type": "run",
        }
    ]
    (record,) = there.records
    assert (record["level"], record["number"], record["attributes"]["stepId"]) == ("WARNING", 13, "build")


def test_otlp_rejected_records_are_counted_and_not_sent_again() -> None:
    there = Otlp(lambda found: 400 if found["attributes"]["runlake.id"] == 1 else 200)
    found = sent(otlp(vendor=there), events_of(3), every=3)
    assert (found.figures.taken, found.figures.refused, there.requests, found.done) == (2, 1, 1, 3)
    assert found.figures.rejections[0].event is None and "too strange" in found.figures.rejections[0].reason


def test_otlp_other_errors_of_the_server_are_final_as_its_specification_says() -> None:
    with pytest.raises(RequestRefusedError):
        OtlpTarget(Wire(Otlp(), [500]), "https://otel").send(LOGGABLE, events_of(1))
    for status in (429, 502, 503, 504):
        with pytest.raises(TargetUnavailableError):
            OtlpTarget(Wire(Otlp(), [status]), "https://otel").send(LOGGABLE, events_of(1))


def test_otlp_numbers_beyond_64_bits_and_no_numbers_at_all() -> None:
    there = Otlp()
    target = OtlpTarget(Wire(there), "https://otel")
    target.send(LOGGABLE, [event(0, data={"big": 2**70, "least": -(2**63)})])
    assert there.records[0]["attributes"]["big"] == str(2**70) and there.records[0]["attributes"]["least"] == -(2**63)
    assert json.loads(packed({"nan": float("nan"), "deep": [float("inf")]})) == {"nan": "nan", "deep": ["inf"]}


# CloudWatch Logs


def test_cloudwatch_creates_missing_group_and_stream() -> None:
    clock = ManualClock(NOW_MS)
    client = LogsClient(clock)
    target = CloudWatchLogsTarget(client, "runs")
    target.send(LOGGABLE, events_of(2))
    assert client.calls == ["put_log_events", "create_log_stream", "create_log_group", "create_log_stream", "put_log_events"]
    client.calls.clear()
    target.send(LOGGABLE, events_of(2))
    assert client.calls == ["put_log_events"], "no sequence token, no look"


def test_cloudwatch_events_are_put_in_order_of_time_and_ties_stay_as_they_came() -> None:
    kit = cloudwatch()
    times = [5, 3, 5, 3, 4, 5]
    sent(kit, [event(number, ms=NOW_MS + ms) for number, ms in enumerate(times)], every=6)
    assert [each.id for each in kit.received()] == [1, 3, 4, 0, 2, 5]


def test_cloudwatch_a_request_spans_a_day_at_most() -> None:
    kit = cloudwatch()
    hours = [-300, -290, -280, -275, -10, 0, 1]
    found = sent(kit, [event(number, ms=NOW_MS + hour * DAY_MS // 24) for number, hour in enumerate(hours)], every=100)
    assert found.figures.taken == len(hours) and found.figures.requests == 3


def test_cloudwatch_too_old_or_new_events_are_listed() -> None:
    clock = ManualClock(NOW_MS)
    kit = Kit(CloudWatchLogsTarget(LogsClient(clock), "runs"), list, False, clock)
    ages = [0, -15 * DAY_MS, 3 * 3_600_000, -14 * DAY_MS - 1, 5]
    found = forwarder(kit)
    refused = [kit.target.send(LOGGABLE, [event(number, ms=NOW_MS + age)]) for number, age in enumerate(ages)]
    assert [bool(each) for each in refused] == [False, True, True, True, False]
    together = kit.target.send(
        LOGGABLE, [event(0, ms=NOW_MS + 3 * 3_600_000), event(1), event(2, ms=NOW_MS + 3 * 3_600_000 + 1), event(3)]
    )
    assert together == (Refused(0, "more than 2 hours ahead"), Refused(2, "more than 2 hours ahead"))
    assert found.figures.taken == 0


@pytest.mark.parametrize("shape", ["json", "text"])
def test_cloudwatch_a_long_event_goes_in_parts_that_are_no_longer_than_allowed(shape: Any) -> None:
    clock = ManualClock(NOW_MS)
    client = LogsClient(clock)
    target = CloudWatchLogsTarget(client, "runs", shape)
    long = event(0, "é\x00x" * 40_000)
    assert target.size(long) <= 1_048_576
    assert target.send(LOGGABLE, [long, event(1)]) == ()
    rows = [row["message"] for row in client.groups["runs"]["svc.orders/run-1"]]
    if shape == "text":
        assert "".join(rows[:-1]) == long.message and rows[-1] == "line 1"
        return
    parts = [json.loads(row) for row in rows[:-1]]
    assert "".join(part["message"] for part in parts) == long.message and {part["uid"] for part in parts} == {uid(long)}
    assert [(part["part"], part["parts"]) for part in parts] == [(number + 1, len(parts)) for number in range(len(parts))]


def test_cloudwatch_an_empty_message_is_a_blank_and_data_that_is_too_large_is_told() -> None:
    clock = ManualClock(NOW_MS)
    client = LogsClient(clock)
    CloudWatchLogsTarget(client, "runs", "text").send(LOGGABLE, [event(0, "")])
    assert [row["message"] for row in client.groups["runs"]["svc.orders/run-1"]] == [" "]
    huge = event(1, data={"x": "y" * 300_000})
    assert CloudWatchLogsTarget(client, "runs").send(LOGGABLE, [huge, event(2)]) == (Refused(0, "too large for an event"),)


def test_cloudwatch_names_of_streams() -> None:
    assert stream_name(Loggable.of_run(Run("a:b*c%d", "r/1"), "here")) == "a%3Ab%2Ac%25d/r/1"
    names = {stream_name(Loggable.of_run(Run("p" * 600, f"run-{number}"), "here")) for number in range(3)}
    assert len(names) == 3 and all(len(name) <= 512 for name in names)


SEARCH, RUNLAKE_ES = "https://es.test:9200", "ssm:/runlake/es"
HOSTS = {SEARCH: (RUNLAKE_ES, "secretsmanager:one#field"), "https://otel.test": ()}


@pytest.mark.parametrize(
    ("url", "secret", "refusal"),
    [
        ("https://es.test:9200/path?x=1", RUNLAKE_ES, None),
        ("https://ES.test.:9200", f"{RUNLAKE_ES}#user", None),
        ("https://es.test:9200", "secretsmanager:one#field", None),
        ("https://otel.test:443/", None, None),
        ("https://es.test:9200", "secretsmanager:one#other", "does not list the secret"),
        ("https://otel.test", RUNLAKE_ES, "does not list the secret"),
        ("https://es.test:9200", "ssm:/other", "does not list the secret"),
        ("https://es.test", None, "must be at an https address"),
        ("http://es.test:9200", None, "must be at an https address"),
        ("https://es.test:9200.evil.test/", None, "url"),
        ("https://evil.test/#es.test:9200", None, "must be at an https address"),
        ("https://evil.test\\es.test:9200", None, "must be at an https address"),
        ("https://169.254.169.254/latest/api/token", None, "must be at an https address"),
    ],
)
def test_target_of_file_reaches_only_listed_hosts_with_their_secrets(
    monkeypatch: pytest.MonkeyPatch, url: str, secret: str | None, refusal: str | None
) -> None:
    read = list[str]()
    monkeypatch.setattr(targets, "read_named_secret", lambda name: read.append(name.text) or "value")
    target = target_of({"kind": "otlp", "url": url, "headers_from": {"A": secret} if secret else {}})
    with pytest.raises(InvalidConfigurationError, match=refusal) if refusal else nullcontext():
        targets.make_target(target, hosts=HOSTS).close()
    assert read == ([secret] if secret and not refusal else [])


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("127.0.0.1", True), ("127.8.8.8", True), ("0.0.0.0", True), ("169.254.169.254", True), ("169.254.170.2", True),
        ("224.0.0.1", True), ("::1", True), ("::", True), ("fe80::1%eth0", True), ("fd00:ec2::254", True), ("::ffff:127.0.0.1", True),
        ("::ffff:169.254.169.254", True), ("64:ff9b::a9fe:a9fe", True), ("10.1.2.3", False), ("172.31.0.2", False), ("192.168.1.1", False),
        ("8.8.8.8", False), ("::ffff:10.0.0.1", False), ("64:ff9b::808:808", False), ("2001:4860:4860::8888", False), ("fd12::1", False),
    ],
)  # fmt: skip
def test_addresses_of_this_machine_and_of_metadata_are_local(address: str, expected: bool) -> None:
    assert is_local(address) is expected

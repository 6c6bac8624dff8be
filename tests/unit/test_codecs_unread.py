"""Optional parts of a record that cannot be read cost no text: they are marked, and kept as sent."""

from __future__ import annotations

import base64
import json
from typing import Any

import msgpack
import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from chalicelib.errors import BatchTooLargeError
from chalicelib.events.codecs import bulk, firehose, fluent, logstash, otlp
from chalicelib.events.codecs.items import UNREAD, Decoded, Item
from chalicelib.events.event import NewEvent
from chalicelib.events.ports import Refused

NS, MS = 1_795_230_765_123_000_000, 1_795_230_765_123
TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


def event_of(items: Any) -> NewEvent:
    (item,) = items
    assert isinstance(item, Decoded)
    return item.event


def otlp_json(record: Any, resource: Any = None, scope: Any = None) -> NewEvent:
    logs = {"resource": resource, "scopeLogs": [{"scope": scope, "logRecords": [record]}]}
    return event_of(otlp.decode_json(json.dumps({"resourceLogs": [logs]})))


def otlp_protobuf(**fields: Any) -> NewEvent:
    request = ExportLogsServiceRequest()
    record = request.resource_logs.add().scope_logs.add().log_records.add(**fields)
    record.body.string_value = "text"
    return event_of(otlp.decode_protobuf(request.SerializeToString()))


def attribute(name: str, value: Any, kind: str = "stringValue") -> dict[str, Any]:
    return {"key": name, "value": {kind: value}}


TEXT = {"body": {"stringValue": "text"}, "observedTimeUnixNano": str(NS)}


@pytest.mark.parametrize(("field", "value"), [
    ("traceId", "AAAAAAAAAAAAAAAAAAAAAA=="), ("traceId", TRACE[1:]), ("traceId", 7), ("spanId", TRACE), ("spanId", ["x"]),
    ("flags", "x"), ("flags", -1), ("flags", 1.5), ("flags", {}), ("timeUnixNano", "yesterday"), ("timeUnixNano", str(1 << 64)),
    ("timeUnixNano", True), ("severityNumber", -1), ("severityNumber", "SEVERITY"), ("severityText", 7), ("eventName", []),
    ("attributes", {"a": 1}), ("attributes", "x"),
])  # fmt: skip
def test_unread_field_of_otlp_is_kept_as_sent(field: str, value: Any) -> None:
    event = otlp_json({**TEXT, field: value})
    assert (event.message, event.timestamp, event.level) == ("text", MS, None)
    assert event.data == {field: value, UNREAD: [field]}


@pytest.mark.parametrize(("body", "message"), [("text", "text"), ({"stringValue": 7}, '{"stringValue":7}'), ({"x": 1}, '{"x":1}')])
def test_unread_body_of_otlp_is_the_message(body: Any, message: str) -> None:
    event = otlp_json({"body": body})
    assert event.message == message and event.data == {UNREAD: ["body"], **({} if message == body else {"body": body})}


@pytest.mark.parametrize(
    ("number", "text", "level"), [(9, "ERROR", "INFO"), (0, "ERROR", "ERROR"), (25, "WARN", "WARNING"), (17, "loud", "ERROR")]
)
def test_severity_of_otlp_is_its_number_before_its_text(number: int, text: str, level: str) -> None:
    assert otlp_json({**TEXT, "severityNumber": number, "severityText": text}).level == level


def test_readable_attributes_of_otlp_stay_readable() -> None:
    bad = {"key": "b", "value": {"stringValue": 7}}
    event = otlp_json({**TEXT, "attributes": [attribute("a", "1"), bad, 7, attribute("c", "3")]})
    assert event.data == {"attributes": {"a": "1", "": [bad, 7], "c": "3"}, UNREAD: ["attributes"]}


def test_unread_resource_and_scope_of_otlp_are_kept_as_sent() -> None:
    event = otlp_json(TEXT, 7, {"name": 7, "version": "1"})
    assert event.message == "text"
    assert event.data == {"resource": {"resource": 7}, "scope": {"name": 7, "version": "1"}, UNREAD: ["resource", "scope"]}


@pytest.mark.parametrize("value", ["\ud800", [{"\ud800": 1}]])
def test_unread_values_of_otlp_have_no_lone_surrogates(value: Any) -> None:
    for event in (
        otlp_json(TEXT, value),
        otlp_json(TEXT, {"attributes": [value]}),
        otlp_json(TEXT, scope={"name": [value], "x": 1}),
    ):
        assert event.message == "text" and UNREAD in event.data
        json.dumps(event.data, ensure_ascii=False).encode()


def test_unread_values_of_otlp_that_are_nested_too_deeply_are_refused() -> None:
    nested = "[" * 300 + "]" * 300
    for bad in (f'"resource": {nested}', f'"scopeLogs": [{{"scope": {nested}, "logRecords": [{{}}]}}]'):
        body = f'{{"resourceLogs": [{{{bad}}}, {{"scopeLogs": [{{"logRecords": [{json.dumps(TEXT)}]}}]}}]}}'
        refused, text = otlp.decode_json(body)
        assert isinstance(refused, Refused) and event_of([text]).message == "text"


@pytest.mark.parametrize(("field", "name", "size"), [("trace_id", "traceId", 16), ("span_id", "spanId", 8)])
def test_ids_of_protobuf_follow_the_rule_of_json(field: str, name: str, size: int) -> None:
    assert otlp_protobuf(**{field: bytes(range(size))}).data == {name: bytes(range(size)).hex()}
    for length in (1, size - 1, size + 1, 32):
        assert otlp_protobuf(**{field: bytes(length)}).data == {name: "00" * length, UNREAD: [name]}


def test_otlp_record_without_a_body_is_described_by_its_attributes() -> None:
    fields = [
        attribute("event.name", "load failed"), attribute("table", "orders"), attribute("exception.message", 'no "rows" left'),
        attribute("exception.stacktrace", "Traceback:\n  at a\n"), attribute("rows", "7", "intValue"), attribute("ok", False, "boolValue"),
    ]  # fmt: skip
    text = 'load failed table=orders exception.message="no \\"rows\\" left" rows=7 ok=false\nTraceback:\n  at a'
    for body in ({}, {"body": {}}, {"body": {"stringValue": ""}}, {"body": {"stringValue": "\n"}}):
        assert otlp_json({"attributes": fields, **body}).message == text
    assert otlp_json({"eventName": "e", "attributes": fields[1:2]}).message == "e table=orders"
    assert otlp_json({"attributes": fields[1:2], "body": {"stringValue": "text"}}).message == "text"
    assert otlp_json({}).message == ""


def test_newline_at_the_end_of_a_text_adds_no_line() -> None:
    assert otlp_json({"body": {"stringValue": "a\nb\r\n"}}).message == "a\nb"
    for name in ("message", "log", "msg", "MESSAGE", "body"):
        assert event_of(logstash.decode(json.dumps({name: "a\nb\n"}))).message == "a\nb"
    assert event_of(logstash.decode(json.dumps({"message": "50%\r"}))).message == "50%\r"


@pytest.mark.parametrize(("time", "timestamp", "data"), [
    ("2026-11-21T03:12:45.123Z", MS, {}),
    ("yesterday", None, {"time": "yesterday", UNREAD: ["time"]}),
    (-5, None, {"time": -5, UNREAD: ["time"]}),
    (1e300, None, {"time": 1e300, UNREAD: ["time"]}),
    (float("nan"), None, {"time": "nan", UNREAD: ["time"]}),
    (True, None, {"time": True, UNREAD: ["time"]}),
    ([1], None, {UNREAD: ["time"]}),
    (msgpack.Timestamp(1 << 62, 0), None, {UNREAD: ["time"]}),
])  # fmt: skip
def test_unread_time_of_msgpack_is_kept_as_sent(time: Any, timestamp: int | None, data: dict[str, Any]) -> None:
    event = event_of(fluent.decode_msgpack(msgpack.packb([time, {"log": "text"}])))
    assert (event.message, event.timestamp, event.data) == ("text", timestamp, data)


def test_time_of_the_record_replaces_an_unread_one() -> None:
    event = event_of(fluent.decode_msgpack(msgpack.packb(["x", {"log": "text", "time": MS}])))
    assert (event.timestamp, event.data) == (MS, {"time": "x", UNREAD: ["time"]})


@pytest.mark.parametrize("more", [{}, {"info": {"msg": "x"}}])
def test_time_that_the_agent_moved_counts_for_the_level(more: dict[str, Any]) -> None:
    record = {"level": 50, "pid": 1, "msg": "text", **more}
    event = event_of(fluent.decode_msgpack(msgpack.packb([MS / 1000, record])))
    assert (event.message, event.level, event.timestamp) == ("text", "ERROR", MS)


def test_line_that_is_not_json_is_text() -> None:
    items = list(fluent.decode_json('{"message": "one"}\n{"message": "tw\n{"message": "three"} four\n'))
    events = [item.event for item in items if isinstance(item, Decoded)]
    assert [each.message for each in events] == ["one", '{"message": "tw', "three", "four"]
    assert [each.data for each in events] == [{}, {UNREAD: ["record"]}] * 2
    assert event_of([bulk_item('{"message": "tw')]).message == '{"message": "tw'


@pytest.mark.parametrize("text", [
    "2026-11-21 03:12:45 ERROR x", "12 rows", "1.5s", "-5 x", "true story", "null x", '"a" is b', "[INFO] x", "[2026-11-21 03:12:45] x",
    '"a" "b"', "[1] [2]",
])  # fmt: skip
def test_line_that_begins_like_json_is_one_text(text: str) -> None:
    for body in (f'{{"message": "one"}}\n{text}\n', f'{{"message": "one"}} {text}\n', f'{text}\n{{"message": "one"}}\n'):
        events = [item.event.message for item in fluent.decode_json(body) if isinstance(item, Decoded)]
        assert sorted(events) == sorted(["one", text])


def test_value_that_cannot_be_read_is_refused_alone() -> None:
    for value in ("9" * 5000, f'{{"a": {"9" * 5000}}}', "[" * 5000 + "]" * 5000):
        one, refused, two = fluent.decode_json(f'[{{"message": "one"}}, {value}, {{"message": "two"}}]')
        assert isinstance(refused, Refused) and [event_of([each]).message for each in (one, two)] == ["one", "two"]


def bulk_item(document: str) -> Item:
    (action,) = bulk.decode(f'{{"create": {{}}}}\n{document}\n')
    return action.item


def delivered(*texts: str) -> list[str]:
    records = [{"data": base64.b64encode(each.encode()).decode()} for each in texts]
    items = list(firehose.decode(json.dumps({"requestId": "r", "records": records}), bytes).items)
    assert [item.index for item in items] == list(range(len(items)))
    return ["refused" if isinstance(item, Refused) else item.event.message for item in items]


RECORD = "2026-11-21 03:12:45 {} orders: {}"
ONE, TWO = RECORD.format("ERROR", "one"), RECORD.format("INFO", "two")
TRACEBACK = 'Traceback (most recent call last):\n  File "x.py", line 1, in <module>\nValueError: no'


@pytest.mark.parametrize(("text", "messages"), [
    ('[{"message":"one"},{"message":"two"}]', ["one", "two"]),
    ('[{"message":"one"},"two",7]\n', ["one", "two", "7"]),
    ('[{"message":"one"}]\n[{"message":"two"}]\n', ["one", "two"]),
    ('[{"message":"one"},', ['[{"message":"one"},']),
    ("[7]", ["[7]"]), ("[]", ["[]"]), ("[a] b", ["[a] b"]), ("{}x", ["refused", "x"]),
    ('{"message":"one"}{"message":"tw', ["one", '{"message":"tw']),
    (f"{ONE}\r\n{TWO}\r\n", [ONE, TWO]), (f"{ONE}\n{TRACEBACK}\n{TWO}", [f"{ONE}\n{TRACEBACK}", TWO]),
    (f"{ONE}\n{TRACEBACK}\n", [f"{ONE}\n{TRACEBACK}"]),
    ("one\ntwo\n", ["one\ntwo"]), ("", [""]),
])  # fmt: skip
def test_firehose_record_is_as_many_events_as_it_has_records(text: str, messages: list[str]) -> None:
    assert delivered(text, text) == messages * 2


def test_text_of_more_lines_than_are_searched_is_one_event(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(firehose, "MAX_TEXT_LINES", 5)
    assert delivered(f"{ONE}\n{TWO}", f"{ONE}\n{TWO}", f"{ONE}\n{TWO}") == [ONE, TWO, ONE, TWO, f"{ONE}\n{TWO}"]


def test_delivery_is_searched_for_json_as_far_as_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(firehose, "MAX_VALUES", 5)
    monkeypatch.setattr(firehose, "MAX_TEXT_LINES", 5)
    lines, text = '{"log": "x"}\n' * 5, "{\n" * 6
    assert delivered(lines, text, lines) == ["x"] * 5 + [text.rstrip()] + ["x"] * 5
    for more in (lines + "y", lines * 2, f"[{', '.join(lines.split(chr(10))[:5] * 2)}]"):
        with pytest.raises(BatchTooLargeError):
            delivered(more)

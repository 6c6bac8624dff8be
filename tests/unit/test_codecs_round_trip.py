"""Decoding an encoded event returns the same event, by Hypothesis for each format; an invalid item is refused alone."""

from __future__ import annotations

import base64
import contextlib
import gzip
import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chalicelib.events.codecs import bulk, firehose, fluent, logstash, otlp, syslog
from chalicelib.events.codecs.items import Decoded, Item
from chalicelib.events.event import Annotation, NewEvent
from chalicelib.events.ports import Refused

NOW_MS = 1_790_000_000_000
LEVELS = st.sampled_from(["TRACE", "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"])
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
MESSAGES = TEXT.filter(lambda text: not text.endswith("\n"))
TIMES = st.integers(1_000_000_000_000, 4_000_000_000_000)
SCALARS = (
    st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 63) - 1) | st.floats(allow_nan=False, allow_infinity=False) | TEXT
)
JSON = st.recursive(SCALARS, lambda each: st.lists(each, max_size=3) | st.dictionaries(TEXT, each, max_size=3), max_leaves=8)
NAMES = st.text("abcxyz_", min_size=1, max_size=8).map(lambda name: f"x_{name}")
NOTES = st.lists(st.builds(Annotation, position=st.integers(0, 99), note=JSON), max_size=2).map(tuple)
EVENTS = st.lists(
    st.builds(
        NewEvent,
        message=MESSAGES,
        timestamp=st.none() | TIMES,
        id=st.none() | st.integers(0, 1 << 40),
        step=st.none() | st.text("abc/ -", min_size=1, max_size=8),
        level=st.none() | LEVELS,
        data=st.dictionaries(NAMES, JSON, max_size=4),
        annotations=NOTES,
    ),
    max_size=5,
)
FIREHOSE = "6e1a8c0f-0000-4000-8000-000000000001"


def events_of(items: Iterable[Item]) -> list[NewEvent]:
    found = list(items)
    assert [item.index for item in found] == list(range(len(found)))
    assert not [item for item in found if isinstance(item, Refused)]
    return [item.event for item in found if isinstance(item, Decoded)]


def from_bulk(body: bytes) -> Iterable[Item]:
    return (action.item for action in bulk.decode(body))


def from_firehose(body: bytes) -> Iterable[Item]:
    return firehose.decode(body, gzip.decompress).items


def to_firehose(events: Sequence[NewEvent]) -> bytes:
    return firehose.encode(events, FIREHOSE, NOW_MS)


def to_bulk(events: Sequence[NewEvent]) -> bytes:
    return bulk.encode(events, "logs")


RECORDS: list[tuple[str, Callable[[Sequence[NewEvent]], bytes], Callable[[bytes], Iterable[Item]]]] = [
    ("fluent json", fluent.encode_json, fluent.decode_json),
    ("fluent json lines", fluent.encode_json_lines, fluent.decode_json),
    ("fluent msgpack", fluent.encode_msgpack, fluent.decode_msgpack),
    ("logstash json_batch", logstash.encode, logstash.decode),
    ("logstash json_lines", logstash.encode_lines, logstash.decode),
    ("syslog json", logstash.encode, lambda body: syslog.decode(body, NOW_MS)),
    ("bulk", to_bulk, from_bulk),
    ("firehose", to_firehose, from_firehose),
]


@pytest.mark.parametrize(("encode", "decode"), [each[1:] for each in RECORDS], ids=[each[0] for each in RECORDS])
@given(events=EVENTS)
def test_records_come_back(
    encode: Callable[[Sequence[NewEvent]], bytes], decode: Callable[[bytes], Iterable[Item]], events: list[NewEvent]
) -> None:
    assert events_of(decode(encode(events))) == events


ATTRIBUTES = st.dictionaries(NAMES, JSON, min_size=1, max_size=3)
OTLP = st.lists(
    st.builds(
        lambda event, attributes, scope, ids: event.model_copy(update={"data": {**attributes, **scope, **ids}}),
        EVENTS.filter(bool).map(lambda events: events[0]).filter(lambda event: event.message),
        st.just({}) | ATTRIBUTES.map(lambda fields: {"attributes": fields}),
        st.just({})
        | st.builds(
            lambda name, more: {"scope": {"name": name, **more}}, NAMES, st.just({}) | ATTRIBUTES.map(lambda a: {"attributes": a})
        ),
        st.just({})
        | st.just({"traceId": "0af7651916cd43dd8448eb211c80319c", "spanId": "b7ad6b7169203331", "flags": 1, "eventName": "e"}),
    ),
    max_size=4,
)


@pytest.mark.parametrize(
    ("encode", "decode"),
    [(otlp.encode_json, otlp.decode_json), (otlp.encode_protobuf, otlp.decode_protobuf)],
    ids=["json", "protobuf"],
)
@given(events=OTLP, resource=st.dictionaries(NAMES, JSON, max_size=2))
def test_otlp_comes_back(encode: Any, decode: Any, events: list[NewEvent], resource: dict[str, Any]) -> None:
    expected = [each.model_copy(update={"data": {**each.data, **({"resource": resource} if resource else {})}}) for each in events]
    assert events_of(decode(encode(events, resource))) == expected


@given(events=OTLP)
def test_otlp_encodings_decode_alike(events: list[NewEvent]) -> None:
    assert events_of(otlp.decode_json(otlp.encode_json(events))) == events_of(otlp.decode_protobuf(otlp.encode_protobuf(events)))


PRINTABLE = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=20).filter(lambda text: text != "-")
LINE = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\0\ufeff"), max_size=40)
SYSLOG = st.lists(
    st.builds(
        lambda line, more, timestamp, level, fields, sd: NewEvent(
            message="\n".join([line, *more]),
            timestamp=timestamp,
            level=level,
            data={"facility": 3, **fields, **({"sd": sd} if sd else {})},
        ),
        LINE.filter(lambda line: not line.endswith("\r")),
        st.lists(LINE.filter(lambda line: not (line.startswith("<") or line.endswith("\r"))), max_size=2),
        st.none() | TIMES,
        st.sampled_from(["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"]),
        st.fixed_dictionaries({}, optional={"host": PRINTABLE, "program": PRINTABLE, "pid": PRINTABLE, "msgid": PRINTABLE}),
        st.dictionaries(
            st.text("abc@123", min_size=1, max_size=8).map(lambda name: f"{name}@1"),
            st.dictionaries(st.text("abc", min_size=1, max_size=5), LINE, max_size=2),
            max_size=2,
        ),
    ),
    min_size=1,
    max_size=4,
)


@given(events=SYSLOG)
def test_lines_of_syslog_come_back(events: list[NewEvent]) -> None:
    assert events_of(syslog.decode(syslog.encode(events), NOW_MS)) == events


@given(body=st.binary(max_size=300) | TEXT.map(str.encode) | JSON.map(lambda value: json.dumps(value).encode()))
def test_any_input_yields_items_or_refusals(body: bytes) -> None:
    """Never an unexpected exception."""
    from chalicelib.errors import BatchTooLargeError, InvalidEventError

    decoders: list[Callable[[], Iterable[Any]]] = [
        lambda: fluent.decode_json(body),
        lambda: fluent.decode_msgpack(body),
        lambda: logstash.decode(body),
        lambda: syslog.decode(body, NOW_MS),
        lambda: bulk.decode(body),
        lambda: otlp.decode_json(body),
        lambda: otlp.decode_protobuf(body),
        lambda: firehose.decode(body, gzip.decompress).items,
    ]
    for decode in decoders:
        with contextlib.suppress(InvalidEventError, BatchTooLargeError):
            assert all(isinstance(getattr(each, "item", each), Decoded | Refused) for each in decode())


@given(values=st.lists(JSON, max_size=4))
def test_records_in_a_delivery_may_be_anything(values: list[Any]) -> None:
    records = [{"data": base64.b64encode(json.dumps(value).encode()).decode()} for value in values] + [{"data": "%"}, {}, None]
    items = list(from_firehose(json.dumps({"requestId": "r", "records": records}).encode()))
    assert [item.index for item in items] == list(range(len(items)))
    assert all(isinstance(item, Refused) for item in items[-3:])


@given(values=st.lists(JSON, max_size=4))
def test_packed_values_may_be_anything(values: list[Any]) -> None:
    items = list(fluent.decode_msgpack(b"".join(map(msgpack.packb, values))))
    assert [item.index for item in items] == list(range(len(items)))

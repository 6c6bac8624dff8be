"""A record that is nested too deeply is rejected alone, in every codec: other records are stored, and the response is never a 500."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgpack
import pytest

from chalicelib.events.codecs import otlp
from chalicelib.events.event import NewEvent
from chalicelib.events.well_formed import MAX_DEPTH, well_formed
from tests.functional.gateway import Answer, call, get, installed
from tests.world import World

FQN, RUN_ID = "svc.a", "r1"
OWN = {"runlake": {"fqn": FQN, "run_id": RUN_ID}}
NAMED = {"X-Runlake-Fqn": FQN, "X-Runlake-Run-Id": RUN_ID}
SURROGATE = '"\\ud800"'


def lists(levels: int, leaf: str = "1") -> str:
    return "[" * levels + leaf + "]" * levels


def record(message: str, deep: str | None = None) -> str:
    plain = json.dumps({"message": message, **OWN})
    return plain if deep is None else f'{plain[:-1]}, "deep": {deep}}}'


def _list(deep: str) -> str:
    return f"[{record('a')}, {record('bad', deep)}, {record('b')}]"


def _lines(deep: str) -> str:
    return "\n".join([record("a"), record("bad", deep), record("b")])


def _bulk(deep: str) -> str:
    return "\n".join(f'{{"create": {{}}}}\n{each}' for each in _lines(deep).split("\n")) + "\n"


def _firehose(deep: str) -> str:
    packed = [{"data": base64.b64encode(each.encode()).decode()} for each in _lines(deep).split("\n")]
    return json.dumps({"requestId": "one", "timestamp": 0, "records": packed})


def _otlp(deep: str) -> str:
    """A record of that depth in kvlists and arrays; OTLP's own bound on depth applies."""
    bad = json.dumps({"body": {"stringValue": "bad"}})[:-1] + f', "attributes": [{{"key": "deep", "value": {deep}}}]}}'
    records = [json.dumps({"body": {"stringValue": "a"}}), bad, json.dumps({"body": {"stringValue": "b"}})]
    names = [{"key": "runlake.fqn", "value": {"stringValue": FQN}}, {"key": "runlake.run_id", "value": {"stringValue": RUN_ID}}]
    resource = json.dumps({"attributes": names})
    return f'{{"resourceLogs": [{{"resource": {resource}, "scopeLogs": [{{"logRecords": [{", ".join(records)}]}}]}}]}}'


def _otlp_value(deep: str) -> str:
    levels = deep.count("[") // 3
    return '{"arrayValue": {"values": [' * levels + '{"stringValue": "x\\ud800"}' + "]}}" * levels


def _msgpack(deep: str) -> bytes:
    good = [msgpack.packb([1, {"message": message, **OWN}]) for message in "ab"]
    levels = deep.count("[")
    bad = b"\x92\x01\x83\xa7message\xa3bad\xa7runlake" + msgpack.packb(OWN["runlake"]) + b"\xa1d" + b"\x91" * levels + b"\xc0"
    return good[0] + bad + good[1]


@dataclass(frozen=True)
class Codec:
    path: str
    body: Callable[[str], str | bytes]
    content_type: str = "application/json"
    rejected: Callable[[Answer], int] = lambda answer: int(answer.json["refused"])
    headers: Mapping[str, str] | None = None


CODECS = {
    "events list": Codec(
        f"/v1/events/{FQN}/{RUN_ID}", lambda deep: _events(deep, "[", ", ", "]"), rejected=lambda a: len(a.json["errors"])
    ),
    "events lines": Codec(
        f"/v1/events/{FQN}/{RUN_ID}",
        lambda deep: _events(deep, "", "\n", ""),
        "application/x-ndjson",
        lambda a: len(a.json["errors"]),
    ),
    "fluent list": Codec("/v1/agents/fluent", _list),
    "fluent lines": Codec("/v1/agents/fluent", _lines),
    "fluent msgpack": Codec("/v1/agents/fluent", _msgpack, "application/msgpack"),
    "logstash": Codec("/v1/agents/logstash", _list),
    "syslog": Codec("/v1/agents/syslog", _lines, headers=NAMED),
    "elasticsearch": Codec(
        "/v1/agents/elasticsearch/_bulk",
        _bulk,
        "application/x-ndjson",
        lambda a: sum(each["create"]["status"] == 400 for each in a.json["items"]),
    ),
    "firehose": Codec("/v1/agents/firehose", _firehose, rejected=lambda a: 1 if "refused=1" in a.json["errorMessage"] else 0),
    "otlp": Codec(
        "/v1/agents/otlp/v1/logs",
        lambda deep: _otlp(_otlp_value(deep)),
        rejected=lambda a: int(a.json["partialSuccess"]["rejectedLogRecords"]),
    ),
}


def _events(deep: str, begin: str, between: str, end: str) -> str:
    return begin + between.join(['{"message": "a"}', f'{{"message": "bad", "data": {{"deep": {deep}}}}}', '{"message": "b"}']) + end


@pytest.fixture(name="world")
def _world() -> Iterator[World]:
    with installed(World()) as world:
        yield world


@pytest.mark.parametrize("leaf", ["1", SURROGATE])
@pytest.mark.parametrize("levels", [MAX_DEPTH + 1, 600, 5_000])
@pytest.mark.parametrize("name", CODECS)
def test_deep_record_costs_itself_alone(world: World, name: str, levels: int, leaf: str) -> None:
    codec = CODECS[name]
    if name in ("otlp", "fluent msgpack"):
        levels = min(levels, 600)  # a record that the parser cannot read ends the request
    answer = call(
        "POST", codec.path, codec.body(lists(levels, leaf)), {"Content-Type": codec.content_type, **(codec.headers or {})}
    )
    if name == "otlp" and levels <= 3 * 64:
        assert answer.json == {}
        return
    assert answer.status == 200, answer
    assert codec.rejected(answer) == 1
    assert get(f"{FQN}/{RUN_ID}").json["logs"].split("\n") == ["a", "b"]


def test_step_update_nested_too_deeply_is_400(world: World) -> None:
    for leaf in ("1", SURROGATE):
        for levels in (600, 5_000):
            body = f'{{"name": "x", "deep": {lists(levels, leaf)}}}'
            answer = call("POST", f"/v1/events/{FQN}/{RUN_ID}/steps/s1", body, {"Content-Type": "application/json"})
            assert answer.status == 400 and "deep" in answer.json["message"], answer


def test_otlp_request_that_python_cannot_read_is_400(world: World) -> None:
    answer = call("POST", "/v1/agents/otlp/v1/logs", lists(5_000), {"Content-Type": "application/json"})
    assert answer.status == 400


def test_data_of_the_largest_depth_is_stored(world: World) -> None:
    deep = lists(MAX_DEPTH - 1)
    answer = call(
        "POST",
        f"/v1/events/{FQN}/{RUN_ID}",
        f'{{"message": "a", "data": {{"deep": {deep}}}}}',
        {"Content-Type": "application/json"},
    )
    assert (answer.status, answer.json["errors"]) == (200, [])
    (event,) = call("GET", f"/v1/events/{FQN}/{RUN_ID}").json["events"]
    assert event["data"]["deep"] == json.loads(deep)


def test_depth_is_counted_from_the_value() -> None:
    value: Any = 1
    for _ in range(MAX_DEPTH):
        value = {"k": value}
    assert well_formed(value) == value and NewEvent(message="", data=value).data == value
    with pytest.raises(ValueError, match="nested too deeply"):
        well_formed([value])


def test_otlp_names_with_lone_surrogates_are_repaired() -> None:
    resource = '{"attributes":[{"key":"runlake.fqn","value":{"stringValue":"a\\ud800"}}]}'
    body = f'{{"resourceLogs":[{{"resource":{resource},"scopeLogs":[{{"logRecords":[{{}}]}}]}}]}}'
    (item,) = otlp.decode_json(body)
    assert item.sources["resource"] == {"runlake.fqn": "a\ufffd"}  # type: ignore[union-attr]

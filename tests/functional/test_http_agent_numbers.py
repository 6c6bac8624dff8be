"""Numbers out of range in every numeric field of agents: the item is stored or rejected, never an internal error."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Iterator

import msgpack
import pytest

from tests.functional.gateway import Answer, call, installed
from tests.world import World

AGENTS = "/v1/agents"
NAMED = {"X-Runlake-Fqn": "svc.a", "X-Runlake-Run-Id": "r1", "Content-Type": "application/json"}
_DIGITS = ["9" * 401, "9" * 5000, "1" + "0" * 309, str(2**63), str(-(2**63) - 1), str(2**64), str(10**18), str(10**20)]
LITERALS = [*_DIGITS, "1e308", "1e309", "-1e309", "1e-400", "1e99999999999", "-0", "-0.0", "NaN", "Infinity", "-Infinity", "0.1e1"]
NUMBERS = [*LITERALS, *(f'"{each}"' for each in (_DIGITS[0], "1e309", "NaN")), '"１２"', '"0x10"', '"1_0"', '""', '"²"']
"""As JSON and as texts."""
_OTLP_KINDS = ("doubleValue", "intValue")
OTLP = {
    **{f"{where} {kind}": where.replace("§", f'{{"{kind}":§}}') for kind in _OTLP_KINDS for where in (
        '"resource":{"attributes":[{"key":"a","value":§}]},"scopeLogs":[{"logRecords":[{}]}]',
        '"scopeLogs":[{"scope":{"attributes":[{"key":"a","value":§}]},"logRecords":[{}]}]',
        '"scopeLogs":[{"logRecords":[{"attributes":[{"key":"a","value":§}]}]}]',
        '"scopeLogs":[{"logRecords":[{"body":§}]}]',
        '"scopeLogs":[{"logRecords":[{"body":{"arrayValue":{"values":[§]}}}]}]',
        '"scopeLogs":[{"logRecords":[{"body":{"kvlistValue":{"values":[{"key":"a","value":§}]}}}]}]',
    )},
    **{name: f'"scopeLogs":[{{"logRecords":[{{"{name}":§}}]}}]' for name in (
        "timeUnixNano", "observedTimeUnixNano", "severityNumber", "severityText", "flags", "traceId", "spanId", "eventName",
    )},
    **{name: f'"{name}":§' for name in ("resource", "scopeLogs", "schemaUrl")},
}  # fmt: skip
FIELDS = [
    "@timestamp",
    "timestamp",
    "level",
    "log.level",
    "PRIORITY",
    "message",
    "runlake",
    "runlake.id",
    "runlake.step",
    "runlake.writer",
    "runlake.annotations",
    "other",
]


@pytest.fixture
def world() -> Iterator[World]:
    with installed(World()) as world:
        yield world


def is_served(answer: Answer, number: str, about: str) -> bool:
    assert answer.status < 500, (about, number[:30], answer.status, answer.body[:200])
    return answer.status < 300


@pytest.mark.parametrize("template", OTLP.values(), ids=range(len(OTLP)))
def test_numbers_of_otlp(world: World, template: str) -> None:
    good = '{"scopeLogs":[{"logRecords":[{"body":{"stringValue":"good"}}]}]}'
    stored = 0
    for number in NUMBERS:
        body = f'{{"resourceLogs":[{good},{{{template.replace("§", number)}}}]}}'
        stored += is_served(call("POST", f"{AGENTS}/otlp/v1/logs", body, NAMED), number, template)
    unreadable = sum(len(number) >= 5000 and not number.startswith('"') for number in NUMBERS)
    assert stored == len(NUMBERS) - unreadable, "one bad value costs no other resource"


@pytest.mark.parametrize("field", FIELDS)
def test_numbers_of_records(world: World, field: str) -> None:
    for attempt, number in enumerate(NUMBERS):
        bad = f'{{"message":"bad","{field}":{number}}}' if field != "message" else f'{{"message":{number}}}'
        packed = [base64.b64encode(each.encode()).decode() for each in ('{"message":"good"}', bad)]
        delivery = json.dumps({"requestId": str(attempt), "timestamp": 0, "records": [{"data": each} for each in packed]})
        bodies = {
            "fluent": f'{{"message":"good"}}\n{bad}',
            "logstash": f'[{{"message":"good"}},{bad}]',
            "syslog": f'[{{"message":"good"}},{bad}]',
            "firehose": delivery,
        }
        for agent, body in bodies.items():
            assert is_served(call("POST", f"{AGENTS}/{agent}", body, NAMED), number, agent), (agent, field, number[:30])
        lines = '{"create":{}}\n{"message":"good"}\n{"create":{}}\n' + bad + "\n"
        assert is_served(call("POST", f"{AGENTS}/elasticsearch/_bulk", lines, NAMED), number, "bulk")
        is_served(call("POST", "/v1/events/svc.a/r1", f'[{{"message":"good"}},{bad}]', NAMED), number, "events")


@pytest.mark.parametrize("place", ["requestId", "timestamp", "records", "data", "event time", "event id", "extracted", "common"])
def test_numbers_of_deliveries(world: World, place: str) -> None:
    for number in NUMBERS:
        about = {"requestId": '"one"', "timestamp": "0", "event time": "1", "event id": '"e"', "extracted": "null", place: number}
        event = (
            f'{{"message":"m","timestamp":{about["event time"]},"id":{about["event id"]},"extractedFields":{about["extracted"]}}}'
        )
        record = f'{{"messageType":"DATA_MESSAGE","logGroup":"g","logStream":"s","logEvents":[{event}]}}'
        data = number if place == "data" else json.dumps(base64.b64encode(record.encode()).decode())
        records = number if place == "records" else f'[{{"data":{data}}}]'
        body = f'{{"requestId":{about["requestId"]},"timestamp":{about["timestamp"]},"records":{records}}}'
        common = f'{{"commonAttributes":{{"a":{number}}}}}' if place == "common" else ""
        headers = NAMED | {"X-Amz-Firehose-Common-Attributes": common}
        is_served(call("POST", f"{AGENTS}/firehose", body, headers), number, place)


def test_numbers_of_bulk_actions(world: World) -> None:
    for number in NUMBERS:
        for action in (f'{{"create":{number}}}', f'{{"create":{{"_id":{number}}}}}', f'{{"create":{{"_index":{number}}}}}', number):
            body = f'{{"create":{{}}}}\n{{"message":"good"}}\n{action}\n{{"message":"m"}}\n'
            is_served(call("POST", f"{AGENTS}/elasticsearch/_bulk", body, NAMED), number, action[:20])


@pytest.mark.slow
def test_packed_numbers(world: World) -> None:
    rng = random.Random(20261122)
    odd = [float("inf"), float("-inf"), float("nan"), 1e308, -1e308, 2**64 - 1, -(2**63), 0, -1, -2]
    odd += [msgpack.Timestamp(2**63 - 1, 0), msgpack.Timestamp(-(2**62), 999_999_999), msgpack.ExtType(0, b"\xff" * 8)]
    odd += [msgpack.ExtType(kind, rng.randbytes(size)) for kind in (0, 1, 127) for size in (0, 1, 8, 16)]
    headers = NAMED | {"Content-Type": "application/msgpack"}
    for number in odd:
        for record in ({"log": "m"}, {"log": number}, {"timestamp": number}, {"level": number}, {"runlake.id": number}):
            for value in ([number, record], [[number, {}], record], ["tag", number, record], ["tag", [[number, record]]], record):
                is_served(call("POST", f"{AGENTS}/fluent", msgpack.packb({"log": "good"}) + msgpack.packb(value), headers), "", "")

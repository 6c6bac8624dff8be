"""Requests of any size for each operation that reads a body: for tests of its limits, and for the table of the largest requests' cost."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import msgpack

from chalicelib.routes.budgets import BUDGETS, BodyForm, Budget, Operation
from tests.functional.gateway import LOGS

JSON, LINES, TEXT = "application/json", "application/x-ndjson", "text/plain"
Sized = Callable[[int], bytes]
_NAMED = {"X-Runlake-Fqn": "svc.a", "X-Runlake-Run-Id": "r1"}


@dataclass(frozen=True)
class Sample:
    """Bodies of one operation. ``items``, ``streams``, ``values``: build a body with that many; None if the operation has no such limit.
    ``deep``: builds one record with a field of that many nested lists."""

    operation: Operation
    url: str
    content_type: str
    items: Sized | None = None
    streams: Sized | None = None
    values: Sized | None = None
    deep: Sized | None = None

    @property
    def budget(self) -> Budget:
        """The limits of the operation."""
        return BUDGETS[self.operation]

    def headers(self, **more: str) -> dict[str, str]:
        """Headers of a request."""
        return {"Content-Type": self.content_type, **_NAMED, **{name.replace("_", "-"): value for name, value in more.items()}}


def _lines(line: str) -> Sized:
    return lambda count: "".join(line % number for number in range(count)).encode()


def _around(head: str, unit: str, tail: str, separator: str = ",") -> Sized:
    return lambda count: (head + separator.join([unit] * count) + tail).encode()


def _nested(levels: int) -> str:
    return "[" * levels + "]" * levels


def _deep(head: str = "", tail: str = "") -> Sized:
    return lambda levels: f'{head}{{"message":"m","data":{_nested(levels)}}}{tail}\n'.encode()


def _deep_event(levels: int) -> bytes:
    return f'{{"message":"m","data":{{"a":{_nested(levels)}}}}}\n'.encode()


def _deep_firehose(levels: int) -> bytes:
    return (_DELIVERY + f'{{"data":"{base64.b64encode(_deep()(levels)).decode()}"}}' + "]}").encode()


def _deep_otlp(levels: int) -> bytes:
    value = '{"arrayValue":{"values":[' * levels + '{"stringValue":"x"}' + "]}}" * levels
    return (_OTLP + f'{{"body":{{"stringValue":"m"}},"attributes":[{{"key":"k","value":{value}}}]}}' + "]}]}]}").encode()


def _deep_msgpack(levels: int) -> bytes:
    return b"\x82" + msgpack.packb("message") + msgpack.packb("m") + msgpack.packb("data") + b"\x91" * (levels - 1) + b"\x90"


def _packed(make: Callable[[int], object]) -> Sized:
    return lambda count: msgpack.packb(make(count))


_NUMBERED = '{"message":"m%d"}\n'
_STREAM = '{"message":"m","runlake":{"fqn":"p%d","run_id":"r"}}\n'
_DATA = ('{"message":"m","data":[', "0", "]}\n")
_DELIVERY = '{"requestId":"r","timestamp":1,"records":['
_OTLP = '{"resourceLogs":[{"scopeLogs":[{"logRecords":['
_OTLP_STREAM = (
    '{"resource":{"attributes":[{"key":"runlake.fqn","value":{"stringValue":"p%d"}},'
    '{"key":"runlake.run_id","value":{"stringValue":"r"}}]},"scopeLogs":[{"logRecords":[{"body":{"stringValue":"m"}}]}]}'
)
_BULK_ITEM, _BULK_STREAM = '{"create":{}}\n' + _NUMBERED, '{"create":{}}\n' + _STREAM


def _firehose_streams(count: int) -> bytes:
    texts = ((_STREAM % number).encode() for number in range(count))
    return (_DELIVERY + ",".join(f'{{"data":"{base64.b64encode(each).decode()}"}}' for each in texts) + "]}").encode()


def _otlp_streams(count: int) -> bytes:
    return ('{"resourceLogs":[' + ",".join(_OTLP_STREAM % number for number in range(count)) + "]}").encode()


_EVENT, _STEP = ("POST", "/v1/events/{fqn}/{runId}"), ("POST", "/v1/events/{fqn}/{runId}/steps/{step}")
_AGENTS = "/v1/agents"
_BULK_VALUES = _around('{"create":{}}\n' + _DATA[0], *_DATA[1:])
_BULKS = [
    Sample(
        (method, path),
        path.format(index="logs"),
        LINES,
        _lines(_BULK_ITEM),
        _lines(_BULK_STREAM),
        _BULK_VALUES,
        _deep('{"create":{}}\n'),
    )
    for method in ("POST", "PUT")
    for path in (f"{_AGENTS}/elasticsearch/_bulk", f"{_AGENTS}/elasticsearch/{{index}}/_bulk")
]
_ALL = [
    Sample(("POST", f"{LOGS}/{{fqn}}/{{runId}}"), f"{LOGS}/svc.a/r1", JSON, values=_around('{"logs":"x","other":[', "0", "]}")),
    Sample(_EVENT, "/v1/events/svc.a/r1", LINES, _lines(_NUMBERED), values=_around(*_DATA), deep=_deep_event),
    Sample(("POST", f"{_AGENTS}/fluent"), f"{_AGENTS}/fluent", LINES, _lines(_NUMBERED), _lines(_STREAM), _around(*_DATA), _deep()),
    Sample(
        ("POST", f"{_AGENTS}/logstash"), f"{_AGENTS}/logstash", LINES, _lines(_NUMBERED), _lines(_STREAM), _around(*_DATA), _deep()
    ),
    Sample(
        ("POST", f"{_AGENTS}/syslog"), f"{_AGENTS}/syslog", TEXT, _lines("<13>m%d\n"), _lines(_STREAM), _around(*_DATA), _deep()
    ),
    Sample(
        ("POST", f"{_AGENTS}/firehose"),
        f"{_AGENTS}/firehose",
        JSON,
        _around(_DELIVERY, '{"data":"eA=="}', "]}"),
        _firehose_streams,
        _around(_DELIVERY + '{"other":[', "0", "]}]}"),
        _deep_firehose,
    ),
    Sample(
        ("POST", f"{_AGENTS}/otlp/v1/logs"),
        f"{_AGENTS}/otlp/v1/logs",
        JSON,
        _around(_OTLP, '{"body":{"stringValue":"m"}}', "]}]}]}"),
        _otlp_streams,
        _around('{"resourceLogs":[],"other":[', "0", "]}"),
        _deep_otlp,
    ),
    *_BULKS,
    Sample(_STEP, "/v1/events/svc.a/r1/steps/s1", JSON),
    Sample(("PUT", "/v1/events/{fqn}/{runId}/starts/{start}"), "/v1/events/svc.a/r1/starts/s1", JSON),
    Sample(("POST", "/v1/events/{fqn}/{runId}/writers/{writer}/close"), "/v1/events/svc.a/r1/writers/w/close", JSON),
    Sample(("POST", "/v0/archive/files"), "/v0/archive/files", JSON),
    Sample(("PATCH", "/v0/archive/files/{id}/metadata"), f"/v0/archive/files/{'0' * 32}/metadata", JSON),
    Sample(("POST", "/v1/pipelines/{name}/replay"), "/v1/pipelines/runlake/replay", JSON),
]
SAMPLES: Mapping[Operation, Sample] = {each.operation: each for each in _ALL}
MSGPACK = Sample(
    ("POST", f"{_AGENTS}/fluent"),
    f"{_AGENTS}/fluent",
    "application/msgpack",
    lambda count: b"".join(msgpack.packb({"message": f"m{number}"}) for number in range(count)),
    lambda count: b"".join(msgpack.packb({"message": "m", "runlake": {"fqn": f"p{n}", "run_id": "r"}}) for n in range(count)),
    _packed(lambda count: {"message": "m", "data": [[]] * (count // 2)}),
    _deep_msgpack,
)
READING = {operation for operation, budget in BUDGETS.items() if budget.form is not BodyForm.IGNORED}


def url_of(operation: Operation, **more: str) -> str:
    """A URL of an operation with its names filled in; ``more`` replaces names."""
    names = {
        "fqn": "svc.a", "runId": "r1", "writer": "w", "step": "s1", "start": "a1", "index": "logs", "id": "0" * 32, "what": "w", "where": "h",
        "source": "compaction", "name": "runlake", "file": "x.js",
    }  # fmt: skip
    return operation[1].format(**names | more)


def padded(document: dict[str, object], size: int) -> bytes:
    """A JSON document of the given size in bytes."""
    return json.dumps(document).encode().ljust(size)

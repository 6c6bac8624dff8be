"""Start inputs of fuzzing in addition to the corpus: one or two valid inputs for each target."""

from __future__ import annotations

import json

from chalicelib.events.codecs import bulk, firehose, fluent, logstash, otlp
from chalicelib.events.event import NewEvent
from tests.fuzz.targets import ENCODINGS, NOW_MS, TYPES

_EVENT = {"eventVersion": "2.1", "eventName": "ObjectCreated:Put", "s3": {"bucket": {"name": "b"}, "object": {"key": "a%2Fb+c"}}}
_KEY = "pipeline-logs/svc.pipeline/run-1/segments/0000000007"
_FILE = {
    "start": NOW_MS,
    "end": NOW_MS + 1,
    "where": "web-1",
    "what": "syslog",
    "work_id": "w",
    "path": "C:\\x",
    "ticket": [1, 2.5],
}
_SEGMENT = "1:a,2:b|data|1|0|0|3|00ff|7|0123456789abcdef|1790000000000|host%2017|closed|1:a,2:b"
_KEY_BLOCK = "-----BEGIN PRIVATE KEY-----\nQUJD\n-----END PRIVATE KEY-----\n"
_SECRETS = f'password=a AKIAIOSFODNN7EXAMPLE Bearer 0123456789abcdef\nx://u:p@h {{"token": "t"}}\n{_KEY_BLOCK}'

_EVENTS = [NewEvent(message="one", timestamp=NOW_MS, level="INFO", step="s", data={"a": {"b": [1, 2.5, None]}})]
_AGENTS = [
    fluent.encode_json_lines(_EVENTS),
    fluent.encode_msgpack(_EVENTS),
    logstash.encode(_EVENTS),
    bulk.encode(_EVENTS, "logs", ["id"]),
    otlp.encode_json(_EVENTS, {"service.name": "x"}),
    otlp.encode_protobuf(_EVENTS, {"service.name": "x"}),
    b"one\ntwo\n",
    b'<13>1 2026-09-21T14:13:20.123456Z h app 42 ID [runlake@1 fqn="a"] one\n at two\n<34>Oct 11 22:14:15 h su[1]: x',
    firehose.encode(_EVENTS, "r", NOW_MS),
]


def _typed(content_type: str, encoding: str, form: int, body: bytes) -> bytes:
    return bytes([TYPES.index(content_type), ENCODINGS.index(encoding), form]) + body


SEEDS: dict[str, list[bytes]] = {
    "bodies": [
        _typed("application/json", "", 0, b'{"logs": "one\\ntwo", "connectorId": "h", "compressed": false}'),
        _typed("application/json", "", 1, '"lines \\ud800 é"'.encode()),
        _typed("application/json", "", 2, b"H4sIAAAAAAACA8vPS+UqKc/nAgDmC7oSCAAAAA=="),
        _typed("application/json", "", 3, b"packed"),
        _typed("text/plain", "identity", 1, b"one\ntwo\n"),
        _typed("application/gzip", "", 0, b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\x4b\x04\x00\x43\xbe\xb7\xe8\x01\x00\x00\x00"),
    ],
    "packed": [b"\x00\x00\x00\x00lines\n", b"\x08\x03\x00\x01" + b"a" * 40],
    "positions": [bytes(range(34)) + b"PIPELINE_SESSION=1_2abe_00ff_1_7_70_7000_0_1790000000000.sig; other=1"],
    "cursors": [b'\x00[1790000000000, "run-1"]', b'\x01["2026-11-21T00:00:00.000Z", "mysql.ingest/run-1"]', b"\x02ALL.CLOSED.abc"],
    "notifications": [
        b"\x00" + json.dumps({"Records": [_EVENT]}).encode(),
        b"\x00" + json.dumps({"Message": json.dumps({"Records": [_EVENT]})}).encode(),
        b'\x00{"Event": "s3:TestEvent"}',
        b"\x01" + _KEY.encode(),
        b"\x03" + json.dumps(_EVENT | {"eventName": "ObjectRemoved:Delete"}).encode(),
    ],
    "names": [b"\x00a%2Fb/run-1/download", b"\x01a/b/run-1/close", _KEY.encode(), "\x00.é.%25/last".encode()],
    "parameters": [b"\x002026-11-21T03:12:45.5+01:00", b"\x011790000000000", b"\x05" + b"12.5", b"\x04yesterday"],
    "documents": [b"\x01" + json.dumps(_FILE).encode(), b'\x00{"version": 0}', b"\x02/var/log/x"],
    "segments": [_SEGMENT.encode()],
    "masking": [_SECRETS.encode()],
    "agents": [bytes([number]) + body for number, body in enumerate(_AGENTS)],
}

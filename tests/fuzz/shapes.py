"""Costly small bodies: the corpus that every test run replays, and its mutations for ``make fuzz``."""

from __future__ import annotations

import base64
import gzip
import json
import random
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from tests.functional.gateway import LOGS
from tests.support.samples import JSON, LINES, MSGPACK, NAMED, PROTOBUF, SAMPLES, TEXT, Sample

BODY_BYTES = 10 * 1024
KIB, MIB = 1024, 1024 * 1024


@dataclass(frozen=True)
class Shape:
    """A body: a unit repeated between a head and a tail, compressed. ``%d`` in a unit is its number.

    ``path``: of the operation, a POST. ``pack``: the compression. ``padded``: with zeros after the gzip data, since limits grow with the size.
    """

    path: str
    content_type: str
    unit: bytes
    expanded_bytes: int = 4 * MIB - KIB
    head: bytes = b""
    tail: bytes = b""
    pack: str = "gzip"

    def body(self) -> bytes:
        """The body as sent, by default the largest that is small enough. Raises ValueError if none is."""
        expanded = self.expanded_bytes
        while len(packed := self._packed(expanded)) > BODY_BYTES:
            if not expanded:
                raise ValueError("head and tail are larger than a small body")
            expanded = expanded * 9 // 10
        return packed

    def headers(self) -> dict[str, str]:
        """Headers of the request."""
        kind = "application/gzip" if self.pack == "gzip-type" else self.content_type
        return {"Content-Type": kind, **({"Content-Encoding": "gzip"} if self.pack in ("gzip", "padded") else {}), **NAMED}

    @property
    def request(self) -> Sample:
        """The operation's sample, whose address and limits the body has."""
        return SAMPLES["POST", self.path]

    def small(self) -> Shape:
        """The same with few units."""
        return replace(self, expanded_bytes=len(self.head) + len(self.tail) + 2 * len(self.unit))

    def _packed(self, expanded: int) -> bytes:
        count = max(0, expanded - len(self.head) - len(self.tail)) // (len(self.unit) or 1)
        units = b"".join(self.unit % number for number in range(count)) if b"%d" in self.unit else self.unit * count
        text = self.head + units + self.tail
        if self.pack == "none":
            return text
        if self.pack == "LogBatch":
            return json.dumps({"logs": base64.b64encode(gzip.compress(text, mtime=0)).decode(), "compressed": True}).encode()
        packed = gzip.compress(text, mtime=0)
        return packed.ljust(BODY_BYTES, b"\0") if self.pack == "padded" else packed


_EVENTS, _LOG = "/v1/events/{fqn}/{runId}", f"{LOGS}/{{fqn}}/{{runId}}"
_STEP, _CLOSE = f"{_EVENTS}/steps/{{step}}", f"{_EVENTS}/writers/{{writer}}/close"
_FILES, _REPLAY = "/v0/archive/files", "/v1/pipelines/{name}/replay"
_FLUENT, _LOGSTASH, _SYSLOG = "/v1/agents/fluent", "/v1/agents/logstash", "/v1/agents/syslog"
_FIREHOSE, _OTLP, _BULK = "/v1/agents/firehose", "/v1/agents/otlp/v1/logs", "/v1/agents/elasticsearch/_bulk"


def _varint(number: int) -> bytes:
    out = b""
    while number > 127:
        out, number = out + bytes([number & 127 | 128]), number >> 7
    return out + bytes([number])


def _proto(unit: bytes, size: int, *fields: int, before: bytes = b"") -> Shape:
    """Units nested in messages of these fields, outermost first. ``before``: in front of the first one."""
    inner = unit * (size // len(unit))
    heads = b""
    for field in reversed(fields):
        head = bytes([field << 3 | 2]) + _varint(len(inner) + len(heads))
        heads = head + heads
    return Shape(_OTLP, PROTOBUF, inner, len(before) + len(inner) + len(heads), head=before + heads)


def otlp_values(count: int, before: bytes = b"") -> Shape:
    """A record with a list of empty values, behind other bytes."""
    return _proto(b"\x0a\x00", 2 * count, 1, 2, 2, 5, 5, before=before)


def _record_of_attributes(count: int) -> bytes:
    """A record with attributes of different names and values."""
    pairs = b"".join(b"\x32\x0c\x0a\x04k%03d\x12\x04\x0a\x02%02x" % (number, number) for number in range(count))
    return b"\x12" + _varint(len(pairs)) + pairs


def _nested(levels: int) -> bytes:
    """A record's body: lists of lists."""
    inner = b""
    for _ in range(levels):
        inner = b"\x0a" + _varint(len(inner)) + inner  # ArrayValue.values
        inner = b"\x2a" + _varint(len(inner)) + inner  # AnyValue.array_value
    for field in (5, 2, 2, 1):
        inner = bytes([field << 3 | 2]) + _varint(len(inner)) + inner
    return inner


def _sharing(attributes: bytes, records: int) -> Shape:
    """Records of OTLP under one resource."""
    head = b'{"resourceLogs":[{"resource":{"attributes":[' + attributes + b']},"scopeLogs":[{"logRecords":['
    unit, tail = b'{"body":{"stringValue":"x"}},', b'{"body":{"stringValue":"x"}}]}]}]}'
    return Shape(_OTLP, JSON, unit, len(head) + len(tail) + records * len(unit), head, tail)


def _attributes(count: int) -> bytes:
    return b",".join(b'{"key":"k%d","value":{"intValue":1}}' % number for number in range(count))


def _text_attribute(text: str) -> bytes:
    return b'{"key":"k","value":{"stringValue":"' + text.encode() + b'"}}'


def _group(name: str, events: int) -> bytes:
    """A record of a subscription of CloudWatch Logs."""
    event = b'{"message":"x","id":"1","timestamp":1}'
    text = b'{"messageType":"DATA_MESSAGE","logGroup":"%s","logStream":"s","logEvents":[' % name.encode()
    return _record(gzip.compress(text + event + (b"," + event) * (events - 1) + b"]}", mtime=0))


def _record(text: bytes) -> bytes:
    return b'{"data":"' + base64.b64encode(text) + b'"},'


_DELIVERY = {"head": b'{"requestId":"r","timestamp":1,"records":[', "tail": b'{"data":""}]}'}


def _event(*fields: bytes) -> bytes:
    """A line of an event whose data has these fields."""
    return b'{"message":"x","data":{' + b",".join(fields) + b"}}\n"


_BOMB = gzip.compress(b"\n" * 500_000, mtime=0)
SHAPES: dict[str, Shape] = {
    "log of newlines": Shape(_LOG, TEXT, b"\n", 6 * MIB),
    "log of one line": Shape(_LOG, TEXT, b"x", 6 * MIB),
    "log that looks secret": Shape(_LOG, TEXT, b"password=aaaaaaaaaaaaaaaaaaaa ", 6 * MIB),
    "log of key blocks": Shape(_LOG, TEXT, b"-----BEGIN PRIVATE KEY-----\n", 6 * MIB),
    "log of key and values": Shape(_LOG, TEXT, b"a=b c:d token=", 6 * MIB),
    "log of half a token": Shape(_LOG, TEXT, b"eyJhbGciOiJIUzI1NiJ9.eyJ", 6 * MIB),
    "log of addresses": Shape(_LOG, TEXT, b"https://a:b@", 6 * MIB),
    "log of short addresses": Shape(_LOG, TEXT, b"://:b@", 6 * MIB),
    "log of errors": Shape(_LOG, TEXT, b"err\n", 6 * MIB),
    "log of letters and digits": Shape(_LOG, TEXT, b"AKIA0123456789ABCDEF", 6 * MIB),
    "log in a string": Shape(_LOG, JSON, "😀".encode(), 6 * MIB, b'"', b'"'),
    "log of surrogates": Shape(_LOG, JSON, b"\\ud800", 6 * MIB, b'"', b'"'),
    "log of lists": Shape(_LOG, JSON, b"[],", 111_000, b"[", b"[]]"),
    "log of objects": Shape(_LOG, JSON, b'{"":{}},', 197_330, b"[", b"0]"),
    "LogBatch": Shape(_LOG, JSON, b"\n", 6 * MIB, pack="LogBatch"),
    "empty members": Shape(_LOG, "application/gzip", gzip.compress(b"", mtime=0), BODY_BYTES, pack="none"),
    "members of a byte": Shape(_LOG, "application/gzip", gzip.compress(b"\n", mtime=0), BODY_BYTES, pack="none"),
    "open strings": Shape(_EVENTS, JSON, b'\\",', head=b'["'),
    "many open strings": Shape(_EVENTS, LINES, b'"\n[[[[[[[['),
    "events that are lists": Shape(_EVENTS, JSON, b"[],", 29_000, b"[", b"[]]"),
    "events that are numbers": Shape(_EVENTS, LINES, b"1\n", 19_000),
    "events of a word": Shape(_EVENTS, JSON, b'{"message":"x"},', 160_000, b"[", b'{"message":"x"}]'),
    "events with data": Shape(_EVENTS, LINES, b'{"message":"x","data":{"a":[{},{},{}],"b":{"c":"d"}}}\n', 363_290),
    "events with much data": Shape(_EVENTS, LINES, b'{"message":"x","data":{"a":[' + b"[]," * 95 + b"0]}}\n", 121_330),
    "events of many steps": Shape(_EVENTS, LINES, b'{"message":"x","step":"s%d"}\n', 700_000),
    "events with notes": Shape(
        _EVENTS, LINES, b'{"message":"x","annotations":[' + b'{"position":0,"note":0},' * 9 + b'{"position":0,"note":0}]}\n', 629_030
    ),
    "deep events": Shape(_EVENTS, LINES, b'{"message":"x","data":{"a":' + b"[" * 900 + b"]" * 900 + b"}}\n", 150_360),
    "events that look secret": Shape(_EVENTS, LINES, b'{"message":"password=hush","data":{"token":"abcdefgh","k":"a=b c=d"}}\n', 700_000),
    "events with secret values": Shape(_EVENTS, LINES, _event(*(b'"k%X":"token=%X"' % (n, n) for n in range(1100))), 1_600_000),
    "events with names that masking makes equal": Shape(_EVENTS, LINES, _event(*(b'"token=%X":0' % n for n in range(2200))), 1_600_000),
    "events with lists under secret names": Shape(_EVENTS, LINES, _event(b'"token":[' + b"0," * 9000 + b"0]"), 151_210),
    "events with lists under long secret names": Shape(
        _EVENTS, LINES, _event(b'"' + b"pwd" * 3000 + b'":[' + b"0," * 2000 + b"0]"), 487_100
    ),
    "events with long lists under long names": Shape(
        _EVENTS, LINES, _event(b'"' + b"a" * 30_000 + b'":[' + b"0," * 11_000 + b"0]"), 388_540
    ),
    "events with long lists under names of controls": Shape(
        _EVENTS, LINES, _event(b'"' + b"\\u0001" * 5_000 + b'":[' + b"0," * 11_000 + b"0]"), 388_540
    ),
    "events with lists of many values under secret names": Shape(
        _EVENTS, LINES, _event(b'"q":"pwd=x"', b'"%dpwd":[' + b",".join(b'"%x"' % n for n in range(240)) + b"]"), 374_010
    ),
    "events with lists of many values under long secret names": Shape(
        _EVENTS, LINES, _event(b'"q":"pwd=x"', b'"' + b"pwd" * 15 + b'%dpwd":[' + b",".join(b'"%x"' % n for n in range(240)) + b"]"), 387_160
    ),
    "an event with a list under a long secret name": Shape(
        _EVENTS, LINES, b"0,", BODY_BYTES, b'{"message":"x","data":{"' + b"pwd" * 1700 + b'":[', b"0]}}\n", pack="none"
    ),
    "events with deep secrets": Shape(_EVENTS, LINES, _event(b'"a":' + b'{"token":' * 90 + b'"x"' + b"}" * 90), 742_760),
    "events with secret steps": Shape(_EVENTS, LINES, b'{"message":"token=a","step":"token=%d","level":"info"}\n', 580_000),
    "events with notes about secrets": Shape(
        _EVENTS, LINES,
        b'{"message":"token=a token=b","annotations":[' + b'{"position":1,"note":"token=a"},' * 9 + b'{"position":0,"note":0}]}\n', 800_000,
    ),
    "events with wide objects": Shape(_EVENTS, LINES, _event(*(b'"%X":0' % n for n in range(1500))), 500_000),
    "events with long numbers": Shape(_EVENTS, LINES, _event(b'"a":[' + (b"9" * 4000 + b",") * 15 + b"0]")),
    "events with numbers too long": Shape(_EVENTS, LINES, b'{"message":"x","data":{"a":' + b"9" * 100_000 + b"}}\n"),
    "events with powers": Shape(_EVENTS, LINES, b'{"message":"x","data":{"a":1e308,"b":-1E+99999,"c":0.0e-9}}\n', 460_000),
    "an event of one name": Shape(_EVENTS, LINES, b"k", head=b'{"message":"x","data":{"', tail=b'":0}}'),
    "steps of a document": Shape(_STEP, JSON, b"[", 60_000, b'{"data":', pack="gzip"),
    "documents with long numbers": Shape(_STEP, JSON, b"9", 60_000, b'{"timestamp":', b"}"),
    "a writer's close": Shape(_CLOSE, JSON, b'"k%d":{},', 60_000, b"{", b'"z":0}'),
    "metadata of wide objects": Shape(_FILES, JSON, b'"k%d":0,', BODY_BYTES, b"{", b'"z":0}', pack="none"),
    "metadata of lists": Shape(_FILES, JSON, b"[", BODY_BYTES, pack="none"),
    "a replay of lists": Shape(_REPLAY, JSON, b"[", BODY_BYTES, b'{"runs":', pack="none"),
    "fluent objects": Shape(_FLUENT, JSON, b"{},", 23_710, b"[", b"{}]"),
    "fluent numbers": Shape(_FLUENT, JSON, b"0,", 15_530, b"[", b"0]"),
    "fluent lines": Shape(_FLUENT, LINES, b'{"a":1}\n', 65_400),
    "fluent numbers in a line": Shape(_FLUENT, LINES, b"1 ", 4_750),
    "fluent texts": Shape(_FLUENT, TEXT, b"\n", 8_180),
    "fluent runs": Shape(_FLUENT, LINES, b'{"message":"x","runlake":{"fqn":"a%d","run_id":"r"}}\n', 13_000),
    "fluent writers": Shape(_FLUENT, LINES, b'{"message":"x","runlake":{"writer":"w%d","id":1}}\n', 12_500),
    "fluent surrogates": Shape(_FLUENT, LINES, b'{"a":"\\ud800","b":[{},{},{},{},{},{}]}\n', 62_500),
    "padded fluent lines": Shape(_FLUENT, LINES, b'{"message":"token=a","token":"b"}\n', 8_190 * 34, pack="padded"),
    "padded fluent secrets": Shape(_FLUENT, LINES, b'{"message":"token=%d","token":"b","step":"token=c"}\n', 380_000, pack="padded"),
    "padded syslog": Shape(_SYSLOG, TEXT, b'<13>1 2026-09-21T14:13:20.123456Z h a 1 I [x y="z"][token t="z"] token=m\n', 8_190 * 73, pack="padded"),
    "padded msgpack entries": Shape(_FLUENT, MSGPACK, b"\x92\x01\x81\xa5token\xa1b", 8_190 * 10, pack="padded"),
    "padded bulk": Shape(_BULK, LINES, b'{"create":{"_id":"token=a"}}\n{"token":"x"}\n', 5_000 * 43, pack="padded"),
    "padded otlp json": Shape(
        _OTLP, JSON, b'{"body":{"stringValue":"token=a"}},', 8_190 * 35,
        b'{"resourceLogs":[{"scopeLogs":[{"logRecords":[', b"{}]}]}]}", pack="padded",
    ),
    "msgpack lists": Shape(_FLUENT, MSGPACK, b"\x90", 98_000, b"\xdd\x00\x01\x1c\x00"),
    "msgpack maps": Shape(_FLUENT, MSGPACK, b"\x81\x01\x80", 97_020, b"\xdd\x00\x00\x48\x00"),
    "msgpack numbers": Shape(_FLUENT, MSGPACK, b"\x01"),
    "msgpack times": Shape(_FLUENT, MSGPACK, b"\xd4\x00\x00"),
    "msgpack entries": Shape(_FLUENT, MSGPACK, b"\x92\x01\x81\xa1a\xa1b", 57_220),
    "msgpack packed in packed": Shape(_FLUENT, MSGPACK, b"\x92\xa1t\xc4\x0a" + b"\x90" * 10, 600_000),
    "msgpack that announces a list": Shape(_FLUENT, MSGPACK, b"\xdd\xff\xff\xff\xff"),
    "msgpack that announces a map": Shape(_FLUENT, MSGPACK, b"\xdf\xff\xff\xff\xff"),
    "msgpack that announces bytes": Shape(_FLUENT, MSGPACK, b"x", head=b"\xc6\xff\xff\xff\xff"),
    "msgpack that announces a text": Shape(_FLUENT, MSGPACK, b"x", head=b"\xdb\xff\xff\xff\xff"),
    "msgpack that announces an extension": Shape(_FLUENT, MSGPACK, b"x", head=b"\xc9\xff\xff\xff\xff\x00"),
    "msgpack lists in lists": Shape(_FLUENT, MSGPACK, b"\x91"),
    "msgpack wide maps": Shape(
        _FLUENT, MSGPACK, b"\xde" + struct.pack(">H", 2000) + b"".join(b"\xcd" + struct.pack(">H", n) + b"\xc0" for n in range(2000)), 360_000
    ),
    "logstash numbers": Shape(_LOGSTASH, JSON, b"0,", 15_530, b"[", b"0]"),
    "logstash times": Shape(_LOGSTASH, LINES, b'{"message":"m","@timestamp":"2026-09-21T14:13:20.123456789+01:00","level":"warn"}\n'),
    "logstash many fields": Shape(_LOGSTASH, LINES, b'{"' + b'":1,"'.join(b"f%02d" % n for n in range(90)) + b'":1}\n', 593_990),
    "syslog words": Shape(_SYSLOG, TEXT, b"<13>x\n", 48_230),
    "syslog 5424": Shape(_SYSLOG, TEXT, b"<13>1 2026-09-21T14:13:20.123456Z h a 1 I [x y=\"z\"][x y=\"z\"] m\n", 515_020),
    "syslog open elements": Shape(_SYSLOG, TEXT, b"<13>1 - h a 1 I [x y=\"" + b"\\\\" * 40 + b"\n", 900_000),
    "syslog long element": Shape(_SYSLOG, TEXT, b' a="b"', head=b"<13>1 - h a 1 I [x"),
    "syslog 3164": Shape(_SYSLOG, TEXT, b"<34>Oct 11 22:14:15 h su[1]: x\n", 252_610),
    "syslog stacks": Shape(_SYSLOG, TEXT, b" at x\n", head=b"<13>x\n"),
    "firehose records": Shape(_FIREHOSE, JSON, _record(b"x"), 50_000, **_DELIVERY),
    "firehose values": Shape(_FIREHOSE, JSON, _record(b'{"a":[' + b"[]," * 300 + b"0]}"), **_DELIVERY),
    "firehose bombs": Shape(_FIREHOSE, JSON, _record(_BOMB), **_DELIVERY),
    "firehose of cloudwatch": Shape(
        _FIREHOSE,
        JSON,
        _record(b'{"messageType":"DATA_MESSAGE","logGroup":"g","logEvents":[' + b'{"message":"{}"},' * 90 + b'{"message":"x"}]}'),
        **_DELIVERY,
    ),
    "otlp that shares a text": _sharing(_text_attribute("x" * 3200), 2_450),
    "otlp that shares a foreign text": _sharing(_text_attribute("\u00e9" * 1600), 2_450),
    "otlp that shares a secret": _sharing(_text_attribute("token=a " * 400), 2_450),
    "otlp that shares a secret behind a text": _sharing(_text_attribute("x" * 1200 + "token=a " * 250), 2_450),
    "otlp that shares a secret under a name": _sharing(
        b'{"key":"token","value":{"arrayValue":{"values":[' + b'{"stringValue":"a"},' * 45 + b"{}]}}}", 2_450
    ),
    "firehose that shares secrets": Shape(_FIREHOSE, JSON, b"", head=_DELIVERY["head"] + _group("token=a " * 390, 2_450), tail=_DELIVERY["tail"]),
    "otlp that shares many values": _sharing(_attributes(45), 2_450),
    "otlp that shares too long a text": _sharing(_text_attribute("x" * 60_000), 2_450),
    "otlp that shares too many values": _sharing(_attributes(400), 2_450),
    "firehose that shares a log group": Shape(_FIREHOSE, JSON, b"", head=_DELIVERY["head"] + _group("g" * 3200, 2_450), tail=_DELIVERY["tail"]),
    "firehose that shares too long a log group": Shape(
        _FIREHOSE, JSON, b"", head=_DELIVERY["head"] + _group("g" * 60_000, 2_450), tail=_DELIVERY["tail"]
    ),
    "otlp records": _proto(b"\x12\x00", 20_000, 1, 2),
    "otlp scopes": _proto(b"\x12\x00", 20_000, 1),
    "otlp many records": _proto(b"\x12\x00", 4 * MIB - KIB, 1, 2),
    "otlp many scopes": _proto(b"\x12\x00", 4 * MIB - KIB, 1),
    "otlp many resources": Shape(_OTLP, PROTOBUF, b"\x0a\x00"),
    "otlp attributes": _proto(b"\x32\x00", 4 * MIB - KIB, 1, 2, 2),
    "otlp values": otlp_values(2 * MIB - KIB),
    "otlp records of attributes": _proto(_record_of_attributes(100), 1_230 * 1_404, 1, 2),
    "otlp groups and values": otlp_values(2 * MIB - KIB, b"\x0b\x0c"),
    "otlp fields": _proto(b"\x08\x00", 4 * MIB - KIB, 1, 2, 2),
    "otlp resource": _proto(b"\x0a\x00", 4 * MIB - KIB, 1, 1),
    "otlp that announces more": Shape(_OTLP, PROTOBUF, b"\x0a\xff\xff\xff\xff\x07"),
    "otlp of long varints": Shape(_OTLP, PROTOBUF, b"\xff"),
    "otlp values in values": Shape(_OTLP, PROTOBUF, b"", head=_nested(1000)),
    "otlp json in json": Shape(
        _OTLP, JSON, b'{"arrayValue":{"values":[', 25 * 900, b'{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"body":'
    ),
    "otlp json": Shape(_OTLP, JSON, b"{},", 23_710, b'{"resourceLogs":[{"scopeLogs":[{"logRecords":[', b"{}]}]}]}"),
    "otlp json values": Shape(
        _OTLP, JSON, b'{"intValue":"1"},', 628_990,
        b'{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"body":{"arrayValue":{"values":[', b"{}]}}}]}]}]}",
    ),
    "bulk empty actions": Shape(_BULK, LINES, b"{}\n", 14_950),
    "bulk documents": Shape(_BULK, LINES, b'{"create":{}}\n{"a":1}\n', 109_500),
    "bulk names": Shape(_BULK, LINES, b'{"create":{"_index":"' + b"i" * 200 + b'","_id":"' + b"d" * 200 + b'"}}\n{"a":1}\n'),
    "bulk deletes": Shape(_BULK, LINES, b'{"delete":{}}\n', 69_500),
}  # fmt: skip
"""Shapes by name of their cost. Most are just below a limit, where a body costs the most."""


def mutated(rng: random.Random) -> Iterator[tuple[str, Shape]]:
    """An endless stream of shapes derived from those above: other units, sizes, operations and packing."""
    shapes = list(SHAPES.items())
    while True:
        name, shape = rng.choice(shapes)
        changed = rng.choice(_CHANGES)(shape, rng.choice(shapes)[1], rng)
        if b"%" not in changed.unit.replace(b"%d", b"") and changed.unit.count(b"%d") < 2:
            yield f"{name}, mutated", changed


_CHANGES: list[Callable[[Shape, Shape, random.Random], Shape]] = [
    lambda shape, _, rng: replace(shape, expanded_bytes=int(shape.expanded_bytes * rng.uniform(0.2, 4))),
    lambda shape, _, rng: replace(shape, unit=_mixed(shape.unit, rng)),
    lambda shape, other, _: replace(shape, unit=shape.unit + other.unit[:200]),
    lambda shape, _, rng: replace(shape, head=_mixed(shape.head, rng)),
    lambda shape, other, _: replace(shape, path=other.path),
    lambda shape, other, _: replace(shape, content_type=other.content_type),
    lambda shape, _, rng: replace(shape, pack=rng.choice(["gzip", "padded", "gzip-type", "LogBatch"])),
]


def _mixed(unit: bytes, rng: random.Random) -> bytes:
    if not unit:
        return unit
    at, size = rng.randrange(len(unit)), rng.randrange(1, 9)
    return rng.choice([
        unit[:at] + bytes(rng.choices(b'[]{}",:\\\n\x00\x80\x90\xdd0aA<>=', k=size)) + unit[at:],
        unit[:at] + unit[at + size :] or unit,
        unit[:at] + unit[at : at + size] * 9 + unit[at:],
    ])  # fmt: skip

"""OTLP/HTTP logs, in JSON and in protobuf (opentelemetry-proto 1.x): a log record is an event.

The body is the message (a body that is not a string as JSON, and unchanged in ``data.body``; in place of an empty one the event's name
and the attributes), the severity is the level, and the rest is data: ``attributes``, ``resource``, ``scope``, ``traceId``, ``spanId``,
``flags``, ``eventName``, and times finer than milliseconds. A field that is not as OTLP defines is data as sent, and marked as unread.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, TypeVar

from chalicelib.errors import BatchTooLargeError, InvalidEventError
from chalicelib.events.codecs import json_text, records
from chalicelib.events.codecs.items import DECODE_ERRORS, UNREAD, Decoded, Item, decoded_each, with_shared
from chalicelib.events.codecs.otlp_values import (
    any_value,
    fields_of_json,
    fields_of_proto,
    key_values,
    value_of_json,
    value_of_proto,
)
from chalicelib.events.codecs.records import OWN, Moment
from chalicelib.events.event import NewEvent
from chalicelib.events.ports import Refused
from chalicelib.events.weight import weight
from chalicelib.events.well_formed import well_formed, well_formed_text
from chalicelib.lines.levels import OTLP_NUMBERS, level_of_otlp, level_of_word

MAX_RECORDS = 50_000
MAX_FIELDS = 1_000_000
_MAX_NS = (1 << 64) - 1
_IDS = ("traceId", "spanId")
_EVENT_NAME, _STACKTRACE = "event.name", "exception.stacktrace"
_BARE = re.compile(r'[^\s"=]+')
_T = TypeVar("_T")
_VARINT, _LENGTH, _SIZES = 0, 2, {1: 8, 5: 4, 3: 0, 4: 0}
"""How a field is encoded; the sizes of those without a length: fixed numbers, and the beginning and end of a group."""
_MAX_DEPTH = 100
"""The parser reads no messages below."""
_AROUND = 4
"""Levels of an event's data around an unread value: the data, its field, the attributes, and their list."""
_UNDECODABLE = "the body is not an ExportLogsServiceRequest"


@dataclass(frozen=True, slots=True)
class _Shared:
    """Values shared by the records of a scope. ``resource`` and ``scope`` are for routing rules, ``data`` is added to each record's
    data, ``bytes`` is its weight; ``unread`` names those that were not read."""

    resource: Mapping[str, Any]
    scope: Mapping[str, Any]
    data: Mapping[str, Any]
    bytes: int
    unread: tuple[str, ...] = ()

    @classmethod
    def of_resource(cls, resource: Mapping[str, Any], unread: Sequence[str] = ()) -> _Shared:
        """Computed once for each resource."""
        rest = records.split_own(resource)[1]
        data = {"resource": rest} if rest else {}
        return cls(resource, {}, data, weight(data) if data else 0, tuple(unread))

    def with_scope(self, scope: Mapping[str, Any], unread: Sequence[str] = ()) -> _Shared:
        """For one scope of the resource."""
        if not scope:
            return self
        data = {**self.data, "scope": scope}
        return _Shared(self.resource, scope, data, self.bytes + weight({"scope": scope}), (*self.unread, *unread))


@dataclass(frozen=True, slots=True)
class _Record:
    """A record, independent of its encoding. ``unread``: fields that are not as OTLP defines, as sent."""

    time_ns: int
    observed_ns: int
    severity: int
    severity_text: str
    body: Any
    attributes: dict[str, Any]
    trace_id: str
    span_id: str
    flags: int
    event_name: str
    unread: Mapping[str, Any]


_Pair = tuple[_Shared, Any]


def decode_json(body: bytes | str) -> Iterator[Item]:
    """Raises InvalidEventError if the body is not a request."""
    try:
        request = json_text.raw_value_of(body)
    except (ValueError, RecursionError) as error:
        raise InvalidEventError(_UNDECODABLE) from error
    if not isinstance(request, dict):
        raise InvalidEventError(_UNDECODABLE)
    return decoded_each(_json_pairs(request), lambda index, pair: _decoded(index, pair[0], _json_record(pair[1])))


def decode_protobuf(body: bytes, max_records: int = MAX_RECORDS, max_fields: int = MAX_FIELDS) -> Iterator[Item]:
    """Raises InvalidEventError: an invalid protobuf has no readable items; BatchTooLargeError before it is parsed."""
    from google.protobuf.message import DecodeError
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

    _check_size(body, max_records, max_fields)
    try:
        request = ExportLogsServiceRequest.FromString(body)
    except DecodeError as error:
        raise InvalidEventError(_UNDECODABLE) from error
    return decoded_each(_proto_pairs(request), lambda index, pair: _decoded(index, pair[0], _proto_record(pair[1])))


class _Kind(IntEnum):
    """A message of a request."""

    REQUEST, RESOURCE_LOGS, RESOURCE, SCOPE_LOGS, SCOPE, RECORD, PAIR, VALUE, LIST, PAIRS = range(10)


_CHILDREN = {
    _Kind.REQUEST: {1: _Kind.RESOURCE_LOGS},
    _Kind.RESOURCE_LOGS: {1: _Kind.RESOURCE, 2: _Kind.SCOPE_LOGS},
    _Kind.RESOURCE: {1: _Kind.PAIR},
    _Kind.SCOPE_LOGS: {1: _Kind.SCOPE, 2: _Kind.RECORD},
    _Kind.SCOPE: {3: _Kind.PAIR},
    _Kind.RECORD: {5: _Kind.VALUE, 6: _Kind.PAIR},
    _Kind.PAIR: {2: _Kind.VALUE},
    _Kind.VALUE: {5: _Kind.LIST, 6: _Kind.PAIRS},
    _Kind.LIST: {1: _Kind.VALUE},
    _Kind.PAIRS: {1: _Kind.PAIR},
}
"""The fields of each message that are messages, by number."""
_COUNTED = (_Kind.RESOURCE_LOGS, _Kind.SCOPE_LOGS, _Kind.RECORD)
"""Messages that count as records."""


def _check_size(body: bytes, max_records: int, max_fields: int) -> None:
    """Count records and fields before the parser creates them. Raises BatchTooLargeError."""
    records = 0
    for fields, kind in enumerate(_fields(body), 1):
        records += kind in _COUNTED
        if records > max_records:
            raise BatchTooLargeError(f"too many records for one request limit={max_records}")
        if fields > max_fields:
            raise BatchTooLargeError(f"body has too many values limit={max_fields}")


def _fields(body: bytes) -> Iterator[_Kind | None]:
    """All fields of a request and of the messages in it, with the kind of each that is a message; at least those that the parser creates before
    it finds an error. Fields in groups, which it skips, are counted as well."""
    around: list[tuple[_Kind, int]] = []
    kind, at, end = _Kind.REQUEST, 0, len(body)
    while at < end or around:
        if at >= end:
            at, (kind, end) = end, around.pop()
            continue
        key, at = _varint(body, at)
        wire = key & 7
        if wire == _VARINT:
            size, at = 0, _varint(body, at)[1]
        elif wire == _LENGTH:
            size, at = _varint(body, at)
        else:
            size = _SIZES.get(wire, end - at)
        child = _CHILDREN[kind].get(key >> 3) if wire == _LENGTH else None
        yield child
        if child and len(around) < _MAX_DEPTH:
            around.append((kind, end))
            kind, end = child, min(at + size, end)
        else:
            at += size


def _varint(body: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(body):
            break
        value |= (body[at] & 0x7F) << shift
        at += 1
        if not body[at - 1] & 0x80:
            break
    return value, at


def encode_json(events: Sequence[NewEvent], resource: Mapping[str, Any] | None = None) -> bytes:
    """A request with the events under one resource. Values that a decoder moved to an event's data return to their fields."""
    logs = [{"scope": scope, "logRecords": [_json_of(event) for event in same]} for scope, same in _by_scope(events)]
    request = {"resourceLogs": [{"resource": {"attributes": key_values(resource or {})}, "scopeLogs": logs}]}
    return json_text.compact(request).encode()


def encode_protobuf(events: Sequence[NewEvent], resource: Mapping[str, Any] | None = None) -> bytes:
    """``encode_json`` in protobuf."""
    from google.protobuf.json_format import ParseDict
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

    request = json_text.value_of(encode_json(events, resource))
    for each in request["resourceLogs"][0]["scopeLogs"]:
        for record in each["logRecords"]:  # ids are hexadecimal in OTLP's JSON, base64 in protobuf's JSON
            for name in _IDS:
                if name in record:
                    record[name] = base64.b64encode(bytes.fromhex(record[name])).decode()
    packed: bytes = ParseDict(request, ExportLogsServiceRequest()).SerializeToString()
    return packed


def _decoded(index: int, shared: _Shared, record: _Record) -> Decoded:
    own, attributes = records.split_own(record.attributes)
    body, moment = record.body, Moment.of_ns(record.time_ns or record.observed_ns)
    data: dict[str, Any] = {
        "attributes": attributes,
        "traceId": record.trace_id,
        "spanId": record.span_id,
        "flags": record.flags,
        "eventName": record.event_name,
        "body": None if isinstance(body, str) else body,
        "timeUnixNano": str(record.time_ns) if moment.is_fine and record.time_ns else None,
    }
    level = _level(record)
    if level is None or _severity_of(level) != record.severity:
        data["severityNumber"] = record.severity
    if record.severity_text != (level or ""):
        data["severityText"] = record.severity_text
    data = {name: value for name, value in data.items() if value}
    if record.unread or shared.unread:
        data |= {name: value for name, value in record.unread.items() if name not in data and value is not body}
        data[UNREAD] = [*record.unread, *shared.unread]
    text = body if isinstance(body, str) else "" if body is None else json_text.compact(body)
    message = records.line_of(text) or _described(record.event_name, attributes)
    event = records.new_event(message, moment, level, data, own)
    sources = {"attributes": record.attributes, "resource": shared.resource, "scope": shared.scope}
    return Decoded(index, with_shared(event, shared.data), sources, records.writer_of(own), moment.is_fine, shared.bytes)


def _described(event_name: str, attributes: Mapping[str, Any]) -> str:
    """The text of a record without a body: the event's name, ``key=value`` of the attributes, and a stack trace on its own lines."""
    fields = dict(attributes)
    name = event_name or fields.pop(_EVENT_NAME, "")
    trace = fields.pop(_STACKTRACE, "") if isinstance(fields.get(_STACKTRACE), str) else ""
    words = [
        name if isinstance(name, str) else json_text.compact(name),
        *(f"{key}={_word_of(value)}" for key, value in fields.items()),
    ]
    return records.line_of("\n".join(filter(None, (" ".join(filter(None, words)), trace))))


def _word_of(value: Any) -> str:
    return value if isinstance(value, str) and _BARE.fullmatch(value) else json_text.compact(value)


def _level(record: _Record) -> str | None:
    """From the severity number; if that is unspecified, from the severity text."""
    return level_of_otlp(record.severity) or level_of_word(record.severity_text)


def _severity_of(level: str) -> int:
    return OTLP_NUMBERS.get(level, 0)


def _json_pairs(request: Mapping[str, Any]) -> Iterator[_Pair | Refused]:
    for logs in _list(request, "resourceLogs"):
        try:
            scopes = _list(logs, "scopeLogs")
            of_resource = _Shared.of_resource(*_resource_json(logs.get("resource")))
        except DECODE_ERRORS:
            yield Refused(0, "an element of resourceLogs is invalid")
            continue
        for scope_logs in scopes:
            try:
                log_records = _list(scope_logs, "logRecords")
                shared = of_resource.with_scope(*_scope_json(scope_logs.get("scope")))
            except DECODE_ERRORS:
                yield Refused(0, "an element of scopeLogs is invalid")
                continue
            for record in log_records:
                yield shared, record


def _json_record(raw: Any) -> _Record:
    if not isinstance(raw, dict):
        raise ValueError(f"a log record must be an object type={type(raw).__name__}")
    unread: dict[str, Any] = {}
    body = _read(raw, "body", value_of_json, None, unread)
    return _Record(
        time_ns=_read(raw, "timeUnixNano", _number, 0, unread),
        observed_ns=_read(raw, "observedTimeUnixNano", _number, 0, unread),
        severity=_read(raw, "severityNumber", _number, 0, unread),
        severity_text=_read(raw, "severityText", _word, "", unread),
        body=unread.get("body") if body is None else body,
        attributes=_attributes_json(raw.get("attributes"), unread),
        trace_id=_read(raw, "traceId", _trace_id, "", unread),
        span_id=_read(raw, "spanId", _span_id, "", unread),
        flags=_read(raw, "flags", _number, 0, unread),
        event_name=_read(raw, "eventName", _word, "", unread),
        unread=unread,
    )


def _resource_json(raw: Any) -> tuple[dict[str, Any], list[str]]:
    unread: dict[str, Any] = {}
    if raw is not None and not isinstance(raw, dict):
        return {"resource": _as_sent(raw)}, ["resource"]
    attributes = _attributes_json((raw or {}).get("attributes"), unread)
    return attributes, ["resource"] if unread else []


def _scope_json(raw: Any) -> tuple[dict[str, Any], list[str]]:
    if raw is not None and not isinstance(raw, dict):
        return {"scope": _as_sent(raw)}, ["scope"]
    scope, unread = raw or {}, dict[str, Any]()
    found: dict[str, Any] = {name: _read(scope, name, _word, "", unread) for name in ("name", "version")}
    found["attributes"] = _attributes_json(scope.get("attributes"), unread)
    return unread | {name: value for name, value in found.items() if value}, ["scope"] if unread else []


def _list(raw: Any, name: str) -> list[Any]:
    value = raw.get(name) if isinstance(raw, dict) else ValueError
    if value is None:
        return []
    if not isinstance(value, list):
        raise (
            InvalidEventError(f"{_UNDECODABLE}: {name} must be a list")
            if name == "resourceLogs"
            else ValueError(f"{name} must be a list")
        )
    return value


def _read(raw: Mapping[str, Any], name: str, read: Callable[[Any], _T], missing: _T, unread: dict[str, Any]) -> _T:
    """A field; ``missing`` if there is none, or if its value, which is then unread, is not as OTLP defines."""
    value = raw.get(name)
    if value is None:
        return missing
    try:
        return read(value)
    except (ValueError, TypeError, OverflowError):
        unread[name] = _as_sent(value)
        return missing


def _as_sent(value: Any) -> Any:
    """An unread value as it can be stored. Raises ValueError if it is nested too deeply."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else well_formed(value, _AROUND)


def _number(value: Any) -> int:
    """64-bit numbers are texts or numbers."""
    if value == "":
        return 0
    if isinstance(value, bool) or not (
        isinstance(value, int)
        or (isinstance(value, float) and value.is_integer())
        or (isinstance(value, str) and value.isdecimal() and len(value) <= 20)
    ):
        raise ValueError("not an integer")
    number = int(value)
    if not 0 <= number <= _MAX_NS:
        raise ValueError("out of range")
    return number


def _word(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("not a string")
    return well_formed_text(value)


def _hex(value: Any, digits: int) -> str:
    word = _word(value).lower()
    if word and (len(word) != digits or not set(word) <= set("0123456789abcdef")):
        raise ValueError("not hexadecimal")
    return word


def _trace_id(value: Any) -> str:
    return _hex(value, 32)


def _span_id(value: Any) -> str:
    return _hex(value, 16)


def _attributes_json(raw: Any, unread: dict[str, Any]) -> dict[str, Any]:
    """Attributes by name; in case of invalid ones those that are readable, and the others as sent."""
    try:
        fields: dict[str, Any] = well_formed(fields_of_json(raw))
        return fields
    except DECODE_ERRORS:
        unread["attributes"] = _as_sent(raw)
    if not isinstance(raw, list):
        return {}
    fields, others = {}, []
    for pair in raw:
        try:
            fields |= well_formed(fields_of_json([pair]))
        except DECODE_ERRORS:
            others.append(_as_sent(pair))
    return fields | {"": others}


def _proto_pairs(request: Any) -> Iterator[_Pair]:
    for logs in request.resource_logs:
        of_resource = _Shared.of_resource(fields_of_proto(logs.resource.attributes))
        for scope_logs in logs.scope_logs:
            scope = scope_logs.scope
            found = {"name": scope.name, "version": scope.version, "attributes": fields_of_proto(scope.attributes)}
            shared = of_resource.with_scope({name: value for name, value in found.items() if value})
            for record in scope_logs.log_records:
                yield shared, record


def _proto_record(raw: Any) -> _Record:
    ids = {"traceId": (raw.trace_id, 16), "spanId": (raw.span_id, 8)}
    return _Record(
        time_ns=raw.time_unix_nano,
        observed_ns=raw.observed_time_unix_nano,
        severity=raw.severity_number,
        severity_text=raw.severity_text,
        body=value_of_proto(raw.body),
        attributes=fields_of_proto(raw.attributes),
        trace_id=raw.trace_id.hex(),
        span_id=raw.span_id.hex(),
        flags=raw.flags,
        event_name=raw.event_name,
        unread={name: id.hex() for name, (id, size) in ids.items() if len(id) not in (0, size)},
    )


def _by_scope(events: Sequence[NewEvent]) -> Iterator[tuple[dict[str, Any], list[NewEvent]]]:
    """Consecutive events of one scope, in the order of the events."""
    scope: Any = None
    same: list[NewEvent] = []
    for event in events:
        its = event.data.get("scope") or {}
        if same and its != scope:
            yield _scope_of(scope), same
            same = []
        scope = its
        same.append(event)
    if same:
        yield _scope_of(scope), same


def _scope_of(scope: Any) -> dict[str, Any]:
    if not isinstance(scope, Mapping):
        return {}
    attributes = scope.get("attributes")
    known = {name: scope[name] for name in ("name", "version") if isinstance(scope.get(name), str)}
    return known | ({"attributes": key_values(attributes)} if isinstance(attributes, Mapping) else {})


def _json_of(event: NewEvent) -> dict[str, Any]:
    data, level = event.data, event.level or ""
    unread: Any = data.get(UNREAD, ())
    attributes = data.get("attributes")
    fields = dict(attributes) if isinstance(attributes, Mapping) else {}
    fields |= {f"{OWN}.{name}": value for name, value in records.own_of(event).items()}
    time_ns = data.get("timeUnixNano") or (str(event.timestamp * 1_000_000) if event.timestamp is not None else None)
    record = {
        "timeUnixNano": time_ns,
        "severityNumber": data.get("severityNumber", _severity_of(level)),
        "severityText": data.get("severityText", level),
        "body": any_value(data.get("body", event.message)),
        "attributes": key_values(fields),
        **{name: data.get(name) for name in (*_IDS, "flags", "eventName") if name not in unread},
    }
    return {name: value for name, value in record.items() if value}

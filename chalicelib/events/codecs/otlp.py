"""OTLP/HTTP logs, in JSON and in protobuf (opentelemetry-proto 1.x): a log record is an event.

The body is the message (a body that is not a string as JSON, and unchanged in ``data.body``), the severity is the level, and the
rest is data: ``attributes``, ``resource``, ``scope``, ``traceId``, ``spanId``, ``flags``, ``eventName``, and times finer than
milliseconds.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from chalicelib.errors import BatchTooLargeError, InvalidEventError
from chalicelib.events.codecs import json_text, records
from chalicelib.events.codecs.items import DECODE_ERRORS, Decoded, Item, decoded_each, with_shared
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
from chalicelib.lines.levels import OTLP_NUMBERS, level_of_otlp

MAX_RECORDS = 50_000
MAX_FIELDS = 1_000_000
_MAX_NS = (1 << 64) - 1
_VARINT, _LENGTH, _SIZES = 0, 2, {1: 8, 5: 4, 3: 0, 4: 0}
"""How a field is encoded; the sizes of those without a length: fixed numbers, and the beginning and end of a group."""
_MAX_DEPTH = 100
"""The parser reads no messages below."""
_UNDECODABLE = "the body is not an ExportLogsServiceRequest"


@dataclass(frozen=True, slots=True)
class _Shared:
    """Values shared by the records of a scope. ``resource`` and ``scope`` are for routing rules, ``data`` is added to each record's
    data, ``bytes`` is its weight."""

    resource: Mapping[str, Any]
    scope: Mapping[str, Any]
    data: Mapping[str, Any]
    bytes: int

    @classmethod
    def of_resource(cls, resource: Mapping[str, Any]) -> _Shared:
        """Computed once for each resource."""
        rest = records.split_own(resource)[1]
        data = {"resource": rest} if rest else {}
        return cls(resource, {}, data, weight(data) if data else 0)

    def with_scope(self, scope: Mapping[str, Any]) -> _Shared:
        """For one scope of the resource."""
        if not scope:
            return self
        return _Shared(self.resource, scope, {**self.data, "scope": scope}, self.bytes + weight({"scope": scope}))


@dataclass(frozen=True, slots=True)
class _Record:
    """A record, independent of its encoding."""

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
            for name in ("traceId", "spanId"):
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
    message = body if isinstance(body, str) else record.event_name if body is None else json_text.compact(body)
    event = records.new_event(message, moment, level, {name: value for name, value in data.items() if value}, own)
    sources = {"attributes": record.attributes, "resource": shared.resource, "scope": shared.scope}
    return Decoded(index, with_shared(event, shared.data), sources, records.writer_of(own), moment.is_fine, shared.bytes)


def _level(record: _Record) -> str | None:
    """From the severity number; if that is unspecified, from the severity text."""
    return level_of_otlp(record.severity) or (records.level_of(record.severity_text) if record.severity_text else None)


def _severity_of(level: str) -> int:
    return OTLP_NUMBERS.get(level, 0)


def _json_pairs(request: Mapping[str, Any]) -> Iterator[_Pair | Refused]:
    for logs in _list(request, "resourceLogs"):
        try:
            of_resource = _Shared.of_resource(_attributes_json(_object(logs, "resource")))
            scopes = _list(logs, "scopeLogs")
        except DECODE_ERRORS:
            yield Refused(0, "an element of resourceLogs is invalid")
            continue
        for scope_logs in scopes:
            try:
                shared = of_resource.with_scope(_scope_json(_object(scope_logs, "scope")))
                log_records = _list(scope_logs, "logRecords")
            except DECODE_ERRORS:
                yield Refused(0, "an element of scopeLogs is invalid")
                continue
            for record in log_records:
                yield shared, record


def _json_record(raw: Any) -> _Record:
    if not isinstance(raw, dict):
        raise ValueError(f"a log record must be an object type={type(raw).__name__}")
    return _Record(
        time_ns=_number(raw, "timeUnixNano"),
        observed_ns=_number(raw, "observedTimeUnixNano"),
        severity=_number(raw, "severityNumber"),
        severity_text=_word(raw, "severityText"),
        body=value_of_json(raw.get("body")),
        attributes=_attributes_json(raw),
        trace_id=_hex(raw, "traceId", 32),
        span_id=_hex(raw, "spanId", 16),
        flags=_number(raw, "flags"),
        event_name=_word(raw, "eventName"),
    )


def _scope_json(scope: Mapping[str, Any]) -> dict[str, Any]:
    found = {"name": _word(scope, "name"), "version": _word(scope, "version"), "attributes": _attributes_json(scope)}
    return {name: value for name, value in found.items() if value}


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


def _object(raw: Any, name: str) -> Mapping[str, Any]:
    value = raw.get(name) if isinstance(raw, dict) else ValueError
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError(f"{name} must be an object")
    return value


def _number(raw: Mapping[str, Any], name: str) -> int:
    """64-bit numbers are texts or numbers."""
    value = raw.get(name)
    if value is None or value == "":
        return 0
    if (
        isinstance(value, bool)
        or not isinstance(value, int | str)
        or (isinstance(value, str) and not (value.isdecimal() and len(value) <= 20))
    ):
        raise ValueError(f"{name} must be an integer")
    number = int(value)
    if not 0 <= number <= _MAX_NS:
        raise ValueError(f"{name} is out of range")
    return number


def _word(raw: Mapping[str, Any], name: str) -> str:
    value = raw.get(name)
    if value is not None and not isinstance(value, str):
        raise ValueError(f"{name} must be a string")
    return well_formed_text(value or "")


def _hex(raw: Mapping[str, Any], name: str, digits: int) -> str:
    value = _word(raw, name).lower()
    if value and (len(value) != digits or not set(value) <= set("0123456789abcdef")):
        raise ValueError(f"{name} must have {digits} hexadecimal digits")
    return value


def _attributes_json(raw: Mapping[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = well_formed(fields_of_json(raw.get("attributes")))
    return fields


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
        **{name: data.get(name) for name in ("traceId", "spanId", "flags", "eventName")},
    }
    return {name: value for name, value in record.items() if value}

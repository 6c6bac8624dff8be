"""AWS Data Firehose's HTTP endpoint: a JSON object with base64 records. A record is one or more JSON objects with fields, a text,
or gzipped events from a CloudWatch Logs subscription."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from chalicelib.errors import BatchTooLargeError, InvalidEventError, RunlakeError
from chalicelib.events.codecs import json_text, records
from chalicelib.events.codecs.items import DECODE_ERRORS, Decoded, Item, reason_of, with_shared
from chalicelib.events.codecs.records import Moment
from chalicelib.events.event import MAX_TIMESTAMP_MS, NewEvent
from chalicelib.events.ports import Refused
from chalicelib.events.weight import weight
from chalicelib.events.well_formed import well_formed_text
from chalicelib.lines.timestamps import TimestampParser

_GZIP_MAGIC = b"\x1f\x8b"
_DATA, _CONTROL = "DATA_MESSAGE", "CONTROL_MESSAGE"
Unpack = Callable[[bytes], bytes]


@dataclass(frozen=True, slots=True)
class Delivery:
    """A decoded request: its id, the same in all attempts, and its items."""

    request_id: str
    items: Iterator[Item]


def decode(body: bytes | str, gunzip: Unpack, common: str = "", check: Callable[[bytes], None] = lambda _: None) -> Delivery:
    """``common``: the header ``X-Amz-Firehose-Common-Attributes``; its fields are the source ``common``. ``gunzip`` raises
    RunlakeError for invalid gzip; ``check`` gets each record before it is parsed. BatchTooLargeError of either applies to the whole
    delivery. Raises InvalidEventError if the body is not a delivery."""
    try:
        request = json_text.value_of(body)
    except (ValueError, RecursionError) as error:
        raise InvalidEventError("the body is not a Firehose delivery: not json") from error
    if (
        not isinstance(request, dict)
        or not isinstance(request.get("requestId"), str)
        or not isinstance(request.get("records"), list)
    ):
        raise InvalidEventError("the body is not a Firehose delivery: requestId and records are required")
    return Delivery(
        request["requestId"], _items(request["records"], partial(_content, gunzip=gunzip, check=check), {"common": _common(common)})
    )


def encode(events: Sequence[NewEvent], request_id: str, now_ms: int) -> bytes:
    """A delivery with a record for each event."""
    packed = [base64.b64encode(json_text.compact(records.record_of(event, "timestamp")).encode()).decode() for event in events]
    return json_text.compact(
        {"requestId": request_id, "timestamp": now_ms, "records": [{"data": each} for each in packed]}
    ).encode()


def _items(raw_records: Sequence[Any], content: Callable[[Any], bytes], sources: Mapping[str, Any]) -> Iterator[Item]:
    clock = TimestampParser()
    number = 0
    for record in raw_records:
        try:
            found = list(_of_record(content(record), sources, clock))
        except BatchTooLargeError:
            raise
        except (*DECODE_ERRORS, RunlakeError) as error:
            found = [Refused(0, reason_of(error))]
        for each in found:
            yield _numbered(each, number)
            number += 1


def _content(record: Any, gunzip: Unpack, check: Callable[[bytes], None]) -> bytes:
    data = _data(record)
    if data.startswith(_GZIP_MAGIC):
        data = gunzip(data)
    check(data)
    return data


def _of_record(data: bytes, sources: Mapping[str, Any], clock: TimestampParser) -> Iterator[Item]:
    text = json_text.text_of(data)
    values = list(json_text.values(text)) if text.lstrip()[:1] == "{" else []
    if all(isinstance(value, Refused) for value in values):
        message = well_formed_text(text).removesuffix("\n").removesuffix("\r")
        yield Decoded(0, NewEvent(message=message), sources)
        return
    for value in values:
        if isinstance(value, Refused):
            yield value
        elif isinstance(value, dict) and value.get("messageType") in (_DATA, _CONTROL) and isinstance(value.get("logEvents"), list):
            yield from _of_cloudwatch(value, sources)
        else:
            yield _attempt(partial(records.decoded, 0, value, clock, sources))


def _of_cloudwatch(message: Mapping[str, Any], sources: Mapping[str, Any]) -> Iterator[Item]:
    """Control messages only test the connection."""
    if message["messageType"] == _CONTROL:
        return
    group, stream = message.get("logGroup"), message.get("logStream")
    known = {name: value for name, value in (("log_group", group), ("log_stream", stream)) if isinstance(value, str)}
    shared = {name: value for name, value in (("logGroup", group), ("logStream", stream)) if isinstance(value, str) and value}
    shared_bytes = weight(shared)
    for event in message["logEvents"]:
        yield _attempt(partial(_log_event, event, {**sources, **known}, shared, shared_bytes))


def _log_event(event: Any, sources: Mapping[str, Any], shared: Mapping[str, str], shared_bytes: int) -> Decoded:
    if not isinstance(event, dict) or not isinstance(event.get("message"), str):
        raise ValueError("a log event must have a message")
    time, number = event.get("timestamp"), event.get("id")
    moment = Moment(time) if isinstance(time, int) and not isinstance(time, bool) and 0 <= time <= MAX_TIMESTAMP_MS else Moment()
    fields = event.get("extractedFields")
    data = {"eventId": number, "extractedFields": fields}
    own, record = _own_json(event["message"])
    new = records.new_event(
        event["message"].removesuffix("\n"), moment, None, {name: value for name, value in data.items() if value}, own
    )
    known = {**sources, "record": record}
    return Decoded(0, with_shared(new, shared), known, records.writer_of(own), isinstance(number, str), shared_bytes)


def _own_json(message: str) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """The Runlake fields of a JSON message, and all of its fields."""
    if message[:1] != "{":
        return {}, {}
    try:
        record = json_text.value_of(message)
    except (ValueError, RecursionError):
        return {}, {}
    return (records.split_own(record)[0], record) if isinstance(record, dict) else ({}, {})


def _data(record: Any) -> bytes:
    if not isinstance(record, dict) or not isinstance(record.get("data"), str):
        raise ValueError("a record must have data")
    try:
        return base64.b64decode(record["data"], validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError("the record's data is not base64") from error


def _common(header: str) -> Mapping[str, Any]:
    """An unreadable header has no attributes."""
    try:
        document = json.loads(header or "{}")
        attributes = document.get("commonAttributes")
    except (ValueError, AttributeError, RecursionError):
        return {}
    return attributes if isinstance(attributes, dict) else {}


def _attempt(decode: Callable[[], Decoded]) -> Item:
    try:
        return decode()
    except DECODE_ERRORS as error:
        return Refused(0, reason_of(error))


def _numbered(item: Item, number: int) -> Item:
    if isinstance(item, Refused):
        return Refused(number, item.reason, item.retryable)
    return replace(item, index=number)

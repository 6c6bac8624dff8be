"""AWS Data Firehose's HTTP endpoint: a JSON object with base64 records. A record is one or more JSON objects with fields or lists of
them, a text of one log record or several, or gzipped events from a CloudWatch Logs subscription."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any

from chalicelib.errors import BatchTooLargeError, InvalidEventError, RunlakeError
from chalicelib.events.codecs import json_text, records
from chalicelib.events.codecs.items import DECODE_ERRORS, Decoded, Item, reason_of, with_shared
from chalicelib.events.codecs.parts import joined
from chalicelib.events.codecs.records import Moment
from chalicelib.events.event import MAX_TIMESTAMP_MS, NewEvent
from chalicelib.events.ports import Refused
from chalicelib.events.weight import weight
from chalicelib.events.well_formed import well_formed_text
from chalicelib.lines.events import events
from chalicelib.lines.formats import ANY
from chalicelib.lines.text import decode_line
from chalicelib.lines.timestamps import TimestampParser

_GZIP_MAGIC = b"\x1f\x8b"
_DATA, _CONTROL = "DATA_MESSAGE", "CONTROL_MESSAGE"
MAX_TEXT_LINES = MAX_VALUES = 50_000
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
    items = _items(request["records"], partial(_content, gunzip=gunzip, check=check), {"common": _common(common)})
    return Delivery(request["requestId"], joined(items))


def encode(events: Sequence[NewEvent], request_id: str, now_ms: int) -> bytes:
    """A delivery with a record for each event."""
    packed = [base64.b64encode(json_text.compact(records.record_of(event, "timestamp")).encode()).decode() for event in events]
    return json_text.compact(
        {"requestId": request_id, "timestamp": now_ms, "records": [{"data": each} for each in packed]}
    ).encode()


def _items(raw_records: Sequence[Any], content: Callable[[Any], bytes], sources: Mapping[str, Any]) -> Iterator[Item]:
    clock, texts = TimestampParser(), _Texts(sources)
    numbers = count()
    for record in raw_records:
        try:
            data = content(record)
        except BatchTooLargeError:
            raise
        except (*DECODE_ERRORS, RunlakeError) as error:
            yield Refused(next(numbers), reason_of(error))
        else:
            yield from _of_record(data, numbers, sources, clock, texts)


def _content(record: Any, gunzip: Unpack, check: Callable[[bytes], None]) -> bytes:
    data = _data(record)
    if data.startswith(_GZIP_MAGIC):
        data = gunzip(data)
    check(data)
    return data


def _of_record(
    data: bytes, numbers: Iterator[int], sources: Mapping[str, Any], clock: TimestampParser, texts: _Texts
) -> Iterator[Item]:
    """The items of a record, with the next ``numbers``."""
    text = json_text.text_of(data)
    values = texts.values_of(text)
    if not values:
        yield from texts.items_of(text, numbers)
    for value in values:
        if isinstance(value, Refused):
            yield Refused(next(numbers), value.reason, value.retryable)
        elif isinstance(value, dict) and value.get("messageType") in (_DATA, _CONTROL) and isinstance(value.get("logEvents"), list):
            yield from _of_cloudwatch(value, numbers, sources)
        else:
            record = value if isinstance(value, dict | str | json_text.NotJson) else json_text.compact(value)
            yield _attempt(next(numbers), partial(records.decoded, record=record, clock=clock, sources=sources))


class _Texts:
    """Texts of one delivery. Searches ``MAX_TEXT_LINES`` of their lines for JSON, and as many for log records, since that takes longer than
    anything else."""

    def __init__(self, sources: Mapping[str, Any]) -> None:
        self._sources, self._lines_left, self._unread_left = sources, MAX_TEXT_LINES, MAX_TEXT_LINES

    def values_of(self, text: str) -> list[Any]:
        """The values of a record, and the elements of lists among them; none if it is a text, which may begin with a bracket. Raises
        BatchTooLargeError."""
        begin = text.lstrip()[:1]
        values, unread = list[Any](), 0
        for value in json_text.values(text) if begin in ("{", "[") else ():
            values.append(value)
            unread += isinstance(value, Refused | json_text.NotJson)
            if len(values) > (self._unread_left if unread == len(values) else MAX_VALUES):
                break
        if unread == len(values) or (begin == "[" and unread):
            self._unread_left = max(self._unread_left - unread, 0)
            return []
        if len(values) > MAX_VALUES:
            raise BatchTooLargeError(f"a record has too many values limit={MAX_VALUES}")
        if begin == "{":
            return values
        elements = [each for value in values for each in (value if isinstance(value, list) else [value])]
        return elements if any(isinstance(each, dict | str) for each in elements) else []

    def items_of(self, text: str, numbers: Iterator[int]) -> Iterator[Item]:
        """An event for each log record if several begin in the text; stack traces stay with their record."""
        message = records.line_of(well_formed_text(text))
        newlines = message.count("\n")
        if newlines and newlines < self._lines_left:
            self._lines_left -= newlines + 1
            if _has_several(message):
                for each in events(enumerate(map(str.encode, json_text.lines_of(message))), ANY):
                    yield Decoded(next(numbers), NewEvent(message=each.raw.decode().removesuffix("\r")), self._sources)
                return
        yield Decoded(next(numbers), NewEvent(message=message), self._sources)


def _has_several(text: str) -> bool:
    """Whether at least two lines begin a log record."""
    read = ANY.reader()
    begins = (line for line in json_text.lines_of(text) if read(decode_line(line.encode())) is not None)
    return next(begins, None) is not None and next(begins, None) is not None


def _of_cloudwatch(message: Mapping[str, Any], numbers: Iterator[int], sources: Mapping[str, Any]) -> Iterator[Item]:
    """Control messages only test the connection."""
    if message["messageType"] == _CONTROL:
        return
    group, stream = message.get("logGroup"), message.get("logStream")
    known = {name: value for name, value in (("log_group", group), ("log_stream", stream)) if isinstance(value, str)}
    shared = {name: value for name, value in (("logGroup", group), ("logStream", stream)) if isinstance(value, str) and value}
    shared_bytes = weight(shared)
    known = {**sources, **known}
    for event in message["logEvents"]:
        yield _attempt(next(numbers), partial(_log_event, event=event, sources=known, shared=shared, shared_bytes=shared_bytes))


def _log_event(index: int, event: Any, sources: Mapping[str, Any], shared: Mapping[str, str], shared_bytes: int) -> Decoded:
    if not isinstance(event, dict) or not isinstance(event.get("message"), str):
        raise ValueError("a log event must have a message")
    time, number = event.get("timestamp"), event.get("id")
    moment = Moment(time) if isinstance(time, int) and not isinstance(time, bool) and 0 <= time <= MAX_TIMESTAMP_MS else Moment()
    fields = event.get("extractedFields")
    data = {"eventId": number, "extractedFields": fields}
    own, record = _own_json(event["message"])
    new = records.new_event(
        records.line_of(event["message"]), moment, None, {name: value for name, value in data.items() if value}, own
    )
    known = {**sources, "record": record}
    return Decoded(index, with_shared(new, shared), known, records.writer_of(own), isinstance(number, str), shared_bytes)


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


def _attempt(index: int, decode: Callable[[int], Decoded]) -> Item:
    try:
        return decode(index)
    except DECODE_ERRORS as error:
        return Refused(index, reason_of(error))

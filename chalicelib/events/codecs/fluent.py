"""Fluent Bit's and Fluentd's HTTP outputs: all of their JSON formats, and MessagePack.

MessagePack has four forms, which may be mixed in a body: Fluent Bit's chunks (``[time, record]``, since 2.1 ``[[time, metadata],
record]``), Fluentd's formatter (bare records), and the modes of the forward protocol (``[tag, time, record]``, ``[tag, [[time,
record], …]]``, and the same packed into one binary). Times are seconds, or EventTime with nanoseconds.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, tzinfo
from typing import Any

from chalicelib.errors import BatchTooLargeError
from chalicelib.events.codecs import json_text, records
from chalicelib.events.codecs.items import Decoded, Item, decoded_each, marked
from chalicelib.events.codecs.parts import joined
from chalicelib.events.codecs.records import Moment
from chalicelib.events.event import MAX_TIMESTAMP_MS, NewEvent
from chalicelib.events.ports import Refused
from chalicelib.lines.timestamps import TimestampParser

EVENT_TIME = 0
"""MessagePack's extension type for Fluentd's times: seconds and nanoseconds, 32 bits each, big endian."""
_NS = 1_000_000_000
_GROUP_BEGINS, _GROUP_ENDS = 0xFFFFFFFF, 0xFFFFFFFE
"""Seconds in Fluent Bit's markers around records that share a resource."""
_MAX_SECONDS = MAX_TIMESTAMP_MS // 1000
MAX_VALUES = 1_000_000
_Entry = tuple[str | None, Any, Any, Mapping[str, Any]]
"""Tag, time, record, and the fields of the group."""


def decode_json(body: bytes | str, tag: str | None = None, zone: tzinfo = UTC) -> Iterator[Item]:
    """Formats ``json``, ``json_lines``, ``json_stream`` and ``gelf``; Fluentd's ``json`` with and without ``json_array``. ``zone``: of times
    without one."""
    clock, sources = TimestampParser(zone), _tagged(tag)
    return joined(decoded_each(json_text.values(body), lambda index, value: records.decoded(index, value, clock, sources)))


def decode_msgpack(body: bytes, tag: str | None = None, max_values: int = MAX_VALUES, zone: tzinfo = UTC) -> Iterator[Item]:
    """Format ``msgpack``. If the encoding is invalid, the items before that point are good and the rest is one refused item. Raises
    BatchTooLargeError during iteration, before more than about ``max_values`` values of the body are in memory. ``zone``: of times without one."""
    clock = TimestampParser(zone)

    def decode(index: int, entry: _Entry) -> Decoded:
        own_tag, time, record, group = entry
        sources = {**_tagged(own_tag or tag), **group}
        if time is None or (moment := _moment(time, clock)):
            return records.decoded(index, jsonable(record), clock, sources, None if time is None else moment)
        item = records.decoded(index, jsonable(record), clock, sources)
        return marked(item, "time", jsonable(time) if isinstance(time, str | int | float) else None)

    return joined(decoded_each(_entries(body, _Values(max_values)), decode))


def encode_json(events: Sequence[NewEvent]) -> bytes:
    """Fluent Bit's format ``json``, with times in ms."""
    return json_text.compact([records.record_of(event, "timestamp") for event in events]).encode()


def encode_json_lines(events: Sequence[NewEvent]) -> bytes:
    """Fluent Bit's format ``json_lines`` and Fluentd's ``json``."""
    return "".join(json_text.compact(records.record_of(event, "timestamp")) + "\n" for event in events).encode()


def encode_msgpack(events: Sequence[NewEvent]) -> bytes:
    """Fluent Bit's format ``msgpack``; Fluentd's for an event without a time."""
    import msgpack

    packer = msgpack.Packer()
    return b"".join(packer.pack(_packable(event, msgpack)) for event in events)


def jsonable(value: Any) -> Any:
    """MessagePack values as JSON: bytes as text, other keys and extensions as texts."""
    if isinstance(value, dict):
        return {name if isinstance(name, str) else str(jsonable(name)): jsonable(each) for name, each in value.items()}
    if isinstance(value, list | tuple) and not hasattr(value, "code"):
        return [jsonable(each) for each in value]
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, float) and value - value != 0:
        return str(value)
    if value is None or isinstance(value, str | int | float):
        return value
    return _extension(value)


def _extension(value: Any) -> Any:
    if hasattr(value, "to_unix_nano"):
        return value.to_unix_nano() / _NS
    if value.code == EVENT_TIME and len(value.data) == 8:
        return _ns(value) / _NS
    return base64.b64encode(value.data).decode()


def _entries(body: bytes, values: _Values) -> Iterator[_Entry | Refused]:
    group: dict[str, Any] = {}
    for value in _unpacked(body, values):
        for entry in [value] if isinstance(value, Refused) else _entries_of(value, values):
            if isinstance(entry, Refused):
                yield entry
                continue
            mark = _mark(entry[1])
            if mark == _GROUP_BEGINS:
                try:
                    group = _group(entry[2])
                except RecursionError:
                    group = {}
                    yield Refused(0, "the group's fields are nested too deeply")
            elif mark == _GROUP_ENDS:
                group = {}
            else:
                yield entry[0], entry[1], entry[2], group


class _Values:
    """Counts values while they are unpacked, and stops at the limit."""

    def __init__(self, limit: int) -> None:
        self.limit = self._left = limit

    def count(self, container: Any) -> Any:
        """The unpacker's hook for each list and map. Raises BatchTooLargeError."""
        self._left -= len(container) + 1
        if self._left < 0:
            raise self.error()
        return container

    def error(self) -> BatchTooLargeError:
        """The error for a single container that exceeds the limit."""
        return BatchTooLargeError(f"body has too many values limit={self.limit}")


def _unpacked(body: bytes, values: _Values) -> Iterator[Any | Refused]:
    import msgpack

    unpacker = msgpack.Unpacker(
        raw=False,
        unicode_errors="replace",
        strict_map_key=False,
        max_buffer_size=len(body) or 1,
        max_array_len=values.limit,
        max_map_len=values.limit,
        list_hook=values.count,
        object_hook=values.count,
    )
    unpacker.feed(body)
    while True:
        begun = unpacker.tell()
        try:
            value = unpacker.unpack()
        except msgpack.OutOfData:
            if begun < len(body):
                yield Refused(0, "the msgpack is truncated")
            return
        except (ValueError, TypeError, RecursionError, msgpack.UnpackException) as error:
            if "exceeds max_array_len" in str(error) or "exceeds max_map_len" in str(error):
                raise values.error() from error
            yield Refused(0, f"the msgpack is invalid here: {type(error).__name__.lower()}")
            return
        yield value


def _entries_of(value: Any, values: _Values) -> Iterable[_Entry | Refused]:
    match value:
        case dict():
            return [(None, None, value, {})]
        case [str(tag), time, dict(record), *_] if not isinstance(time, list | bytes):
            return [(tag, time, record, {})]
        case [str(tag), bytes(packed), *options]:
            return _of_stream(tag, packed, options, values)
        case [str(tag), list(entries), *_]:
            return (each for entry in entries for each in _of_pair(tag, entry))
        case _:
            return _of_pair(None, value)


def _of_pair(tag: str | None, pair: Any) -> Iterable[_Entry | Refused]:
    match pair:
        case [[time, dict()], dict(record)] | [time, dict(record)]:
            return [(tag, time, record, {})]
        case _:
            return [Refused(0, "an entry must be a record, or a time and a record")]


def _of_stream(tag: str, packed: bytes, options: Sequence[Any], values: _Values) -> Iterator[_Entry | Refused]:
    if options and isinstance(options[0], dict) and options[0].get("compressed") not in (None, "text"):
        yield Refused(0, "packed entries are not compressed: compress the request")
        return
    for value in _unpacked(packed, values):
        yield from [value] if isinstance(value, Refused) else _of_pair(tag, value)


def _mark(time: Any) -> int | None:
    if isinstance(time, int) and not isinstance(time, bool) and time < 0:
        return time & 0xFFFFFFFF
    seconds = _ns(time) // _NS if _is_event_time(time) else None
    return seconds if seconds in (_GROUP_BEGINS, _GROUP_ENDS) else None


def _group(record: Any) -> dict[str, Any]:
    """The resource attributes of a group of records."""
    fields = jsonable(record)
    resource = fields.get("resource") if isinstance(fields, dict) else None
    attributes = resource.get("attributes") if isinstance(resource, dict) else None
    return {"resource": attributes} if isinstance(attributes, dict) else {}


def _is_event_time(time: Any) -> bool:
    return getattr(time, "code", None) == EVENT_TIME and len(time.data) == 8


def _ns(time: Any) -> int:
    return int.from_bytes(time.data[:4], "big") * _NS + int.from_bytes(time.data[4:], "big")


def _moment(time: Any, clock: TimestampParser) -> Moment | None:
    """The time of an entry; None if it cannot be read."""
    if _is_event_time(time):
        return Moment.of_ns(_ns(time))
    ns: int | None = None
    if hasattr(time, "to_unix_nano"):
        ns = time.to_unix_nano()
    elif isinstance(time, int | float) and not isinstance(time, bool):
        ns = round(time * 1_000_000) * 1000 if abs(time) <= _MAX_SECONDS else None
    elif isinstance(time, str) and (us := clock.parse_text(time)) is not None:
        ns = us * 1000
    return Moment.of_ns(ns) if ns is not None and 0 <= ns // _NS <= _MAX_SECONDS else None


def _tagged(tag: str | None) -> dict[str, Any]:
    return {"tag": tag} if tag else {}


def _packable(event: NewEvent, packing: Any) -> Any:
    record = records.record_of(event, "timestamp")
    if event.timestamp is None:
        return record
    del record["timestamp"]
    seconds, ms = divmod(event.timestamp, 1000)
    return [packing.ExtType(EVENT_TIME, seconds.to_bytes(4, "big") + (ms * 1_000_000).to_bytes(4, "big")), record]

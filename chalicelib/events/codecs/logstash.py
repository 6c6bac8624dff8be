"""Logstash's ``http`` output: formats ``json`` (one event), ``json_batch`` (a list) and ``message`` (text). Field names follow the
Elastic Common Schema."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, tzinfo

from chalicelib.events.codecs import json_text, records
from chalicelib.events.codecs.items import Item, decoded_each
from chalicelib.events.codecs.parts import joined
from chalicelib.events.event import NewEvent
from chalicelib.lines.timestamps import TimestampParser


def decode(body: bytes | str, zone: tzinfo = UTC) -> Iterator[Item]:
    """Formats ``json`` and ``json_batch``; also lines of JSON, from the codec ``json_lines``. ``zone``: of times without one."""
    clock = TimestampParser(zone)
    return joined(decoded_each(json_text.values(body), lambda index, value: records.decoded(index, value, clock, {})))


def encode(events: Sequence[NewEvent]) -> bytes:
    """Format ``json_batch``, with times in ms."""
    return json_text.compact([records.record_of(event) for event in events]).encode()


def encode_lines(events: Sequence[NewEvent]) -> bytes:
    """The codec ``json_lines``: one event per line."""
    return "".join(json_text.compact(records.record_of(event)) + "\n" for event in events).encode()

"""Logstash's ``http`` output: formats ``json`` (one event), ``json_batch`` (a list) and ``message`` (text). Events name their fields as
the Elastic common schema does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from chalicelib.events.codecs import json_text, records
from chalicelib.events.codecs.items import Item, decoded_each
from chalicelib.events.event import NewEvent
from chalicelib.lines.timestamps import TimestampParser


def decode(body: bytes | str) -> Iterator[Item]:
    """Formats ``json`` and ``json_batch``; lines of JSON too, as the codec ``json_lines`` writes them."""
    clock = TimestampParser()
    return decoded_each(json_text.values(body), lambda index, value: records.decoded(index, value, clock, {}))


def encode(events: Sequence[NewEvent]) -> bytes:
    """As ``json_batch`` writes it, but for times, which are ms."""
    return json_text.compact([records.record_of(event) for event in events]).encode()


def encode_lines(events: Sequence[NewEvent]) -> bytes:
    """As the codec ``json_lines`` writes it: an event a line."""
    return "".join(json_text.compact(records.record_of(event)) + "\n" for event in events).encode()

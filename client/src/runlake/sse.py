"""Parsing of server-sent events: https://html.spec.whatwg.org/multipage/server-sent-events.html."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Event:
    """One event: its data, the last id of the stream so far, and the last reconnection delay (ms), if the stream has one."""

    data: str
    id: str | None
    retry_ms: int | None


def events_of(lines: Iterable[str]) -> Iterator[Event]:
    """Events of a response's lines. Comments are ignored, and an event without a terminating empty line is dropped."""
    data: list[str] = []
    last_id: str | None = None
    retry_ms: int | None = None
    for line in lines:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            data.append(value)
        elif name == "id" and "\0" not in value:
            last_id = value
        elif name == "retry" and value.isdecimal():
            retry_ms = int(value)
        elif not line and data:
            yield Event("\n".join(data), last_id, retry_ms)
            data = []

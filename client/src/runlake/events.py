"""Events of one writer as lines of JSON, with ids from 0, masked, and each small enough for one request."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from runlake.annotations import Annotation
from runlake.deliveries import STEP, WriterEnd
from runlake.masking import Mask

MAX_EVENT_BYTES = 1024 * 1024
"""Of one event as JSON. Beyond that, its data is omitted, then the end of its message; a note in the message says so."""
MAX_DATA_BYTES = 60_000
"""Of data and annotations as ASCII JSON: the archive refuses an event with more than 64 KiB."""
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True)
class EventInput:
    """An event before it is encoded. ``message``: one line or more, without the last newline; ``timestamp_ms`` None: now."""

    message: str
    step: str | None = None
    level: str | None = None
    timestamp_ms: int | None = None
    data: Mapping[str, Any] = field(default_factory=dict)
    annotations: Iterable[Annotation] = ()


class EventLines:
    """Encodes the events of one writer, each with the writer's ``data``, of which it may override fields. Ids follow the order of the calls; an
    event that is dropped later leaves a gap in them, so that the archive knows what is missing. Thread-safe, also in signal handlers."""

    def __init__(self, mask: Mask, data: Mapping[str, Any]) -> None:
        self._mask = mask
        self._data = mask.json(data)
        self._ids = count()
        self._last_ms: int | None = None
        self._end: WriterEnd | None = None
        self.cut = 0

    def event(self, said: EventInput) -> bytes:
        """The line of an event. Values of data that are not JSON become their ``repr``."""
        timestamp_ms = now_ms() if said.timestamp_ms is None else said.timestamp_ms
        self._last_ms = max(self._last_ms or 0, timestamp_ms)
        head = {"id": next(self._ids), "timestamp": timestamp_ms}
        message, masked_position = self._mask.with_positions(said.message)
        more = {"step": said.step, "level": said.level}
        within = [each for each in said.annotations if 0 <= each.position <= len(said.message)]
        notes = [self._annotation(each, masked_position(each.position)) for each in within]
        extras = {"data": {**self._data, **self._mask.json(said.data)}, "annotations": notes}
        line = _line({**head, "message": message, **_non_empty(more | extras)})
        if len(line) <= MAX_EVENT_BYTES and (len(line) < MAX_DATA_BYTES // 6 or len(json.dumps(extras)) <= MAX_DATA_BYTES):
            return line
        return self._shortened({**head, **_non_empty(more)}, message)

    def step(self, step: str, facts: Mapping[str, Any]) -> bytes:
        """The line of a step's update."""
        return _line({STEP: step, **self._mask.json(facts)})

    def gap(self, lines: int) -> bytes:
        """The line of an event that states how many events before it were dropped."""
        return self.event(
            EventInput(f"[runlake] {lines} events are missing here: they were dropped, the buffer was full", level="WARNING")
        )

    def end(self) -> WriterEnd:
        """The number of ids and the latest timestamp, as of the first call."""
        if self._end is None:
            self._end = WriterEnd(next(self._ids), self._last_ms)
        return self._end

    def _annotation(self, annotation: Annotation, position: int) -> dict[str, Any]:
        return {"position": position, "note": self._mask.json(annotation.note)}

    def _shortened(self, head: Mapping[str, Any], message: str) -> bytes:
        """Without data and annotations, the message cut to fit: JSON encodes some characters as six."""
        self.cut += 1
        kept = len(message)
        while True:
            note = f"\n[runlake] cut here: {len(message) - kept} more characters" if kept < len(message) else ""
            line = _line({**head, "message": message[:kept] + note})
            if len(line) <= MAX_EVENT_BYTES or not kept:
                return line
            kept = min(kept, MAX_EVENT_BYTES) // 2


def new_writer_name() -> str:
    """A unique writer's name, with the host and process to look at if the writer is lost."""
    host = _NOT_IN_A_NAME.sub("-", os.uname().nodename)[:40]
    return f"{host}-{os.getpid()}-{os.urandom(4).hex()}"


def now_ms() -> int:
    """The time, in ms since the epoch."""
    return time.time_ns() // 1_000_000


def _non_empty(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value}


def _line(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace") + b"\n"

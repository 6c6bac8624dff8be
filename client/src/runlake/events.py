"""Events as lines of JSON: what one writer says, with ids from 0, masked, and none of them longer than a request can carry."""

from __future__ import annotations

import json
import os
import re
import secrets
import socket
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from runlake.annotations import Annotation
from runlake.deliveries import STEP, Ended
from runlake.masking import Mask

MAX_EVENT_BYTES = 1024 * 1024
"""Of one event as JSON. A longer one loses its data first, then the end of its message, and says so."""
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class Said:
    """What somebody says. ``message``: one or many lines, without the last newline; ``timestamp_ms`` None: now."""

    message: str
    step: str | None = None
    level: str | None = None
    timestamp_ms: int | None = None
    data: Mapping[str, Any] = field(default_factory=dict)
    annotations: Iterable[Annotation] = ()


class EventLines:
    """Makes the lines of one writer. Ids are given in the order of the calls; an event that is dropped later keeps its id, so that the
    archive knows what is missing. Safe for threads and in signal handlers."""

    def __init__(self, mask: Mask) -> None:
        self._mask = mask
        self._ids = count()
        self._last_ms: int | None = None
        self._ended: Ended | None = None
        self.cut = 0

    def event(self, said: Said) -> bytes:
        """A line. Values of data that are no JSON become their ``repr``."""
        timestamp_ms = now_ms() if said.timestamp_ms is None else said.timestamp_ms
        self._last_ms = max(self._last_ms or 0, timestamp_ms)
        head = {"id": next(self._ids), "timestamp": timestamp_ms}
        message, moved = self._mask.moved(said.message)
        more: dict[str, Any] = {"step": said.step, "level": said.level}
        more["data"] = self._mask.json(said.data)
        more["annotations"] = [self._annotation(each, moved(each.position)) for each in said.annotations]
        line = _line({**head, "message": message, **{name: value for name, value in more.items() if value}})
        return line if len(line) <= MAX_EVENT_BYTES else self._shortened(head, message, said)

    def step(self, step: str, facts: Mapping[str, Any]) -> bytes:
        """A line that tells of a step."""
        return _line({STEP: step, **self._mask.json(facts)})

    def gap(self, lines: int) -> bytes:
        """A line that tells how many are missing before it."""
        return self.event(
            Said(f"[runlake] {lines} events are missing here: they were dropped, the buffer was full", level="WARNING")
        )

    def ended(self) -> Ended:
        """How many ids were given, and the last time, as it was when this was asked first."""
        if self._ended is None:
            self._ended = Ended(next(self._ids), self._last_ms)
        return self._ended

    def _annotation(self, annotation: Annotation, position: int) -> dict[str, Any]:
        return {"position": position, "note": self._mask.json(annotation.note)}

    def _shortened(self, head: Mapping[str, Any], message: str, said: Said) -> bytes:
        """Without data and annotations, and as much of the message as fits; JSON makes six letters of some."""
        self.cut += 1
        kept = min(len(message), MAX_EVENT_BYTES // 2)
        level = {"level": said.level} if said.level else {}
        step = {"step": said.step} if said.step else {}
        while True:
            note = f"\n[runlake] cut here: {len(message) - kept} more characters" if kept < len(message) else ""
            line = _line({**head, "message": message[:kept] + note, **step, **level})
            if len(line) <= MAX_EVENT_BYTES or not kept:
                return line
            kept //= 2


def new_writer() -> str:
    """A writer's name that nobody else makes up; it says where to look for one that is lost."""
    host = _NOT_IN_A_NAME.sub("-", socket.gethostname())[:40]
    return f"{host}-{os.getpid()}-{secrets.token_hex(4)}"


def now_ms() -> int:
    """The time, in ms since the epoch."""
    return time.time_ns() // 1_000_000


def _line(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace") + b"\n"

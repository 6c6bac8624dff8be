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
from urllib.parse import quote

from runlake.annotations import Annotation
from runlake.deliveries import STEP, WriterEnd
from runlake.errors import SettingsError
from runlake.masking import Mask
from runlake.names import RunName, path_segment
from runlake.terminal import sanitize

MAX_EVENT_BYTES = 1024 * 1024
"""Of one event as JSON. Beyond that, its data is omitted, then the end of its message; a note in the message says so."""
MAX_DATA_BYTES = 60_000
"""Of data and annotations as ASCII JSON: the archive refuses an event with more than 64 KiB."""
MAX_NAME_CHARS = 200
MAX_RUN_NAME_BYTES = 1002
"""Of FQN and run id, percent-encoded: beyond that, an S3 key is too long for any prefix of the archive."""
RESERVED_RUN_IDS = frozenset({"last", "close", "download", "grep", "explanation", "histogram"})
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


def checked_run_name(run: RunName) -> RunName:
    """Reject a run name that the archive would refuse, as far as the client can know. Raises SettingsError."""
    for what, name in (("fqn", run.fqn), ("run id", run.run_id)):
        if not name or "\t" in name or sanitize(name) != name:
            raise _misnamed("names of runs must have printable characters only", what, name)
        if name != name.strip():
            raise _misnamed("names of runs must not begin or end with a blank", what, name)
        if name in (".", ".."):
            raise _misnamed("the name cannot be used in a URL", what, name)
    if run.run_id in RESERVED_RUN_IDS:
        raise _misnamed("a run id cannot be a word of the API's paths", "run id", run.run_id)
    if "/" in run.run_id:
        raise _misnamed("a run id must not contain a slash", "run id", run.run_id)
    if len(path_segment(run.fqn)) + len(path_segment(run.run_id)) > MAX_RUN_NAME_BYTES:
        raise _misnamed(f"fqn and run id must have at most {MAX_RUN_NAME_BYTES} bytes once encoded", "run id", run.run_id)
    return run


def checked_name(what: str, name: str) -> str:
    """A step's id or a writer's name that the archive accepts. Raises SettingsError."""
    if not 0 < len(name) <= MAX_NAME_CHARS or not name.isprintable() or len(quote(name, safe="")) > 3 * MAX_NAME_CHARS:
        raise _misnamed(f"a {what} must have 1 to {MAX_NAME_CHARS} printable characters", what, name)
    return name


def _misnamed(rule: str, what: str, name: str) -> SettingsError:
    return SettingsError(f"{rule} {what.replace(' ', '_')}={name[:200]!a}", next_step=f"choose another {what}")


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

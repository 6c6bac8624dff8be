"""The fields that a file stores of a record, and the events that a reader gets back."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import Any

from chalicelib.pipelines.ports import FQN, LINE, RUN_ID, TIME_MS

MAX_CLIPPED_CHARS, MAX_CLIPPED_NAME_CHARS = 262_144, 8192
"""The lengths of the message, and of the other texts, of an event that is too large for a response."""
FIELDS = ("time", "level", "logger", "message", "fqn", "runId", "line")


@dataclass(frozen=True, slots=True)
class FileEvent:
    """One event of a file. ``time`` in ms since the epoch; ``fqn``, ``runId`` and ``line`` (-1: none) locate it in a run's log;
    they are empty in formats without them. ``truncated``: its texts were truncated for a response."""

    time: int
    level: str
    logger: str
    message: str
    fqn: str = ""
    runId: str = ""
    line: int = -1
    truncated: bool = False

    def document(self) -> dict[str, Any]:
        """For a response."""
        document = {name: getattr(self, name) for name in FIELDS}
        return {**document, "truncated": True} if self.truncated else document

    def clipped(self) -> FileEvent:
        """The event with texts of at most ``MAX_CLIPPED_CHARS``: at most 3.6 MB as JSON within JSON."""
        names = {name: getattr(self, name)[:MAX_CLIPPED_NAME_CHARS] for name in ("level", "logger", "fqn", "runId")}
        return replace(self, message=self.message[:MAX_CLIPPED_CHARS], truncated=True, **names)


def time_of(record: logging.LogRecord) -> int:
    """The event's time: as the framework set it, else the record's creation time."""
    time_ms = record.__dict__.get(TIME_MS)
    return int(record.created * 1000) if time_ms is None else int(time_ms)


def document_of(record: logging.LogRecord, text: str, time_ms: int) -> dict[str, Any]:
    """A record's fields, in the order of ``FIELDS``."""
    attributes = record.__dict__
    line = attributes.get(LINE)
    return {
        "time": time_ms,
        "level": record.levelname,
        "logger": record.name,
        "message": text,
        "fqn": attributes.get(FQN) or "",
        "runId": attributes.get(RUN_ID) or "",
        "line": -1 if line is None else line,
    }


def typed(document: dict[str, Any]) -> dict[str, Any]:
    """The fields for formats with a schema: an invalid value raises here, not when all events are encoded together."""
    return {
        name: int(value) if name in ("time", "line") else _storable(value if isinstance(value, str) else str(value))
        for name, value in document.items()
    }


def _storable(text: str) -> str:
    return text if text.isascii() else text.encode(errors="replace").decode()


def event_of(document: dict[str, Any]) -> FileEvent:
    """The inverse; missing fields are empty. Raises TypeError, ValueError for a document that is no event."""
    return FileEvent(
        int(document["time"]),
        str(document.get("level", "")),
        str(document.get("logger", "")),
        str(document.get("message", "")),
        str(document.get("fqn", "")),
        str(document.get("runId", "")),
        int(document.get("line", -1)),
    )

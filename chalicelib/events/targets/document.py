"""An event as a JSON document for search engines and log shippers."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Any

from pydantic import ValidationError

from chalicelib.errors import DamagedLogError
from chalicelib.events.event import (
    INSTANCE_ID,
    JOB_ID,
    LOGGABLE_ID,
    LOGGABLE_TYPE,
    Annotation,
    Event,
    WriterEndEvent,
    invalid_field,
)
from chalicelib.lines.errors import level_of_text

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UID_BYTES = 16
_EXCESS_DIGITS = re.compile(r"(\.\d{6})\d+")
WRITER_END = "writerEnd"


def uid(event: Event) -> str:
    """The globally unique id of an event, from its loggable (in its data), writer and id. The same each time it is sent."""
    return f"{uid_prefix(event.data, event.writer)}-{event.id}"


def uid_prefix(data: Mapping[str, Any], writer: str) -> str:
    """What the uids of a writer's events have in common."""
    names = (*(str(data.get(name, "")) for name in (INSTANCE_ID, LOGGABLE_TYPE, JOB_ID, LOGGABLE_ID)), writer)
    packed = b"".join(len(raw).to_bytes(4, "big") + raw for raw in (name.encode(errors="replace") for name in names))
    return blake2b(packed, digest_size=_UID_BYTES).hexdigest()


def document(event: Event) -> dict[str, Any]:
    """``@timestamp``, ``message``, ``uid``, ``id``, ``writer``, ``data``; ``level`` and ``annotations`` if the event has them;
    ``writerEnd`` for the record of a closed writer."""
    found: dict[str, Any] = {
        "@timestamp": timestamp_of(event),
        "message": event.message,
        "uid": uid(event),
        "id": event.id,
        "writer": event.writer,
        "data": event.data,
    }
    if event.level is not None:
        found["level"] = event.level
    if event.annotations:
        found["annotations"] = [{"position": each.position, "note": each.note} for each in event.annotations]
    if isinstance(event, WriterEndEvent):
        found[WRITER_END] = {"count": event.id, "lastTimestampMs": event.last_timestamp_ms}
    return found


def parse_document(fields: Mapping[str, Any]) -> Event:
    """The event of a document, or the ``WriterEndEvent``. Without a level, it gets the one in its text, as events of the run log do. Raises
    DamagedLogError, whose message has no values."""
    try:
        common = {
            "id": fields["id"],
            "message": fields["message"],
            "timestamp": _milliseconds(fields["@timestamp"]),
            "data": fields["data"],
            "writer": fields["writer"],
        }
        if WRITER_END in fields:
            return WriterEndEvent(**common, last_timestamp_ms=fields[WRITER_END]["lastTimestampMs"])
        level = fields.get("level") or level_of_text(fields["message"].encode(errors="replace"))
        notes = tuple(Annotation.model_validate(each) for each in fields.get("annotations") or ())
        return Event(**common, level=level, annotations=notes)
    except ValidationError as error:
        raise DamagedLogError(f"not the document of an event field={invalid_field(error)}") from None
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise DamagedLogError(f"not the document of an event error={type(error).__name__}") from None


def _milliseconds(timestamp: str) -> int:
    at = datetime.fromisoformat(_EXCESS_DIGITS.sub(r"\1", timestamp))
    return ((at if at.tzinfo else at.replace(tzinfo=UTC)) - _EPOCH) // timedelta(milliseconds=1)


def timestamp_of(event: Event) -> str:
    """ISO 8601 in UTC, with milliseconds."""
    return (_EPOCH + timedelta(milliseconds=event.timestamp)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def packed(value: object) -> bytes:
    """JSON without spaces, on one line. Numbers that JSON does not have (NaN, infinity) become texts."""
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except ValueError:
        text = json.dumps(_finite(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.encode(errors="replace")


def _finite(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {key: _finite(each) for key, each in value.items()}
    return [_finite(each) for each in value] if isinstance(value, list | tuple) else value

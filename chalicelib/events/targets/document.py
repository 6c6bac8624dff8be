"""An event as a JSON document for search engines and log shippers."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Any

from chalicelib.events.event import INSTANCE_ID, JOB_ID, LOGGABLE_ID, LOGGABLE_TYPE, Event

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UID_BYTES = 16


def uid(event: Event) -> str:
    """The globally unique id of an event, from its loggable (in its data), writer and id. The same each time it is sent."""
    names = (*(str(event.data.get(name, "")) for name in (INSTANCE_ID, LOGGABLE_TYPE, JOB_ID, LOGGABLE_ID)), event.writer)
    packed = b"".join(len(raw).to_bytes(4, "big") + raw for raw in (name.encode(errors="replace") for name in names))
    return f"{blake2b(packed, digest_size=_UID_BYTES).hexdigest()}-{event.id}"


def document(event: Event) -> dict[str, Any]:
    """``@timestamp``, ``message``, ``uid``, ``id``, ``writer``, ``data``; ``level`` and ``annotations`` if the event has them."""
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
    return found


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

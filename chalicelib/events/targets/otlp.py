"""OTLP over HTTP, in JSON: OpenTelemetry collectors and compatible receivers.

Source: the OTLP specification 1.10: 64-bit numbers are texts in JSON; a 200 may report rejected records (a count only), and such a
request must not be repeated; 429, 502, 503 and 504 are to be retried, after ``Retry-After``, and no other status is.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from chalicelib.events.event import Event, Loggable, WriterEndEvent, loggable_of
from chalicelib.events.ports import Limits, Refused
from chalicelib.events.targets.document import packed, uid
from chalicelib.events.targets.transport import Answer, Transport, check
from chalicelib.lines.levels import OTLP_NUMBERS, level_of_name

PATH = "/v1/logs"
_FINAL = frozenset(range(500, 600)) - {502, 503, 504}
_INT64 = range(-(1 << 63), 1 << 63)
_NANOSECONDS = 1_000_000


class OtlpTarget:
    """A receiver; ``url`` without ``/v1/logs``. OTLP does not deduplicate events; systems after it can, by ``log.record.uid``."""

    limits = Limits(events=5_000, bytes=4 * 1024 * 1024)
    per_run = False

    def __init__(self, transport: Transport, url: str, headers: Mapping[str, str] | None = None) -> None:
        self._transport, self._url = transport, url.rstrip("/") + PATH
        self._headers = {**(headers or {}), "Content-Type": "application/json"}

    def size(self, event: Event) -> int:
        """See the port."""
        return len(packed(record(event))) + 1

    def send(self, loggable: Loggable, events: Sequence[Event]) -> Sequence[Refused]:
        """See the port. The receiver counts rejected records without naming them."""
        if not events:
            return ()
        answer = self._transport.post(self._url, self._headers, packed(request(loggable, events)))
        check(answer, "otlp", final=_FINAL)
        return tuple(_rejected(answer, len(events)))

    def close(self) -> None:
        """See the port."""
        self._transport.close()


def request(loggable: Loggable, events: Sequence[Event]) -> dict[str, Any]:
    """An ``ExportLogsServiceRequest``. A resource, a pipeline and its run, has the consecutive events that name it in their data;
    ``loggable`` is the one of events that name none."""
    runs = groupby(events, lambda event: loggable_of(event.data) or loggable)
    return {"resourceLogs": [_resource_logs(of, run) for of, run in runs]}


def _resource_logs(of: Loggable, events: Iterable[Event]) -> dict[str, Any]:
    names = {"service.name": of.job_id or of.instance_id, "service.instance.id": of.loggable_id}
    about = {**names, "runlake.instance_id": of.instance_id, "runlake.loggable_type": of.loggable_type}
    scope = {"scope": {"name": "runlake"}, "logRecords": [record(event) for event in events]}
    return {"resource": {"attributes": _attributes(about)}, "scopeLogs": [scope]}


def record(event: Event) -> dict[str, Any]:
    """A ``LogRecord``. Its attributes are the event's data, ``log.record.uid``, and names with the prefix ``runlake.``."""
    own: dict[str, Any] = {"log.record.uid": uid(event), "runlake.id": event.id, "runlake.writer": event.writer}
    if event.annotations:
        own["runlake.annotations"] = [{"position": each.position, "note": each.note} for each in event.annotations]
    if isinstance(event, WriterEndEvent):
        own["runlake.writer_end"] = True
    found: dict[str, Any] = {
        "timeUnixNano": str(event.timestamp * _NANOSECONDS),
        "body": {"stringValue": event.message},
        "attributes": _attributes({**event.data, **own}),
    }
    if event.level is not None:
        found["severityText"] = event.level
        if level := level_of_name(event.level):
            found["severityNumber"] = OTLP_NUMBERS[level]
    return found


def _attributes(of: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in of.items()]


def _value(value: Any) -> dict[str, Any]:
    """An ``AnyValue``. Integers beyond 64 bits become texts."""
    if value is None:
        return {}
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)} if value in _INT64 else {"stringValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value} if math.isfinite(value) else {"doubleValue": _not_finite(value)}
    if isinstance(value, str):
        return {"stringValue": value}
    if isinstance(value, Mapping):
        return {"kvlistValue": {"values": _attributes(value)}}
    return {"arrayValue": {"values": [_value(each) for each in value]}}


def _not_finite(value: float) -> str:
    """The spelling of protobuf's JSON."""
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _rejected(answer: Answer, sent: int) -> Iterator[Refused]:
    try:
        told = json.loads(answer.body or b"{}").get("partialSuccess") or {}
        count, reason = int(told.get("rejectedLogRecords") or 0), str(told.get("errorMessage") or "")
    except (ValueError, TypeError, AttributeError):
        return  # the status 200 is sufficient
    for _ in range(min(count, sent)):
        yield Refused(-1, f"rejected: {reason}"[:200])

"""Fluentd, Fluent Bit and Logstash: JSON over HTTP.

They acknowledge a request as a whole and do not deduplicate: events of a request whose response was lost are stored twice. Each
record has a ``uid`` for deduplication after them (Logstash: ``document_id => "%{uid}"``). Sources: Fluentd's ``in_http`` (an array
of records, ``time`` in seconds, ``body_size_limit`` 32 MB), Fluent Bit's ``http`` input, Logstash's ``http`` input (codec ``json``:
an array is many events; 429 when its queue is full) and its output's ``json_batch``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from chalicelib.events.event import Event, Loggable
from chalicelib.events.ports import Limits, Refused
from chalicelib.events.targets.document import document, packed
from chalicelib.events.targets.transport import Transport, check

Shape = Literal["json_batch", "json_lines"]
_TYPES: Mapping[str, str] = {"json_batch": "application/json", "json_lines": "application/x-ndjson"}


class ShipperTarget:
    """An HTTP input for records. ``shape``: an array, or one record per line; ``record``: converts an event."""

    limits = Limits(events=5_000, bytes=4 * 1024 * 1024)
    per_run = False

    def __init__(
        self,
        transport: Transport,
        url: str,
        record: Callable[[Event], Mapping[str, Any]],
        headers: Mapping[str, str] | None = None,
        shape: Shape = "json_batch",
    ) -> None:
        self._transport, self._url, self._record, self._shape = transport, url, record, shape
        self._headers = {**(headers or {}), "Content-Type": _TYPES[shape]}

    def size(self, event: Event) -> int:
        """See the port."""
        return len(packed(self._record(event))) + 1

    def send(self, loggable: Loggable, events: Sequence[Event]) -> Sequence[Refused]:
        """See the port. All events are accepted, or none."""
        if events:
            records = [packed(self._record(event)) for event in events]
            body = b"[" + b",".join(records) + b"]" if self._shape == "json_batch" else b"\n".join(records) + b"\n"
            check(self._transport.post(self._url, self._headers, body), self._shape)
        return ()

    def close(self) -> None:
        """See the port."""
        self._transport.close()


def fluentd_record(event: Event) -> Mapping[str, Any]:
    """Fluentd's JSON parser takes ``time`` as the record's time."""
    return {"time": event.timestamp / 1000, **document(event)}


def logstash_record(event: Event) -> Mapping[str, Any]:
    """Logstash's own codecs add ``@version``."""
    return {"@version": "1", **document(event)}

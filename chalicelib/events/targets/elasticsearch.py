"""Elasticsearch and OpenSearch: the bulk API with ``create``, which data streams support too.

The document id is the event's (``document.uid``): an event that is sent again is refused with 409, which counts as success. Sort by
``@timestamp``, ``writer`` and ``id``: several events can have the same millisecond. Source: Elasticsearch's and OpenSearch's
reference of the bulk API: per-item status, a body that ends in a newline, 429 when queues are full.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from chalicelib.errors import OutcomeUnknownError
from chalicelib.events.event import Event, Loggable
from chalicelib.events.ports import Limits, Refused
from chalicelib.events.targets.document import document, packed, uid
from chalicelib.events.targets.transport import Transport, check

_CONFLICT = 409
_RETRYABLE = frozenset({401, 403, 404, 429})
"""Not about the event: a missing privilege, a missing or read-only index, a full queue. As for a whole request, no event is given up."""
_MAX_REASON_CHARS = 200
_FILTER_PATH = quote("errors,items.*.status,items.*.error")
"""The fields requested in the response. Encoded, as the server encodes it to verify the signature."""


class ElasticsearchTarget:
    """An index, alias or data stream. ``url`` is the cluster's; ``headers`` have the credentials (``Authorization: ApiKey …``)."""

    limits = Limits(events=5_000, bytes=5 * 1024 * 1024)
    """Elastic recommends 5 to 15 MB for a request; smaller instances of Amazon OpenSearch Service accept 10 MiB."""
    per_run = False

    def __init__(self, transport: Transport, url: str, index: str, headers: Mapping[str, str] | None = None) -> None:
        self._transport, self._index = transport, index
        self._url = f"{url.rstrip('/')}/_bulk?filter_path={_FILTER_PATH}"
        self._headers = {**(headers or {}), "Content-Type": "application/x-ndjson"}

    def size(self, event: Event) -> int:
        """See the port."""
        return sum(map(len, self._lines(event)))

    def send(self, loggable: Loggable, events: Sequence[Event]) -> Sequence[Refused]:
        """See the port."""
        if not events:
            return ()
        answer = self._transport.post(self._url, self._headers, b"".join(line for event in events for line in self._lines(event)))
        check(answer, "elasticsearch")
        return tuple(_refused(_items(answer.body, len(events))))

    def close(self) -> None:
        """See the port."""
        self._transport.close()

    def _lines(self, event: Event) -> tuple[bytes, bytes]:
        action = {"create": {"_index": self._index, "_id": uid(event)}}
        return packed(action) + b"\n", packed(document(event)) + b"\n"


def _items(body: bytes, count: int) -> Sequence[Mapping[str, Any]]:
    """The result of each event; empty for a response without errors."""
    try:
        answer = json.loads(body)
        if answer["errors"] is False:
            return ()
        items = [item["create"] for item in answer["items"]]
        if len(items) == count and all(isinstance(item["status"], int) for item in items):
            return items
    except (ValueError, LookupError, TypeError):
        pass
    raise OutcomeUnknownError("the response to a bulk request cannot be read what=elasticsearch")


def _refused(items: Sequence[Mapping[str, Any]]) -> Iterator[Refused]:
    for index, item in enumerate(items):
        status = item["status"]
        if status >= 300 and status != _CONFLICT:
            error = item.get("error") or {}
            about = f"{error.get('type', '')}: {error.get('reason', '')}" if isinstance(error, dict) else str(error)
            yield Refused(index, f"status={status} {about}"[:_MAX_REASON_CHARS], retryable=status in _RETRYABLE or status >= 500)

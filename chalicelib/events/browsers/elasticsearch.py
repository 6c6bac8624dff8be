"""Elasticsearch and OpenSearch: searches with ``search_after``, sorted by ``@timestamp``, ``writer`` and ``id``.

Source: Elasticsearch's and OpenSearch's reference of the search, field capabilities and delete-by-query APIs: a search is partial, with
status 200, if it timed out or if a shard failed; searches see documents from the next refresh on; the copies of a shard are
refreshed independently, so searches with the same ``preference`` use the same copies.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from chalicelib.errors import DamagedLogError, InvalidConfigurationError, RequestRefusedError, StoreUnavailableError
from chalicelib.events.browsers.query import EventHit, EventHits, EventQuery, decode_position, encode_position
from chalicelib.events.browsers.query_browser import BATCH_KEYS, QueryBrowser
from chalicelib.events.event import STEP_ID, Loggable, WriterEndEvent
from chalicelib.events.event_view import EventFilter
from chalicelib.events.targets.document import WRITER_END, parse_document, uid_prefix
from chalicelib.events.targets.transport import Answer, Transport, excerpt
from chalicelib.ports import Clock

DOCUMENTS_BY_REQUEST = 1_000
_EXACT = frozenset({"keyword", "constant_keyword"})
_FLAT = frozenset({"flattened", "flat_object"})
_DYNAMIC_CHARS = 256
"""``ignore_above`` of the field ``keyword`` that a dynamic mapping adds to a text."""
_REFUSED = frozenset({400, 413, 422})
_KINDS = (int, str, int)
_NOTHING: Mapping[str, Any] = {"match_none": {}}
_END_FIELD = f"{WRITER_END}.count"


class ElasticsearchBrowser(QueryBrowser):
    """``LogBrowser`` of an index, an alias or a data stream; ``url`` and ``headers`` as in ``ElasticsearchTarget``. An index that does not
    exist has no events. Names are compared exactly, by the field or its ``keyword``, as the mapping has it: one request for each
    browser, repeated for each query while the mapping lacks a field of the query.

    Raises InvalidConfigurationError if the mapping has no such field, and RequestRefusedError for a query that is refused.
    """

    def __init__(
        self,
        transport: Transport,
        url: str,
        index: str,
        loggable: Loggable,
        clock: Clock,
        grace_ms: int,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(loggable, clock, grace_ms)
        self._transport, self._index = transport, index
        self._url = f"{url.rstrip('/')}/{quote(index, safe='')}"
        self._headers = {**(headers or {}), "Content-Type": "application/json"}
        self._preference = f"runlake-{uid_prefix(loggable.mandatory_data(), '')}"
        self._fields: _Fields | None = None

    def find(self, query: EventQuery) -> EventHits:
        """See ``QueryBrowser``. One request; more if the answer exceeds the transport's limit: half as many events each time."""
        fields = self._field_names([STEP_ID] if query.event_filter.step is not None else [])
        if fields is None:
            return EventHits([], None, False)
        body = self._of_events(fields, _of_filter(fields, query.event_filter))
        return self._search(body, query.limit, query.after, is_keys_only=query.is_keys_only)

    def ends(self) -> Iterator[WriterEndEvent]:
        """See ``QueryBrowser``. A request for each 1,000 closed writers."""
        fields, after = self._field_names(), None
        while fields is not None:
            where = [*self._of_loggable(fields), {"exists": {"field": _END_FIELD}}]
            body: dict[str, Any] = {"query": {"bool": {"filter": where}}, "sort": fields.sort, "track_total_hits": False}
            answer = self._search(body, DOCUMENTS_BY_REQUEST, after)
            yield from (hit.event for hit in answer.hits if isinstance(hit.event, WriterEndEvent))
            if not answer.has_more:
                return
            after = answer.after

    def time_of_last(self, count: int) -> int | None:
        """See ``QueryBrowser``. A request for each 5,000 events."""
        fields, last_ms, after = self._field_names(), None, None
        while fields is not None and count > 0:
            body = self._of_events(fields, ())
            body["sort"] = [{name: {**how, "order": "desc"}} for each in fields.sort for name, how in each.items()]
            answer = self._search(body, min(count, BATCH_KEYS), after, is_keys_only=True)
            if answer.hits:
                last_ms, count = answer.hits[-1].event.timestamp, count - len(answer.hits)
            if not answer.has_more:
                break
            after = answer.after
        return last_ms

    def delete_events(self) -> None:
        """See ``QueryBrowser``. A refresh, and a request for each 1,000 documents. An event that is written meanwhile may stay."""
        self._post("_refresh", b"")
        fields = self._field_names()
        while fields is not None:
            query = {"query": {"bool": {"filter": self._of_loggable(fields)}}}
            path = f"_delete_by_query?conflicts=proceed&max_docs={DOCUMENTS_BY_REQUEST}&refresh=true"
            answer = _parsed(self._post(path, json.dumps(query).encode()))
            if answer is None or answer.get("total") == 0:
                return
            if answer.get("failures") or not answer.get("deleted"):
                raise StoreUnavailableError(f"documents could not be deleted index={self._index}")

    def _search(self, body: dict[str, Any], limit: int, after: str | None, *, is_keys_only: bool = False) -> EventHits:
        if after is not None:
            body = body | {"search_after": decode_position(after, _KINDS)}
        if is_keys_only:
            body = body | {"_source": {"excludes": ["message", "annotations"]}}
        path = f"_search?allow_partial_search_results=false&preference={self._preference}"
        while True:
            raw = self._post(path, json.dumps({**body, "size": limit}).encode())
            if not raw.is_too_long:
                break
            if limit == 1:
                raise StoreUnavailableError(f"the answer to a search is too long index={self._index}")
            limit //= 2
        answer = _parsed(raw)
        if answer is None:
            return EventHits([], None, False)
        rows = _rows(answer, self._index)
        hits = [EventHit(parse_document({"message": ""} | row["_source"]), encode_position(row["sort"])) for row in rows]
        # a keyword with a normalizer ignores case, and another run's events are for its own readers
        own = [hit for hit in hits if self._loggable.owns(hit.event.data)]
        # a data stream may have an event twice, if it was sent again to the next index of the stream
        once = [hit for at, hit in enumerate(own) if not at or hit.position != own[at - 1].position]
        return EventHits(once, hits[-1].position if hits else None, len(rows) >= limit)

    def _of_events(self, fields: _Fields, more: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
        where = [*self._of_loggable(fields), *more]
        return {
            "query": {"bool": {"filter": where, "must_not": [{"exists": {"field": _END_FIELD}}]}},
            "sort": fields.sort,
            "track_total_hits": False,
        }

    def _of_loggable(self, fields: _Fields) -> list[Mapping[str, Any]]:
        return [fields.term(f"data.{name}", str(value)) for name, value in self._loggable.mandatory_data().items()]

    def _field_names(self, more: Sequence[str] = ()) -> _Fields | None:
        """The names of the fields of a query, with those of ``more`` data; None if the index does not exist. Requested again while one
        is missing: the next event may add it."""
        own = list(self._loggable.mandatory_data())
        if self._fields is None or not self._fields.has_all([*own, *more]):
            names = ["writer", *(f"data.{name}" for name in (*own, STEP_ID))]
            asked = ",".join(["data", *names, *(f"{name}.keyword" for name in names)])
            answer = _parsed(self._post(f"_field_caps?fields={quote(asked, safe='')}", b""))
            self._fields = None if answer is None else _Fields(answer.get("fields") or {})
        return self._fields

    def _post(self, path: str, body: bytes) -> Answer:
        answer = self._transport.post(f"{self._url}/{path}", self._headers, body)
        if 200 <= answer.status < 300 or (answer.status == 404 and b"index_not_found_exception" in answer.body):
            return answer
        message = f"the request was not answered index={self._index} status={answer.status} answer={excerpt(answer.body)!r}"
        raise RequestRefusedError(message) if answer.status in _REFUSED else StoreUnavailableError(message)


class _Fields:
    """The fields of an index (the answer of the field capabilities API) that are compared and sorted exactly."""

    def __init__(self, types: Mapping[str, Mapping[str, Any]]) -> None:
        self._types = {name: frozenset(kinds) - {"unmapped"} for name, kinds in types.items()}

    @property
    def sort(self) -> list[Mapping[str, Any]]:
        by_writer = self._exact("writer") or "writer"
        kinds = (("@timestamp", "date"), (by_writer, "keyword"), ("id", "long"))
        return [{name: {"order": "asc", "unmapped_type": kind}} for name, kind in kinds]

    def has_all(self, data: Sequence[str]) -> bool:
        return all(self._exact(name) for name in ("writer", *(f"data.{each}" for each in data)))

    def term(self, name: str, value: str) -> Mapping[str, Any]:
        """A query for documents whose field has a value. Raises InvalidConfigurationError."""
        exact = self._exact(name)
        if exact is None:
            return _NOTHING
        if exact != name and len(value) > _DYNAMIC_CHARS:
            raise InvalidConfigurationError(f"the name is too long for a dynamic mapping, map the field as keyword field={name}")
        return {"term": {exact: {"value": value}}}

    def _exact(self, name: str) -> str | None:
        """The name by which a field is compared; None: no document has the field."""
        parent = self._types.get(name.partition(".")[0], frozenset())
        if parent & _FLAT and "." in name:
            is_exact, exact = parent <= _FLAT, name
        else:
            types, dynamic = (self._types.get(each, frozenset()) for each in (name, f"{name}.keyword"))
            if not types:
                return None
            exact = name if types <= _EXACT else f"{name}.keyword"
            is_exact = types <= _EXACT or (not types & _EXACT and bool(dynamic) and dynamic <= _EXACT)
        if not is_exact:
            raise InvalidConfigurationError(f"the field cannot be compared exactly, map it as keyword field={name}")
        return exact


def _of_filter(fields: _Fields, event_filter: EventFilter) -> Iterator[Mapping[str, Any]]:
    """The step and the time. Text and level are compared by the browser: an analyzed text has no substrings, and an event without a
    level has the one in its message."""
    if event_filter.step is not None:
        yield fields.term(f"data.{STEP_ID}", event_filter.step)
    if event_filter.has_time_bounds:
        bounds = {"gte": event_filter.from_ms, "lt": event_filter.to_ms}
        known = {name: value for name, value in bounds.items() if value is not None}
        yield {"range": {"@timestamp": {**known, "format": "epoch_millis"}}}


def _parsed(answer: Answer) -> dict[str, Any] | None:
    """The JSON object of an answer; None if the index does not exist. Raises StoreUnavailableError."""
    if answer.status == 404:
        return None
    try:
        found = json.loads(answer.body)
        if isinstance(found, dict):
            return found
    except (ValueError, RecursionError):
        pass
    raise StoreUnavailableError(f"the answer of the store cannot be read answer={excerpt(answer.body)!r}")


def _rows(answer: Mapping[str, Any], index: str) -> list[Mapping[str, Any]]:
    """The hits of a complete answer. Raises StoreUnavailableError for a partial one."""
    try:
        if answer["timed_out"] or answer["_shards"]["failed"]:
            raise StoreUnavailableError(f"a search was partial index={index}")
        rows: list[Mapping[str, Any]] = answer["hits"]["hits"]
        if all(isinstance(row["_source"], dict) and isinstance(row["sort"], list) for row in rows):
            return rows
    except (LookupError, TypeError):
        pass
    raise DamagedLogError(f"the answer to a search has no documents index={index}")

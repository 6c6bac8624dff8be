"""The subset of Elasticsearch's and OpenSearch's API for log shippers: ``_bulk``, and the requests that clients send before it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import wraps
from itertools import islice
from typing import Any

from chalice.app import Response

from chalicelib.access.grants import Scope
from chalicelib.errors import BatchTooLargeError
from chalicelib.events.codecs.bulk import BulkAction
from chalicelib.events.codecs.parts import joined
from chalicelib.events.intake import ItemResult, ItemStatus
from chalicelib.observability import redacted
from chalicelib.response_size import RESPONSE_BYTES, document_bytes
from chalicelib.routes import gate
from chalicelib.routes.agent_requests import STATUS, AgentRequest, rejection_summary
from chalicelib.routes.agents_models import BulkResponse, ElasticsearchInfo
from chalicelib.routes.api_request import ApiRequest, View
from chalicelib.routes.responses import RETRY_AFTER_S, error_message, json_response, to_error_response, truncated

VERSION = "8.19.0"
"""The version that clients see: the last minor version that clients of versions 8 and 9 both support."""
_PRODUCT = {"X_Elastic_Product": "Elasticsearch"}
_CREATED = 201
_TRY_AGAIN = 429
"""The status of an item, never of a response: clients retry it automatically."""
_ERRORS = {
    ItemStatus.MALFORMED: (400, "document_parsing_exception"),
    ItemStatus.FORBIDDEN: (403, "security_exception"),
    ItemStatus.CLOSED: (409, "cluster_block_exception"),
    ItemStatus.DELETED: (409, "run_deleted"),  # Logstash and Fluent Bit drop an item with 409, and repeat one with 410 for ever
    ItemStatus.RETRYABLE: (_TRY_AGAIN, "es_rejected_execution_exception"),
}
_FRAME_BYTES, _REASON_BYTES = 240, 100
"""Size of an item in the response without its names and its reason; and the least room for the reason."""
_SHARDS = {"total": 1, "successful": 1, "failed": 0}
_ROOT: ElasticsearchInfo = {
    "name": "runlake",
    "cluster_name": "runlake",
    "cluster_uuid": "runlake",
    "version": {
        "number": VERSION,
        "build_flavor": "default",
        "build_type": "zip",
        "build_hash": "0000000000000000000000000000000000000000",
        "build_date": "2025-07-01T00:00:00.000Z",
        "build_snapshot": False,
        "lucene_version": "9.12.2",
        "minimum_wire_compatibility_version": "7.17.0",
        "minimum_index_compatibility_version": "7.0.0",
    },
    "tagline": "You Know, for Search",
}
_LICENSE: ElasticsearchInfo = {
    "license": {"status": "active", "uid": "runlake", "type": "basic", "issued_to": "runlake", "issuer": "runlake"}
}
_HEALTH: ElasticsearchInfo = {"cluster_name": "runlake", "status": "green", "timed_out": False, "number_of_nodes": 1}


def _elastic(make: View) -> View:
    """A view that returns errors in Elasticsearch's format together with the envelope of this API."""

    @wraps(make)
    def view(request: ApiRequest) -> Response:
        try:
            return make(request)
        except Exception as error:
            return _refusal(to_error_response(error))

    return view


def _client_check(document: ElasticsearchInfo) -> Response:
    gate.require_any_scope("agents", Scope.LOGS_WRITE)
    return json_response(document, 200, **_PRODUCT)


@_elastic
def root(request: ApiRequest) -> Response:
    """The first request of every client."""
    return _client_check(_ROOT)


@_elastic
def license(request: ApiRequest) -> Response:
    """A request of Beats and Logstash."""
    return _client_check(_LICENSE)


@_elastic
def cluster_health(request: ApiRequest) -> Response:
    """A request of Vector."""
    return _client_check(_HEALTH)


@_elastic
def bulk(request: ApiRequest) -> Response:
    """Bulk actions; an index in the path is their default. The response has items in the order of the actions; if all of them can be retried (the
    store is unavailable), it is a 503, and clients retry."""
    started_s = time.perf_counter()
    call = AgentRequest.of(request)
    actions: list[BulkAction] = list(islice(call.decode(), call.allowance.items + 1))
    if len(actions) <= call.allowance.items:
        _check_response(actions)
    results = call.store(joined(action.item for action in actions))
    if results and all(each.status is ItemStatus.RETRYABLE for each in results):
        return _error(503, rejection_summary(results))
    room_bytes = RESPONSE_BYTES // (len(actions) or 1) - _FRAME_BYTES
    items = [_item(number, *each, room_bytes) for number, each in enumerate(zip(actions, results, strict=True))]
    took_ms = int((time.perf_counter() - started_s) * 1000)
    has_errors = any(each.status is not ItemStatus.STORED for each in results)
    return json_response(BulkResponse(took=took_ms, errors=has_errors, items=items), 200, **_PRODUCT)


def _check_response(actions: Sequence[BulkAction]) -> None:
    """The response repeats the names of every action, so they bound the number of actions. Raises BatchTooLargeError."""
    size = document_bytes([[each.index, each.id] for each in actions]) + len(actions) * (_FRAME_BYTES + _REASON_BYTES)
    if size > RESPONSE_BYTES:
        raise BatchTooLargeError(f"the response would be too large: send fewer actions bytes={size} limit={RESPONSE_BYTES}")


def _item(number: int, action: BulkAction, result: ItemResult, room_bytes: int) -> dict[str, Any]:
    named = {"_index": redacted(action.index), "_id": redacted(action.id) or str(number)}
    if result.status is ItemStatus.STORED:
        stored = {"_version": 1, "result": "created", "_shards": _SHARDS, "_seq_no": number, "_primary_term": 1, "status": _CREATED}
        return {action.name: named | stored}
    status, kind = _ERRORS[result.status]
    room_bytes -= document_bytes([action.index, action.id])
    reason = truncated(result.reason, max(room_bytes, _REASON_BYTES))
    return {action.name: named | {"status": status, "error": {"type": kind, "reason": reason}}}


def _refusal(refused: Response) -> Response:
    return _error(refused.status_code, error_message(refused))


def _error(status: int, message: str) -> Response:
    kind = next((kind for each, (_, kind) in _ERRORS.items() if STATUS[each] == status), "exception")
    error = {"type": kind, "reason": message, "root_cause": [{"type": kind, "reason": message}]}
    more = {"Retry_After": str(RETRY_AFTER_S)} if status == 503 else {}
    return json_response({"code": status, "message": message, "error": error, "status": status}, status, **_PRODUCT, **more)

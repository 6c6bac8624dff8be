"""Log agents over HTTP, each in its own format: Fluent Bit and Fluentd, Logstash, syslog-ng and rsyslog, AWS Data Firehose, OTLP.

Elasticsearch's bulk API is in ``elasticsearch``.
"""

from __future__ import annotations

from typing import Any

from chalice.app import Response

from chalicelib.errors import InvalidBatchError
from chalicelib.events.codecs import otlp_answers
from chalicelib.events.intake import ItemStatus
from chalicelib.observability import redacted
from chalicelib.routes.agent_requests import (
    STATUS,
    AgentRequest,
    agent_response,
    rejected_items,
    rejection_summary,
    response_status,
)
from chalicelib.routes.agents_models import MAX_ERROR_CHARS, FirehoseResponse, OtlpResponse
from chalicelib.routes.api_request import ApiRequest
from chalicelib.routes.operations import PROTOBUF
from chalicelib.routes.responses import RETRY_AFTER_S, error_message, json_response, to_error_response

_TEXT = "text/plain"
_FIREHOSE_ID = "x-amz-firehose-request-id"


def records(request: ApiRequest) -> Response:
    """Records of an agent whose protocol defines no response."""
    call = AgentRequest.of(request)
    return agent_response(call.store(call.decode()))


def firehose_delivery(request: ApiRequest) -> Response:
    """A delivery of Firehose. The response has Firehose's format, also on errors: Firehose treats any other as a failure and retries."""
    now_ms, request_id = 0, request.headers.get(_FIREHOSE_ID, "")
    try:
        call = AgentRequest.of(request)
        now_ms = call.now_ms
        delivery = call.decode()
        if request_id not in ("", delivery.request_id):
            raise InvalidBatchError("the delivery's requestId differs from its header")
        request_id = delivery.request_id
        results = call.store(delivery.items, request_id)
    except Exception as error:
        refused = to_error_response(error)
        return _delivered(refused.status_code, request_id, now_ms, error_message(refused))
    status = response_status(results)
    if status == STATUS[ItemStatus.DELETED]:  # to be dropped: Firehose repeats what is refused, then stores it in its bucket
        status = 200
    return _delivered(status, request_id, now_ms, rejection_summary(results) if rejected_items(results) else "")


def _delivered(status: int, request_id: str, now_ms: int, error: str) -> Response:
    envelope = {"code": status, "message": error} if status >= 400 else {}
    answer: FirehoseResponse = {"requestId": redacted(request_id), "timestamp": now_ms}
    if error:
        answer["errorMessage"] = error[:MAX_ERROR_CHARS]
    return json_response({**envelope, **answer}, status, **_headers(status))


def otlp_logs(request: ApiRequest) -> Response:
    """Logs over OTLP. The response has the encoding of the request, as OTLP requires."""
    encoding = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    is_packed = encoding == PROTOBUF
    try:
        call = AgentRequest.of(request)
        results = call.store(call.decode())
    except Exception as error:
        refused = to_error_response(error)
        return _otlp_refusal(refused.status_code, error_message(refused), is_packed)
    status, rejected = response_status(results), len(rejected_items(results))
    reason = rejection_summary(results) if rejected else ""
    if status != 200:
        return _otlp_refusal(status, reason, is_packed)
    if is_packed:
        return AsciiProtobufResponse(otlp_answers.partial_success_protobuf(rejected, reason))
    answer: OtlpResponse = {}
    if rejected:
        answer["partialSuccess"] = {"rejectedLogRecords": str(rejected), "errorMessage": reason}
    return json_response(answer)


def _otlp_refusal(status: int, message: str, is_packed: bool) -> Response:
    if is_packed:
        return AsciiProtobufResponse(otlp_answers.status_protobuf(message), status, _headers(status))
    return json_response({"code": status, "message": message}, status, **_headers(status))


class AsciiProtobufResponse(Response):
    """Protobuf of ASCII characters only, returned as text: the gateway returns bytes only to clients whose ``Accept`` names their type, which
    most exporters omit. Chalice would treat the content type as binary, so ``to_dict`` sets it last."""

    def to_dict(self, binary_types: list[str] | None = None) -> dict[str, Any]:
        """The response as the gateway receives it."""
        document: dict[str, Any] = super().to_dict(None)
        document["headers"]["Content-Type"] = PROTOBUF
        return document

    def __init__(self, body: str, status_code: int = 200, headers: dict[str, str] | None = None) -> None:
        named = {name.replace("_", "-"): value for name, value in (headers or {}).items()}
        super().__init__(body, {"Content-Type": _TEXT, **named}, status_code)


def _headers(status: int) -> dict[str, str]:
    return {"Retry_After": str(RETRY_AFTER_S)} if status == 503 else {}

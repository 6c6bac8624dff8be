"""JSON responses, and one error envelope ``{"code": …, "message": …}`` for all errors.

OpenMetadata's client treats an error without a ``code`` key as a success, avoids a path for a minute after a 429 and sleeps for minutes
after a 504. Neither status is returned: a failure of the service is a 503 with ``Retry-After``, which the client repeats within seconds.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any

from chalice.app import ChaliceViewError, Request, Response

from chalicelib import composition
from chalicelib.errors import (
    BatchTooLargeError,
    ConflictError,
    DamagedPartitionError,
    ForbiddenError,
    InvalidConfigurationError,
    InvalidInputError,
    LeaseError,
    PartitionNotFoundError,
    StoreConditionError,
    UnauthenticatedError,
    UnavailableError,
)
from chalicelib.observability import invocation, logger, note, redacted
from chalicelib.response_size import document_bytes, fits_response
from chalicelib.routes import budgets, gate, response_headers, secrets
from chalicelib.routes.budgets import BUDGETS, Budget

RETRY_AFTER_S = 1
MOVED_TO_SLASH = 308
"""Redirect to the path with a trailing slash."""
CHALLENGES = {"jwt": 'Bearer realm="runlake"', "iam": 'AWS4-HMAC-SHA256 realm="runlake"'}
"""``WWW-Authenticate`` of a 401, by ``RUNLAKE_AUTH``. API Gateway renames the header of the function's 401, but not of its own."""
_JSON: dict[str, str | list[str]] = {"Content-Type": "application/json"}
_request: ContextVar[Request] = ContextVar("request")  # Chalice's own is an attribute of the app, shared by all threads
# The first matching row counts.
_STATUS: tuple[tuple[type[Exception], int], ...] = (
    (UnauthenticatedError, 401),
    (ForbiddenError, 403),
    (InvalidConfigurationError, 500),
    (BatchTooLargeError, 413),
    (InvalidInputError, 400),
    (ConflictError, 409),
    (UnavailableError, 503),
    (StoreConditionError, 503),  # concurrent writers kept changing the object
    (PartitionNotFoundError, 404),
    (LeaseError, 503),  # concurrent writers kept changing the partition
    (DamagedPartitionError, 503),  # until an operator repairs the item that the message names
)


def truncated(text: str, room_bytes: int) -> str:
    """A prefix of a text that takes at most ``room_bytes`` as a JSON string within a JSON string."""
    while text and document_bytes(text) > room_bytes:
        text = text[: len(text) // 2]
    return text


def json_response(body: Any, status_code: int = 200, **headers: str) -> Response:
    """A response in JSON; the keyword ``Set_Cookie`` sets the header ``Set-Cookie``."""
    extra: dict[str, str | list[str]] = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(json.dumps(body, ensure_ascii=False, separators=(",", ":")), _JSON | extra, status_code)


def error_response(status: int, message: str, code: str | None = None, **headers: str) -> Response:
    """The error envelope. ``code``: the resource's error code; default: the status."""
    if status == 503:
        headers["Retry_After"] = str(RETRY_AFTER_S)
    if status == 401:
        headers["WWW_Authenticate"] = CHALLENGES[composition.services().settings.auth]
    text = redacted(message).encode(errors="replace").decode()  # a lone surrogate from the request would break the response
    return json_response({"code": code or status, "message": text}, status, **headers)


def to_error_response(error: Exception) -> Response:
    """The response to an error. An unexpected error is logged with its traceback, and returned without details."""
    status = _status_of(error)
    if status is None:
        logger.exception("a request failed")
        return error_response(500, "internal server error")
    if status >= 500:
        kind = type(error.__cause__ or error).__name__
        logger.warning("a request could not be served", extra={"error": str(error), "kind": kind})
    return error_response(status, str(error), getattr(error, "code", None))


View = Callable[[Request], Response]


def _status_of(error: Exception) -> int | None:
    if isinstance(error, ChaliceViewError):
        return int(error.STATUS_CODE)
    return next((status for kind, status in _STATUS if isinstance(error, kind)), None)


def with_error_envelope(view: View) -> Callable[..., Response]:
    """A view of the request that returns errors in the envelope."""

    def answered(**_: str) -> Response:
        try:
            return view(_request.get())
        except Exception as error:  # every error gets the envelope
            return to_error_response(error)

    answered.__doc__, answered.__name__ = view.__doc__, view.__name__
    return answered


def http_middleware(request: Request, get_response: Callable[[Request], Response]) -> Response:
    """Middleware of every HTTP request: authentication, one line of metrics, and Chalice's own errors in the envelope."""
    _request.set(request)
    with invocation("http", request.lambda_context):
        response = response_headers.complete(_authenticated_response(request, get_response))
        note(method=request.method, status=response.status_code)
        return response


def _authenticated_response(request: Request, get_response: Callable[[Request], Response]) -> Response:
    try:
        secrets.refresh(request)
        with gate.authenticate(request) as authenticated:
            _check_request(request)
            if authenticated:
                secrets.check(request)
            response = _enveloped(get_response(request))
    except Exception as error:  # every error gets the envelope
        return to_error_response(error)
    if authenticated and not authenticated.is_authorized and response.status_code < 400 and response.status_code != MOVED_TO_SLASH:
        logger.error("a view did not check any permission", extra={"path": request.context["resourcePath"]})
        return error_response(500, "internal server error")
    if isinstance(response.body, str) and not fits_response(response.body):
        logger.error("a response is too large", extra={"path": request.context["resourcePath"], "chars": len(response.body)})
        return error_response(500, "internal server error: the response is too large, request less")
    return response


def _check_request(request: Request) -> None:
    """Enforce the operation's limits. Raises InvalidInputError, BatchTooLargeError."""
    resource, path, event = request.context["resourcePath"], request.context["path"], request.to_original_event()
    operation = budgets.find_operation(request.method, resource, path)
    budget = BUDGETS[operation] if operation else Budget()
    budgets.set_current_budget(budget)
    query = event.get("multiValueQueryStringParameters") or {}
    target = [path, *(text for name, values in query.items() for value in values for text in (name, value))]
    _check_unicode(target)
    body = event.get("body") or ""
    body_bytes = len(body) * 3 // 4 - 2 if event.get("isBase64Encoded") else _utf8_bytes(body)
    budget.check_request(sum(map(len, target)), body_bytes)
    if operation:
        budgets.check_names(operation, path)


def _utf8_bytes(text: str | bytes) -> int:
    """The size of a body in UTF-8. Only ``chalice local`` passes bytes."""
    return len(text) if isinstance(text, bytes) or text.isascii() else len(text.encode(errors="surrogatepass"))


def _check_unicode(texts: Sequence[str]) -> None:
    """Reject lone surrogates, which neither stored names nor keys can contain. Raises InvalidInputError."""
    try:
        "".join(texts).encode()
    except UnicodeEncodeError as error:
        raise InvalidInputError("path and query must be UTF-8") from error


def _enveloped(response: Response) -> Response:
    """Convert Chalice's ``{"Code": "…", "Message": "…"}`` for an unknown path or method to the envelope."""
    if response.status_code < 400 or not isinstance(response.body, dict):
        return response
    allowed = response.headers.get("Allow")
    if response.status_code == 405 and not allowed:
        return error_response(404, "no such path")
    message = str(response.body.get("Message", "request failed"))
    return error_response(response.status_code, message[:1].lower() + message[1:], **({"Allow": str(allowed)} if allowed else {}))

"""JSON responses, and one error envelope ``{"code": …, "message": …}`` for all errors.

OpenMetadata's client treats an error without a ``code`` key as a success, avoids a path for a minute after a 429 and sleeps for minutes
after a 504. Neither status is returned: a failure of the service is a 503 with ``Retry-After``, which the client repeats within seconds.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from chalice.app import ChaliceViewError, Response

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
    RunDeletedError,
    StoreConditionError,
    UnauthenticatedError,
    UnavailableError,
)
from chalicelib.observability import logger, redacted
from chalicelib.response_size import document_bytes

if TYPE_CHECKING:
    from chalicelib.routes.archive_models import ArchiveError
    from chalicelib.routes.logs_models import LogError
    from chalicelib.routes.schemas import ResponseModel

RETRY_AFTER_S = 1
CHALLENGES = {"jwt": 'Bearer realm="runlake"', "iam": 'AWS4-HMAC-SHA256 realm="runlake"'}
"""``WWW-Authenticate`` of a 401, by ``RUNLAKE_AUTH``. API Gateway renames the header of the function's 401, but not of its own."""
_Item = TypeVar("_Item", bound="ResponseModel")
_JSON: dict[str, str | list[str]] = {"Content-Type": "application/json"}
# The first matching row counts.
_STATUS: tuple[tuple[type[Exception], int], ...] = (
    (UnauthenticatedError, 401),
    (ForbiddenError, 403),
    (InvalidConfigurationError, 500),
    (BatchTooLargeError, 413),
    (InvalidInputError, 400),
    (RunDeletedError, 410),
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


def fitting(items: Iterable[_Item], room_bytes: int) -> list[_Item]:
    """The first items whose JSON fits into ``room_bytes``; at least one, if there is any. Items after the first that does not fit
    are not taken."""
    page: list[_Item] = []
    size = 0
    for item in items:
        size += document_bytes(item.model_dump())
        if page and size > room_bytes:
            break
        page.append(item)
    return page


def json_response(body: Any, status_code: int = 200, **headers: str) -> Response:
    """A response in JSON; the keyword ``Set_Cookie`` sets the header ``Set-Cookie``."""
    extra: dict[str, str | list[str]] = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(json.dumps(body, ensure_ascii=False, separators=(",", ":")), _JSON | extra, status_code)


def client_message(text: str) -> str:
    """The text of an error for the client: without secrets, and without lone surrogates of the request, which would break the response."""
    return redacted(text).encode(errors="replace").decode()


def error_response(status: int, message: str, code: str | None = None, detail: str = "", **headers: str) -> Response:
    """The error envelope. ``code``: the resource's error code; default: the status. ``detail``: more help for errors with such a code."""
    if status == 503:
        headers["Retry_After"] = str(RETRY_AFTER_S)
    if status == 401:
        headers["WWW_Authenticate"] = CHALLENGES[composition.services().settings.auth]
    if not code:
        error: LogError = {"code": status, "message": client_message(message)}
        return json_response(error, status, **headers)
    body: ArchiveError = {"code": code, "message": client_message(message)}
    if detail:
        body["detail"] = client_message(detail)
    return json_response(body, status, **headers)


def to_error_response(error: Exception) -> Response:
    """The response to an error. An unexpected error is logged with its traceback, and returned without details."""
    status = _status_of(error)
    if status is None:
        logger.exception("a request failed")
        return error_response(500, "internal server error")
    if status >= 500:
        kind = type(error.__cause__ or error).__name__
        logger.warning("a request could not be served", extra={"error": str(error), "kind": kind})
    return error_response(status, str(error), getattr(error, "code", None), getattr(error, "detail", ""))


def error_message(response: Response) -> str:
    """The message of an error response, for protocols that have errors of their own."""
    return str(json.loads(response.body)["message"])


def _status_of(error: Exception) -> int | None:
    if isinstance(error, ChaliceViewError):
        return int(error.STATUS_CODE)
    return next((status for kind, status in _STATUS if isinstance(error, kind)), None)

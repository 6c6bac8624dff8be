"""Translates botocore's errors: no botocore exception leaves ``chalicelib.aws``.

An error states the possible effect: nothing was done (StoreUnavailableError), or a write may have been applied although its response was
lost (OutcomeUnknownError). A server error (5xx) of a write counts as unknown, since S3 may have applied it. If botocore retries after
such an attempt, the outcome of the call stays unknown for any error of the retry, since the first attempt may have been applied.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    CredentialRetrievalError,
    EndpointConnectionError,
    NoCredentialsError,
    ParamValidationError,
    PartialCredentialsError,
    ProxyConnectionError,
)
from botocore.parsers import ResponseParserError
from urllib3.exceptions import HTTPError

from chalicelib.errors import (
    ObjectNotFoundError,
    OutcomeUnknownError,
    PreconditionFailedError,
    RangeNotSatisfiableError,
    RunlakeError,
    StoreUnavailableError,
    WriteConflictError,
)

ERROR_BY_CODE: dict[str, type[RunlakeError]] = {
    "NoSuchKey": ObjectNotFoundError,
    "NoSuchUpload": ObjectNotFoundError,
    "NotFound": ObjectNotFoundError,
    "404": ObjectNotFoundError,
    "PreconditionFailed": PreconditionFailedError,
    "412": PreconditionFailedError,
    "ConditionalCheckFailedException": PreconditionFailedError,
    "ConditionalRequestConflict": WriteConflictError,
    "OperationAborted": WriteConflictError,
    "409": WriteConflictError,
    "InvalidRange": RangeNotSatisfiableError,
    "416": RangeNotSatisfiableError,
}
"""By the error code of a response, or by its status if it has no body. Other codes: StoreUnavailableError or OutcomeUnknownError."""
_NEVER_APPLIED = frozenset({
    "SlowDown", "ServiceUnavailable", "503", "Throttling", "ThrottlingException", "RequestLimitExceeded", "TooManyRequestsException",
    "ProvisionedThroughputExceededException", "AccessDenied", "403", "NoSuchBucket", "ResourceNotFoundException",
})  # fmt: skip
_NEVER_SENT = (
    EndpointConnectionError, ConnectTimeoutError, ProxyConnectionError,
    NoCredentialsError, PartialCredentialsError, CredentialRetrievalError, ParamValidationError,
)  # fmt: skip
_DOUBT = "runlake-doubt"
FOREIGN_ERRORS = (BotoCoreError, ResponseParserError, HTTPError)
"""Exceptions of client calls besides ClientError: botocore's own, unparsable responses, and urllib3's while a body is read."""


@contextmanager
def translate_errors(operation: str, what: str, *, write: bool) -> Iterator[None]:
    """Context of one client call; translates botocore's exceptions into errors that name the operation and the key."""
    try:
        yield
    except ClientError as error:
        raise translate_error(error, operation, what, write=write) from error
    except FOREIGN_ERRORS as error:
        raise _without_answer(error, operation, what, write=write) from error


def translate_error(error: ClientError, operation: str, what: str, *, write: bool) -> RunlakeError:
    """Our error for an error response. Unknown codes count as unavailability, never as a missing object."""
    code = _code(error.response)
    absent = f"table {what or 'of the request'} does not exist: " if code == "ResourceNotFoundException" else ""
    message = f"{absent}{operation} failed code={code or _status(error.response)} what={what}"
    if known := ERROR_BY_CODE.get(code):
        return known(message)
    is_doubtful = _may_be_applied(error.response) or error.response.get(_DOUBT)
    return OutcomeUnknownError(message) if write and is_doubtful else StoreUnavailableError(message)


def note_unknown_outcome(response: Any, caught_exception: Any, request_dict: dict[str, Any], **_: Any) -> None:
    """Handler of botocore's event ``needs-retry``, after each attempt. An error describes its own attempt only, so this records in it
    whether an earlier attempt may have been applied."""
    answer = response[1] if response else None
    if answer is not None and _status(answer) < 300:
        return
    context = request_dict["context"]
    earlier = context.get(_DOUBT, False)
    if answer is None:
        caught_exception.doubt = earlier
        context[_DOUBT] = earlier or not isinstance(caught_exception, _NEVER_SENT)
    else:
        answer[_DOUBT] = earlier
        context[_DOUBT] = earlier or _may_be_applied(answer)


def _without_answer(error: Exception, operation: str, what: str, *, write: bool) -> RunlakeError:
    if isinstance(error, _NEVER_SENT) and not getattr(error, "doubt", False):
        return StoreUnavailableError(f"request was not sent operation={operation} what={what} error={type(error).__name__}")
    lost = OutcomeUnknownError if write else StoreUnavailableError
    return lost(f"response was lost operation={operation} what={what} error={type(error).__name__}")


def _may_be_applied(answer: Mapping[str, Any]) -> bool:
    return _status(answer) >= 500 and _code(answer) not in _NEVER_APPLIED


def _code(answer: Mapping[str, Any]) -> str:
    return str(answer.get("Error", {}).get("Code", ""))


def _status(answer: Mapping[str, Any]) -> int:
    return int(answer.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))

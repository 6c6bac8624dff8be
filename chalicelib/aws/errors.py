"""Errors of botocore, translated once: nothing of botocore leaves ``chalicelib.aws``.

What matters is what the caller may assume: nothing was done (StoreUnavailableError), or a write may have been applied although its
answer was lost (OutcomeUnknownError). A server error (5xx) to a write counts as unknown: S3 may have applied it. So does whatever a
second attempt of botocore's own meets behind such a first one: the first may have been applied.
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
"""By the code of an answer, or by its status where it has no body. Any other code: StoreUnavailableError, OutcomeUnknownError."""
_NEVER_APPLIED = frozenset({
    "SlowDown", "ServiceUnavailable", "503", "Throttling", "ThrottlingException", "RequestLimitExceeded", "TooManyRequestsException",
    "ProvisionedThroughputExceededException", "AccessDenied", "403", "NoSuchBucket", "ResourceNotFoundException",
})  # fmt: skip
_NEVER_SENT = (
    EndpointConnectionError, ConnectTimeoutError, ProxyConnectionError,
    NoCredentialsError, PartialCredentialsError, CredentialRetrievalError, ParamValidationError,
)  # fmt: skip
_DOUBT = "runlake-doubt"
FOREIGN = (BotoCoreError, ResponseParserError, HTTPError)
"""What a call of a client raises besides ClientError: botocore's own, an answer that cannot be read, urllib3's while a body is read."""


@contextmanager
def translated(operation: str, what: str, *, write: bool) -> Iterator[None]:
    """Run one call of a client; what botocore raises becomes an error of ours that names the operation and the key."""
    try:
        yield
    except ClientError as error:
        raise translate(error, operation, what, write=write) from error
    except FOREIGN as error:
        raise _without_answer(error, operation, what, write=write) from error


def translate(error: ClientError, operation: str, what: str, *, write: bool) -> RunlakeError:
    """Our error for an answer of the service. A code that is not known is trouble of ours: it is never taken for "nothing there"."""
    code = _code(error.response)
    absent = f"table {what or 'of it'} is not there: " if code == "ResourceNotFoundException" else ""
    message = f"{absent}{operation} failed code={code or _status(error.response)} what={what}"
    if known := ERROR_BY_CODE.get(code):
        return known(message)
    is_doubtful = _may_be_applied(error.response) or error.response.get(_DOUBT)
    return OutcomeUnknownError(message) if write and is_doubtful else StoreUnavailableError(message)


def note_doubt(response: Any, caught_exception: Any, request_dict: dict[str, Any], **_: Any) -> None:
    """botocore's event ``needs-retry``, after each attempt: an error tells what its own attempt met, so write into it whether an
    earlier attempt may have been applied."""
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
    return lost(f"answer was lost operation={operation} what={what} error={type(error).__name__}")


def _may_be_applied(answer: Mapping[str, Any]) -> bool:
    return _status(answer) >= 500 and _code(answer) not in _NEVER_APPLIED


def _code(answer: Mapping[str, Any]) -> str:
    return str(answer.get("Error", {}).get("Code", ""))


def _status(answer: Mapping[str, Any]) -> int:
    return int(answer.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))

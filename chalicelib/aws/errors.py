"""Errors of botocore, translated once: nothing of botocore leaves ``chalicelib.aws``.

What matters is what the caller may assume: nothing was done (StoreUnavailableError), or a write may have been applied although its
answer was lost (OutcomeUnknownError). A server error (5xx) to a write counts as unknown: S3 may have applied it. So does an error of
botocore's own second attempt, whatever it says: nobody knows what became of the first.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    CredentialRetrievalError,
    EndpointConnectionError,
    NoCredentialsError,
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

_BY_CODE: dict[str, type[RunlakeError]] = {
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
_NEVER_APPLIED = frozenset({
    "SlowDown", "ServiceUnavailable", "503", "Throttling", "ThrottlingException", "RequestLimitExceeded", "TooManyRequestsException",
    "ProvisionedThroughputExceededException", "AccessDenied", "403", "NoSuchBucket", "ResourceNotFoundException",
})  # fmt: skip
_NEVER_SENT = (
    EndpointConnectionError, ConnectTimeoutError, ProxyConnectionError,
    NoCredentialsError, PartialCredentialsError, CredentialRetrievalError,
)  # fmt: skip
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
    code = str(error.response.get("Error", {}).get("Code", ""))
    metadata = error.response.get("ResponseMetadata", {})
    status = metadata.get("HTTPStatusCode", 0)
    message = f"{operation} failed code={code or status} what={what}"
    if known := _BY_CODE.get(code):
        return known(message)
    is_known = metadata.get("RetryAttempts", 0) == 0 and (status < 500 or code in _NEVER_APPLIED)
    return StoreUnavailableError(message) if is_known or not write else OutcomeUnknownError(message)


def _without_answer(error: Exception, operation: str, what: str, *, write: bool) -> RunlakeError:
    is_first = getattr(error, "attempts", 1) == 1  # see ``clients``
    if isinstance(error, _NEVER_SENT) and is_first:
        return StoreUnavailableError(f"request was not sent operation={operation} what={what} error={type(error).__name__}")
    lost = OutcomeUnknownError if write else StoreUnavailableError
    return lost(f"answer was lost operation={operation} what={what} error={type(error).__name__}")

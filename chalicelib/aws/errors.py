"""Errors of botocore, translated once: nothing of botocore leaves ``chalicelib.aws``.

What matters is what the caller may assume: nothing was done (StoreUnavailableError), or a write may have been applied although its
answer was lost (OutcomeUnknownError). A server error (5xx) to a write counts as unknown: S3 may have applied it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from botocore.exceptions import BotoCoreError, ClientError, ConnectTimeoutError, EndpointConnectionError

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


@contextmanager
def translated(operation: str, what: str, *, write: bool) -> Iterator[None]:
    """Run one call of a client; what botocore raises becomes an error of ours that names the operation and the key."""
    try:
        yield
    except ClientError as error:
        raise translate(error, operation, what, write=write) from error
    except (EndpointConnectionError, ConnectTimeoutError) as error:
        raise StoreUnavailableError(f"no connection operation={operation} what={what}") from error
    except BotoCoreError as error:
        lost = OutcomeUnknownError if write else StoreUnavailableError
        raise lost(f"answer was lost operation={operation} what={what} error={type(error).__name__}") from error


def translate(error: ClientError, operation: str, what: str, *, write: bool) -> RunlakeError:
    """Our error for an answer of the service. A code that is not known is trouble of ours: it is never taken for "nothing there"."""
    code = str(error.response.get("Error", {}).get("Code", ""))
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    message = f"{operation} failed code={code or status} what={what}"
    if known := _BY_CODE.get(code):
        return known(message)
    if write and status >= 500 and code not in _NEVER_APPLIED:
        return OutcomeUnknownError(message)
    return StoreUnavailableError(message)

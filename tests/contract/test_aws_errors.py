"""Every failure between a client and AWS becomes one of our errors, which states correctly whether a write may have been applied."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from string import Formatter

import pytest
from botocore.awsrequest import AWSResponse
from botocore.exceptions import BotoCoreError, ClientError, ConnectTimeoutError, EndpointConnectionError, ReadTimeoutError
from botocore.parsers import ResponseParserError
from urllib3.exceptions import HTTPError, ProtocolError, SSLError
from urllib3.exceptions import ReadTimeoutError as BodyTimeoutError

from chalicelib.aws.dynamodb import Table
from chalicelib.aws.errors import translate_errors
from chalicelib.aws.object_store import S3ObjectStore
from chalicelib.aws.publisher import SnsPublisher
from chalicelib.errors import (
    ObjectNotFoundError,
    OutcomeUnknownError,
    PreconditionFailedError,
    RangeNotSatisfiableError,
    RunlakeError,
    StoreUnavailableError,
    UnavailableError,
    WriteConflictError,
)
from chalicelib.ports import ABSENT, Message, ObjectStore, PutOptions
from tests.contract.canned import NOWHERE, answer, cut_off, s3_error

PLAIN = PutOptions()
ETAG = "0" * 32
WRITES: dict[str, Callable[[ObjectStore], object]] = {
    "put": lambda store: store.put("k", b"x", PLAIN, ABSENT),
    "delete": lambda store: store.delete("k"),
    "delete_many": lambda store: store.delete_many(["k"]),
    "create_multipart": lambda store: store.create_multipart("k", PLAIN),
    "upload_part": lambda store: store.upload_part("k", "id", 1, b"x"),
    "copy_part": lambda store: store.copy_part("k", "id", 1, "source", 0, 9, if_match=ETAG),
    "complete_multipart": lambda store: store.complete_multipart("k", "id", [(1, ETAG)], ABSENT),
    "abort_multipart": lambda store: store.abort_multipart("k", "id"),
}
READS: dict[str, Callable[[ObjectStore], object]] = {
    "get": lambda store: store.get("k"),
    "head": lambda store: store.head("k"),
    "list": lambda store: store.list("p"),
}
CALLS = WRITES | READS
FAULTS: dict[str, Callable[[], AWSResponse | Exception]] = {
    "no answer": lambda: ReadTimeoutError(endpoint_url=NOWHERE),
    "refused": lambda: EndpointConnectionError(endpoint_url=NOWHERE),
    "no connection": lambda: ConnectTimeoutError(endpoint_url=NOWHERE),
    "throttled": lambda: s3_error(503, "SlowDown"),
    "internal error": lambda: s3_error(500, "InternalError"),
    "bad gateway": lambda: s3_error(502, ""),
    "denied": lambda: s3_error(403, "AccessDenied"),
    "condition false": lambda: s3_error(412, "PreconditionFailed"),
}
"""Responses and failures of one attempt."""


def raised(name: str, *answers: AWSResponse | Exception) -> type[BaseException]:
    """The error class of a store's call that gets these responses."""
    with cut_off("s3", *answers) as (client, _), pytest.raises(RunlakeError) as caught:
        CALLS[name](S3ObjectStore(client, "bucket"))
    assert str(caught.value).startswith(tuple("abcdefghijklmnopqrstuvwxyz")) and "=" in str(caught.value)
    return caught.type


def subclasses(root: type[Exception]) -> Iterator[type[Exception]]:
    for each in root.__subclasses__():
        if each.__module__ == "botocore.exceptions":
            yield each
            yield from subclasses(each)


@pytest.mark.parametrize("write", [True, False])
def test_no_exception_of_botocore_leaves_the_package(write: bool) -> None:
    """Every exception class of the installed botocore."""
    found = set(subclasses(BotoCoreError))
    assert len(found) > 80
    for foreign in [*found, ResponseParserError, HTTPError]:
        with pytest.raises(UnavailableError) as caught, translate_errors("call", "key", write=write):
            raise built(foreign)
        assert write or caught.type is StoreUnavailableError


def built(foreign: type[Exception]) -> Exception:
    if not issubclass(foreign, BotoCoreError):
        return foreign("x")
    fields = {name for _, name, _, _ in Formatter().parse(str(getattr(foreign, "fmt", ""))) if name}
    named = {name for name, each in inspect.signature(foreign).parameters.items() if each.kind is each.POSITIONAL_OR_KEYWORD}
    return foreign(**dict.fromkeys(fields | named, "x"))


@pytest.mark.parametrize("write", [True, False])
@pytest.mark.parametrize("status", [400, 403, 404, 409, 412, 416, 429, 500, 503])
def test_unknown_code_never_means_that_the_object_is_missing(status: int, write: bool) -> None:
    response = {"Error": {"Code": "SomethingNew"}, "ResponseMetadata": {"HTTPStatusCode": status}}
    with pytest.raises(UnavailableError) as caught, translate_errors("call", "key", write=write):
        raise ClientError(response, "Call")
    assert caught.type is (OutcomeUnknownError if write and status >= 500 else StoreUnavailableError)


@pytest.mark.parametrize(
    ("name", "status", "code", "expected"),
    [
        ("put", 412, "PreconditionFailed", PreconditionFailedError),
        ("put", 409, "ConditionalRequestConflict", WriteConflictError),
        ("put", 404, "NoSuchKey", PreconditionFailedError),
        ("complete_multipart", 412, "PreconditionFailed", PreconditionFailedError),
        ("complete_multipart", 409, "ConditionalRequestConflict", WriteConflictError),
        ("complete_multipart", 404, "NoSuchUpload", ObjectNotFoundError),
        ("complete_multipart", 400, "EntityTooSmall", StoreUnavailableError),
        ("upload_part", 404, "NoSuchUpload", ObjectNotFoundError),
        ("copy_part", 412, "PreconditionFailed", PreconditionFailedError),
        ("copy_part", 404, "NoSuchKey", ObjectNotFoundError),
        ("get", 404, "NoSuchKey", ObjectNotFoundError),
        ("get", 412, "PreconditionFailed", PreconditionFailedError),
        ("get", 416, "InvalidRange", RangeNotSatisfiableError),
        ("get", 403, "InvalidObjectState", StoreUnavailableError),
        ("head", 404, "", ObjectNotFoundError),
        ("head", 403, "", StoreUnavailableError),
        ("put", 403, "AccessDenied", StoreUnavailableError),
        ("put", 404, "NoSuchBucket", StoreUnavailableError),
        ("get", 404, "NoSuchBucket", StoreUnavailableError),
        ("put", 400, "RequestTimeout", StoreUnavailableError),
        ("put", 400, "KMS.DisabledException", StoreUnavailableError),
    ],
)
def test_error_codes_of_s3(name: str, status: int, code: str, expected: type[RunlakeError]) -> None:
    assert raised(name, s3_error(status, code)) is expected


@pytest.mark.sampled(default=50)
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize(
    ("met", "is_unknown"),
    [
        ("no answer", True),
        ("refused", False),
        ("no connection", False),
        ("throttled", False),
        ("internal error", True),
        ("bad gateway", True),
        ("denied", False),
        ("no answer, then refused", True),
        ("no answer, then throttled", True),
        ("no answer, then denied", True),
        ("internal error, then throttled", True),
        ("throttled, then no answer", True),
        ("throttled, then refused", False),
        ("refused, then throttled", False),
    ],
)
def test_a_write_is_unknown_if_any_of_its_attempts_may_have_been_applied(name: str, met: str, is_unknown: bool) -> None:
    """The last response repeats for all further attempts."""
    expected = OutcomeUnknownError if is_unknown and name in WRITES else StoreUnavailableError
    assert raised(name, *(FAULTS[each]() for each in met.split(", then "))) is expected


@pytest.mark.parametrize("name", ["put", "complete_multipart"])
def test_a_lost_answer_and_then_a_condition_that_is_false(name: str) -> None:
    """The first attempt may be the write that makes the condition false, so the caller must read."""
    assert raised(name, FAULTS["no answer"](), FAULTS["condition false"]()) is PreconditionFailedError


@pytest.mark.parametrize("name", ["copy_part", "complete_multipart"])
@pytest.mark.parametrize(("code", "expected"), [("InternalError", OutcomeUnknownError), ("SlowDown", StoreUnavailableError)])
def test_an_error_inside_a_200_is_an_error(name: str, code: str, expected: type[RunlakeError]) -> None:
    """S3 sends the status before it has done the work."""
    assert raised(name, s3_error(200, code)) is expected


@pytest.mark.parametrize("name", ["delete_many", "create_multipart", "copy_part", "complete_multipart", "list"])
def test_response_of_a_proxy_is_an_error(name: str) -> None:
    """A proxy's page, say."""
    said = answer(200, b"<html>not S3", {"Content-Type": "text/html"})
    assert raised(name, said) is (OutcomeUnknownError if name in WRITES else StoreUnavailableError)


HEADERS = {"ETag": f'"{ETAG}"', "Last-Modified": "Sat, 21 Nov 2026 03:12:45 GMT"}


@pytest.mark.parametrize(
    "broken",
    [
        answer(200, b"short", HEADERS | {"Content-Length": "6"}),
        answer(200, b"x", HEADERS, ProtocolError("connection broken")),
        answer(200, b"x", HEADERS, BodyTimeoutError(None, NOWHERE, "read timed out")),  # type: ignore[arg-type]
        answer(200, b"x", HEADERS, SSLError("bad record")),
        answer(200, b"x", HEADERS, OSError("reset")),
    ],
    ids=["short", "broken", "slow", "tls", "os"],
)
def test_a_body_that_ends_early_is_an_error_and_never_a_short_body(broken: AWSResponse) -> None:
    assert raised("get", broken) is StoreUnavailableError


def test_a_key_that_could_not_be_deleted_is_told() -> None:
    body = b"<DeleteResult><Error><Key>b</Key><Code>InternalError</Code></Error></DeleteResult>"
    assert raised("delete_many", answer(200, body)) is OutcomeUnknownError


@pytest.mark.parametrize(
    ("code", "status", "expected"),
    [
        ("ConditionalCheckFailedException", 400, PreconditionFailedError),
        ("ProvisionedThroughputExceededException", 400, StoreUnavailableError),
        ("ThrottlingException", 400, StoreUnavailableError),
        ("ResourceNotFoundException", 400, StoreUnavailableError),
        ("ValidationException", 400, StoreUnavailableError),
        ("InternalServerError", 500, OutcomeUnknownError),
    ],
)
def test_what_dynamodb_says(code: str, status: int, expected: type[RunlakeError]) -> None:
    said = answer(status, f'{{"__type": "com.amazonaws.dynamodb.v20120810#{code}", "message": "m"}}'.encode())
    with cut_off("dynamodb", said) as (client, _), pytest.raises(RunlakeError) as caught:
        Table(client, "table").update({"run": "r"}, "SET a = :a", {":a": 1})
    assert caught.type is expected


@pytest.mark.parametrize(("met", "expected"), [("no answer", OutcomeUnknownError), ("refused", StoreUnavailableError)])
def test_a_topic_that_does_not_answer(met: str, expected: type[RunlakeError]) -> None:
    with cut_off("sns", FAULTS[met]()) as (client, _):
        results = SnsPublisher(client, "arn:aws:sns:us-east-1:000000000000:t").publish([Message("{}", {"a": "b"})] * 2)
    assert [type(result) for result in results] == [expected, expected]

"""The check of SigV4 signatures at the local function URL: AWS's published examples, signatures of botocore, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from local.signatures import SentRequest, Signature, SignatureError, signature_of

HOST, DATE = "example.amazonaws.com", "20150830T123600Z"
PUBLISHED_SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
UNRESERVED = "-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
FORM = "application/x-www-form-urlencoded"
PUBLISHED: dict[str, tuple[str, str, dict[str, str], bytes, str]] = {
    "get-header-key-duplicate": (
        "GET",
        "/",
        {"my-header1": "value2,value2,value1"},
        b"",
        "c9d5ea9f3f72853aea855b47ea873832890dbdd183b4468f858259531a5138ea",
    ),
    "get-header-value-trim": (
        "GET",
        "/",
        {"my-header1": " value1", "my-header2": ' "a   b   c"'},
        b"",
        "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736",
    ),
    "get-unreserved": ("GET", f"/{UNRESERVED}", {}, b"", "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f"),
    "get-utf8": ("GET", "/ሴ", {}, b"", "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85"),
    "get-vanilla": ("GET", "/", {}, b"", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
    "get-relative-relative": (
        "GET",
        "/example1/example2/../..",
        {},
        b"",
        "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
    ),
    "get-slash-dot-slash": ("GET", "/./", {}, b"", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
    "get-vanilla-query-order-key-case": (
        "GET",
        "/?Param2=value2&Param1=value1",
        {},
        b"",
        "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
    ),
    "get-vanilla-query-unreserved": (
        "GET",
        f"/?{UNRESERVED}={UNRESERVED}",
        {},
        b"",
        "9c3e54bfcdf0b19771a7f523ee5669cdf59bc7cc0884027167c21bb143a40197",
    ),
    "get-vanilla-utf8-query": (
        "GET",
        "/?%E1%88%B4=bar",
        {},
        b"",
        "2cdec8eed098649ff3a119c94853b13c643bcf08f8b0a1d91e12c9027818dd04",
    ),
    "post-header-key-sort": (
        "POST",
        "/",
        {"my-header1": "value1"},
        b"",
        "c5410059b04c1ee005303aed430f6e6645f61f4dc9e1461ec8f8916fdf18852c",
    ),
    "post-vanilla": ("POST", "/", {}, b"", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"),
    "post-x-www-form-urlencoded": (
        "POST",
        "/",
        {"content-type": FORM},
        b"Param1=value1",
        "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
    ),
}
"""Of AWS's test suite for Signature Version 4: method, target, headers, body, signature."""


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_signature_is_computed(name: str) -> None:
    method, target, more, body, expected = PUBLISHED[name]
    path, _, query = target.partition("?")
    headers = {"host": HOST, "x-amz-date": DATE} | more
    signature = Signature("AKIDEXAMPLE", DATE[:8], "us-east-1", "service", ";".join(sorted(headers)), "", DATE)
    assert signature_of(SentRequest(method, path, query, headers, body), signature, PUBLISHED_SECRET) == expected


SECRET, REGION = "hush", "us-east-1"
PATH = "/api/v1/services/ingestionPipelines/logs/svc%2Fa%25b..c%20%C3%BC/run-1"


def signed(
    method: str = "POST", target: str = PATH, body: bytes = b"x\n", secret: str = SECRET, region: str = REGION, service: str = "lambda",
    token: str | None = "token", **headers: str,
) -> SentRequest:  # fmt: skip
    """A request signed by botocore."""
    request = AWSRequest(method, f"https://id.lambda-url.us-east-1.on.aws{target}", data=body, headers=headers)
    SigV4Auth(Credentials("ASIA1", secret, token), service, region).add_auth(request)
    sent = {name.lower(): value for name, value in request.headers.items()} | {"host": "id.lambda-url.us-east-1.on.aws"}
    path, _, query = target.partition("?")
    return SentRequest(method, path, query, sent, body)


def check(request: SentRequest, late: timedelta = timedelta()) -> None:
    Signature.parse(request.headers).check(request, SECRET, REGION, "lambda", datetime.now(UTC) + late)


@pytest.mark.parametrize(
    "target",
    [PATH, "/api/v1/x/svc..a/r", "/a%2F..%2Fb", "/%252F", "/~-._%7E", "/", "/api/v1/catalog?a=1&a=0&b=%20%2B&c=", "/a/?z=%C3%BC&y"],
)
@pytest.mark.parametrize("body", [b"", b"\x00\xff"])
def test_signature_of_botocore_holds(target: str, body: bytes) -> None:
    """A path is signed with its escapes encoded once more."""
    check(signed("GET", target, body))
    check(signed("POST", target, body, token=None, **{"Content-Type": "text/plain"}))


def with_headers(request: SentRequest, **headers: str) -> SentRequest:
    return replace(request, headers={**request.headers, **{name.replace("_", "-"): value for name, value in headers.items()}})


def without_scope(request: SentRequest, name: str, value: str) -> SentRequest:
    return with_headers(request, authorization=request.headers["authorization"].replace(name, value))


def a_second_off(date: str) -> str:
    return f"{date[:-2]}{int(date[-2]) ^ 1}Z"


WRONG: dict[str, Callable[[SentRequest], SentRequest]] = {
    "another secret": lambda _: signed(secret="guess"),
    "another region": lambda _: signed(region="eu-west-1"),
    "another service": lambda _: signed(service="execute-api"),
    "another method": lambda good: replace(good, method="PUT"),
    "another path": lambda good: replace(good, path=good.path.replace("run-1", "run-2")),
    "a decoded path": lambda good: replace(good, path=good.path.replace("%2F", "/")),
    "another query": lambda good: replace(good, query="limit=1"),
    "another body": lambda good: replace(good, body=b"y\n"),
    "another host": lambda good: with_headers(good, host="evil.example.com"),
    "another token": lambda good: with_headers(good, x_amz_security_token="another"),
    "another second": lambda good: with_headers(good, x_amz_date=a_second_off(good.headers["x-amz-date"])),
    "no date": lambda good: with_headers(good, x_amz_date=""),
    "a date of another day than its scope": lambda good: with_headers(good, x_amz_date=f"20200101{good.headers['x-amz-date'][8:]}"),
    "a body without its hash": lambda _: replace(signed(**{"X-Amz-Content-SHA256": "0" * 64})),
    "a body that is not signed": lambda _: signed(**{"X-Amz-Content-SHA256": "UNSIGNED-PAYLOAD"}),
    "an unsigned header of AWS": lambda good: with_headers(good, x_amz_user_arn="arn:aws:iam::1:root"),
    "an unsigned host": lambda good: without_scope(good, "host;", ""),
    "signed headers in disorder": lambda good: without_scope(good, "host;x-amz-date", "x-amz-date;host"),
    "a signed header that was not sent": lambda good: without_scope(good, "host;", "host;more;"),
    "no signature": lambda good: without_scope(good, "Signature=", "Sig="),
    "no scope": lambda good: without_scope(good, "/aws4_request", ""),
    "another algorithm": lambda good: without_scope(good, "AWS4-HMAC-SHA256", "AWS4-HMAC-SHA1"),
    "nothing else": lambda good: with_headers(good, authorization="AWS4-HMAC-SHA256 x"),
    "a signature that is not hexadecimal": lambda good: without_scope(good, "Signature=", "Signature=é"),
    "bytes as signature": lambda good: without_scope(good, "Signature=", "Signature=\udc80"),
    "bytes in a signed header": lambda good: with_headers(good, host="\udc80"),
    "bytes in the token": lambda good: with_headers(good, x_amz_security_token="\udc80"),
    "bytes in the path": lambda good: replace(good, path="/\udc80"),
    "bytes in the query": lambda good: replace(good, query="a=\udc80"),
    "a token of an issuer": lambda good: with_headers(good, authorization="Bearer eyJ"),
}  # fmt: skip


@pytest.mark.behavior("The local function URL refuses every request that AWS would refuse for its signature.")
@pytest.mark.parametrize("name", WRONG)
def test_wrong_signature_is_refused(name: str) -> None:
    good = signed()
    check(good)
    with pytest.raises(SignatureError):
        check(WRONG[name](good))


@pytest.mark.parametrize(("late_s", "holds"), [(-280, True), (280, True), (320, False), (-320, False), (86_400, False)])
def test_signature_holds_for_five_minutes(late_s: int, holds: bool) -> None:
    request: Any = signed()
    if holds:
        check(request, timedelta(seconds=late_s))
        return
    with pytest.raises(SignatureError, match="expired" if late_s > 0 else "not yet current"):
        check(request, timedelta(seconds=late_s))

"""The local function URL: its events, limits and responses, in front of a fake emulator that knows one key."""

from __future__ import annotations

import asyncio
import base64
import gzip
from collections.abc import Awaitable, Callable
from io import BytesIO
from typing import Any

import pytest
from aiohttp import ClientResponse, ClientSession, DummyCookieJar, web
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from yarl import URL

from chalicelib.routes.function_url import adapt
from local.address import LAMBDA_LIMIT_BYTES
from local.job_url import JobUrl
from tests.functional.gateway import Context
from tests.integration.test_address import serving

KEY = {
    "secret_access_key": "hush",
    "account_id": "111122223333",
    "principal_id": "AROA1:job-7",
    "principal_arn": "arn:aws:sts::111122223333:assumed-role/etl/job-7",
}
Send = Callable[..., Awaitable[ClientResponse]]


def play(scene: Callable[[Send, list[dict[str, Any]]], Awaitable[None]], answer: dict[str, Any] | int | None = None) -> None:
    """Run a scenario with a function that sends signed requests, and the events that arrived. ``answer``: the function's, or a status."""
    events: list[dict[str, Any]] = []

    async def emulator(request: web.Request) -> web.Response:
        if request.path == "/":
            asked = dict(await request.post())
            known = (asked["AccessKeyId"], asked["SessionToken"]) == ("ASIA1", "token")
            code = "ExpiredTokenException" if asked["AccessKeyId"] == "ASIAOLD" else "InvalidClientTokenId"
            return web.json_response(KEY if known else {"code": code, "message": "the emulator's"})
        assert request.path == "/2015-03-31/functions/the-function/invocations"
        events.append(await request.json())
        if isinstance(answer, int):
            headers = {"X-Amz-Function-Error": "Unhandled"} if answer == 200 else {}
            return web.json_response({"errorMessage": "x"}, status=answer, headers=headers)
        return web.json_response(answer or {"statusCode": 200, "headers": {}, "body": "", "isBase64Encoded": False})

    async def stage() -> None:
        upstream = web.Application(client_max_size=3 * LAMBDA_LIMIT_BYTES)
        upstream.router.add_route("*", "/{path:.*}", emulator)
        async with (
            serving(web.AppRunner(upstream)) as endpoint,
            serving(JobUrl(endpoint, "the-function").runner()) as url,
            ClientSession(cookie_jar=DummyCookieJar(), skip_auto_headers=("Content-Type", "User-Agent")) as client,
        ):

            async def send(method: str, target: str, body: bytes = b"", key: str = "ASIA1", **headers: str) -> ClientResponse:
                signed = AWSRequest(
                    method, url + target, data=body, headers={name.replace("_", "-"): each for name, each in headers.items()}
                )
                SigV4Auth(Credentials(key, "hush", "token"), "lambda", "us-east-1").add_auth(signed)
                return await client.request(
                    method,
                    URL(url + target, encoded=True),
                    data=BytesIO(body) if body else None,
                    headers=dict(signed.headers),
                    allow_redirects=False,
                )

            await scene(send, events)

    asyncio.run(stage())


def test_event_has_what_lambda_says_of_a_signed_request() -> None:
    async def scene(send: Send, events: list[dict[str, Any]]) -> None:
        target = "/api/v1/logs/svc%2Fa%25b/r?a=1&a=%202&b"
        await send("POST", target, b"one\n", Content_Type="text/plain", Cookie="a=b; PIPELINE_SESSION=c", User_Agent="agent/1")
        (event,) = events
        request = adapt(event, Context())
        assert (request.method, request.path, request.body) == ("POST", "/v1/logs/svc%2Fa%25b/r", "one\n")
        assert (event["rawQueryString"], event["cookies"]) == ("a=1&a=%202&b", ["a=b", "PIPELINE_SESSION=c"])
        assert not event["headers"].keys() & {"cookie", "authorization", "x-amz-security-token"}
        assert event["headers"]["x-forwarded-proto"] == "http" and event["headers"]["host"] == request.domain
        assert request.identity == {
            "userArn": KEY["principal_arn"],
            "accessKey": "ASIA1",
            "sourceIp": "127.0.0.1",
            "userAgent": "agent/1",
        }
        assert event["requestContext"]["authorizer"]["iam"] == {
            "accessKey": "ASIA1",
            "accountId": "111122223333",
            "callerId": "AROA1:job-7",
            "cognitoIdentity": None,
            "principalOrgId": None,
            "userArn": KEY["principal_arn"],
            "userId": "AROA1:job-7",
        }

    play(scene)


@pytest.mark.parametrize(
    ("body", "headers", "is_text"),
    [
        (b"x", {"Content_Type": "text/plain; charset=utf-8"}, True),
        (b"{}", {"Content_Type": "application/json"}, True),
        (b"\x00\xff", {"Content_Type": "application/octet-stream"}, False),
        (b"{}\n", {"Content_Type": "application/x-ndjson"}, False),
        (b"x", {}, False),
        (gzip.compress(b"x", mtime=0), {"Content_Type": "text/plain", "Content_Encoding": "gzip"}, False),
    ],
)
def test_bytes_are_passed_in_base64(body: bytes, headers: dict[str, str], is_text: bool) -> None:
    async def scene(send: Send, events: list[dict[str, Any]]) -> None:
        await send("POST", "/", body, **headers)
        assert events[0]["isBase64Encoded"] is not is_text
        assert (events[0]["body"].encode() if is_text else base64.b64decode(events[0]["body"])) == body

    play(scene)


def test_response_has_cookies_of_the_list_and_bytes_of_base64() -> None:
    async def scene(send: Send, _: list[dict[str, Any]]) -> None:
        answer = await send("GET", "/")
        assert (answer.status, answer.headers["Location"], await answer.read()) == (307, "/there", b"\x00\xff")
        assert answer.headers.getall("Set-Cookie") == ["a=1", "b=2; Path=/"]

    body = base64.b64encode(b"\x00\xff").decode()
    headers = {"Location": "/there", "Content-Length": "9"}
    play(scene, {"statusCode": 307, "headers": headers, "cookies": ["a=1", "b=2; Path=/"], "body": body, "isBase64Encoded": True})


@pytest.mark.parametrize(
    ("answer", "status"),
    [(429, 429), (200, 502), (500, 502), ({"statusCode": 200, "body": "x" * LAMBDA_LIMIT_BYTES}, 502)],
)
def test_function_that_is_throttled_or_fails_is_told_apart(answer: Any, status: int) -> None:
    async def scene(send: Send, _: list[dict[str, Any]]) -> None:
        told = await send("GET", "/")
        assert (told.status, (await told.json()).keys()) == (status, {"Message"})

    play(scene, answer)


@pytest.mark.parametrize(
    ("size", "content_type", "status"),
    [(6_000_000, "text/plain", 200), (4_500_000, "application/gzip", 200), (4_800_000, "application/gzip", 413),
     (LAMBDA_LIMIT_BYTES, "text/plain", 413), (LAMBDA_LIMIT_BYTES + 1, "text/plain", 413)],
)  # fmt: skip
def test_payloads_over_the_limit_of_lambda_are_refused(size: int, content_type: str, status: int) -> None:
    async def scene(send: Send, events: list[dict[str, Any]]) -> None:
        answer = await send("POST", "/", b"x" * size, Content_Type=content_type)
        assert (answer.status, len(events)) == (status, int(status == 200))

    play(scene)


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"key": "ASIA2"}, "UnrecognizedClientException", "is invalid"),
        ({"key": "ASIAOLD"}, "ExpiredTokenException", "is expired"),
        ({"X_Amz_Content_SHA256": "0" * 64}, "InvalidSignatureException", "does not have the hash"),
    ],
)
def test_refused_request_reaches_no_function(options: dict[str, str], kind: str, message: str) -> None:
    """Clients tell the causes apart by AWS's names and words."""

    async def scene(send: Send, events: list[dict[str, Any]]) -> None:
        answer = await send("GET", "/v1/health", **options)
        assert (answer.status, answer.headers["x-amzn-ErrorType"], events) == (403, kind, [])
        assert message in (await answer.json())["Message"]

    play(scene)

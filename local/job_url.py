"""The local function URL: an address in front of the function ``job_api``, as Lambda is on AWS. The emulator's own URL admits any signature, names
nobody, has no list of cookies and decodes ``%2F``.

It checks SigV4 against the keys of the emulator's IAM and STS, builds the event of payload format 2.0 with the signer, and enforces Lambda's
limit of a payload. It does not evaluate IAM policies: here every known key may call the URL.
"""

from __future__ import annotations

import base64
import json
import time
import uuid
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from io import BytesIO
from typing import Any

from aiohttp import ClientSession, ClientTimeout, DummyCookieJar, TCPConnector, web

from local.address import LAMBDA_LIMIT_BYTES, MOST_LINE_BYTES
from local.emulator import REGION
from local.run_emulator import DESCRIBE_KEY
from local.signatures import SentRequest, Signature, SignatureError

SERVICE = "lambda"
EXPIRED = "ExpiredTokenException"
_UNKNOWN = "The security token included in the request is invalid."
_TIMEOUT = ClientTimeout(total=60)
_TEXT = ("text/", "application/json", "application/xml", "application/javascript")
_NOT_PASSED = frozenset(
    {"authorization", "cookie", "x-amz-security-token", "x-forwarded-for", "x-forwarded-proto", "x-forwarded-port"}
)
_OWN_HEADERS = frozenset({"content-length", "transfer-encoding", "connection", "date"})
"""Of a response: the server writes them."""


class JobUrl:
    """Passes signed requests to one function of the emulator at ``endpoint_url``."""

    def __init__(self, endpoint_url: str, function: str) -> None:
        self._endpoint_url, self._function = endpoint_url, function
        self._session: ClientSession | None = None

    def runner(self) -> web.AppRunner:
        """The server, not yet bound to a socket."""
        application = web.Application(client_max_size=LAMBDA_LIMIT_BYTES)
        application.router.add_route("*", r"/{path:[\s\S]*}", self.answer)
        application.cleanup_ctx.append(self._client)
        options: dict[str, Any] = {"auto_decompress": False, "max_line_size": MOST_LINE_BYTES, "max_field_size": MOST_LINE_BYTES}
        return web.AppRunner(application, access_log=None, handler_cancellation=True, shutdown_timeout=1, **options)

    async def _client(self, _: web.Application) -> AsyncIterator[None]:
        async with ClientSession(connector=TCPConnector(limit=0), cookie_jar=DummyCookieJar(), timeout=_TIMEOUT) as self._session:
            yield

    async def answer(self, request: web.Request) -> web.Response:
        """The response to one request."""
        try:
            sent = _sent(request, await request.read())
            signer = await self._signer(sent)
        except web.HTTPRequestEntityTooLarge:
            return _too_large()
        except SignatureError as error:
            return _error(403, str(error), error.kind)
        payload = json.dumps(event_of(sent, signer, request.remote or "", request.scheme)).encode()
        return _too_large() if len(payload) > LAMBDA_LIMIT_BYTES else await self._invoked(payload)

    async def _signer(self, sent: SentRequest) -> dict[str, Any]:
        """The signer, as an event has it. Raises SignatureError."""
        signature = Signature.parse(sent.headers)
        token = sent.headers.get("x-amz-security-token")
        key = await self._key(signature.access_key, token)
        signature.check(sent, key["secret_access_key"], REGION, SERVICE, datetime.now(UTC))
        return {
            "accessKey": signature.access_key,
            "accountId": key["account_id"],
            "callerId": key["principal_id"],
            "cognitoIdentity": None,
            "principalOrgId": None,
            "userArn": key["principal_arn"],
            "userId": key["principal_id"],
        }

    async def _key(self, access_key: str, token: str | None) -> dict[str, Any]:
        """What the emulator knows of an access key, if the token is its own. Raises SignatureError."""
        if not f"{access_key}{token}".isascii():
            raise SignatureError("UnrecognizedClientException", _UNKNOWN)
        asked = {"Action": DESCRIBE_KEY, "AccessKeyId": access_key, "SessionToken": token or ""}
        assert self._session is not None
        async with self._session.post(f"{self._endpoint_url}/", data=asked, headers=_as_root("sts")) as answer:
            key: dict[str, Any] = await answer.json(content_type=None)
        if "code" not in key:
            return key
        if key["code"] == EXPIRED:
            raise SignatureError(EXPIRED, "The security token included in the request is expired")
        raise SignatureError("UnrecognizedClientException", _UNKNOWN)

    async def _invoked(self, payload: bytes) -> web.Response:
        assert self._session is not None
        url = f"{self._endpoint_url}/2015-03-31/functions/{self._function}/invocations"
        async with self._session.post(url, data=BytesIO(payload), headers=_as_root(SERVICE)) as answer:
            content = await answer.read()
        if answer.status == 429:
            return _error(429, "Rate Exceeded.", "TooManyRequestsException")
        if answer.status != 200 or "X-Amz-Function-Error" in answer.headers or len(content) > LAMBDA_LIMIT_BYTES:
            return _error(502, "Internal Server Error", "")
        return _response(json.loads(content))


def event_of(sent: SentRequest, signer: Mapping[str, Any], source_ip: str, scheme: str) -> dict[str, Any]:
    """A function URL's event. ``signer``: the content of ``authorizer.iam``."""
    host, now_s = sent.headers.get("host", ""), time.time()
    passed = {name: value for name, value in sent.headers.items() if name not in _NOT_PASSED}
    http = {"method": sent.method, "path": sent.path, "protocol": "HTTP/1.1", "sourceIp": source_ip}
    event: dict[str, Any] = {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": sent.path,
        "rawQueryString": sent.query,
        "headers": passed | {"x-forwarded-for": source_ip, "x-forwarded-proto": scheme},
        "requestContext": {
            "accountId": signer["accountId"],
            "apiId": "local",
            "authorizer": {"iam": dict(signer)},
            "domainName": host,
            "domainPrefix": host.partition(".")[0],
            "http": http | {"userAgent": sent.headers.get("user-agent", "")},
            "requestId": str(uuid.uuid4()),
            "routeKey": "$default",
            "stage": "$default",
            "time": f"{datetime.fromtimestamp(now_s, UTC):%d/%b/%Y:%H:%M:%S +0000}",
            "timeEpoch": round(now_s * 1000),
        },
        "isBase64Encoded": False,
    }
    if cookies := [each.strip() for each in sent.headers.get("cookie", "").split(";") if each.strip()]:
        event["cookies"] = cookies
    if sent.body:
        is_text = sent.headers.get("content-type", "").lower().startswith(_TEXT) and "content-encoding" not in sent.headers
        event |= {"body": sent.body.decode(errors="replace") if is_text else base64.b64encode(sent.body).decode()}
        event["isBase64Encoded"] = not is_text
    return event


def _sent(request: web.Request, body: bytes) -> SentRequest:
    path, _, query = request.raw_path.partition("?")
    names = dict.fromkeys(name.lower() for name in request.headers)
    headers = {name: ("; " if name == "cookie" else ",").join(request.headers.getall(name)) for name in names}
    return SentRequest(request.method, path, query, headers, body)


def _response(answer: Mapping[str, Any]) -> web.Response:
    body = answer.get("body") or ""
    response = web.Response(
        status=answer["statusCode"], body=base64.b64decode(body) if answer.get("isBase64Encoded") else str(body).encode()
    )
    for name, value in answer.get("headers", {}).items():
        if name.lower() not in _OWN_HEADERS:
            response.headers[name] = str(value)
    for cookie in answer.get("cookies", ()):
        response.headers.add("Set-Cookie", cookie)
    return response


def _as_root(service: str) -> dict[str, str]:
    """Headers by which the emulator finds account, region and service."""
    return {
        "Authorization": f"AWS4-HMAC-SHA256 Credential=test/20260101/{REGION}/{service}/aws4_request, SignedHeaders=host, Signature=0"
    }


def _too_large() -> web.Response:
    return _error(413, f"Request must be smaller than {LAMBDA_LIMIT_BYTES} bytes for the InvokeFunction operation", "")


def _error(status: int, message: str, kind: str) -> web.Response:
    return web.json_response({"Message": message}, status=status, headers={"x-amzn-ErrorType": kind} if kind else None)

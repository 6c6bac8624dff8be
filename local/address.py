"""HTTP server for ``http://127.0.0.1:PORT/api/…`` in front of the emulated API Gateway.

It forwards requests and responses unchanged and adds what AWS's gateway does and the emulator does not: the function gets the path
as the client sent it, compressed bodies are decompressed (``minimum_compression_size``), the payload limits of the gateway and of
Lambda are enforced, and a crashed function is answered with the error envelope of the template's gateway responses.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from io import BytesIO

from aiohttp import ClientError, ClientSession, ClientTimeout, DummyCookieJar, TCPConnector, web
from multidict import CIMultiDict
from yarl import URL

from chalicelib.errors import BatchTooLargeError, InvalidBatchError
from chalicelib.routes.allowance import gunzip
from local.gateway import STAGE

GATEWAY_LIMIT_BYTES = 10 * 1024 * 1024
MOST_LINE_BYTES = 64 * 1024
"""Limit of a request line; higher than the functions' own limit, so that they answer with the error."""
LAMBDA_LIMIT_BYTES = 6 * 1024 * 1024
# API Gateway's own 29 s end a request before this does.
_TIMEOUT = ClientTimeout(total=60)
_HOP_BY_HOP = frozenset(
    {"connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer", "transfer-encoding", "upgrade"}
)
_REQUEST_DROPS = _HOP_BY_HOP | {"content-length", "expect", "x-forwarded-for", "x-forwarded-proto", "x-forwarded-port"}
_RESPONSE_DROPS = _HOP_BY_HOP | {"content-length", "date", "server"}
_ANYTHING = r"[\s\S]*"  # includes an escaped newline
_BROKEN = frozenset({502, 504})


class Address:
    """Forwards requests below ``/api`` to the stage of one REST API."""

    def __init__(self, endpoint_url: str, rest_api_id: str, binary_types: Sequence[str]) -> None:
        self._target = f"{endpoint_url}/restapis/{rest_api_id}/{STAGE}/_user_request_"
        self._binary_types = frozenset(binary_types)
        self._session: ClientSession | None = None

    def runner(self) -> web.AppRunner:
        """The server, not yet bound to a socket."""
        application = web.Application(client_max_size=GATEWAY_LIMIT_BYTES)
        application.router.add_route("*", f"/{STAGE}", self.forward)
        application.router.add_route("*", f"/{STAGE}/{{path:{_ANYTHING}}}", self.forward)
        application.router.add_route("*", f"/{{path:{_ANYTHING}}}", _no_such_path)
        application.cleanup_ctx.append(self._client)
        return web.AppRunner(
            application,
            access_log=None,
            handler_cancellation=True,
            auto_decompress=False,
            shutdown_timeout=1,
            max_line_size=MOST_LINE_BYTES,
            max_field_size=MOST_LINE_BYTES,
        )

    async def _client(self, _: web.Application) -> AsyncIterator[None]:
        connector = TCPConnector(limit=0)
        async with ClientSession(
            connector=connector,
            cookie_jar=DummyCookieJar(),
            timeout=_TIMEOUT,
            auto_decompress=False,
            skip_auto_headers=("Accept", "Accept-Encoding", "Content-Type", "User-Agent"),
        ) as self._session:
            yield

    async def forward(self, request: web.Request) -> web.StreamResponse:
        """Forward one request and return the response."""
        try:
            body = _unpacked(await request.read(), request.headers.get("Content-Encoding", ""))
        except (web.HTTPRequestEntityTooLarge, BatchTooLargeError):
            return _error(413, "Request Entity Too Large")
        except InvalidBatchError:
            return _error(400, "the body is not what its Content-Encoding says")
        if self._event_bytes(body, request.content_type) > LAMBDA_LIMIT_BYTES:
            return _error(413, "Request Too Long")
        try:
            return await self._passed_on(request, body)
        except (ClientError, TimeoutError):
            return _error(503, "Internal server error")

    async def _passed_on(self, request: web.Request, body: bytes) -> web.Response:
        assert self._session is not None
        upstream = self._session.request(
            request.method,
            self._url(request),
            headers=_forwarded(request),
            data=BytesIO(body) if body else None,
            allow_redirects=False,
        )
        async with upstream as answer:
            content = await answer.read()
        if answer.status in _BROKEN or self._event_bytes(content, answer.content_type) > LAMBDA_LIMIT_BYTES:
            return _error(503, "Internal server error")
        return web.Response(
            status=answer.status, reason=answer.reason, headers=_headers_without(answer.headers, _RESPONSE_DROPS), body=content
        )

    def _url(self, request: web.Request) -> URL:
        """Escapes the path once more: the emulator unescapes a path before it splits and passes it, the gateway does not."""
        path, mark, query = request.raw_path.partition("?")
        escaped = path[len(STAGE) + 1 :].replace("%", "%25")
        return URL(self._target + (escaped or "/") + mark + query, encoded=True)

    def _event_bytes(self, body: bytes, content_type: str) -> int:
        """Estimated size of a body in the JSON of a Lambda event or response."""
        if content_type in self._binary_types:
            return (len(body) + 2) // 3 * 4
        if len(body) * 6 <= LAMBDA_LIMIT_BYTES:  # the longest JSON escape has six characters
            return len(body)
        return len(json.dumps(body.decode("utf-8", "replace"), ensure_ascii=False).encode())


def _unpacked(body: bytes, encoding: str) -> bytes:
    return gunzip(body, GATEWAY_LIMIT_BYTES) if encoding.strip().lower() == "gzip" else body


def _forwarded(request: web.Request) -> CIMultiDict[str]:
    headers = _headers_without(request.headers, _REQUEST_DROPS)
    headers["X-Forwarded-For"] = request.remote or ""
    headers["X-Forwarded-Proto"] = request.scheme
    headers["X-Forwarded-Port"] = str(request.url.port)
    return headers


def _headers_without(headers: Mapping[str, str], drops: frozenset[str]) -> CIMultiDict[str]:
    return CIMultiDict((name, value) for name, value in headers.items() if name.lower() not in drops)


async def _no_such_path(_: web.Request) -> web.Response:
    return _error(404, f"the path must begin with /{STAGE}")


def _error(status: int, message: str) -> web.Response:
    headers = {"Access-Control-Allow-Origin": "*", **({"Retry-After": "1"} if status == 503 else {})}
    return web.json_response({"code": status, "message": message}, status=status, headers=headers)

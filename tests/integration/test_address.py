"""The local stack's address forwards requests unchanged, to a fake emulator that echoes them."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from io import BytesIO

import pytest
from aiohttp import ClientSession, DummyCookieJar, web
from yarl import URL

from local.address import GATEWAY_LIMIT_BYTES, LAMBDA_LIMIT_BYTES, Address
from local.emulator import free_port

BINARY = "application/octet-stream"
ARRIVED = web.AppKey("arrived", asyncio.Condition)
Scene = Callable[[ClientSession, str], Awaitable[None]]


async def echo(request: web.Request) -> web.StreamResponse:
    """Returns the received request in the form that the path names."""
    raw_path = request.raw_path.partition("_user_request_")[2]
    if raw_path.startswith("/status/"):
        return web.json_response({"message": "x"}, status=int(raw_path.removeprefix("/status/")), headers={"Location": "/there"})
    if raw_path.startswith("/bytes/"):
        return web.Response(body=bytes(range(256)) * int(raw_path.removeprefix("/bytes/")), content_type=BINARY)
    if raw_path.startswith("/together/"):
        await _all_arrived(request.app[ARRIVED], int(raw_path.removeprefix("/together/")))
    body = await request.read()
    answer = web.json_response(
        {
            "method": request.method,
            "raw_path": raw_path,
            "headers": [[name.lower(), value] for name, value in request.headers.items()],
            "body": hashlib.sha256(body).hexdigest(),
        }
    )
    answer.headers.add("Set-Cookie", "a=1; Path=/")
    answer.headers.add("Set-Cookie", "PIPELINE_SESSION=2; Path=/; Max-Age=86400")
    return answer


async def _all_arrived(arrived: asyncio.Condition, count: int) -> None:
    """Return once this many requests are here at the same time."""
    async with arrived:
        arrived.waiting = getattr(arrived, "waiting", 0) + 1  # type: ignore[attr-defined]
        arrived.notify_all()
        await arrived.wait_for(lambda: arrived.waiting >= count)  # type: ignore[attr-defined]


def play(scene: Scene) -> None:
    """Run a scenario with a client and the address's URL."""

    async def stage() -> None:
        upstream = web.Application(client_max_size=2 * GATEWAY_LIMIT_BYTES)
        upstream[ARRIVED] = asyncio.Condition()
        upstream.router.add_route("*", "/{path:.*}", echo)
        async with serving(web.AppRunner(upstream, auto_decompress=False)) as emulator:
            address = Address(emulator, "api1", [BINARY])
            async with serving(address.runner()) as url, ClientSession(cookie_jar=DummyCookieJar()) as client:
                await scene(client, f"{url}/api")

    asyncio.run(stage())


@asynccontextmanager
async def serving(runner: web.AppRunner) -> AsyncIterator[str]:
    """A server's address while it runs."""
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        yield f"http://{host}:{port}"
    finally:
        await runner.cleanup()


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
def test_method_path_query_and_headers_arrive(method: str) -> None:
    async def scene(client: ClientSession, url: str) -> None:
        headers = {"Authorization": "Bearer x", "Cookie": "a=b; c=d", "Connection": "keep-alive, x"}
        async with client.request(method, f"{url}/v1/x?a=1&a=%202", headers=headers) as answer:
            said = await answer.json()
        assert (said["method"], said["raw_path"]) == (method, "/v1/x?a=1&a=%202")
        arrived = dict(said["headers"])
        assert (arrived["authorization"], arrived["cookie"]) == ("Bearer x", "a=b; c=d")
        assert url.startswith(f"http://{arrived['host']}/")
        assert (arrived["x-forwarded-for"], arrived["x-forwarded-proto"]) == ("127.0.0.1", "http")

    play(scene)


@pytest.mark.parametrize(
    ("sent", "escaped"),
    [("/a%2Fb", "/a%252Fb"), ("/a%25b/c%20d", "/a%2525b/c%2520d"), ("/x+y", "/x+y"), ("", "/"), ("/a%0Ab", "/a%250Ab")],
)
def test_a_path_survives_the_emulators_unescaping(sent: str, escaped: str) -> None:
    async def scene(client: ClientSession, url: str) -> None:
        async with client.get(URL(url + sent, encoded=True)) as answer:
            assert (await answer.json())["raw_path"] == escaped

    play(scene)


def test_every_cookie_comes_back() -> None:
    async def scene(client: ClientSession, url: str) -> None:
        async with client.get(f"{url}/v1/x") as answer:
            assert answer.headers.getall("Set-Cookie") == ["a=1; Path=/", "PIPELINE_SESSION=2; Path=/; Max-Age=86400"]

    play(scene)


def test_bytes_go_both_ways_unchanged() -> None:
    blob = bytes(range(256)) * 4096

    async def scene(client: ClientSession, url: str) -> None:
        async with client.post(f"{url}/v1/x", data=blob, headers={"Content-Type": BINARY}) as answer:
            assert (await answer.json())["body"] == hashlib.sha256(blob).hexdigest()
        async with client.get(f"{url}/bytes/4096") as answer:
            assert await answer.read() == blob

    play(scene)


@pytest.mark.parametrize("status", [200, 201, 302, 307, 400, 404, 409, 500, 503])
def test_status_and_redirects_are_passed_on(status: int) -> None:
    async def scene(client: ClientSession, url: str) -> None:
        async with client.get(f"{url}/status/{status}", allow_redirects=False) as answer:
            assert (answer.status, answer.headers["Location"]) == (status, "/there")

    play(scene)


@pytest.mark.parametrize("status", [502, 504])
def test_a_function_that_broke_down_is_a_503_with_the_envelope(status: int) -> None:
    async def scene(client: ClientSession, url: str) -> None:
        async with client.get(f"{url}/status/{status}") as answer:
            assert (answer.status, answer.headers["Retry-After"], (await answer.json())["code"]) == (503, "1", 503)

    play(scene)


def test_an_emulator_that_is_gone_is_a_503_with_the_envelope() -> None:
    async def scene() -> None:
        gone = f"http://127.0.0.1:{free_port()}"
        async with (
            serving(Address(gone, "api1", []).runner()) as url,
            ClientSession() as client,
            client.get(f"{url}/api/v1/x") as answer,
        ):
            assert (answer.status, (await answer.json())["code"]) == (503, 503)

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("size", "content_type", "status"),
    [
        (6_000_000, "text/plain", 200),
        (LAMBDA_LIMIT_BYTES + 1, "text/plain", 413),
        (4_500_000, BINARY, 200),
        (LAMBDA_LIMIT_BYTES * 3 // 4 + 1, BINARY, 413),
        (GATEWAY_LIMIT_BYTES + 1, "text/plain", 413),
    ],
)
def test_bodies_over_the_limits_are_refused(size: int, content_type: str, status: int) -> None:
    async def scene(client: ClientSession, url: str) -> None:
        async with client.post(f"{url}/v1/x", data=BytesIO(b"x" * size), headers={"Content-Type": content_type}) as answer:
            assert answer.status == status
            if status != 200:
                assert (await answer.json())["code"] == status

    play(scene)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (gzip.compress(b"hello", mtime=0), 200),
        (gzip.compress(b"hello", mtime=0)[:-9], 400),
        (b"hello", 400),
        (gzip.compress(b"\0" * (GATEWAY_LIMIT_BYTES + 1), mtime=0), 413),
    ],
)
def test_packed_bodies_are_unpacked_as_the_gateway_does(body: bytes, status: int) -> None:
    async def scene(client: ClientSession, url: str) -> None:
        headers = {"Content-Type": "text/plain", "Content-Encoding": "gzip"}
        async with client.post(f"{url}/v1/x", data=body, headers=headers) as answer:
            said = await answer.json()
        assert answer.status == status
        if status == 200:
            assert (said["body"], dict(said["headers"])["content-encoding"]) == (hashlib.sha256(b"hello").hexdigest(), "gzip")
        else:
            assert said["code"] == status

    play(scene)


def test_requests_do_not_wait_for_each_other() -> None:
    async def scene(client: ClientSession, url: str) -> None:
        async def one() -> int:
            async with client.get(f"{url}/together/20") as answer:
                return answer.status

        assert await asyncio.gather(*(one() for _ in range(20))) == [200] * 20, "no response before all requests have arrived"

    play(scene)


def test_other_paths_are_not_there() -> None:
    async def scene(client: ClientSession, url: str) -> None:
        async with client.get(url.removesuffix("/api") + "/apis/v1") as answer:
            assert (answer.status, (await answer.json())["code"]) == (404, 404)

    play(scene)

"""The store of the soak test: an S3 emulator with objects on disk, behind an address that injects failures.

The stack's functions reach their buckets through that address (the template's ``AwsEndpointUrl``). It answers 503 without
forwarding a request, or forwards it and drops the response, so that the store applied it without an acknowledgement. The emulator
is killed without notice and restarted from its disk.
"""

from __future__ import annotations

import random
import shutil
from collections import Counter
from io import BytesIO
from pathlib import Path
from typing import Any

import boto3
from aiohttp import ClientError, ClientSession, ClientTimeout, DummyCookieJar, TCPConnector, web
from botocore.config import Config
from yarl import URL

from local.emulator import CREDENTIALS, LOOPBACK, REGION, Emulator, free_port

_SIDECAR = ".meta.json"
_TIMEOUT = ClientTimeout(total=60)
_DROPS = frozenset({"connection", "keep-alive", "transfer-encoding", "content-length", "date", "server", "expect"})
_BUSY = b'<?xml version="1.0" encoding="UTF-8"?><Error><Code>SlowDown</Code><Message>injected</Message></Error>'


class Store:
    """Successive emulators on the same port and disk."""

    def __init__(self, folder: Path) -> None:
        self.port, self._folder = free_port(), folder
        self.endpoint_url = f"http://{LOOPBACK}:{self.port}"
        self._emulator = self._started()

    def _started(self) -> Emulator:
        settings = {"S3_PERSIST": "1", "S3_DATA_DIR": str(self._folder / "s3")}
        emulator = Emulator(self.port, self._folder / "scratch", self._folder / "emulator.log", settings)
        emulator.wait_until_healthy()
        return emulator

    def make_buckets(self, *names: str) -> None:
        """Create buckets with the stack's names."""
        config = Config(s3={"addressing_style": "path"})
        client: Any = boto3.client("s3", endpoint_url=self.endpoint_url, region_name=REGION, config=config, **CREDENTIALS)
        try:
            for name in names:
                client.create_bucket(Bucket=name)
        finally:
            client.close()

    def kill_and_restart(self) -> int:
        """SIGKILL, then a new emulator on the same disk. Deletes half-written objects and returns their number: bytes without
        metadata, whose writers got no response. S3 has no such objects."""
        self._emulator.kill()
        halves = [path for path in (self._folder / "s3").rglob("*") if path.is_file() and not _is_complete(path)]
        for path in halves:
            path.unlink()
        self._emulator = self._started()
        return len(halves)

    def stop(self) -> None:
        """Stop it and delete its objects."""
        self._emulator.stop()
        shutil.rmtree(self._folder / "s3", ignore_errors=True)


def _is_complete(path: Path) -> bool:
    return path.name.endswith(_SIDECAR) or path.with_name(path.name + _SIDECAR).exists()


class FaultyAddress:
    """Forwards requests to a store; a share fails, half of them before forwarding and half after the store's response."""

    def __init__(self, target: str, share: float, seed: int) -> None:
        self.port, self.injected, self.requests = free_port(), Counter[str](), 0
        self.endpoint_url = f"http://{LOOPBACK}:{self.port}"
        self._target, self.share, self._chance = target, share, random.Random(seed)
        self._session: ClientSession | None = None
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        """Listen."""
        self._session = ClientSession(
            connector=TCPConnector(limit=0), cookie_jar=DummyCookieJar(), timeout=_TIMEOUT, auto_decompress=False
        )
        application = web.Application(client_max_size=1 << 30)
        application.router.add_route("*", "/{path:.*}", self._forward)
        self._runner = web.AppRunner(application, access_log=None, auto_decompress=False, shutdown_timeout=1)
        await self._runner.setup()
        await web.TCPSite(self._runner, LOOPBACK, self.port).start()

    async def stop(self) -> None:
        """Close everything."""
        if self._runner:
            await self._runner.cleanup()
        if self._session:
            await self._session.close()

    async def _forward(self, request: web.Request) -> web.StreamResponse:
        self.requests += self.share > 0  # no failures during the check
        draw = self._chance.random()
        if draw < self.share / 2:
            self.injected["refused"] += 1
            return web.Response(status=503, body=_BUSY, content_type="application/xml")
        try:
            answer = await self._passed_on(request)
        except (TimeoutError, ClientError, OSError):
            self.injected["store was away"] += 1
            return _cut(request)
        if draw < self.share:
            self.injected["answer dropped"] += 1
            return _cut(request)
        return answer

    async def _passed_on(self, request: web.Request) -> web.Response:
        assert self._session
        body = await request.read()
        headers = [(name, value) for name, value in request.headers.items() if name.lower() not in _DROPS]
        url = URL(self._target + request.raw_path, encoded=True)
        data = BytesIO(body) if body else None
        async with self._session.request(request.method, url, headers=headers, data=data, allow_redirects=False) as answer:
            content = await answer.read()
            kept = [(name, value) for name, value in answer.headers.items() if name.lower() not in _DROPS]
            if request.method == "HEAD" and "Content-Length" in answer.headers:
                kept.append(("Content-Length", answer.headers["Content-Length"]))
        response = web.Response(status=answer.status, body=content if request.method != "HEAD" else None)
        response.headers.clear()
        response.headers.extend(kept)
        return response


def _cut(request: web.Request) -> web.Response:
    """Closes the connection without a response."""
    if request.transport:
        request.transport.abort()
    return web.Response(status=503)

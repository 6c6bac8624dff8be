"""The process behind ``make up``: starts the emulator, deploys, serves the stack's address, and shuts everything down when it ends,
even during the start."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import urllib.request
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from aiohttp import web

from local.address import Address
from local.deploy import deploy
from local.emulator import LOOPBACK, Emulator, choose_port
from local.gateway import STAGE
from local.job_url import JobUrl
from local.state import LocalError, StackFolder, prune

# API workers that start with the stack: a cold start takes about a second of one core.
_WARM_WORKERS = 2
_WATCH_EVERY_S = 1.0
JOB_URL_OFFSET = 20_000
"""From the stack's port to that of the local function URL."""
_STOPS = (signal.SIGTERM, signal.SIGINT)


def serve(port: int, parameters: Mapping[str, str], *, private: bool) -> None:
    """Run one stack until SIGTERM or SIGINT. Raises LocalError if it cannot start, KeyboardInterrupt if it is stopped before it
    serves; nothing is left running then."""
    prune()
    folder = StackFolder(port)
    with folder.acquire(private=private), _listen(port) as listener:
        signals = StopSignals()
        emulator = Emulator(choose_port(port), folder.scratch, folder.emulator_log)
        try:
            signals.release()
            emulator.wait_until_healthy()
            description = deploy(emulator.endpoint_url, parameters) | {"private": private}
            asyncio.run(_serve(listener, folder, emulator, description))
        finally:
            signals.hold()
            folder.withdraw()
            emulator.stop()
            shutil.rmtree(folder.scratch, ignore_errors=True)


class StopSignals:
    """SIGTERM and SIGINT raise KeyboardInterrupt, deferred while held, so that an emulator that is being started or stopped is not
    left running. Held initially."""

    def __init__(self) -> None:
        self._has_come = False
        self.hold()

    def hold(self) -> None:
        """Defer signals."""
        self._is_holding = True
        for number in _STOPS:
            signal.signal(number, self._take)

    def release(self) -> None:
        """Stop deferring. Raises KeyboardInterrupt if a signal arrived meanwhile."""
        self._is_holding = False
        if self._has_come:
            raise KeyboardInterrupt

    def _take(self, *_: object) -> None:
        self._has_come = True
        if not self._is_holding:
            raise KeyboardInterrupt


def _listen(port: int) -> socket.socket:
    """Bind the port before anything is started."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((LOOPBACK, port))
    except OSError:
        raise LocalError(f"the port is in use, choose another with PORT=…: port={port}") from None
    return listener


async def _serve(listener: socket.socket, folder: StackFolder, emulator: Emulator, description: dict[str, Any]) -> None:
    stop = asyncio.Event()
    for number in _STOPS:
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    address = Address(emulator.endpoint_url, description["rest_api_id"], description["binary_types"])
    servers = [(address.runner(), listener)]
    urls = {"api_url": f"http://{LOOPBACK}:{folder.port}/{STAGE}"}
    if function := description["functions"].get("job_api"):
        port = choose_port(folder.port, JOB_URL_OFFSET)
        servers.append((JobUrl(emulator.endpoint_url, function).runner(), _listen(port)))
        urls["job_url"] = f"http://{LOOPBACK}:{port}/{STAGE}"
    try:
        for runner, bound in servers:
            await runner.setup()
            await web.SockSite(runner, bound).start()
        await asyncio.to_thread(_warm_up, urls["api_url"])
        pids = {"pid": os.getpid(), "emulator_pid": emulator.pid, "port": folder.port, "emulator_port": emulator.port}
        folder.publish({**urls, **description, **pids})
        await _watch(stop, emulator)
    finally:
        for runner, _ in servers:
            await runner.cleanup()


def _warm_up(api_url: str) -> None:
    """Make the API answer before the first client does: concurrent first calls start a worker each."""
    with ThreadPoolExecutor(_WARM_WORKERS) as threads:
        for _ in threads.map(lambda _: urllib.request.urlopen(f"{api_url}/v1/health", timeout=60).close(), range(_WARM_WORKERS)):
            pass


async def _watch(stop: asyncio.Event, emulator: Emulator) -> None:
    while not stop.is_set():
        if emulator.has_ended():
            raise LocalError("the emulator ended unexpectedly, see emulator.log")
        try:
            await asyncio.wait_for(stop.wait(), _WATCH_EVERY_S)
        except TimeoutError:
            continue

"""Debian's Chromium and a fake server for it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.browser.fake import FakeRun, FakeServer
from tests.functional.gateway import installed
from tests.prerequisites import BROWSER, require
from tests.world import World

_INSTALLED = (Path("/usr/bin/chromium-headless-shell"), Path("/usr/bin/chromium"))
"""The first has the same engine without windows and takes half the processor time; ``make browser`` installs it."""
_PATIENCE_MS = 60_000

expect.set_options(timeout=_PATIENCE_MS)


def chromium() -> str:
    """Path of the browser: the environment variable ``CHROMIUM``, otherwise the first installed one."""
    installed_paths = (str(path) for path in _INSTALLED if path.exists())
    return os.environ.get("CHROMIUM") or next(installed_paths, str(_INSTALLED[0]))


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Module scope: a running Playwright has an event loop in this thread, where no other test can run one."""
    require(BROWSER)
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(
            executable_path=chromium(), args=["--no-sandbox", "--disable-gpu", "--enable-precise-memory-info"]
        )
        yield launched
        launched.close()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    made = browser.new_context(viewport={"width": 1280, "height": 800}, locale="en-US", timezone_id="UTC", color_scheme="light")
    made.set_default_timeout(_PATIENCE_MS)
    yield made
    made.close()


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    """A page that fails the test on unexpected errors: failed scripts, violations of the policy."""
    opened = context.new_page()
    wrong: list[str] = []
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    opened.on("console", lambda message: wrong.append(message.text) if "Content Security Policy" in message.text else None)
    opened.on("dialog", lambda dialog: wrong.append(f"a dialog: {dialog.message}"))
    yield opened
    assert wrong == []


@pytest.fixture
def serve() -> Iterator[Callable[..., FakeServer]]:
    """Start a server with these runs by pipeline."""
    started: list[FakeServer] = []

    def start(runs: dict[str, list[FakeRun]], token: str = "", auth: str = "none") -> FakeServer:
        server = FakeServer(runs, token, auth)
        server.start()
        started.append(server)
        return server

    with installed(World()):
        yield start
        for server in started:
            if not server.is_gone:
                server.stop()

"""Logins at a real OpenID provider (oidc-provider 9 on Node): on the page, in the browser of the command line, and on another device."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import pytest
from playwright.sync_api import Page, expect

from chalicelib import composition
from chalicelib.access.authenticators import Credentials
from chalicelib.access.grants import Scope
from chalicelib.access.stale_if_error_cache import MIN_READ_INTERVAL_MS
from chalicelib.errors import UnauthenticatedError
from client.tests.fake_server import fake_server
from local.emulator import free_port
from tests.browser.fake import FakeRun, FakeServer
from tests.browser.test_login import log_in, set_end
from tests.browser.test_viewer import FQN, RUN, address
from tests.docs.test_identities_page import RECIPES, settings_of, shown, statuses_of
from tests.functional.gateway import call, installed
from tests.integration.stacks import PATIENCE_S
from tests.prerequisites import OIDC, PROJECT, require
from tests.world import World

pytestmark = pytest.mark.thorough

_LOGIN = {
    "client_id": "page", "cli_client_id": "cli", "scopes": "openid offline_access logs:read",
    "parameters": {"resource": "urn:runlake", "prompt": "consent"},
}  # fmt: skip


class Provider:
    """``page``: where the page is. ``claims``: of access tokens, in place of its own; None for none."""

    def __init__(self, page: str, claims: dict[str, Any] | None = None) -> None:
        self.port, self.page, self.world, self._claims = free_port(), page, World(), claims or {}
        self._process: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """With new keys, and no memory of earlier logins."""
        command = ["node", "provider.mjs", str(self.port), self.page, json.dumps(self._claims)]
        folder = PROJECT / "tests" / "oidc"
        self._process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self._process.stdout and "listening" in self._process.stdout.readline()

    def token(self) -> str:
        """A token for a program with a secret."""
        form = urlencode({"grant_type": "client_credentials", "resource": "urn:runlake"}).encode()
        secret = b64encode(b"bot:of%20a%20test").decode()
        with urlopen(Request(f"{self.url}/token", form, {"Authorization": f"Basic {secret}"}), timeout=PATIENCE_S) as answer:
            return str(json.load(answer)["access_token"])

    def keys(self) -> bytes:
        """The document of its keys."""
        with urlopen(f"{self.url}/jwks", timeout=PATIENCE_S) as answer:
            return bytes(answer.read())

    def stop(self) -> None:
        assert self._process and self._process.stdout
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()


@pytest.fixture
def server() -> Iterator[FakeServer]:
    """The page; the API checks each token with the provider's keys."""
    server = FakeServer({FQN: [FakeRun(RUN, ["one", "two", "three"])]})
    server.start()
    yield server
    server.stop()


@pytest.fixture
def provider(server: FakeServer) -> Iterator[Provider]:
    require(OIDC)
    provider = Provider(server.url)
    trust: dict[str, Any] = {"auth": "jwt", "jwt_issuer": provider.url, "jwt_audience": "runlake", "jwt_claim": "scope"}
    trust |= {"jwt_jwks_url": f"{provider.url}/jwks", "login": json.dumps(_LOGIN)}
    with installed(World(), keys=provider.keys, **trust) as world:
        server.config, server.accepts = call("GET", "/v1/ui/config").json, is_accepted
        provider.world = world
        provider.start()
        yield provider
        provider.stop()


def is_accepted(authorization: str | None) -> bool:
    with suppress(UnauthenticatedError):
        return composition.services().authenticator.authenticate(Credentials(authorization or "")).may(Scope.LOGS_READ, FQN)
    return False


def consent(page: Page) -> None:
    """The provider's own pages."""
    page.get_by_placeholder("Enter any login").fill("ann")
    page.get_by_placeholder("and password").fill("x")
    page.get_by_role("button", name="Sign-in").click()
    page.get_by_role("button", name="Continue").click()


def kept(page: Page) -> dict[str, Any]:
    return dict(page.evaluate("JSON.parse(sessionStorage['runlake.login'])"))


@pytest.mark.behavior("The page and the command line log in at an independent OpenID provider.")
def test_page_logs_in_renews_and_logs_out_also_with_new_keys(page: Page, server: FakeServer, provider: Provider) -> None:
    deep_link = f"{address(server)}&q=two#L3"
    page.goto(deep_link)
    log_in(page)
    consent(page)
    expect(page.locator(".row").last).to_contain_text("three")
    assert page.url == deep_link
    first = kept(page)["refreshToken"]
    set_end(page, -1_000)
    page.reload()
    expect(page.locator(".row").last).to_contain_text("three")
    assert first and kept(page)["refreshToken"] not in (None, first), "rotated"
    provider.stop()
    provider.start()
    provider.world.clock.advance(MIN_READ_INTERVAL_MS / 1000)
    set_end(page, -1_000)
    page.reload()
    log_in(page)
    consent(page)
    expect(page.locator(".row").last).to_contain_text("three")
    page.get_by_role("button", name="Sign out").click()
    page.get_by_role("button", name="Yes, sign me out").click()
    expect(page.get_by_role("dialog")).to_contain_text("Log in to read logs")
    assert page.url == server.url and page.evaluate("sessionStorage.length") == 0


@pytest.fixture
def command(server: FakeServer, provider: Provider, tmp_path: Path) -> Iterator[Command]:
    with fake_server() as api:
        api.login, api.accepts = server.config["login"], is_accepted
        yield Command(api.url, tmp_path)


class Command:
    """``runlake`` in processes of their own."""

    def __init__(self, url: str, folder: Path) -> None:
        (folder / "config.toml").write_text(f'url = "{url}"\n')
        self._folder = folder
        hidden = {"RUNLAKE_CONFIG": str(folder / "config.toml"), "PYTHONPATH": str(PROJECT / "client" / "src")}
        self._environment = {name: value for name, value in os.environ.items() if "DISPLAY" not in name} | hidden

    @contextmanager
    def started(self, *arguments: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
        given = [sys.executable, "-m", "runlake", *arguments]
        with subprocess.Popen(
            given, env=self._environment | environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    def called(self, *arguments: str) -> tuple[int, str]:
        with self.started(*arguments) as process:
            out, err = process.communicate(timeout=120)
        return process.returncode, out + err

    def expire(self) -> str:
        """Have the login's access token end. Returns its refresh token."""
        (path,) = (self._folder / "logins").glob("*.json")
        login = json.loads(path.read_text())
        path.write_text(json.dumps(login | {"tokens": login["tokens"] | {"ends_s": 1.0}}))
        return str(login["tokens"]["refresh_token"])


def test_command_logs_in_on_another_device_renews_and_logs_out(page: Page, command: Command) -> None:
    with command.started("login") as process:
        assert process.stdout
        line = process.stdout.readline()
        where = re.fullmatch(r"Open (\S+) on any device, and enter the code (\S+)\n", line)
        assert where, line
        page.goto(where[1])
        page.locator("input[name=user_code]").fill(where[2])
        page.get_by_role("button", name="Continue").click()
        expect(page.locator("body")).to_contain_text(where[2])
        page.get_by_role("button", name="Continue").click()
        consent(page)
        expect(page.locator("body")).to_contain_text("Sign-in Success")
        assert process.wait(120) == 0
    code, shown = command.called("whoami")
    assert code == 0 and "accepted\tyes" in shown and "subject\tann" in shown
    first = command.expire()
    assert command.called("whoami")[0] == 0
    assert command.expire() != first, "rotated"
    assert command.called("logout")[0] == 0
    assert command.called("whoami")[0] == 2


def test_command_logs_in_in_the_browser(page: Page, command: Command) -> None:
    with command.started("login", BROWSER="true") as process:
        assert process.stdout
        page.goto(process.stdout.readline().strip())
        consent(page)
        expect(page.locator("body")).to_contain_text("You can close this page")
        assert process.wait(120) == 0
    assert command.called("whoami")[0] == 0


@pytest.mark.behavior(
    "Tokens with the claims of each recipe's vendor, signed by an independent OpenID provider, may do what the recipe says."
)
@pytest.mark.parametrize("recipe", RECIPES)
def test_token_with_the_claims_of_a_recipe(recipe: str) -> None:
    require(OIDC)
    parameters, claims = shown(recipe, "JwtIssuer"), {"aud": None} | shown(recipe, "iss")
    policy = json.dumps(shown(recipe if recipe == "Identity Center" else "Recipes for people", "principals"))
    provider = Provider("http://127.0.0.1/", claims)
    provider.start()
    try:
        with installed(World(), keys=provider.keys, policy=lambda: policy, **settings_of(parameters)):
            assert statuses_of(provider.token()) == (200, 403)
    finally:
        provider.stop()

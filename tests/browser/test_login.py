"""Logins on the page with OpenID Connect: from a deep link and back, renewed tokens, hostile answers, an issuer that is away, log out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from chalicelib import composition
from chalicelib.access.authenticators import Credentials
from chalicelib.access.grants import Scope
from chalicelib.errors import UnauthenticatedError
from tests.browser.fake import FakeRun, FakeServer
from tests.browser.test_viewer import FQN, RUN, address
from tests.browser.test_viewer_for_everybody import violations
from tests.functional.gateway import call, installed
from tests.openid import OpenId
from tests.world import World

Serve = Callable[..., FakeServer]
KEPT = "JSON.stringify({...sessionStorage})"


@pytest.fixture
def openid() -> Iterator[OpenId]:
    with OpenId().running() as provider:
        yield provider


@pytest.fixture
def server(serve: Serve, openid: OpenId) -> Iterator[FakeServer]:
    """The page and its policy come from the API, which also checks each token."""
    with installed(World(), keys=openid.issuer.read, **openid.settings):
        started = serve({FQN: [FakeRun(RUN, ["one", "two", "three"])]})
        started.config = call("GET", "/v1/ui/config").json
        started.accepts = is_accepted
        yield started


def is_accepted(authorization: str | None) -> bool:
    with suppress(UnauthenticatedError):
        return composition.services().authenticator.authenticate(Credentials(authorization or "")).may(Scope.LOGS_READ, FQN)
    return False


def log_in(page: Page) -> None:
    page.get_by_role("button", name="Log in at 127.0.0.1").click()


def set_end(page: Page, after_ms: int) -> None:
    """Have the page believe that its token ends then."""
    code = "(ms) => { const login = JSON.parse(sessionStorage[KEY]); sessionStorage[KEY] = JSON.stringify({...login, endsMs: Date.now() + ms}); }"
    page.evaluate(code.replace("KEY", "'runlake.login'"), after_ms)


@pytest.mark.behavior("A person logs in on the page and returns to the link that was opened; no token is in an address.")
def test_login_from_a_deep_link_renewal_and_log_out(page: Page, server: FakeServer, openid: OpenId) -> None:
    visited: list[str] = []
    page.on("request", lambda request: visited.append(request.url))
    deep_link = f"{address(server)}&q=two&regex=1#L3"
    page.goto(deep_link)
    expect(page.get_by_role("button", name="Log in at 127.0.0.1")).to_be_focused()
    assert violations(page) == []
    log_in(page)
    expect(page.locator(".row").last).to_contain_text("three")
    assert page.url == deep_link
    (asked,) = openid.requests("/authorize")
    assert asked | {"client_id": "page", "scope": "openid logs:read", "resource": "urn:runlake"} == asked
    assert len(asked["state"]) >= 32 and len(asked["nonce"]) >= 32 and asked["redirect_uri"] == server.url
    assert "token-2" not in str(visited) and page.evaluate("history.length") <= 4
    page.reload()
    expect(page.locator(".row").last).to_contain_text("three")
    assert [each["grant_type"] for each in openid.requests("/token")] == ["authorization_code"]
    set_end(page, -1_000)
    page.reload()
    expect(page.locator(".row").last).to_contain_text("three")
    renewals = openid.requests("/token")[1:]
    assert [(each["grant_type"], each["resource"]) for each in renewals] == [("refresh_token", "urn:runlake")]
    page.evaluate("sessionStorage.setItem('runlake.token', 'refused')")
    page.reload()
    expect(page.locator(".row").last).to_contain_text("three")
    assert len(openid.requests("/token")) == 3
    tokens = page.evaluate("[sessionStorage['runlake.token'], JSON.parse(sessionStorage['runlake.login']).refreshToken]")
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("dialog")).to_contain_text("Log in to read logs")
    (ended,) = openid.requests("/logout")
    assert ended == {"client_id": "page", "post_logout_redirect_uri": server.url, "logout_uri": server.url}
    assert [each["token"] for each in openid.requests("/revoke")] == tokens[1:]
    assert page.evaluate(KEPT) == "{}"
    assert not any(token in url for token in tokens for url in visited)


HOSTILE: dict[str, tuple[dict[str, dict[str, Any]], str]] = {
    "state": ({"redirect": {"state": "other"}}, '"state"'),
    "answer of another issuer, mix-up": ({"redirect": {"iss": "https://evil.test"}}, '"iss"'),
    "metadata of another issuer": ({"metadata": {"issuer": "https://evil.test"}}, "not valid"),
    "a token in the address": ({"redirect": {"id_token": "a.b.c"}}, "not valid"),
    "nonce": ({"claims": {"nonce": "other"}}, '"nonce"'),
    "ID token for another client": ({"claims": {"aud": "other"}}, '"aud"'),
    "expired ID token": ({"claims": {"exp": 1}}, '"exp"'),
    "ID token signed in another way": ({"metadata": {"id_token_signing_alg_values_supported": ["RS256"]}}, '"alg"'),
    "no ID token": ({"answer": {"id_token": None}}, '"id_token"'),
    "refused": ({"redirect": {"code": None, "error": "access_denied", "error_description": "<b>no"}}, "refused the login: <b>no"),
}  # fmt: skip


def test_hostile_answers_log_nobody_in_and_lead_nowhere_else(page: Page, server: FakeServer, openid: OpenId) -> None:
    page.goto(address(server))
    for name, (merged, expected) in HOSTILE.items():
        for part in ("redirect", "metadata", "claims", "answer"):
            setattr(openid, part, {})
        button = page.get_by_role("button", name="Log in at 127.0.0.1")
        expect(button).to_be_enabled()
        page.evaluate("document.querySelector('#token-reason').textContent = 'of an earlier case'")
        for part, values in merged.items():
            setattr(openid, part, values)
        leaves = "issuer" not in merged.get("metadata", {})
        with page.expect_event("framenavigated", lambda frame: frame.url.startswith(server.url)) if leaves else nullcontext():
            button.click()
        expect(page.get_by_role("dialog"), name).to_contain_text(expected)
        assert page.url in (address(server), server.url), name
        assert "runlake.token" not in page.evaluate(KEPT), name


def test_answer_to_no_login_of_the_tab_is_refused(page: Page, server: FakeServer, openid: OpenId) -> None:
    page.goto(f"{server.url}?code=stolen&state=x&p=https://evil.test/#L1")
    expect(page.get_by_role("dialog")).to_contain_text("belongs to no login")
    assert page.url == server.url and openid.requests("/token") == []


def test_issuer_that_is_away_is_named_and_tokens_that_hold_are_used(page: Page, server: FakeServer, openid: OpenId) -> None:
    openid.is_away = True
    page.goto(address(server))
    log_in(page)
    expect(page.get_by_role("dialog")).to_contain_text("does not respond. Try again later")
    openid.is_away = False
    log_in(page)
    expect(page.locator(".row").last).to_contain_text("three")
    openid.is_away = True
    set_end(page, 20_000)
    page.reload()
    expect(page.locator(".row").last).to_contain_text("three")
    set_end(page, -1_000)
    page.reload()
    expect(page.get_by_role("alert")).to_contain_text(re.compile("The login server does not respond.*127.0.0.1"))


def test_login_that_ended_is_asked_for_again_and_a_token_is_still_a_way(page: Page, server: FakeServer, openid: OpenId) -> None:
    page.goto(address(server))
    log_in(page)
    expect(page.locator(".row").last).to_contain_text("three")
    openid.refusals = ["invalid_grant"]
    page.evaluate("sessionStorage.setItem('runlake.token', 'refused')")
    page.reload()
    expect(page.get_by_role("dialog")).to_contain_text("Log in to read logs")
    assert page.evaluate(KEPT) == "{}"
    page.get_by_text("Use a token").click()
    page.get_by_label("Token", exact=True).fill(openid.issuer.token(iss=openid.url, scope="logs:read"))
    page.keyboard.press("Enter")
    expect(page.locator(".row").last).to_contain_text("three")

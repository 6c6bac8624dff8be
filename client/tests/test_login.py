"""Logins on the command line: in a browser of the machine, on another device, renewed by many processes, against hostile answers."""

from __future__ import annotations

import errno
import json
import logging
import os
import re
import socket
import threading
import time
import webbrowser
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode, urlsplit
from urllib.request import Request, urlopen

import pytest
from click.testing import CliRunner, Result

from client.tests.fake_server import FakeServer
from runlake import Pace, RunlogHandler
from runlake.__main__ import runlake
from runlake.archive import Archive
from runlake.commands import login as commands
from runlake.errors import AccessError, SettingsError, UnavailableError
from runlake.loopback import Loopback
from runlake.openid import Attempt, DeviceCode, Tokens
from runlake.settings import Settings, load_settings
from tests.openid import OpenId


@pytest.fixture
def openid() -> Iterator[OpenId]:
    with OpenId().running() as provider:
        yield provider


@pytest.fixture
def place(openid: OpenId, server: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of logins. The server accepts only the newest access token; the browser answers by itself."""
    (tmp_path / "config.toml").write_text(f'url = "{server.url}"\n[profiles.other]\n')
    for name, value in {"RUNLAKE_CONFIG": str(tmp_path / "config.toml"), "BROWSER": "a", "XDG_CONFIG_HOME": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    login = {"issuer": openid.url, "clientId": "page", "cliClientId": "cli", "cliRedirect": "http://127.0.0.1/callback"}
    server.login = {**login, "scopes": "openid logs:read", "parameters": {"resource": "urn:runlake"}}
    server.accepts = lambda sent: bool(openid.issued) and sent == f"Bearer {openid.issued[-1]}"
    monkeypatch.setattr(webbrowser, "open", visit)
    return tmp_path / "logins"


def visit(address: str) -> bool:
    def follow() -> None:
        with suppress(HTTPError), urlopen(address, timeout=10) as page:
            page.read()

    threading.Thread(target=follow, daemon=True).start()
    return True


def call(*arguments: str) -> Result:
    return CliRunner().invoke(runlake, arguments)


def stored(place: Path) -> dict[str, Any]:
    (path,) = place.glob("*.json")
    return dict(json.loads(path.read_text()))


def alter(place: Path, issued_s: float = 0, **tokens: Any) -> None:
    """Change what the only login has."""
    (path,) = place.glob("*.json")
    login = stored(place)
    path.write_text(json.dumps(login | {"issued_s": issued_s, "tokens": login["tokens"] | tokens}))


@pytest.mark.behavior("`runlake login` stores a login for its owner alone, which all commands of the profile use and renew.")
def test_login_in_the_browser_is_used_renewed_and_forgotten(place: Path, openid: OpenId, server: FakeServer) -> None:
    server.add("p", "r", b"one\n")
    result = call("login")
    assert result.exit_code == 0 and f"as ann@example.com for {server.url}" in result.stderr
    (asked,) = openid.requests("/authorize")
    assert {"client_id": "cli", "scope": "openid logs:read", "resource": "urn:runlake"}.items() <= asked.items()
    (path,) = place.glob("*.json")
    assert (path.stat().st_mode & 0o777, place.stat().st_mode & 0o777) == (0o600, 0o700)
    assert call("cat", "p", "r").output == "one\n"
    shown = json.loads(call("whoami", "--json").stdout)
    assert (shown["person"], shown["subject"], shown["accepted"], shown["renewed"]) == ("ann@example.com", "ann", "yes", "yes")
    alter(place, ends_s=1.0)
    ended = stored(place)["tokens"]["access_token"]
    assert call("whoami", "--token").stdout.strip() == stored(place)["tokens"]["access_token"] != ended
    alter(place, ends_s=1.0)
    assert call("cat", "p", "r").output == "one\n", "renewed before it ends"
    openid.tokens({"grant_type": "refresh_token", "refresh_token": stored(place)["tokens"]["refresh_token"], "client_id": "cli"})
    alter(place, refresh_token=next(iter(openid._refresh_tokens)))
    assert call("cat", "p", "r").output == "one\n", "renewed since the server refuses it"
    secret = stored(place)["tokens"]
    result = call("logout")
    assert [each["token"] for each in openid.requests("/revoke")] == [secret["refresh_token"]]
    assert result.exit_code == 0 and not list(place.glob("*.json"))
    for refused in (call("whoami"), call("whoami", "--token")):
        assert (refused.exit_code, refused.stdout) == (2, "") and "next: log in with `runlake login`" in refused.stderr
    assert call("logout").stderr == f"runlake: nobody was logged in for {server.url}\n"
    assert not any(each["token"] in result.output for each in openid.requests("/revoke"))


HOSTILE: dict[str, tuple[dict[str, Any], str]] = {
    "state": ({"redirect": {"state": "other"}}, "nobody logged in within"),
    "no state": ({"redirect": {"state": None}}, "nobody logged in within"),
    "answer of another issuer, mix-up": ({"redirect": {"iss": "https://evil.test"}}, "of another issuer"),
    "no iss although announced": ({"redirect": {"iss": None}}, "of another issuer"),
    "metadata of another issuer": ({"metadata": {"issuer": "https://evil.test"}}, "metadata is of another issuer"),
    "plain endpoint": ({"metadata": {"token_endpoint": "http://evil.test/token"}}, "not be private"),
    "endpoint that is a file": ({"metadata": {"authorization_endpoint": "file:///etc/passwd"}}, "not be private"),
    "no endpoint": ({"metadata": {"token_endpoint": None}}, "lacks token_endpoint"),
    "refused": ({"redirect": {"code": None, "error": "access_denied", "error_description": "no\x1b[31m"}}, "refused: no"),
    "another verifier's code": ({"redirect": {"code": "code-0"}}, "refused: invalid_grant"),
    "nonce": ({"claims": {"nonce": "other"}}, "(nonce)"),
    "no nonce": ({"claims": {"nonce": None}}, "(nonce)"),
    "ID token for another client": ({"claims": {"aud": "page"}}, "(audience)"),
    "ID token for several by another": ({"claims": {"aud": ["cli", "page"], "azp": "page"}}, "(party)"),
    "ID token of another issuer": ({"claims": {"iss": "https://evil.test"}}, "(issuer)"),
    "expired ID token": ({"claims": {"exp": 1}}, "(end)"),
    "no ID token": ({"answer": {"id_token": None}}, "ID token (algorithm"),
    "ID token without a signature": ({"answer": {"id_token": "eyJhbGciOiJub25lIn0.e30."}}, "ID token (algorithm"),
    "ID token of other things": ({"answer": {"id_token": "W10.NQ.x"}}, "ID token (algorithm"),
    "token of another kind": ({"answer": {"token_type": "mac"}}, "valid access token"),
    "token that is no text": ({"answer": {"access_token": {"a": 1}}}, "valid access token"),
    "end that is no number": ({"answer": {"expires_in": "soon"}}, "valid end of the access token"),
    "end that is no time": ({"answer": {"expires_in": float("nan")}}, "valid end of the access token"),
    "no end": ({"answer": {"expires_in": float("inf")}}, "valid end of the access token"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_answer_logs_nobody_in(name: str, place: Path, openid: OpenId, monkeypatch: pytest.MonkeyPatch) -> None:
    merged, expected = HOSTILE[name]
    if "state" in merged.get("redirect", {}):
        monkeypatch.setattr(commands, "_WAIT_S", 0.2)
    for part, values in merged.items():
        setattr(openid, part, values)
    result = call("login")
    assert result.exit_code == 2 and expected in result.stderr and "\nnext: " in result.stderr and "\x1b" not in result.output
    assert not list(place.glob("*.json"))


@pytest.mark.parametrize(
    ("refusals", "waits", "said"),
    [
        ([], [5.0], ""),
        (["authorization_pending", "slow_down", "authorization_pending", ""], [5.0, 5.0, 10.0, 10.0], ""),
        (["authorization_pending", "access_denied"], [5.0, 5.0], "refused: access_denied"),
        (["expired_token"], [5.0], "refused: expired_token"),
        (["429 slow_down", "429 too_many_requests", "temporarily_unavailable", ""], [5.0, 10.0, 20.0, 40.0], ""),
    ],
)
def test_login_on_another_device(
    refusals: list[str], waits: list[float], said: str, place: Path, openid: OpenId, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr("runlake.openid.sleep", slept.append)
    openid.refusals = refusals
    result = call("login", "--device")
    assert f"Open {openid.url}/activate on any device, and enter the code ABCD-EFGH\n" in result.stdout
    assert slept == waits and (result.exit_code, bool(list(place.glob("*.json")))) == ((2, False) if said else (0, True))
    assert said in result.stderr
    (asked,) = openid.requests("/device")
    assert asked == {"client_id": "cli", "scope": "openid logs:read", "resource": "urn:runlake"}


@pytest.mark.parametrize(
    "device",
    [
        *({"interval": each} for each in (float("nan"), float("inf"), 1e12, "5s", [])),
        *({"expires_in": each} for each in (float("nan"), float("inf"), 1e30, -1, None, [])),
        {"verification_uri": "javascript:alert(1)"},
        {"user_code": None},
    ],
)
def test_hostile_device_code_logs_nobody_in(
    device: dict[str, Any], place: Path, openid: OpenId, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runlake.openid.sleep", lambda _: pytest.fail("it waits"))
    openid.device = device
    result = call("login", "--device")
    assert result.exit_code == 2 and "\nnext: " in result.stderr and "invalid response" not in result.stderr
    assert not list(place.glob("*.json"))


def test_without_display_a_code_is_preferred_and_else_the_address_is_printed(
    place: Path, openid: OpenId, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "has_display", lambda: False)
    monkeypatch.setattr(commands, "_WAIT_S", 0.1)
    monkeypatch.setattr("runlake.openid.sleep", lambda _: None)
    assert "ABCD-EFGH" in call("login").stdout
    openid.has_device_codes = False
    result = call("login")
    assert result.stdout.startswith(f"{openid.url}/authorize?") and "ssh -L" in result.stderr and result.exit_code == 2
    assert "lacks device_authorization_endpoint" in call("login", "--device").stderr


def test_login_prints_what_the_page_shows(place: Path, openid: OpenId, server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISPLAY", ":0")
    page = (Path(__file__).parents[2] / "docs" / "login.md").read_text()
    (shown,) = re.findall(r"^```text\n\$ runlake login\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    printed = re.sub(r"authorize\?\S+", "authorize?…", call("login").output)
    for host, url in (("login.example.com", openid.url), ("logs.example.com", server.url)):
        printed = printed.replace(urlsplit(url).netloc, host)
    assert printed.replace("http://", "https://").replace("/realm/", "/") == shown


def test_processes_renew_a_login_that_rotates_once(place: Path, openid: OpenId) -> None:
    assert call("login").exit_code == 0
    alter(place, ends_s=1.0)
    url = load_settings().url

    def renew(_: int) -> str | None:
        return Settings(url=url).token_for(url).value()

    with ThreadPoolExecutor(8) as pool:
        tokens = set(pool.map(renew, range(16)))
    assert tokens == {openid.issued[-1]}
    assert [each["grant_type"] for each in openid.requests("/token")] == ["authorization_code", "refresh_token"]


def away(openid: OpenId) -> None:
    openid.is_away = True


def nonsense(openid: OpenId) -> None:
    """As the page of a network that asks for a login of its own."""
    openid.metadata = {"issuer": None}


def busy(openid: OpenId) -> None:
    openid.refusals = ["429 too_many_requests"]


def ended(openid: OpenId) -> None:
    openid.refusals = ["invalid_grant"]


@pytest.mark.parametrize(
    ("fault", "tokens", "error"),
    [
        (away, {"ends_s": 1.0}, UnavailableError),
        (away, {"ends_s": "soon"}, None),
        (busy, {"ends_s": 1.0}, UnavailableError),
        (nonsense, {"ends_s": 1.0}, AccessError),
        (nonsense, {"ends_s": "soon"}, None),
        (ended, {"ends_s": 1.0}, AccessError),
        (ended, {"ends_s": "soon"}, AccessError),
        (away, {"ends_s": 1.0, "refresh_token": ""}, AccessError),
        (away, {"ends_s": "soon", "refresh_token": ""}, None),
        (away, {"ends_s": None}, None),
    ],
)
def test_login_that_cannot_be_renewed(
    fault: Callable[[OpenId], None], tokens: dict[str, Any], error: type[Exception] | None, place: Path, openid: OpenId
) -> None:
    """A token that holds is used."""
    assert call("login").exit_code == 0
    soon_s = stored(place)["issued_s"] + 30
    alter(place, **{name: soon_s if value == "soon" else value for name, value in tokens.items()})
    fault(openid)
    settings = load_settings()
    if error:
        with pytest.raises(error, match="login"):
            settings.token_for(settings.url).value()
    else:
        assert settings.token_for(settings.url).value() == openid.issued[-1]


def test_login_that_cannot_be_stored_is_not_used_up(place: Path, openid: OpenId, monkeypatch: pytest.MonkeyPatch) -> None:
    assert call("login").exit_code == 0
    alter(place, ends_s=1.0)

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    token = load_settings().token_for(load_settings().url)
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(SettingsError, match=r"cannot be renewed .*No space left"):
            token.value()
    assert len(openid.requests("/token")) == 1 and len(list(place.glob("*.*"))) == 2, "no rest beside login and lock"
    assert token.value() == openid.issued[-1] == stored(place)["tokens"]["access_token"]


@pytest.mark.parametrize("is_soon", [False, True])
def test_login_in_a_folder_that_cannot_be_written(is_soon: bool, place: Path, openid: OpenId) -> None:
    assert call("login").exit_code == 0
    alter(place, ends_s=time.time() + 30 if is_soon else 1.0)
    (lock,) = place.glob("*.lock")
    lock.unlink()
    lock.mkdir()
    result = call("whoami")
    assert result.exit_code == (0 if is_soon else 2)
    assert is_soon or ("the login cannot be renewed path=" in result.stderr and "next: let this user write there" in result.stderr)


@pytest.fixture
def renewing(place: Path, openid: OpenId, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Future[str | None], threading.Event]]:
    """A renewal whose answer is under way, and what lets it arrive."""
    assert call("login").exit_code == 0
    alter(place, ends_s=1.0)
    answer, is_asked, may_answer = openid.tokens, threading.Event(), threading.Event()

    def slow(form: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        found = answer(form)
        if form["grant_type"] == "refresh_token":
            is_asked.set()
            may_answer.wait(10)
        return found

    monkeypatch.setattr(openid, "tokens", slow)
    settings = load_settings()
    with ThreadPoolExecutor(1) as pool:
        renewal = pool.submit(settings.token_for(settings.url).value)
        assert is_asked.wait(10)
        yield renewal, may_answer
        may_answer.set()


def test_login_beside_a_renewal_is_kept(renewing: tuple[Future[str | None], threading.Event], place: Path, openid: OpenId) -> None:
    renewal, may_answer = renewing
    with ThreadPoolExecutor(1) as pool:
        logging_in = pool.submit(call, "login")
        wait([logging_in], 0.3)
        may_answer.set()
        assert logging_in.result().exit_code == 0 and renewal.result() == openid.issued[1]
    assert stored(place)["tokens"]["access_token"] == openid.issued[2]


def test_fork_during_a_renewal_blocks_no_later_one(
    renewing: tuple[Future[str | None], threading.Event], place: Path, openid: OpenId
) -> None:
    renewal, may_answer = renewing
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(write_end)
        os.read(read_end, 1)  # it lives until the test ends
        os._exit(0)
    try:
        may_answer.set()
        assert renewal.result() == openid.issued[1]
        alter(place, ends_s=1.0)
        settings = load_settings()
        with ThreadPoolExecutor(1) as pool:
            later = pool.submit(settings.token_for(settings.url).value)
            wait([later], 5)
            is_renewed = later.done()
            os.close(write_end)
        assert is_renewed and later.result() == openid.issued[2]
    finally:
        os.waitpid(child, 0)


def test_lines_wait_for_an_issuer_that_answers_nonsense(
    place: Path, openid: OpenId, server: FakeServer, pace: Pace, tmp_path: Path
) -> None:
    assert call("login").exit_code == 0
    alter(place, ends_s=1.0)
    nonsense(openid)
    said, told = threading.Event(), list[str]()

    def tell(text: str) -> None:
        told.append(text)
        said.set()

    settings = replace(load_settings(), spool_dir=str(tmp_path / "spool"))
    handler = RunlogHandler("p", "r", settings=settings, pace=pace, tell=tell)
    handler.emit(logging.makeLogRecord({"msg": "one"}))
    assert said.wait(10) and "the login cannot be renewed" in told[0]
    openid.metadata = {}
    handler.close()
    assert [line.endswith(b": one") for line in server.lines("p", "r")] == [True]


def test_issuer_that_is_away_is_named(place: Path, openid: OpenId) -> None:
    assert call("login").exit_code == 0
    alter(place, ends_s=1.0)
    away(openid)
    result = call("pipelines")
    assert result.exit_code == 2 and "the login server does not respond host=127.0.0.1" in result.stderr
    assert "next: is 127.0.0.1" in result.stderr
    assert "the issuer could not be told" in call("logout").stderr and not list(place.glob("*.json"))


def test_refused_login_is_renewed_once_a_minute_at_most(place: Path, openid: OpenId, server: FakeServer) -> None:
    assert call("login").exit_code == 0
    server.accepts = lambda _: False
    with Archive.of(load_settings()) as archive:
        for _ in range(3):
            with pytest.raises(AccessError):
                archive.check_credentials()
    assert len(openid.requests("/token")) == 1


def test_refused_login_of_a_clock_that_was_ahead_is_renewed(place: Path, openid: OpenId) -> None:
    assert call("login").exit_code == 0
    tokens = stored(place)["tokens"]
    alter(place, time.time() + 7200, ends_s=time.time() + 10_800, access_token="ended")
    assert call("whoami").exit_code == 0 and stored(place)["tokens"]["access_token"] not in ("ended", tokens["access_token"])


def test_refused_login_that_another_process_renewed_is_not_renewed_again(place: Path, openid: OpenId) -> None:
    assert call("login").exit_code == 0
    settings = load_settings()
    token = settings.token_for(settings.url)
    refused = str(token.value())
    alter(place, access_token="newer")
    assert token.is_renewed(refused) and token.value() == "newer"
    assert len(openid.requests("/token")) == 1


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702, None])
def test_folder_that_others_can_write_has_no_login(
    mode: int | None, place: Path, openid: OpenId, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert call("login").exit_code == 0
    if mode is None:
        monkeypatch.setattr(os, "getuid", lambda: place.stat().st_uid + 1)
    else:
        place.chmod(mode)
    for command in ("pipelines", "login", "logout"):
        result = call(command)
        assert result.exit_code == 2 and "other users can write to the folder of logins" in result.stderr
    assert len(openid.issued) == 1


def test_secrets_of_a_login_are_in_no_representation() -> None:
    made = [
        Tokens("secret", "secret", None, {}),
        DeviceCode("secret", "secret", "https://i", 1.0, 1.0),
        Attempt("secret", "secret", "secret"),
    ]
    assert "secret" not in repr(made)


def test_login_belongs_to_one_address_and_profile(place: Path, openid: OpenId, monkeypatch: pytest.MonkeyPatch) -> None:
    assert call("login").exit_code == 0
    settings = load_settings()
    assert settings.token_for(settings.url + "/").value() == openid.issued[-1]
    assert settings.token_for("https://other.example/api").value() is None
    assert load_settings({"profile": "other"}).token_for(settings.url).value() is None
    waiting = load_settings({"profile": "other"}).token_for(settings.url)
    assert waiting.value() is None
    assert call("--profile", "other", "login").exit_code == 0
    assert waiting.value() is None
    waiting.forget()
    assert waiting.value() == openid.issued[-1]
    monkeypatch.setenv("RUNLAKE_TOKEN", "typed")
    assert load_settings().token_for(settings.url).value() == "typed"
    assert "the token (environment) takes precedence" in call("login").stderr


WHOLE: dict[str, Any] = {
    "config": {
        "issuer": "https://issuer.test",
        "client_id": "cli",
        "redirect": "http://127.0.0.1/",
        "scopes": "",
        "parameters": {},
    },
    "tokens": {"access_token": "a", "refresh_token": "", "ends_s": None, "claims": {}},
    "issued_s": 0,
}


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", '{"config": {}}', '{"config": {"issuer": 1}, "tokens": {}, "issued_s": 0}', "[" * 100_000,
        *(json.dumps(WHOLE | {part: {**WHOLE[part], name: value}}) for part, name, value in [
            ("config", "issuer", 5), ("config", "parameters", []), ("tokens", "access_token", None), ("tokens", "refresh_token", 5),
            ("tokens", "ends_s", "soon"), ("tokens", "claims", []),
        ]),
    ],
)  # fmt: skip
def test_damaged_login_is_an_error_that_a_login_or_logout_ends(text: str, place: Path) -> None:
    assert call("login").exit_code == 0
    (path,) = place.glob("*.json")
    path.write_text(text)
    result = call("pipelines")
    assert result.exit_code == 2 and "the login cannot be read" in result.stderr and "`runlake login`" in result.stderr
    assert call("login").exit_code == 0 and call("pipelines").exit_code == 0
    path.write_text(text)
    assert call("logout").exit_code == 0 and not path.exists()


def test_server_that_names_another_issuer_than_before_is_refused(place: Path, openid: OpenId, server: FakeServer) -> None:
    assert call("login").exit_code == 0
    with OpenId().running() as other:
        server.login = {**(server.login or {}), "issuer": other.url}
        refused = call("login")
        assert refused.exit_code == 2 and f"issuer={other.url} last={openid.url}\nnext: " in refused.stderr
        assert other.asked == [] and stored(place)["config"]["issuer"] == openid.url
        assert call("logout").exit_code == 0 and call("login").exit_code == 0
        assert stored(place)["config"]["issuer"] == other.url


def test_server_without_logins_and_address_without_encryption(place: Path, openid: OpenId, server: FakeServer) -> None:
    result = call("--url", "http://logs.example.com/api", "login")
    assert "the server's address is not https://" in result.stderr and result.exit_code == 2
    assert "signed with AWS credentials" in call("--auth", "iam", "login").stderr
    assert "without a token" in call("--auth", "iam", "whoami", "--token").stderr
    server.login = None
    assert "people do not log in at this server" in call("login").stderr
    assert openid.asked == []


def test_loopback_takes_only_the_answer_of_its_login() -> None:
    with Loopback("http://127.0.0.1/back") as loopback, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(loopback.answer, lambda query: query.get("state") == "s", 20.0)
        base = loopback.address.removesuffix("/back")
        for target, host in [("/", ""), ("/back?state=x", ""), ("/back/?state=s", ""), ("/back?state=s", "evil.test")]:
            with pytest.raises(HTTPError, match="404"), urlopen(Request(base + target, headers={"Host": host} if host else {})):
                pass
        with urlopen(f"{loopback.address}?{urlencode({'state': 's', 'code': 'a b'})}") as page:
            assert page.headers["Content-Security-Policy"].startswith("default-src 'none'")
        assert waiting.result() == {"state": "s", "code": "a b"}


def test_loopback_is_not_held_by_others() -> None:
    with Loopback("http://127.0.0.1/back") as loopback, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(loopback.answer, lambda query: "s" in query, 20.0)
        port = int(loopback.address.split(":")[2].partition("/")[0])
        with socket.create_connection(("127.0.0.1", port)) as held:
            held.sendall(b"GET /back HTTP/1.1\r\n")
            with urlopen(f"{loopback.address}?s=1", timeout=1) as page:
                assert page.status == 200
        assert waiting.result() == {"s": "1"}


@pytest.mark.parametrize(
    "redirect",
    ["https://evil.test/back", "http://evil.test/back", "http://127.0.0.1.evil.test/", "http://127.0.0.1@evil.test/", "https://127.0.0.1/",
     "http://127.0.0.1:99999/", "http://[/", "app://127.0.0.1/", ""],
)  # fmt: skip
def test_answer_goes_to_no_other_machine(redirect: str, place: Path, openid: OpenId, server: FakeServer) -> None:
    assert server.login is not None
    server.login["cliRedirect"] = redirect
    result = call("login")
    assert result.exit_code == 2 and "is not of this machine" in result.stderr and openid.requests("/authorize") == []


def test_taken_port_is_named(place: Path, server: FakeServer) -> None:
    assert server.login is not None
    with socket.create_server(("127.0.0.1", 0)) as other:
        server.login["cliRedirect"] = f"http://127.0.0.1:{other.getsockname()[1]}/back"
        result = call("login")
    assert result.exit_code == 2 and "another program has the port" in result.stderr and "next: end the program" in result.stderr

"""The viewer's files over HTTP: content types, security headers, caching; and no other files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chalicelib import __version__
from chalicelib.explanation.families import RULES
from chalicelib.explanation.ranking import STRUCTURE
from chalicelib.routes import viewer
from tests.functional.gateway import Answer, call, installed
from tests.issuer import ISSUER, JWT, Issuer
from tests.world import World

NAMES = sorted(viewer.files())


@pytest.fixture(autouse=True)
def _world() -> Iterator[None]:
    with installed(World(), keys=Issuer().read, **JWT):
        yield


def is_safe(answer: Answer) -> bool:
    policy = answer.headers["Content-Security-Policy"]
    return "default-src 'none'" in policy and "unsafe" not in policy and answer.headers["X-Content-Type-Options"] == "nosniff"


def test_the_page_is_for_everybody_and_asked_for_anew() -> None:
    answer = call("GET", "/v1/ui/")
    assert answer.status == 200 and is_safe(answer)
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert answer.headers["Cache-Control"] == "no-cache"
    assert answer.body.startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("prefix", "location"),
    [("/api", "/api/v1/ui/?p=a+b"), ("", "/v1/ui/?p=a+b"), ("/logs", "/logs/v1/ui/?p=a+b"), ("//h.test", "/h.test/v1/ui/?p=a+b")],
)
def test_without_its_slash_one_is_sent_there_wherever_the_stage_is(prefix: str, location: str) -> None:
    answer = call("GET", "/v1/ui?p=a+b", headers={"host": "h"}, prefix=prefix)
    assert (answer.status, answer.headers["Location"]) == (308, location)


def test_page_refers_only_to_its_own_files() -> None:
    page = viewer.files()["index.html"]
    named = re.findall(r'(?:src|href)="(?!data:)([^"]*)"', page)
    script = next(viewer.files()[name.removeprefix("./")] for name in named if name.endswith(".js"))
    later = re.findall(r'import\("(\./[^"]+)"\)', script)
    assert sorted({*named, *later}) == sorted(f"./{name}" for name in NAMES if name != "index.html")
    assert (
        "<style" not in page
        and not re.search(r"<script[^>]*>[^<]", page)
        and " on" not in re.sub(r"<title>.*?</title>|>[^<]*<", "><", page)
    )


@pytest.mark.parametrize("name", [name for name in NAMES if name != "index.html"])
def test_file_has_a_content_type_and_is_cached(name: str) -> None:
    answer = call("GET", f"/v1/ui/{name}")
    assert answer.status == 200 and is_safe(answer)
    assert answer.headers["Content-Type"] == viewer.CONTENT_TYPES[name[name.rindex(".") :]]
    assert answer.headers["Cache-Control"] == "public, max-age=31536000, immutable"
    assert answer.body == (viewer.FOLDER / name).read_text()
    assert re.fullmatch(r"[\w-]+-[\w-]{8}\.(js|css)", name), "kept for good: its name must have a hash"


@pytest.mark.parametrize(
    "name",
    [
        "index.html",
        "no.js",
        "..",
        ".",
        "%2e%2e",
        "..%2fapp.py",
        "..%2F..%2Fapp.py",
        "%2e%2e%2froutes%2fviewer.py",
        "app.py",
        "%00",
        "index.js%00",
    ],
)
def test_there_are_no_other_files(name: str) -> None:
    answer = call("GET", f"/v1/ui/{name}")
    assert (answer.status, answer.json["code"]) == (404, 404)


@pytest.mark.parametrize("auth", ["jwt", "none", "iam"])
def test_page_gets_the_configured_authentication(auth: str) -> None:
    with installed(World(), keys=Issuer().read, **(JWT | {"auth": auth})):
        answer = call("GET", "/v1/ui/config")
        assert (answer.status, answer.json) == (200, {"auth": auth, "version": __version__, "login": None})


PEOPLE = {
    "issuer": "https://people.test:8443/realms/one",
    "audience": "*",
    "jwks_url": "https://people.test/keys",
    "prefix": "people:",
}
LOGIN = {
    "clientId": "page",
    "cliClientId": "page",
    "cliRedirect": "http://127.0.0.1/callback",
    "scopes": "openid",
    "parameters": {},
}


@pytest.mark.parametrize(
    ("login", "expected", "origins"),
    [
        ({}, {"issuer": ISSUER}, ["https://issuer.test"]),
        (
            {"issuer": PEOPLE["issuer"], "cli_client_id": "cli", "scopes": "openid a:b", "origins": ["https://tokens.test"],
             "parameters": {"resource": "urn:runlake"}, "cli_redirect": "http://localhost:7777/"},
            {"issuer": PEOPLE["issuer"], "cliClientId": "cli", "scopes": "openid a:b", "parameters": {"resource": "urn:runlake"},
             "cliRedirect": "http://localhost:7777/"},
            ["https://people.test:8443", "https://tokens.test"],
        ),
    ],
)  # fmt: skip
def test_page_logs_in_at_the_configured_issuer_and_connects_to_it(
    login: dict[str, object], expected: dict[str, object], origins: list[str]
) -> None:
    settings: dict[str, Any] = {"login": json.dumps({"client_id": "page"} | login), "jwt_more_issuers": json.dumps([PEOPLE])}
    with installed(World(), keys=Issuer().read, **JWT | settings):
        config, page = call("GET", "/v1/ui/config"), call("GET", "/v1/ui/")
    assert config.json["login"] == LOGIN | expected
    connects = re.findall(r"connect-src ([^;]*)", page.headers["Content-Security-Policy"])[0].split()
    assert connects == ["'self'", *origins]


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"auth": "none"}, "only with RUNLAKE_AUTH=jwt"),
        ({"login": '{"client_id": "page", "issuer": "https://other.test/"}'}, "an issuer of RUNLAKE_JWT_ISSUER"),
        ({"jwt_issuer": "issuer"}, "an https:// address"),
        ({"jwt_issuer": "http://issuer.test/"}, "an https:// address"),
    ],
)
def test_login_without_a_trusted_issuer_is_refused(
    settings: dict[str, Any], problem: str, caplog: pytest.LogCaptureFixture
) -> None:
    with installed(World(), keys=Issuer().read, **JWT | {"login": '{"client_id": "page"}'} | settings):
        assert call("GET", "/v1/catalog").status == 500
    assert problem in vars(caplog.records[-1])["error"]


def test_the_page_explains_each_rule_in_the_documented_words() -> None:
    words = json.loads((Path(__file__).parents[2] / "viewer" / "src" / "log" / "rules.json").read_text(encoding="utf-8"))
    assert words == {name: about for name, (_, about) in STRUCTURE.items()} | {rule.name: rule.about for rule in RULES}


def test_what_is_built_is_small_and_has_no_source_map() -> None:
    sizes = {name: len(text) for name, text in viewer.files().items()}
    of_logins = sum(sizes.pop(name) for name in NAMES if name.startswith("oauth-"))
    assert of_logins < 25_000, "loaded by a login"
    assert sum(sizes.values()) < 175_000
    assert {path.suffix for path in viewer.FOLDER.iterdir()} == {".html", ".js", ".css"}
    assert not any("sourceMappingURL" in text for text in viewer.files().values())


def test_the_page_has_no_way_for_text_to_become_markup() -> None:
    for name in NAMES:
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|srcdoc", viewer.files()[name]
        )


@pytest.mark.parametrize(("prefix", "location"), [("/api", "/api/docs/"), ("", "/docs/"), ("/logs/one", "/logs/one/docs/")])
def test_base_address_leads_to_the_documents_which_link_the_viewer(prefix: str, location: str) -> None:
    answer = call("GET", "/", headers={"Host": "h", "X-Forwarded-Proto": "https"}, prefix=prefix)
    assert (answer.status, answer.headers["Location"]) == (302, location)
    assert 'href: "../../v1/ui/"' in call("GET", "/docs/static/index.html").body

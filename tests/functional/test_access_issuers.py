"""Several issuers of tokens: each has its own keys, audience and claim, and principals of one never get the permissions of another's."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from chalicelib import composition
from chalicelib.access.authenticators import Credentials
from chalicelib.errors import IdentityUnavailableError
from tests.functional.gateway import get, installed
from tests.issuer import ISSUER, JWT, Issuer, bearer
from tests.world import World

PEOPLE = {
    "issuer": "https://people.test/", "audience": "portal,other", "jwks_url": "https://people.test/keys", "claim": "scope",
    "prefix": "people:",
}  # fmt: skip
READS = {"runlake": {"logs:read": ["*"]}, "scope": "logs:read"}
"""Grants in the claims of both."""


@dataclass
class Issuers:
    """The issuer of bots and the one of people."""

    bots: Issuer = field(default_factory=Issuer)
    people: Issuer = field(default_factory=Issuer)

    def of_bot(self, sub: str = "me", **claims: Any) -> str:
        return self.bots.token(sub, **READS | claims)

    def of_person(self, sub: str = "me", **claims: Any) -> str:
        return self.people.token(sub, **READS | {"iss": PEOPLE["issuer"], "aud": "portal"} | claims)

    @contextmanager
    def trusted(self, **settings: Any) -> Iterator[None]:
        keys = {JWT["jwt_jwks_url"]: self.bots.read, PEOPLE["jwks_url"]: self.people.read}
        with installed(World(), keys=keys, jwt_more_issuers=json.dumps([PEOPLE]), **JWT | settings):
            yield


def status(token: str) -> int:
    return get("svc.pipe/run-1", headers=bearer(token)).status


TOKENS: dict[str, tuple[int, Callable[[Issuers], str]]] = {
    "a bot's": (200, lambda issuers: issuers.of_bot()),
    "a person's": (200, lambda issuers: issuers.of_person()),
    "a person's for the second audience": (200, lambda issuers: issuers.of_person(aud="other")),
    "a person's for the audience of bots": (401, lambda issuers: issuers.of_person(aud=JWT["jwt_audience"])),
    "a bot's for the audience of people": (401, lambda issuers: issuers.of_bot(aud="portal")),
    "a person's with the key of bots": (401, lambda issuers: issuers.of_bot(iss=PEOPLE["issuer"], aud="portal")),
    "a bot's with the key of people": (401, lambda issuers: issuers.of_person(iss=ISSUER, aud=JWT["jwt_audience"])),
    "a person's whose grants are in the claim of bots": (403, lambda issuers: issuers.of_person(scope=None)),
    "a bot's whose grants are in the claim of people": (403, lambda issuers: issuers.of_bot(runlake=None)),
    "a bot's in the name of a person": (401, lambda issuers: issuers.of_bot("people:me")),
    "a person's in the name of a person": (200, lambda issuers: issuers.of_person("people:me")),
    "of another issuer": (401, lambda issuers: issuers.of_bot(iss="https://other.test/")),
    "of no issuer": (401, lambda issuers: issuers.of_bot(iss=None)),
    "without a payload": (401, lambda issuers: issuers.of_bot().partition(".")[0] + "..x"),
    "too long": (401, lambda issuers: issuers.of_bot("x" * 9000)),
    "expired": (401, lambda issuers: issuers.of_person(exp=1)),
}


@pytest.mark.parametrize("name", TOKENS)
def test_tokens_of_two_issuers(name: str) -> None:
    issuers, (expected, token) = Issuers(), TOKENS[name]
    with issuers.trusted():
        assert [status(token(issuers)) for _ in range(2)] == [expected] * 2


@pytest.mark.parametrize("issuer", [["https://people.test/"], {"a": 1}, 5, ""])
def test_issuer_of_another_type_is_refused(issuer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Libraries refuse to write such a token."""
    monkeypatch.setattr(
        "jwt.api_jwt.PyJWT._encode_payload", lambda _, payload, **options: json.dumps(payload | {"iss": issuer}).encode()
    )
    issuers = Issuers()
    with issuers.trusted():
        assert status(issuers.of_bot()) == 401


@pytest.mark.behavior("Principals of one token issuer never get the permissions of another's.")
def test_the_policy_distinguishes_the_same_sub_of_two_issuers() -> None:
    issuers, policy = Issuers(), json.dumps({"principals": {"people:me": {"logs:read": ["svc.pipe"]}}})
    with issuers.trusted(policy=lambda: policy):
        assert status(issuers.of_person(scope=None)) == 200
        assert status(issuers.of_bot(runlake=None)) == 403
        authenticator = composition.services().authenticator
        names = [authenticator.identify(Credentials(f"Bearer {token}")) for token in (issuers.of_bot(), issuers.of_person())]
    assert names == ["me", "people:me"]


def test_an_issuer_that_is_away_affects_only_its_own_tokens() -> None:
    issuers = Issuers()
    issuers.people.failure = IdentityUnavailableError("away")
    with issuers.trusted():
        assert (status(issuers.of_bot()), status(issuers.of_person())) == (200, 503)
        assert issuers.bots.reads == 1


def test_an_issuer_is_configured_once() -> None:
    issuers = Issuers()
    with issuers.trusted(jwt_issuer=PEOPLE["issuer"]):
        assert status(issuers.of_person()) == 500

"""Claims of issuers' access tokens: audiences, scopes as a text or a list and with a prefix, groups."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.functional.gateway import get, installed
from tests.issuer import JWT, Issuer, bearer
from tests.world import World

_COGNITO = {"aud": None, "client_id": "page", "token_use": "access", "scope": "openid runlake/logs:read"}
_SCOPES = {"jwt_audience": "page,cli", "jwt_claim": "scope", "jwt_scope_prefix": "runlake/"}
_SCP = {"jwt_claim": "scp"}
_GROUPS = {"jwt_groups_claim": "groups"}
_POLICY = {
    "principals": {"oncall": {"logs:read": ["svc.b"]}},
    "groups": {
        "oncall": {"logs:read": ["svc.a"]},
        "team-*": {"logs:write": ["svc.*"]},
        "*-leads": {"logs:read": ["svc.a"]},
        "people:night": {"logs:read": ["svc.a"]},
    },
}
PEOPLE = {
    "issuer": "https://people.test/", "audience": "*", "jwks_url": "https://people.test/keys", "prefix": "people:", "groups": "roles",
}  # fmt: skip

CLAIMS: dict[str, tuple[int, dict[str, Any], dict[str, Any]]] = {
    "Cognito's access token": (200, _SCOPES, _COGNITO),
    "of the second client": (200, _SCOPES, _COGNITO | {"client_id": "cli"}),
    "of another client": (401, _SCOPES, _COGNITO | {"client_id": "other"}),
    "of a list of clients": (200, _SCOPES, _COGNITO | {"client_id": ["other", "cli"]}),
    "without a client": (401, _SCOPES, _COGNITO | {"client_id": None}),
    "with a client that is no text": (401, _SCOPES, _COGNITO | {"client_id": {"page": 1}}),
    "Cognito's token for the application": (401, _SCOPES, _COGNITO | {"aud": "page", "token_use": "id"}),
    "with another use, for any audience": (401, _SCOPES | {"jwt_audience": "*"}, _COGNITO | {"token_use": "id"}),
    "with a use that is no text": (401, _SCOPES, _COGNITO | {"token_use": ["access"]}),
    "with an audience of its own": (401, _SCOPES, _COGNITO | {"aud": "other"}),
    "with an empty audience": (401, _SCOPES, _COGNITO | {"aud": []}),
    "client_id without token_use": (401, _SCOPES, _COGNITO | {"token_use": None}),
    "one audience of a list": (200, _SCOPES, {"aud": ["x", "cli"], "scope": "runlake/logs:read"}),
    "a list with what is no audience": (401, _SCOPES, {"aud": ["cli", 5], "scope": "runlake/logs:read"}),
    "scope without its prefix": (403, _SCOPES, _COGNITO | {"scope": "openid logs:read"}),
    "scope of another resource server": (403, _SCOPES, _COGNITO | {"scope": "billing/logs:read billing/runlake/logs:read"}),
    "prefix in another case": (403, _SCOPES, _COGNITO | {"scope": "Runlake/logs:read"}),
    "prefix although none is configured": (403, {"jwt_claim": "scope"}, {"scope": "runlake/logs:read"}),
    "scp as a text": (200, _SCP, {"scp": "logs:read openid"}),
    "scp as a list": (200, _SCP, {"scp": ["openid", "logs:read"]}),
    "scp as a list with a prefix": (200, _SCP | {"jwt_scope_prefix": "api://runlake/"}, {"scp": ["api://runlake/logs:read"]}),
    "scp as a list of other things": (403, _SCP, {"scp": [["logs:read"], None, 5]}),
    "scp of another scope": (403, _SCP, {"scp": "logs:reader"}),
    "a group of the policy": (200, _GROUPS, {"groups": ["users", "oncall"]}),
    "a group by its pattern": (200, _GROUPS, {"groups": ["shop-leads"]}),
    "a group with another permission": (403, _GROUPS, {"groups": ["team-shop"]}),
    "a group of another claim": (403, {"jwt_groups_claim": "roles"}, {"groups": ["oncall"]}),
    "groups without a configured claim": (403, {}, {"groups": ["oncall"]}),
    "groups as a text": (403, _GROUPS, {"groups": "oncall"}),
    "groups as an object": (403, _GROUPS, {"groups": {"oncall": True}}),
    "groups of other things": (403, _GROUPS, {"groups": [["oncall"], None]}),
    "a group with the name of a principal": (403, {}, {"sub": "team-leads"}),
    "a principal with the name of a group": (403, _GROUPS, {"sub": "oncall"}),
    "a group of another issuer": (403, {}, {"iss": PEOPLE["issuer"], "roles": ["oncall"]}),
    "a group of another issuer with its prefix": (200, {}, {"iss": PEOPLE["issuer"], "roles": ["night"]}),
    "a group that spells one of another issuer": (403, _GROUPS, {"groups": ["people:night"]}),
    "a group that spells one of another issuer by a pattern": (403, _GROUPS, {"groups": ["people:shop-leads"]}),
    "a group of another issuer by a pattern": (200, {}, {"iss": PEOPLE["issuer"], "roles": ["leads", "shop-leads"]}),
}


@pytest.mark.parametrize(
    ("kind", "claims", "expected"),
    [
        *((kind, {}, 200) for kind in ("JWT", "at+jwt", "application/at+jwt", "AT+JWT", "", 5)),
        *((kind, {}, 401) for kind in ("logout+jwt", "application/Logout+JWT", "secevent+jwt", "dpop+jwt", "x-at+jwt")),
        ("JWT", {"at_hash": "x"}, 401),
        ("at+jwt", {"c_hash": "x"}, 401),
    ],
)
def test_token_for_another_purpose_is_refused(kind: str | int, claims: dict[str, Any], expected: int) -> None:
    issuer = Issuer()
    with installed(World(), keys=issuer.read, **JWT):
        token = bearer(issuer.token(header={"typ": kind}, runlake={"logs:read": ["*"]}, **claims))
        assert [get("svc.a/run", headers=token).status for _ in range(2)] == [expected] * 2


@pytest.mark.parametrize("name", CLAIMS)
def test_read_with_claims(name: str) -> None:
    expected, settings, claims = CLAIMS[name]
    issuer = Issuer()
    with installed(
        World(), keys=issuer.read, policy=lambda: json.dumps(_POLICY), jwt_more_issuers=json.dumps([PEOPLE]), **JWT | settings
    ):
        token = bearer(issuer.token(**claims))
        assert [get("svc.a/run", headers=token).status for _ in range(2)] == [expected] * 2

"""Tokens of a user pool of Cognito, as the emulator issues them: access tokens name their client and groups, and have no audience."""

from __future__ import annotations

import json
from typing import Any
from urllib.request import urlopen

import pytest

from tests.contract.conftest import client_of
from tests.functional.gateway import get, installed
from tests.issuer import bearer
from tests.world import World

pytestmark = pytest.mark.slow  # it starts a server

_PASSWORD = "Correct-horse-1"
_POLICY = {"principals": {}, "groups": {"oncall": {"logs:read": ["*"]}}}


def test_tokens_of_cognito(ministack_url: str) -> None:
    cognito: Any = client_of("cognito-idp", ministack_url)
    pool = cognito.create_user_pool(PoolName="people")["UserPool"]["Id"]
    flows = ["ALLOW_USER_PASSWORD_AUTH", "ALLOW_REFRESH_TOKEN_AUTH"]
    page, other = (
        cognito.create_user_pool_client(UserPoolId=pool, ClientName=name, ExplicitAuthFlows=flows)["UserPoolClient"]["ClientId"]
        for name in ("page", "other")
    )
    cognito.create_group(UserPoolId=pool, GroupName="oncall")
    cognito.admin_create_user(UserPoolId=pool, Username="ann", MessageAction="SUPPRESS")
    cognito.admin_set_user_password(UserPoolId=pool, Username="ann", Password=_PASSWORD, Permanent=True)
    before = _log_in(cognito, page)
    cognito.admin_add_user_to_group(UserPoolId=pool, Username="ann", GroupName="oncall")
    tokens, of_other = _log_in(cognito, page), _log_in(cognito, other)
    region = pool.partition("_")[0]
    trust = {
        "jwt_issuer": f"https://cognito-idp.{region}.amazonaws.com/{pool}",
        "jwt_audience": page,
        "jwt_jwks_url": "https://keys.test/",
    }
    with installed(
        World(),
        keys=lambda: urlopen(f"{ministack_url}/{pool}/.well-known/jwks.json", timeout=10).read(),
        policy=lambda: json.dumps(_POLICY),
        auth="jwt",
        jwt_groups_claim="cognito:groups",
        **trust,
    ):
        read = {
            "access token": tokens["AccessToken"],
            "of no group": before["AccessToken"],
            "ID token": tokens["IdToken"],
            "of another client": of_other["AccessToken"],
        }
        statuses = {name: get("svc.a/run", headers=bearer(token)).status for name, token in read.items()}
    assert statuses == {"access token": 200, "of no group": 403, "ID token": 401, "of another client": 401}


def _log_in(cognito: Any, client: str) -> Any:
    parameters = {"USERNAME": "ann", "PASSWORD": _PASSWORD}
    return cognito.initiate_auth(AuthFlow="USER_PASSWORD_AUTH", ClientId=client, AuthParameters=parameters)["AuthenticationResult"]

"""The recipes of docs/identities.md: what a token with the shown claims may do under the shown parameters and the shown policy."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from cfnlint.decode.cfn_yaml import load

from deploy.stages import Stage
from docs import generate
from tests.docs.pages import DOCS, PROJECT
from tests.functional.gateway import LOGS, Answer, event_of, get, handled, installed, post, url_call
from tests.issuer import Issuer, bearer
from tests.world import World

_PAGE = (DOCS / "identities.md").read_text()
_STS = "arn:aws:sts::111122223333:assumed-role"
_COGNITO = r"https://cognito-idp\.[a-z0-9-]+\.amazonaws\.com/[a-z0-9-]+_\w+"
_ENTRA = r"https://login\.microsoftonline\.com/[0-9a-f-]{36}"

RECIPES = {
    "Cognito": (rf"{_COGNITO} \1/\.well-known/jwks\.json", "http://localhost:8401/callback"),
    "Okta": (r"https://[a-z]+\.okta\.com/oauth2/\w+ \1/v1/keys", "http://localhost:8401/callback"),
    "Entra": (rf"{_ENTRA}/v2\.0 {_ENTRA}/discovery/v2\.0/keys", "http://localhost/callback"),
    "Keycloak": (r"https://[a-z.]+/realms/\w+ \1/protocol/openid-connect/certs", "http://127.0.0.1/callback"),
    "Identity Center": (rf"{_COGNITO} \1/\.well-known/jwks\.json", "http://127.0.0.1/callback"),
}
"""By recipe: issuer and address of its keys as its vendor documents them, and the command line's redirect address."""


def shown(heading: str, field: str) -> dict[str, Any]:
    """The block of a section that has the field."""
    (text,) = re.findall(rf"^#+ {heading}\n(.*?)(?=^#|\Z)", _PAGE, re.DOTALL | re.MULTILINE)
    (block,) = [
        each for each in map(json.loads, re.findall(r"^```json\n(.*?)^```", text, re.DOTALL | re.MULTILINE)) if field in each
    ]
    return dict(block)


def settings_of(parameters: dict[str, Any]) -> dict[str, Any]:
    """The settings of a stack whose stage file has the parameters."""
    texts = Stage(stack="s", parameters=parameters).parameters
    return {"auth": "jwt"} | {re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower(): texts[name] for name in texts if name != "JobUrl"}


def statuses_of(token: str) -> tuple[int, int]:
    return get("svc.a/run", headers=bearer(token)).status, post("svc.a/run", '"x"', bearer(token)).status


@pytest.mark.parametrize("recipe", RECIPES)
def test_token_of_a_recipe_may_do_what_its_policy_grants(recipe: str) -> None:
    parameters, claims = shown(recipe, "JwtIssuer"), {"aud": None} | shown(recipe, "iss")
    policy = shown(recipe if recipe == "Identity Center" else "Recipes for people", "principals")
    page, groups, issuer = parameters["Login"]["client_id"], parameters["JwtGroupsClaim"], Issuer()
    identity = {"aud": page} | ({"token_use": "id"} if "token_use" in claims else {})
    stranger = {"client_id": "other"} if claims["aud"] is None else {"aud": "other"}
    expected: dict[str, tuple[dict[str, Any], tuple[int, int]]] = {
        "as shown": ({}, (200, 403)),
        "an operator": ({groups: ["log-operators"]}, (200, 200)),
        "nobody's group": ({groups: ["other"]}, (403, 403)),
        "without groups": ({groups: None}, (403, 403)),
        "for another audience": (stranger, (401, 401)),
        "the ID token": (identity, (401, 401)),
        "of another issuer": ({"iss": claims["iss"] + "x"}, (401, 401)),
    }
    with installed(World(), keys=issuer.read, policy=lambda: json.dumps(policy), **settings_of(parameters)):
        statuses = {name: statuses_of(issuer.token(**claims | change)) for name, (change, _) in expected.items()}
    assert statuses == {name: status for name, (_, status) in expected.items()}


@pytest.mark.parametrize("recipe", RECIPES)
def test_parameters_of_a_recipe_are_the_templates_and_its_vendors(recipe: str) -> None:
    parameters, (addresses, redirect) = shown(recipe, "JwtIssuer"), RECIPES[recipe]
    template = (PROJECT / "infra" / "template.yaml").read_text()
    assert [name for name in parameters if not re.search(rf"^  {name}:$", template, re.MULTILINE)] == []
    issuer, keys = parameters["JwtIssuer"], parameters["JwtJwksUrl"]
    pattern_of_issuer, pattern_of_keys = addresses.split()
    assert re.fullmatch(pattern_of_issuer, issuer)
    assert re.fullmatch(pattern_of_keys.replace(r"\1", re.escape(issuer)), keys)
    with installed(World(), keys=Issuer().read, policy=lambda: "{}", **settings_of(parameters)):
        config = handled(event_of("GET", "/v1/ui/config")).json["login"]
    assert (config["issuer"], config["cliRedirect"]) == (issuer, redirect)
    assert shown(recipe, "iss")["iss"] == issuer


@pytest.mark.parametrize("recipe", ["Cognito", "Identity Center"])
def test_login_at_cognito_names_its_domain_and_no_scope_that_it_lacks(recipe: str) -> None:
    login = shown(recipe, "JwtIssuer")["Login"]
    assert [re.sub(r"^https://[a-z.0-9-]+(?=\.amazoncognito\.com$)", "", origin) for origin in login["origins"]] == [
        ".amazoncognito.com"
    ]
    assert "offline_access" not in login["scopes"]


def test_template_of_cognito_makes_what_its_recipe_needs() -> None:
    path = PROJECT / "infra" / "login-cognito.yaml"
    template, login = load(str(path)), shown("Cognito", "JwtIssuer")["Login"]
    resources, policy = template["Resources"], shown("Recipes for people", "principals")
    assert {each["Properties"]["GroupName"] for each in resources.values() if "GroupName" in each["Properties"]} == set(
        policy["groups"]
    )
    client = resources["Client"]["Properties"]
    assert (client["CallbackURLs"][0], client["AllowedOAuthScopes"]) == (login["cli_redirect"], [login["scopes"]])
    assert resources["Pool"]["Properties"]["AdminCreateUserConfig"] == {"AllowAdminCreateUserOnly": True}, (
        "strangers do not register"
    )
    assert {"JwtIssuer", "JwtJwksUrl", "JwtAudience"} <= template["Outputs"].keys() & generate.template()["Parameters"].keys()


def test_login_at_entra_requests_a_scope_of_the_audience() -> None:
    parameters = shown("Entra", "JwtIssuer")
    assert f"api://{parameters['JwtAudience']}/access" in parameters["Login"]["scopes"].split()
    clients = {parameters["Login"][name] for name in ("client_id", "cli_client_id")}
    assert parameters["JwtAudience"] not in clients


@pytest.mark.parametrize(
    ("section", "signer", "fqn", "expected"),
    [
        ("Jobs on AWS", f"{_STS}/etl/i-0abc", "nightly.orders", (200, 200)),
        ("Jobs on AWS", f"{_STS}/etl/i-0abc", "weekly.orders", (403, 403)),
        ("Jobs on AWS", f"{_STS}/etl-2/etl", "nightly.orders", (403, 403)),
        ("Identity Center", f"{_STS}/AWSReservedSSO_LogReader_1234567890abcdef/ann@example.com", "svc.a", (200, 403)),
        ("Identity Center", f"{_STS}/AWSReservedSSO_LogWriter_1234567890abcdef/ann@example.com", "svc.a", (403, 403)),
        ("Identity Center", f"{_STS}/etl/AWSReservedSSO_LogReader_1", "svc.a", (403, 403)),
    ],
)
def test_role_may_do_what_the_shown_policy_grants(section: str, signer: str, fqn: str, expected: tuple[int, int]) -> None:
    policy = shown(section, "principals")

    def answer(method: str, body: str | None = None) -> Answer:
        return url_call(method, f"{LOGS}/{fqn}/run", body, signer=signer)

    with installed(World(), policy=lambda: json.dumps(policy), auth="iam", policy_parameter="/policy"):
        assert (answer("GET").status, answer("POST", '"x"').status) == expected


def test_role_of_github_trusts_one_branch_of_one_repository() -> None:
    (statement,) = shown("GitHub Actions", "Statement")["Statement"]
    issuer = statement["Principal"]["Federated"].partition("oidc-provider/")[2]
    conditions = statement["Condition"]["StringEquals"]
    assert conditions.keys() == {f"{issuer}:aud", f"{issuer}:sub"}
    assert re.fullmatch(r"repo:\w+@\d+/\w+@\d+:ref:refs/heads/\w+", conditions[f"{issuer}:sub"])

"""Sources of grants (policy, SigV4 signatures), the gateway's authorizer, audit lines, and that each view checks permissions."""

from __future__ import annotations

import io
import json
import logging
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

import app
from chalicelib import composition, observability
from chalicelib.access import stale_if_error_cache
from chalicelib.access.grants import Scope
from chalicelib.errors import IdentityUnavailableError
from chalicelib.routes import authorizer, gate, logs, responses
from chalicelib.routes.api_request import ApiRequest
from tests.functional.gateway import LOGS, Answer, Context, call, event_of, get, handled, installed, post
from tests.issuer import JWT, Issuer, basic, bearer
from tests.world import World

ROLE = "arn:aws:sts::111122223333:assumed-role/sales-writer/session-1"
POLICY: dict[str, Any] = {
    "principals": {
        "bot-*": {"logs:write": ["svc.*"]},
        "bot-7": {"logs:read": ["svc.*"]},
        "arn:aws:sts::111122223333:assumed-role/sales-*": {"logs:read": ["svc.*"]},
    }
}


class Parameter:
    """A policy that can change and be unavailable."""

    def __init__(self) -> None:
        self.text, self.reads, self.away = json.dumps(POLICY), 0, False

    def read(self) -> str:
        self.reads += 1
        if self.away:
            raise IdentityUnavailableError("the parameter cannot be read")
        return self.text


@pytest.fixture
def issuer() -> Issuer:
    return Issuer()


@pytest.fixture
def parameter() -> Parameter:
    return Parameter()


@pytest.fixture
def world(issuer: Issuer, parameter: Parameter) -> Iterator[World]:
    with installed(World(), keys=issuer.read, policy=parameter.read, **JWT) as made:
        yield made


def test_the_policy_adds_to_what_the_token_says(world: World, issuer: Issuer) -> None:
    def statuses(token: str) -> tuple[int, int]:
        return post("svc.a/r", '"x"', bearer(token)).status, get("svc.a/r", headers=bearer(token)).status

    assert statuses(issuer.token("bot-1")) == (200, 403)
    assert statuses(issuer.token("bot-7")) == (200, 200)
    assert statuses(issuer.token("robot-1")) == (403, 403)
    assert statuses(issuer.granted("robot-1", logs_read=["svc.a"])) == (403, 200)


def test_policy_is_cached_and_served_stale_while_unavailable(world: World, issuer: Issuer, parameter: Parameter) -> None:
    token = bearer(issuer.token("bot-7", exp=2_000_000_000_000 // 1000 + 10**8))
    for _ in range(5):
        assert get("svc.a/r", headers=token).status == 200
    assert parameter.reads == 1
    parameter.text = json.dumps({"principals": {}})
    world.clock.advance(stale_if_error_cache.FRESH_MS / 1000)
    assert get("svc.a/r", headers=token).status == 403, "what was taken away"
    parameter.text = json.dumps(POLICY)
    world.clock.advance(stale_if_error_cache.FRESH_MS / 1000)
    assert get("svc.a/r", headers=token).status == 200
    parameter.away = True
    world.clock.advance(stale_if_error_cache.FRESH_MS / 1000)
    assert get("svc.a/r", headers=token).status == 200
    world.clock.advance(stale_if_error_cache.MAX_STALE_MS / 1000)
    assert get("svc.a/r", headers=token).status == 503


@pytest.mark.behavior("An invalid policy denies every request.")
@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"principals": []}', '{"principals": {}, "more": 1}', '{"principals": {"a": []}}', '{"principals": {"a": {"logs": ["*"]}}}',
     '{"principals": {"a": {"logs:read": "*"}}}', '{"principals": {"a": {"logs:read": [5]}}}', '{"principals": {"": {"logs:read": ["*"]}}}',
     "[" * 100_000],
)  # fmt: skip
def test_invalid_policy_denies_everyone(issuer: Issuer, text: str) -> None:
    with installed(World(), keys=issuer.read, policy=lambda: text, **JWT):
        assert get("svc.a/r", headers=bearer(issuer.granted(logs_read=["*"]))).status == 503


@pytest.mark.parametrize("denied", [{"subjects": ["bot-7"]}, {"token_ids": ["token-1"]}])
def test_denied_credentials_are_refused_whatever_they_grant(
    world: World, issuer: Issuer, parameter: Parameter, denied: dict[str, list[str]], caplog: pytest.LogCaptureFixture
) -> None:
    token = bearer(issuer.token("bot-7", jti="token-1", runlake={"logs:read": ["*"]}, exp=2_000_100_000))
    assert get("svc.a/r", headers=token).status == 200
    parameter.text = json.dumps(POLICY | {"denied": denied})
    world.clock.advance(stale_if_error_cache.FRESH_MS / 1000)
    answer = get("svc.a/r", headers=token)
    assert (answer.status, answer.json["message"]) == (401, "these credentials were revoked")
    line = [vars(each) for each in caplog.records if each.message == "access"][-1]
    assert (line["principal"], line["token_id"], line["outcome"]) == ("bot-7", "token-1", "refused")
    assert get("svc.a/r", headers=bearer(issuer.token("bot-70", jti="token-2", runlake={"logs:read": ["*"]}))).status == 200


# ---------------------------------------------------------------- signatures of AWS


def signed(method: str, path: str, user_arn: str | None, body: str | None = None, access_key: str = "AKIA1") -> Answer:
    event = event_of(method, f"{LOGS}/{path}", body)
    event["requestContext"]["identity"] |= {"userArn": user_arn, "accessKey": access_key}
    return handled(event)


def test_denied_role_or_access_key_is_refused_whatever_its_session(parameter: Parameter) -> None:
    role = ROLE.rpartition("/")[0]
    parameter.text = json.dumps(POLICY | {"denied": {"subjects": [role.replace("writer", "old")], "token_ids": ["AKIA9"]}})
    with installed(World(), policy=parameter.read, auth="iam", policy_parameter="/runlake/policy"):
        assert signed("GET", "svc.a/r", ROLE).status == 200
        assert signed("GET", "svc.a/r", ROLE, access_key="AKIA9").status == 401
        assert signed("GET", "svc.a/r", ROLE.replace("writer", "old")).status == 401


def test_session_name_that_looks_like_a_role_grants_nothing(parameter: Parameter) -> None:
    with installed(World(), policy=parameter.read, auth="iam", policy_parameter="/runlake/policy"):
        assert signed("GET", "svc.a/r", "arn:aws:sts::111122223333:assumed-role/x/sales-writer").status == 403


def test_a_role_has_what_the_policy_grants_it(parameter: Parameter) -> None:
    with installed(World(), policy=parameter.read, auth="iam", policy_parameter="/runlake/policy"):
        assert signed("GET", "svc.a/r", ROLE).status == 200
        assert signed("POST", "svc.a/r", ROLE, '"x"').status == 403
        assert signed("GET", "svc.a/r", ROLE.replace("sales", "hr")).status == 403
        assert signed("GET", "svc.a/r", ROLE.replace("111122223333", "999999999999")).status == 403


@pytest.mark.parametrize("arn", [None, ""])
def test_request_without_a_signature_is_denied(parameter: Parameter, issuer: Issuer, arn: str | None) -> None:
    with installed(World(), policy=parameter.read, auth="iam", policy_parameter="/runlake/policy"):
        answer = signed("GET", "svc.a/r", arn)
        assert (answer.status, answer.headers["WWW-Authenticate"]) == (401, 'AWS4-HMAC-SHA256 realm="runlake"')
        assert get("svc.a/r", headers=bearer(issuer.granted(logs_read=["*"]))).status == 401, "a token is no signature"


def test_headers_of_a_client_are_no_identity(parameter: Parameter) -> None:
    """Neither headers nor the context of an authorizer: only the gateway names the signer."""
    with installed(World(), policy=parameter.read, auth="iam", policy_parameter="/runlake/policy"):
        event = event_of("GET", f"{LOGS}/svc.a/r", headers={"userArn": ROLE, "X-Amz-User-Arn": ROLE, "X-Forwarded-User": ROLE})
        event["requestContext"]["authorizer"] = {"principalId": ROLE, "userArn": ROLE}
        assert handled(event).status == 401


def test_iam_needs_a_policy() -> None:
    with installed(World(), auth="iam"):
        assert signed("GET", "svc.a/r", ROLE).status == 500


# ---------------------------------------------------------------- the gateway's authorizer

STAGE_ARN = "arn:aws:execute-api:us-east-1:111122223333:api1/api"


def authorized(authorization: str, route: str = f"GET{LOGS}/svc.a/r") -> dict[str, Any]:
    event = {"type": "TOKEN", "authorizationToken": authorization, "methodArn": f"{STAGE_ARN}/{route}"}
    answer: dict[str, Any] = app.authorize(event, Context())
    return answer


@pytest.mark.parametrize("way", [bearer, basic])
def test_the_authorizers_answer_is_about_the_whole_api(world: World, issuer: Issuer, way: Any) -> None:
    """The gateway caches it by token, so it must not depend on the requested route."""
    answer = authorized(way(issuer.token("bot-1"))["Authorization"])
    assert answer["principalId"] == "bot-1"
    (statement,) = answer["policyDocument"]["Statement"]
    assert (statement["Effect"], statement["Resource"]) == ("Allow", [f"{STAGE_ARN}/*/*"])
    assert "eyJ" not in json.dumps(answer)


@pytest.mark.parametrize(
    ("route", "is_bare"),
    [("POST/v1/agents/firehose", True), ("POST/v1/agents/fluent", False), ("GET/v1/catalog", False)],
)
def test_authorizer_takes_a_bare_token_only_where_clients_cannot_send_another(
    world: World, issuer: Issuer, route: str, is_bare: bool
) -> None:
    token = issuer.token("bot-1")
    accepted, refused = (token, f"Bearer {token}") if is_bare else (f"Bearer {token}", token)
    assert authorized(accepted, route)["principalId"] == "bot-1"
    with pytest.raises(authorizer.Unauthorized):
        authorized(refused, route)


@pytest.mark.parametrize("authorization", ["", "Bearer x", "Basic x", "Bearer " + Issuer().token("bot-1")])
def test_authorizer_raises_the_error_that_the_gateway_turns_into_401(world: World, authorization: str) -> None:
    with pytest.raises(authorizer.Unauthorized, match=r"^Unauthorized$"):
        authorized(authorization)


def test_the_authorizer_needs_no_policy(world: World, issuer: Issuer, parameter: Parameter) -> None:
    """Its role may not read it."""
    parameter.away = True
    assert authorized(bearer(issuer.token("bot-1"))["Authorization"])["principalId"] == "bot-1"
    assert parameter.reads == 0


def test_authorizer_fails_if_keys_are_unavailable(world: World, issuer: Issuer) -> None:
    issuer.failure = IdentityUnavailableError("the issuer does not respond")
    with pytest.raises(IdentityUnavailableError):
        authorized(bearer(issuer.token("bot-1"))["Authorization"])


# ---------------------------------------------------------------- audit lines, and views that check nothing


@pytest.mark.behavior("Each decision of authorization is logged without the token.")
def test_each_decision_is_logged(world: World, issuer: Issuer, caplog: pytest.LogCaptureFixture) -> None:
    token = issuer.granted("me", logs_read=["svc.*"])
    get("svc.a/r", headers=bearer(token))
    post("svc.a/r", '"x"', bearer(token))
    get("svc.a/r", headers=bearer(Issuer().token("me")))
    told = [vars(each) for each in caplog.records if each.message == "access"]
    assert [tuple(each[name] for name in ("principal", "auth", "action", "resource", "outcome")) for each in told] == [
        ("me", "jwt", "logs:read", "svc.a", "allowed"),
        ("me", "jwt", "logs:write", "svc.a", "refused"),
        ("", "jwt", "GET /v1/services/ingestionPipelines/logs/{fqn}/{runId}", f"/api{LOGS}/svc.a/r", "refused"),
    ]
    assert token not in str(told)


def test_audit_lines_say_where_a_request_came_from_and_with_which_token(
    world: World, issuer: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    for token in (issuer.token("me", jti="id-1"), Issuer().token("me", jti="id-1")):
        event = event_of("GET", f"{LOGS}/svc.a/r", headers=bearer(token) | {"X-Forwarded-For": "10.0.0.1"})
        event["requestContext"]["identity"] = {"sourceIp": "203.0.113.7", "userAgent": "connector/1 " + "x" * 1000}
        handled(event)
    lines = [vars(each) for each in caplog.records if each.message == "access"]
    assert [each.get("token_id") for each in lines] == ["id-1", None], "the id of an invalid token is not trusted"
    assert {each["source_address"] for each in lines} == {"203.0.113.7"}
    assert {len(each["user_agent"]) for each in lines} == {256} and lines[0]["user_agent"].startswith("connector/1 ")


def test_refusals_of_the_authorizer_are_counted(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(authorizer.Unauthorized):
        authorized("Bearer x")
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines() if observability.ACCESS_REFUSED in line]
    assert [line[observability.ACCESS_REFUSED] for line in printed] == [[1.0]]


@pytest.mark.parametrize(
    "subject", ['me\n{"principal": "root"}', "a\u2028b\u2029c\x85", "\x00\x1b[2J\u202e", "lone \ud800", "🜨" * 200]
)
def test_each_subject_gives_one_audit_line(world: World, issuer: Issuer, subject: str) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    (handler,) = logging.getLogger("runlake-access").handlers
    old = handler.setStream(stream)  # type: ignore[attr-defined]
    try:
        get("svc%0A%7B%22outcome%22:%20%22allowed%22%7D/r", headers=bearer(issuer.granted(subject)))
    finally:
        handler.setStream(old)  # type: ignore[attr-defined]
    stream.seek(0)
    (line,) = stream.read().splitlines()
    told = json.loads(line)
    assert (told["outcome"], told["resource"], told["level"]) == ("refused", 'svc\n{"outcome": "allowed"}', "INFO")
    assert (told["principal"], told["request_id"]) == (subject, "request-1")


def test_decisions_are_logged_at_any_log_level() -> None:
    program = (
        "from chalicelib.observability import logger, report_decision\n"
        "report_decision(principal='p', kind='jwt', action='a', resource='r', allowed=True, reason='granted')\n"
        "logger.info('not this')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"POWERTOOLS_LOG_LEVEL": "ERROR"},
        capture_output=True,
        text=True,
        check=True,
    )
    (line,) = done.stdout.splitlines()
    assert json.loads(line)["message"] == "access"


@pytest.mark.parametrize("check", ["none", "of a scope that the operation does not declare", "of one of such scopes"])
def test_view_with_a_wrong_permission_check_answers_nothing(
    world: World, issuer: Issuer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, check: str
) -> None:
    """A new route whose view forgets the check, or whose row lacks the scope that the view requires."""

    def view(_: ApiRequest) -> Any:
        if check == "of one of such scopes":
            gate.require_any_scope("svc.a", Scope.LOGS_READ, Scope.ARCHIVE_READ)
        elif check != "none":
            gate.require_scope(Scope.ARCHIVE_READ, "svc.a")
        return responses.json_response({"secret": 1})

    monkeypatch.setattr(logs, "page", view)
    answer = get("svc.a/r", headers=bearer(issuer.granted("root", archive_read=["*"], logs_read=["*"])))
    assert (answer.status, "secret" in answer.body) == (500, False)
    assert ("add archive:read to the scopes of readLog in routes/operations.py" in caplog.text) == (check != "none")


@pytest.mark.parametrize("status", [200, 307, 308])
@pytest.mark.parametrize(("path", "view"), [(f"{LOGS}/svc.a/r", "logs.page"), ("/v0/archive/files/", "archive.list_files")])
def test_view_without_a_permission_check_answers_nothing_whatever_its_status(
    world: World, issuer: Issuer, monkeypatch: pytest.MonkeyPatch, path: str, view: str, status: int
) -> None:
    """A redirect may be a link to contents. Only the redirect to a trailing slash, which no view makes, needs no check."""
    monkeypatch.setattr(f"chalicelib.routes.{view}", lambda _: responses.json_response({}, status, Location="https://secret"))
    answer = call("GET", path, headers=bearer(issuer.token("bot-7")))
    assert (answer.status, "Location" in answer.headers) == (500, False)


@pytest.mark.parametrize("path", ["/api/v1/%65vents/svc.a/r", "/api/v1/%65vents/svc.a/r/", "/v1/%65vents/svc.a/r", "", "/"])
def test_path_that_is_not_below_its_route_is_of_no_public_operation(world: World, path: str) -> None:
    event = event_of("GET", "/v1/events/svc.a/r")
    event["requestContext"]["path"] = event["path"] = path
    assert handled(event).status == 401


def test_event_that_no_gateway_sends_is_an_error_in_the_envelope(world: World) -> None:
    event = event_of("GET", "/v1/configuration")
    event["requestContext"]["path"] = None
    answer = handled(event)
    assert (answer.status, answer.json["code"]) == (500, 500)


def test_requests_share_one_authenticator(world: World, issuer: Issuer) -> None:
    for _ in range(3):
        get("svc.a/r", headers=bearer(issuer.token("bot-7")))
    assert issuer.reads == 1
    assert composition.services().authenticator is composition.services().authenticator


def test_a_request_of_many_names_writes_few_audit_lines(world: World, issuer: Issuer, caplog: pytest.LogCaptureFixture) -> None:
    body = "".join(json.dumps({"message": "x", "runlake": {"fqn": f"v{n}", "run_id": "r"}}) + "\n" for n in range(200))
    token = issuer.granted("me", logs_write=["v1*"])
    answer = call("POST", "/v1/agents/logstash", body, bearer(token) | {"Content-Type": "application/x-ndjson"})
    assert answer.json["accepted"] == 111
    lines = [vars(each) for each in caplog.records if each.message == "access"]
    assert len(lines) == gate.MAX_LINES + 2
    outcomes = Counter[str]()
    for line in lines:
        outcomes[line["outcome"]] += line.get("count", 1)
    assert outcomes == {"allowed": 112, "refused": 89}, "the summaries count what the lines do not name"

"""The second entry: events of a function URL as AWS documents them, who signed them, and that no other function takes such an identity."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from typing import Any

import pytest

import app
from chalicelib.access import stale_if_error_cache
from chalicelib.errors import IdentityUnavailableError
from chalicelib.ports import Run
from chalicelib.routes.addresses import base_url
from chalicelib.routes.function_url import adapt
from tests.functional.gateway import LOGS, STAGE, URL_HOST, Context, event_of, handled, installed, url_call, url_event, url_handled
from tests.issuer import JWT, Issuer, bearer
from tests.world import World

STS = "arn:aws:sts::111122223333:assumed-role"
JOB = f"{STS}/etl/job-7"
EVERY_SESSION_CHARACTER = "aZ09_+=,.@-"
"""All that a session's name may have."""
POLICY: dict[str, Any] = {
    "principals": {
        f"{STS}/etl": {"logs:write": ["svc.*", "svc/*"], "logs:read": ["svc.*", "svc/*"]},
        f"{STS}/AWSReservedSSO_Analyst_*/ann@example.com": {"logs:read": ["svc.*"]},
        "etl": {"logs:read": ["*"]},
    },
    "denied": {"subjects": [f"{STS}/etl/stolen"], "token_ids": ["ASIA9"]},
}
SIGNED = {"auth": "iam", "policy_parameter": "/policy"}


@pytest.fixture
def world() -> Iterator[World]:
    with installed(World(), policy=lambda: json.dumps(POLICY), **SIGNED) as made:
        yield made


DOCUMENTED: dict[str, Any] = {
    "version": "2.0",
    "routeKey": "$default",
    "rawPath": "/api/v1/catalog",
    "rawQueryString": "parameter1=value1&parameter1=value2&parameter2=a%20b",
    "cookies": ["cookie1", "cookie2"],
    "headers": {"header1": "value1", "header2": "value1,value2"},
    "queryStringParameters": {"parameter1": "value1,value2", "parameter2": "a b"},
    "requestContext": {
        "accountId": "123456789012",
        "apiId": "<urlid>",
        "authentication": None,
        "authorizer": {
            "iam": {
                "accessKey": "AKIA1",
                "accountId": "111122223333",
                "callerId": "AIDA1",
                "cognitoIdentity": None,
                "principalOrgId": None,
                "userArn": "arn:aws:iam::111122223333:user/example-user",
                "userId": "AIDA1",
            }
        },
        "domainName": "<url-id>.lambda-url.us-west-2.on.aws",
        "domainPrefix": "<url-id>",
        "http": {"method": "POST", "path": "/my/path", "protocol": "HTTP/1.1", "sourceIp": "123.123.123.123", "userAgent": "agent"},
        "requestId": "id",
        "routeKey": "$default",
        "stage": "$default",
        "time": "12/Mar/2020:19:03:58 +0000",
        "timeEpoch": 1583348638390,
    },
    "body": "Hello from client!",
    "pathParameters": None,
    "isBase64Encoded": False,
    "stageVariables": None,
}
"""The event of AWS's developer guide, with a path of this API."""


def test_documented_event_is_adapted() -> None:
    request = adapt(DOCUMENTED, Context())
    assert (request.method, request.prefix, request.path, request.body) == ("POST", "/api", "/v1/catalog", "Hello from client!")
    assert request.query_values == {"parameter1": ["value1", "value2"], "parameter2": ["a b"]}
    assert (request.headers["Cookie"], request.headers["header2"]) == ("cookie1; cookie2", "value1,value2")
    assert request.domain == "<url-id>.lambda-url.us-west-2.on.aws"
    assert request.identity == {
        "userArn": "arn:aws:iam::111122223333:user/example-user",
        "accessKey": "AKIA1",
        "sourceIp": "123.123.123.123",
        "userAgent": "agent",
    }


@pytest.mark.behavior("A warm append behind the function URL is one PUT.")
def test_cookie_of_the_list_keeps_appends_warm(world: World) -> None:
    first = url_call("POST", f"{LOGS}/svc.a/r", "one\n", headers={"Content-Type": "text/plain"}, signer=JOB)
    assert "; Secure" in first.headers["Set-Cookie"]
    world.store.calls.clear()
    text = {"Content-Type": "text/plain"}
    assert url_call("POST", f"{LOGS}/svc.a/r", "two\n", headers=text, cookies=["a=b", first.cookie], signer=JOB).status == 200
    assert world.store.calls == {"put": 1}
    assert world.read_all(Run("svc.a", "r")) == ["one", "two"]


@pytest.mark.parametrize("prefix", ["/api", ""])
@pytest.mark.parametrize(
    ("fqn", "raw"),
    [("svc/a", "svc%2Fa"), ("svc/a", "svc/a"), ("svc.100%", "svc.100%25"), ("svc.%2F", "svc.%252F"), ("svc.a..b", "svc.a..b"),
     ("svc/../a", "svc%2F..%2Fa"), ("svc.ü +", "svc.%C3%BC%20+")],
)  # fmt: skip
def test_name_in_a_raw_path_is_decoded_once(world: World, prefix: str, fqn: str, raw: str) -> None:
    answer = url_handled(url_event("POST", f"{prefix}{LOGS}/{raw}/r", '"x"', signer=JOB))
    assert (answer.status, world.read_all(Run(fqn, "r"))) == (200, ["x"])


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (b"one\ntwo\n", {"Content-Type": "application/octet-stream"}),
        (gzip.compress(b"one\ntwo\n", mtime=0), {"Content-Type": "application/gzip"}),
        (gzip.compress(b"one\ntwo\n", mtime=0), {"Content-Type": "text/plain", "Content-Encoding": "gzip"}),
        (gzip.compress(b'{"logs": "one\\ntwo\\n"}', mtime=0), {"Content-Type": "application/json", "Content-Encoding": "gzip"}),
        ("one\ntwo\n", {"Content-Type": "text/plain"}),
        ('"one\\ntwo\\n"', {}),
    ],
)
def test_body_is_stored_as_it_was_sent(world: World, body: str | bytes, headers: dict[str, str]) -> None:
    assert url_call("POST", f"{LOGS}/svc.a/r", body, headers=headers, signer=JOB).status == 200
    assert world.read_all(Run("svc.a", "r")) == ["one", "two"]


def test_links_have_the_published_address() -> None:
    everything = {"principals": {f"{STS}/etl": {"archive:read": ["*"]}}}
    with installed(World(), policy=lambda: json.dumps(everything), **SIGNED):
        event = url_event("GET", "/v0/archive/files?what=x&work_id=w", signer=JOB)
        assert url_handled(event).headers["Location"] == "/api/v0/archive/files/?what=x&work_id=w"
    request = adapt(url_event("GET", "/v0/archive/", signer=JOB), Context())
    assert base_url(request) == f"https://{URL_HOST}/api"


@pytest.mark.parametrize(
    ("signer", "access_key", "status"),
    [
        (JOB, "ASIA1", 200),
        (f"{STS}/etl/{EVERY_SESSION_CHARACTER}", "ASIA1", 200),
        (f"{STS}/AWSReservedSSO_Analyst_0123456789abcdef/ann@example.com", "ASIA1", 200),
        (f"{STS}/AWSReservedSSO_Analyst_0123456789abcdef/bob@example.com", "ASIA1", 403),
        (f"{STS}/etl/stolen", "ASIA1", 401),
        (JOB, "ASIA9", 401),
        (f"{STS}/other/etl", "ASIA1", 403),
        (JOB.replace("111122223333", "999999999999"), "ASIA1", 403),
        ("arn:aws:iam::111122223333:role/etl", "ASIA1", 403),
        ("arn:aws:iam::111122223333:user/etl", "ASIA1", 403),
        ("", "", 401),
    ],
)
@pytest.mark.usefixtures("world")
def test_signer_has_what_the_policy_grants_its_role(signer: str, access_key: str, status: int) -> None:
    """A role that is named like a token's subject has nothing of the subject's."""
    assert url_call("GET", f"{LOGS}/svc.a/r", signer=signer, access_key=access_key).status == status


@pytest.mark.parametrize("headers", [{"Authorization": "Bearer x"}, {"X-Amz-Firehose-Access-Key": "x"}, {"X-Amz-User-Arn": JOB}])
@pytest.mark.usefixtures("world")
def test_only_the_signature_names_a_job(headers: dict[str, str], caplog: pytest.LogCaptureFixture) -> None:
    """A token beside it is not read: with both kinds of credentials the request is the signer's."""
    path = f"{LOGS}/svc.a/r"
    assert url_call("GET", path, headers=headers).status == 401
    assert url_call("GET", path, headers=headers, signer=JOB).status == 200
    line = [vars(each) for each in caplog.records if each.message == "access"][-1]
    assert (line["principal"], line["auth"], line["token_id"], line["source_address"]) == (JOB, "iam", "ASIA1", "203.0.113.7")


def test_repeated_request_stores_its_lines_once(world: World) -> None:
    """A signature can be replayed for some minutes: with a cookie or a key the repetition is the same append."""
    options: dict[str, Any] = {"headers": {"Content-Type": "text/plain", "Idempotency-Key": "k"}, "signer": JOB}
    for _ in range(2):
        assert url_call("POST", f"{LOGS}/svc.a/r", "one\n", **options).status == 200
    assert world.read_all(Run("svc.a", "r")) == ["one"]


def test_jobs_need_no_issuer() -> None:
    issuer = Issuer(failure=IdentityUnavailableError("the keys cannot be read"))
    with installed(World(), keys=issuer.read, policy=lambda: json.dumps(POLICY), **JWT | SIGNED):
        assert url_call("GET", f"{LOGS}/svc.a/r", signer=JOB).status == 200


def test_policy_that_is_away_denies_jobs_only_after_an_hour() -> None:
    world, text = World(), [json.dumps(POLICY)]
    with installed(world, policy=lambda: text[0], **SIGNED):
        for age_ms, status in ((0, 200), (stale_if_error_cache.FRESH_MS, 200), (stale_if_error_cache.MAX_STALE_MS, 503)):
            world.clock.advance(age_ms / 1000)
            assert url_call("GET", f"{LOGS}/svc.a/r", signer=JOB).status == status
            text[0] = "{"


# ---------------------------------------------------------------- events made up by callers of lambda:InvokeFunction


@pytest.mark.behavior("Only the function behind the URL takes the identity of a URL's event.")
@pytest.mark.parametrize("auth", ["jwt", "iam"])
def test_api_refuses_the_identity_of_a_url(auth: str) -> None:
    issuer = Issuer()
    options = {"keys": issuer.read, **JWT} if auth == "jwt" else {"policy": lambda: json.dumps(POLICY), **SIGNED}
    with installed(World(), **options):
        forged = url_event("GET", f"{STAGE}{LOGS}/svc.a/r", signer=JOB)
        assert app.app(forged, Context())["statusCode"] == 500
        event = event_of("GET", f"{LOGS}/svc.a/r")
        event["requestContext"]["authorizer"] = forged["requestContext"]["authorizer"]
        assert handled(event).status == 401


@pytest.mark.parametrize("function", ["ingest", "compact", "sweep", "pipelines", "authorize"])
@pytest.mark.usefixtures("world")
def test_other_functions_take_no_request(function: str) -> None:
    with pytest.raises((KeyError, AttributeError, TypeError)):
        getattr(app, function)(url_event("GET", f"{STAGE}{LOGS}/svc.a/r", signer=JOB), Context())


@pytest.mark.usefixtures("world")
def test_function_of_the_url_refuses_the_identity_of_a_gateway() -> None:
    event = event_of("GET", f"{LOGS}/svc.a/r")
    event["requestContext"]["identity"] |= {"userArn": JOB, "accessKey": "ASIA1"}
    assert url_handled(event).status == 500
    mixed = url_event("GET", f"{STAGE}{LOGS}/svc.a/r")
    mixed["requestContext"]["identity"] = {"userArn": JOB}
    assert url_handled(mixed).status == 401


# ---------------------------------------------------------------- grants match by kind


@pytest.mark.behavior("A token whose subject spells an ARN has nothing of the ARN's.")
@pytest.mark.parametrize("subject", [JOB, f"{STS}/etl", "etl"])
def test_token_never_has_the_grants_of_an_arn(subject: str) -> None:
    issuer = Issuer()
    with installed(World(), keys=issuer.read, policy=lambda: json.dumps(POLICY), **JWT):
        answer = handled(event_of("GET", f"{LOGS}/svc.a/r", headers=bearer(issuer.token(subject))))
        assert answer.status == (200 if subject == "etl" else 403)

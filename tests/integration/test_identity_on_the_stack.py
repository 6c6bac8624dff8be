"""Access on the deployed stack: tokens at the gateway's authorizer and in the function, the two unmodified clients with tokens, AWS
signatures, and jobs at the function URL of the same stage. The emulator runs the deployed authorizer as AWS does; it accepts signatures
without checking them, the address in front of its function URL does not."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from tests.functional.gateway import LOGS, event_of
from tests.integration.datalake.client import Datalake, fingerprint, wait_for
from tests.integration.openmetadata.test_unmodified_client import connector
from tests.integration.stacks import PATIENCE_S, Stack, running_stack, stack_with_tokens
from tests.issuer import EVERYTHING, Issuer, basic, bearer

POLICY = "/runlake/policy"
STS = "arn:aws:sts::000000000000:assumed-role"
JOBS = {"sales": "svc_sales.*", "hr": "svc_hr.*", "every": "*"}
"""Names that each role may write and read."""


@dataclass(frozen=True)
class Said:
    """A response of the API."""

    status: int
    body: str
    headers: dict[str, str]

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def ask(
    stack: Stack, method: str, path: str, headers: dict[str, str] | None = None, body: bytes | None = None, base: str = ""
) -> Said:
    """One request through the gateway, or to another address."""
    request = Request(
        (base or stack.api_url) + path, body, ({"Content-Type": "text/plain"} if body else {}) | (headers or {}), method=method
    )
    try:
        with urlopen(request, timeout=PATIENCE_S) as answer:
            return Said(answer.status, answer.read().decode(), dict(answer.headers))
    except HTTPError as error:
        with error:
            return Said(error.code, error.read().decode(), dict(error.headers))


@pytest.fixture(scope="module")
def issuer() -> Issuer:
    return Issuer("RS256")


@pytest.fixture(scope="module")
def asking(issuer: Issuer) -> Iterator[Stack]:
    """A stack that requires tokens, where people log in, with a function URL for jobs."""
    with stack_with_tokens(
        issuer, JwtLeewaySeconds="0", PolicyParameter=POLICY, JobUrl="iam", Login='{"client_id": "page"}'
    ) as stack:
        of_jobs = {f"{STS}/{role}": {"logs:write": [names], "logs:read": [names]} for role, names in JOBS.items()}
        policy = {"principals": {"bot-*": {"logs:write": ["svc_policy.*"]}} | of_jobs, "denied": {"subjects": [f"{STS}/*/stolen"]}}
        with closing(stack.client("ssm")) as ssm:
            ssm.put_parameter(Name=POLICY, Value=json.dumps(policy), Type="String", Overwrite=True)
        yield stack


def run_path(fqn: str, rest: str = "") -> str:
    return f"{LOGS}/{fqn}/{uuid.uuid4()}{rest}"


def test_the_gateway_turns_away_who_has_no_token_that_holds(asking: Stack, issuer: Issuer) -> None:
    path = run_path("svc.pipe")
    for headers in ({}, bearer("garbage"), bearer(Issuer("RS256").token()), bearer(issuer.token(aud="another"))):
        refused = ask(asking, "POST", path, headers, b"x\n")
        assert refused.status == 401, refused
        assert refused.json["code"] == 401 and refused.headers["WWW-Authenticate"] == 'Bearer realm="runlake"'
    assert ask(asking, "GET", "/v1/health").status == 200
    assert ask(asking, "GET", "/spec/").status == 200


def test_the_answer_that_the_gateway_keeps_is_not_about_the_path(asking: Stack, issuer: Issuer) -> None:
    """A token that was used for one pipeline is authorized separately for another."""
    token = bearer(issuer.granted("writer", logs_write=["svc_sales.*"]))
    assert ask(asking, "POST", run_path("svc_hr.etl"), token, b"x\n").status == 403
    assert ask(asking, "POST", run_path("svc_sales.etl"), token, b"x\n").status == 200
    refused = ask(asking, "POST", run_path("svc_hr.etl"), token, b"x\n")
    assert refused.status == 403 and "logs:write" in refused.json["message"]


def test_the_function_asks_by_itself(asking: Stack) -> None:
    """As if the gateway had no authorizer."""
    event = event_of("GET", f"{LOGS}/svc.pipe/run-1")
    event["requestContext"]["authorizer"] = {"principalId": "root"}
    with closing(asking.client("lambda")) as functions:
        answer = functions.invoke(FunctionName=asking["functions"]["api"], Payload=json.dumps(event))
        assert json.loads(answer["Payload"].read())["statusCode"] == 401


def test_a_token_that_expires_while_the_gateway_remembers_it_is_refused(asking: Stack, issuer: Issuer) -> None:
    path = f"{LOGS}/svc.pipe"
    token = bearer(issuer.token("short", exp=int(time.time()) + 4, runlake={"logs:read": ["*"]}))
    assert ask(asking, "GET", path, token).status == 200
    refused = wait_for(lambda: said if (said := ask(asking, "GET", path, token)).status != 200 else None, "the token's end")
    assert (refused.status, refused.json["message"]) == (401, "the token has expired: get another one")


def test_a_key_that_is_new_holds_at_once(asking: Stack, issuer: Issuer) -> None:
    path = f"{LOGS}/svc.pipe"
    assert ask(asking, "GET", path, bearer(issuer.granted(logs_read=["*"]))).status == 200
    issuer.add(f"key-{len(issuer.keys) + 1}")
    wait_for(
        lambda: True if ask(asking, "GET", path, bearer(issuer.granted(logs_read=["*"]))).status == 200 else None,
        "the new key to be read: not within 10 s of the last read",
    )


def test_the_policy_grants_what_the_token_does_not(asking: Stack, issuer: Issuer) -> None:
    assert ask(asking, "POST", run_path("svc_policy.etl"), bearer(issuer.token("bot-7")), b"x\n").status == 200
    assert ask(asking, "POST", run_path("svc_other.etl"), bearer(issuer.token("bot-7")), b"x\n").status == 403
    assert ask(asking, "POST", run_path("svc_policy.etl"), bearer(issuer.token("person")), b"x\n").status == 403


@pytest.mark.behavior("OpenMetadata's unmodified client works with a bearer token.")
def test_openmetadatas_own_client_with_its_bearer_token(asking: Stack, issuer: Issuer, tmp_path: Path) -> None:
    copy, run_id = tmp_path / "copy.log", str(uuid.uuid4())
    token = issuer.granted("ingestion-bot", logs_write=["mysql_prod.*"], logs_read=["mysql_prod.*"])
    counters = connector("work", asking.api_url, "mysql_prod.ingest", run_id, "--copy", str(copy), "--burst", "200", token=token)
    assert (counters["shipped_records"], counters["dropped_overflow"]) == (200 + 3 + 1, 0)
    log = ask(asking, "GET", f"{LOGS}/mysql_prod.ingest/{run_id}/download", bearer(token))
    assert log.body.startswith(copy.read_text(encoding="utf-8")) and log.body.count("\n") > 200
    assert connector("call", asking.api_url, "mysql_prod.ingest", run_id, "--limit", "1", token=token)


def test_openmetadatas_own_client_is_refused_another_pipeline(asking: Stack, issuer: Issuer) -> None:
    run_id = str(uuid.uuid4())
    token = issuer.granted("ingestion-bot", logs_write=["mysql_prod.*"])
    assert not connector("call", asking.api_url, "postgres.ingest", run_id, "--method", "append", text="x\n", token=token)
    seen = ask(asking, "GET", f"{LOGS}/postgres.ingest/{run_id}", bearer(issuer.granted("root", **EVERYTHING)))
    assert seen.json["total"] == 0


@pytest.mark.behavior("The unmodified datalake client works with a token in a netrc file.")
def test_the_datalakes_own_client_with_a_netrc(asking: Stack, issuer: Issuer, tmp_path: Path) -> None:
    """push, list across pages, fetch by HTTP, latest, and the log of a run, with the credentials that requests reads for the host."""
    home = tmp_path / "home"
    home.mkdir()
    datalake, what = Datalake(asking, home), f"what-{uuid.uuid4().hex[:8]}"
    host = urlsplit(asking.api_url).hostname
    token = issuer.granted("lake", archive_read=["what-*"], logs_read=["svc_lake.*"], logs_write=["svc_lake.*"])
    netrc = home / ".netrc"
    netrc.write_text(f"machine {host}\nlogin datalake\npassword {token}\n")
    netrc.chmod(0o600)
    path = tmp_path / "some.log"
    path.write_bytes(b"line\n" * 10)
    times = {"start": "2026-11-21T00:00Z", "end": "2026-11-21T01:00Z"}
    url = datalake.push(path, what=what, where="web", **times)
    listed = wait_for(lambda: datalake.listing(what, where="web", **times) or None, "the file to be listed")
    assert listed == [url]
    http_url = datalake.http_url(url)
    assert datalake.call("fetch", urls=[http_url])[0]["contents"] == [fingerprint(path.read_bytes())] * 3
    assert datalake.run("latest", what, "web").strip() == url

    run_id = str(uuid.uuid4())
    assert ask(asking, "POST", f"{LOGS}/svc_lake.etl/{run_id}", basic(token), b"hello\n").status == 200
    assert ask(asking, "POST", f"{LOGS}/svc_lake.etl/{run_id}/close", basic(token)).status == 200
    logs = wait_for(lambda: datalake.listing("svc_lake_etl", work_id=run_id) or None, "the log to be listed")
    assert datalake.call("fetch", urls=logs)[0]["contents"] == [fingerprint(b"hello\n")] * 3

    netrc.write_text(f"machine {host}\nlogin datalake\npassword {issuer.granted('lake', archive_read=['other-*'])}\n")
    assert datalake.listing(what, where="web", **times) == [], "what may not be read is not listed"
    netrc.unlink()
    refused = datalake.attempt("list", what, *("--start", times["start"], "--end", times["end"]))
    assert refused.code != 0 and "401" in refused.error


def test_each_decision_is_in_the_log_and_no_token_is(asking: Stack, issuer: Issuer) -> None:
    token = issuer.granted("auditor", logs_read=["svc_audit.*"])
    path = run_path("svc_audit.etl")
    assert ask(asking, "GET", path, bearer(token)).status == 200

    def line() -> str | None:
        with closing(asking.client("logs")) as logs:
            lines = logs.filter_log_events(logGroupName=f"/aws/lambda/{asking['functions']['api']}")["events"]
        assert not any(token.rpartition(".")[2] in each["message"] for each in lines)
        return next((each["message"] for each in lines if '"auditor"' in each["message"]), None)

    told = json.loads(wait_for(line, "the decision's line"))
    assert (told["principal"], told["action"], told["resource"], told["outcome"]) == (
        "auditor",
        "logs:read",
        "svc_audit.etl",
        "allowed",
    )


# ---------------------------------------------------------------- signatures of AWS


@pytest.fixture(scope="module")
def signed() -> Iterator[Stack]:
    """A stack that requires signatures."""
    with running_stack(Auth="iam", PolicyParameter=POLICY) as stack:
        policy = {"principals": {"arn:aws:iam::*:user/sales-*": {"logs:write": ["svc_sales.*"], "logs:read": ["svc_sales.*"]}}}
        with closing(stack.client("ssm")) as ssm:
            ssm.put_parameter(Name=POLICY, Value=json.dumps(policy), Type="String", Overwrite=True)
        yield stack


def signature(stack: Stack, method: str, path: str, body: bytes, key: Credentials) -> dict[str, str]:
    """Headers of a request signed by botocore."""
    request = AWSRequest(method, stack.api_url + path, data=body, headers={"Content-Type": "text/plain"})
    SigV4Auth(key, "execute-api", stack["region"]).add_auth(request)
    return dict(request.headers)


@pytest.mark.behavior("An IAM role has the permissions that the policy grants it.")
def test_a_role_of_iam_does_what_the_policy_grants_it(signed: Stack) -> None:
    with closing(signed.client("iam")) as iam:
        iam.create_user(UserName="sales-7")
        made = iam.create_access_key(UserName="sales-7")["AccessKey"]
    key = Credentials(made["AccessKeyId"], made["SecretAccessKey"])
    for fqn, status in (("svc_sales.etl", 200), ("svc_hr.etl", 403)):
        path = run_path(fqn)
        assert ask(signed, "POST", path, signature(signed, "POST", path, b"x\n", key), b"x\n").status == status
    unsigned = ask(signed, "POST", run_path("svc_sales.etl"), {}, b"x\n")
    assert unsigned.status in (401, 404) and unsigned.json["code"] == unsigned.status
    assert ask(signed, "GET", "/v1/health").status == 200


# ---------------------------------------------------------------- jobs at the function URL


def session(stack: Stack, role: str, name: str) -> Credentials:
    """Temporary credentials of a role, whose path its ARN loses."""
    with closing(stack.client("sts")) as sts:
        made = sts.assume_role(RoleArn=f"arn:aws:iam::000000000000:role/jobs/{role}", RoleSessionName=name)["Credentials"]
    return Credentials(made["AccessKeyId"], made["SecretAccessKey"], made["SessionToken"])


def job(
    stack: Stack, key: Credentials, method: str, path: str, body: bytes = b"", scope: tuple[str, str] = ("lambda", "us-east-1"),
    base: str = "", **changed: str,
) -> Said:  # fmt: skip
    """A request that botocore signs. ``changed``: headers, with _ for -, that are other than signed."""
    request = AWSRequest(method, stack["job_url"] + path, data=body, headers={"Content-Type": "text/plain"} if body else {})
    SigV4Auth(key, *scope).add_auth(request)
    headers = dict(request.headers) | {name.replace("_", "-"): value for name, value in changed.items()}
    return ask(stack, method, path, headers, body or None, base or stack["job_url"])


@pytest.mark.behavior("Jobs sign with their IAM roles and people send tokens in one stage.")
def test_jobs_of_three_roles_and_a_person_share_a_stage(asking: Stack, issuer: Issuer) -> None:
    people = bearer(issuer.granted("person", logs_read=["*"]))

    for role, names in JOBS.items():
        key, run = session(asking, role, "job-1"), uuid.uuid4()
        for name in ("svc_sales", "svc_hr"):
            path, may = f"{LOGS}/{name}.a%2Fb%25..c/{run}", names in (f"{name}.*", "*")
            assert job(asking, key, "POST", path, b"one\n").status == (200 if may else 403)
            assert job(asking, key, "GET", path).status == (200 if may else 403)
            read = ask(asking, "GET", path, people)
            assert (read.status, read.json.get("logs", "")) == (200, "one" if may else ""), (role, name)
    assert ask(asking, "GET", f"{LOGS}/svc.a/r", {"Authorization": "AWS4-HMAC-SHA256 x"}).status == 401, "tokens alone at the API"
    assert job(asking, session(asking, "every", "stolen"), "GET", f"{LOGS}/svc.a/r").status == 401
    assert job(asking, session(asking, "another", "every"), "GET", f"{LOGS}/svc.a/r").status == 403


def test_wrong_signatures_that_the_emulator_admits_are_refused(asking: Stack) -> None:
    """Its own function URL calls the function for each of them."""
    key, other = session(asking, "sales", "me"), session(asking, "hr", "me")
    with closing(asking.client("lambda")) as functions:
        url: str = functions.get_function_url_config(FunctionName=asking["functions"]["job_api"])["FunctionUrl"]
    emulated = f"{asking['aws_endpoint_url']}/_aws/lambda-url/{urlsplit(url).netloc.partition('.')[0]}/api"
    bad = Credentials(key.access_key, "guess", key.token)
    wrong: list[tuple[Credentials, str, dict[str, Any]]] = [
        (bad, "/v1/health", {}),
        (Credentials("AKIAUNKNOWN", "x"), "/v1/health", {}),
        (Credentials(key.access_key, key.secret_key), "/v1/health", {}),
        (Credentials(key.access_key, key.secret_key, other.token), "/v1/health", {}),
        (key, "/v1/health", {"scope": ("execute-api", "us-east-1")}),
        (key, "/v1/health", {"scope": ("lambda", "eu-west-1")}),
        (key, "/v1/health", {"X_Amz_Date": "20200101T000000Z"}),
        (key, "/v1/health", {"X_Amz_Content_SHA256": "0" * 64}),
        (key, "/v1/health", {"X_Amz_Security_Token": other.token}),
        (key, "/v1/health", {"X_Amz_User_Arn": f"{STS}/every/me"}),
        (key, "/v1/health", {"Authorization": "AWS4-HMAC-SHA256 x"}),
    ]
    for credentials, path, options in wrong:
        assert job(asking, credentials, "GET", path, base=emulated, **options).status == 200
        refused = job(asking, credentials, "GET", path, **options)
        assert refused.status == 403 and refused.json.keys() == {"Message"}, options
    assert job(asking, key, "GET", "/v1/health").status == 200


def test_firehose_shows_its_token_in_a_header_of_its_own(asking: Stack, issuer: Issuer) -> None:
    """It cannot send another: its path has an authorizer that reads this header."""
    token = bearer(issuer.granted("firehose", logs_write=["svc_sales.*"]))["Authorization"].removeprefix("Bearer ")
    attributes = {"commonAttributes": {"runlake.fqn": "svc_sales.etl", "runlake.run_id": uuid.uuid4().hex}}
    named = {"Content-Type": "application/json", "X-Amz-Firehose-Common-Attributes": json.dumps(attributes)}
    body = b'{"requestId": "r-1", "records": [{"data": "b25l"}]}'

    def deliver(path: str, key: str) -> Said:
        return ask(asking, "POST", path, named | {"X-Amz-Firehose-Access-Key": key}, body)

    assert deliver("/v1/agents/firehose", token).status == 200
    assert deliver("/v1/agents/firehose", Issuer("RS256").token()).status == 401
    assert ask(asking, "POST", "/v1/agents/firehose", named, body).status == 401
    assert deliver("/v1/agents/fluent", token).status == 401, "nobody else's"

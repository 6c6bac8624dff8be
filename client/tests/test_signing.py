"""Signed requests: checked by the rules that AWS publishes, by its vectors, and by botocore's signer; credentials of every source."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import sys
import time
from calendar import timegm
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials, SSOProvider
from botocore.tokens import SSOTokenProvider
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

import runlake
from client.tests.aws_sources import Sources, aws_sources
from client.tests.dead_programs import leave
from client.tests.fake_server import FakeServer
from client.tests.sigv4 import Front
from runlake import AccessError, Archive, RunlakeError, RunName, Settings, SettingsError, UnavailableError, credentials
from runlake.__main__ import runlake as command_line
from runlake.credentials import Keys
from runlake.errors import AddressError, NotFoundError
from runlake.settings import load_settings
from runlake.signing import Signer, is_function_url, scope_of, signature_headers

_AKID, _SECRET = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
_NOW_S = timegm((2015, 8, 30, 12, 36, 0))
_HOST = {"host": "example.amazonaws.com"}
_UNRESERVED = "-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_TOKEN = "6e86291e8372ff2a2260956d9b8aae1d763fbf315fa00fa31553b73ebf194267"
_FORM_BODY = b"Param1=value1"
_FORM = {
    "content-length": "13",
    "content-type": "application/x-www-form-urlencoded",
    "x-amz-content-sha256": hashlib.sha256(_FORM_BODY).hexdigest(),
}
URL = "https://abc.lambda-url.eu-central-1.on.aws/api"
REST = "https://abc.execute-api.eu-central-1.amazonaws.com/api"


@pytest.fixture(autouse=True)
def _no_credentials_of_the_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in {
        "AWS_CONFIG_FILE": str(tmp_path / "aws"), "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "aws-credentials"),
        "AWS_EC2_METADATA_DISABLED": "true", "AWS_REGION": "eu-central-1", "HOME": str(tmp_path),
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    for provider in (SSOProvider, SSOTokenProvider):  # their folder is that of the home of the process
        monkeypatch.setattr(provider, "_SSO_TOKEN_CACHE_DIR", str(tmp_path / "sso"))
    credentials._chains.clear()
    yield
    credentials._chains.clear()


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", _AKID)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", _SECRET)


@pytest.fixture
def signed(server: FakeServer, settings: Settings, keys: None) -> Settings:
    """Settings for a server that takes signed requests only."""
    server.front = Front()
    return Settings(url=settings.url, spool_dir=settings.spool_dir, timeout_s=5, exit_s=30, interval_s=0.01, auth="iam")


# Of AWS's test suite (awslabs/aws-c-auth); percent-encoded: of the SDK for Kotlin; query-plus: of the SDK for Rust. Not those of a service
# whose paths are encoded once, nor those of paths that no HTTP client sends. Name, request, signature.
VECTORS = f"""
get-vanilla                        GET /                            5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31
get-slash-normalized               GET //                           5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31
get-slashes-normalized             GET //example//                  9a624bd73a37c9a373b5312afbebe7a714a789de108f0bdfe846570885f57e84
get-unreserved                     GET /{_UNRESERVED}               07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f
get-percent-encoded                GET /foo/bar/baz%3Cqux%3Aquux    64ee2b4fb5e80890c58f8ccc1221231f3e3a556ba0f9c485d32bb2742a74e8ac
get-query-plus                     GET /?c+d                        ae684ce3aadc299e3ac7d9216fcc039c7edf40dea57cf5b3005821dd2f176654
get-vanilla-empty-query-key        GET /?Param1=value1              a67d582fa61cc504c4bae71f336f98b97f1ea3c7a6bfe1b6e45aec72011b9aeb
get-vanilla-query-order-key-case   GET /?Param2=value2&Param1=value1 b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500
get-vanilla-query-order-encoded    GET /?Param-3=Value3&Param=Value2&%E1%88%B4=Value1 371d3713e185cc334048618a97f809c9ffe339c62934c032af5a0e595648fcac
get-vanilla-query-unreserved       GET /?{_UNRESERVED}={_UNRESERVED} 9c3e54bfcdf0b19771a7f523ee5669cdf59bc7cc0884027167c21bb143a40197
get-vanilla-utf8-query             GET /?%E1%88%B4=bar              2cdec8eed098649ff3a119c94853b13c643bcf08f8b0a1d91e12c9027818dd04
get-vanilla-with-session-token     GET /                            07ec1639c89043aa0e3e2de82b96708f198cceab042d4a97044c66dd9f74e7f8
get-header-value-trim              GET /                            acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736
get-header-value-order             GET /                            08c7e5a9acfcfeb3ab6b2185e75ce8b1deb5e634ec47601a50643f830c755c01
post-vanilla                       POST /                           5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b
post-vanilla-query                 POST /?Param1=value1             28038455d6de14eafc1f9222cf5aa6f1a96197d7deb8263271d420d138af7f11
post-x-www-form-urlencoded         POST /                           d3875051da38690788ef43de4db0d8f280229d82040bfac253562e56c3f20e0b
post-x-www-form-urlencoded-parameters POST /                        328d1b9eaadca9f5818ef05e8392801e091653bafec24fcab71e7344e7f51422
"""
HEADERS = {
    "get-header-value-trim": {"my-header1": " value1", "my-header2": ' "a   b   c"'},
    "get-header-value-order": {"my-header1": "value4,value1,value3,value2"},
    "post-x-www-form-urlencoded": _FORM,
    "post-x-www-form-urlencoded-parameters": {**_FORM, "content-type": "application/x-www-form-urlencoded; charset=utf-8"},
}


@pytest.mark.parametrize(("name", "method", "target", "signature"), [row.split() for row in VECTORS.strip().splitlines()])
def test_vector_of_aws(name: str, method: str, target: str, signature: str) -> None:
    headers, body = {**_HOST, **HEADERS.get(name, {})}, _FORM_BODY if name.startswith("post-x") else b""
    keys = Keys(_AKID, _SECRET, _TOKEN if name.endswith("token") else "")
    added = signature_headers(method, target, headers, body, keys=keys, scope=("us-east-1", "service"), now_s=_NOW_S)
    assert added["authorization"].rpartition("=")[2] == signature
    front = Front("service", "us-east-1", tokens={_AKID: keys.session_token})
    assert front.refusal(method, target, {**headers, **added}, body, _NOW_S) == ""


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"method": "GET"}, "signature we calculated"),
        ({"target": "/v1/a%2Fb?x=2"}, "signature we calculated"),
        ({"target": "/v1/a/b?x=1"}, "signature we calculated"),
        ({"body": b"other"}, "signature we calculated"),
        ({"host": "other.amazonaws.com"}, "signature we calculated"),
        ({"x-amz-date": "20150830T123559Z"}, "signature we calculated"),
        ({"x-amz-security-token": "other"}, "token included in the request is invalid"),
        ({"x-amz-meta": "unsigned"}, "must be signed"),
        ({"authorization": ""}, "Missing Authentication Token"),
        ({"now_s": _NOW_S + 301}, "Signature expired: 20150830T123600Z"),
        ({"now_s": _NOW_S - 301}, "Signature not yet current: 20150830T123600Z"),
    ],
)
def test_changed_request_is_refused(change: dict[str, str], message: str) -> None:
    request: dict[str, object] = {"method": "POST", "target": "/v1/a%2Fb?x=1", "body": b"line\n", "now_s": _NOW_S}
    keys, scope = Keys(_AKID, _SECRET, _TOKEN), ("us-east-1", "lambda")
    headers = {**_HOST, **signature_headers("POST", "/v1/a%2Fb?x=1", _HOST, b"line\n", keys=keys, scope=scope, now_s=_NOW_S)}
    for name, value in change.items():
        (request if name in request else headers)[name] = value
    front = Front("lambda", "us-east-1", tokens={_AKID: _TOKEN})
    assert message in front.refusal(headers=headers, **request)  # type: ignore[arg-type]


def recorded(url: str = URL.replace("//", "//user:password@"), clock_s: float = _NOW_S) -> tuple[Archive, list[httpx.Request]]:
    """An archive whose requests are recorded, and answered with ``{}``."""
    requests: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        return httpx.Response(200, json={"files": [], "cursor": None, "position": "p"})

    return Archive(url, transport=httpx.MockTransport(answer), signer=Signer(url, lambda: clock_s)), requests


_NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)


@given(fqn=_NAMES, run_id=_NAMES, prefix=_NAMES)
def test_any_name_is_sent_as_it_is_signed(fqn: str, run_id: str, prefix: str) -> None:
    archive, requests = recorded()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(credentials.Chain, "keys", lambda _: Keys(_AKID, _SECRET))
        archive.append(RunName(fqn, run_id), b"packed", "position")
        list(archive.pipeline_files(prefix=prefix, app="a b+c", empty=""))
    for request in requests:
        target, headers = request.url.raw_path.decode(), {name.lower(): value for name, value in request.headers.items()}
        assert "+" not in target
        assert Front("lambda").refusal(request.method, target, headers, request.content, _NOW_S) == ""
        assert headers["authorization"].endswith(signature_of_botocore(request))


def signature_of_botocore(request: httpx.Request) -> str:
    signer = SigV4Auth(Credentials(_AKID, _SECRET), "lambda", "eu-central-1")
    names = request.headers["authorization"].partition("SignedHeaders=")[2].partition(",")[0].split(";")
    same = AWSRequest(request.method, str(request.url), {name: request.headers[name] for name in names}, request.content)
    same.context["timestamp"] = request.headers["x-amz-date"]
    return str(signer.signature(signer.string_to_sign(same, signer.canonical_request(same)), same))


@pytest.mark.parametrize("fqn", ["shop/orders", "100%", "a..b", "../x", "%2F", "ä ö+~", "a:b@c!$&'()*,;=[x]"])
def test_name_arrives_over_a_signed_connection(fqn: str, server: FakeServer, signed: Settings) -> None:
    with runlake.run(fqn, "r", settings=signed) as run:
        run.write("stored")
    assert server.lines(fqn, "r") == [b"stored"] and server.runs[fqn, "r"].closed
    assert server.front and len(server.front.accepted) == len(server.requests)


@pytest.mark.parametrize(
    ("url", "scope", "is_url"),
    [
        (URL, ("eu-central-1", "lambda"), True),
        ("https://ABC.lambda-url.us-gov-west-1.ON.AWS/", ("us-gov-west-1", "lambda"), True),
        ("http://abc.lambda-url.us-east-1.localhost:4566", ("us-east-1", "lambda"), False),
        ("https://abc.execute-api.eu-west-3.amazonaws.com/api", ("eu-west-3", "execute-api"), False),
        ("https://vpce-1.execute-api.eu-west-3.vpce.amazonaws.com/api", ("eu-west-3", "execute-api"), False),
        ("https://abc.execute-api.cn-north-1.amazonaws.com.cn/api", ("cn-north-1", "execute-api"), False),
        ("https://logs.example.com/api", ("", "execute-api"), False),
        ("http://127.0.0.1:4580/api", ("", "lambda"), False),
        ("https://lambda-url.eu-west-1.on.aws.example.com", ("eu-west-1", "lambda"), False),
        ("https://[x", ("", "execute-api"), False),
    ],
)
def test_address_decides_what_is_signed(url: str, scope: tuple[str, str], is_url: bool) -> None:
    assert scope_of(url) == scope
    assert is_function_url(url) == is_url == bool(Settings().signer(url))
    assert Settings(auth="iam").signer(url) and not Settings(auth="token").signer(url)


_EXPIRED = "The security token included in the request is expired"
_DENIED = "User: arn:aws:sts::1:assumed-role/a/b is not authorized to perform: execute-api:Invoke on resource: x"


@pytest.mark.parametrize(
    ("url", "answer", "error", "following"),
    [
        (
            URL,
            {"Message": "Forbidden"},
            "AWS does not let these credentials call the function URL: Forbidden credentials=env",
            "attach the policy of the stack's output JobUrlPolicyArn",
        ),
        (
            URL,
            {"Message": "Forbidden. For troubleshooting Function URL authorization issues, see: https://x"},
            "AWS does not let",
            "attach",
        ),
        (
            URL,
            {"message": _EXPIRED},
            f"the AWS credentials have expired: {_EXPIRED} credentials=env",
            "start the program again with new variables",
        ),
        (
            URL,
            {"message": "The security token included in the request is invalid."},
            "AWS does not know the credentials",
            "sts get-caller-identity",
        ),
        (
            URL,
            {"message": "The request signature we calculated does not match the signature you provided."},
            "AWS refuses the signature",
            "AWS_SECRET_ACCESS_KEY, or the proxy",
        ),
        (
            URL,
            {"message": "Signature expired: A is now earlier than B (C - 5 min.)"},
            "this machine's clock is wrong: Signature expired: A",
            "set the clock",
        ),
        (URL, {"message": "Signature not yet current: A is still later than B"}, "this machine's clock is wrong", "set the clock"),
        (
            URL,
            {"message": "Credential should be scoped to a valid region."},
            "AWS refuses the signature",
            "correct AWS_REGION, or the url",
        ),
        (
            REST,
            {"message": _DENIED},
            f"AWS does not let these credentials call the API: {_DENIED}",
            "allow the role execute-api:Invoke",
        ),
        (
            REST,
            {"code": 403, "message": "not permitted: scope logs:read is required"},
            "not permitted: scope logs:read",
            "grant the scope to this role in the policy",
        ),
        (
            URL,
            {"code": 403, "message": "not permitted: scope logs:read is required"},
            "not permitted: scope logs:read",
            "grant the scope to this role in the policy",
        ),
    ],
)
def test_refusal_has_a_next_step(url: str, answer: dict[str, str], error: str, following: str, keys: None) -> None:
    transport = httpx.MockTransport(lambda _: httpx.Response(403, json=answer))
    with Archive(url, transport=transport, signer=Signer(url)) as archive:
        with pytest.raises(AccessError) as caught:
            archive.newest_run("p")
        assert archive.located(caught.value) is caught.value
    assert str(caught.value).startswith(error) and following in caught.value.next_step and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("AWS_ACCESS_KEY_ID", each) for each in ("AKI\u00a0", "AKIé", "AKI A", "AKI\nX-A: b", "AKI\udc80")),
        *(("AWS_SECRET_ACCESS_KEY", each) for each in ("s\u2013", "s\r", "\udc80")),
        *(("AWS_SESSION_TOKEN", each) for each in ("é", "a\r\nb: c", "\udc80")),
        *(("AWS_REGION", each) for each in ("eu-wést-1", "eu west 1", "\udc80", "a/b")),
    ],
)
def test_credentials_that_no_header_can_have_are_a_setting(
    name: str, value: str, keys: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    transport = httpx.MockTransport(lambda _: pytest.fail("it is sent"))
    archive = Archive("http://127.0.0.1:1", transport=transport, signer=Signer("http://127.0.0.1:1"))
    with archive, pytest.raises(SettingsError, match=r"the AWS credentials are|the region of AWS has") as caught:
        archive.newest_run("p")
    assert "\n" not in str(caught.value) and caught.value.next_step


def test_refusal_of_another_server_is_one_of_the_address(keys: None) -> None:
    transport = httpx.MockTransport(lambda _: httpx.Response(403, json={"error": "not here"}))
    with Archive(URL, transport=transport, signer=Signer(URL)) as archive:
        with pytest.raises(AccessError) as caught:
            archive.newest_run("p")
        assert isinstance(archive.located(caught.value), AddressError)


@pytest.mark.parametrize(
    ("status", "message"),
    [(404, "no such path; or no signature, where one is asked for"), (403, "Missing Authentication Token")],
)
def test_unsigned_request_names_the_option(status: int, message: str, server: FakeServer) -> None:
    server.replacement, server.replacement_status = json.dumps({"message": message}).encode(), status
    server.is_foreign = True
    with Archive(server.url) as archive, pytest.raises((NotFoundError, AccessError)) as caught:
        archive.newest_run("p")
    with Archive(server.url) as archive:
        error = archive.located(caught.value)
    assert isinstance(error, AddressError) and "--auth iam" in error.next_step


@pytest.mark.parametrize(
    "date",
    ["", "x", "Fri, 01 Jan 99999 00:00:00 GMT", f"Fri, 01 Jan {'9' * 20} 00:00:00 GMT", f"Thu, 01 Jan 2026 00:00:00 +{'9' * 24}",
     f"Thu, 01 Jan 2026 00:00:00 -{'9' * 24}"],
)  # fmt: skip
def test_answer_without_a_possible_date_is_a_refusal(date: str, keys: None) -> None:
    refused = httpx.Response(403, json={"message": "Signature expired: A"}, headers={"date": date})
    archive = Archive(URL, transport=httpx.MockTransport(lambda _: refused), signer=Signer(URL))
    with archive, pytest.raises(AccessError, match="clock is wrong"):
        archive.newest_run("p")


@pytest.mark.parametrize("off_s", [-3600.0, 86_400.0])
def test_wrong_clock_is_corrected_by_the_answer(off_s: float, server: FakeServer, signed: Settings) -> None:
    server.add("p", "r", b"one\n")
    with Archive(server.url, signer=Signer(server.url, lambda: time.time() + off_s)) as archive:
        assert archive.newest_run("p").run_id == "r"
        assert archive.page(RunName("p", "r")).lines == ["one"]
        assert len(server.requests) == 3, "the first one was refused"


@pytest.fixture
def sources() -> Iterator[Sources]:
    with aws_sources() as running:
        yield running


def front_of(*keys: str) -> Front:
    return Front(secrets={key: f"{key}-secret" for key in keys}, tokens={key: f"{key}-token" for key in keys})


_SSO = """[profile people]
region = eu-central-1
sso_session = org
sso_account_id = 111122223333
sso_role_name = reader
[sso-session org]
sso_region = eu-central-1
sso_start_url = https://example.awsapps.com/start
"""


def sign_in(tmp_path: Path, sources: Sources) -> dict[str, str]:
    """As ``aws sso login`` leaves it."""
    (tmp_path / "aws").write_text(_SSO)
    cached = tmp_path / "sso" / f"{hashlib.sha1(b'org').hexdigest()}.json"
    cached.parent.mkdir(parents=True)
    cached.write_text(
        json.dumps({"accessToken": "x", "expiresAt": "2999-01-01T00:00:00Z", "startUrl": "u", "region": "eu-central-1"})
    )
    return {"AWS_PROFILE": "people", "AWS_ENDPOINT_URL_SSO": sources.url}


def environment_of(source: str, tmp_path: Path, sources: Sources) -> dict[str, str]:
    """What a program has whose credentials are of this source."""
    token = tmp_path / "token"
    token.write_text("a token of the cluster")
    if source == "iam-role":
        return {"AWS_EC2_METADATA_DISABLED": "false", "AWS_EC2_METADATA_SERVICE_ENDPOINT": sources.url}
    if source == "container-role":
        return {"AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{sources.url}/creds", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": str(token)}
    if source == "assume-role-with-web-identity":
        role = {"AWS_ROLE_ARN": "arn:aws:iam::111122223333:role/orders-writer", "AWS_WEB_IDENTITY_TOKEN_FILE": str(token)}
        return {**role, "AWS_ENDPOINT_URL_STS": sources.url}
    if source == "sso":
        return sign_in(tmp_path, sources)
    found = {"aws_access_key_id": "AKFIRST", "aws_secret_access_key": "AKFIRST-secret", "aws_session_token": "AKFIRST-token"}
    if source == "env":
        return {name.upper(): value for name, value in found.items()}
    text = "[jobs]\n" + "".join(f"{name} = {value}\n" for name, value in found.items())
    (tmp_path / "aws-credentials").write_text(text)
    return {"AWS_PROFILE": "jobs"}


@pytest.mark.parametrize(
    "source", ["env", "shared-credentials-file", "sso", "assume-role-with-web-identity", "container-role", "iam-role"]
)
def test_credentials_of_each_source_sign(
    source: str, server: FakeServer, sources: Sources, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.front = front_of("AKFIRST")
    server.add("p", "r", b"one\n")
    for name, value in environment_of(source, tmp_path, sources).items():
        monkeypatch.setenv(name, value)
    with Archive.of(Settings(url=server.url, auth="iam")) as archive, Archive.of(Settings(url=server.url, auth="iam")) as second:
        assert [each.newest_run("p").run_id for each in (archive, second)] == ["r", "r"]
    assert credentials.chain_of_process().source == source
    assert len(sources.asked) == (source not in ("env", "shared-credentials-file")), "they are read once in a process"


@pytest.mark.parametrize(
    ("valid_s", "refused"), [(60.0, ()), (3600.0, ("AKFIRST",))], ids=["before they expire", "after a refusal since they expired"]
)
def test_credentials_are_renewed(
    valid_s: float, refused: tuple[str, ...], server: FakeServer, sources: Sources, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources.keys, sources.valid_s = ["AKFIRST", "AKSECOND"], valid_s
    server.front = front_of("AKFIRST", "AKSECOND")
    server.front.expired |= set(refused)
    for name, value in environment_of("container-role", tmp_path, sources).items():
        monkeypatch.setenv(name, value)
    spool = str(tmp_path / "spool")
    with runlake.run("p", "r", url=server.url, auth="iam", spool_dir=spool) as run:
        run.write("stored")
    assert server.lines("p", "r") == [b"stored"]
    assert set(server.front.accepted) == {"AKSECOND"}
    assert len(server.requests) == len(server.front.accepted) + len(refused), "one request was refused, and sent once more"


def test_expired_credentials_are_sent_twice_at_most(server: FakeServer, signed: Settings) -> None:
    assert server.front is not None
    server.front.expired.add(_AKID)
    with Archive.of(signed) as archive, pytest.raises(AccessError, match="the AWS credentials have expired"):
        archive.newest_run("p")
    assert len(server.requests) == 1, "the same credentials would be refused again"


def called(server: FakeServer, environ: dict[str, str], *arguments: str) -> Result:
    credentials._chains.clear()
    return CliRunner().invoke(command_line, ["--url", server.url, "--auth", "iam", *arguments], env=environ)


UNREADABLE = "the AWS credentials cannot be read"


@pytest.mark.parametrize(
    ("environ", "file", "error", "following"),
    [
        (
            {},
            "",
            "requests to this address are signed, and there are no AWS credentials",
            "give the job a role, or run `aws sso login` and set AWS_PROFILE",
        ),
        (
            {"AWS_ACCESS_KEY_ID": "A"},
            "",
            f"{UNREADABLE}: Partial credentials found in env, missing: AWS_SECRET_ACCESS_KEY",
            "check them: `aws sts",
        ),
        ({"AWS_PROFILE": "none"}, "", f"{UNREADABLE}: The config profile (none) could not be found", "correct AWS_PROFILE"),
        ({"AWS_PROFILE": "people"}, _SSO, f"{UNREADABLE}: Error loading SSO Token", "run `aws sso login`"),
        (
            {"AWS_PROFILE": "x"},
            "[profile x]\ncredential_process = sh -c 'echo no >&2; exit 1'",
            f"{UNREADABLE}: Error when retrieving credentials from custom-process",
            "check them",
        ),
        (
            {"AWS_ACCESS_KEY_ID": _AKID, "AWS_SECRET_ACCESS_KEY": _SECRET, "AWS_REGION": ""},
            "",
            "requests to this address are signed for a region, and none is set",
            "set AWS_REGION",
        ),
    ],
)
def test_missing_credentials_are_one_line_with_a_next_step(
    environ: dict[str, str], file: str, error: str, following: str, server: FakeServer, tmp_path: Path
) -> None:
    (tmp_path / "aws").write_text(file)
    result = called(server, environ, "runs")
    first, second = result.stderr.splitlines()
    assert result.exit_code == 2 and result.stdout == "" and server.requests == []
    assert first.startswith(f"runlake: {error}") and second.startswith(f"next: {following}")


@pytest.mark.parametrize(
    ("answer", "error", "kind"),
    [
        (
            (400, "ExpiredTokenException"),
            "(ExpiredTokenException) when calling the AssumeRoleWithWebIdentity operation: the token is refused",
            SettingsError,
        ),
        ((503, "ServiceUnavailable"), "(ServiceUnavailable)", UnavailableError),
        (None, "Could not connect", UnavailableError),
    ],
)
def test_source_that_refuses_or_is_away(
    answer: tuple[int, str] | None,
    error: str,
    kind: type[RunlakeError],
    sources: Sources,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in environment_of("assume-role-with-web-identity", tmp_path, sources).items():
        monkeypatch.setenv(name, value)
    if answer is None:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", "http://127.0.0.1:1")
    sources.error = answer
    monkeypatch.setattr(time, "sleep", lambda _: None)
    with Archive(URL, signer=Signer(URL)) as archive, pytest.raises(kind) as caught:
        archive.newest_run("p")
    assert str(caught.value).startswith(UNREADABLE) and error in str(caught.value) and "\n" not in str(caught.value)
    following = "check them: `aws sts" if kind is SettingsError else "repeat it, or check the way"
    assert caught.value.next_step.startswith(following)


def test_missing_extra_is_one_line(server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "botocore.session", None)
    assert called(server, {}, "runs").stderr.splitlines()[1] == "next: run `pip install botocore`, with the Python of this command"


def test_lines_without_credentials_wait_for_a_signed_drain(
    server: FakeServer, signed: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave(signed.spool_root, server.url)
    environ = {"RUNLAKE_SPOOL_DIR": signed.spool_dir, "RUNLAKE_AUTH": "iam", "RUNLAKE_URL": "https://elsewhere/api"}
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    assert CliRunner().invoke(command_line, ["drain"], env=environ).exit_code == 1
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", _AKID)
    credentials._chains.clear()
    assert CliRunner().invoke(command_line, ["drain"], env=environ).exit_code == 0
    assert server.lines("p", "r") == [b"one"]


@pytest.mark.parametrize(
    "command",
    [
        "runs", "pipelines", "tail p r", "tail -f p r", "cat p r", "grep one p", "grep -l one p --runs 2", "why p r", "steps p r",
        "events p r", "status p r", "download p r -o {folder}", "files push {file} --what w --where h --start 2026-11-21",
        "files list w --start 2026-11-21", "close p r", "exec p --run-id new -- echo", "delete p r --yes", "completion bash",
    ],
)  # fmt: skip
def test_all_requests_of_a_command_are_signed(command: str, server: FakeServer, signed: Settings, tmp_path: Path) -> None:
    server.add("p", "r", b"one\n", close=True)
    (tmp_path / "file").write_bytes(b"content")
    (tmp_path / "folder").mkdir()
    words = [word.format(file=tmp_path / "file", folder=tmp_path / "folder") for word in command.split()]
    result = called(server, {"RUNLAKE_SPOOL_DIR": signed.spool_dir}, *words)
    assert result.exit_code == (1 if words[0] == "why" else 0), result.output
    sent = [path for _, path, _ in server.requests if "/store/" not in path]
    assert server.front and len(server.front.accepted) == len(sent) >= (words[0] != "completion")


def test_missing_permission_is_one_line_of_exec(server: FakeServer, signed: Settings) -> None:
    server.front = Front(forbidden={_AKID})
    result = called(
        server, {"RUNLAKE_SPOOL_DIR": signed.spool_dir}, "exec", "--run-id", "r", "--patience", "9", "p", "--", "echo", "x"
    )
    assert result.exit_code == 0, "that of the command"
    first, second = result.stderr.splitlines()
    assert first.startswith(
        "runlake: p/r: AWS does not let these credentials call the function URL: Forbidden credentials=env (attach"
    )
    assert "2 lines of p/r wait in" in second


def test_forked_process_signs(server: FakeServer, signed: Settings) -> None:
    with runlake.run("p", "r", settings=signed) as run:
        run.write("of the parent")
        run.handler.flush()
        child = multiprocessing.get_context("fork").Process(target=run.write, args=("of the child",))
        child.start()
        child.join(30)
    assert server.lines("p", "r") == [b"of the parent", b"of the child"]
    assert server.front and len(server.front.accepted) == len(server.requests)


def test_links_of_the_store_have_no_credentials(server: FakeServer, signed: Settings, tmp_path: Path) -> None:
    server.add("p", "r", b"one\n" * 1000, close=True)
    server.links_above_bytes = 100
    assert called(server, {}, "download", "p", "r", "-o", str(tmp_path / "log")).exit_code == 0
    assert (tmp_path / "log").read_bytes() == b"one\n" * 1000


TWO = """
[profiles.jobs]
url = "https://abc.lambda-url.eu-central-1.on.aws/api"
page_url = "https://logs.example.com/api/"
[profiles.iam]
url = "https://abc.execute-api.eu-central-1.amazonaws.com/api"
auth = "iam"
token = "of-the-file"
"""
UNSENT = f"the token (environment) is not sent to {URL}: requests are signed, since it is a function URL"
UNSENT_OF_FILE = f"the token (FILE [profiles.iam]) is not sent to {REST}: requests are signed, since auth is iam"
OF_ANOTHER = f"the token of the profile 'iam' is not sent to https://other/api: it belongs to {REST}"


@pytest.mark.parametrize(
    ("arguments", "environ", "is_signed", "page", "notices"),
    [
        ({"profile": "jobs"}, {}, True, "https://logs.example.com/api", []),
        ({"profile": "jobs"}, {"TOKEN": "x"}, True, "https://logs.example.com/api", [UNSENT]),
        ({"profile": "jobs", "auth": "token"}, {}, False, "https://logs.example.com/api", []),
        ({"profile": "jobs", "url": "https://other/api"}, {}, False, "https://other/api", []),
        ({"profile": "iam"}, {}, True, "", [UNSENT_OF_FILE]),
        ({"profile": "iam", "auth": "token"}, {}, False, REST, []),
        ({"profile": "iam", "url": "https://other/api"}, {}, False, "https://other/api", [OF_ANOTHER]),
        ({"url": "https://other/api"}, {"AUTH": "iam"}, True, "", []),
    ],
)
def test_credentials_and_page_belong_to_an_address(
    arguments: dict[str, str], environ: dict[str, str], is_signed: bool, page: str, notices: list[str], tmp_path: Path
) -> None:
    path = tmp_path / "config.toml"
    path.write_text(TWO)
    path.chmod(0o600)
    settings = load_settings(
        arguments, {"RUNLAKE_CONFIG": str(path), **{f"RUNLAKE_{name}": value for name, value in environ.items()}}
    )
    assert bool(settings.signer(settings.url)) == is_signed and settings.page_address() == page
    assert [each.replace(str(path), "FILE") for each in settings.notices] == notices


def test_page_is_opened_at_its_own_address(server: FakeServer, signed: Settings) -> None:
    server.add("p", "r", b"one\n")
    opened = called(server, {"RUNLAKE_PAGE_URL": "https://logs.example.com/api"}, "open", "p", "r", "--print")
    assert opened.stdout == "https://logs.example.com/api/v1/ui/?p=p&r=r\n"
    assert "next: set page_url to the stack's output ApiUrl" in called(server, {}, "open", "p", "r", "--print").stderr
    wrong = called(server, {"RUNLAKE_PAGE_URL": "logs.example.com"}, "open", "--print")
    assert "the page's address has no scheme" in wrong.stderr

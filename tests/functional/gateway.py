"""The two entries for tests: requests come to the functions as from API Gateway, or as from a function URL."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from urllib.parse import parse_qs

from chalice.local import RouteMatcher
from pydantic import SecretStr

import app
from chalicelib import composition
from chalicelib.catalog.runs import RunCatalog
from chalicelib.ports import Database, ObjectStore, Publisher, Workers
from chalicelib.settings import Settings
from tests.support.run_catalog import InMemoryRunCatalog
from tests.world import World

LOGS = "/v1/services/ingestionPipelines/logs"
STAGE = "/api"
_ROUTES = RouteMatcher(list(app.app.routes))


@dataclass
class Context:
    """Lambda's context object."""

    remaining_ms: int = 29_000
    aws_request_id: str = "request-1"
    function_name: str = "runlake-api"

    def get_remaining_time_in_millis(self) -> int:
        return self.remaining_ms


@dataclass
class Answer:
    """The function's response."""

    status: int
    body: str
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def cookie(self) -> str:
        """The cookie that a cookie jar would send back."""
        return self.headers["Set-Cookie"].partition(";")[0]


def event_of(
    method: str,
    url: str,
    body: str | bytes | None = None,
    headers: dict[str, str] | None = None,
    prefix: str = STAGE,
) -> dict[str, Any]:
    """A REST API's event. Bytes are in base64, as for a binary media type; the path is as the client sent it, with or without a trailing
    slash, while the resource never has one. ``prefix``: of the stage or a custom domain, or empty."""
    path, _, query = url.partition("?")
    found = _ROUTES.match_route(path)
    values = parse_qs(query, keep_blank_values=True)
    given = headers or {}
    return {
        "resource": found.route,
        "path": path,
        "httpMethod": method,
        "headers": given,
        "multiValueHeaders": {name: [value] for name, value in given.items()},
        "queryStringParameters": {name: value[-1] for name, value in values.items()} or None,
        "multiValueQueryStringParameters": values or None,
        "pathParameters": found.captured,
        "stageVariables": None,
        "requestContext": {
            "httpMethod": method,
            "resourcePath": found.route,
            "path": prefix + path,
            "stage": "api",
            "requestId": "request-1",
            "identity": {"sourceIp": "127.0.0.1"},
        },
        "body": base64.b64encode(body).decode() if isinstance(body, bytes) else body,
        "isBase64Encoded": isinstance(body, bytes),
    }


def call(
    method: str,
    url: str,
    body: str | bytes | None = None,
    headers: dict[str, str] | None = None,
    context: Context | None = None,
    prefix: str = STAGE,
) -> Answer:
    """Call the function. Its response must be valid for a gateway: JSON or text, no base64."""
    return handled(event_of(method, url, body, headers, prefix), context)


def handled(event: dict[str, Any], context: Context | None = None) -> Answer:
    """Call the function with a given event."""
    answer = app.app(event, context or Context())
    assert json.loads(json.dumps(answer)) == answer
    assert not answer.get("isBase64Encoded")
    return Answer(answer["statusCode"], answer["body"], answer["headers"])


URL_HOST = "abcdefghijklmnopqrstuvwxyz012345.lambda-url.eu-west-1.on.aws"


def url_event(
    method: str,
    url: str,
    body: str | bytes | None = None,
    headers: dict[str, str] | None = None,
    cookies: Sequence[str] = (),
    signer: str = "",
    access_key: str = "ASIA1",
) -> dict[str, Any]:
    """A function URL's event, with the fields that AWS documents for ``AuthType: AWS_IAM``. ``url``: raw path and query; ``signer``: the
    ARN of the verified signature, empty without one."""
    path, _, query = url.partition("?")
    http = {"method": method, "path": path, "protocol": "HTTP/1.1", "sourceIp": "203.0.113.7", "userAgent": "agent/1"}
    event: dict[str, Any] = {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": path,
        "rawQueryString": query,
        "headers": {"host": URL_HOST, "x-forwarded-proto": "https"}
        | {name.lower(): each for name, each in (headers or {}).items()},
        "requestContext": {
            "accountId": "111122223333",
            "apiId": URL_HOST.partition(".")[0],
            "domainName": URL_HOST,
            "domainPrefix": URL_HOST.partition(".")[0],
            "http": http,
            "requestId": "request-1",
            "routeKey": "$default",
            "stage": "$default",
            "time": "12/Mar/2026:19:03:58 +0000",
            "timeEpoch": 1773342238000,
        },
        "isBase64Encoded": isinstance(body, bytes),
    }
    if signer:
        event["requestContext"]["authorizer"] = {
            "iam": {
                "accessKey": access_key,
                "accountId": "111122223333",
                "callerId": "AROA1:session",
                "cognitoIdentity": None,
                "principalOrgId": "o-1",
                "userArn": signer,
                "userId": "AROA1:session",
            }
        }
    if body is not None:
        event["body"] = base64.b64encode(body).decode() if isinstance(body, bytes) else body
    return event | ({"cookies": list(cookies)} if cookies else {})


def url_handled(event: dict[str, Any]) -> Answer:
    """Call the function behind the URL with a given event."""
    answer = app.job_api(event, Context())
    assert json.loads(json.dumps(answer)) == answer and answer["isBase64Encoded"] is False
    headers = answer["headers"] | ({"Set-Cookie": answer["cookies"][0]} if "cookies" in answer else {})
    return Answer(answer["statusCode"], answer["body"], headers)


def url_call(method: str, url: str, body: str | bytes | None = None, **options: Any) -> Answer:
    """Call the function behind the URL; ``options`` are those of ``url_event``."""
    return url_handled(url_event(method, f"{STAGE}{url}", body, **options))


def get(url: str, **options: Any) -> Answer:
    """GET below ``logs/``."""
    return call("GET", f"{LOGS}/{url}", **options)


def post(url: str, body: str | bytes | None = None, headers: dict[str, str] | None = None, **options: Any) -> Answer:
    """POST below ``logs/``."""
    return call("POST", f"{LOGS}/{url}", body, headers, **options)


@cache
def _settings(_environ: frozenset[tuple[str, str]], given: frozenset[tuple[str, type, Hashable]]) -> Settings:
    """Immutable, so tests with the same settings and environment share them: to build them takes 5 ms."""
    keys = SecretStr("0123456789abcdef")
    values: dict[str, Any] = {"bucket_name": "bucket", "archive_bucket_name": "archive"} | {name: value for name, _, value in given}
    return Settings(position_keys=keys, **values)


@contextmanager
def installed(
    world: World,
    store: ObjectStore | None = None,
    runs: RunCatalog | None = None,
    archive_store: ObjectStore | None = None,
    publisher: Publisher | None = None,
    database: Database | None = None,
    workers: Workers | None = None,
    keys: Callable[[], bytes] | Mapping[str, Callable[[], bytes]] | None = None,
    policy: Callable[[], str] | None = None,
    is_emulated: bool = True,
    **given: Any,
) -> Iterator[World]:
    """Serve a world in memory in this process; ``given`` are settings. Authentication is disabled by default. ``keys``: of the
    only issuer, or by the URLs of several."""
    values = {"auth": "none"} | given
    settings = _settings(frozenset(os.environ.items()), frozenset((name, type(each), each) for name, each in values.items()))
    ports = composition.Ports(
        store=store or world.store,
        archive_store=archive_store or world.archive_store,
        index=world.index,
        runs=runs or InMemoryRunCatalog(),
        database=database or world.database,
        publisher=publisher,
        clock=world.clock,
        work_sources=world.work_sources,
        workers=workers,
        keys=None if keys is None else lambda url: (keys[url] if isinstance(keys, Mapping) else keys)(),
        policy=policy,
        is_emulated=is_emulated,
    )
    composition.install(composition.assemble(settings, ports))
    try:
        yield world
    finally:
        composition.install(None)

"""Invalid names and parameters on every operation: rejected as the client's error, never as a failure of the service.

A 503 means "try again": a client with a name that no key can contain would retry forever.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from chalicelib.routes.budgets import BUDGETS
from chalicelib.routes.openapi import document
from tests.functional.gateway import Answer, event_of, handled, installed, post
from tests.functional.test_http_pipeline_files import write
from tests.world import World

NAMES = {"fqn": "svc.p", "runId": "r1", "source": "compaction", "id": "0" * 32, "what": "a", "where": "b", "index": "logs"}
OTHERS = {"writer": "w1", "start": "a1", "step": "s1", "name": "runlake", "file": "x.js"}
NEEDED = {
    "/v1/pipeline-files": {"namespace": "svc", "app": "flow"},
    "/v0/archive/files": {"what": "a", "start": "0", "end": "1"},
    "/v1/catalog/pipelines/{fqn}/runs/{runId}/grep": {"q": "a"},
}
"""Without these other parameters are not looked at."""
VALUES = {
    "long": "x" * 3000, "long encoded": "é" * 1500, "just a key": "x" * 1000, "surrogate": "\ud800", "within": "a\udfffb",
    "control": "\x00", "many": "9" * 3000,
}  # fmt: skip
_FORGED = {"X-Forwarded-Proto": "https", "Content-Type": "application/json", "X-Runlake-Fqn": "svc.p", "X-Runlake-Run-Id": "r1"}


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with installed(World()) as world:
        write(world, 1)
        assert post("svc.p/r1", '"one\\n"').status == 200
        yield world


def sent(method: str, path: str, query: Mapping[str, str], raw: tuple[str, str] | None = None) -> Answer:
    """Send a request with values as decoded by a gateway. ``raw``: the path segments of placeholders."""
    event = event_of(method, path, "{}" if method in ("POST", "PATCH") else None, _FORGED)
    event["multiValueQueryStringParameters"] = {name: [value] for name, value in query.items()} or None
    event["queryStringParameters"] = dict(query) or None
    if raw:
        text: Any = event["requestContext"]
        text["path"], event["path"] = (each.replace(*raw) for each in (text["path"], event["path"]))
        event["pathParameters"] = {name: value.replace(*raw) for name, value in (event["pathParameters"] or {}).items()}
    return handled(event)


def filled(template: str) -> str:
    return re.sub(r"{(\w+)}", lambda found: (NAMES | OTHERS)[found[1]], template)


def parameters() -> Iterator[tuple[str, str, str]]:
    """Method, path and name of each query parameter."""
    schema = document("https://h")
    for path, operations in schema["paths"].items():
        for method, operation in operations.items():
            if method == "parameters":
                continue
            for each in (*operations.get("parameters", ()), *operation.get("parameters", ())):
                if "$ref" in each:
                    each = schema["components"]["parameters"][each["$ref"].rpartition("/")[2]]
                if each["in"] == "query":
                    yield method.upper(), path, each["name"]


def assert_no_trouble(answer: Answer, about: object) -> None:
    assert answer.status < 500, (about, answer.status, answer.body[:200])
    assert "Retry-After" not in answer.headers


PARAMETERS = sorted(set(parameters()))


def test_all_parameters_are_found() -> None:
    assert {("GET", "/v1/pipeline-files", "base"), ("DELETE", "/v1/pipeline-files", "fqn")} <= set(PARAMETERS)
    assert len(PARAMETERS) > 50


@pytest.mark.parametrize(("method", "path", "name"), PARAMETERS)
def test_query_parameter_is_taken_or_refused(world: World, method: str, path: str, name: str) -> None:
    for kind, value in VALUES.items():
        answer = sent(method, filled(path), NEEDED.get(path, {}) | {name: value})
        assert_no_trouble(answer, (method, path, name, kind))
        if kind in ("surrogate", "within"):
            assert answer.status == 400, (method, path, name, answer.status)


@pytest.mark.parametrize(("method", "path"), sorted(BUDGETS))
def test_name_of_a_path_is_taken_or_refused(world: World, method: str, path: str) -> None:
    for name in re.findall(r"{(\w+)}", path):
        for kind, value in VALUES.items():
            about = (method, path, name, kind)
            url = filled(path.replace(f"{{{name}}}", "PLACE"))
            answer = sent(method, url, NEEDED.get(path, {}), ("PLACE", value))
            assert_no_trouble(answer, about)
            if kind in ("long", "long encoded", "surrogate", "within") and name in ("fqn", "runId"):
                assert answer.status == 400, about


@pytest.mark.parametrize(("method", "path"), sorted(each for each in BUDGETS if "{fqn}" in each[1]))
def test_name_of_about_the_longest_that_a_key_holds(world: World, method: str, path: str) -> None:
    for size in (*range(940, 1010), *range(1010, 1030, 3)):
        answer = sent(method, filled(path.replace("{fqn}", "PLACE")), NEEDED.get(path, {}), ("PLACE", "x" * size))
        assert_no_trouble(answer, (method, path, size))

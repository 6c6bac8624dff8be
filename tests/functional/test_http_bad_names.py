"""Invalid names and parameters on every operation: rejected as the client's error, never as a failure of the service.

A 503 means "try again": a client with a name that no key can contain would retry forever.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from chalicelib.routes.openapi import document
from tests.functional.gateway import Answer, event_of, handled, installed, post
from tests.support.samples import FQN, NAMED, ROWS, RUN_ID, SAMPLES, Sample, operations
from tests.world import World

VALUES = {
    "long": "x" * 3000, "long encoded": "é" * 1500, "just a key": "x" * 1000, "surrogate": "\ud800", "within": "a\udfffb",
    "control": "\x00", "many": "9" * 3000,
}  # fmt: skip


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with installed(World()) as world:
        assert post(f"{FQN}/{RUN_ID}", '"one\\n"').status == 200
        for prepare in {each.needs: None for each in ROWS}:
            prepare(world)
        yield world


def sent(sample: Sample, query: Mapping[str, str], raw: Mapping[str, str] | None = None) -> Answer:
    """Send a request with values as decoded by a gateway: parameters of the query, and names of the path."""
    event: Any = event_of(
        sample.method, sample.path_with(**dict.fromkeys(raw or {}, "PLACE")), sample.body, sample.all_headers() | NAMED
    )
    values = {**sample.query, **query}
    event["multiValueQueryStringParameters"] = {name: [value] for name, value in values.items()} or None
    event["queryStringParameters"] = values or None
    for value in (raw or {}).values():
        context = event["requestContext"]
        context["path"], event["path"] = (each["path"].replace("PLACE", value) for each in (context, event))
        event["pathParameters"] = {name: each.replace("PLACE", value) for name, each in (event["pathParameters"] or {}).items()}
    return handled(event)


def parameters() -> Iterator[tuple[str, str, str]]:
    """Method, path and name of each query parameter."""
    shared = document("https://h")["components"]["parameters"]
    for (method, path), operation in operations().items():
        for each in operation.get("parameters", ()):
            named = shared[each["$ref"].rpartition("/")[2]] if "$ref" in each else each
            if named["in"] == "query":
                yield method, path, named["name"]


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
        answer = sent(SAMPLES[method, path], {name: value})
        assert_no_trouble(answer, (method, path, name, kind))
        if kind in ("surrogate", "within"):
            assert answer.status == 400, (method, path, name, answer.status)


@pytest.mark.parametrize(("method", "path"), sorted(SAMPLES))
def test_name_of_a_path_is_taken_or_refused(world: World, method: str, path: str) -> None:
    for name in re.findall(r"{(\w+)}", path):
        for kind, value in VALUES.items():
            about = (method, path, name, kind)
            answer = sent(SAMPLES[method, path], {}, {name: value})
            assert_no_trouble(answer, about)
            if kind in ("surrogate", "within") or (kind in ("long", "long encoded") and name in ("fqn", "runId")):
                assert answer.status == 400, about


@pytest.mark.parametrize(("method", "path"), sorted(each for each in SAMPLES if "{fqn}" in each[1]))
def test_name_of_about_the_longest_that_a_key_holds(world: World, method: str, path: str) -> None:
    for size in (*range(940, 1010), *range(1010, 1030, 3)):
        answer = sent(SAMPLES[method, path], {}, {"fqn": "x" * size})
        assert_no_trouble(answer, (method, path, size))

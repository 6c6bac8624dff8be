"""The same app behind Chalice's own gateway (``chalice local``, the test client): raw bytes, encoded paths, no stage."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from typing import Any

import pytest
from chalice.test import Client, HTTPResponse

import app
from chalicelib.ports import Run
from tests.functional.gateway import LOGS, installed
from tests.world import World

RUN = Run('svc/"a b".pïpe 100%', "run-1")
PATH = f"{LOGS}/svc/%22a%20b%22.p%C3%AFpe%20100%25/run-1"


@pytest.fixture
def world() -> Iterator[World]:
    with installed(World()) as world:
        yield world


@pytest.fixture
def http(world: World) -> Iterator[Any]:
    """Chalice's test client: its gateway, and no socket."""
    with Client(app.app) as client:
        yield client.http


def post(http: Any, path: str, body: bytes, content_type: str = "application/json", **headers: str) -> HTTPResponse:
    return http.post(path, body=body, headers={"content-type": content_type, **headers})


def test_the_life_of_a_run(world: World, http: Any) -> None:
    cookie = post(http, PATH, b"{}").headers["Set-Cookie"].partition(";")[0]
    assert post(http, PATH, json.dumps("one\ntwo").encode(), cookie=cookie).status_code == 200
    assert post(http, PATH, b"three\n", "text/plain").status_code == 200
    assert post(http, PATH, gzip.compress(b"four"), "application/gzip").status_code == 200
    packed = gzip.compress(json.dumps({"logs": "five"}).encode())
    assert post(http, PATH, packed, **{"content-encoding": "gzip"}).status_code == 200
    page = http.get(f"{PATH}?after=1&limit=3").json_body
    assert page == {"logs": "two\nthree\nfour", "after": "4", "total": 5, "streaming": True}
    assert post(http, f"{PATH}/close", b"").json_body == {"message": "Log stream closed successfully"}
    assert http.get(f"{PATH}/download").body == b"one\ntwo\nthree\nfour\nfive\n"
    assert world.body("logs.txt", RUN) == b"one\ntwo\nthree\nfour\nfive\n"


@pytest.mark.parametrize("depth", range(1, 7))
@pytest.mark.usefixtures("world")
def test_slashes_of_an_fqn(http: Any, depth: int) -> None:
    path = f"{LOGS}/{'/'.join('abcdef'[:depth])}/run-1"
    assert post(http, path, b'"x"').status_code == 200
    assert http.get(path).json_body["logs"] == "x"
    assert http.get(f"{path}/download").body == b"x\n"
    assert post(http, f"{path}/close", b"").status_code == 200


@pytest.mark.usefixtures("world")
@pytest.mark.parametrize(("method", "code"), [("PUT", 405), ("DELETE", 405)])
def test_chalices_own_errors_are_in_the_envelope(http: Any, method: str, code: int) -> None:
    answer = http.request(method, PATH)
    assert (answer.status_code, answer.json_body["code"]) == (code, code)


@pytest.mark.usefixtures("world")
def test_health(http: Any) -> None:
    assert http.get("/v1/health").json_body["status"] == "ok"

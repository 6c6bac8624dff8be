"""Starts of runs over HTTP: attempts, their facts in the catalog, and bad input."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.functional.gateway import call, installed, post
from tests.world import START_MS, World

JSON, TEXT = {"Content-Type": "application/json"}, {"Content-Type": "text/plain"}


@pytest.fixture
def world() -> Iterator[World]:
    with installed(World()) as world:
        yield world


def start(run_id: str, start_id: str, **body: Any) -> dict[str, Any]:
    answer = call("PUT", f"/v1/events/svc.a/{run_id}/starts/{start_id}", json.dumps(body), JSON)
    assert answer.status == 200, answer.body
    return dict(answer.json)


@pytest.mark.behavior("A run that is repeated is a new attempt with a log of its own.")
def test_second_attempt_has_a_log_of_its_own_and_facts_that_name_the_first(world: World) -> None:
    first = start("r1", "a", host="h1", command="./load.sh")
    assert first == {
        "runId": "r1", "attempt": 1, "startedMs": START_MS, "joined": False, "instanceId": "runlake", "position": first["position"],
    }  # fmt: skip
    cookie = {**TEXT, "Cookie": f"PIPELINE_SESSION={first['position']}"}
    assert post("svc.a/r1", "of the first\n", cookie).json["line"] == 0
    assert post("svc.a/r1/close", "").status == 200
    assert post("svc.a/r1", "late\n", TEXT).status == 409
    second = start("r1", "b", host="h2", ageMs=5000)
    assert second == start("r1", "b", host="h2", ageMs=5000) | {"position": second["position"]}
    assert (second["runId"], second["attempt"], second["startedMs"]) == ("r1~2", 2, START_MS - 5000)
    assert [start("r1", each, join=True)["joined"] for each in ("b", "c")] == [False, True]
    assert post("svc.a/r1~2", "of the second\n", TEXT).status == 200
    facts = call("GET", "/v1/catalog/pipelines/svc.a/runs/r1~2").json
    assert [facts[name] for name in ("attempt", "firstRunId", "host", "command", "startedMs")] == [
        2,
        "r1",
        "h2",
        None,
        START_MS - 5000,
    ]
    assert call("GET", "/v1/services/ingestionPipelines/logs/svc.a/r1").json["logs"] == "of the first"


def test_started_run_without_a_line_is_found_and_streams(world: World) -> None:
    start("r1", "a")
    facts = call("GET", "/v1/catalog/pipelines/svc.a/runs/r1").json
    assert (facts["status"], facts["lines"], facts["startedMs"], facts["lastAppendMs"]) == ("open", 0, START_MS, START_MS)
    assert call("GET", "/v1/services/ingestionPipelines/logs/svc.a/r1").json == {
        "logs": "",
        "after": None,
        "total": 0,
        "streaming": True,
    }


def test_attempt_that_is_taken_is_a_conflict_with_the_next_step(world: World) -> None:
    start("r1", "a", attempt=2)
    answer = call("PUT", "/v1/events/svc.a/r1/starts/b", json.dumps({"attempt": 2}), JSON)
    assert (answer.status, answer.json["code"]) == (409, 409)
    assert "omit the number" in answer.json["message"]


@pytest.mark.parametrize(
    "body",
    [
        "[]", "{", '{"attempt": 0}', '{"attempt": 1001}', '{"attempt": "2"}', '{"ageMs": -1}', '{"ageMs": 1e30}', '{"host": 1}',
        json.dumps({"command": "x" * 2001}), json.dumps({"host": "x" * 256}), '{"other": 1}',
        *(json.dumps({"method": value}) for value in ("", "a b", "x" * 101, 5, None, "target\n")),
        *(json.dumps({"heartbeatS": value}) for value in (-1, 1, 9, 86_401, "60", None, 60.5, True)),
    ],
)  # fmt: skip
def test_bad_start_is_refused_and_stores_nothing(world: World, body: str) -> None:
    answer = call("PUT", "/v1/events/svc.a/r1/starts/a", body, JSON)
    assert (answer.status, answer.json["code"]) == (400, 400)
    assert not world.store.list("").objects


def test_start_with_a_method_without_a_browser_is_refused_and_stores_nothing(world: World) -> None:
    answer = call("PUT", "/v1/events/svc.a/r1/starts/a", '{"method": "target"}', JSON)
    assert (answer.status, answer.json["code"]) == (400, 400)
    assert answer.json["message"].endswith("name one in RUNLAKE_EVENTS, in browser or a locator method=target")
    assert not world.store.list("").objects

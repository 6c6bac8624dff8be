"""The zone of a run over HTTP: stated by a header or a start, and read with the run's times."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.functional.gateway import Answer, call, installed, post
from tests.world import START_MS, World

TEXT, JSON = {"Content-Type": "text/plain"}, {"Content-Type": "application/json"}
LINES, BERLIN, AHEAD_MS = "2026-09-21 14:13:20 INFO one\n" * 2, "Europe/Berlin", 2 * 3_600_000


@pytest.fixture
def world() -> Iterator[World]:
    with installed(World()) as world:
        yield world


def append(zone: str = "", run: str = "r1") -> Answer:
    return post(f"svc.a/{run}", LINES, TEXT | ({"X-Runlake-Zone": zone} if zone else {}))


def start(zone: str, start_id: str = "a") -> Answer:
    return call("PUT", f"/v1/events/svc.a/r1/starts/{start_id}", json.dumps({"zone": zone}), JSON)


def zone_of_run() -> object:
    return call("GET", "/v1/catalog/pipelines/svc.a/runs/r1").json["zone"]


def test_zone_of_the_first_batch_is_that_of_the_run(world: World) -> None:
    assert [append(BERLIN).status, append().status, append(BERLIN).status] == [200] * 3
    assert zone_of_run() == BERLIN
    (event, *_) = call("GET", "/v1/events/svc.a/r1").json["events"]
    assert event["timestamp"] == START_MS - AHEAD_MS
    since = call("GET", f"/v1/services/ingestionPipelines/logs/svc.a/r1?since={START_MS - AHEAD_MS}&clock=lines").json
    assert since["total"] == 6


def test_zone_of_the_start_is_that_of_the_run(world: World) -> None:
    assert start(BERLIN).status == 200
    assert zone_of_run() == BERLIN
    assert append("UTC").status == 409
    assert append().status == 200
    assert call("GET", "/v1/events/svc.a/r1").json["events"][0]["timestamp"] == START_MS - AHEAD_MS


def test_run_without_a_zone_is_in_utc(world: World) -> None:
    assert append().status == 200
    assert zone_of_run() is None
    assert call("GET", "/v1/events/svc.a/r1").json["events"][0]["timestamp"] == START_MS
    answer = append(BERLIN)
    assert (answer.status, answer.json["code"]) == (409, 409)
    assert answer.json["message"].startswith("the zone of a run cannot change: it began without one")
    assert start(BERLIN).status == 409


@pytest.mark.parametrize("zone", ["Mars/Base", "+25:00", "x" * 65])
def test_unknown_zone_is_a_bad_request(world: World, zone: str) -> None:
    assert (append(zone).status, start(zone).status) == (400, 400)
    assert world.names() == []


RECORD = {"time": "2026-09-21 14:13:20", "message": "one", "runlake.fqn": "svc.a", "runlake.run_id": "r1"}


@pytest.mark.parametrize("zone", ["", BERLIN])
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/agents/fluent", json.dumps([RECORD])),
        ("/v1/agents/logstash", json.dumps([RECORD])),
        ("/v1/agents/syslog", json.dumps([RECORD])),
        ("/v1/agents/syslog", '<13>Sep 21 14:13:20 h a: one\n<13>1 - h a - - [runlake fqn="svc.a" run_id="r1"] two\n'),
        ("/v1/agents/elasticsearch/_bulk", '{"create": {}}\n' + json.dumps(RECORD) + "\n"),
    ],
)
def test_zone_of_a_request_of_an_agent_is_that_of_its_records(world: World, path: str, body: str, zone: str) -> None:
    headers = JSON | {"X-Runlake-Fqn": "svc.a", "X-Runlake-Run-Id": "r1"} | ({"X-Runlake-Zone": zone} if zone else {})
    assert call("POST", path, body, headers).status == 200
    event = call("GET", "/v1/events/svc.a/r1").json["events"][0]
    assert event["timestamp"] == START_MS - (AHEAD_MS if zone else 0)
    assert call("POST", path, body, headers | {"X-Runlake-Zone": "Mars"}).status == 400

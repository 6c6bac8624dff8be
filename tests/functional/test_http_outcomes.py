"""The end of a run over HTTP: reported with its close, stored on its seal, returned in its facts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from chalicelib import composition
from chalicelib.ports import Run
from tests.functional.gateway import call, installed, post
from tests.support.run_catalog import InMemoryRunCatalog
from tests.world import START_MS, World

JSON, TEXT = {"Content-Type": "application/json"}, {"Content-Type": "text/plain"}
CONNECTOR = {"connectorId": "host-1-77", "timestamp": 1790000000000}
"""What OpenMetadata's client sends with a close."""
SUMMARY = "".join(
    f"[2026-11-26 00:10:00] INFO     {{metadata.Utils:logger:223}} - {text}\n"
    for text in (
        "Workflow Source Summary:", "Processed records: 12", "Updated records: 0", "Warnings: 0", "Errors: 1", "Success %: 92.31",
        "Workflow Success %: 92.31", "Workflow finished with failures",
    )
)  # fmt: skip
"""The end of a workflow's log; tests/unit/test_workflow_summary.py has all forms."""
_NONE = {"exitCode": None, "signal": None, "exception": None, "failedStep": None, "lostLines": 0}


@pytest.fixture
def world() -> Iterator[World]:
    with installed(World()) as world:
        yield world


def outcome(run_id: str = "r") -> dict[str, Any]:
    facts = call("GET", f"/v1/catalog/pipelines/svc.a/runs/{run_id}").json
    return {name: facts[name] for name in ("outcome", *_NONE)}


@pytest.mark.behavior("A run has the outcome of its first close.")
@pytest.mark.parametrize(
    ("body", "facts"),
    [
        ({"outcome": "succeeded", "exitCode": 0}, {"outcome": "succeeded", "exitCode": 0}),
        ({"outcome": "failed", "signal": "SIGKILL", "other": 1}, {"outcome": "failed", "signal": "SIGKILL"}),
        (
            {"outcome": "failed", "exception": "Größe: 'x' 100%\n\ud800", "step": "load ü", "lostLines": 3},
            {"outcome": "failed", "exception": "Größe: 'x' 100%\n\ufffd", "failedStep": "load ü", "lostLines": 3},
        ),
        ({"outcome": "cancelled", "exitCode": 143}, {"outcome": "cancelled", "exitCode": 143}),
        (
            {"outcome": "failed", "step": "  a b ", "exception": " "},
            {"outcome": "failed", "failedStep": "  a b ", "exception": " "},
        ),
        ({"outcome": "failed", "exception": "x" * 99 + " " * 500}, {"outcome": "failed", "exception": "x" * 99 + " " * 67}),
        ({"outcome": "failed", "exception": "é" * 2000}, {"outcome": "failed", "exception": "é" * 50}),
        *(
            ("", {"outcome": "unknown"}),
            ("{", {"outcome": "unknown"}),
            ([], {"outcome": "unknown"}),
            ({"a": 1}, {"outcome": "unknown"}),
        ),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_outcome_of_a_close_is_in_the_facts_and_the_first_holds(world: World, body: Any, facts: dict[str, Any]) -> None:
    assert post("svc.a/r", "one\n", TEXT).status == 200
    assert outcome() == {"outcome": "running", **_NONE}
    for each in (body, {"outcome": "cancelled", "exitCode": 1}):
        assert post("svc.a/r/close", each if isinstance(each, str) else json.dumps(each), JSON).status == 200
    assert outcome() == {**_NONE, **facts}
    assert post("svc.a/r", "late\n", TEXT).status == 409


@pytest.mark.parametrize(
    "wrong",
    [
        {"outcome": "lost"}, {"outcome": None}, {"outcome": []}, {"exitCode": "1"}, {"exitCode": 2**40}, {"signal": "kill -9"},
        {"lostLines": -1}, {"exception": "x" * 2001}, {"step": 7}, {"ageMs": -1},
    ],
    ids=lambda value: repr(value)[:40],
)  # fmt: skip
def test_wrong_outcome_is_refused_and_closes_nothing(world: World, wrong: dict[str, Any]) -> None:
    answer = post("svc.a/r/close", json.dumps({"outcome": "failed"} | wrong), JSON)
    assert (answer.status, answer.json["code"]) == (400, 400) and f"field={next(iter(wrong))}" in answer.json["message"]
    assert not world.store.list("").objects


@pytest.mark.parametrize(
    ("log", "steps", "body", "facts"),
    [
        (SUMMARY, {}, CONNECTOR, {"outcome": "failed", "exception": "Workflow Success %: 92.31", "failedStep": "Source"}),
        (SUMMARY, {}, {"outcome": "succeeded", "exitCode": 0}, {"outcome": "succeeded", "exitCode": 0}),
        ("one\n", {"load": {"status": "failed"}, "check": {"status": "succeeded"}}, CONNECTOR, {"outcome": "failed", "failedStep": "load"}),
        (
            "one\n",
            {"a": {"status": "failed"}, "b": {"status": "failed", "endedMs": 9}, "c": {"status": "failed", "endedMs": 8}},
            {},
            {"outcome": "failed", "failedStep": "c"},
        ),
        (
            "one\n",
            {"all": {"status": "failed", "endedMs": 8}, "part ü": {"status": "failed", "endedMs": 8, "parent": "all"}},
            {},
            {"outcome": "failed", "failedStep": "part ü"},
        ),
        ("one\n", {"load": {"status": "running"}, "check": {"status": "succeeded"}}, CONNECTOR, {"outcome": "unknown"}),
        ("one\n", {"load": {"status": "failed"}}, {"outcome": "succeeded"}, {"outcome": "succeeded"}),
    ],
    ids=["summary", "summary, reported", "step", "first of steps", "step of a step", "no failed step", "step, reported"],
)  # fmt: skip
def test_outcome_that_the_close_does_not_report_is_found(
    world: World, log: str, steps: dict[str, Any], body: dict[str, Any], facts: dict[str, Any]
) -> None:
    post("svc.a/r", log, TEXT)
    for step, stated in steps.items():
        assert call("POST", f"/v1/events/svc.a/r/steps/{quote(step)}", json.dumps(stated), JSON).status == 200
    for _ in range(2):
        assert post("svc.a/r/close", json.dumps(body), JSON).status == 200
    assert outcome() == {**_NONE, **facts}


@pytest.mark.parametrize(("age_ms", "lasted_ms"), [(60_000, 30_000), (0, 90_000), (100_000, 0)])
def test_late_close_has_the_times_of_the_client(world: World, age_ms: int, lasted_ms: int) -> None:
    call("PUT", "/v1/events/svc.a/r/starts/s", json.dumps({"ageMs": 90_000}), JSON)
    post("svc.a/r/close", json.dumps({"outcome": "failed", "ageMs": age_ms}), JSON)
    facts = call("GET", "/v1/catalog/pipelines/svc.a/runs/r").json
    assert (facts["startedMs"], facts["durationMs"]) == (START_MS - 90_000, lasted_ms)
    assert facts["lastAppendMs"] == START_MS - 90_000 + lasted_ms


def test_step_that_succeeded_when_it_was_repeated_is_no_failure(world: World) -> None:
    post("svc.a/r", "one\n", TEXT)
    for status in ("failed", "succeeded"):
        call("POST", "/v1/events/svc.a/r/steps/load", json.dumps({"status": status}), JSON)
    post("svc.a/r/close")
    assert outcome()["outcome"] == "unknown"


def test_finalized_run_has_its_outcome_before_its_seal_is_catalogued() -> None:
    """The close records the finalized log itself; the notification of the seal comes a moment later."""
    world, runs, run = World(), InMemoryRunCatalog(), Run("svc.a", "r")
    with installed(world, runs=runs):
        post("svc.a/r", "one\n", TEXT)
        runs.record_segment(run, world.parts().writer.tails.segment(run, 0))
        world.clock.advance(7)
        post("svc.a/r/close", json.dumps({"outcome": "failed", "exitCode": 3}), JSON)
        world.clock.advance(1)
        runs.record_finalization(run, 1, 4, 2, world.clock.now_ms())
        assert outcome() == {**_NONE, "outcome": "failed", "exitCode": 3}
        assert call("GET", "/v1/catalog/pipelines/svc.a/runs/r").json["lastAppendMs"] == START_MS + 7000, "when it was closed"
        listed = call("GET", "/v1/catalog").json["runs"]
        assert [each["outcome"] for each in listed] == ["running"], "not unknown, which would be an end"
        seal = world.parts().writer.tails.segment(run, 1)
        world.store.delete(world.layout.segment(run, 1))  # it has expired
        assert outcome() == {**_NONE, "outcome": "failed", "exitCode": 3}
        runs.record_segment(run, seal)
        world.store.calls.clear()
        assert outcome() == {**_NONE, "outcome": "failed", "exitCode": 3}
        assert not world.store.calls, "the row has it"


_KEYED = {**TEXT, "Idempotency-Key": "k1"}


@pytest.mark.parametrize(
    ("headers", "is_started", "step", "ended"),
    [
        (TEXT, False, "", "lost"),
        (_KEYED, False, "", "unknown"),
        (_KEYED, True, "", "lost"),
        (_KEYED, False, "succeeded", "unknown"),
        (_KEYED, True, "failed", "failed"),
    ],
    ids=["connector", "agent", "command", "agent's step", "step that failed"],
)
def test_sweep_makes_a_run_lost_only_if_its_client_was_to_close_it(
    world: World, headers: dict[str, str], is_started: bool, step: str, ended: str
) -> None:
    if is_started:
        assert call("PUT", "/v1/events/svc.a/r/starts/s1", "{}", JSON).status == 200
    assert post("svc.a/r", "one\n", headers).status == 200
    if step:
        call("POST", "/v1/events/svc.a/r/steps/load", json.dumps({"status": step}), JSON)
    world.clock.advance(60)
    find_end = composition.services().end_finder.find_abandoned
    alive_ms = START_MS + 7000 if is_started else 0
    assert world.parts().finalizer.abandon(Run("svc.a", "r"), world.clock.now_ms(), world.deadline(), find_end, alive_ms).finalized
    assert outcome()["outcome"] == ended
    facts = call("GET", "/v1/catalog/pipelines/svc.a/runs/r").json
    assert (facts["lastAppendMs"], facts["end"]) == (alive_ms or START_MS, "abandoned"), "not when the sweep came"
    post("svc.a/r", "two\n", TEXT)
    assert outcome()["outcome"] == "running"


def _fluent(**own: Any) -> tuple[str, str, dict[str, str]]:
    return "fluent", json.dumps([{"log": "bye", "runlake": {"fqn": "svc.a", "run_id": "r", **own}}]), JSON


def _otlp(**own: Any) -> tuple[str, str, dict[str, str]]:
    given = {"runlake.fqn": "svc.a", "runlake.run_id": "r", **{f"runlake.{name}": value for name, value in own.items()}}
    attributes = [{"key": name, "value": {"stringValue": str(value)}} for name, value in given.items()]
    record = {"body": {"stringValue": "bye"}, "attributes": attributes}
    return "otlp/v1/logs", json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}]}), JSON


def _syslog(**own: Any) -> tuple[str, str, dict[str, str]]:
    given = {"fqn": "svc.a", "run_id": "r", **own}
    element = " ".join(f'{name}="{value}"' for name, value in given.items())
    return "syslog", f"<134>1 2026-11-21T10:00:00Z host app - - [runlake {element}] bye\n", TEXT


@pytest.mark.parametrize("agent", [_fluent, _otlp, _syslog])
@pytest.mark.parametrize("later", [0, 2, 4], ids="{} later batches".format)
@pytest.mark.parametrize("ended_by", ["close", "sweep"])
def test_record_of_an_agent_states_the_outcome_of_its_run(world: World, agent: Any, later: int, ended_by: str) -> None:
    """The record does not close the run: lines that arrive later are stored. It counts in one of the last four batches."""
    for number in range(1 + later):
        own = {"outcome": "failed", "exit_code": 3} if not number else {}
        path, body, headers = agent(**own)
        assert call("POST", f"/v1/agents/{path}", body.replace("bye", f"bye {number}"), headers).status == 200
        world.clock.advance(1)
    assert outcome()["outcome"] == "running"
    if ended_by == "close":
        post("svc.a/r/close")
    else:
        find_end = composition.services().end_finder.find_abandoned
        assert world.parts().finalizer.abandon(Run("svc.a", "r"), world.clock.now_ms(), world.deadline(), find_end).finalized
    expected = {"outcome": "failed", "exitCode": 3} if later < 4 else {"outcome": "unknown"}
    assert outcome() == {**_NONE, **expected}


def test_record_with_an_invalid_outcome_is_refused(world: World) -> None:
    path, body, headers = _fluent(outcome="broken")
    answer = call("POST", f"/v1/agents/{path}", body, headers)
    assert answer.status == 400 and "runlake.outcome must be succeeded, failed or cancelled" in str(answer.json)
    assert not world.store.list("").objects


def test_abandoned_run_is_lost_and_a_reopened_one_is_running(world: World) -> None:
    post("svc.a/r", "one\n", TEXT)
    world.clock.advance(60)
    finalizer = world.parts().finalizer
    run = Run("svc.a", "r")
    assert finalizer.abandon(run, world.clock.now_ms(), world.deadline()).finalized
    assert outcome()["outcome"] == "lost"
    post("svc.a/r", "two\n", TEXT)
    assert outcome()["outcome"] == "running"
    post("svc.a/r/close", json.dumps({"outcome": "succeeded"}), JSON)
    assert outcome()["outcome"] == "succeeded"

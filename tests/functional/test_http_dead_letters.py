"""Dead letters over HTTP: listed by names, inspected, dropped, and sent again by the pipeline's worker."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest

from chalicelib.pipelines import dead_letter_listing
from chalicelib.pipelines.dead_letters import DeadLetterId
from chalicelib.ports import PutOptions, Run
from tests.functional.gateway import Answer, call, installed
from tests.functional.test_http_pipelines import A, log, tick, world
from tests.issuer import JWT, Issuer, bearer
from tests.pipelines_harness import PipelinesHarness, RecordingHandler
from tests.support.samples import RUN, dead_letter
from tests.world import World

__all__ = ["world"]
BASE = "/v1/dead-letters"
LONG = "r" * 900
HANDLER = "h" * 150
"""Together too long for a key: in keys of dead letters both are shortened."""


@pytest.fixture
def site() -> Iterator[World]:
    with installed(World()) as made:
        yield made


def ask(method: str, path: str, query: dict[str, Any], headers: dict[str, str] | None = None) -> Answer:
    return call(method, f"{BASE}{path}?{urlencode(query)}", None, headers)


def one(run: Run = RUN, handler: str = "files", line: int = 0) -> dict[str, Any]:
    return {"fqn": run.fqn, "runId": run.run_id, "handler": handler, "line": line}


def listed(limit: int = 100, **query: Any) -> list[tuple[str, int]]:
    """Run id and line of all pages."""
    found: list[tuple[str, int]] = []
    cursor: str | None = ""
    while cursor is not None:
        answer = ask("GET", "", {"limit": limit, "cursor": cursor} | query).json
        assert len(answer["letters"]) <= limit
        found += [(each["runId"], each["line"]) for each in answer["letters"]]
        cursor = answer["cursor"]
    return found


@pytest.mark.behavior("A dead letter can be listed, inspected, sent again and dropped over HTTP.")
def test_letter_is_sent_again_by_the_worker_once_its_handler_works(world: PipelinesHarness) -> None:
    def fail(_: Any) -> None:
        raise OSError("no space left")

    RecordingHandler.fails["a"] = fail
    log(world, A, "one")
    tick()
    (letter,) = ask("GET", "", {"fqn": A.fqn}).json["letters"]
    assert (letter["pipeline"], letter["handler"], letter["line"]) == ("audit", "a", 0)
    details = ask("GET", "/audit", one(A, "a")).json
    assert (details["reason"], details["attempts"], details["event"]["message"]) == ("OSError: no space left", 1, "one")
    assert "Traceback" in details["trace"] and details["resendRequestedAt"] is None

    answer = ask("POST", "/audit/resend", one(A, "a"))
    assert answer.status == 202
    assert ask("GET", "/audit", one(A, "a")).json["resendRequestedAt"] == answer.json["requestedAt"]
    tick()
    details = ask("GET", "/audit", one(A, "a")).json
    assert (details["attempts"], details["resendRequestedAt"]) == (2, None)

    RecordingHandler.fails.clear()
    ask("POST", "/audit/resend", one(A, "a"))
    tick()
    assert RecordingHandler.messages("a") == ["one"] and listed(fqn=A.fqn) == []
    assert ask("GET", "/audit", one(A, "a")).status == 404


def test_letters_are_listed_by_run_in_pages(site: World, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [Run("svc.a", "r1"), Run("svc.a", "r2"), Run("svc.a", LONG), Run("svc.a", f"{LONG}2")]
    for run in [*runs, Run("svc.ab", "r1"), Run("svc.ab", LONG)]:
        for line in (0, 1):
            dead_letter(site, run, line, HANDLER)
    site.store.put("_dead/svc.a/r1/foreign", b"{}", PutOptions())
    site.store.put(DeadLetterId("runlake", HANDLER, runs[2], 2).key, b"{", PutOptions())
    expected = sorted((run.run_id, line) for run in runs for line in (0, 1))
    for reads in (1, 20):
        monkeypatch.setattr(dead_letter_listing, "MAX_READS", reads)
        for limit in (1, 2, 3, 100):
            assert sorted(listed(limit, fqn="svc.a")) == expected
            site.store.calls.clear()
            ask("GET", "", {"limit": limit, "fqn": "svc.a", "runId": LONG})
            assert site.store.calls["get"] <= reads
            assert listed(limit, fqn="svc.a", runId="r2") == [("r2", 0), ("r2", 1)]
            assert listed(limit, fqn="svc.a", runId=LONG) == [(LONG, 0), (LONG, 1)]
    assert listed(fqn="svc") == []


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, {"svc.a": 3, "svc.b": 2, "other.c": 1}),
        ({"handler": "mail"}, {"svc.a": 1, "svc.b": 2}),
        ({"pipeline": "runlake"}, {"svc.a": 3, "svc.b": 2, "other.c": 1}),
        ({"pipeline": "audit"}, {}),
        ({"handler": "mail", "fqn": "svc.b"}, {"svc.b": 2}),
        ({"from": "2026-09-21T14:13:21Z"}, {"svc.b": 2, "other.c": 1}),
        ({"to": "1790000001000"}, {"svc.a": 3}),
    ],
)
def test_letters_of_all_pipelines_are_filtered_by_names_and_time(
    monkeypatch: pytest.MonkeyPatch, query: dict[str, Any], expected: dict[str, int]
) -> None:
    """With every number of keys that a request examines, and only those that the principal may read."""
    issuer = Issuer()
    with installed(World(), keys=issuer.read, **JWT) as site:
        for fqn, handlers in (("svc.a", "files files mail"), ("svc.b", "mail mail"), ("other.c", "files")):
            for line, handler in enumerate(handlers.split()):
                dead_letter(site, Run(fqn, LONG if fqn == "svc.b" else "r"), line, handler)
            site.clock.advance(1 if fqn == "svc.a" else 0)
        for grant in (["*"], ["svc.*"]):
            reader = bearer(issuer.granted(logs_read=grant))
            for examined, limit in ((1, 1), (2, 1), (4, 2), (1000, 100)):
                monkeypatch.setattr(dead_letter_listing, "MAX_EXAMINED", examined)
                assert listed_fqns(reader, limit, query) == {
                    fqn: count for fqn, count in expected.items() if grant == ["*"] or fqn.startswith("svc")
                }


def listed_fqns(headers: dict[str, str], limit: int, query: dict[str, Any]) -> dict[str, int]:
    """Number of listed letters by FQN, of all pages."""
    found: Counter[str] = Counter()
    cursor: str | None = ""
    while cursor is not None:
        answer = ask("GET", "", query | {"limit": limit, "cursor": cursor}, headers).json
        assert len(answer["letters"]) <= limit
        found.update(each["fqn"] for each in answer["letters"])
        cursor = answer["cursor"]
    return dict(found)


def test_cursor_of_another_list_is_refused(site: World) -> None:
    for line in (0, 1):
        dead_letter(site, RUN, line)
    cursor = ask("GET", "", {"fqn": RUN.fqn, "limit": 1}).json["cursor"]
    for query in ({"fqn": "svc.other", "cursor": cursor}, {"fqn": RUN.fqn, "cursor": "x"}, {"cursor": "x"}):
        assert ask("GET", "", query).status == 400


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ({"from": "x"}, "from must be a time"),
        ({"runId": "r"}, "fqn is required"),
        ({"fqn": RUN.fqn, "runId": "a/b"}, "a run id must not contain a slash"),
    ],
)
def test_bad_query_is_refused(site: World, query: dict[str, Any], reason: str) -> None:
    answer = ask("GET", "", query)
    assert answer.status == 400 and reason in answer.json["message"]


def test_cursor_of_a_limited_principal_names_nothing() -> None:
    issuer = Issuer()
    with installed(World(), keys=issuer.read, **JWT) as site:
        for line in (0, 1):
            dead_letter(site, RUN, line)
        reader = bearer(issuer.granted(logs_read=["svc.*"]))
        cursor = ask("GET", "", {"fqn": RUN.fqn, "limit": 1}, reader).json["cursor"]
        assert "svc" not in cursor
        (second,) = ask("GET", "", {"fqn": RUN.fqn, "cursor": cursor}, reader).json["letters"]
        assert second["line"] == 1
        assert ask("GET", "", {"fqn": RUN.fqn, "cursor": f"_dead/{RUN.fqn}/"}, reader).status == 400


def test_traceback_is_only_for_administrators_of_the_pipeline() -> None:
    issuer = Issuer()
    with installed(World(), keys=issuer.read, **JWT) as site:
        dead_letter(site)
        for admin, shown in ((["svc.*"], False), (["pipelines/runlake"], True)):
            details = ask("GET", "/runlake", one(), bearer(issuer.granted(logs_read=["svc.*"], admin=admin)))
            assert (details.json["trace"] is not None) is shown


def test_dropped_letter_is_gone(site: World) -> None:
    dead_letter(site)
    assert ask("DELETE", "/runlake", one()).status == 204
    assert ask("DELETE", "/runlake", one()).status == 404
    assert listed(fqn=RUN.fqn) == []


def test_letter_of_a_removed_pipeline_can_be_dropped_and_not_sent_again(site: World) -> None:
    dead_letter(site)
    key, document = DeadLetterId("old", "files", RUN, 0).key, site.store.list("_dead/").objects[0]
    site.store.put(key, site.store.get(document.key).body, PutOptions())
    assert ask("POST", "/old/resend", one()).status == 404
    assert ask("DELETE", "/old", one()).status == 204


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"line": "x"}, "line must be an integer from 0 to"),
        ({"line": None}, "line must be an integer from 0 to"),
        ({"handler": None}, "handler is required"),
        ({"handler": "x" * 1001}, "handler is required"),
        ({"handler": "filters of app"}, "the pipeline has no such handler"),
        ({"runId": "a/b"}, "a run id must not contain a slash"),
        ({"fqn": None}, "empty fqn"),
    ],
)
def test_bad_input_is_refused(site: World, change: dict[str, Any], reason: str) -> None:
    dead_letter(site)
    query = {name: value for name, value in (one() | change).items() if value is not None}
    answer = ask("POST", "/runlake/resend", query)
    assert answer.status == 400 and reason in answer.json["message"]


def test_event_that_is_too_large_for_a_response_is_cut(site: World) -> None:
    dead_letter(site, message="\x01" * 1_000_000, step="load", data={"a": "x" * 2_000_000})
    event = (details := ask("GET", "/runlake", one()).json)["event"]
    assert details["truncated"] and 0 < len(event["message"]) < 1_000_000 and event["data"] == {} and event["step"] == "load"


def test_event_has_its_data(site: World) -> None:
    dead_letter(site, data={"rows": 3})
    details = ask("GET", "/runlake", one()).json
    assert details["event"]["data"] == {"rows": 3} and not details["truncated"]
    assert "rows" in json.dumps(details)

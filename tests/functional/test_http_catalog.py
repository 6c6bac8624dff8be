"""Pipelines and runs with facts over HTTP: searched by name, paged, and limited to readable ones."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from chalicelib.errors import StoreUnavailableError
from chalicelib.explanation import run_explainer
from chalicelib.explanation.explainer import Explainer
from chalicelib.ports import PutOptions, Run
from tests.functional.gateway import Answer, call, installed, post
from tests.issuer import JWT, Issuer, bearer
from tests.support.run_catalog import InMemoryRunCatalog
from tests.world import START_MS, World

PIPELINES = "/v1/catalog/pipelines"
ISSUER = Issuer()
NAMES = ["hr.secret", "sales.a", "sales.b", "sales.é/x y"]


class Site:
    """A world whose catalog is updated on request."""

    def __init__(self, world: World, runs: InMemoryRunCatalog) -> None:
        self.world, self.runs = world, runs

    def write(self, fqn: str, run_id: str, lines: str, headers: dict[str, str] | None = None, *, indexed: bool = True) -> None:
        assert post(f"{quote(fqn, safe='')}/{run_id}", json.dumps(lines), headers).status == 200
        if indexed:
            self.index(Run(fqn, run_id))

    def index(self, run: Run) -> None:
        tails = self.world.parts().writer.tails
        for listed in tails.list_segments(run):
            self.runs.record_segment(run, tails.segment(run, self.world.layout.sequence_of(run, listed.key)))


@pytest.fixture
def site() -> Iterator[Site]:
    world, runs = World(), InMemoryRunCatalog()
    with installed(world, runs=runs):
        yield Site(world, runs)


def ask(path: str = "", token: str = "", **query: Any) -> Answer:
    return call("GET", f"{PIPELINES}{path}" + (f"?{urlencode(query)}" if query else ""), None, bearer(token) if token else {})


def walk(token: str = "", **query: Any) -> list[str]:
    names, cursor = [], None
    while True:
        answer = ask(token=token, **query, **({"cursor": cursor} if cursor else {})).json
        names += [each["fqn"] for each in answer["pipelines"]]
        if not (cursor := answer["cursor"]):
            return names


def test_pipelines_with_their_newest_runs(site: Site) -> None:
    assert ask().json == {"pipelines": [], "cursor": None}
    for name in NAMES:
        site.write(name, "run-1", "one")
        site.world.clock.advance(5)
    site.write("sales.a", "run-2", "one\ntwo")
    site.write("zoo", "run-1", "not catalogued yet", indexed=False)
    found = {each["fqn"]: each["last"] for each in ask().json["pipelines"]}
    assert set(found) == {*NAMES, "zoo"} and found["zoo"] is None
    assert (found["sales.a"]["runId"], found["sales.a"]["lines"]) == ("run-2", 2)
    assert walk(prefix="sales.", limit=1) == ["sales.é/x y", "sales.a", "sales.b"], "percent-encoded first"
    assert walk(prefix="sales.é/") == ["sales.é/x y"]
    assert walk(prefix="nobody") == []
    assert walk(contains="S.") == walk(contains="s.", limit=1) == ["sales.é/x y", "sales.a", "sales.b"]
    assert walk(contains="É/X") == ["sales.é/x y"]
    assert walk(prefix="hr.", contains="cre") == ["hr.secret"] and walk(prefix="s", contains="cre") == []


def test_facts_of_a_run_from_open_to_finalized(site: Site) -> None:
    site.write("svc.a", "run-1", "one\ntwo")
    site.world.clock.advance(2)
    site.write("svc.a", "run-1", "three")
    expected = {
        "runId": "run-1",
        "status": "open",
        "end": None,
        "lines": 3,
        "bytes": 14,
        "startedMs": START_MS,
        "lastAppendMs": START_MS + 2000,
        "durationMs": 2000,
        "complete": False,
        "pendingBytes": 14,
        "lastHeartbeatMs": None,
        "outcome": "running",
        "silentSinceMs": None,
        "exitCode": None,
        "signal": None,
        "exception": None,
        "failedStep": None,
        "lostLines": 0,
        "attempt": 1,
        "firstRunId": "run-1",
        "host": None,
        "command": None,
        "zone": None,
        "explanation": None,
    }
    details = {"lost": 0, "candidates": [], "method": "runlog", "browser": "runlog", "orchestratorUrl": None}
    assert ask("/svc.a/runs").json == {"runs": [expected], "cursor": None}
    assert ask("/svc.a/runs/run-1").json == expected | details
    first = site.world.layout.segment(Run("svc.a", "run-1"), 0)
    kept = site.world.store.get(first)
    site.world.store.delete(first)
    assert ask("/svc.a/runs/run-1").json == expected | details | {"lost": 2}
    site.world.store.put(first, kept.body, PutOptions(kept.info.metadata))
    post("svc.a/run-1/close")
    run = Run("svc.a", "run-1")
    site.index(run)
    sealed = ask("/svc.a/runs/run-1").json
    assert (sealed["status"], sealed["end"], sealed["complete"]) == ("sealed", "closed", False)
    site.runs.record_finalization(run, 3, 14, 3, START_MS + 3000)
    done = ask("/svc.a/runs/run-1").json
    assert (done["status"], done["complete"], done["pendingBytes"]) == ("finalized", True, 0)


def test_a_run_has_its_address_in_the_orchestrator() -> None:
    world, runs = World(), InMemoryRunCatalog()
    links: Any = {"run_links": json.dumps({"svc.*": "https://airflow.example/dags/{name}/grid?dag_run_id={runId}"})}
    with installed(world, runs=runs, **links):
        for fqn in ("svc.a", "hr.a"):
            Site(world, runs).write(fqn, "run-1", "one")
        found = [ask(f"/{fqn}/runs/run-1").json["orchestratorUrl"] for fqn in ("svc.a", "hr.a")]
    assert found == ["https://airflow.example/dags/a/grid?dag_run_id=run-1", None]


def explained(**query: Any) -> tuple[list[tuple[int, str]], int, bool, bool]:
    """Line and text of the candidates, the first line that was searched, whether it is complete, and whether the run is running."""
    found = ask("/svc.a/runs/run-1/explanation", **query).json
    assert all(each["about"] not in ("", each["rule"]) for each in found["candidates"]), "rules are in words"
    return _texts(found["candidates"]), found["fromLine"], found["complete"], found["streaming"]


def _texts(candidates: list[Any]) -> list[tuple[int, str]]:
    return [(each["line"], each["text"]) for each in candidates]


def test_explanation_of_a_run_from_open_to_finalized(site: Site) -> None:
    run, expected = Run("svc.a", "run-1"), [(1, "ERROR two")]
    assert ask("/svc.a/runs/run-1/explanation").status == 404
    site.write("svc.a", "run-1", "one\nERROR two\n", indexed=False)
    assert explained() == (expected, 0, False, True)
    site.index(run)
    post("svc.a/run-1/close", json.dumps({"outcome": "failed"}), {"Content-Type": "application/json"})
    site.index(run)
    assert explained() == (expected, 0, False, False)
    row = site.runs.get(run)
    assert row and not row.explanation, "logs.txt is not known yet"
    site.runs.record_finalization(run, 2, 14, 2, START_MS)
    site.runs.failures.schedule("record_explanation", error=StoreUnavailableError)
    assert explained() == (expected, 0, True, False)
    assert ask("/svc.a/runs/run-1").json["candidates"] == []
    for _ in range(2):
        assert explained() == (expected, 0, True, False)
        site.world.store.delete(site.world.layout.logs(run))  # it is read from the row now
    details = ask("/svc.a/runs/run-1").json
    assert details["explanation"] == details["candidates"][0] and _texts(details["candidates"]) == expected
    failed = call("GET", "/v1/catalog?outcome=failed").json["runs"]
    for listed in (ask("/svc.a/runs").json["runs"], failed, [each["last"] for each in ask().json["pipelines"]]):
        assert [each["explanation"] for each in listed] == [details["explanation"]]
    site.write("svc.a", "run-2", "another")
    assert ask("/svc.a/runs/run-2").json["explanation"] is None


def test_explanation_of_a_run_that_succeeded_is_only_answered(site: Site) -> None:
    run = Run("svc.a", "run-1")
    site.write("svc.a", "run-1", "exit status 0\n", indexed=False)
    post("svc.a/run-1/close", json.dumps({"outcome": "succeeded"}), {"Content-Type": "application/json"})
    site.index(run)
    site.runs.record_finalization(run, 1, 14, 2, START_MS)
    for _ in range(2):  # the second one is read from the row
        assert explained() == ([(0, "exit status 0")], 0, True, False)
    details = ask("/svc.a/runs/run-1").json
    assert (details["outcome"], details["explanation"], details["candidates"]) == ("succeeded", None, [])


@pytest.mark.parametrize("indexed", [True, False])
def test_explanation_of_a_reopened_run_is_made_again(site: Site, indexed: bool) -> None:
    """Also while the row is behind the log."""
    run = Run("svc.a", "run-1")
    site.write("svc.a", "run-1", "begin\n")
    site.world.clock.advance(1)
    site.world.parts().finalizer.abandon(run, site.world.clock.now_ms(), site.world.deadline())
    site.index(run)
    site.runs.record_finalization(run, 1, 6, 2, START_MS)
    if indexed:
        assert explained() == ([(0, "begin")], 0, True, False)
    site.write("svc.a", "run-1", "ERROR two\n", indexed=indexed)
    assert explained() == ([(1, "ERROR two")], 0, False, True)
    assert ask("/svc.a/runs/run-1").json["explanation"] is None


def test_explanation_of_a_run_without_lines(site: Site) -> None:
    assert call("PUT", "/v1/events/svc.a/run-1/starts/s", "{}", {"Content-Type": "application/json"}).status == 200
    assert explained() == ([], 0, False, True)


def test_explanation_of_a_long_log_is_that_of_its_end(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_explainer, "REQUEST_BYTES", 30)
    run, expected = Run("svc.a", "run-1"), [(3, "ERROR four")]
    for text in ("ERROR early\n", "two\nthree\n", "ERROR four\n", "five\nsix\n"):
        site.write("svc.a", "run-1", text)
    assert explained() == (expected, 1, False, True)
    site.world.parts().compactor.compact(run, site.world.deadline())
    assert explained() == (expected, 1, False, True)
    post("svc.a/run-1/close")
    site.index(run)
    site.runs.record_finalization(run, 6, 42, 5, START_MS)
    assert explained() == (expected, 1, False, False)
    row = site.runs.get(run)
    assert row and not row.explanation, "only the explanation of the whole log is kept"


def test_explanation_that_takes_too_long_is_that_of_the_last_lines(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_explainer, "STEP_BYTES", 10)
    monkeypatch.setattr(run_explainer, "LATE_BYTES", 20)
    feed = Explainer.feed

    def fed(self: Explainer, data: bytes) -> None:
        site.world.clock.advance(2)
        feed(self, data)

    monkeypatch.setattr(Explainer, "feed", fed)
    run, begun_s = Run("svc.a", "run-1"), site.world.clock.monotonic_s()
    site.write("svc.a", "run-1", "ERROR early\n" + "line\n" * 10 + "ERROR late\nend\n")
    post("svc.a/run-1/close")
    site.index(run)
    site.runs.record_finalization(run, 13, 77, 2, START_MS)
    assert explained() == ([(11, "ERROR late")], 10, False, False)
    assert site.world.clock.monotonic_s() - begun_s < 12
    row = site.runs.get(run)
    assert row and not row.explanation


def test_explanation_without_the_known_end_of_the_run_is_not_kept(site: Site) -> None:
    run = Run("svc.a", "run-1")
    site.write("svc.a", "run-1", "ERROR could not connect: Connection refused\nERROR lost: Out of memory\n")
    post("svc.a/run-1/close", json.dumps({"outcome": "failed", "exitCode": 137}), {"Content-Type": "application/json"})
    site.runs.record_finalization(run, 2, 68, 2, START_MS)  # the notification of the seal is late
    (first, *_), _, is_complete, _ = explained()
    row = site.runs.get(run)
    assert row and row.is_seal_unknown and not row.explanation
    assert (first[0], is_complete) == (0, False)
    site.index(run)
    (first, *_), _, is_complete, _ = explained()
    assert (first[0], is_complete) == (1, True)


def test_a_run_that_is_not_catalogued_yet_is_found_on_s3(site: Site) -> None:
    site.write("svc.a", "run-1", "one\ntwo", indexed=False)
    found = ask("/svc.a/runs/run-1").json
    assert (found["status"], found["lines"], found["startedMs"]) == ("open", 2, START_MS)
    answer = ask("/svc.a/runs/run-2")
    assert (answer.status, answer.json["code"]) == (404, 404)


def test_runs_newest_first_page_by_page(site: Site) -> None:
    for number in range(5):
        site.write("a/b", f"run-{number}", "x")
        site.world.clock.advance(1)
    for path in ("/a%2Fb/runs", "/a/b/runs"):
        listed, cursor = [], ""
        while cursor is not None:
            page = ask(path, limit=2, **({"cursor": cursor} if cursor else {})).json
            listed += [each["runId"] for each in page["runs"]]
            cursor = page["cursor"]
        assert listed == [f"run-{number}" for number in (4, 3, 2, 1, 0)]
    assert ask("/a/b/runs/run-3").json["runId"] == "run-3"
    assert ask("/nobody/runs").json == {"runs": [], "cursor": None}


def test_names_that_look_like_paths(site: Site) -> None:
    site.write("runs", "runs", "x")
    site.write("a/runs", "run-1", "x")
    assert ask("/runs/runs").json["runs"][0]["runId"] == "runs"
    assert ask("/runs/runs/runs").json["runId"] == "runs"
    assert ask("/a/runs/runs/run-1").json["runId"] == "run-1"
    assert ask("/a%2Fruns/runs").json["runs"][0]["runId"] == "run-1"


@pytest.mark.parametrize("limit", ["0", "101", "x", "-1", "1.5", "٣"])
@pytest.mark.parametrize("path", ["", "/svc.a/runs"])
def test_limits_that_cannot_be(site: Site, path: str, limit: str) -> None:
    answer = ask(path, limit=limit)
    assert (answer.status, answer.json["code"]) == (400, 400)


@pytest.mark.parametrize(
    ("path", "query", "status"),
    [
        ("", {"cursor": "a b"}, 400),
        ("", {"cursor": "~forged"}, 400),
        ("", {"prefix": "x" * 501}, 400),
        ("", {"contains": "x" * 501}, 400),
        ("/svc/runs", {"cursor": "nonsense"}, 400),
        ("/a%00/runs", {}, 400),
        ("/%FF/runs/x", {}, 400),
        ("/svc/runs/last", {}, 400),
        ("/svc/x", {}, 404),
        ("/svc/x/y", {}, 404),
    ],
)
def test_invalid_catalog_request_is_refused(site: Site, path: str, query: dict[str, str], status: int) -> None:
    answer = ask(path, **query)
    assert (answer.status, answer.json["code"]) == (status, status)


@pytest.mark.slow
@pytest.mark.behavior("A list of pipelines has readable ones only, and its cursors reveal no other.")
def test_principal_sees_readable_pipelines_and_its_cursors_reveal_nothing() -> None:
    world, runs = World(), InMemoryRunCatalog()
    with installed(world, runs=runs, keys=ISSUER.read, **JWT):
        site, root = Site(world, runs), bearer(ISSUER.granted("root", logs_write=["*"]))
        for name in [*NAMES, *(f"top.secret-{number:04d}" for number in range(1200)), "top.shown_"]:
            post(f"{quote(name, safe='')}/run-1", '"x"', root)
        reader = ISSUER.granted("reader", logs_read=["sales.*", "*_"])
        assert walk(reader, limit=2) == ["sales.é/x y", "sales.a", "sales.b", "top.shown_"]
        assert walk(ISSUER.granted("none", logs_read=["x"])) == []
        assert walk(reader, contains="secret") == [] and walk(reader, contains="SHOW") == ["top.shown_"]
        assert ask(token=ISSUER.granted("writer", logs_write=["*"])).status == 403
        page = ask(token=reader, limit=3).json
        assert page["cursor"].startswith("~") and "secret" not in json.dumps(page)
        assert len(page["cursor"]) == len(ask(token=reader, limit=1).json["cursor"]), "at a hidden name and at a readable one"
        assert ask(token=reader, cursor=page["cursor"], contains="s").status == 400, "a cursor is of its own query"
        assert site.runs.newest("sales.a", 1, None).rows == []


def recent(token: str = "", **query: Any) -> list[str]:
    """Runs over all pages, as ``fqn/run``."""
    names, cursor = [], None
    while True:
        asked = urlencode(query | ({"cursor": cursor} if cursor else {}))
        answer = call("GET", f"/v1/catalog?{asked}", None, bearer(token) if token else {}).json
        names += [f"{each['fqn']}/{each['runId']}" for each in answer["runs"]]
        if not (cursor := answer["cursor"]):
            return names


def ended(site: Site, name: str, outcome: str) -> None:
    site.write(name, "r", "one")
    post(f"{name}/r/close", json.dumps({"outcome": outcome} if outcome else {}), {"Content-Type": "application/json"})
    site.index(Run(name, "r"))
    site.world.clock.advance(10)


def test_recent_runs_of_all_pipelines_by_outcome(site: Site) -> None:
    for name, outcome in {"shop.a": "failed", "shop.b": "succeeded", "hr.c": "failed", "shop.d": "", "shop.e": "failed"}.items():
        ended(site, name, outcome)
    site.write("shop.f", "r", "goes on")
    assert recent() == recent(limit=1) == [f"{name}/r" for name in ("shop.f", "shop.e", "shop.d", "hr.c", "shop.b", "shop.a")]
    assert recent(outcome="failed") == recent(outcome="failed", limit=2) == ["shop.e/r", "hr.c/r", "shop.a/r"]
    assert recent(outcome="failed", fqn="shop.*", since=START_MS + 1) == ["shop.e/r"]
    assert recent(contains="SHOP.E") == ["shop.e/r"] and len(recent(contains="R")) == 6 and recent(contains="*") == []
    assert recent(outcome="succeeded,unknown") == ["shop.d/r", "shop.b/r"]
    for query in ("outcome=succeeded&outcome=unknown", "outcome=unknown&outcome=succeeded,unknown"):
        assert [each["fqn"] for each in call("GET", f"/v1/catalog?{query}").json["runs"]] == ["shop.d", "shop.b"]
    assert call("GET", "/v1/catalog?outcome=nonsense&outcome=failed").status == 400
    assert (
        recent(outcome="running") == ["shop.f/r"]
        and recent(since="2100-01-01") == recent(since="21000101") == recent(fqn="nobody") == []
    )
    facts = call("GET", "/v1/catalog?outcome=failed&limit=1").json["runs"][0]
    assert facts == {"fqn": "shop.e"} | {
        name: value
        for name, value in ask("/shop.e/runs/r").json.items()
        if name not in ("lost", "candidates", "method", "browser", "orchestratorUrl")
    }


def test_recent_runs_are_those_that_may_be_read() -> None:
    world, runs = World(), InMemoryRunCatalog()
    with installed(world, runs=runs, keys=ISSUER.read, **JWT):
        site, root = Site(world, runs), bearer(ISSUER.granted("root", logs_write=["*"]))
        for name in ["shop.a", *(f"top.secret-{number:03d}" for number in range(40)), "shop.b"]:
            site.write(name, "r", "x", root)
            world.clock.advance(1)
        reader = ISSUER.granted("reader", logs_read=["shop.*"])
        assert recent(reader) == recent(reader, limit=1) == ["shop.b/r", "shop.a/r"]
        assert recent(reader, contains="secret") == recent(reader, contains="secret", limit=1) == []
        histories = call(
            "GET", "/v1/catalog/history?fqn=top.secret-001&fqn=shop.a&fqn=nobody&fqn=shop.a", None, bearer(reader)
        ).json
        assert [(each["fqn"], [run["runId"] for run in each["runs"]]) for each in histories["pipelines"]] == [
            ("top.secret-001", []),
            ("shop.a", ["r"]),
            ("nobody", []),
        ]
        page = call("GET", "/v1/catalog?limit=1", None, bearer(reader)).json
        assert page["cursor"].startswith("~")
        for others, status in {"": 200, "&outcome=failed": 400, "&contains=a": 400}.items():
            assert call("GET", f"/v1/catalog?cursor={page['cursor']}{others}", None, bearer(reader)).status == status
        assert call("GET", f"/v1/catalog?cursor={runs.get(Run('shop.a', 'r')).activity_key}", None, bearer(reader)).status == 400  # type: ignore[union-attr]
        assert call("GET", "/v1/catalog", None, bearer(ISSUER.granted("writer", logs_write=["*"]))).status == 403


def test_histories_are_the_newest_results_of_each_pipeline(site: Site) -> None:
    for number in range(22):
        site.write("shop.a", f"r{number:02d}", "one")
        site.world.clock.advance(1)
    (history,) = call("GET", "/v1/catalog/history?fqn=shop.a").json["pipelines"]
    assert [each["runId"] for each in history["runs"]] == [f"r{number:02d}" for number in range(21, 1, -1)]
    newest = ask("/shop.a/runs/r21").json
    assert history["runs"][0] == {name: newest[name] for name in ("runId", "outcome", "startedMs", "durationMs")}
    wrong = ["", "fqn=", "fqn=%00", "&".join(f"fqn={number}" for number in range(21))]
    assert [call("GET", f"/v1/catalog/history?{each}").status for each in wrong] == [400] * 4


@pytest.mark.parametrize(
    "wrong",
    [
        "outcome=broken",
        "outcome=failed,",
        "outcome=,",
        "since=yesterday",
        "since=9999999999999999",
        "since=-1",
        "limit=0",
        "cursor=x",
        "fqn=" + "x" * 501,
        "contains=" + "x" * 501,
    ],
)
def test_recent_runs_that_cannot_be(site: Site, wrong: str) -> None:
    answer = call("GET", f"/v1/catalog?{wrong}")
    assert (answer.status, answer.json["code"]) == (400, 400)


def test_lines_that_have_something(site: Site) -> None:
    site.write("a/b", "run-1", "one\nan Error, an error\ntwo error\n")
    assert ask("/a%2Fb/runs/run-1/grep", q="error", limit=1).json == {
        "matches": [{"line": 1, "text": "an Error, an error", "spans": [[13, 18]]}],
        "after": "2",
        "scannedLines": 2,
        "scannedBytes": 23,
        "total": 3,
        "invert": False,
    }
    others = ask("/a/b/runs/run-1/grep", q="ERROR", ignoreCase="true", invert="true").json
    assert (others["matches"], others["invert"]) == ([{"line": 0, "text": "one", "spans": []}], True)
    found = ask("/a/b/runs/run-1/grep", q="error", after="2").json
    assert ([each["line"] for each in found["matches"]], found["after"]) == ([2], None)
    found = ask("/a/b/runs/run-1/grep", q="^(an|TWO) e", regex="true", ignoreCase="True").json
    assert [each["spans"] for each in found["matches"]] == [[[0, 4]], [[0, 5]]]
    assert ask("/a/b/runs/nobody/grep", q="x").json["total"] == 0


@pytest.mark.parametrize(
    "query",
    [
        {},
        {"q": ""},
        {"q": "x" * 501},
        {"q": "a\nb"},
        {"q": "(", "regex": "true"},
        {"q": "((a?){1000}b?){1000}", "regex": "true"},
        {"q": "a", "regex": "perhaps"},
        {"q": "a", "ignoreCase": "1"},
        {"q": "a", "invert": "no"},
        {"q": "a", "after": "-1"},
        {"q": "a", "after": "9" * 16},
        {"q": "a", "limit": "1001"},
    ],
)
def test_what_cannot_be_looked_for(site: Site, query: dict[str, str]) -> None:
    answer = ask("/svc/runs/run-1/grep", **query)
    assert (answer.status, answer.json["code"]) == (400, 400)


def test_when_lines_came(site: Site) -> None:
    assert ask("/a/b/runs/run-1/histogram").json == {"fromMs": 0, "toMs": 0, "buckets": [], "partial": False, "clock": "arrival"}
    site.write("a/b", "run-1", "one\nERROR two")
    site.world.clock.advance(3)
    site.write("a/b", "run-1", "three")
    tails = site.world.parts().writer.tails
    site.world.index.put(Run("a/b", "run-1"), [tails.segment(Run("a/b", "run-1"), number) for number in range(2)])
    assert ask("/a/b/runs/run-1/histogram", buckets=2).json == {
        "fromMs": START_MS,
        "toMs": START_MS + 3001,
        "buckets": [
            {"fromMs": START_MS, "toMs": START_MS + 1501, "line": 0, "lines": 2, "errors": 1},
            {"fromMs": START_MS + 1501, "toMs": START_MS + 3001, "line": 2, "lines": 1, "errors": 0},
        ],
        "partial": False,
        "clock": "arrival",
    }
    for buckets in ("0", "501", "x"):
        assert ask("/a/b/runs/run-1/histogram", buckets=buckets).status == 400


def test_a_page_costs_a_listing_and_a_query_for_each_pipeline(site: Site) -> None:
    for number in range(120):
        site.write(f"svc.{number:03d}", "run-1", "x")
    site.world.store.calls.clear()
    assert len(ask().json["pipelines"]) == 50
    assert dict(site.world.store.calls) == {"list": 1}

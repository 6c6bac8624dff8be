"""The runs of a pipeline over HTTP: newest first, page by page, and the newest one by name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

import pytest

from chalicelib.ports import Run
from chalicelib.runlog.batch import Batch
from tests.functional.gateway import call, get, installed, post
from tests.issuer import JWT, Issuer, bearer
from tests.support.log_page import LogPage
from tests.support.run_catalog import InMemoryRunCatalog
from tests.world import World

FQN = 'svc/"a b".pipe'
QUOTED = quote(FQN, safe="")
ISSUER = Issuer()
IDS = [f"run-{letter}" for letter in "cadb"]  # in the order of their start


@pytest.fixture
def runs() -> Iterator[InMemoryRunCatalog]:
    """Four runs of one pipeline, a minute apart, and one of another; all notifications have arrived."""
    world, runs = World(), InMemoryRunCatalog()
    with installed(world, runs=runs):
        for fqn, run_id in [*((FQN, run_id) for run_id in IDS), ("other", "run-x")]:
            post(f"{quote(fqn, safe='')}/{run_id}", json.dumps(f"of {run_id}\nend"))
            run = Run(fqn, run_id)
            runs.record_segment(run, world.parts().writer.tails.segment(run, 0))
            world.clock.advance(60)
        yield runs


@pytest.mark.usefixtures("runs")
def test_newest_first() -> None:
    answer = get(QUOTED)
    assert (answer.status, answer.json) == (200, {"runs": ["run-b", "run-d", "run-a", "run-c"], "cursor": None})


@pytest.mark.usefixtures("runs")
def test_page_by_page() -> None:
    listed: list[str] = []
    cursor = ""
    for _ in range(4):
        page = get(f"{QUOTED}?limit=1" + (f"&cursor={cursor}" if cursor else "")).json
        listed += page["runs"]
        cursor = page["cursor"]
    assert listed == ["run-b", "run-d", "run-a", "run-c"]
    assert cursor is None


@pytest.mark.usefixtures("runs")
@pytest.mark.parametrize(("limit", "listed"), [("2", 2), ("0", 1), ("x", 4), ("99999", 4)])
def test_limits(limit: str, listed: int) -> None:
    assert len(get(f"{QUOTED}?limit={limit}").json["runs"]) == listed


@pytest.mark.usefixtures("runs")
def test_a_cursor_that_was_not_made_here() -> None:
    answer = get(f"{QUOTED}?cursor=nonsense")
    assert (answer.status, answer.json["code"]) == (400, 400)


@pytest.mark.usefixtures("runs")
@pytest.mark.parametrize("sent", [QUOTED, "svc/%22a%20b%22.pipe"])
def test_the_newest_run(sent: str) -> None:
    assert get(f"{sent}/last").json == {"logs": "of run-b\nend", "after": None, "total": 2, "streaming": True}
    assert get(f"{sent}/last?after=0&limit=1").json["after"] == "1"
    answer = get(f"{sent}/last/download")
    assert (answer.status, answer.body) == (200, "of run-b\nend\n")
    assert answer.headers["Content-Disposition"] == 'attachment; filename="svc_a_b_.pipe-run-b.log"'


@pytest.mark.usefixtures("runs")
def test_a_pipeline_without_runs() -> None:
    assert get("nobody").json == {"runs": [], "cursor": None}
    assert get("nobody/last").json == {"logs": "", "after": None, "total": 0, "streaming": False}
    answer = get("nobody/last/download")
    assert (answer.status, answer.json["code"]) == (404, 404)


@pytest.mark.usefixtures("runs")
@pytest.mark.parametrize("path", ["a%00b", "a%0Ab/last", "a%FF/last/download"])
def test_names_that_cannot_be(path: str) -> None:
    answer = get(path)
    assert (answer.status, answer.json["code"]) == (400, 400)


# Pipelines by their id

ID = "0f1e2d3c-0000-4000-8000-00000000000a"


@contextmanager
def known(pipeline_type: str | None = None) -> Iterator[World]:
    """A pipeline with three lines, whose id is known."""
    world, runs = World(), InMemoryRunCatalog()
    pipeline = {"fqn": FQN} | ({"type": pipeline_type} if pipeline_type else {})
    issuer_settings: dict[str, Any] = JWT | {"pipeline_ids": json.dumps({ID.upper(): pipeline})}
    with installed(world, runs=runs, keys=ISSUER.read, **issuer_settings):
        entry = world.parts().writer.append(Run(FQN, "run-1"), Batch.from_text("one\ntwo\nthree\n")).entry
        assert entry
        runs.record_segment(Run(FQN, "run-1"), entry)
        yield world


def reader() -> dict[str, str]:
    """Headers with a new token: one made at the import of the module would expire before the end of a long run."""
    return bearer(ISSUER.granted(logs_read=[FQN]))


@pytest.mark.parametrize(
    ("pipeline_type", "task"),
    [
        (None, "ingestion_task"),
        ("metadata", "ingestion_task"),
        ("policyAgent", "ingestion_task"),
        ("application", "application_task"),
        ("profiler", "profiler_task"),
        ("usage", "usage_task"),
        ("lineage", "lineage_task"),
        ("dbt", "dbt_task"),
        ("TestSuite", "test_suite_task"),
        ("dataInsight", "data_insight_task"),
        ("elasticSearchReindex", "elasticsearch_reindex_task"),
        ("autoClassification", "auto_classification_task"),
    ],
)
def test_older_pages_read_the_newest_run_by_id(pipeline_type: str | None, task: str) -> None:
    with known(pipeline_type):
        first = get(f"{ID.upper()}/last?limit=2", headers=reader())
        last = get(f"{ID}/last?after=2", headers=reader())
        answer = get(f"{ID}/last/download", headers=reader())
    assert first.json == {task: "one\ntwo", "logs": "one\ntwo", "after": "2", "total": "3"}
    assert last.json == {task: "three", "logs": "three", "after": "3", "total": "3"}
    assert (answer.status, answer.body) == (200, "one\ntwo\nthree\n")


def test_permission_for_a_pipeline_by_id_is_that_for_its_name() -> None:
    with known():
        for path in (f"{ID}/last", f"{ID}/last/download"):
            refused = get(path, headers=bearer(ISSUER.granted(logs_read=[ID])))
            assert (refused.status, FQN in refused.body, ID in refused.body) == (403, False, True), "the id tells no name"
            assert get(path, headers=reader()).status == 200
        unknown = ID.replace("a", "b")
        assert get(f"{unknown}/last", headers=reader()).status == 403
        everything = bearer(ISSUER.granted(logs_read=["*"]))
        assert get(f"{unknown}/last", headers=everything).json == {"logs": "", "after": None, "total": 0, "streaming": False}


def test_history_of_an_older_page_is_the_whole_log() -> None:
    def read(path: str) -> tuple[int, str]:
        answer = call("GET", path, headers=reader())
        return answer.status, answer.body

    with known("dbt") as world:
        page = LogPage(FQN, "run-1", read, world.clock.sleep)
        assert page.history(ID, "dbt_task") == ["one\ntwo\nthree"]

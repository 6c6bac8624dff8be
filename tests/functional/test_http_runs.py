"""The runs of a pipeline over HTTP: newest first, page by page, and the newest one by name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from urllib.parse import quote

import pytest

from chalicelib.ports import Run
from tests.functional.gateway import get, installed, post
from tests.support.run_catalog import InMemoryRunCatalog
from tests.world import World

FQN = 'svc/"a b".pipe'
QUOTED = quote(FQN, safe="")
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

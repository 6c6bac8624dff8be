"""Real responses of typed dictionaries are those of their models and of the document: mypy checks only how they are built."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pydantic import TypeAdapter

from chalicelib.ports import Run, RunEnd, RunStart
from chalicelib.routes import catalog_models
from tests.functional.gateway import Answer, call
from tests.functional.test_http_catalog import Site, site
from tests.unit.test_openapi import COMPONENTS, mistakes

__all__ = ["site"]
RUN = Run("svc.a", "run-1")


def check(name: str, model: Any, answer: Answer) -> None:
    """Check that a response is valid, and has no field that its model does not have."""
    assert answer.status in (200, 201), answer.body
    assert mistakes(COMPONENTS["schemas"][name], answer.json) == []
    adapter = TypeAdapter(model)
    assert adapter.dump_python(adapter.validate_json(answer.body), mode="json", exclude_unset=True) == answer.json


def ended_run(site: Site) -> None:
    """A run with a start, two segments and a reported failure."""
    site.runs.record_start(RUN, RunStart("s", "run-1", 1, "host-1", "load", 1000, 1000))
    site.write("svc.a", "run-1", "one\nan error\n")
    site.write("svc.b", "run-2", "one\n")
    tails = site.world.parts().writer.tails
    site.world.index.put(RUN, [tails.segment(RUN, 0)])
    site.runs._rows[RUN] = replace(
        site.runs._rows[RUN], seal="closed", end=RunEnd("failed", 3, "SIGKILL", "ValueError: x", "load", 2)
    )


@pytest.mark.parametrize(
    ("path", "name", "model"),
    [
        ("", "RecentRuns", catalog_models.RecentRunPage),
        ("/pipelines", "PipelineList", catalog_models.PipelineEntryPage),
        ("/pipelines/svc.a/runs", "RunFactsList", catalog_models.RunFactsPage),
        ("/pipelines/svc.a/runs/run-1", "Run", catalog_models.RunDetails),
        ("/pipelines/svc.a/runs/run-1/grep?q=error", "Matches", catalog_models.MatchingLines),
        ("/pipelines/svc.a/runs/run-1/histogram", "Histogram", catalog_models.RunHistogram),
    ],
)
def test_responses_of_the_catalog(site: Site, path: str, name: str, model: Any) -> None:
    ended_run(site)
    answer = call("GET", f"/v1/catalog{path}")
    check(name, model, answer)
    assert "runId" in answer.json or any(isinstance(each, list) and each for each in answer.json.values())


DAMAGED = {
    "lines": -1,
    "bytes": -2,
    "seal": "odd",
    "start": RunStart("s", "\ud800", 0, "h", "c", -5, -5),
    "end": RunEnd("odd", "3", "s", "e", "x", -1),  # type: ignore[arg-type]
}


def test_row_with_values_that_nothing_here_writes_is_served(site: Site) -> None:
    ended_run(site)
    site.runs._rows[RUN] = replace(site.runs._rows[RUN], **DAMAGED)
    for path in ("", "/pipelines", "/pipelines/svc.a/runs", "/pipelines/svc.a/runs/run-1"):
        answer = call("GET", f"/v1/catalog{path}")
        assert answer.status == 200
    facts = call("GET", "/v1/catalog/pipelines/svc.a/runs/run-1").json
    assert (facts["lines"], facts["end"], facts["outcome"], facts["exitCode"], facts["attempt"]) == (-1, "odd", "odd", "3", 0)
    assert mistakes(COMPONENTS["schemas"]["Run"], facts), "which the document does not promise"


def test_damaged_entry_of_a_segment_is_served_in_a_histogram(site: Site) -> None:
    ended_run(site)
    tails = site.world.parts().writer.tails
    site.world.index.put(RUN, [replace(tails.segment(RUN, 0), errors=-3)])
    answer = call("GET", "/v1/catalog/pipelines/svc.a/runs/run-1/histogram")
    assert (answer.status, [each["errors"] for each in answer.json["buckets"]]) == (200, [-3])

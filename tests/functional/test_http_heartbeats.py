"""Heartbeats over HTTP, and the facts of a run after they stop."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from chalicelib.catalog.runs import SILENT_AFTER_MS
from chalicelib.errors import OutcomeUnknownError, StoreUnavailableError
from chalicelib.ports import Run
from chalicelib.runlog.attempts import read_start
from tests.functional.gateway import call, installed, post
from tests.support.run_catalog import InMemoryRunCatalog
from tests.world import START_MS, World

RUN = Run("svc.a", "r1")
FACTS = "/v1/catalog/pipelines/svc.a/runs"
HEARTBEAT = "/v1/events/svc.a/r1/heartbeat"


class Site(World):
    """A world whose catalog has the rows that ingestion makes."""

    def __init__(self) -> None:
        super().__init__()
        self.runs = InMemoryRunCatalog()

    def start(self, heartbeat_s: int | None) -> None:
        body = json.dumps({} if heartbeat_s is None else {"heartbeatS": heartbeat_s})
        assert call("PUT", "/v1/events/svc.a/r1/starts/s", body, {"Content-Type": "application/json"}).status == 200
        start = read_start(self.store, self.layout, RUN)
        assert start and start.heartbeat_s == (heartbeat_s or 0)
        self.runs.record_start(RUN, start)

    def after(self, seconds: int) -> tuple[str, int | None]:
        """At a time after the start: the outcome, and the seconds from the start to the last sign of life of a silent run."""
        self.clock.advance(seconds - (self.clock.now_ms() - START_MS) // 1000)
        (facts,) = call("GET", FACTS).json["runs"]
        assert facts.items() <= call("GET", f"{FACTS}/r1").json.items()
        since_ms = facts["silentSinceMs"]
        return facts["outcome"], None if since_ms is None else (since_ms - START_MS) // 1000


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    with installed(site, runs=site.runs):
        yield site


@pytest.mark.behavior("An open run without heartbeats and lines is shown as silent.")
@pytest.mark.parametrize(("heartbeat_s", "limit_s"), [(10, 30), (300, 900), (86_400, 259_200), (0, 3600), (None, 3600)])
def test_open_run_is_silent_once_three_heartbeats_or_an_hour_are_missed(site: Site, heartbeat_s: int | None, limit_s: int) -> None:
    assert SILENT_AFTER_MS == 3_600_000
    site.start(heartbeat_s)
    assert site.after(limit_s) == ("running", None)
    assert site.after(limit_s + 1) == ("silent", 0)
    assert call("PUT", HEARTBEAT).json == {"recorded": True}
    assert site.after(2 * limit_s + 1) == ("running", None)
    assert site.after(2 * limit_s + 2) == ("silent", limit_s + 1)


def test_heartbeat_of_a_run_that_is_not_there_or_has_ended_is_not_recorded(site: Site) -> None:
    assert call("PUT", HEARTBEAT).json == {"recorded": False}
    site.start(60)
    assert post("svc.a/r1", "one\n", {"Content-Type": "text/plain"}).status == 200
    assert post("svc.a/r1/close", "").status == 200
    for sequence in (0, 1):
        site.runs.record_segment(RUN, site.parts().writer.tails.segment(RUN, sequence))
    assert call("PUT", HEARTBEAT).json == {"recorded": False}
    assert site.after(10**6) == ("unknown", None)


def test_heartbeat_makes_no_request_to_s3(site: Site) -> None:
    site.start(60)
    requests = site.store.calls.copy()
    assert call("PUT", HEARTBEAT).status == 200
    assert site.store.calls == requests


@pytest.mark.parametrize(("error", "applied"), [(StoreUnavailableError, False), (OutcomeUnknownError, True)])
def test_heartbeat_that_fails_is_a_503_and_can_be_repeated(site: Site, error: type[Exception], applied: bool) -> None:
    site.start(60)
    site.runs.failures.schedule("record_heartbeat", error=error, applied=applied)
    answer = call("PUT", HEARTBEAT)
    assert (answer.status, answer.json["code"]) == (503, 503)
    assert call("PUT", HEARTBEAT).json == {"recorded": True}

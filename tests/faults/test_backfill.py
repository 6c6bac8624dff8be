"""The backfill over a bucket in memory: every object once, going on from the last checkpoint wherever it was stopped."""

from __future__ import annotations

import json
from typing import Any

import pytest

from chalicelib import composition
from chalicelib.catalog.search import FileQuery, Search
from chalicelib.errors import StoreUnavailableError
from chalicelib.ports import PutOptions
from chalicelib.runlog.batch import Batch
from glue_jobs import backfill
from tests.faults.interception import Crash, Intercepted
from tests.functional.gateway import installed
from tests.support.run_catalog import InMemoryRunCatalog
from tests.world import RUN, START_MS, World

HASH = "0" * 32


class Silent:
    """Progress that is only counted."""

    def __init__(self) -> None:
        self.shown: list[int] = []

    def show(self, done: int, key: str) -> None:
        self.shown.append(done)

    def end(self) -> None:
        pass


def filled(world: World, count: int) -> list[str]:
    """Files in the archive's bucket without notifications; their ids."""
    ids = [f"{number:032x}" for number in range(count)]
    for number, file_id in enumerate(ids):
        document = {
            "version": 0, "start": START_MS + number, "end": None, "path": "/a", "work_id": None, "where": f"w{number % 3}",
            "what": "old", "id": file_id, "hash": HASH,
        }  # fmt: skip
        world.archive_store.put(f"{file_id}/data", b"x", PutOptions({"datalake": json.dumps(document)}))
    return ids


def source() -> backfill.Source:
    return backfill._source(composition.services(), backfill._parser().parse_args([]))


def worked(given: backfill.Source, *, dry_run: bool = False) -> backfill.Tally:
    tally = backfill.Tally()
    backfill.backfill(given, Silent(), tally, dry_run=dry_run)
    return tally


def listed(world: World) -> list[str]:
    found: list[str] = []
    query = FileQuery(("old",), start_ms=START_MS - 1, end_ms=START_MS + 10**6)
    search = Search(world.database)
    page = search.page(query)
    found += [document["metadata"]["id"] for document in page.documents]
    while page.after:
        page = search.page(FileQuery(("old",), start_ms=query.start_ms, end_ms=query.end_ms, after=page.after))
        found += [document["metadata"]["id"] for document in page.documents]
    return found


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backfill, "PAGE_KEYS", 40)
    monkeypatch.setattr(backfill, "BATCH", 15)


def test_everything_in_the_bucket_is_listed_afterwards_and_twice_is_the_same() -> None:
    world = World()
    ids = filled(world, 130)
    world.archive_store.put("no-file.txt", b"x", PutOptions())
    with installed(world):
        first = worked(source())
        rows = sorted(map(str, world.database.rows("files")))
        second = worked(source())
    assert first.counts == second.counts == {"files": 130, "refused": 1}
    assert listed(world) == ids
    assert sorted(map(str, world.database.rows("files"))) == rows
    assert "no metadata document" in first.problems[0]


@pytest.mark.behavior("A backfill that is interrupted at any call continues from its last checkpoint.")
def test_stopped_at_any_call_it_goes_on_from_the_last_checkpoint() -> None:
    number = 0
    while True:
        world, calls = World(), 0
        ids = filled(world, 100)

        def gate(operation: str, call: Any, stop: int = number) -> Any:
            nonlocal calls
            calls += 1
            if calls > stop:
                raise Crash(operation)
            return call()

        with installed(world, archive_store=Intercepted(world.archive_store, gate)):
            try:
                worked(source())
                break
            except Crash:
                pass
        done = len(listed(world))
        with installed(world):
            tally = worked(source())
        assert listed(world) == ids
        assert tally.counts["files"] <= 100 - done // 40 * 40, "whole pages are not worked again"
        number += 7
    assert number > 100


def test_a_catalog_that_is_away_for_a_while_loses_nothing() -> None:
    world, calls = World(), 0
    ids = filled(world, 60)

    def gate(operation: str, call: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls % 5 in (3, 4):
            raise StoreUnavailableError("throttled")
        return call()

    inner = world.database
    with installed(world):
        services = composition.services()
        for each in (services.registration, services.registration._latest):
            each._database = Intercepted(inner, gate)
        tally = worked(source())
    assert tally.counts == {"files": 60} and listed(world) == ids


def test_a_dry_run_writes_nothing() -> None:
    world = World()
    filled(world, 50)
    with installed(world):
        tally = worked(source(), dry_run=True)
    assert tally.counts == {"files": 50}
    assert not any(world.database.rows(table) for table in ("files", "listing", "latest", "objects"))


def test_finished_logs_are_catalogued_as_files() -> None:
    world = World()
    world.parts().writer.append(RUN, Batch.from_text("a\nb\n", "host-1"))
    world.parts().finalizer.close(RUN)
    with installed(world, runs=InMemoryRunCatalog()):
        arguments = backfill._parser().parse_args(["--run-logs"])
        tally = worked(backfill._source(composition.services(), arguments))
        page = composition.services().search.page(FileQuery(("svc_pipeline",), work_id=RUN.run_id))
    assert tally.counts == {"files": 1}
    (document,) = page.documents
    assert document["metadata"]["lines"] == 2 and document["url"].endswith("/logs.txt")

"""A pipeline that writes files, interrupted at every call of the store and the database: the files' rows name each event exactly
once.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
import yaml

from chalicelib.errors import LeaseError, UnavailableError
from chalicelib.pipelines.configuration import parse_pipeline_file
from chalicelib.pipelines.files import two_phase_commit
from chalicelib.pipelines.files.rows import FileRow, FileRows
from chalicelib.pipelines.worker import Worker
from chalicelib.ports import Run
from tests.faults.interception import BEFORE, FAULTS, Crash, Intercepted, StopAt
from tests.pipelines_harness import START_MS, PipelinesHarness, line

RUNS = {"a": Run("svc.a", "r1"), "b": Run("svc.b", "r2"), "c": Run("other.c.part", "r3")}
ROLLING = "chalicelib.pipelines.files.handler.RollingS3Handler"
FILE = parse_pipeline_file(
    yaml.safe_dump({
        "properties": {"checkpoint_interval_ms": 1000},
        "logging": {
            "version": 1,
            "handlers": {
                "files": {"class": ROLLING, "base": "pipeline-files", "format": "jsonl", "workers": 1, "max_bytes": 400},
                "debug": {"class": ROLLING, "base": "debug", "format": "jsonl", "workers": 1},
            },
            "root": {"handlers": ["files", "debug"]},
        },
    }),
    "test",
)  # fmt: skip
EXPECTED = Counter((run.fqn, run.run_id, number) for run in RUNS.values() for number in range(6))


def world_with_logs() -> PipelinesHarness:
    world = PipelinesHarness()
    for name, run in RUNS.items():
        for first in (0, 3):
            numbers = range(first, first + 3)
            world.write(run, [line(START_MS + number * 7 + ord(name), f"{name} {number}") for number in numbers])
    world.end(RUNS["a"])
    return world


def worked(world: PipelinesHarness, gate: Any, owner: str) -> None:
    """The life of a worker over stores that may stop it."""
    store, database = Intercepted(world.store, gate), Intercepted(world.database, gate)
    try:
        worker = worker_of(world, store, database, owner)
        worker.start()
        for _ in range(8):
            try:
                if not worker.step() and worker.is_idle:
                    break
            except UnavailableError:
                pass  # the supervisor continues
            world.clock.advance(3)
        worker.stop()
    except (Crash, UnavailableError, LeaseError):
        pass  # restarted by the next tick


def worker_of(world: PipelinesHarness, store: Any, database: Any, owner: str) -> Worker:
    return world.worker(FILE, owner=owner, store=store, database=database)


def named(world: PipelinesHarness, base: str) -> Counter[tuple[str, str, int]]:
    """How often the rows name each event, read without any Runlake reader."""
    found: Counter[tuple[str, str, int]] = Counter()
    for row in FileRows(world.database).listed(base, ""):
        if isinstance(row, FileRow) and row.contents.size:
            for each in world.store.get(row.object_key).body[: row.contents.size].splitlines():
                event = json.loads(each)
                found[event["fqn"], event["runId"], event["line"]] += 1
    return found


@pytest.mark.sampled(default=3, fast=1)
@pytest.mark.parametrize(("moment", "how"), FAULTS)
@pytest.mark.parametrize("path", ["rows in the transaction", "rows on stage"])
def test_each_event_is_in_each_handlers_files_exactly_once(
    path: str, moment: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if path == "rows on stage":
        monkeypatch.setattr(two_phase_commit, "DIRECT_ROWS", 0)
    number = 0
    while True:
        world, gate = world_with_logs(), StopAt(number, moment, how)
        worked(world, gate, "w1")
        if not gate.fired:
            break
        worked(world, gate.successor, "w2")
        gate.land()
        worked(world, StopAt(-1, BEFORE, "error"), "w3")
        for base in ("pipeline-files", "debug"):
            assert named(world, base) == EXPECTED, (base, number, gate.calls)
        number += 1
    for base in ("pipeline-files", "debug"):
        assert named(world, base) == EXPECTED
    print(f"\npoints: {number}")
    assert number > (30 if moment == BEFORE else 5), "few calls are conditional"


def test_files_stand_where_the_names_of_pipelines_say() -> None:
    world = world_with_logs()
    worked(world, StopAt(-1, BEFORE, "error"), "w1")
    folders = {key.rsplit("/", 1)[0].split("/", 1)[1] for key in (each.key for each in world.store.list("debug/").objects)}
    day = next(iter(folders)).split("/")[1]
    assert folders == {f"svc/{day}/a/run", f"svc/{day}/b/run", f"other/{day}/c/part"}

"""The schedules: due runs are shared among workers, a few at once; failed runs are postponed and block no other; work stops in time and continues."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from threading import Barrier, Lock
from typing import Any
from unittest.mock import patch

import pytest

import app
from chalicelib import composition
from chalicelib.composition import COMPACTION, SWEEP
from chalicelib.coordination import Administration, SourceCoordinator, Status
from chalicelib.errors import StoreUnavailableError
from chalicelib.observability import metrics
from chalicelib.ports import Run, RunEnd, RunStart, Workers
from chalicelib.runlog.batch import Batch
from chalicelib.runlog.finalization import Finalizer
from chalicelib.triggers import schedules
from tests.faults.interception import Call, Intercepted
from tests.functional.gateway import Context, installed
from tests.support.run_catalog import InMemoryRunCatalog
from tests.world import World

RUNS = [Run("svc.pipe", f"run-{number}") for number in range(6)]
ONE = RUNS[0]
ENOUGH_MS = 840_000
HOUR_S = 3600
TICK = {"version": "0", "account": "1", "region": "r", "detail": {}, "detail-type": "Scheduled Event", "source": "aws.events"} | {
    "time": "2026-11-21T00:00:00Z", "id": "1", "resources": [],
}  # fmt: skip


class Ticking(World):
    """A world with a catalog whose notifications arrive on request."""

    def __init__(self) -> None:
        super().__init__()
        self.runs = InMemoryRunCatalog()

    def installed(
        self, gate: Callable[[str, Callable[[], Any]], Any] | None = None, workers: Workers | None = None, **settings: Any
    ) -> AbstractContextManager[World]:
        store: Any = Intercepted(self.store, gate) if gate else None
        return installed(self, store, self.runs, workers=workers, **settings)

    def append(self, run: Run, text: str) -> None:
        self.parts().writer.append(run, Batch.from_text(text))

    def notify(self, *runs: Run) -> None:
        """Send the notification of every segment to ingestion."""
        for run in runs:
            for found in self.parts().writer.tails.list_segments(run):
                entry = self.parts().writer.tails.segment(run, self.layout.sequence_of(run, found.key))
                self.runs.record_segment(run, entry)
                self.index.put(run, [entry])

    def active(self) -> set[Run]:
        return {row.run for row in self.runs.active(self.clock.now_ms() + 1)}


@pytest.fixture
def world() -> Ticking:
    metrics.clear_metrics()  # what a test recorded outside of an invocation
    return Ticking()


def compact(remaining_ms: int = ENOUGH_MS) -> dict[str, int]:
    return schedules.compact(composition.services(), remaining_ms)


def sweep(remaining_ms: int = ENOUGH_MS) -> dict[str, int]:
    return schedules.sweep(composition.services(), remaining_ms)


def did(**counts: int) -> dict[str, int]:
    """The result of a schedule."""
    return {"done": 0, "failed": 0, "set_aside": 0, "left": 0, "lost": 0} | counts


def admin(source: str = COMPACTION) -> Administration:
    return composition.administration(composition.services(), source)


def keys(status: Status, source: str = COMPACTION) -> list[str]:
    return [partition.key for partition in admin(source).list(status).partitions]


def test_open_runs_are_compacted(world: Ticking) -> None:
    for run in RUNS[:3]:
        world.append(run, "one\ntwo")
        world.append(run, "three")
    world.notify(*RUNS[:2])  # of the third, nothing is known yet
    with world.installed():
        assert compact() == did(done=2)
        assert [world.body("partial.txt", run) for run in RUNS[:2]] == [b"one\ntwo\nthree\n"] * 2
        assert "partial.txt" not in world.names(RUNS[2])
        row = world.runs.get(ONE)
        assert row and (row.compacted_segments, row.compacted_bytes, row.pending_segments) == (2, 14, 0)
        assert compact() == did()  # nothing is due


def test_a_sealed_run_is_finished(world: Ticking) -> None:
    world.append(ONE, "one\ntwo")
    parts = world.parts()
    parts.writer.seal(ONE, "closed", parts.writer.tails.find(ONE))  # and the function that closed it died
    world.notify(ONE)
    with world.installed():
        assert compact() == did(done=1)
    assert world.body("logs.txt", ONE) == b"one\ntwo\n"
    row = world.runs.get(ONE)
    assert row and (row.status, row.pending_segments) == ("finalized", 0)


@pytest.mark.parametrize("closed", [False, True])
def test_segments_are_retired_when_their_time_has_come(world: Ticking, closed: bool) -> None:
    for number in range(3):
        world.append(ONE, str(number))
    if closed:
        world.parts().finalizer.close(ONE)
    world.notify(ONE)
    artifact = "logs.txt" if closed else "partial.txt"
    last = "segments/0000000003" if closed else "segments/0000000002"
    with world.installed():
        compact()
        assert len(world.names(ONE)) == (5 if closed else 4)
        world.clock.advance(19 * 60)
        assert compact() == did()
        world.clock.advance(2 * 60)
        assert compact()["done"] == 1
        assert world.names(ONE) == [artifact, last]
        assert world.active() == (set() if closed else {ONE})
        world.clock.advance(20 * 60)
        assert compact() == did()
    assert world.body(artifact, ONE) == b"0\n1\n2\n"


def test_the_run_with_most_to_do_is_first_in_line(world: Ticking) -> None:
    for size, run in zip((3, 9, 6), RUNS, strict=False):
        world.append(run, "x" * size)
    world.notify(*RUNS[:3])
    with world.installed():
        compact(remaining_ms=29_000)  # too late to work any
        assert keys(Status.UNASSIGNED) == ["svc.pipe/run-1", "svc.pipe/run-2", "svc.pipe/run-0"]
        assert compact() == did(done=3)
        assert keys(Status.UNASSIGNED) == [], "what is done leaves nothing"


def failing_for(world: World, run: Run) -> Callable[[str, Callable[[], Any]], Any]:
    prefix = world.layout.run_prefix(run)

    def gate(operation: str, call: Callable[[], Any]) -> Any:
        assert isinstance(call, Call)
        key = call.arguments[0]
        if key.startswith(prefix):
            raise StoreUnavailableError(f"injected key={key}")
        return call()

    return gate


def metrics_of(printed: str) -> dict[str, list[float]]:
    """Every printed value, by name."""
    values: dict[str, list[float]] = {}
    for line in printed.splitlines():
        emf = json.loads(line)
        for metric in emf["_aws"]["CloudWatchMetrics"][0]["Metrics"]:
            values.setdefault(metric["Name"], []).extend(emf[metric["Name"]])
    return values


@pytest.mark.behavior("A run whose compaction fails is retried later and blocks no other.")
def test_failed_run_is_postponed_and_blocks_no_other(world: Ticking, capsys: pytest.CaptureFixture[str]) -> None:
    for run in RUNS:
        world.append(run, "line")
    world.notify(*RUNS)
    with world.installed(failing_for(world, RUNS[2]), pending_flush_alert_after_failures=2):
        for failures in (1, 2):
            assert app.compact(TICK, Context(ENOUGH_MS)) == did(done=5 if failures == 1 else 0, failed=1)
            printed = metrics_of(capsys.readouterr().out)
            assert printed["om_streamable_logs_consecutive_flush_failures"] == [failures]
            assert printed.get("om_streamable_logs_flush_alerts", []) == ([1] if failures == 2 else [])
            assert max(printed["om_streamable_logs_pending_flush_bytes"]) == 5
            assert sum(printed["om_streamable_logs_pending_flush_segments"]) == (6 if failures == 1 else 1)
            assert len(printed["om_streamable_logs_s3_errors"]) > 0
            assert printed["compaction_source_coordinator_partitionsClosed"] == [1]
            assert compact() == did(), "it is not tried again at once"
            capsys.readouterr()
            world.clock.advance(61 * failures)
    with world.installed():
        assert compact() == did(done=1)
        assert keys(Status.CLOSED) == keys(Status.COMPLETED) == [], "a success ends the row of failures"


def test_pauses_grow_until_the_run_is_set_aside_for_an_operator(world: Ticking) -> None:
    world.append(ONE, "line")
    world.notify(ONE)
    pauses: list[int] = []
    with world.installed(failing_for(world, ONE), set_aside_after_failures=9, pending_flush_alert_after_failures=3):
        while (result := compact()) == did(failed=1):
            reopen_ms = admin().get("svc.pipe/run-0").reopen_ms
            assert reopen_ms
            pauses.append((reopen_ms - world.clock.now_ms()) // 60_000)
            world.clock.advance(pauses[-1] * 60)
        assert result == did(set_aside=1)
        assert pauses == [1, 2, 3, 4, 5, 6, 7, 8]
        world.clock.advance(24 * HOUR_S)
        assert compact() == did(), "it is set aside, though it is due"
        (aside,) = admin().list(Status.COMPLETED).partitions
        assert aside.key == "svc.pipe/run-0" and "injected" in str(aside.state) and aside.closed_count == 9
    with world.installed():
        assert compact() == did()
        admin().retry(aside.key)
        assert compact() == did(done=1)
    assert world.body("partial.txt", ONE) == b"line\n"


def test_when_the_store_of_leases_is_away_the_tick_fails_and_the_next_goes_on(world: Ticking) -> None:
    for run in RUNS:
        world.append(run, "line")
    world.notify(*RUNS)
    store, source = world.work_sources(COMPACTION)

    class Away:
        def __init__(self, after: int) -> None:
            self.left = after

        def __getattr__(self, name: str) -> Any:
            self.left -= 1
            if self.left < 0:
                raise StoreUnavailableError("the table is away")
            return getattr(store, name)

    working, world.work_sources = world.work_sources, lambda _: (away, source)
    for after in range(1, 60):
        away: Any = Away(after)
        with world.installed():
            try:
                compact()
            except StoreUnavailableError:
                world.clock.advance(700)  # its leases expire
                continue
            break
    else:
        pytest.fail("it never had enough calls")
    world.work_sources = working
    with world.installed():
        compact()
    assert [world.body("partial.txt", run) for run in RUNS] == [b"line\n"] * len(RUNS)


# ---------------------------------------------------------------- shared work


class Started:
    """Records the further workers that a function would start."""

    def __init__(self, *, fails: bool = False) -> None:
        self.numbers: list[int] = []
        self.fails = fails

    def start(self, number: int) -> None:
        if self.fails:
            raise StoreUnavailableError("throttled")
        self.numbers.append(number)


@pytest.mark.behavior("More workers start when more runs are due.")
@pytest.mark.parametrize(
    ("due", "most", "expected"), [(1, 8, []), (2, 8, []), (3, 8, [1]), (6, 8, [1, 2]), (6, 2, [1]), (6, 1, [])]
)
def test_more_workers_are_started_when_more_is_due(
    world: Ticking, monkeypatch: pytest.MonkeyPatch, due: int, most: int, expected: list[int]
) -> None:
    monkeypatch.setattr(schedules, "RUNS_PER_WORKER", 2)
    for run in RUNS[:due]:
        world.append(run, "line")
    world.notify(*RUNS[:due])
    workers = Started()
    with world.installed(workers=workers, max_workers=most):
        assert compact() == did(done=due)
        assert workers.numbers == expected


def test_started_worker_processes_waiting_runs_and_discovers_none(world: Ticking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedules, "RUNS_PER_WORKER", 1)
    world.append(ONE, "line")
    world.notify(ONE)
    workers = Started()
    with world.installed(workers=workers):
        assert app.compact(TICK | {"detail": {"worker": 3}}, Context(ENOUGH_MS)) == did()
        compact(remaining_ms=29_000)
        assert app.compact(TICK | {"detail": {"worker": 3}}, Context(ENOUGH_MS)) == did(done=1)
    assert workers.numbers == []


def test_a_worker_that_cannot_be_started_is_done_without(world: Ticking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedules, "RUNS_PER_WORKER", 1)
    for run in RUNS:
        world.append(run, "line")
    world.notify(*RUNS)
    with world.installed(workers=Started(fails=True)):
        assert compact() == did(done=6)


def test_invocations_share_the_work(world: Ticking) -> None:
    """Four concurrent invocations compact each run once."""
    runs = [Run("svc.pipe", f"run-{number}") for number in range(60)]
    for run in runs:
        world.append(run, "line")
    world.notify(*runs)
    with world.installed():
        compact(remaining_ms=29_000)
        puts = world.store.calls["put"]
        with ThreadPoolExecutor(4) as threads:
            results = list(threads.map(lambda worker: schedules.compact(composition.services(), ENOUGH_MS, worker), range(1, 5)))
        assert sum(result["done"] for result in results) == 60
        assert [result | {"done": 0} for result in results] == [did()] * 4
        assert world.store.calls["put"] - puts == 60, "each partial.txt is written once"


@pytest.mark.behavior("A worker that lost its lease stops at its next store call.")
def test_a_lost_lease_stops_the_work_at_its_next_call(world: Ticking) -> None:
    for _ in range(3):
        world.append(ONE, "line")
    world.notify(ONE)
    calls: list[str] = []

    def gate(operation: str, call: Callable[[], Any]) -> Any:
        calls.append(operation)
        if len(calls) == 2:
            admin().release("svc.pipe/run-0")
            store, source = world.work_sources(COMPACTION)
            other = SourceCoordinator(store, source, world.clock, lambda *_: None)
            other.initialize()
            assert other.next_partition()
            world.clock.advance(600)  # the first holder's trust ends too
        return call()

    with world.installed(gate, max_concurrent_streams=1):  # a second thread of the pool could acquire a released partition
        assert compact() == did(lost=1)
    assert len(calls) == 2, "nothing was asked of the store after that"
    assert "partial.txt" not in world.names(ONE)


def test_a_worker_that_died_leaves_its_runs_to_the_next(world: Ticking) -> None:
    for run in RUNS:
        world.append(run, "line")
    world.notify(*RUNS)
    with world.installed():
        compact(remaining_ms=29_000)
        dead = composition.coordinator(composition.services(), COMPACTION)
        dead.initialize()
        assert len(dead.acquire_many(4)) == 4
        assert compact() == did(done=2)
        world.clock.advance(604)
        assert compact() == did(), "its lease, and what its clock may be behind"
        world.clock.advance(2)
        assert compact() == did(done=4)


def test_runs_that_are_not_due_cost_nothing_of_s3(world: Ticking) -> None:
    for run in RUNS:
        world.append(run, "line")
    world.notify(*RUNS)
    with world.installed():
        compact()
        before = world.store.calls.total()
        assert compact() == did()
        assert world.store.calls.total() == before


# ---------------------------------------------------------------- time


def test_without_time_nothing_is_begun(world: Ticking) -> None:
    world.append(ONE, "line")
    world.notify(ONE)
    calls: list[str] = []

    def gate(operation: str, call: Callable[[], Any]) -> Any:
        calls.append(operation)
        return call()

    with world.installed(gate):
        assert compact(remaining_ms=29_000) == did()
        assert calls == []
        assert compact() == did(done=1)


@pytest.mark.behavior("Scheduled work stops before the function's deadline and continues at the next tick.")
def test_work_ends_before_the_function_does_and_goes_on_next_time(world: Ticking) -> None:
    for run in RUNS:
        world.append(run, "line")
    world.notify(*RUNS)

    def slow(operation: str, call: Callable[[], Any]) -> Any:
        world.clock.advance(1)
        return call()

    with world.installed(slow, max_concurrent_streams=1):
        started_s = world.clock.monotonic_s()
        first = compact(remaining_ms=42_000)
        assert world.clock.monotonic_s() - started_s < 42
        assert first["done"] > 0
        assert first["left"] > 0
        assert first["failed"] == 0
    with world.installed():
        second = compact()
    assert first["done"] + second["done"] >= len(RUNS)
    assert [world.body("partial.txt", run) for run in RUNS] == [b"line\n"] * len(RUNS)


@pytest.mark.parametrize(("allowed", "seen"), [(1, 1), (2, 2), (3, 3), (100, schedules.THREADS)])
def test_no_more_runs_at_once_than_allowed(world: Ticking, monkeypatch: pytest.MonkeyPatch, allowed: int, seen: int) -> None:
    runs = [Run("svc.pipe", f"run-{number}") for number in range(seen * 3)]
    for run in runs:
        world.append(run, "line")
    world.notify(*runs)
    running: list[int] = []
    most, lock, all_there = 0, Lock(), Barrier(seen)
    with world.installed(max_concurrent_streams=allowed):
        settle = Finalizer.compact_and_finalize

        def counted(*arguments: Any) -> Any:
            nonlocal most
            with lock:
                running.append(1)
                most = max(most, len(running))
            all_there.wait(timeout=10)  # so many are in hand at once, or this breaks
            with lock:
                running.pop()
            return settle(*arguments)

        monkeypatch.setattr(Finalizer, "compact_and_finalize", counted)
        assert compact()["done"] == len(runs)
    assert most == seen


def test_a_run_idle_for_a_day_is_finalized_and_a_fresh_one_is_not(world: Ticking) -> None:
    world.append(ONE, "old")
    world.clock.advance(24 * HOUR_S)
    world.append(RUNS[1], "fresh")
    world.clock.advance(1 * HOUR_S)
    world.notify(*RUNS[:2])
    with world.installed():
        assert sweep() == did(done=1)
        assert world.body("logs.txt", ONE) == b"old\n"
        assert "logs.txt" not in world.names(RUNS[1])
        row = world.runs.get(ONE)
        assert row and row.final_segments == 2
        assert sweep() == did()


def test_run_with_heartbeats_is_not_swept_until_they_stop(world: Ticking) -> None:
    world.append(ONE, "old")
    world.notify(ONE)
    world.clock.advance(25 * HOUR_S)
    heartbeat_ms = world.clock.now_ms() - HOUR_S * 1000
    assert world.runs.record_heartbeat(ONE, heartbeat_ms)
    with world.installed():
        assert sweep() == did(), "it is not even shared out"
        world.clock.advance(24 * HOUR_S)
        assert sweep() == did(done=1)
    assert world.body("logs.txt", ONE) == b"old\n"
    assert world.parts().writer.tails.segment(ONE, 1).end == RunEnd("lost", ended_ms=heartbeat_ms)


def test_run_whose_heartbeats_are_a_day_apart_is_not_swept_until_three_are_missed(world: Ticking) -> None:
    world.append(ONE, "old")
    world.notify(ONE)
    now_ms = world.clock.now_ms()
    world.runs.record_start(ONE, RunStart("s", ONE.run_id, 1, "", "", now_ms, now_ms, heartbeat_s=86_400))
    with world.installed():
        world.clock.advance(71 * HOUR_S)
        assert sweep() == did()
        world.clock.advance(2 * HOUR_S)
        assert sweep() == did(done=1)


def test_heartbeat_that_comes_after_the_run_was_shared_out_keeps_it_open(world: Ticking) -> None:
    world.append(ONE, "old")
    world.notify(ONE)
    world.clock.advance(25 * HOUR_S)
    get = world.runs.get

    def beating(run: Run) -> Any:
        world.runs.record_heartbeat(run, world.clock.now_ms())
        return get(run)

    with world.installed(), patch.object(world.runs, "get", beating):
        sweep()
    assert "logs.txt" not in world.names(ONE)


def test_an_append_that_comes_first_keeps_the_run_open(world: Ticking) -> None:
    world.append(ONE, "old")
    world.notify(ONE)
    world.clock.advance(25 * HOUR_S)
    world.append(ONE, "back again")  # its notification is still on its way
    with world.installed():
        sweep()
    assert world.read_all(ONE) == ["old", "back again"]
    assert "logs.txt" not in world.names(ONE)


def test_an_append_that_comes_after_reopens_the_run(world: Ticking) -> None:
    world.append(ONE, "old")
    world.notify(ONE)
    world.clock.advance(25 * HOUR_S)
    with world.installed():
        sweep()
        world.append(ONE, "back again")
        world.notify(ONE)
        assert compact()["done"] == 1
        world.parts().finalizer.close(ONE)
    assert world.body("logs.txt", ONE) == b"old\nback again\n"


def test_the_sweep_counts_failures_too(world: Ticking) -> None:
    world.append(ONE, "old")
    world.append(RUNS[1], "old")
    world.notify(*RUNS[:2])
    world.clock.advance(25 * HOUR_S)
    with world.installed(failing_for(world, ONE)):
        assert sweep() == did(done=1, failed=1)
        assert keys(Status.CLOSED, SWEEP) == ["svc.pipe/run-0"]
        assert keys(Status.CLOSED) == [], "the two schedules have their own"


def test_the_entry_points(world: Ticking, capsys: pytest.CaptureFixture[str]) -> None:
    world.append(ONE, "old")
    world.notify(ONE)
    with world.installed():
        assert app.compact(TICK, Context(ENOUGH_MS)) == did(done=1)
        world.clock.advance(25 * HOUR_S)
        assert app.sweep(TICK, Context(ENOUGH_MS)) == did(done=1)
    printed = metrics_of(capsys.readouterr().out)
    assert printed["om_streamable_logs_runs_finalized"] == [1]
    assert printed["om_streamable_logs_flush_uploaded_bytes"] == [4]

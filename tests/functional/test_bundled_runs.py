"""Sidecars of ended runs are bundled in the background: when, how far, and what they never delay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import app
from chalicelib.composition import BUNDLING
from chalicelib.coordination import Status
from chalicelib.errors import DamagedLogError, StoreUnavailableError
from chalicelib.events import bundling
from chalicelib.events.event_view import EventFilter
from chalicelib.events.sidecar_bundle import encode_bundle
from chalicelib.observability import metrics
from chalicelib.ports import PutOptions, Run
from chalicelib.runlog.compaction import BUNDLE_FROM, RETIRE_AFTER_MS
from chalicelib.runlog.log_end import delete_all
from chalicelib.triggers import schedules
from tests.events_harness import all_events, event_parts, make_event, read_step_log
from tests.faults.interception import Call, Intercepted
from tests.functional.gateway import Context
from tests.functional.test_explained_runs import Ended
from tests.functional.test_schedules import ENOUGH_MS, HOUR_S, RUNS, TICK, compact, did, keys, metrics_of

ONE, TWO = RUNS[:2]
BUNDLED_S = 32 * 60
"""The first tick after this finds the run."""


class WithEvents(Ended):
    """Runs of small batches of events."""

    def send(self, run: Run, batches: int, first: int = 0) -> None:
        parts = event_parts(self)
        for number in range(first, first + batches):
            parts.log.append(run, [make_event(f"event {number}", "s")])
        self.notify(run)

    def finish(self, run: Run) -> None:
        self.parts().finalizer.close(run)
        self.notify(run)
        self.record(run)

    def record(self, run: Run) -> None:
        row = self.row(run)
        self.runs.record_finalization(run, row.lines, row.bytes, row.segments, self.clock.now_ms())

    def objects(self, run: Run) -> tuple[int, int]:
        """The numbers of single sidecars and of bundles."""
        sidecars = event_parts(self).indexing.sidecars
        return len(list(sidecars.list_single(run))), len(sidecars.bundles(run))

    def check(self, run: Run, events: int) -> None:
        messages = [f"event {number}" for number in range(events)]
        parts = event_parts(self)
        assert [event.message for event in all_events(parts, run)] == messages
        page = parts.browser.page(run, EventFilter(step="s"), 0, 1000)
        assert [event.message for event in page.events] == messages
        assert read_step_log(parts, "s", run) == "".join(f"{message}\n" for message in messages)


@pytest.fixture
def world() -> WithEvents:
    metrics.clear_metrics()  # what a test recorded outside of an invocation
    return WithEvents()


@pytest.mark.behavior("An ended run of many small batches of events consists of a few objects.")
def test_sidecars_are_bundled_before_the_run_is_retired(world: WithEvents, capsys: pytest.CaptureFixture[str]) -> None:
    world.send(ONE, 40)
    world.send(TWO, BUNDLE_FROM - 1)
    world.finish(ONE)
    world.finish(TWO)
    with world.installed():
        world.clock.advance(22 * 60)
        assert compact() == did(done=2) and world.active() == {ONE}, "few sidecars stay as they are"
        assert (world.objects(ONE), world.objects(TWO)) == ((40, 0), (BUNDLE_FROM - 1, 0))
        world.clock.advance(10 * 60)
        capsys.readouterr()
        assert app.compact(TICK, Context(ENOUGH_MS)) == did(done=1)
        assert metrics_of(capsys.readouterr().out)["om_streamable_logs_sidecars_bundled"] == [40]
        assert world.objects(ONE) == (0, 1) and world.active() == {ONE}
        assert compact() == did(done=1) and world.active() == set()
        assert keys(Status.UNASSIGNED, BUNDLING) == []
    world.check(ONE, 40)


def test_reopened_run_is_bundled_again(world: WithEvents) -> None:
    world.send(ONE, 20)
    world.clock.advance(48 * HOUR_S)
    world.parts().finalizer.abandon(ONE, world.clock.now_ms(), world.deadline())
    world.notify(ONE)
    world.record(ONE)
    with world.installed():
        world.clock.advance(BUNDLED_S)
        compact()  # explains the run, which was lost
        compact()
        assert world.objects(ONE) == (0, 1)
        world.send(ONE, 20, first=20)
        world.check(ONE, 40)
        compact()
        world.check(ONE, 40)
        world.finish(ONE)
        world.clock.advance(BUNDLED_S)
        compact()
        assert world.objects(ONE) == (0, 2)
    world.check(ONE, 40)


def test_failing_bundles_are_no_failing_compaction_and_end(world: WithEvents) -> None:
    world.send(ONE, 40)
    world.finish(ONE)

    def gate(operation: str, call: Callable[[], Any]) -> Any:
        assert isinstance(call, Call)
        if "/bundles/" in call.arguments[0] and operation == "put":
            raise StoreUnavailableError("injected")
        return call()

    with world.installed(gate, set_aside_after_failures=2):
        for _ in range(3):
            world.clock.advance(BUNDLED_S)
            assert compact() == did(done=1)
        assert keys(Status.COMPLETED, BUNDLING) == ["svc.pipe/run-0"]
        assert world.active() == {ONE} and world.objects(ONE) == (40, 0)
        world.clock.advance(12 * HOUR_S)
        assert compact() == did(done=1) and world.active() == set()
    world.check(ONE, 40)


def test_sidecars_of_the_last_minutes_stay_single(world: WithEvents) -> None:
    """A late retry of an append may have written them: readers look for recent events among single sidecars only."""
    world.send(ONE, BUNDLE_FROM)
    world.finish(ONE)
    bundler = bundling.SidecarBundler(world.store, world.layout, world.clock)
    for passed_ms, objects in ((RETIRE_AFTER_MS - 1, (BUNDLE_FROM, 0)), (1, (0, 1))):
        world.clock.advance(passed_ms / 1000)
        bundler.bundle(ONE, world.deadline())
        assert world.objects(ONE) == objects


def test_bundles_of_a_large_run_are_continued_by_the_next_tick(world: WithEvents, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundling, "MAX_SIDECARS", 10)
    world.send(ONE, 40)
    world.finish(ONE)

    def slow(operation: str, call: Callable[[], Any]) -> Any:
        assert isinstance(call, Call)
        if "/bundles/" in call.arguments[0] and operation == "put":
            world.clock.advance(schedules.SLICE_S + 1)
        return call()

    with world.installed(slow):
        world.clock.advance(BUNDLED_S)
        for bundles in (1, 2, 3, 4):
            assert compact() == did(done=1)
            assert world.objects(ONE) == (40 - 10 * bundles, bundles)
            world.check(ONE, 40)


def test_bundle_of_a_deleted_run_deletes_no_sidecar_of_its_successor(world: WithEvents) -> None:
    """The deletion was interrupted before the bundle, or the bundle was written during it."""
    world.send(ONE, BUNDLE_FROM)
    sidecars = event_parts(world).indexing.sidecars
    singles = {found.key: world.store.get(found.key).body for found in sidecars.list_single(ONE)}
    world.finish(ONE)
    world.clock.advance(BUNDLED_S)
    first, *_, last = sorted(singles)
    old = [(sidecars.number_of(ONE, key), body) for key, body in sorted(singles.items())]
    old[0] = old[0][0], singles[last]  # of the deleted run; the others are leftovers of this run's bundle
    world.store.put(world.layout.bundle(ONE, old[0][0], old[-1][0]), encode_bundle(old), PutOptions())
    bundler = bundling.SidecarBundler(world.store, world.layout, world.clock)
    for _ in range(2):
        with pytest.raises(DamagedLogError, match="other bytes"):
            bundler.bundle(ONE, world.deadline())
        assert [found.key for found in sidecars.list_single(ONE)] == [first]
    assert world.store.get(first).body == singles[first]


@pytest.mark.parametrize("operation", ["put", "delete"])
def test_run_that_is_replaced_during_bundling_keeps_its_sidecars(world: WithEvents, operation: str) -> None:
    """After the bundle was written, or before a sidecar that an earlier call left is deleted: a run of the same name was begun."""
    world.send(ONE, BUNDLE_FROM)
    sidecars = event_parts(world).indexing.sidecars
    singles = [(sidecars.number_of(ONE, found.key), world.store.get(found.key).body) for found in sidecars.list_single(ONE)]
    world.finish(ONE)
    world.clock.advance(BUNDLED_S)
    if operation == "delete":
        world.store.put(world.layout.bundle(ONE, singles[0][0], singles[-1][0]), encode_bundle(singles), PutOptions())
        delete_all(world.store, [world.layout.sidecar(ONE, number) for number, _ in singles[1:]])
    first = world.layout.sidecar(ONE, singles[0][0])

    def replace(name: str, call: Callable[[], Any]) -> Any:
        assert isinstance(call, Call)
        if name != operation or world.store.get(first).body != singles[0][1]:
            return call()
        answer = call() if name == "put" else None
        world.store.delete(world.layout.logs(ONE))
        world.store.put(first, b"of the successor", PutOptions())
        return answer if name == "put" else call()

    bundling.SidecarBundler(Intercepted(world.store, replace), world.layout, world.clock).bundle(ONE, world.deadline())
    assert world.store.get(first).body == b"of the successor"
    assert sidecars.bundles(ONE) == [] or operation == "delete"

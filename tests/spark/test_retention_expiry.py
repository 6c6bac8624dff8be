"""Expiration of a run: deleted and remaining objects, unchanged runs, and a stop at every call."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest

from chalicelib.errors import InvalidInputError, UnavailableError
from chalicelib.ports import PutOptions, Run
from chalicelib.runlog.batch import Batch
from chalicelib.runlog.compaction import RETIRE_AFTER_MS
from chalicelib.runlog.tombstones import find_tombstone
from glue_jobs import retention
from glue_jobs.expiration.expiry import ExpiringRun, Expiry, Outcome
from glue_jobs.expiration.inventory import BucketInventory
from glue_jobs.expiration.plan import Plan, read_plan
from glue_jobs.transforms.retention import RUNS
from tests.faults.interception import AFTER, BEFORE, Crash, Intercepted, StopAt
from tests.support.run_catalog import InMemoryRunCatalog
from tests.world import RUN, World

DAY_MS = 86_400_000
OTHER = Run("svc.pipeline", "another")


class Retained(World):
    """A world with ended runs, and retention over it."""

    def __init__(self) -> None:
        super().__init__()
        self.runs = InMemoryRunCatalog()

    def ended(self, run: Run = RUN, *, abandoned: bool = False) -> None:
        """A finalized run of three segments, the last two objects of which remain, with a marker and a foreign object below its
        prefix."""
        parts = self.parts()
        for number in range(3):
            appended = parts.writer.append(run, Batch.from_text(f"line {number}\n", "host-1"))
            assert appended.entry
            self.index.put(run, [appended.entry])
            self.runs.record_segment(run, appended.entry)
        parts.compactor.compact(run, self.deadline())
        self.clock.sleep(RETIRE_AFTER_MS / 1000 + 1)
        parts.compactor.compact(run, self.deadline())
        if abandoned:
            parts.finalizer.abandon(run, self.clock.now_ms(), self.deadline())
        else:
            parts.finalizer.close(run)
        self.store.put(self.layout.run_prefix(run) + "entries/0", b"kept", PutOptions())
        self.store.put(self.layout.marker(run, "host-1"), b"", PutOptions())

    def later(self, days: float = 2) -> None:
        self.clock.sleep(days * DAY_MS / 1000)

    def planned(self, run: Run = RUN, reason: str = "age") -> ExpiringRun:
        """The run as in a plan made now."""
        names = RUNS.fieldNames()[2:]
        (row,) = [row for folder in self.inventory().folders() for row in self.inventory().runs(folder) if row[0] == run]
        seen = dict(zip(names, row[1:], strict=True))
        fields = ("ended_ms", "bytes", "objects", "log_bytes", "tail")
        return ExpiringRun(run.fqn, run.run_id, reason, 0, **{name: seen[name] for name in fields})

    def inventory(self) -> BucketInventory:
        return BucketInventory(self.store, self.layout)

    def expiry(self, gate: Any = None) -> Expiry:
        port = (lambda inner: Intercepted(inner, gate)) if gate else (lambda inner: inner)
        store, index, runs, database = port(self.store), port(self.index), port(self.runs), port(self.database)
        removal = self.removal(runs, store, index, database)
        return Expiry(store, removal, self.parts(store).writer, self.layout, self.clock, "plan-1")

    def left(self, run: Run = RUN) -> list[str]:
        """Keys of a run, including markers, without its tombstone."""
        prefix = self.layout.run_prefix(run)
        below = [found.key.removeprefix(prefix) for found in self.store.list(prefix).objects]
        return below + [found.key for found in self.store.list(self.layout.markers(run)).objects]

    def is_listed(self, run: Run = RUN) -> bool:
        return run in [row.run for row in self.runs.newest(run.fqn, 10, None).rows]


@pytest.fixture
def world() -> Retained:
    return Retained()


def test_a_closed_run_goes_whole_and_its_tombstone_tells_why(world: Retained) -> None:
    world.ended()
    world.ended(OTHER)
    world.later()
    kept, count = world.left(OTHER), len(world.left()) - 1
    assert world.expiry().expire(world.planned()) is Outcome.EXPIRED
    assert world.left() == [] and not world.is_listed() and world.index.last(RUN) is None
    assert world.left(OTHER) == kept and world.is_listed(OTHER)
    told = find_tombstone(world.store, world.layout, RUN)
    assert told and (told.reason, told.rule, told.plan) == ("age", 0, "plan-1")
    assert (told.lines, told.bytes, told.objects) == (3, 21, count)
    assert told.expired_ms == world.clock.now_ms() and told.ended_ms < told.expired_ms - DAY_MS
    assert (
        json.loads(world.store.get("pipeline-logs/.tombstones/svc.pipeline/" + RUN.run_id + "/expired.json").body)["reason"]
        == "age"
    )


def test_twice_is_the_same(world: Retained) -> None:
    world.ended()
    world.later()
    planned = world.planned()
    assert [world.expiry().expire(planned) for _ in range(2)] == [Outcome.EXPIRED, Outcome.GONE]


def test_it_costs_nine_requests_of_s3(world: Retained) -> None:
    world.ended()
    world.later()
    planned = world.planned()
    world.store.calls.clear()
    world.expiry().expire(planned)
    assert dict(world.store.calls) == {"list": 4, "head": 1, "put": 1, "delete_many": 3}


def test_a_run_of_many_objects_is_deleted_by_the_thousand_its_end_last(world: Retained) -> None:
    world.ended()
    for number in range(2500):
        world.store.put(f"{world.layout.run_prefix(RUN)}entries/{number:05}", b"", PutOptions())
    world.later()
    planned = world.planned()
    count = planned.objects + 1  # and a marker
    deleted: list[list[str]] = []
    inner = world.store.delete_many
    world.store.delete_many = lambda keys: (deleted.append(list(keys)), inner(keys))[1]  # type: ignore[method-assign, assignment, func-returns-value]
    assert world.expiry().expire(planned) is Outcome.EXPIRED
    assert [len(keys) for keys in deleted] == [1, 1000, 1000, count - 2003, 2]
    assert deleted[-1] == [world.layout.logs(RUN), world.layout.segment(RUN, 3)]
    assert world.left() == []


def test_an_open_run_is_left_whatever_a_plan_says(world: Retained) -> None:
    parts = world.parts()
    parts.writer.append(RUN, Batch.from_text("a\n", "host-1"))
    parts.compactor.compact(RUN, world.deadline())
    world.later()
    planned = world.planned()
    before = world.left()
    assert world.expiry().expire(planned) is Outcome.CHANGED
    assert world.left() == before and world.read_all() == ["a"]


@pytest.mark.behavior("A run that changed since the retention plan is kept.")
def test_a_run_that_grew_since_the_plan_is_left(world: Retained) -> None:
    world.ended(abandoned=True)
    world.later()
    planned = world.planned()
    world.parts().writer.append(RUN, Batch.from_text("back again\n", "host-1"))
    assert world.expiry().expire(planned) is Outcome.CHANGED
    world.parts().finalizer.close(RUN)
    world.later()
    assert world.expiry().expire(planned) is Outcome.CHANGED, "also when it has ended anew"
    assert world.read_all() == ["line 0", "line 1", "line 2", "back again"]
    assert find_tombstone(world.store, world.layout, RUN) is None


def test_an_abandoned_run_is_closed_and_goes_when_no_writer_can_be_under_way(world: Retained) -> None:
    world.ended(abandoned=True)
    world.later()
    planned = world.planned()
    assert world.expiry().expire(planned) is Outcome.CLOSING
    assert world.read_all() == ["line 0", "line 1", "line 2"] and world.is_listed()
    with pytest.raises(Exception, match="the run is closed"):
        world.parts().writer.append(RUN, Batch.from_text("late\n", "host-1"))
    assert world.expiry().expire(planned) is Outcome.CLOSING, "too soon"
    world.clock.sleep(RETIRE_AFTER_MS / 1000 + 1)
    assert world.expiry().expire(planned) is Outcome.EXPIRED
    assert world.left() == [] and not world.is_listed()


def test_and_when_the_schedule_finalizes_it_in_between(world: Retained) -> None:
    world.ended(abandoned=True)
    world.later()
    planned = world.planned()
    world.expiry().expire(planned)
    world.parts().finalizer.compact_and_finalize(RUN, world.deadline())
    world.clock.sleep(RETIRE_AFTER_MS / 1000 + 1)
    assert world.expiry().expire(planned) is Outcome.EXPIRED
    assert world.left() == []


def test_an_append_that_takes_the_number_first_saves_the_run(world: Retained) -> None:
    world.ended(abandoned=True)
    world.later()
    planned = world.planned()

    def append_first(operation: str, call: Any) -> Any:
        if operation == "put":
            world.parts().writer.append(RUN, Batch.from_text("in time\n", "host-1"))
        return call()

    assert world.expiry(append_first).expire(planned) is Outcome.CHANGED
    assert world.read_all() == ["line 0", "line 1", "line 2", "in time"]


def test_another_run_of_the_same_name_is_not_taken_for_leftovers(world: Retained) -> None:
    world.ended()
    world.later()
    planned = world.planned()
    world.expiry().expire(planned)
    world.clock.sleep(60)
    world.parts().writer.append(RUN, Batch.from_text("anew\n", "host-1"))
    world.later()
    assert world.expiry().expire(planned) is Outcome.CHANGED
    assert world.read_all() == ["anew"]


def test_openmetadatas_own_log_goes_as_it_is_and_an_open_one_stays(world: Retained) -> None:
    for run, name in ((RUN, "logs.txt"), (OTHER, "partial.txt")):
        world.store.put(world.layout.run_prefix(run) + name, b"old\n", PutOptions())
    world.later()
    assert world.expiry().expire(world.planned()) is Outcome.EXPIRED
    told = find_tombstone(world.store, world.layout, RUN)
    assert told and told.lines == -1
    assert world.expiry().expire(world.planned(OTHER)) is Outcome.CHANGED
    assert (world.left(), world.left(OTHER)) == ([], ["partial.txt"])


def is_whole_or_gone(world: Retained) -> bool:
    """A listed run can be read to its end; an unreadable one is in no list."""
    return not world.is_listed() or world.read_all() == ["line 0", "line 1", "line 2"]


@pytest.mark.behavior("Retention that is stopped at any call is completed by its repeat.")
@pytest.mark.parametrize("moment", [BEFORE, AFTER])
@pytest.mark.parametrize("how", ["error", "crash"])
@pytest.mark.parametrize("abandoned", [False, True])
def test_stopped_at_every_call_and_begun_again_it_ends_the_same(moment: str, how: str, abandoned: bool) -> None:
    number = 0
    while True:
        world = Retained()
        world.ended(abandoned=abandoned)
        world.later()
        planned = world.planned()
        if abandoned:
            assert world.expiry().expire(planned) is Outcome.CLOSING
            world.clock.sleep(RETIRE_AFTER_MS / 1000 + 1)
        gate = StopAt(number, moment, how)
        with suppress(Crash, UnavailableError):
            world.expiry(gate).expire(planned)
        assert is_whole_or_gone(world), f"stopped at call {number} {gate.calls[-1]}"
        if world.left():
            assert not gate.fired or world.expiry().expire(planned) is Outcome.EXPIRED
        assert world.left() == [] and not world.is_listed() and world.index.last(RUN) is None
        told = find_tombstone(world.store, world.layout, RUN)
        assert told and (told.reason, told.lines, told.bytes) == ("age", 3, 21)
        if not gate.fired:
            break
        number += 1
    assert number >= 6


def test_torn_last_request_is_continued_by_the_plan_or_the_schedule(world: Retained) -> None:
    """S3 may delete one key of a request and fail to delete the other."""
    for gone in ("logs.txt", "segments/0000000003"):
        for is_repeated in (True, False):
            world = Retained()
            world.ended()
            world.later()
            planned = world.planned()

            def tears(operation: str, call: Any, world: Retained = world, gone: str = gone) -> Any:
                if operation == "delete_many" and len(world.names()) == 2:
                    world.store.delete(world.layout.run_prefix(RUN) + gone)
                    raise Crash(operation)
                return call()

            with pytest.raises(Crash):
                world.expiry(tears).expire(planned)
            if is_repeated:
                assert world.expiry().expire(planned) is Outcome.EXPIRED
            else:
                assert world.expiry()._removal.resume(world.deadline()) == 1
            told = find_tombstone(world.store, world.layout, RUN)
            assert world.left() == [] and told and told.reason == "age"


def test_continued_expiry_spares_new_run_of_the_name(world: Retained) -> None:
    world.ended()
    world.later()
    planned, stop = world.planned(), StopAt(1, BEFORE, "crash")
    stop_at_end = lambda operation, call: stop(operation, call) if operation == "transact" else call()  # noqa: E731
    with pytest.raises(Crash):
        world.expiry(stop_at_end).expire(planned)
    world.parts().writer.append(RUN, Batch.from_text("anew\n", "host-1"))
    assert world.expiry()._removal.resume(world.deadline()) == 1
    assert world.read_all() == ["anew"]


def test_the_inventory_is_what_the_bucket_holds(world: Retained) -> None:
    names = ["a", "a/b", "ä.%x", ".dot", "b c"]
    for name in names:
        for number in range(3):
            world.parts().writer.append(Run(name, f"run {number}"), Batch.from_text("x\n" * (number + 1), "h"))
    world.ended()
    world.store.put("pipeline-logs/stray.txt", b"", PutOptions())
    world.store.put("pipeline-logs/a/stray.txt", b"", PutOptions())
    rows = {row[0]: row[1:] for folder in world.inventory().folders() for row in world.inventory().runs(folder)}
    wanted = {Run(name, f"run {number}") for name in names for number in range(3)} | {RUN}
    assert set(rows) == wanted
    found = world.store.list(world.layout.run_prefix(RUN)).objects
    assert rows[RUN][0] == "finalized" and rows[RUN][1:6] == (
        world.store.head(world.layout.logs(RUN)).last_modified_ms,
        sum(each.size for each in found),
        len(found),
        21,
        3,
    )
    assert {row[0] for run, row in rows.items() if run != RUN} == {"open"}


def test_folders_take_a_listing_for_each_long_pipeline_and_one_for_many_short_ones(world: Retained) -> None:
    for name in [f"short-{number:03}" for number in range(300)]:
        world.store.put(f"pipeline-logs/{name}/r/segments/0000000000", b"", PutOptions())
    for name in ("a-long", "z-long"):
        for number in range(3000):
            world.store.put(f"pipeline-logs/{name}/r/segments/{number:010}", b"", PutOptions())
    world.store.calls.clear()
    assert len(list(world.inventory().folders())) == 302
    assert world.store.calls["list"] <= 4


def test_a_plan_reads_back_and_one_that_was_changed_does_not() -> None:
    made = Plan({"bucket": "b", "prefix": "p"}, [ExpiringRun("ä", "r\n", "age", 0, 1, 2, 3, 4, 5)])
    assert read_plan(made.text()) == made
    for damaged in (
        made.text().replace('"bytes": 2', '"bytes": 9'),
        made.text().replace('"b"', '"c"'),
        "",
        "[]",
        "{}\n",
        '{"plan": 1}\n7',
    ):
        with pytest.raises(InvalidInputError):
            read_plan(damaged)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--rules", '{"default": {"keep_dayz": 1}}'], "default.keep_dayz"),
        (["--rules", "no-such-file"], "cannot be read"),
        (["--apply", "no-such-file"], "cannot be read"),
        (["--apply", "x", "--rules", "{}"], "leave --rules and --plan out"),
    ],
)
def test_invalid_arguments_are_reported(arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        code = retention.main(arguments)
    except SystemExit as exit:
        code = exit.code  # type: ignore[assignment]
    assert code == 2 and told in capsys.readouterr().err


def test_keys_of_tombstones_are_of_no_log(world: Retained) -> None:
    parsed = world.layout.parse(world.layout.tombstone(Run("a", "logs.txt")))
    assert parsed is None or parsed.kind == "tombstone"

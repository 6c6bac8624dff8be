"""Retention, deletion and repair, interrupted at every call and repeated: the result is the same, and nothing else changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from chalicelib.deadline import Deadline
from chalicelib.errors import RunlakeError
from chalicelib.pipelines.files.deletion import Deletion
from chalicelib.pipelines.files.generations import Generations
from chalicelib.pipelines.files.key_layout import DAY_MS
from chalicelib.pipelines.files.output_sets import OutputSet, list_output_sets
from chalicelib.pipelines.files.removal import FileRemoval
from chalicelib.pipelines.files.repair import Repair
from chalicelib.pipelines.files.retention import OutputRetention, due_files
from chalicelib.pipelines.files.rows import DamagedRow, FileRow, FileRows
from chalicelib.pipelines.files.table import COMMITS, rows_of_partition
from chalicelib.ports import Key, Put, PutOptions
from tests.faults.interception import FAULTS, LATER, Crash, Intercepted, StopAt
from tests.files_harness import START_MS, FilesHarness, commit, put, record_of

Gate = Callable[[str, Callable[[], Any]], Any]
Work = Callable[[FilesHarness, Any, Any], Any]
PATHS = ("", "{level}/{application}-{program}")


def stopped_everywhere(make: Callable[[], FilesHarness], work: Work, check: Callable[[FilesHarness], None]) -> int:
    """Run an operation with each fault at each call where it is possible; then repeat it without faults, except for writes that
    take effect late; then check."""
    points = 0
    for moment, how in FAULTS:
        number = 0
        while True:
            site, stop = make(), StopAt(number, moment, how)
            try:
                work(site, Intercepted(site.store, stop), Intercepted(site.database, stop))
            except (Crash, RunlakeError):
                assert stop.fired
            if not stop.fired:
                check(site)
                break
            work(site, Intercepted(site.store, stop.successor), Intercepted(site.database, stop.successor))
            stop.land()
            check(site)
            number += 1
            points += 1
    print(f"\npoints: {points}")
    return points


def filled(**options: Any) -> FilesHarness:
    """Six closed files of six days, the oldest first, each of 100 bytes or so."""
    site = FilesHarness()
    for day in range(6):
        handler = site.handler(**options)
        put(site, handler, day, time_ms=START_MS + day * DAY_MS)
        site.clock.advance(86_400)
    handler = site.handler(**options)
    return site


def forever(site: FilesHarness) -> Deadline:
    return Deadline(site.clock)


def keep(site: FilesHarness, store: Any, database: Any, **bounds: int) -> None:
    base = replace(OutputSet("files", "", 0, 0, 0), **bounds)
    OutputRetention(store, database, site.clock).run(base, forever(site))


@pytest.mark.behavior("Files of pipelines expire by age, size and number, wherever a pass stopped.")
@pytest.mark.parametrize(
    ("bounds", "left"),
    [
        ({"keep_ms": 3 * DAY_MS + 1000}, [3, 4, 5]),
        ({"keep_files": 2}, [4, 5]),
        ({"keep_bytes": 450}, [3, 4, 5]),
        ({"keep_ms": 5 * DAY_MS, "keep_files": 3}, [3, 4, 5]),
        ({}, [0, 1, 2, 3, 4, 5]),
    ],
)
@pytest.mark.parametrize("path", PATHS)
def test_retention_wherever_it_stops(bounds: dict[str, int], left: list[int], path: str) -> None:
    def check(site: FilesHarness) -> None:
        assert site.lines() == Counter(left)
        assert len(site.objects()) == len(site.rows()) == len(left)

    points = stopped_everywhere(
        lambda: filled(path=path), lambda site, store, database: keep(site, store, database, **bounds), check
    )
    assert points > (10 if len(left) < 6 else 0)


def test_retention_is_by_the_last_event_and_seven_days_by_default() -> None:
    site = FilesHarness()
    handler = site.handler()
    put(site, handler, 1)
    (base,) = list_output_sets(site.database)
    assert base.keep_ms == 7 * DAY_MS
    for seconds, left in ((7 * 86_400, 1), (1, 0)):
        site.clock.advance(seconds)
        OutputRetention(site.store, site.database, site.clock).run(base, forever(site))
        assert len(site.rows()) == left


def test_a_file_that_is_being_written_is_kept() -> None:
    site = FilesHarness()
    put(site, site.handler(), 1, time_ms=START_MS - 30 * DAY_MS)
    keep(site, site.store, site.database, keep_ms=DAY_MS, keep_files=1)
    assert site.lines() == Counter([1])
    site.clock.advance(13 * 3600)
    keep(site, site.store, site.database, keep_ms=DAY_MS)
    assert site.objects() == []


def test_a_pass_that_runs_out_of_time_says_so_and_goes_on() -> None:
    site = filled()
    base = OutputSet("files", "", 0, 0, 1)
    done = OutputRetention(site.store, site.database, site.clock).run(base, Deadline(site.clock, 0))
    assert (done.is_complete, done.removed, len(site.rows())) == (False, 0, 6)
    done = OutputRetention(site.store, site.database, site.clock).run(base, forever(site))
    assert (done.is_complete, done.removed, done.remaining) == (True, 5, 1)


def test_due_files_match_a_model() -> None:
    import random

    site = filled()
    rows = [replace(row, state="closed") for row in site.rows()]
    now_ms = site.clock.now_ms()
    rng = random.Random(5)
    for _ in range(200):
        base = OutputSet(
            "files", "", rng.choice([0, rng.randrange(7) * DAY_MS]), rng.choice([0, rng.randrange(900)]), rng.randrange(7)
        )
        left = sorted(rows, key=lambda row: row.contents.to_ms)
        while left and (
            (base.keep_ms and left[0].contents.to_ms < now_ms - base.keep_ms)
            or (base.keep_files and len(left) > base.keep_files)
            or (base.keep_bytes and sum(row.contents.size for row in left) > base.keep_bytes)
        ):
            left.pop(0)
        assert sorted(row.at for row in rows if row not in due_files(rows, base, now_ms)) == sorted(row.at for row in left)


def test_number_is_not_reused_while_its_row_exists() -> None:
    """An expiring file whose object is gone already: a new file has the next number, and keeps its object."""
    site = FilesHarness()
    put(site, site.handler(), 1)
    (row,) = site.rows()
    site.database.transact([row.written(state="condemned")[1]])
    site.store.delete(row.object_key)
    put(site, site.handler(), 1)  # the very same event, and so the same bytes
    keep(site, site.store, site.database)
    assert site.lines() == Counter([1]) and [each.sequence for each in site.rows()] == [1]


def test_rows_on_stage_are_settled_and_writers_forgotten() -> None:
    site = FilesHarness()
    handler = site.handler()
    for number in range(20):
        handler.handle(record_of(number, fqn=f"svc.flow{number}"))
    commit(site, handler)
    late = site.handler()
    for number in range(20, 40):
        late.handle(record_of(number, fqn=f"svc.flow{number}"))
    late.pending_writes()  # and never commits
    site.clock.advance(3 * 86_400)
    for _ in range(2):
        retention = OutputRetention(site.store, site.database, site.clock)
        retention.run(OutputSet("files", "", 30 * DAY_MS, 0, 0), forever(site))
        retention.forget_writers()
    assert list(rows_of_partition(site.database, COMMITS)) == []
    assert site.lines() == Counter(range(20)) and len(site.rows()) == 20


def deletion(site: FilesHarness, store: Any, database: Any) -> Deletion:
    generations = Generations(database, site.clock)
    return Deletion(database, generations, site.clock, lambda _: store)


def two_pipelines() -> FilesHarness:
    """Files of two handlers, of two pipelines and a second namespace."""
    site = FilesHarness()
    generations = Generations(site.database, site.clock)
    for base in ("files", "audit"):
        handler = site.handler(base=base, path=PATHS[base == "audit"])
        for number, fqn in enumerate(("svc.flow", "svc.flow10", "other.flow")):
            generation = generations.of_run(fqn.partition(".")[0], fqn, "run-1", START_MS)
            put(site, handler, number, fqn=fqn, generation=generation)
    site.clock.advance(10)
    return site


@pytest.mark.behavior("A deletion of a pipeline is completed wherever it stopped.")
@pytest.mark.parametrize(("fqn", "left"), [("svc.flow", [1, 2]), (None, [2])])
def test_deletion_wherever_it_stops(fqn: str | None, left: list[int]) -> None:
    def check(site: FilesHarness) -> None:
        for base in ("files", "audit"):
            assert site.lines(base) == Counter(left)
            assert len(site.objects(f"{base}/")) == len(site.rows(base)) == len(left)
        assert Generations(site.database, site.clock).of_run("svc", "svc.flow", "run-1", START_MS) is None
        assert Generations(site.database, site.clock).of_run("other", "other.flow", "run-1", START_MS) is not None

    work: Work = lambda site, store, database: deletion(site, store, database).delete("svc", fqn, forever(site))  # noqa: E731
    assert stopped_everywhere(two_pipelines, work, check) > 20


def test_repeated_deletion_before_the_sweep_spares_the_recreated_pipeline() -> None:
    site = two_pipelines()
    assert deletion(site, site.store, site.database).delete("svc", "svc.flow", forever(site)).files == 2
    site.clock.advance(5)
    generations = Generations(site.database, site.clock)
    new = generations.of_run("svc", "svc.flow", "run-2", site.clock.now_ms())
    assert new and new != generations.of_run("svc", "svc.flow10", "run-1", START_MS)
    put(site, site.handler(), 7, generation=new)
    assert deletion(site, site.store, site.database).resume(forever(site)).files == 0
    assert site.lines()[7] == 1


@pytest.mark.parametrize(
    ("fqn", "may"),
    [("svc.flow", None), (None, None), (None, lambda fqn: fqn == "svc.flow")],
    ids=["a pipeline", "a namespace", "some of a namespace"],
)
def test_a_repeated_deletion_spares_what_was_recreated_while_it_was_under_way(
    fqn: str | None, may: Callable[[str], bool] | None
) -> None:
    site = two_pipelines()
    made = deletion(site, site.store, site.database)
    assert not made.delete("svc", fqn, Deadline(site.clock, 0), may).is_complete
    site.clock.advance(5)
    new = Generations(site.database, site.clock).of_run("svc", "svc.flow", "run-2", site.clock.now_ms())
    put(site, site.handler(), 7, generation=new)
    assert made.delete("svc", fqn, forever(site), may).is_complete
    assert site.lines()[7] == 1 and site.lines()[0] == 0
    site.clock.advance(5)
    assert made.delete("svc", fqn, forever(site), may).files == 1  # the first one was reported as done: this is a second deletion
    assert site.lines()[7] == 0


def test_a_deletion_that_is_applied_late_spares_the_file_that_took_the_number() -> None:
    """The deletion of the object times out and is repeated; the pipeline is recreated, and its first file of the day has the same
    key."""
    for number in range(20):
        site = FilesHarness()
        generations = Generations(site.database, site.clock)
        put(site, site.handler(), 1, generation=generations.of_run("svc", "svc.flow", "run-1", START_MS))
        site.clock.advance(1)
        stop = StopAt(number, LATER, "error")
        with suppress(RunlakeError):
            deletion(site, Intercepted(site.store, stop), Intercepted(site.database, stop)).delete("svc", "svc.flow", forever(site))
        deletion(site, site.store, site.database).delete("svc", "svc.flow", forever(site))
        assert site.objects() == []
        site.clock.advance(1)
        new = Generations(site.database, site.clock).of_run("svc", "svc.flow", "run-2", site.clock.now_ms())
        put(site, site.handler(), 2, generation=new)
        stop.land()
        assert site.lines() == Counter([2]) and [row.sequence for row in site.rows()] == [0]
        if not stop.fired:
            break
    assert number > 3


def test_a_removal_takes_an_object_that_goes_on_behind_its_row_and_spares_one_that_is_replaced() -> None:
    site = FilesHarness()
    handler = site.handler()
    put(site, handler, 1)
    handler.handle(record_of(2))
    handler.pending_writes()  # longer than its row, and never committed
    (row,) = site.rows()
    replaced: list[str] = []

    def replace_behind_head(operation: str, call: Callable[[], Any]) -> Any:
        answer = call()
        if operation == "head" and not replaced:
            replaced.append(site.store.put(row.object_key, b"another's", PutOptions()))
        return answer

    assert not FileRemoval(Intercepted(site.store, replace_behind_head), site.database, site.clock).remove(row)
    assert replaced and site.objects() == [row.object_key]
    (row,) = site.rows()
    assert FileRemoval(site.store, site.database, site.clock).remove(row) and site.objects() == [] and site.rows() == []


def test_a_removal_leaves_a_file_whose_row_was_changed() -> None:
    site = FilesHarness()
    handler = site.handler()
    put(site, handler, 1)
    (stale,) = site.rows()
    put(site, handler, 2)
    assert not FileRemoval(site.store, site.database, site.clock).remove(stale)
    assert site.lines() == Counter([1, 2])


def test_a_run_that_began_with_the_deletion_is_of_the_dead_generation() -> None:
    site = FilesHarness()
    generations = Generations(site.database, site.clock)
    generations.end("svc", "svc.flow")
    now_ms = site.clock.now_ms()
    assert generations.of_run("svc", "svc.flow", "run-1", now_ms) is None
    assert generations.of_run("svc", "svc.flow", "run-2", now_ms + 1) is not None


def test_repair_leaves_a_file_that_was_extended_meanwhile() -> None:
    """Between the read of the committed bytes and the PUT that truncates the object, another writer extends it."""
    site = FilesHarness()
    put(site, site.handler(), 1)
    (row,) = site.rows()
    counts = site.store.get(row.object_key).body
    site.store.put(row.object_key, counts + b"uncommitted", PutOptions())
    site.clock.advance(7200)
    written: list[str] = []

    def extend_behind_read(operation: str, call: Callable[[], Any]) -> Any:
        answer = call()
        if operation == "get" and not written:
            written.append(site.store.put(row.object_key, counts + b"more", PutOptions()))
        return answer

    repair = Repair(Intercepted(site.store, extend_behind_read), site.database, site.clock)
    [finding] = list(repair.findings(BASE))
    assert (finding.kind, repair.repair(finding)) == ("longer", False)
    assert written and site.store.get(row.object_key).body == counts + b"more"


def test_pipelines_that_a_caller_may_not_delete_stay_with_their_namespace() -> None:
    site = two_pipelines()
    made = deletion(site, site.store, site.database)
    done = made.delete("svc", None, forever(site), lambda fqn: fqn == "svc.flow10")
    assert (done.files, site.lines()) == (2, Counter([0, 2]))
    generations = Generations(site.database, site.clock)
    assert generations.of_run("svc", "svc.flow", "run-1", START_MS) and not generations.of_run(
        "svc", "svc.flow10", "run-1", START_MS
    )
    for _ in range(3):
        site.clock.advance(7200)
        made.resume(forever(site))
    assert site.lines() == Counter([0, 2]) and all(each.is_swept for each in generations.dead())


def test_a_deletion_of_some_pipelines_wherever_it_stops() -> None:
    def check(site: FilesHarness) -> None:
        for base in ("files", "audit"):
            assert site.lines(base) == Counter([0, 2])
            assert len(site.objects(f"{base}/")) == len(site.rows(base)) == 2

    work: Work = lambda site, store, database: deletion(site, store, database).delete(  # noqa: E731
        "svc", None, forever(site), lambda fqn: fqn == "svc.flow10"
    )
    assert stopped_everywhere(two_pipelines, work, check) > 20


def test_what_a_dead_process_writes_late_is_swept_later() -> None:
    site = FilesHarness()
    generations = Generations(site.database, site.clock)
    generation = generations.of_run("svc", "svc.flow", "run-1", START_MS)
    handler = site.handler()
    put(site, handler, 1, generation=generation)
    site.clock.advance(1)
    made = deletion(site, site.store, site.database)
    assert made.delete("svc", "svc.flow", forever(site)).files == 1
    put(site, handler, 2, generation=generation)  # it read the generation a moment before
    assert len(site.rows()) == 1
    for files in (1, 0):
        site.clock.advance(7200)
        assert made.resume(forever(site)).files == files
    assert (
        site.rows() == [] and site.objects() == [] and all(each.is_swept for each in Generations(site.database, site.clock).dead())
    )


def test_deletion_that_finds_nothing_is_repeated_later() -> None:
    """A process publishes and commits its first file right after the pass."""
    site = FilesHarness()
    generation = Generations(site.database, site.clock).of_run("svc", "svc.flow", "run-1", START_MS)
    handler = site.handler()
    site.clock.advance(1)
    made = deletion(site, site.store, site.database)
    handler.handle(record_of(1, generation=generation))
    writes = handler.pending_writes()
    assert made.delete("svc", "svc.flow", forever(site)).files == 0
    site.database.transact(writes)
    site.clock.advance(7200)
    assert made.resume(forever(site)).files == 1 and site.objects() == []


def test_deleted_run_stays_dead_at_any_start_time() -> None:
    site = FilesHarness()
    generations = Generations(site.database, site.clock)
    generations.mark_runs("svc.flow", ["run-1", "run-1"])
    assert generations.of_run("svc", "svc.flow", "run-1", START_MS + 10**9) is None
    assert generations.of_run("svc", "svc.flow", "run-2", START_MS) is not None


def test_each_creation_has_a_fresh_uuid() -> None:
    site = FilesHarness()
    generations = Generations(site.database, site.clock)
    seen = set()
    for _ in range(5):
        seen.add(generations.of_run("svc", "svc.flow", "run", site.clock.now_ms()))
        site.clock.advance(1)
        generations.mark_done(generations.end("svc", None))
        assert generations.of_run("svc", "svc.flow", "run", site.clock.now_ms()) is None
        site.clock.advance(1)
    assert None not in seen and len(seen) == 5
    assert len(list(generations.dead())) == 10  # the namespace's own too


def broken(path: str = "") -> FilesHarness:
    """One of each inconsistency, at least an hour old; and files of bases within the base and around it."""
    site = FilesHarness(options={"path": path})
    for number, program in enumerate(("good", "row-only", "longer", "changed", "shorter", "garbage", "unfinished")):
        handler = site.handler()
        put(site, handler, number, number, program=program)
    by_program = {row.context.program: row for row in site.rows()}

    def body(name: str) -> bytes:
        return site.store.get(by_program[name].object_key).body

    site.store.delete(by_program["row-only"].object_key)
    changes = {
        "longer": body("longer") + b"uncommitted",
        "changed": body("changed").replace(b"event 3", b"EVENT 3"),
        "shorter": body("shorter")[: len(body("shorter")) // 2],
        "garbage": b"\x00" * len(body("garbage")),
    }
    for name, changed in changes.items():
        site.store.put(by_program[name].object_key, changed, PutOptions())
    lost = site.handler()
    lost.handle(record_of(9, program="nobody"))
    lost.pending_writes()
    for base in ("files/INFO", "files/svc"):
        nested = site.handler(base=base, path=PATHS[1])
        put(site, nested, 10)
        nested.handle(record_of(11, program="never committed"))
        nested.pending_writes()
    site.store.put("filesystem/other", b"not ours", PutOptions())
    site.database.transact([by_program["unfinished"].written(state="condemned")[1]])
    at = "svc:flow:zzz:bad"
    site.database.put_many([Put(Key("pipeline_files", "files", at), {"partition": "files", "at": at})])
    site.clock.advance(7200)
    return site


BASE = OutputSet("files", "", 0, 0, 0)


def objects_within(site: FilesHarness) -> list[str]:
    """The objects of the bases within the base."""
    return [*site.objects("files/INFO/INFO/"), *site.objects("files/svc/INFO/")]


def kinds(site: FilesHarness) -> list[str]:
    return sorted(finding.kind for finding in Repair(site.store, site.database, site.clock).findings(BASE))


@pytest.mark.parametrize("path", PATHS)
def test_repair_lists_what_does_not_fit(path: str) -> None:
    site = broken(path)
    assert kinds(site) == [
        "changed", "changed", "longer", "object-only", "row-only", "row-unreadable", "shorter", "unfinished",
    ]  # fmt: skip
    assert site.store.calls["delete"] == 1  # the test's own


@pytest.mark.behavior("A repair fixes files and rows that do not match, and the second one has nothing to do.")
@pytest.mark.parametrize("path", PATHS)
def test_repair_wherever_it_stops_and_the_second_run_is_clean(path: str) -> None:
    def check(site: FilesHarness) -> None:
        assert kinds(site) == []
        assert site.lines() == Counter({0: 2, 2: 2, 3: 2, 4: 1})
        assert site.store.head("filesystem/other").size == 8
        assert len(objects_within(site)) == 4

    def work(site: FilesHarness, store: Any, database: Any) -> None:
        Repair(store, database, site.clock).repair_all(BASE, forever(site))

    assert stopped_everywhere(lambda: broken(path), work, check) > 40


def test_repair_spares_what_is_young() -> None:
    site = broken()
    site.clock.advance(-5400)
    assert [each for each in kinds(site) if each != "row-unreadable"] == []
    handler = site.handler()
    handler.handle(record_of(9, program="later"))
    handler.pending_writes()
    site.clock.advance(5400)
    Repair(site.store, site.database, site.clock, grace_ms=6_000_000).repair_all(BASE, forever(site))
    assert any("later" in key for key in site.objects())


def test_repair_cuts_a_large_file_back_on_the_server() -> None:
    site = FilesHarness()
    handler = site.handler(format="text")
    for number in range(6):
        handler.handle(record_of(number, "x" * 1_000_000))
    commit(site, handler)
    (row,) = site.rows()
    body = site.store.get(row.object_key).body
    site.store.put(row.object_key, body + b"more", PutOptions())
    site.clock.advance(7200)
    uploaded = site.store.uploaded_bytes
    Repair(site.store, site.database, site.clock).repair_all(BASE, forever(site))
    assert site.store.uploaded_bytes == uploaded and site.store.get(row.object_key).body == body
    assert kinds(site) == []


def test_rows_are_read_back_as_they_were_written() -> None:
    site = filled()
    rows: list[FileRow] = [row for row in FileRows(site.database).listed("files", "") if isinstance(row, FileRow)]
    assert len(rows) == 6 and all(FileRows(site.database).reread(row) == row for row in rows)


@pytest.mark.parametrize(
    "path", ["logs/svc/x~00000000.jsonl", "files/x~00000001.jsonl", "files//x~00000000.jsonl", "files/x~y/00000000.jsonl", None]
)
def test_a_row_that_names_another_object_is_damaged(path: str | None) -> None:
    """Else retention, deletion and repair would delete that object."""
    site = FilesHarness(options={"path": "x"})
    put(site, site.handler(), 1)
    (row,) = site.rows()
    site.database.put_many([Put(row.row_key, row.document() | {"path": path, "file": [0, "jsonl", "jsonl", row.day]})])
    (damaged,) = FileRows(site.database).listed("files", "")
    assert isinstance(damaged, DamagedRow) or damaged.object_key.startswith("files/svc/2026-09-21/")

"""Deletion of runs and pipelines over HTTP: nothing is left in any store, nobody sees the run from the response on, and it does not return."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from chalicelib import composition
from chalicelib.coordination import Partition, Status
from chalicelib.coordination.partition import format_timestamp
from chalicelib.deadline import Deadline
from chalicelib.errors import RunlakeError, StoreUnavailableError
from chalicelib.pipelines.dead_letters import DeadLetters
from chalicelib.pipelines.files.handler import RollingS3Handler
from chalicelib.pipelines.files.table import TABLE
from chalicelib.pipelines.ports import HandlerContext
from chalicelib.ports import Key, Put, PutOptions, Run
from chalicelib.removal.places import PLACES, STEPS
from chalicelib.removal.run_removal import REMOVALS, Registration
from chalicelib.removal.run_steps import RunSteps
from chalicelib.runlog.batch import Batch
from chalicelib.runlog.deletion_marks import DeletionMark, mark_key, put_dataset_time, put_mark
from chalicelib.runlog.log_end import list_all
from chalicelib.triggers.maintenance import maintain_pipeline_files
from tests import sampling
from tests.faults.interception import AFTER, BEFORE, Crash, Intercepted, StopAt
from tests.files_harness import record_of
from tests.functional.gateway import Answer, call, get, installed, post
from tests.ingestion_harness import message, s3_record
from tests.issuer import JWT, Issuer, bearer
from tests.support.run_catalog import InMemoryRunCatalog
from tests.support.samples import ROWS
from tests.world import World

RUN, LATER, OTHER = Run("svc.flow", "r1"), Run("svc.flow", "r1~2"), Run("svc.flow", "r2")
MARK = "leak"
CATALOG = "/v1/catalog/pipelines"
SECONDS_UNTIL_SETTLED = 1300
JSON = {"Content-Type": "application/json"}


def append(world: World, run: Run) -> str:
    """Two lines of a running run. Returns the next position."""
    first = world.parts().writer.append(run, Batch.from_text(f"{MARK}\n"))
    return world.parts().writer.append(run, Batch.from_text(f"{MARK} again\n"), position=first.position).position


class Archive:
    """Runs in everything that stores something of a run, by default two and an attempt; each text of the first one and the attempt has a mark."""

    def __init__(self, runs: Sequence[Run] = (RUN, LATER, OTHER)) -> None:
        self.world, self.runs, self.positions = World(), InMemoryRunCatalog(), dict[Run, str]()
        self.world.store.is_versioned = True
        with self.installed():
            for run in runs:
                self._fill(run, "other" if run == OTHER else MARK)
            self.world.clock.advance(1)

    def installed(self, gate: Callable[..., Any] | None = None) -> Any:
        port = (lambda inner: Intercepted(inner, gate)) if gate else (lambda inner: inner)
        world = self.world
        return installed(world, store=port(world.store), runs=port(self.runs), database=port(world.database))

    def _fill(self, run: Run, mark: str) -> None:
        services, count = composition.services(), iter(range(100))

        def text() -> str:
            return f"{mark}-{next(count):02d}-{run.run_id}"

        path = f"/v1/events/{run.fqn}/{quote(run.run_id)}"
        start = {"host": text(), "command": text(), "attempt": 2 if run == LATER else 1}
        started = call(
            "PUT", f"/v1/events/svc.flow/{'r1' if run == LATER else run.run_id}/starts/{text()}", json.dumps(start), JSON
        )
        assert started.json["runId"] == run.run_id
        writer = f"w-{run.run_id[-1]}"  # a name: masking refuses secrets in it
        assert call("PUT", f"{path}/writers/{writer}").status == 200
        for first in range(0, 20, 4):
            events = [
                {"id": id, "message": text() if first == 0 else "x", "step": f"{mark}-step", "data": {"k": f"{mark}-data"}}
                for id in range(first, first + 4)
            ]
            answer = call("POST", f"{path}?writer={writer}", json.dumps(events), JSON)
            assert answer.status == 200
        self.positions[run] = answer.cookie
        call("POST", f"{path}/steps/{text()}", json.dumps({"name": text(), "status": "failed"}), JSON)
        call("POST", f"{path}/writers/{writer}/close", '{"count": 20}', JSON)
        post(f"{run.fqn}/{run.run_id}", f'"{text()}\\n"', {**JSON, "Idempotency-Key": text()})
        end = {"outcome": "failed", "exception": text(), "step": text()}
        assert post(f"{run.fqn}/{run.run_id}/close", json.dumps(end)).status == 200
        self.notify()
        self._derive(run, text, services)

    def _derive(self, run: Run, text: Callable[[], str], services: Any) -> None:
        world = self.world
        world.store.put(world.layout.bundle(run, 0, 9), gzip.compress(text().encode()), PutOptions())
        world.store.put(world.layout.marker(run, text()), b"", PutOptions())
        upload = world.store.create_multipart(world.layout.partial(run), PutOptions())
        world.store.upload_part(world.layout.partial(run), upload, 1, text().encode())
        self.runs.record_explanation(run, 10**9, text())
        DeadLetters(world.store, "audit", world.clock).put(
            "h", record_of(1, text(), fqn=run.fqn, run_id=run.run_id), ValueError(text()), 1
        )
        handler = RollingS3Handler(base="pipeline-files", format="jsonl", workers=1, max_bytes=1)
        handler.use(HandlerContext(world.store, world.database, world.clock, "runlake", lambda: None))
        generation = services.pipeline_files.generation_of(run)
        handler.handle(record_of(1, text(), fqn=run.fqn, run_id=run.run_id, generation=generation))
        world.database.transact(handler.pending_writes())
        handler.committed()
        file = world.store.list("pipeline-files/").objects[-1].key
        world.store.upload_part(file, world.store.create_multipart(file, PutOptions()), 1, text().encode())
        for source in composition.SOURCES:
            store, work = world.work_sources(source)
            state = json.dumps({"text": text()})
            store.create(Partition(work.partitions, f"{run.fqn}/{run.run_id}", Status.UNASSIGNED, format_timestamp(0), state=state))

    def notify(self) -> None:
        """Notifications of all objects of runs."""
        keys = [each.key for each in list_all(self.world.store, "pipeline-logs/")]
        composition.ingester(composition.services()).ingest([message(s3_record(key)) for key in keys], Deadline(self.world.clock))

    def left(self, mark: str = MARK) -> list[str]:
        """Where the mark is: objects in all versions, raw and decompressed, metadata, names, open uploads, rows, partitions."""
        found = []
        for key, info, body in self.world.store.everything():
            packed = body
            with suppress(OSError, EOFError):
                packed += gzip.decompress(body)
            if mark.encode() in packed or mark in f"{key} {dict(info)}":
                found.append(key)
        tables = {table: self.world.database.rows(table) for table in list(self.world.database._tables)}
        partitions = [vars(self.world.work_sources(source)[0]) for source in composition.SOURCES]
        rows = {"index": (self.world.index._rows, self.world.index._keyed), "runs": self.runs._rows, "work": partitions, **tables}
        return found + [
            f"{name} {each}" for name, content in rows.items() for each in re.findall(f".{{60}}{mark}.{{20}}", str(content))
        ]


def delete(run: Run = RUN, **options: Any) -> Answer:
    return call("DELETE", f"{CATALOG}/{run.fqn}/runs/{quote(run.run_id)}?reason=a+password%3Dhunter2", **options)


@pytest.mark.behavior("Of a deleted run nothing is left in any store.")
def test_deleted_run_leaves_no_mark_anywhere() -> None:
    archive = Archive()
    others = archive.world.names(OTHER)
    assert len(set(archive.left())) >= 20
    with archive.installed():
        first = delete()
        assert (first.status, first.json["state"], first.json["reason"]) == (200, "deleted", "a password=***password***")
        assert delete().json["counts"]["rows"] == first.json["counts"]["rows"]
        assert archive.left() == []
        archive.world.clock.advance(SECONDS_UNTIL_SETTLED)
        assert maintain_pipeline_files(composition.services(), 60_000)["runs_deleted"] == 2
        last = delete().json
        assert [each["what"] for each in last["outstanding"]] == ["dataset"] and last["counts"]["deadLetters"] == 2
        assert last == delete().json
        assert archive.left() == archive.world.names(RUN) == archive.world.names(LATER) == []
        assert archive.world.names(OTHER) == others and archive.left("other")
        assert get("svc.flow/r2").json["logs"].startswith("other")


SAMPLES = [
    replace(each, names={**each.names, "fqn": RUN.fqn, "runId": RUN.run_id})
    for each in ROWS
    if "{runId}" in each.path and each.method != "DELETE" and not each.path.startswith("/v1/coordination")
]


@pytest.mark.behavior("A deleted run answers every read and every append with 410.")
def test_deleted_run_is_gone_for_every_operation() -> None:
    archive = Archive()
    with archive.installed():
        delete()
        for seconds in (0, SECONDS_UNTIL_SETTLED, 1):
            answers = {f"{each.method} {each.path}": each.send() for each in SAMPLES}
            answers["warm"] = SAMPLES[0].send(Cookie=archive.positions[RUN])
            assert {name: (each.status, each.json["code"]) for name, each in answers.items()} == dict.fromkeys(
                answers, (410, "run_deleted")
            )
            assert call("GET", f"{CATALOG}/svc.flow/runs").json["runs"][0]["runId"] == get("svc.flow").json["runs"][0] == "r2"
            archive.world.clock.advance(seconds)
            composition.services().removal.resume(Deadline(archive.world.clock))
            archive.notify()


def test_damaged_log_leaves_no_old_version() -> None:
    """Its last segment cannot be sealed, so it goes last, with its lines."""
    archive = Archive(())
    append(archive.world, RUN)
    archive.world.store.put(archive.world.layout.segment(RUN, 2), f"{MARK}\n".encode(), PutOptions())
    with archive.installed():
        assert delete().status == 200
        archive.world.clock.advance(SECONDS_UNTIL_SETTLED)
        assert composition.services().removal.resume(Deadline(archive.world.clock)) == 1
    assert archive.left() == archive.world.names(RUN) == []


def test_unavailable_index_does_not_bring_deleted_run_back() -> None:
    archive = Archive()
    with archive.installed():
        delete()
        archive.world.clock.advance(SECONDS_UNTIL_SETTLED)
        delete()
        archive.world.index.failures.schedule("last", error=StoreUnavailableError, times=9)
        assert post("svc.flow/r1", '"late\\n"', JSON).status == 410


@pytest.mark.behavior("A deletion that is stopped at any call is completed by the schedule or its repeat.")
@pytest.mark.parametrize(("moment", "is_repeated"), [(BEFORE, True), (AFTER, False)])
def test_deletion_stopped_at_every_call_ends_the_same(moment: str, is_repeated: bool) -> None:
    def stop_at(number: int) -> int:
        archive, stop = Archive(()), StopAt(number, moment, "crash")
        append(archive.world, RUN)
        DeadLetters(archive.world.store, "audit", archive.world.clock).put(
            "h", record_of(1, MARK, run_id=RUN.run_id), ValueError(), 1
        )
        with archive.installed(stop), suppress(Crash):
            delete()
        is_begun = bool(archive.world.database.rows("pipeline_files"))
        with archive.installed():
            for _ in range(2 * (is_repeated or is_begun)):
                if is_repeated:
                    delete()
                    assert get("svc.flow/r1").status == 410
                composition.services().removal.resume(Deadline(archive.world.clock))
                archive.world.clock.advance(SECONDS_UNTIL_SETTLED)
            if is_repeated or is_begun:
                assert archive.left() == archive.world.names(RUN) == [], f"stopped at call {number} {stop.calls[-1]}"
                assert get("svc.flow/r1").status == 410
        return len(stop.calls)

    at_some_calls(stop_at, f"stopped deletion {moment}")


@pytest.mark.behavior("What a process writes to a run while it is deleted is removed.")
def test_late_writes_of_other_processes_do_not_remain() -> None:
    """At a call of the deletion another process appends, compacts and finalizes by what it read before."""

    def write_at(number: int) -> int:
        archive = Archive(())
        position, reached = append(archive.world, RUN), iter(range(10**6))
        late = archive.world.parts()

        def write(operation: str, request: Any) -> Any:
            if next(reached) == number:
                for action in (
                    lambda: late.writer.append(RUN, Batch.from_text(f"{MARK} late\n"), position=position),
                    lambda: late.compactor.compact(RUN, archive.world.deadline()),
                    lambda: late.finalizer.close(RUN, position),
                ):
                    with suppress(RunlakeError):
                        action()
                    archive.notify()
            return request()

        with archive.installed(write):
            delete()
        count = next(reached)
        with archive.installed():
            assert get("svc.flow/r1").status == post("svc.flow/r1", '"x\\n"', JSON).status == 410
            assert get("svc.flow").json["runs"] == []
            archive.world.clock.advance(SECONDS_UNTIL_SETTLED)
            composition.services().removal.resume(Deadline(archive.world.clock))
        assert archive.left() == archive.world.names(RUN) == [], f"written at call {number}"
        return count

    at_some_calls(write_at, "late writes")


def at_some_calls(act: Callable[[int], int], name: str) -> None:
    """Act at a sample of the calls of a deletion, ``RUNLAKE_SAMPLE=all``: at each. ``act`` returns the number of calls."""
    calls = act(10**6)
    assert calls > 30
    for number in sampling.sample(range(calls), name, 10, 3):
        act(number)


def expire_late(archive: Archive) -> None:
    """A retention job that had checked the run before it was deleted, and a late write of another one."""
    composition.services().removal.expire(RUN, Deadline(archive.world.clock))
    archive.runs.forget(RUN)


def end_expiry(archive: Archive) -> None:
    archive.world.clock.advance(3000)
    archive.world.store.put(archive.world.layout.tombstone(RUN), b"{}", PutOptions())
    composition.services().removal.expire(RUN, Deadline(archive.world.clock))


def begin_expiry(archive: Archive) -> None:
    archive.world.clock.advance(3000)
    archive.world.database.put_many([Registration(RUN, 0, archive.world.clock.now_ms(), None).put()])


def damage_end(archive: Archive) -> None:
    archive.world.store.put(archive.world.layout.segment(RUN, 9_999), MARK.encode(), PutOptions())


def damage_mark(archive: Archive) -> None:
    archive.world.store.put(mark_key(RUN), b"{", PutOptions())


def lose_table(archive: Archive) -> None:
    delete()
    archive.world.database._tables.clear()


def damage_registration(archive: Archive) -> None:
    key = Key(TABLE, REMOVALS, "!")
    archive.world.database.put_many([Put(key, {"partition": key.partition, "at": key.sort})])


@pytest.mark.parametrize(
    "hinder", [expire_late, begin_expiry, end_expiry, damage_end, damage_mark, damage_registration, lose_table]
)
def test_hindered_deletion_leaves_nothing(hinder: Callable[[Archive], None]) -> None:
    archive = Archive((RUN,))
    with archive.installed():
        if hinder is expire_late:
            archive.world.clock.advance(3000)
            delete()
        hinder(archive)
        assert delete().json["state"] == "deleted" and archive.left() == [] and get("svc.flow/r1").status == 410
        archive.world.clock.advance(SECONDS_UNTIL_SETTLED)
        maintain_pipeline_files(composition.services(), 60_000)
        assert archive.left() == archive.world.names(RUN) == []
        assert [each["what"] for each in delete().json["outstanding"]] == ["dataset"]
        assert call("GET", f"{CATALOG}/svc.flow/runs/r1").status == 410


def unavailable(*_: object) -> None:
    raise StoreUnavailableError("the bucket is gone")


def test_failed_step_of_deletion_does_not_stop_others(monkeypatch: pytest.MonkeyPatch) -> None:
    archive = Archive((RUN,))
    with archive.installed():
        with monkeypatch.context() as patch:
            patch.setattr(RunSteps, "dead_letters", unavailable)
            assert delete().status == 503
        assert {key.partition("/")[0] for key in archive.left()} == {"_dead"}
        assert delete().status == 200 and archive.left() == []


def test_deletion_needs_its_scope_and_leaves_an_audit_line(caplog: pytest.LogCaptureFixture) -> None:
    archive, issuer = Archive(), Issuer()
    with installed(archive.world, runs=archive.runs, keys=issuer.read, **JWT):
        refused = delete(headers=bearer(issuer.granted("ada", admin=["*"], logs_write=["*"])))
        assert refused.status == 403 and archive.left()
        allowed = delete(headers=bearer(issuer.granted("ada", logs_delete=["svc.*"]))).json
    assert (allowed["deletedBy"], archive.left()) == ("ada", [])
    audit = [vars(each) for each in caplog.records if vars(each).get("action") == "logs:delete"]
    assert [(each["resource"], each["outcome"]) for each in audit] == [("svc.flow", "refused"), ("svc.flow", "allowed")]


def test_deletion_of_unknown_run_or_with_long_reason_is_refused() -> None:
    with installed(World(), runs=InMemoryRunCatalog()):
        assert delete().status == call("DELETE", f"{CATALOG}/svc.flow").status == 404
        for characters, status in ((501, 400), (500, 404)):
            assert call("DELETE", f"{CATALOG}/svc.flow/runs/r1?reason={'x' * characters}").status == status


@pytest.mark.parametrize(
    ("is_done", "dataset_ms", "outstanding"),
    [(False, 8, ["late writes"]), (True, 8, []), (True, 7, ["dataset"]), (True, 6, ["dataset"])],
)
def test_outstanding_names_attempts_and_dataset(is_done: bool, dataset_ms: int, outstanding: list[str]) -> None:
    world, mark = (
        World(),
        DeletionMark(RUN.fqn, RUN.run_id, 7, "ada", counts={"objects": 1}, is_done=True, attempts=(LATER.run_id,)),
    )
    put_mark(world.store, mark)
    put_mark(world.store, replace(mark, run_id=LATER.run_id, counts={"objects": 2}, is_done=is_done, attempts=()))
    put_dataset_time(world.store, dataset_ms)
    with installed(world, runs=InMemoryRunCatalog()):
        answer = delete().json
    assert ([each["what"] for each in answer["outstanding"]], answer["counts"]) == (outstanding, {"objects": 3})


def test_removal_that_fails_does_not_stop_others() -> None:
    archive = Archive(())
    with archive.installed():
        for run in (RUN, OTHER):
            append(archive.world, run)
            delete(run)
        archive.world.clock.advance(SECONDS_UNTIL_SETTLED)
        archive.world.index.failures.schedule("forget", error=StoreUnavailableError, times=1)
        for left in ([True, False], [False, False]):
            maintain_pipeline_files(composition.services(), 60_000)
            assert [bool(archive.world.names(run)) for run in (RUN, OTHER)] == left


def test_later_attempts_of_an_expired_run_are_deleted() -> None:
    archive = Archive((LATER,))
    with archive.installed():
        assert delete().status == 200 and archive.left() == []


def test_run_that_is_only_named_like_an_attempt_is_not_deleted() -> None:
    world = World()
    append(world, RUN)
    with installed(world, runs=InMemoryRunCatalog()):
        start = call("PUT", "/v1/events/svc.flow/r1~2/starts/s1", '{"host": "h", "command": "c", "attempt": 1}', JSON)
        assert start.json["runId"] == LATER.run_id
        append(world, LATER)
        assert (delete().status, get("svc.flow/r1").status, get("svc.flow/r1~2").status) == (200, 410, 200)


def test_pipeline_is_deleted_and_its_name_is_used_again() -> None:
    archive = Archive()
    with archive.installed():
        first = call("DELETE", f"{CATALOG}/svc.flow?reason=all").json
        assert (first["state"], first["reason"], first["counts"]["runs"]) == ("deleted", "all", 3)
        assert archive.left() == archive.left("other") == [] and get("svc.flow").json["runs"] == []
        archive.world.clock.advance(SECONDS_UNTIL_SETTLED)
        assert call("DELETE", f"{CATALOG}/svc.flow").json["state"] == "deleted"
        assert call("DELETE", f"{CATALOG}/svc.flow").json["reason"] == "all"
        assert post("svc.flow/r1", '"late\\n"', JSON).status == 410
        assert post("svc.flow/r3", '"new\\n"', JSON).status == 200 and get("svc.flow/r3").json["logs"] == "new"
        assert call("DELETE", f"{CATALOG}/svc.flow").json["counts"]["runs"] == 1
        archive.world.clock.advance(1)
        post("svc.flow/r4", '"newer\\n"', JSON)
        again = call("DELETE", f"{CATALOG}/svc.flow").json["outstanding"][0]["what"]
        assert again == "runs that began after deletedAt: 1" and get("svc.flow/r4").json["logs"] == "newer"


def test_deletion_of_large_run_ends_in_several_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    for each in ("tests.support.object_store.MAX_LISTED", "chalicelib.removal.run_steps._AT_ONCE"):
        monkeypatch.setattr(each, 20)
    archive = Archive()
    for number in range(400):
        archive.world.store.put(f"{archive.world.layout.run_prefix(RUN)}events/{number}", b"", PutOptions())
    for number in range(80):
        archive.world.store.put(archive.world.layout.segment(RUN, 100 + number), MARK.encode(), PutOptions())

    def slow(operation: str, request: Any) -> Any:
        archive.world.clock.advance(1.0 if operation == "list" else 0.2)
        return request()

    with archive.installed(slow):
        states = [delete().json["state"] for _ in range(14)]
        assert get("svc.flow/r1").status == 410
    assert (states[0], states[-1], archive.left()) == ("deleting", "deleted", [])


def test_deletion_of_many_runs_ends_in_several_calls() -> None:
    archive, runs, calls = Archive(()), [Run("svc.flow", f"r{number}") for number in range(12)], 0
    for run in runs:
        append(archive.world, run)
    archive.world.clock.advance(1)

    def slow(operation: str, request: Any) -> Any:
        archive.world.clock.advance(0.3)
        return request()

    with archive.installed(slow):
        while call("DELETE", f"{CATALOG}/svc.flow").json["state"] == "deleting":
            calls += 1
            assert calls < 20, "a call does not continue where the one before ended"
        assert archive.left() == [] and {get(f"svc.flow/{run.run_id}").status for run in runs} == {410}


def test_places_name_every_bucket_prefix_and_table_of_the_template() -> None:
    template = (Path(__file__).parents[2] / "infra" / "template.yaml").read_text()
    resources = re.findall(r"^  (\w+):.*\n    Type: AWS::(?:S3::Bucket|DynamoDB::Table)$", template, re.MULTILINE)
    prefixes = set(re.findall(r":s3:::\$\{BucketName\}/([^/*]+/)", template))
    assert {each.store for each in PLACES} == set(resources)
    assert {
        each.prefix.replace("{prefix}", "${Prefix}") for each in PLACES if each.store == "Bucket" and "/." not in each.prefix
    } == prefixes
    assert set(STEPS) == {name for name in vars(RunSteps) if not name.startswith("_")}

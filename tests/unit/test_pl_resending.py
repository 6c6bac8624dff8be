"""Dead letters that are sent again: to the handler that failed, by the worker, and deleted once they are accepted."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from chalicelib.errors import PreconditionFailedError, StoreUnavailableError, TargetUnavailableError
from chalicelib.pipelines.configuration import PipelineFile
from chalicelib.pipelines.dead_letters import DeadLetterId, DeadLetters, find_dead_letter
from chalicelib.pipelines.pipeline_state import DISABLED, HandlerState, PipelineStateStore
from chalicelib.pipelines.ports import DATA, EVENT_ID, INSTANCE, STEP, TIME_MS, WRITER
from chalicelib.pipelines.records import record_of_event
from chalicelib.pipelines.resending import AT_ONCE, ResendRequests
from chalicelib.pipelines.shards import Shard
from chalicelib.ports import PutOptions, Run
from tests.pipelines_harness import START_MS, PipelinesHarness, RecordingHandler, pipeline

RUN = Run("svc.a", "r1")
FILE = pipeline(to=("a", "b"), errors={"retries": 0, "max": 1000})


@pytest.fixture
def world() -> Iterator[PipelinesHarness]:
    RecordingHandler.forget()
    yield PipelinesHarness()
    RecordingHandler.forget()


def letter(world: PipelinesHarness, line: int = 0, run: Run = RUN, handler: str = "a", **more: Any) -> DeadLetterId:
    """Store a dead letter."""
    event = {
        "fqn": run.fqn, "run_id": run.run_id, "line": line, "time_ms": START_MS, "logger": "app", "level": "ERROR", "message": f"m{line}"
    } | more  # fmt: skip
    DeadLetters(world.store, "test", world.clock).put(handler, record_of_event(event, ""), ValueError("no"), 1)
    return DeadLetterId("test", handler, run, line)


def requests(world: PipelinesHarness) -> ResendRequests:
    return ResendRequests(world.database, "test", world.clock)


def asked(world: PipelinesHarness, *letters: DeadLetterId) -> None:
    for each in letters:
        requests(world).add(each, 60)


def session(world: PipelinesHarness, file: PipelineFile = FILE, **changes: Any) -> None:
    """The life of a worker."""
    world.clock.advance(60)
    worker = world.worker(file, **changes)
    worker.start()
    world.work(worker)
    worker.stop()


def test_accepted_letter_is_deleted_and_its_handler_gets_the_same_event(world: PipelinesHarness) -> None:
    origin = {"id": 3, "writer": "w", "level": None, "annotations": [], "instance": "here"}
    asked(world, letter(world, 7, step="load", data={"rows": 3}, origin=origin))
    session(world)
    (record,) = RecordingHandler.records["a"]
    assert (record.name, record.levelno, record.getMessage(), record.lineno) == ("app", logging.ERROR, "m7", 7)
    facts = record.__dict__
    assert (facts[STEP], facts[DATA], facts[TIME_MS]) == ("load", {"rows": 3}, START_MS)
    assert (facts[EVENT_ID], facts[WRITER], facts[INSTANCE]) == (3, "w", "here")
    assert "b" not in RecordingHandler.records
    assert not world.store.list("_dead/").objects and not list(requests(world).all())


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OSError("still full"), "OSError: still full"),
        (TargetUnavailableError("answer='of another'"), "TargetUnavailableError: a service that the handler uses was unavailable"),
    ],
)
def test_refused_letter_has_one_more_attempt_and_the_new_reason(world: PipelinesHarness, error: Exception, reason: str) -> None:
    def fail(_: logging.LogRecord) -> None:
        raise error

    RecordingHandler.fails["a"] = fail
    one = letter(world)
    asked(world, one)
    session(world)
    found = find_dead_letter(world.store, one.key)
    assert found and (found.attempts, found.reason, found.event["message"]) == (2, reason, "m0")
    assert found.trace.endswith(reason if "of another" in str(error) else f"{reason}\n") and "of another" not in found.trace
    assert found.dead_ms > START_MS and not list(requests(world).all())


def test_dropped_letter_is_not_sent_and_does_not_come_back(world: PipelinesHarness) -> None:
    one, two = letter(world), letter(world, 1)
    asked(world, one, two)
    world.store.delete(one.key)

    def fail(_: logging.LogRecord) -> None:
        world.store.delete(two.key)  # while the handler works
        raise OSError("no")

    RecordingHandler.fails["a"] = fail
    session(world)
    assert not world.store.list("_dead/").objects and not list(requests(world).all())


def test_letters_of_a_disabled_handler_wait_and_hide_no_others(world: PipelinesHarness) -> None:
    states = PipelineStateStore(world.database, world.clock)
    states.set_handler("test", HandlerState("a", DISABLED, "", 1))
    mine = letter(world, 0, handler="b")
    asked(world, mine, *(letter(world, line) for line in range(AT_ONCE)))
    session(world)
    assert RecordingHandler.messages("b") == ["m0"] and "a" not in RecordingHandler.records
    assert len(list(requests(world).all())) == AT_ONCE
    states.set_handler("test", HandlerState("a", ""))
    session(world)
    assert len(RecordingHandler.messages("a")) == AT_ONCE and not world.store.list("_dead/").objects


def test_letter_stays_while_its_handler_cannot_flush(world: PipelinesHarness) -> None:
    def fail() -> None:
        raise OSError("no")

    one = letter(world)
    asked(world, one)
    RecordingHandler.fail_flush["a"] = fail
    session(world)
    assert find_dead_letter(world.store, one.key) and RecordingHandler.messages("a") == ["m0"]
    del RecordingHandler.fail_flush["a"]
    session(world)
    assert not world.store.list("_dead/").objects and RecordingHandler.messages("a") == ["m0", "m0"]


def test_letter_stays_if_its_handler_is_disabled_before_the_checkpoint(world: PipelinesHarness) -> None:
    def fail() -> None:
        raise OSError("no")

    one = letter(world)
    asked(world, one)
    RecordingHandler.fail_flush["a"] = fail
    session(world, pipeline(to=("a", "b"), errors={"max": 1}))
    assert find_dead_letter(world.store, one.key) and len(list(requests(world).all())) == 1


@pytest.mark.parametrize("generation", ["g1", None])
def test_letter_has_the_generation_of_its_run_and_is_dropped_with_it(world: PipelinesHarness, generation: str | None) -> None:
    asked(world, letter(world))
    session(world, generation=lambda _: generation)
    generations = [record.__dict__["runlake_generation"] for record in RecordingHandler.records.get("a", ())]
    assert generations == ([generation] if generation else []) and not world.store.list("_dead/").objects


def test_worker_sends_at_most_fifty_between_checkpoints_and_only_of_its_shard(world: PipelinesHarness) -> None:
    shards = [Shard(number, 2) for number in (0, 1)]
    fqns = [next(fqn for fqn in (f"svc.{at}" for at in range(100)) if shard.has(fqn)) for shard in shards]
    asked(world, *(letter(world, line, Run(fqn, "r1")) for fqn in fqns for line in range(AT_ONCE + 1)))
    worker = world.worker(FILE, shard=shards[0])
    worker.start()
    worker.step()
    sent = RecordingHandler.records["a"]
    assert len(sent) == AT_ONCE and {record.__dict__["runlake_fqn"] for record in sent} == {fqns[0]}
    world.clock.advance(10)
    worker.step()
    assert len(sent) == AT_ONCE + 1
    worker.stop()
    assert len(list(requests(world).all())) == AT_ONCE + 1


@pytest.mark.parametrize("body", [b"{", b"{}", b'{"event": {"fqn": 1}}', b"[" * 100_000])
def test_letter_that_cannot_be_read_is_reported_once(world: PipelinesHarness, body: bytes) -> None:
    one = letter(world)
    world.store.put(one.key, body, PutOptions())
    asked(world, one)
    session(world)
    session(world)
    assert [told["key"] for told in world.told] == [one.key] and world.store.get(one.key).body == body


def test_outage_delays_letters_and_stops_no_worker(world: PipelinesHarness) -> None:
    one, query = letter(world), world.database.query
    asked(world, one)

    def away(table: str, partition: str, *arguments: Any, **options: Any) -> Any:
        if partition.startswith("resends#"):
            raise StoreUnavailableError("away")
        return query(table, partition, *arguments, **options)

    world.database.query = away  # type: ignore[method-assign]
    session(world)
    assert {told["message"] for told in world.told} == {"dead letters could not be sent again: it is retried"}
    world.database.query = query  # type: ignore[method-assign]
    session(world)
    assert RecordingHandler.messages("a") == ["m0"] and not world.store.list("_dead/").objects


def test_letter_that_was_stored_again_meanwhile_stays(world: PipelinesHarness) -> None:
    one = letter(world)
    stale = find_dead_letter(world.store, one.key)
    assert stale
    letter(world, message="newer")
    letters = DeadLetters(world.store, "test", world.clock)
    for act in (lambda: letters.delete(stale), lambda: letters.update(stale, OSError())):
        with pytest.raises(PreconditionFailedError):
            act()
    assert json.loads(world.store.get(one.key).body)["event"]["message"] == "newer"

"""Events that were sent as events: their rows have the fields that their senders state, for all kinds of objects that hold their
text."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql.datasource import EqualNullSafe, EqualTo, In

from bench.stored_runs import START_MS, Bucket
from chalicelib.errors import DamagedLogError, InvalidConfigurationError
from chalicelib.events.event import NewEvent
from chalicelib.events.sidecar import decode_sidecar, encode_sidecar
from chalicelib.ports import PutOptions, Run
from chalicelib.runlog.layout import Layout
from glue_jobs.datasource.offsets import Offset
from tests.spark.memory import Pipelines, Reading

RUN = Run("svc.p", "run-1")

HEAD = "2026-11-21 03:00:01,000 - svc.load - INFO - begin"
TRACE = 'Traceback (most recent call last):\n  File "load.py", line 12, in load\nValueError: 42'
Sent = str | list[NewEvent]
SENT: list[tuple[Sent, list[tuple[str, str | None, str | None]]]] = [
    (HEAD, [(HEAD, "INFO", "svc.load")]),
    (
        [
            NewEvent(message="two\nlines", level="WARN", timestamp=START_MS, data={"logger": "agent"}),
            NewEvent(message="", level="FATAL", timestamp=START_MS),
        ],
        [("two\nlines", "WARNING", "agent"), ("", "CRITICAL", None)],
    ),
    ("    belongs to nothing", [("    belongs to nothing", None, None)]),
    (HEAD, [(HEAD, "INFO", "svc.load")]),
    ([NewEvent(message=HEAD + "\n" + HEAD, level="DEBUG")], [(HEAD + "\n" + HEAD, "DEBUG", "svc.load")]),
    ([NewEvent(message=TRACE), NewEvent(message="x")], [(TRACE, "ERROR", None), ("x", None, None)]),
    ("ValueError: 43", [("ValueError: 43", None, None)]),
]
"""What is sent, and its rows: text, level and logger."""


def _send(world: Pipelines, sent: Sent) -> None:
    if isinstance(sent, str):
        world.append(RUN, sent.encode() + b"\n")
    else:
        world.send(RUN, sent)


def _stated_rows(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(row["line"], row["raw"].decode().removesuffix("\n"), row["level"], row["logger"]) for row in rows]


def _expected(times: int) -> list[tuple[Any, ...]]:
    rows = [row for _, rows in times * SENT for row in rows]
    lines = [text.count("\n") + 1 for text, _, _ in rows]
    return [(sum(lines[:index]), *row) for index, row in enumerate(rows)]


@pytest.mark.parametrize("state", ["segments", "compacted", "partly compacted", "finalized", "bundled", "bundled meanwhile"])
@pytest.mark.parametrize("size", ["64m", "100k", "1k"])
def test_rows_are_as_their_senders_state_them(state: str, size: str) -> None:
    world = Pipelines()
    for number in range(20):
        for sent, _ in SENT:
            _send(world, sent)
        if state == "compacted" or (state == "partly compacted" and number == 10):
            world.compact(RUN)
    if state in ("finalized", "bundled", "bundled meanwhile"):
        world.close(RUN)
    if state != "segments":
        world.clock.advance(3600)
        world.settle(RUN)
    if state == "bundled":
        world.bundle(RUN)
    reading = Reading(world.store, bytesPerPartition=size, logFormat="python")
    tasks = reading.tasks()
    if state == "bundled meanwhile":
        world.bundle(RUN)
    rows = reading.read(tasks)
    assert _stated_rows(rows) == _expected(20)
    assert reading.problems.reported == []
    assert {row["timestamp"] for row in rows if row["logger"] == "agent"} == {START_MS * 1000}
    assert [row["message"] for row in rows if row["level"] == "DEBUG"] == 20 * ["begin\n" + HEAD]


def test_lines_of_an_event_are_found_by_their_number() -> None:
    world = Pipelines()
    for _ in range(40):
        for sent, _ in SENT:
            _send(world, sent)
    world.close(RUN)
    world.clock.advance(3600)
    world.settle(RUN)
    world.bundle(RUN)
    for row in _expected(40)[::13]:
        found = Reading(world.store, world.index, logFormat="python").where(EqualTo(("line",), row[0])).rows()
        assert row in _stated_rows(found)


def test_an_event_is_read_whole_or_not_where_times_leave_out_what_came_before() -> None:
    world = Pipelines()
    world.clock.advance(START_MS // 1000 - world.clock.now_ms() // 1000)
    world.send(RUN, [NewEvent(message="\n".join(100 * [HEAD.replace("03:00", "05:00")]), timestamp=START_MS)])
    world.clock.advance(2 * 3600 + 60)
    late = HEAD.replace("03:00", "05:01")
    world.append(RUN, late.encode() + b"\n")
    reading = Reading(world.store, **{"from": "2026-11-21T05:00Z", "to": "2026-11-21T06:00Z", "logFormat": "python"})
    assert _stated_rows(reading.rows()) == [(100, late, "INFO", "svc.load")]


def test_a_segment_of_events_waits_for_what_is_beside_it() -> None:
    world = Pipelines()
    _send(world, HEAD)
    for number in range(2):
        world.send(RUN, [NewEvent(message=f"event {number}", level="ERROR")])
    key = world.layout.sidecar(RUN, 2)
    sidecar = world.store.get(key).body
    world.store.delete(key)
    reading = world.reading(flushAfter="none")
    follower = reading.follower(world.now_s)
    start = Offset.initial(reading.options)
    first = follower.latest(start, start)
    assert _stated_rows(reading.between(follower, start, first)) == [(0, HEAD, "INFO", "svc.load"), (1, "event 0", "ERROR", None)]
    assert follower.latest(first, first) == first
    world.store.put(key, sidecar, PutOptions())
    second = follower.latest(first, first)
    assert _stated_rows(reading.between(follower, first, second)) == [(2, "event 1", "ERROR", None)]
    # The reader does not wait for an interrupted append; later objects move no border.
    world.store.delete(key)
    world.clock.advance(61)
    third = reading.follower(world.now_s).latest(first, first)
    world.store.put(key, sidecar, PutOptions())
    assert [row["line"] for row in reading.between(reading.follower(world.now_s), first, third)] == []
    world.close(RUN)
    last = reading.follower(world.now_s).latest(third, third)
    assert [row["line"] for row in reading.between(reading.follower(world.now_s), third, last)] == [2]


def test_a_run_that_waits_is_not_passed_over() -> None:
    """A reader whose clock is ten minutes behind the store's waits for longer, and must not treat the run as read."""
    world = Pipelines()
    now_s = world.now_s() + 30
    for number in range(2):
        world.send(RUN, [NewEvent(message=f"event {number}", level="ERROR")])
    key = world.layout.sidecar(RUN, 0)
    sidecar = world.store.get(key).body
    world.store.delete(key)
    world.close(RUN)
    world.clock.advance(600)
    world.append(Run("svc.p", "run-2"), HEAD.encode() + b"\n")
    reading = world.reading()
    follower = reading.follower(lambda: now_s)
    start = Offset.initial(reading.options)
    first = follower.latest(start, start)
    world.store.put(key, sidecar, PutOptions())
    second = follower.latest(first, first)
    rows = reading.between(follower, first, second)
    assert [(row["run_id"], row["line"], row["level"]) for row in rows] == [("run-1", 0, "ERROR"), ("run-1", 1, "ERROR")]


def test_what_is_damaged_or_gone_is_text() -> None:
    world = Pipelines()
    for number in range(3):
        world.send(RUN, [NewEvent(message=f"event\n{number}", level="ERROR")])
    world.store.put(world.layout.sidecar(RUN, 0), b"damaged", PutOptions())
    body = world.store.get(world.layout.sidecar(RUN, 1)).body
    world.store.put(world.layout.sidecar(RUN, 2), body, PutOptions())
    reading = Reading(world.store)
    tasks = reading.tasks()
    world.store.delete(world.layout.sidecar(RUN, 1))
    assert [(row["line"], row["level"]) for row in reading.read(tasks)] == [(line, None) for line in range(6)]
    assert sorted(problem.kind for problem in reading.problems.reported) == ["gone", "metadata", "metadata"]
    with pytest.raises(DamagedLogError):
        Reading(world.store, mode="failfast").rows()


def test_lines_of_another_size_than_their_event_are_text() -> None:
    world, key = Pipelines(), Layout("pipeline-logs").sidecar(RUN, 0)
    world.send(RUN, [NewEvent(message="event", level="ERROR"), NewEvent(message="event", level="ERROR")])
    sidecar = decode_sidecar(world.store.get(key).body)
    first, second = sidecar.events
    world.store.put(key, encode_sidecar(replace(sidecar, events=(replace(first, bytes=4), second))), PutOptions())
    assert [(row["line"], row["level"]) for row in Reading(world.store).rows()] == [(0, None), (1, "ERROR")]


LEVELS = ("level",)


@pytest.mark.parametrize(
    ("filters", "option", "expected"),
    [
        ([EqualTo(LEVELS, "FATAL")], None, ["CRITICAL"]),
        ([EqualNullSafe(LEVELS, "warn")], None, ["WARNING"]),
        ([In(LEVELS, ("INFO", "Critical"))], None, ["INFO", "CRITICAL", "INFO"]),
        ([In(LEVELS, ("INFO", "ERROR")), EqualTo(LEVELS, "ERROR")], None, ["ERROR"]),
        ([EqualTo(LEVELS, "INFO")], "error, fatal", []),
        ([], "error,FATAL", ["CRITICAL", "ERROR"]),
    ],
)
def test_levels_have_any_of_their_names(filters: list[Any], option: str | None, expected: list[str]) -> None:
    world = Pipelines()
    for sent, _ in SENT:
        _send(world, sent)
    options = {"level": option} if option else {}
    rows = Reading(world.store, logFormat="python", **options).where(*filters).rows()
    assert [row["level"] for row in rows] == expected


def test_a_level_that_does_not_exist_is_refused(bucket: Bucket) -> None:
    bucket.run().append(HEAD.encode() + b"\n")
    for filters, options in (([EqualTo(LEVELS, "EROR!")], {}), ([In(LEVELS, ("INFO", "x"))], {}), ([], {"level": "INFO,"})):
        with pytest.raises(InvalidConfigurationError, match="must be a level such as TRACE"):
            bucket.rows(*filters, **options)


@pytest.mark.parametrize(("is_final", "gets"), [(False, 20 + 20), (True, 1 + 20)], ids=["segments", "logs.txt"])
def test_events_cost_a_get_for_each_batch(is_final: bool, gets: int) -> None:
    world, keys = Pipelines(), list[str]()

    class Counted:
        def __getattr__(self, name: str) -> Any:
            return getattr(world.store, name)

        def get(self, key: str, *given: Any, **named: Any) -> Any:
            keys.append(key)
            return world.store.get(key, *given, **named)

    for number in range(20):
        world.send(RUN, [NewEvent(message=f"event {number}", level="ERROR")])
    if is_final:
        world.close(RUN)
    assert {row["level"] for row in Reading(Counted()).rows()} == {"ERROR"}  # type: ignore[arg-type]
    assert len(keys) == len(set(keys)) == gets


def test_plain_logs_cost_no_request_more(bucket: Bucket) -> None:
    for number in range(5):
        bucket.run(run_id=f"run-{number}").lines(100).seal().finalize().retire()
        bucket.run(run_id=f"open-{number}").lines(40)
    bucket.server.traffic.reset()
    bucket.rows()
    assert bucket.server.traffic.requests == {"LIST": 3, "GET": 10}

"""From one offset to the next, every line is read once, despite changes to the runs and restarts of the reader in between."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.stored_runs import MINUTE_MS, START_MS, Bucket, event_numbers, raw_bytes
from chalicelib.errors import InvalidConfigurationError
from chalicelib.events.event import NewEvent
from chalicelib.ports import Run
from glue_jobs.datasource.following import Follower
from glue_jobs.datasource.offsets import ABANDONED, CLOSED, OPEN, Offset, Position, name_of
from glue_jobs.datasource.options import parse_options
from glue_jobs.datasource.steps import first, latest, offset_of
from tests.spark.memory import Pipelines

TRACE = b'Traceback (most recent call last):\n  File "load.py", line 12, in load\n    raise ValueError(row)\nValueError: 42\n'


class Query:
    """Behaves like a streaming query: it stores the next offset, reads up to it, and commits. ``restart``: as after a kill, when
    the batch of the last stored offset may not have been read, or its rows not committed."""

    def __init__(self, world: Pipelines, **options: str) -> None:
        self.world, self.options = world, options
        self.rows: list[dict[str, Any]] = []
        self.planned: Offset | None = None
        self.restart()
        self.offset = Offset.initial(self.reading.options)

    def restart(self) -> None:
        self.reading = self.world.reading(**self.options)
        self.follower: Follower = self.reading.follower(self.world.now_s)

    def plan(self) -> bool:
        """Whether anything is new."""
        latest = self.follower.latest(self.offset, self.offset)
        self.planned = Offset.from_json(json.loads(json.dumps(latest.to_json())), self.reading.options)
        assert self.planned == latest
        return latest != self.offset

    def read(self) -> list[dict[str, Any]]:
        assert self.planned
        return self.reading.between(self.follower, self.offset, self.planned)

    def commit(self, rows: list[dict[str, Any]]) -> None:
        assert self.planned
        self.rows += rows
        self.offset, self.planned = self.planned, None

    def drain(self) -> None:
        """Repeat until nothing is new."""
        if self.planned:
            self.commit(self.read())
        while self.plan():
            self.commit(self.read())


def _batch(chance: random.Random, number: int) -> bytes:
    """A few lines, some of which continue an event of this batch or of the one before it."""
    text = b""
    for each in range(chance.randint(1, 5)):
        kind = chance.random()
        if kind < 0.5:
            text += b"2026-11-21 03:00:%02d,000 - svc.load - INFO - row %d.%d\n" % (number % 60, number, each)
        elif kind < 0.7:
            text += TRACE[: chance.choice([35, 70, len(TRACE)])].rpartition(b"\n")[0] + b"\n"
        elif kind < 0.9:
            text += b"    more of it\n" * chance.randint(1, 4)
        else:
            text += b"\xff\xfe no text\r\n"
    return text


def _event(chance: random.Random) -> NewEvent:
    """Its text would be several events, or a part of one."""
    text = "".join(
        chance.choices(["row", "    more", TRACE.decode().strip(), "2026-11-21 03:00:01,000 - svc.load - INFO - row"], k=3)
    )
    return NewEvent(message=chance.choice(["", "event\n"]) + text, level="ERROR", timestamp=1, data={"logger": "event"})


def _happen(world: Pipelines, runs: list[Run], chance: random.Random, number: int) -> None:
    """One random change to a run."""
    run = chance.choice(runs)
    what = chance.random()
    if what < 0.40 and run not in world.closed:
        world.append(run, _batch(chance, number))
    elif what < 0.55 and run not in world.closed:
        world.send(run, [_event(chance) for _ in range(chance.randint(1, 3))])
    elif run not in world.logs:
        return
    elif what < 0.65:
        world.compact(run)
    elif what < 0.75:
        world.settle(run)
    elif what < 0.80 and run not in world.closed:
        world.abandon(run)
    elif what < 0.82:
        world.close(run)
    else:
        world.clock.advance(chance.choice([1, 20, 90, 1300]))


def _check(query: Query) -> None:
    by_run: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in query.rows:
        by_run[row["run_id"]].append(row)
    for run, log in query.world.logs.items():
        rows = by_run.pop(run.run_id, [])
        assert raw_bytes(rows, run.run_id) == log
        lines = log.splitlines(keepends=True)
        assert all(row["raw"].startswith(lines[row["line"]]) for row in rows)
        assert [row["raw"] for row in rows if row["logger"] == "event"] == query.world.sent.get(run, [])
    assert not by_run


@pytest.mark.sampled(default=12)
@pytest.mark.parametrize("seed", range(36))
def test_killed_at_any_point_a_query_repeats_and_skips_no_line(seed: int) -> None:
    chance = random.Random(seed)
    world = Pipelines()
    options = chance.choice(
        [{}, {"maxBytesPerBatch": "300"}, {"flushAfter": "none"}, {"flushAfter": "1h", "bytesPerPartition": "2k"}]
    )
    query = Query(world, **options)
    runs = [Run(f"svc.p{number % 2}", f"run-{number}") for number in range(5)]
    for number in range(250):
        _happen(world, runs, chance, number)
        if chance.random() < 0.1:
            query.restart()
        if chance.random() < 0.3:
            _step(query, chance)
    for run in world.logs:
        world.close(run)
    query.restart()
    query.drain()
    _check(query)


def _step(query: Query, chance: random.Random) -> None:
    """Plan, read and commit, or stop in between; uncommitted rows are read again and must be the same."""
    if query.planned is None:
        query.plan()
        if chance.random() < 0.3:
            return
    rows = query.read()
    if chance.random() < 0.3:
        query.restart()
        assert query.read() == rows
    if chance.random() < 0.6:
        query.commit(rows)


def test_the_last_event_is_kept_back_until_it_ends_or_is_old() -> None:
    world, run = Pipelines(), Run("svc.p", "run-1")
    query = Query(world, flushAfter="60s")
    head, next_ = (b"2026-11-21 03:00:0%d,000 - svc.load - ERROR - failed\n" % second for second in (1, 2))

    def news() -> list[bytes]:
        before = len(query.rows)
        query.drain()
        return [row["raw"] for row in query.rows[before:]]

    world.append(run, head + TRACE[:70])
    assert news() == []
    world.clock.advance(59)
    world.append(run, TRACE[70:])
    query.restart()
    assert news() == []
    world.append(run, next_)
    assert news() == [head + TRACE]
    world.clock.advance(61)
    query.restart()
    assert news() == [next_]
    world.append(run, TRACE)
    world.close(run)
    assert news() == [TRACE]


def test_a_run_keeps_the_format_that_was_chosen_when_it_was_first_met() -> None:
    world, run = Pipelines(), Run("svc.p", "run-1")
    query = Query(world)
    # A level alone starts an event only if most lines begin with one, as the first ones did; few of all lines do.
    for text in (3 * b"ERROR first\n", 500 * b"and then it went on\n", b"ERROR last\n"):
        world.append(run, text)
        query.restart()
        query.drain()
    world.close(run)
    query.drain()
    assert raw_bytes(query.rows, run.run_id) == world.logs[run]
    assert [row["level"] for row in query.rows if b"ERROR" in row["raw"]] == 4 * ["ERROR"]


def _between(bucket: Bucket, start: Offset | str | None, end: Offset | str | None, **options: str) -> list[dict[str, Any]]:
    given = {"startingOffsets": start, "endingOffsets": end}
    texts = {name: offset.text if isinstance(offset, Offset) else offset for name, offset in given.items() if offset}
    return bucket.rows(**texts, **options)


def test_a_job_reads_step_by_step(bucket: Bucket) -> None:
    one = bucket.run(run_id="one").lines(100)
    two = bucket.run(run_id="two").append(TRACE)
    options = bucket.options
    begin = latest(options)
    before = _between(bucket, None, begin)
    assert (raw_bytes(before, "one"), raw_bytes(before, "two")) == (one.log, TRACE)

    assert latest(options, begin) == begin
    one.lines(50, first=100).compact().retire()
    three = bucket.run(run_id="three").lines(10).seal().finalize().retire()
    second = latest(options, offset_of(begin.text, options))
    rows = _between(bucket, begin, second)
    assert raw_bytes(rows, "one") == b"".join(one.log.splitlines(keepends=True)[100:])
    assert raw_bytes(rows, "three") == three.log
    assert {row["run_id"] for row in rows} == {"one", "three"}

    one.seal().finalize().retire()
    two.seal("abandoned").finalize("abandoned").retire().reopen().lines(1)
    assert _between(bucket, begin, second) == rows
    assert _between(bucket, None, begin) == before
    third = latest(options, second)
    last = _between(bucket, second, third)
    assert [row["raw"] for row in last] == [two.bodies[-1]]
    assert _between(bucket, third, None) == []
    everything = _between(bucket, None, third)
    assert all(raw_bytes(everything, run.run_id) == run.log for run in (one, two, three))


def test_runs_that_are_open_wait_where_only_ended_ones_are_wanted(bucket: Bucket) -> None:
    one = bucket.run(run_id="one").lines(100)
    two = bucket.run(run_id="two").lines(100).seal("abandoned").finalize("abandoned")
    options = bucket.options
    begin = latest(options, ended_only=True)
    assert {name: position.state for name, position in begin.runs.items()} == {name_of(two.base): ABANDONED}
    assert {row["run_id"] for row in _between(bucket, None, begin)} == {"two"}

    two.reopen().lines(50, first=100)
    assert latest(options, begin, ended_only=True) == begin
    assert {position.state for position in latest(options, begin).runs.values()} == {OPEN}
    one.seal().finalize()
    two.seal().finalize()
    second = latest(options, begin, ended_only=True)
    assert {position.state for position in second.runs.values()} == {CLOSED}
    rows = _between(bucket, begin, second)
    assert raw_bytes(rows, "one") == one.log
    assert raw_bytes(rows, "two") == b"".join(two.log.splitlines(keepends=True)[100:])


def test_a_closed_run_leaves_the_offset_when_it_is_old_and_does_not_come_back(bucket: Bucket) -> None:
    options = bucket.options
    old = bucket.run(run_id="old").lines(10).seal().finalize()
    open_ = bucket.run(run_id="open", at_ms=START_MS + 10 * MINUTE_MS).lines(10)
    begin = latest(options)
    assert set(begin.runs) == {name_of(old.base), name_of(open_.base)}
    open_.lines(10, first=10)
    second = latest(options, begin)
    assert set(second.runs) == {name_of(open_.base)}
    assert {row["run_id"] for row in _between(bucket, begin, second)} == {"open"}
    open_.lines(10, first=20)
    assert {row["run_id"] for row in _between(bucket, second, latest(options, second))} == {"open"}


def test_at_most_so_much_at_a_time(bucket: Bucket) -> None:
    for number in range(10):
        bucket.run(run_id=f"run-{number}").append(b"x" * 999 + b"\n").seal()
    options = {**bucket.options, "maxBytesPerBatch": "3500"}
    offset, steps, runs = first(options), [], []
    while (following := latest(options, offset)) != offset:
        rows = _between(bucket, offset, following, maxBytesPerBatch="3500")
        steps.append(sum(len(row["raw"]) for row in rows))
        runs += [row["run_id"] for row in rows]
        offset = following
    assert steps == [3000, 3000, 3000, 1000]
    assert sorted(runs) == [f"run-{number}" for number in range(10)]


def test_an_offset_may_stand_in_a_file_or_in_a_bucket(bucket: Bucket, tmp_path: Path) -> None:
    run = bucket.run().lines(40)
    begin = latest(bucket.options)
    run.lines(40, first=40).seal()
    second = latest(bucket.options, begin)
    bucket.server.put("offsets/first one.json", begin.text.encode())
    (tmp_path / "second.json").write_text(second.text)
    rows = _between(bucket, "s3://logs/offsets/first%20one.json", (tmp_path / "second.json").as_uri())
    assert rows == _between(bucket, begin, second)
    assert event_numbers(rows) == list(range(40, 80))


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"startingOffsets": "latest"}, "only valid for streaming"),
        ({"endingOffsets": "earliest"}, "cannot end before it begins"),
        ({"startingOffsets": "tomorrow"}, "is neither earliest, latest"),
        ({"startingOffsets": "{"}, "invalid JSON"),
        ({"startingOffsets": '{"v": 7}'}, "unsupported version of the offset version=7"),
        ({"startingOffsets": '{"v": 1, "of": "other"}'}, "belongs to other options"),
        ({"endingOffsets": "file:///nowhere"}, "cannot be read"),
        ({"endingOffsets": "{}", "status": "open"}, "option=status"),
    ],
)
def test_offsets_that_cannot_work(bucket: Bucket, options: dict[str, str], complaint: str) -> None:
    with pytest.raises(InvalidConfigurationError, match=complaint):
        bucket.rows(**options)


def test_a_damaged_offset(bucket: Bucket) -> None:
    offset = latest(bucket.run().lines(40) and bucket.options).to_json()
    for damaged in ({"runs": {"x": "1.2"}}, {"runs": []}, {"through": None}):
        with pytest.raises(InvalidConfigurationError, match="damaged"):
            bucket.rows(startingOffsets=json.dumps(offset | damaged))


def test_an_offset_of_100_000_runs_is_a_few_megabytes() -> None:
    options = parse_options({"bucket": "logs"})
    position = Position(1234, 12_345_678, 123_456, 12_345_600, OPEN, START_MS // 1000, "python")
    offset = replace(Offset.initial(options), runs={name_of(f"svc/run-{number}/"): position for number in range(100_000)})
    assert Offset.parsed(offset.text, options) == offset
    assert 4_000_000 < len(offset.text) < 7_000_000

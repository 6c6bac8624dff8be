"""Pipelines' files, interrupted at every call of the store and the database: the rows name each event exactly once.

A process that dies is followed by another one, which starts at the checkpoint. A process whose call fails continues if it can (a
failed flush is repeated); otherwise it is followed by another one too.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from chalicelib.errors import OutcomeUnknownError, RunlakeError
from chalicelib.pipelines.files import appendable_object, two_phase_commit
from tests.faults.interception import AFTER, BEFORE, FAULTS, Crash, Intercepted, StopAt
from tests.files_harness import START_MS, FilesHarness, Worker, record_of

KIB = 1024
EVENTS: dict[str, list[logging.LogRecord]] = {
    "one application": [record_of(number) for number in range(12)],
    "many applications": [record_of(number, fqn=f"svc.flow{number % 5}") for number in range(20)],
    "two days": [record_of(number, time_ms=START_MS + number * 20_000_000) for number in range(9)],
    "more than memory": [record_of(number, "x" * 3000) for number in range(10)],
    "by level": [record_of(number, level=(20, 30, 40)[number % 3]) for number in range(12)],
    "compressed": [record_of(number) for number in range(8)],
}
OPTIONS: dict[str, dict[str, Any]] = {
    "more than memory": {"memory_bytes": 4 * KIB},
    "one application": {"max_bytes": 700},
    "by level": {"path": "{application}/{level}.log"},
    "compressed": {"compress": "gzip"},
}


def lives(site: FilesHarness, events: Sequence[logging.LogRecord], stop: StopAt) -> int:
    """Successive processes, until everything is done."""
    for number in range(1, 6):
        gate = stop if not stop.fired else stop.successor
        store, database = Intercepted(site.store, gate), Intercepted(site.database, gate)
        try:
            worker = Worker(site, site.handler(store, database), database)
            worker.run(events)
            return number
        except (Crash, RunlakeError):
            assert stop.fired
            site.clock.advance(1)
    raise AssertionError("it never ends")


@pytest.mark.behavior("Files of pipelines have each event exactly once after a stop at any call.")
@pytest.mark.sampled(default=25)
@pytest.mark.parametrize(("moment", "how"), FAULTS)
@pytest.mark.parametrize("path", ["rows in the transaction", "rows on stage"])
@pytest.mark.parametrize("size", ["small", "copied"])
@pytest.mark.parametrize("scenario", EVENTS)
def test_each_event_once_wherever_it_stops(
    scenario: str, size: str, path: str, moment: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = EVENTS[scenario]
    if path == "rows on stage":
        monkeypatch.setattr(two_phase_commit, "DIRECT_ROWS", 0)
    if size == "copied":
        monkeypatch.setattr(appendable_object, "COPY_FROM_BYTES", 100)
        monkeypatch.setattr("tests.support.object_store.MIN_PART_BYTES", 100)
    points, expected = 0, Counter(range(len(events)))
    while True:
        site, stop = FilesHarness(options=OPTIONS.get(scenario, {})), StopAt(points, moment, how)
        lives(site, events, stop)
        stop.land()
        assert site.lines() == expected, f"stopped at call {points}: {stop.calls[points - 1 : points + 1]}"
        assert site.store.uploads <= 1
        if not stop.fired:
            break
        points += 1
    print(f"\npoints: {points}")
    assert points > 2


@pytest.mark.parametrize("path", ["rows in the transaction", "rows on stage"])
def test_a_process_that_goes_on_after_an_error(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The flush is repeated without a new process: an outage loses and duplicates nothing."""
    if path == "rows on stage":
        monkeypatch.setattr(two_phase_commit, "DIRECT_ROWS", 0)
    events = EVENTS["many applications"]
    for moment in (BEFORE, AFTER):
        for point in range(60):
            site, stop = FilesHarness(), StopAt(point, moment, "error")
            handler = site.handler(Intercepted(site.store, stop), Intercepted(site.database, lambda _, call: call()))
            worker = Worker(site, handler)
            for event in events:
                handler.handle(event)
            try:
                worker.commit(0, len(events))
            except RunlakeError:
                worker.commit(0, len(events))
            assert site.lines() == Counter(range(len(events)))


def test_a_lost_answer_while_more_files_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows were staged and the response was lost; before the retry one of the files has grown, and another one was begun."""
    monkeypatch.setattr(two_phase_commit, "DIRECT_ROWS", 0)
    for rounds in range(3):
        site = FilesHarness()
        transacted: list[int] = []

        def lossy(operation: str, call: Any, transacted: list[int] = transacted, rounds: int = rounds) -> Any:
            done = call()
            if operation == "transact":
                transacted.append(1)
                if len(transacted) == rounds + 1:
                    raise OutcomeUnknownError("lost")
            return done

        handler = site.handler(database=Intercepted(site.database, lossy))
        for number in range(9):
            handler.handle(record_of(number, fqn=f"svc.flow{number % (number // 3 + 1)}"))
            try:
                writes = handler.pending_writes()
            except OutcomeUnknownError:
                continue
            if number % 2:
                site.database.transact(writes)
                handler.committed()
        site.database.transact(handler.pending_writes())
        assert site.lines() == Counter(range(9))


@pytest.mark.behavior("Two workers never write to one file.")
def test_two_workers_at_once_never_share_a_file() -> None:
    """Both continue the same open file: one extends it, the second begins its own."""
    site = FilesHarness()
    Worker(site, site.handler()).run([record_of(0)])
    first, second = site.handler(), site.handler()
    for handler, numbers in ((first, (1, 2)), (second, (3, 4))):
        for number in numbers:
            handler.handle(record_of(number))
    written = [handler.pending_writes() for handler in (first, second)]
    for handler, writes in zip((first, second), written, strict=True):
        site.database.transact(writes)
        handler.committed()
    assert site.lines() == Counter(range(5))
    assert len(site.rows()) == 2


def test_overtaken_writer_leaves_the_file_unchanged() -> None:
    """An old process resumes after a new one has continued its file: the new one's commit remains."""
    site = FilesHarness()
    old = site.handler()
    old.handle(record_of(0))
    site.database.transact([*old.pending_writes()])
    old.committed()
    new = site.handler()
    new.handle(record_of(1))
    site.database.transact([*new.pending_writes()])
    new.committed()
    old.handle(record_of(2))
    old.pending_writes()  # published, and its commit is rejected by the checkpoint
    assert site.lines() == Counter([0, 1])


@pytest.mark.parametrize("copied", [False, True])
def test_a_file_that_another_extends_in_between_keeps_what_the_other_wrote(copied: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the read of the old bytes and the write of the new ones another worker extends the file, and commits."""
    if copied:
        monkeypatch.setattr(appendable_object, "COPY_FROM_BYTES", 100)
        monkeypatch.setattr("tests.support.object_store.MIN_PART_BYTES", 100)
    site = FilesHarness()
    Worker(site, site.handler()).run([record_of(0)])
    other, came = site.handler(), list[str]()

    def extend_behind_read(operation: str, call: Any) -> Any:
        answer = call()
        if operation == ("copy_part" if copied else "get") and not came:
            came.append(operation)
            other.handle(record_of(1))
            site.database.transact([*other.pending_writes()])
            other.committed()
        return answer

    handler = site.handler(Intercepted(site.store, extend_behind_read))
    handler.handle(record_of(2))
    site.database.transact([*handler.pending_writes()])
    assert came and site.lines() == Counter([0, 1, 2]) and len(site.rows()) == 2


def test_the_fence_is_asked_before_each_publication() -> None:
    asked: list[int] = []
    site = FilesHarness()
    handler = site.handler(fence=lambda: asked.append(site.store.calls["put"]))
    for number in range(3):
        handler.handle(record_of(number, fqn=f"svc.flow{number}"))
    handler.pending_writes()
    assert asked == [0, 1, 2]

"""Every fault at every call of files' ingestion, of the stores, the database and the topic; and throttling for some calls, or for
long.

The queue redelivers unacknowledged messages. Afterwards all tables are as without faults, every file is reported, at most once more
for each stop, and none was reported before a client could find it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from chalicelib.catalog.file_state import file_key
from chalicelib.catalog.timestamps import DAY_MS
from chalicelib.errors import StoreUnavailableError
from chalicelib.ports import Message, Write
from chalicelib.runlog.batch import Batch
from tests.faults.files_model import HOUR_MS, NOON_MS, POOLS, Archived, Gate, InThread, canonical, document, hash_of, id_of, key_of
from tests.faults.interception import AFTER, BEFORE, FAULTS, StopAt
from tests.ingestion_harness import message, s3_record
from tests.world import RUN

Queue = list[list[str]]
"""Batches, in their order."""
Scenario = Callable[[Archived], Queue]
POINTS: Counter[str] = Counter()
ODD = "backups/2026/syslog.gz"


@pytest.fixture(autouse=True)
def _in_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    for pool in POOLS:
        monkeypatch.setattr(pool, InThread)


def one(files: Archived) -> Queue:
    return [[files.file("a")]]


def ten_of_one_source(files: Archived) -> Queue:
    return [[files.file(f"{number}", start=NOON_MS + number * HOUR_MS) for number in (3, 1, 4, 2, 9, 5, 6, 0, 8, 7)]]


def ten_of_ten_sources(files: Archived) -> Queue:
    files.done(files.file("before", where="web3"))
    return [[files.file(f"{number}", where=f"web{number}", work_id="job-1") for number in range(10)]]


def two_whats(files: Archived) -> Queue:
    files.done(files.file("before", start=NOON_MS + HOUR_MS))
    return [[files.file("a", "syslog"), files.file("b", "nginx")]]


def three_days(files: Archived) -> Queue:
    return [[files.file("a", end=NOON_MS + 2 * DAY_MS, work_id="job-1")]]


def the_same_twice(files: Archived) -> Queue:
    body = files.file("a")
    return [[body], [body, files.file("b")]]


def two_in_one_message(files: Archived) -> Queue:
    files.file("a"), files.file("b", start=NOON_MS + 1)
    return [[message(s3_record(key_of("a"), bucket="archive"), s3_record(key_of("b"), bucket="archive"))]]


def other_times(files: Archived) -> Queue:
    files.done(files.file("a", end=NOON_MS + 2 * DAY_MS), files.file("b", start=NOON_MS + HOUR_MS))
    return [[files.file("a", start=NOON_MS + 9 * DAY_MS, end=NOON_MS + 10 * DAY_MS)]]


def thirty_days_of_another_what(files: Archived) -> Queue:
    """As many rows go and come as can."""
    month = {"end": NOON_MS + 29 * DAY_MS, "work_id": "job-1"}
    files.done(files.file("a", **month), files.put(ODD, document("b", "kernel", **month)))
    return [[files.file("a", "nginx", "web2", **month | {"work_id": "job-2"})], [files.put(ODD, document("c", "nginx", **month))]]


def the_latest_steps_back(files: Archived) -> Queue:
    files.done(files.file("a"), files.file("b", start=NOON_MS + HOUR_MS))
    return [[files.file("b", start=NOON_MS - HOUR_MS)]]


def other_what(files: Archived) -> Queue:
    files.done(files.file("a"), files.file("b", start=NOON_MS + HOUR_MS, end=NOON_MS + DAY_MS))
    return [[files.file("b", "nginx", start=NOON_MS + HOUR_MS, end=NOON_MS + DAY_MS)]]


def other_where(files: Archived) -> Queue:
    files.done(files.file("a", where="web2"), files.file("b", start=NOON_MS - HOUR_MS), files.file("c"))
    return [[files.file("c", where="web2")]]


def broken_by_a_rewrite(files: Archived) -> Queue:
    files.done(files.file("a"), files.file("b", start=NOON_MS + HOUR_MS))
    return [[files.put(key_of("b"), {"version": 0})]]


def repaired_by_a_rewrite(files: Archived) -> Queue:
    files.done(files.file("a"), files.put(key_of("b"), None))
    return [[files.file("b", start=NOON_MS + HOUR_MS)]]


def the_latest_is_removed(files: Archived) -> Queue:
    files.done(files.file("a"), files.file("b", start=NOON_MS + HOUR_MS), files.file("c", start=NOON_MS + 2 * HOUR_MS))
    return [[files.remove(key_of("c"))]]


def the_only_one_is_removed(files: Archived) -> Queue:
    files.done(files.file("a", end=NOON_MS + DAY_MS))
    return [[files.remove(key_of("a"))]]


def another_is_removed(files: Archived) -> Queue:
    files.done(files.file("a"), files.file("b", start=NOON_MS + HOUR_MS))
    return [[files.remove(key_of("a"))]]


def the_two_latest_are_removed_and_older_ones_come(files: Archived) -> Queue:
    files.done(*(files.file(name, start=NOON_MS + hour * HOUR_MS) for hour, name in enumerate("abcd")))
    removed = [files.remove(key_of("d")), files.remove(key_of("c"))]
    return [[*removed, files.file("e", start=NOON_MS - HOUR_MS), files.file("f", where="web2")]]


def removed_and_put_again(files: Archived) -> Queue:
    files.done(files.file("a"), files.file("b", start=NOON_MS - HOUR_MS))
    removed = files.remove(key_of("a"))
    return [[files.file("a", start=NOON_MS + HOUR_MS)], [removed]]


def odd_key(files: Archived) -> Queue:
    return [[files.put(ODD, document("a"))]]


def odd_key_becomes_another_file(files: Archived) -> Queue:
    files.done(files.put(ODD, document("a", start=NOON_MS + HOUR_MS)), files.file("c"))
    return [[files.put(ODD, document("b", "nginx"))]]


def odd_key_is_removed(files: Archived) -> Queue:
    files.done(files.put(ODD, document("a", start=NOON_MS + HOUR_MS)), files.file("c"))
    return [[files.remove(ODD)]]


def key_of_another_id(files: Archived) -> Queue:
    files.done(files.file("a"))
    return [[files.put(key_of("a"), document("b"))]]


def a_copy(files: Archived) -> Queue:
    files.done(files.file("a"))
    return [[files.copy(key_of("a"), ODD)]]


def a_copy_with_its_original(files: Archived) -> Queue:
    return [[files.file("a"), files.copy(key_of("a"), ODD)]]


def the_original_of_a_copy_is_removed(files: Archived) -> Queue:
    files.done(files.file("a"), files.copy(key_of("a"), ODD))
    return [[files.remove(key_of("a"))]]


def a_copy_is_rejected(files: Archived) -> Queue:
    files.done(files.file("a"), files.copy(key_of("a"), ODD))
    return [[files.put(ODD, document("a"), b"line\n", announced=1)]]


def a_copy_becomes_others(files: Archived) -> Queue:
    files.done(files.file("a"), files.copy(key_of("a"), ODD))
    first = files.put(ODD, document("b"))
    files.done(first)
    return [[files.put(ODD, document("c", "nginx"))], [files.put(ODD, document("d"))]]


def upload(files: Archived) -> Queue:
    body = b"as announced\n"
    return [[files.put(key_of("a"), document("a", hash=hash_of(body)), body, len(body))]]


def upload_of_other_bytes(files: Archived) -> Queue:
    body = b"as announced\n"
    return [[files.file("b"), files.put(key_of("a"), document("a", hash=hash_of(b"AS ANNOUNCED\n")), body, len(body))]]


def upload_of_another_size(files: Archived) -> Queue:
    body = b"as announced\n"
    return [[files.put(key_of("a"), document("a", hash=hash_of(body)), body, len(body) + 1)]]


def run_log(files: Archived) -> Queue:
    for number in range(2):
        files.world.parts().writer.append(RUN, Batch.from_text(f"line {number}\n", "host-1"))
        files.world.clock.advance(30)
    files.world.parts().finalizer.close(RUN)
    prefix = files.world.layout.run_prefix(RUN)
    files.done(*(message(s3_record(prefix + name)) for name in files.world.names() if name != "logs.txt"))
    return [[message(s3_record(prefix + "logs.txt"))]]


def run_log_expires(files: Archived) -> Queue:
    ((body,),) = run_log(files)
    files.done(body)
    key = files.world.layout.run_prefix(RUN) + "logs.txt"
    files.world.store.delete(key)
    return [[message(s3_record(key, "LifecycleExpiration:Delete"))]]


def everything_at_once(files: Archived) -> Queue:
    files.done(files.file("a"), files.file("b", start=NOON_MS + HOUR_MS), files.put(ODD, document("c", "nginx")))
    removed = files.remove(key_of("b"))
    changed = [
        files.put(ODD, document("d", start=NOON_MS + 2 * HOUR_MS)),
        files.put(key_of("e"), None),
        files.copy(key_of("a"), "copy"),
    ]
    return [[removed, *changed], [files.file("f", start=NOON_MS - HOUR_MS, end=NOON_MS + DAY_MS), removed]]


SCENARIOS: list[Scenario] = [
    one, ten_of_one_source, ten_of_ten_sources, two_whats, three_days, the_same_twice, two_in_one_message, other_times,
    thirty_days_of_another_what, the_latest_steps_back, other_what, other_where, broken_by_a_rewrite, repaired_by_a_rewrite, the_latest_is_removed,
    the_only_one_is_removed, another_is_removed, the_two_latest_are_removed_and_older_ones_come, removed_and_put_again, odd_key,
    odd_key_becomes_another_file, odd_key_is_removed, key_of_another_id, a_copy, a_copy_with_its_original,
    the_original_of_a_copy_is_removed, a_copy_is_rejected, a_copy_becomes_others,
    upload, upload_of_other_bytes, upload_of_another_size, run_log, run_log_expires,
    everything_at_once,
]  # fmt: skip
scenarios = pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)


def undisturbed(scenario: Scenario) -> Archived:
    files = Archived()
    for batch in scenario(files):
        assert files.deliver(batch) == []
    return files


def bring_again(files: Archived, bodies: list[str], gate: Gate | None = None) -> None:
    for body in bodies:
        assert files.deliver([body], gate) == []


def check_as_undisturbed(files: Archived, expected: Archived, scenario: Scenario, again: int) -> None:
    """All tables are the same, and everything was reported, at most ``again`` times more."""
    if scenario is a_copy_with_its_original:
        files.check()  # the file is the one that came last, and that is either
    else:
        assert files.catalog() == expected.catalog()
    got, wanted = files.reported(), expected.reported()
    assert set(got) == set(wanted)
    assert all(wanted[each] <= count <= wanted[each] + again for each, count in got.items()), got


@scenarios
def test_catalog_equals_the_objects_after_any_interleaving(scenario: Scenario) -> None:
    files = undisturbed(scenario)
    if scenario not in (run_log, run_log_expires):
        files.check()


@pytest.mark.behavior("Ingestion that is interrupted at any call is completed by its repeat.")
@pytest.mark.sampled(default=30)
@pytest.mark.parametrize(("moment", "how"), FAULTS)
@scenarios
def test_stop_at_every_call(scenario: Scenario, moment: str, how: str) -> None:
    expected, number = undisturbed(scenario), 0
    while True:
        files, stop, failed = Archived(), StopAt(number, moment, how), []
        for batch in scenario(files):
            failed += files.deliver(batch, stop.successor if stop.fired else stop)
        if not stop.fired:
            break
        bring_again(files, failed, stop.successor)
        stop.land()
        check_as_undisturbed(files, expected, scenario, again=1)
        number += 1
    POINTS["points"] += number
    POINTS["cases"] += 1
    print(f"\ncrash points: {number}, of all so far: {POINTS['points']} in {POINTS['cases']} cases")
    assert number >= (3 if moment in (BEFORE, AFTER) else 1)


class Outage:
    """Some operations answer with errors: ``calls`` times, or until it is over."""

    def __init__(self, operations: tuple[str, ...], calls: int | None) -> None:
        self._operations, self._left = operations, calls

    def end(self) -> None:
        self._left = 0

    def __call__(self, operation: str, call: Callable[[], Any]) -> Any:
        if operation not in self._operations or self._left == 0:
            return call()
        if self._left is not None:
            self._left -= 1
        raise StoreUnavailableError(f"throttled operation={operation}")


DYNAMODB, SNS, S3 = ("get_many", "query", "put_many", "transact"), ("publish",), ("head", "get")
RECEIVES = 5
"""After so many the queue gives a message up to the dead-letter queue."""


@pytest.mark.sampled(default=30)
@pytest.mark.parametrize("calls", [1, 2, 3, 5, 8, 13])
@pytest.mark.parametrize("operations", [DYNAMODB, ("transact",), ("put_many",), SNS, S3], ids=" ".join)
@scenarios
def test_throttled_for_some_calls(scenario: Scenario, operations: tuple[str, ...], calls: int) -> None:
    expected, files, outage = undisturbed(scenario), Archived(), Outage(operations, calls)
    queue, deliveries = scenario(files), 0
    while queue:
        failed = [body for batch in queue for body in files.deliver(batch, outage)]
        queue, deliveries = [failed] if failed else [], deliveries + 1
        assert deliveries <= calls + 2
    check_as_undisturbed(files, expected, scenario, again=0)


@pytest.mark.sampled(default=40)
@pytest.mark.parametrize("operations", [DYNAMODB, ("transact",), SNS, S3], ids=" ".join)
@scenarios
def test_an_outage_that_lasts_longer_than_the_queue_tries(scenario: Scenario, operations: tuple[str, ...]) -> None:
    """Nothing is acknowledged and nothing reported; redriven from the dead-letter queue, everything is as it would have been."""
    expected, files, outage = undisturbed(scenario), Archived(), Outage(operations, None)
    queue = scenario(files)
    before, told = files.catalog(), files.reported()
    for _ in range(RECEIVES):
        left = [files.deliver(batch, outage) for batch in queue]
        done = {body for batch in queue for body in batch} - {body for batch in left for body in batch}
        assert all(_needs_nothing(files, body, operations) for body in done), done
        queue = [batch for batch in left if batch]
    assert not [record for report in files.reports() for record in report["records"] if canonical(record) not in told]
    if operations == DYNAMODB:
        assert files.catalog() == before
    outage.end()
    bring_again(files, [body for batch in queue for body in batch])
    check_as_undisturbed(files, expected, scenario, again=0)


def _needs_nothing(files: Archived, body: str, operations: tuple[str, ...]) -> bool:
    """No report: a removal. No transaction: an object that is no file and was none, or is not the file's object."""
    if operations == SNS:
        return "ObjectRemoved" in body or "LifecycleExpiration" in body
    unlisted = {url for url, record in files.objects().items() if record is None} | {f"s3://archive/{key_of('a')}"}
    return operations == ("transact",) and any(f'"{url.split("/", 3)[3]}"' in body for url in unlisted)


class Unreadable:
    """A store in which one object cannot be looked at."""

    def __init__(self, inner: Any, key: str) -> None:
        self._inner, self._key = inner, key

    def __getattr__(self, operation: str) -> Any:
        return getattr(self._inner, operation)

    def head(self, key: str) -> Any:
        if key == self._key:
            raise StoreUnavailableError(f"throttled key={key}")
        return self._inner.head(key)


class Contended:
    """A database that refuses every transaction with one file's row in it."""

    def __init__(self, inner: Any, name: str) -> None:
        self._inner, self._key = inner, file_key(id_of(name))

    def __getattr__(self, operation: str) -> Any:
        return getattr(self._inner, operation)

    def transact(self, writes: list[Write]) -> None:
        if any(write.key == self._key for write in writes):
            raise StoreUnavailableError(f"throttled key={self._key}")
        self._inner.transact(writes)


class Deaf:
    """A topic that rejects the messages about one file."""

    def __init__(self, inner: Any, name: str) -> None:
        self._inner, self._id = inner, id_of(name)

    def publish(self, messages: list[Message]) -> list[Any]:
        answers: list[Any] = []
        for each in messages:
            is_heard = self._id not in each.body
            answers += self._inner.publish([each]) if is_heard else [StoreUnavailableError("throttled")]
        return answers


@pytest.mark.parametrize("trouble", ["look", "transaction", "report"])
@pytest.mark.parametrize("scenario", [ten_of_one_source, ten_of_ten_sources])
def test_the_neighbours_of_one_that_fails_are_done(scenario: Scenario, trouble: str) -> None:
    expected, files = undisturbed(scenario), Archived()
    ((*batch,),) = scenario(files)

    def port(inner: Any) -> Any:
        if trouble == "look" and inner is files.world.archive_store:
            return Unreadable(inner, key_of("4"))
        if trouble == "transaction" and inner is files.world.database:
            return Contended(inner, "4")
        return Deaf(inner, "4") if trouble == "report" and inner is files.topic else inner

    left = files.ingest(files.ingester(port), batch)
    assert [key_of("4") in body for body in left] == [True]
    assert (id_of("4") in files.listed()) == (trouble == "report")
    assert set(files.listed()) | {id_of("4")} == set(expected.listed())
    wanted = {record for record in expected.reported() if id_of("4") not in record}
    assert set(files.reported()) == wanted
    bring_again(files, left)
    check_as_undisturbed(files, expected, scenario, again=0)


def test_every_kind_of_call_is_among_the_points() -> None:
    files, stop = Archived(), StopAt(-1, BEFORE, "error")
    for batch in [*run_log(files), *the_latest_is_removed(files), *upload(files)]:
        assert files.deliver(batch, stop) == []
    assert {"head", "get", "get_many", "query", "put_many", "transact", "publish"} <= set(stop.calls)

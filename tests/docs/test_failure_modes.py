"""docs/failure-modes.md: each row names tests that exist; and what it claims that no other test shows."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

import pytest

from chalicelib.errors import RunClosedError, StoreUnavailableError, UnavailableError
from chalicelib.ports import Message
from chalicelib.runlog.batch import Batch
from chalicelib.triggers.ingest import ingest
from tests.docs.pages import DOCS, rows, section
from tests.faults.interception import Intercepted
from tests.faults.test_concurrent_writers import finish, stopped_before
from tests.ingestion_harness import ingester_of, message, queued, s3_record
from tests.support.publisher import InMemoryPublisher
from tests.support.run_catalog import InMemoryRunCatalog
from tests.world import RUN, World

PAGE = DOCS / "failure-modes.md"
TABLES = [
    "Requests", "Outages", "Compaction and finalization", "Leases", "Jobs in bulk", "Notifications and files", "Connectors and time",
]  # fmt: skip
TEST = r"`tests/[\w/]+\.py(::\w+)?`"
DAY_S = 86_400


@pytest.mark.parametrize("table", TABLES)
def test_every_row_names_a_test(table: str) -> None:
    found = rows(section(PAGE, table))
    assert len(found) >= 4
    for row in found:
        assert len(row) == 5, row
        assert re.fullmatch(rf"{TEST}(, {TEST})*", row[4]), row


def append(world: World, text: str, position: str | None = None) -> str:
    return world.parts().writer.append(RUN, Batch.from_text(text), position=position).position


def compact(world: World) -> None:
    world.parts().compactor.compact(RUN, world.deadline())


def expire(world: World, *kinds: str) -> None:
    """What the bucket's lifecycle does, to objects whose names begin so."""
    prefix = world.layout.run_prefix(RUN)
    for name in world.names():
        if name.startswith(kinds):
            world.store.delete(prefix + name)


def test_a_log_goes_on_when_its_last_segment_has_expired() -> None:
    world = World()
    position = append(world, "1\n")
    world.clock.advance(30 * DAY_S)
    compact(world)
    expire(world, "segments/")
    assert world.read_all() == ["1"]
    append(world, "2\n", position)
    assert world.read_all() == ["1", "2"]
    world.parts().finalizer.close(RUN)
    assert world.body("logs.txt") == b"1\n2\n"


def test_a_closed_run_stays_closed_when_its_seal_has_expired() -> None:
    world = World()
    append(world, "1\n")
    world.parts().finalizer.close(RUN)
    world.clock.advance(30 * DAY_S)
    expire(world, "segments/")
    with pytest.raises(RunClosedError):
        append(world, "2\n")
    assert world.read_all() == ["1"]


def test_a_run_of_which_nothing_is_left_begins_anew() -> None:
    world = World()
    position = append(world, "1\n")
    world.clock.advance(30 * DAY_S)
    expire(world, "")
    append(world, "2\n", position)
    assert world.read_all() == ["2"]


def test_clocks_that_differ_by_a_hundred_seconds_lose_nothing() -> None:
    """The worst that can come together: who issues and who deletes are ahead of S3, and the writer sleeps as long as S3 lets it."""
    world, ahead = World(), World()
    ahead.store, ahead.index = world.store, world.index
    ahead.clock.advance(100)
    position = append(ahead, "1\n")
    append(world, "2\n")
    append(world, "3\n")
    advance(world, ahead, 159)  # by the writer's clock the position is 59 s old
    actor = stopped_before(world, "put", lambda parts: parts.writer.append(RUN, Batch.from_text("4\n"), position=position))
    for seconds in (60, 870):
        advance(world, ahead, seconds)
        compact(ahead)
    finish(actor)
    assert world.read_all() == ["1", "2", "3", "4"]


def advance(world: World, ahead: World, seconds: int) -> None:
    world.clock.advance(seconds)
    ahead.clock.advance(seconds)


def test_without_the_catalog_an_old_repeat_is_refused_rather_than_stored_twice() -> None:
    world = World()
    before = append(world, "1\n")
    append(world, "2\n", before)
    append(world, "3\n")
    world.clock.advance(21 * 60)
    compact(world)

    def down(operation: str, call: object) -> object:
        raise StoreUnavailableError(operation)

    parts = world.parts(index=Intercepted(world.index, down))  # type: ignore[arg-type]
    with pytest.raises(UnavailableError):
        parts.writer.append(RUN, Batch.from_text("2\n"), position=before)
    with pytest.raises(UnavailableError):
        parts.writer.append(RUN, Batch.from_text("4\n"), idempotency_key="k")
    assert world.read_all() == ["1", "2", "3"]


def test_only_the_message_that_failed_comes_again() -> None:
    world, topic = World(), InMemoryPublisher()
    append(world, "1\n")
    append(world, "2\n")
    prefix = world.layout.run_prefix(RUN) + "segments/"
    whole = ingester_of(world, InMemoryRunCatalog(), topic)

    class Failing(InMemoryPublisher):
        def publish(self, messages: Sequence[Message]) -> list[UnavailableError | None]:
            failed = [prefix + "0000000001" in message.body for message in messages]
            topic.publish([message for message, fails in zip(messages, failed, strict=True) if not fails])
            return [StoreUnavailableError("sns is away") if fails else None for fails in failed]

    failing = ingester_of(world, InMemoryRunCatalog(), Failing())
    event = queued(message(s3_record(prefix + "0000000000")), message(s3_record(prefix + "0000000001")))
    answer = ingest(failing, event, 60_000)
    assert answer == {"batchItemFailures": [{"itemIdentifier": "message-1"}]}
    assert ingest(whole, queued(event["Records"][1]["body"]), 60_000) == {"batchItemFailures": []}
    assert len(topic.messages) == 2


@pytest.mark.parametrize(
    "body",
    ["", "[]", "{}", '{"Records": [{}]}', message(s3_record("pipeline-logs/x.txt")), message(s3_record("k", bucket="other"))],
)
def test_what_cannot_be_understood_is_reported_and_done_with(body: str) -> None:
    topic = InMemoryPublisher()
    assert ingest(ingester_of(World(), InMemoryRunCatalog(), topic), queued(body), 60_000) == {"batchItemFailures": []}
    ((report, attributes),) = topic.messages
    assert (attributes["status"], json.loads(report)["records"]) == ("error", [])
    assert json.loads(report)["message"]

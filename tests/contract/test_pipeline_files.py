"""Pipelines' files on each store and database: in memory, moto, ministack."""

from __future__ import annotations

from collections import Counter

from chalicelib.deadline import Deadline
from chalicelib.pipelines.files.deletion import Deletion
from chalicelib.pipelines.files.generations import Generations
from chalicelib.pipelines.files.handler import RollingS3Handler
from chalicelib.pipelines.files.output_sets import OutputSet
from chalicelib.pipelines.files.reading import FileEventQuery, FileReader
from chalicelib.pipelines.files.repair import Repair
from chalicelib.pipelines.files.rows import FileRow, FileRows
from chalicelib.pipelines.ports import HandlerContext
from chalicelib.ports import Database, ObjectStore
from tests.files_harness import START_MS, record_of
from tests.support.clock import ManualClock


class House:
    """A bucket, a table, and the services on them."""

    def __init__(self, store: ObjectStore, database: Database) -> None:
        self.store, self.database, self.clock = store, database, ManualClock(START_MS)
        self.generations = Generations(database, self.clock)

    def handler(self, **options: object) -> RollingS3Handler:
        made = RollingS3Handler(**({"base": "files", "format": "jsonl", "workers": 2} | options))  # type: ignore[arg-type]
        made.use(HandlerContext(self.store, self.database, self.clock, "test", lambda: None))
        return made

    def commit(self, handler: RollingS3Handler) -> int:
        handler.flush()
        writes = handler.pending_writes()
        if writes:
            self.database.transact(writes)
        handler.committed()
        return len(writes)

    def lines(self, app: str = "flow") -> Counter[int]:
        reading = FileReader(self.store, self.database, Generations(self.database, self.clock), self.warn)
        return Counter(event.line for event in reading.events(FileEventQuery("files", "svc", app)))

    def rows(self) -> list[FileRow]:
        return [row for row in FileRows(self.database).listed("files", "") if isinstance(row, FileRow)]

    def warn(self, what: str, why: str) -> None:
        raise AssertionError(f"left out what={what} why={why}")


def test_a_file_grows_over_processes_small_and_copied(store: ObjectStore, database: Database) -> None:
    house = House(store, database)
    for number, text in enumerate(("small", "small", "x" * 6_000_000, "copied", "copied")):
        handler = house.handler()
        handler.handle(record_of(number, text))
        assert house.commit(handler) == 1
    (row,) = house.rows()
    assert house.lines() == Counter(range(5))
    head = store.head(row.object_key)
    assert (head.size, head.etag) == (row.contents.size, row.contents.etag)


def test_rows_by_the_transaction_and_on_stage(store: ObjectStore, database: Database) -> None:
    house = House(store, database)
    handler = house.handler()
    for number in range(30):
        handler.handle(record_of(number, fqn=f"svc.flow{number}"))
    writes = handler.pending_writes()
    assert len(writes) == 1 and len(house.rows()) == 30 and not house.lines("flow7")
    database.transact(writes)
    handler.committed()
    assert house.lines("flow7") == Counter([7]) and house.lines("flow29") == Counter([29])
    handler.handle(record_of(200, fqn="svc.flow7"))
    assert house.commit(handler) == 1
    assert house.lines("flow7") == Counter([7, 200])


def test_numbers_generations_deletion_and_repair(store: ObjectStore, database: Database) -> None:
    house = House(store, database)
    generation = house.generations.of_run("svc", "svc.flow", "r1", START_MS)
    assert generation == house.generations.of_run("svc", "svc.flow", "r2", START_MS)
    first, second = house.handler(max_bytes=100), house.handler(max_bytes=100)
    for number, handler in enumerate((first, second, first, second)):
        handler.handle(record_of(number, generation=str(generation)))
        house.commit(handler)
    assert sorted(row.sequence for row in house.rows()) == [0, 1, 2, 3] and house.lines() == Counter(range(4))
    store.delete(house.rows()[0].object_key)
    house.clock = ManualClock(2_000_000_000_000)
    repair = Repair(store, database, house.clock)
    base = OutputSet("files", "", 0, 0, 0)
    mended, is_whole = repair.repair_all(base, Deadline(house.clock))
    assert [each.kind for each in mended] == ["row-only"] and is_whole and not list(repair.findings(base))
    generations = Generations(database, house.clock)
    done = Deletion(database, generations, house.clock, lambda _: store).delete("svc", None, Deadline(house.clock))
    assert (done.files, done.is_complete) == (3, True)
    assert house.rows() == [] and store.list("files/").objects == []
    assert generations.of_run("svc", "svc.flow", "r1", START_MS) is None
    house.clock.advance(1)
    again = generations.of_run("svc", "svc.flow", "r3", house.clock.now_ms())
    generations.mark_done(list(generations.dead()))
    generations.end("svc", "svc.flow")
    assert [(each.number, each.generation) for each in generations.deletions(0, 10)] == [(1, generation), (2, again)]
    assert [each.number for each in generations.deletions(1, 10)] == [2]

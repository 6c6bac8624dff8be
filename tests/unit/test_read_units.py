"""A query of the archive reads little more than it returns, in a day of 10 files as in a day of 1,000,000.

DynamoDB bills a strongly consistent Query one read unit for each 4 KB begun of the rows that it reads, and at least one. Each
request is measured here by the in-memory database, which counts the bytes of rows as DynamoDB does. The table that ``make
test-thorough`` prints is the one of decision 0008; ``make test`` has 100,000 files at most.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from chalicelib.catalog.files import FileRecord
from chalicelib.catalog.listing import CLASSES_MS, directory_keys, duration_class, listing_rows
from chalicelib.catalog.metadata import Metadata
from chalicelib.catalog.search import MAX_PAGE, FilePage, FileQuery, Search
from chalicelib.catalog.timestamps import DAY_MS, FIRST_MS, LAST_MS
from chalicelib.ports import Key, Row
from tests.sampling import pick
from tests.support.database import InMemoryDatabase, _Partition, row_bytes

SIZES = (10, 10_000, pick(20_000, 50_000, 1_000_000))
"""Files of one ``what`` in one day."""
BEGIN_MS = 20_717 * DAY_MS
"""The day."""
NOON_MS = BEGIN_MS + DAY_MS // 2
MINUTE_MS = 60_000
HALF_HOUR_MS = 32 * MINUTE_MS
"""The shortest period of an index."""
READ_UNIT_BYTES = 4096
WHATS = ("syslog", "nginx-access", "auth")
"""The first has the files; the others one for each hundred of it, so that their indexes are merged with it."""
WHERES = 200
DURATIONS_MS = (0, 50_000, 300_000)
"""Instants, files of about a minute, and of five: nearly the shortest of their class, whose longest last sixteen."""


class Metered(InMemoryDatabase):
    """Keeps the read units of each query."""

    def __init__(self) -> None:
        super().__init__()
        self.units: list[int] = []

    def fill(self, key: Key, row: Row) -> None:
        """Write a row, as ``put_many`` does, and measure nothing: three million are written."""
        self._tables[key.table].setdefault(key.partition, _Partition()).put(key.sort, row)

    def query(
        self,
        table: str,
        partition: str,
        first: str | None,
        last: str | None,
        *,
        limit: int,
        newest_first: bool = False,
        only: str | None = None,
    ) -> tuple[Sequence[Row], bool]:
        """Full rows are billed, even if the query returns only one attribute."""
        rows, more = super().query(table, partition, first, last, limit=limit, newest_first=newest_first)
        self.units.append(max(1, -(-sum(map(row_bytes, rows)) // READ_UNIT_BYTES)))
        return rows, more


@dataclass(frozen=True, slots=True)
class Cheap:
    """A record that is made a million times: its text is at hand, its metadata is never checked."""

    id: str
    metadata: Metadata
    document: str

    @property
    def source(self) -> tuple[str, str]:
        return self.metadata.what, self.metadata.where

    @property
    def duration_ms(self) -> int:
        return self.metadata.last_ms - self.metadata.start

    def text(self) -> str:
        return self.document


_HASH = "0123456789abcdef0123456789abcdef"
_TEXT = (
    '{{"url":"s3://archive/{id}/data","size":48213,"create_time":{last},"metadata":{{"version":0,"start":{start},"end":{last},'
    '"path":"/var/log/syslog.1","work_id":null,"where":"{where}","what":"{what}","id":"{id}","hash":"' + _HASH + '"}}}}'
)
"""As ``FileRecord.text`` writes it."""


def records(count: int) -> Iterator[Cheap]:
    """Files of the day with starts spread over it, and the files of the other names of the query."""
    shared: dict[str, Any] = {"version": 0, "path": "/var/log/syslog.1", "work_id": None, "hash": _HASH}
    for number in range(count):
        for what in WHATS if number % 100 == 0 else WHATS[:1]:
            start = BEGIN_MS + number * DAY_MS // count
            last = start + DURATIONS_MS[number % 3]
            file_id = f"{(number * 0x9E3779B97F4A7C15 + len(what)) % 2**64:032x}"
            # The hosts take turns in steps of seven, which is prime to the durations' three: every host has files of each.
            names: dict[str, Any] = {"what": what, "where": f"web-{number // 7 % WHERES}"}
            metadata = Metadata.model_construct(None, start=start, end=last, id=file_id, **shared, **names)
            yield Cheap(file_id, metadata, _TEXT.format(start=start, last=last, id=file_id, **names))


def filled(count: int) -> Metered:
    """A database with the listing of so many files."""
    database = Metered()
    known: set[Any] = set()
    gc.disable()  # nothing of this is garbage
    for record in records(count):
        made: Any = record
        for key, row in listing_rows(made).items():
            database.fill(key, row)
        # What the directory says of a file is the same for all of its source, class and half an hour.
        kind = (*record.source, record.duration_ms, record.metadata.start // HALF_HOUR_MS, record.metadata.last_ms // HALF_HOUR_MS)
        if kind not in known:
            known.add(kind)
            for key in directory_keys(made):
                database.fill(key, {"partition": key.partition, "at": key.sort})
    gc.enable()
    return database


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one page."""

    name: str
    files: int
    requests: int
    rows: int
    bytes: int
    units: int

    def line(self, count: int) -> str:
        """A row of the table."""
        return f"| {count:>9,} | {self.name:<40} | {self.files:>5} | {self.requests:>8} | {self.rows:>5} | {self.bytes:>9,} | {self.units:>5} |"


HEAD = (
    "| in a day  | page                                     | files | requests | rows  | bytes     | units |\n"
    "|----------:|------------------------------------------|------:|---------:|------:|----------:|------:|"
)


def measured(database: Metered, name: str, query: FileQuery) -> tuple[Cost, FilePage]:
    """One page, read by a process that has read nothing before."""
    database.calls.clear()
    database.units.clear()
    database.read_rows = database.read_bytes = 0
    page = Search(database).page(query)
    assert database.calls["get_many"] == 0
    found = Cost(name, len(page.documents), database.calls["query"], database.read_rows, database.read_bytes, sum(database.units))
    return found, page


def ended_before(count: int) -> int:
    """Files that began within the longest duration of their class before a moment, and were over by then."""
    unused_ms = sum(CLASSES_MS[duration_class(duration_ms)] - duration_ms for duration_ms in DURATIONS_MS)
    return 2 * count * unused_ms // len(DURATIONS_MS) // DAY_MS  # pieces that hold none of the answer become larger: at most twice


DAY = FileQuery(("syslog",), start_ms=BEGIN_MS, end_ms=BEGIN_MS + DAY_MS - 1)


def costs(database: Metered) -> Iterator[tuple[Cost, FilePage]]:
    """Pages of all kinds."""
    first, page = measured(database, "first of a day", DAY)
    yield first, page
    # Any place can be gone on from: what the cursor of the page in the middle says.
    yield measured(database, "in the middle of a day, by cursor", replace(DAY, after=(NOON_MS, "")))
    yield measured(database, "one minute at noon", replace(DAY, start_ms=NOON_MS, end_ms=NOON_MS + MINUTE_MS - 1))
    yield measured(database, "one moment at noon", replace(DAY, start_ms=NOON_MS, end_ms=NOON_MS))
    yield measured(database, "from noon on", replace(DAY, start_ms=NOON_MS))
    yield measured(database, "newest first", replace(DAY, newest_first=True))
    yield measured(database, "newest first, from the middle", replace(DAY, newest_first=True, after=(NOON_MS, "")))
    yield measured(database, "one where", replace(DAY, where="web-1"))
    yield measured(
        database, "one where, newest first, by cursor", replace(DAY, where="web-1", newest_first=True, after=(NOON_MS, ""))
    )
    yield measured(database, "three whats", replace(DAY, whats=WHATS))
    yield measured(
        database, "all whats, one minute at noon", replace(DAY, whats=("*",), start_ms=NOON_MS, end_ms=NOON_MS + MINUTE_MS - 1)
    )
    yield measured(database, "all time, oldest first", FileQuery(("syslog",), start_ms=FIRST_MS, end_ms=LAST_MS))
    yield measured(database, "all time, newest first", FileQuery(("syslog",), newest_first=True))
    yield measured(
        database, "ten empty years before", replace(DAY, start_ms=BEGIN_MS - 3650 * DAY_MS, end_ms=BEGIN_MS - 2 * DAY_MS)
    )


@pytest.mark.sampled(default=1)
@pytest.mark.slow
@pytest.mark.parametrize("count", SIZES)
def test_page_reads_little_more_than_it_returns_for_any_number_of_files(count: int) -> None:
    database = filled(count)
    gc.collect()
    found = list(costs(database))
    print("\n" + HEAD)
    for cost, _ in found:
        print(cost.line(count))
    indexes = len(DURATIONS_MS) * len(WHATS)
    for cost, page in found:
        assert len(page.documents) <= MAX_PAGE
        # The rows read ahead in each index are less than another page, for any day; and at an interval's beginning the rows that may
        # still have gone on then, and had not.
        assert cost.rows <= 3 * MAX_PAGE + 10 * indexes + 60 + (ended_before(count) if "noon" in cost.name else 0), cost
        assert cost.requests <= 8 * indexes, cost
        assert cost.units <= cost.requests + cost.bytes // READ_UNIT_BYTES, cost
    del database
    gc.collect()


def test_the_measured_text_is_what_the_catalog_writes() -> None:
    """Else other bytes would be measured than are billed."""
    for record in records(300):
        written = FileRecord(
            f"s3://archive/{record.id}/data", 48213, record.metadata.last_ms, Metadata.model_validate(record.metadata.document())
        )
        assert record.text() == written.text()
        made: Any = record
        assert listing_rows(made) == listing_rows(written) and list(directory_keys(made)) == list(directory_keys(written))

"""``python -m docs.units``: count the request units of decision 0009 again and write its tables. Takes a minute, for a day of a
million files.

Rows are counted in memory as DynamoDB bills them (``Billed``). A test compares the writes, and the days of 10 and 10,000 files.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from math import ceil
from pathlib import Path
from typing import Any

from chalicelib.catalog.files import FILES, FileRecord
from chalicelib.catalog.latest import LatestFiles
from chalicelib.catalog.listing import directory_keys, listing_rows
from chalicelib.catalog.metadata import Metadata
from chalicelib.catalog.registration import Description, FileCatalogWriter, ObjectRef
from chalicelib.catalog.search import FileQuery, Search
from chalicelib.catalog.timestamps import DAY_MS
from chalicelib.ports import Check, Key, Put, Row, Write
from tests.support.clock import ManualClock
from tests.support.database import InMemoryDatabase, row_bytes

(PAGE,) = Path(__file__).parent.glob("decisions/0009-*.md")
COUNTS = (10, 10_000, 1_000_000)
WRITTEN_BYTES, READ_BYTES = 1024, 4096
_DAY = 20_717 * DAY_MS
_NOON = _DAY + DAY_MS // 2
_MINUTE_MS, _HOUR_MS = 60_000, 3_600_000
_BLOCK = r"(<!-- measured: {} -->\n)(.*?)(<!-- measured: end -->)"


class Billed(InMemoryDatabase):
    """Counts units: 1 KB written, twice in a transaction; 4 KB read consistently; an index entry for each row of ``files``."""

    def __init__(self) -> None:
        super().__init__()
        self.reset()

    def reset(self) -> None:
        """Count from 0."""
        self.batched = self.transacted = self.indexed = self.changes = self.read = self.requests = 0

    @property
    def written(self) -> int:
        """Units of all kinds of writes."""
        return self.batched + self.transacted + self.indexed

    def get_many(self, keys: Sequence[Key]) -> Any:
        """See the port."""
        found = super().get_many(keys)
        self.read += sum(ceil(row_bytes(found.get(key, {})) / READ_BYTES) or 1 for key in keys)
        self.requests += 1
        return found

    def query(self, *arguments: Any, **options: Any) -> Any:
        """See the port. Rows are billed in full, also with a projection."""
        options.pop("only", None)
        found, more = super().query(*arguments, **options)
        self.read += ceil(sum(map(row_bytes, found)) / READ_BYTES) or 1
        self.requests += 1
        return found, more

    def put_many(self, rows: Sequence[Put]) -> None:
        """See the port."""
        self.batched += sum(ceil(row_bytes(put.row) / WRITTEN_BYTES) for put in rows)
        super().put_many(rows)

    def transact(self, writes: Sequence[Write]) -> None:
        """See the port."""
        for write in writes:
            there: Row = self._row(write.key) or {}
            new: Row = write.row if isinstance(write, Put) else {}
            units = ceil(max(row_bytes(there), row_bytes(new)) / WRITTEN_BYTES) or 1
            self.transacted += 2 * units
            self.indexed += units if write.key.table == FILES and not isinstance(write, Check) else 0
        self.changes += len(writes)
        super().transact(writes)


class _Catalog:
    """A catalog over ``Billed``."""

    def __init__(self) -> None:
        self.database = Billed()
        self.search = Search(self.database)
        self.latest = LatestFiles(self.database, self.search)
        self._registration = FileCatalogWriter(self.database, self.latest, ManualClock(_DAY + DAY_MS))

    def bring(self, *records: FileRecord, gone: bool = False) -> list[int]:
        """Apply arriving or deleted files. Returns units of the directory, rows and units of transactions, units of the index,
        units read."""
        self.database.reset()
        found = {ObjectRef("runlake-archive", f"{record.id}/data", record.id): record for record in records}
        described = {subject: Description() if gone else Description(record) for subject, record in found.items()}
        outcomes = self._registration.update(list(found), described.__getitem__)
        assert not any(outcome.error for outcome in outcomes.values()), outcomes
        billed = self.database
        return [billed.batched, billed.changes, billed.transacted, billed.indexed, billed.read]


def _file(number: int, start_ms: int, lasts_ms: int, where: str = "webserver02", work_id: str | None = None) -> FileRecord:
    """The datalake's own example at another time."""
    file_id = f"{number * 2_654_435_761:032x}"
    metadata = Metadata.model_construct(
        version=0, start=start_ms, end=start_ms + lasts_ms, path="/var/log/syslog.1", work_id=work_id, where=where, what="syslog",
        id=file_id, hash="a3e75ee4f45f676422e038f2c116d000",
    )  # fmt: skip
    return FileRecord(f"s3://runlake-archive/{file_id}/data", 7_892_341, start_ms + lasts_ms + 1000, metadata)


def writes() -> str:
    """The table of writes."""
    rows: list[tuple[Any, ...]] = [
        ("a file of an hour, first of its source", *_after([], _file(1, _DAY + _HOUR_MS, _HOUR_MS))),
        ("**the next ones**", *_after([_HOUR_MS], _file(2, _DAY + 2 * _HOUR_MS, _HOUR_MS))),
        ("with a work id", *_after([_HOUR_MS], _file(2, _DAY + 2 * _HOUR_MS, _HOUR_MS, work_id="etl-7"), work_id="etl-7")),
        ("on three days", *_after([2 * DAY_MS], _file(2, _DAY + 2 * _HOUR_MS, 2 * DAY_MS))),
        ("ten of a source at once", *_after([_HOUR_MS], *(_file(9 + n, _DAY + 2 * _HOUR_MS + n, _HOUR_MS) for n in range(10)))),
        ("the same notification again", *_after([_HOUR_MS], _file(1, _DAY + _HOUR_MS, _HOUR_MS))),
        ("the latest is deleted, the one before put in its place", *_after([_HOUR_MS, _HOUR_MS], _file(2, _DAY + _HOUR_MS + 1, _HOUR_MS), gone=True)),
    ]  # fmt: skip
    head = "| write | directory | transactions | `work-id-index` | units | read for it |\n|---|---|---|---|---|---|"
    lines = (f"| {name} | {batched} | {rows} rows, {units} | {index} | {batched + units + index} | {read} |"
             for name, batched, rows, units, index, read in rows)  # fmt: skip
    return "\n".join([head, *lines])


def _after(before: Sequence[int], *records: FileRecord, gone: bool = False, work_id: str | None = None) -> list[int]:
    """Cost of files in a catalog that already has others of this duration."""
    catalog = _Catalog()
    for number, lasts_ms in enumerate(before, 1):
        catalog.bring(_file(number, _DAY + _HOUR_MS + number // 2, lasts_ms, work_id=work_id))
    return catalog.bring(*records, gone=gone)


def reads(count: int) -> dict[str, str]:
    """Units and requests of each query over a day of this many files of one ``what``."""
    catalog, rows_bytes = _filled(count), row_bytes(next(iter(_file(1, _DAY, _MINUTE_MS, "web-000").file_rows().values())))
    day: dict[str, Any] = {"start_ms": _DAY, "end_ms": _DAY + DAY_MS - 1}
    ten_minutes = {"start_ms": _NOON, "end_ms": _NOON + 10 * _MINUTE_MS}
    first = catalog.search.page(FileQuery(("syslog",), **day))
    return {
        "first page of the day": _cost(catalog, **day),
        "its next page": _cost(catalog, after=first.after, **day) if first.after else "",
        "first page, newest first": _cost(catalog, newest_first=True, **day),
        "first page of the day from one place": _cost(catalog, where="web-000", **day),
        "first page of ten minutes at noon": _cost(catalog, **ten_minutes),
        "all of these ten minutes": _read_all_pages(catalog, **ten_minutes),
        "ten minutes from one place": _cost(catalog, where="web-000", **ten_minutes),
        "ten empty years": _cost(catalog, start_ms=_DAY - 3650 * DAY_MS, end_ms=_DAY - DAY_MS - 1),
        "`latest`": _counted(catalog, lambda: catalog.latest.find("syslog", "web-000", _DAY + DAY_MS)),
        "**the datalake's**: any of that day": f"{ceil(rows_bytes * count / READ_BYTES) / 2:,.10g}, {ceil(rows_bytes * count / 2**20):,}",
    }


def _filled(count: int) -> _Catalog:
    """Five-minute files spread evenly over the day, from up to a hundred places; the latest file of one of them."""
    catalog, places = _Catalog(), min(100, max(1, count // 10))
    keys: set[Key] = set()
    for number in range(count):
        record = _file(number + 1, _DAY + number * DAY_MS // count, 5 * _MINUTE_MS, f"web-{number % places:03d}")
        for key, row in listing_rows(record).items():
            catalog.database._apply(Put(key, row))
        keys.update(directory_keys(record))
    catalog.database.put_many([Put(key, {"partition": key.partition, "at": key.sort}) for key in keys])
    last = (count - 1) // places * places
    newest = _file(last + 1, _DAY + last * DAY_MS // count, 5 * _MINUTE_MS, "web-000")
    catalog.bring(newest)  # written again, as the latest of its place
    return catalog


def _cost(catalog: _Catalog, **query: Any) -> str:
    return _counted(catalog, lambda: catalog.search.page(FileQuery(("syslog",), **query)))


def _counted(catalog: _Catalog, ask: Callable[[], object]) -> str:
    catalog.database.reset()
    ask()
    return f"{catalog.database.read:,}, {catalog.database.requests}"


def _read_all_pages(catalog: _Catalog, **query: Any) -> str:
    """Reads all pages of a query."""
    catalog.database.reset()
    pages, files, after = 0, 0, None
    while pages == 0 or after:
        page = catalog.search.page(FileQuery(("syslog",), after=after, **query))
        pages, files, after = pages + 1, files + len(page.documents), page.after
    return f"{files:,} files, {pages} pages, {catalog.database.read:,} units"


def table(columns: Sequence[dict[str, str]]) -> str:
    """The table of queries, one column for each day."""
    head = f"| files in the day | {' | '.join(f'{count:,}' for count in COUNTS)} |\n|---|{'---|' * len(COUNTS)}"
    return "\n".join([head, *(f"| {name} | {' | '.join(column[name] for column in columns)} |" for name in columns[0])])


def render(name: str) -> str:
    """A table as it is in the page."""
    found = re.search(_BLOCK.format(name), PAGE.read_text(), re.DOTALL)
    assert found, name
    return found[2].rstrip("\n")


def main() -> int:
    """Write both tables."""
    text = PAGE.read_text()
    for name, content in (("writes", writes()), ("reads", table([reads(count) for count in COUNTS]))):
        text = re.sub(_BLOCK.format(name), lambda block: f"{block[1]}{content}\n{block[3]}", text, flags=re.DOTALL)  # noqa: B023
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())

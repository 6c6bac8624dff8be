"""Files to register, and the plain list that the catalog is compared with.

``Bucket`` has the objects, ``Model`` the files that the catalog should have for them. The model uses no tables, index lanes or
days.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from chalicelib.catalog.files import FileRecord
from chalicelib.catalog.metadata import Metadata
from chalicelib.catalog.registration import Description, ObjectRef
from chalicelib.catalog.search import FilePage, FileQuery, Search

BUCKET = "archive"
NOW_MS = 1_790_000_000_000
MINUTE_MS = 60_000
DAY_MS = 86_400_000
MAX_DURATION_MS = 29 * DAY_MS
"""Within 30 calendar days for any start in a day."""


CHOSEN_IDS = {4: "~", 5: "foo", 6: "foo ", 7: "foo~", 8: "é/\ue000", 9: "\ud7ff\uffff", 10: "..", 11: "\U0010ffff" * 128}
"""Ids that no client makes by itself; two have no key of their own."""


def file_id(number: int) -> str:
    """An id whose order is not that of the numbers: 32 hex digits, of a few numbers another."""
    return CHOSEN_IDS.get(number) or f"{number * 0x9E3779B97F4A7C15F39CC0605CEDC835 % 2**128:032x}"


def data_key(number: int) -> str:
    """The key that contains the id, as far as S3 has it."""
    return f"{file_id(number)}/data" if file_id(number) != ".." else "dots/data"


def subject(key: str) -> ObjectRef:
    """As ``object_ref`` makes it."""
    return ObjectRef(BUCKET, key, key.removesuffix("/data") if key.endswith("/data") and key.count("/") == 1 else None)


def metadata(number: int, start_ms: int, duration_ms: int | None = None, **other: Any) -> Metadata:
    """A document; ``duration_ms`` None: an instant without an end."""
    document: dict[str, Any] = {
        "version": 0,
        "start": start_ms,
        "end": None if duration_ms is None else start_ms + duration_ms,
        "path": "/var/log/x",
        "work_id": None,
        "where": "web-1",
        "what": "syslog",
        "id": file_id(number),
        "hash": "0" * 32,
    }
    return Metadata.model_validate(document | other)


@dataclass(frozen=True, slots=True)
class Content:
    """Content of an object: a file, or (``refused``) an invalid one."""

    metadata: Metadata
    size: int = 5
    created_ms: int = NOW_MS
    refused: bool = False


@dataclass
class Bucket:
    """Objects by key. ``looks``: number of reads."""

    objects: dict[str, Content] = field(default_factory=dict)
    looks: int = 0

    def describe(self, of: ObjectRef) -> Description:
        """What an object is now."""
        self.looks += 1
        content = self.objects.get(of.key)
        if content is None:
            return Description()
        if content.refused:
            return Description(problem="not what was announced", rejected_id=content.metadata.id)
        return Description(self.record(of.key))

    def record(self, key: str) -> FileRecord:
        """Record of an object."""
        content = self.objects[key]
        return FileRecord(f"s3://{BUCKET}/{key}", content.size, content.created_ms, content.metadata)


def has_no_original(own: str, keys: Sequence[str]) -> bool:
    """Whether no object has the key that follows from the id."""
    return f"{own}/data" not in keys or "/" in own or own == ".."


@dataclass
class Model:
    """The expected catalog: each file with its object. ``copied``: files that have been several objects; the catalog knows only the
    last one read, and derives the original from its key."""

    files: dict[str, FileRecord] = field(default_factory=dict)
    copied: set[str] = field(default_factory=set)
    keys: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def tell(self, bucket: Bucket, find: Callable[[str], str | None]) -> None:
        """Apply reads of all changed objects. Of several valid objects of one file any may be chosen, so ``find`` (the key of an
        id's object in the catalog) decides, and must return one of them, or nothing if the original is missing."""
        objects: dict[str, list[str]] = defaultdict(list)
        for key, content in bucket.objects.items():
            self.keys[content.metadata.id].add(key)
            if not content.refused:
                objects[content.metadata.id].append(key)
        self.copied |= {each for each, keys in self.keys.items() if len(keys) > 1}
        self.files = {}
        for own, keys in objects.items():
            key = keys[0] if len(keys) == 1 and own not in self.copied else find(own)
            assert key in keys or (key is None and own in self.copied and has_no_original(own, keys)), (own, key, keys)
            if key:
                self.files[own] = bucket.record(key)

    def records(self) -> list[FileRecord]:
        """Every file that is listed."""
        return list(self.files.values())

    def answer(self, query: FileQuery) -> list[dict[str, Any]]:
        """All documents that a query should find, in order."""
        found = [record for record in self.records() if _is_asked_for(record.metadata, query)]
        found.sort(key=lambda record: (record.metadata.start, record.id), reverse=query.newest_first)
        return [record.document() for record in found]

    def greatest_age(self, source: tuple[str, str], before_ms: int) -> tuple[int, int] | None:
        """(start, create_time) of the latest file of a source that begins up to a time."""
        ages = [r.age for r in self.records() if (r.metadata.what, r.metadata.where) == source and r.metadata.start <= before_ms]
        return max(ages, default=None)

    def day_rows(self) -> list[dict[str, Any]]:
        """The rows of table ``files``, as the datalake's own table has them."""
        return [row for record in self.records() for row in _day_rows(record)]


def _is_asked_for(of: Metadata, query: FileQuery) -> bool:
    end_ms = of.start if of.end is None else of.end
    return (
        any(_is_named(of.what, what) for what in query.whats)
        and (query.where is None or _is_named(of.where, query.where))
        and (query.work_id is None or of.work_id == query.work_id)
        and of.start <= query.end_ms
        and end_ms >= query.start_ms
    )


def _is_named(name: str, pattern: str) -> bool:
    """A star matches any letters, all other characters match themselves."""
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), name) is not None


def _day_rows(record: FileRecord) -> list[dict[str, Any]]:
    of = record.metadata
    work = of.work_id if of.work_id is not None else f"null{of.id}"
    last_ms = of.start if of.end is None else of.end
    return [
        {
            "version": 0,
            "url": record.url,
            "time_index_key": f"{day}:{of.what}",
            "work_id_index_key": f"{work}:{of.what}",
            "range_key": f"{of.where}:{of.id}",
            "create_time": record.create_time,
            "size": record.size,
            "metadata": of.document(),
        }
        for day in range(of.start // DAY_MS, last_ms // DAY_MS + 1)
    ]


def all_pages(search: Search, query: FileQuery, limits: Sequence[int]) -> list[FilePage]:
    """Every page of a query; ``limits`` take turns."""
    pages: list[FilePage] = []
    after: tuple[int, str] | None = None
    while not pages or after:
        page = search.page(replace(query, after=after), limits[len(pages) % len(limits)])
        pages.append(page)
        after = page.after
    return pages

"""Files of the archive for tests of faults: objects and their notifications, the ingester over them, and a plain model of the catalog.

The model knows nothing of how the catalog is written: it reads the objects themselves, and says which files, which rows of the
datalake's tables and which latest files there must be.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from hashlib import blake2b
from typing import Any, Self

from chalicelib.archive.objects import ANNOUNCED_BYTES
from chalicelib.catalog.file_ids import data_key
from chalicelib.catalog.file_state import OBJECTS
from chalicelib.catalog.files import FILES, LATEST, FileRecord
from chalicelib.catalog.listing import LISTING, listing_rows
from chalicelib.catalog.metadata import NAME
from chalicelib.catalog.search import FileQuery, Search
from chalicelib.catalog.timestamps import DAY_MS
from chalicelib.deadline import Deadline
from chalicelib.errors import UnavailableError
from chalicelib.ingestion.ingester import Ingester
from chalicelib.ports import Message, Publisher, PutOptions, Write
from tests.faults.interception import Crash, Intercepted
from tests.ingestion_harness import ARCHIVE, BUCKET, ingester_of, message, s3_record
from tests.support.publisher import InMemoryPublisher
from tests.support.run_catalog import InMemoryRunCatalog
from tests.world import START_MS, World

Gate = Callable[[str, Callable[[], Any]], Any]
Document = dict[str, Any]
NOON_MS = START_MS // DAY_MS * DAY_MS + DAY_MS // 2
HOUR_MS = 3_600_000


class InThread:
    """A pool that does everything at once in the caller's thread: the order of calls is the same every time, and each can be chosen."""

    def __init__(self, threads: int) -> None:
        assert threads

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def map(self, call: Callable[..., Any], *arguments: Iterable[Any]) -> Iterator[Any]:
        return map(call, *arguments)


POOLS = ("chalicelib.catalog.registration.ThreadPoolExecutor", "chalicelib.catalog.search.ThreadPoolExecutor")
"""What a test replaces by ``InThread``."""


def id_of(name: str) -> str:
    """32 hex digits for a short name."""
    return hash_of(name.encode())


def hash_of(body: bytes) -> str:
    return blake2b(body, digest_size=16).hexdigest()


def key_of(name: str) -> str:
    """The key of a file as the datalake's client makes it."""
    return data_key(id_of(name))


def document(name: str, what: str = "syslog", where: str = "web1", start: int = NOON_MS, **others: Any) -> Document:
    """A valid metadata document; ``name`` gives the id."""
    given = {"version": 0, "start": start, "end": None, "path": f"/var/log/{what}", "work_id": None, "where": where, "what": what}
    return given | {"id": id_of(name), "hash": "0" * 32} | others


class TableWatch:
    """Every document that was ever committed to table ``objects``, which all rows of a file are written together with."""

    def __init__(self, world: World) -> None:
        self.documents: set[str] = set()
        transact = world.database.transact

        def watched(writes: Sequence[Write]) -> None:
            transact(writes)
            rows = [getattr(write, "row", {}) for write in writes if write.key.table == OBJECTS]
            self.documents |= {canonical(json.loads(row["document"])) for row in rows if "document" in row}

        world.database.transact = watched  # type: ignore[method-assign]


class CheckedTopic:
    """A topic, and a look at every record on its way there, before it is known whether it gets there."""

    def __init__(self, inner: Publisher, check: Callable[[Document], None]) -> None:
        self._inner, self._check = inner, check

    def publish(self, messages: Sequence[Message]) -> Sequence[UnavailableError | None]:
        for each in messages:
            for record in json.loads(each.body)["records"]:
                self._check(record)
        return self._inner.publish(messages)


class Archived:
    """A world with objects in the archive's bucket, and ingesters over it."""

    def __init__(self) -> None:
        self.world = World()
        self.runs, self.topic = InMemoryRunCatalog(), InMemoryPublisher()
        self.watch = TableWatch(self.world)

    # Objects: each change returns its notification.

    def put(
        self, key: str, metadata: Document | None, body: bytes = b"line\n", announced: int | None = None, *, seconds: float = 1
    ) -> str:
        """Store an object, a second later than the one before: S3's times are whole seconds."""
        self.world.clock.advance(seconds)
        named = {NAME: json.dumps(metadata)} if metadata is not None else {}
        promised = {ANNOUNCED_BYTES: str(announced)} if announced is not None else {}
        self.world.archive_store.put(key, body, PutOptions(named | promised))
        return message(s3_record(key, bucket=ARCHIVE))

    def file(self, name: str, what: str = "syslog", where: str = "web1", start: int = NOON_MS, **others: Any) -> str:
        """Store a file where the datalake's client puts it."""
        return self.put(key_of(name), document(name, what, where, start, **others))

    def copy(self, source: str, target: str) -> str:
        """As S3 copies: the metadata goes along."""
        self.world.clock.advance(1)
        found = self.world.archive_store.get(source)
        self.world.archive_store.put(target, found.body, PutOptions(found.info.metadata))
        return message(s3_record(target, "ObjectCreated:Copy", ARCHIVE))

    def remove(self, key: str) -> str:
        self.world.clock.advance(1)
        self.world.archive_store.delete(key)
        return message(s3_record(key, "ObjectRemoved:Delete", ARCHIVE))

    # Ingestion.

    def ingester(
        self, port: Callable[[Any], Any] = lambda inner: inner, check: Callable[[Document], None] | None = None
    ) -> Ingester:
        """A process. ``port`` wraps each of its ports; ``check`` looks at each record that is about to be reported."""

        def wrapped(inner: Any) -> Any:
            return CheckedTopic(port(inner), check or self.check_listed) if inner is self.topic else port(inner)

        return ingester_of(self.world, self.runs, self.topic, port=wrapped)

    def ingest(self, ingester: Ingester, bodies: Sequence[str]) -> list[str]:
        """One batch; the answer is what the queue brings again."""
        try:
            results = ingester.ingest(bodies, Deadline(self.world.clock))
        except Crash:
            return list(bodies)
        return [body for body, result in zip(bodies, results, strict=True) if isinstance(result, UnavailableError)]

    def deliver(self, bodies: Sequence[str], gate: Gate | None = None) -> list[str]:
        """One batch to a process of its own, which ``gate`` may stop; the answer is what the queue brings again."""
        return self.ingest(self.ingester(lambda inner: Intercepted(inner, gate) if gate else inner), bodies)

    def done(self, *bodies: str) -> None:
        """Ingest messages without faults, one after the other."""
        for body in bodies:
            assert self.deliver([body]) == []

    # What there is.

    def catalog(self) -> dict[str, Any]:
        """All tables, without revisions, exact expiry times of deleted files, and state that a later update repeats."""
        rows = self.world.database.rows
        return {
            "objects": {row["key"]: _comparable(row) for row in rows(OBJECTS)},
            "files": {(row["time_index_key"], row["range_key"]): row for row in rows(FILES)},
            "listing": {(row["partition"], row["at"]): row for row in rows(LISTING)},
            "latest": {row["what_where_key"]: row for row in rows(LATEST)},
        }

    def reports(self) -> list[Document]:
        return [json.loads(text) for text, _ in self.topic.messages]

    def reported(self) -> Counter[str]:
        """How often each record was reported, and each problem."""
        reports = self.reports()
        records = Counter(canonical(record) for report in reports for record in report["records"])
        return records + Counter(report["message"] for report in reports if "message" in report)

    def listed(self) -> dict[str, Document]:
        """What a search for everything answers, by id."""
        found = self._searched(FileQuery(("*",)))
        by_id = {each["metadata"]["id"]: each for each in found}
        assert len(by_id) == len(found), "a file is listed twice"
        return by_id

    def latest(self, what: str = "syslog", where: str = "web1") -> str | None:
        """Whose row table ``latest`` holds for a source: the file's id."""
        row = self.catalog()["latest"].get(f"{what}:{where}")
        return row["metadata"]["id"] if row else None

    # What must be.

    def objects(self) -> dict[str, Document | None]:
        """What each object of the archive is: a file's record, or None for none."""
        listed = self.world.archive_store.list("").objects
        return {f"s3://{ARCHIVE}/{each.key}": self._record(each.key) for each in listed}

    def _record(self, key: str) -> Document | None:
        found = self.world.archive_store.get(key)
        metadata = json.loads(found.info.metadata.get(NAME, "{}"))
        announced = found.info.metadata.get(ANNOUNCED_BYTES)
        is_broken = "what" not in metadata  # documents that do not hold in other ways are not this model's
        if is_broken or (announced and (announced, metadata["hash"]) != (str(found.info.size), hash_of(found.body))):
            return None
        about = {"size": found.info.size, "create_time": found.info.last_modified_ms, "metadata": metadata}
        return {"url": f"s3://{ARCHIVE}/{key}"} | about

    def check_listed(self, record: Document) -> None:
        """A record that is about to be reported: a search finds it, and each of its days has its row."""
        if record["url"].startswith(f"s3://{BUCKET}/") and not record["url"].endswith("/logs.txt"):
            return  # an object of a run, and no file
        metadata = record["metadata"]
        last = metadata["end"] or metadata["start"]
        found = self._searched(FileQuery((metadata["what"],), metadata["where"], start_ms=metadata["start"], end_ms=last))
        by_now = self.listed().get(metadata["id"])
        if by_now and by_now["url"] != record["url"]:
            self.check_stored(record)  # another object with the same id is the file by now
            return
        assert canonical(record) in map(canonical, found), f"reported before it can be found: {record}"
        rows = self.catalog()["files"]
        for day in range(metadata["start"] // DAY_MS, last // DAY_MS + 1):
            row = rows.get((f"{day}:{metadata['what']}", f"{metadata['where']}:{metadata['id']}"))
            assert row and (row["url"], row["create_time"]) == (record["url"], record["create_time"]), f"not stored: {record}"

    def check_stored(self, record: Document) -> None:
        """The same, where somebody may have written something newer meanwhile: it was stored once."""
        assert canonical(record) in self.watch.documents, f"reported before it is stored: {record}"

    def check(self, unsure: Set[str] = frozenset()) -> dict[str, Document]:
        """The catalog is consistent and has the state of every object; of several objects of the same file, that of one.
        ``unsure``: files that may be missing. Returns the listed files."""
        listed, objects = self.listed(), self.objects()
        for record in listed.values():
            assert objects.get(record["url"]) == record, f"listed, and not what the object is: {record}"
        ids: dict[str, int] = Counter(record["metadata"]["id"] for record in objects.values() if record)
        assert set(ids) - unsure <= set(listed) <= set(ids), f"listed {sorted(listed)}, stored {sorted(ids)}"
        self._check_files(listed.values())
        self._check_listing(listed.values())
        self._check_latest(listed.values())
        self._check_remembered(listed)
        return listed

    def check_rows(self) -> None:
        """What holds at any moment, also between two calls: a file's rows are there all together, and the latest of a source is one."""
        rows = self.world.database.rows
        known = {row["document"]: json.loads(row["document"]) for row in rows(OBJECTS) if "document" in row}
        assert self._listing_rows() == _rows_to_list(known.values())
        abouts = [record["metadata"] for record in known.values()]
        days = sum((about["end"] or about["start"]) // DAY_MS - about["start"] // DAY_MS + 1 for about in abouts)
        assert len(rows(FILES)) == days
        assert {row["document"] for row in rows(LATEST)} <= set(known), "the latest file is not listed"

    def _check_files(self, listed: Iterable[Document]) -> None:
        expected = {}
        for record in listed:
            about = record["metadata"]
            for day in range(about["start"] // DAY_MS, (about["end"] or about["start"]) // DAY_MS + 1):
                key = (f"{day}:{about['what']}", f"{about['where']}:{about['id']}")
                expected[key] = (record["url"], record["create_time"], record["size"])
        rows = self.catalog()["files"]
        assert {key: (row["url"], row["create_time"], row["size"]) for key, row in rows.items()} == expected

    def _check_listing(self, listed: Iterable[Document]) -> None:
        """No row is left over, and each file is found in every way that one asks for it."""
        assert self._listing_rows() == _rows_to_list(listed)
        for record in listed:
            about = record["metadata"]
            assert record in self._searched(
                FileQuery((about["what"],), about["where"], start_ms=about["start"], end_ms=about["start"])
            )
            if about["work_id"]:
                assert record in self._searched(FileQuery((about["what"],), work_id=about["work_id"]))

    def _listing_rows(self) -> dict[tuple[str, str], str]:
        rows = self.world.database.rows(LISTING)
        return {(row["partition"], row["at"]): row["document"] for row in rows if "document" in row}

    def _check_latest(self, listed: Iterable[Document]) -> None:
        by_source: dict[str, list[Document]] = defaultdict(list)
        for record in listed:
            by_source[f"{record['metadata']['what']}:{record['metadata']['where']}"].append(record)
        rows = self.catalog()["latest"]
        assert set(rows) == set(by_source), "the latest file of sources without files, or none of one that has some"
        for source, records in by_source.items():
            kept = json.loads(rows[source]["document"])
            assert kept in records, f"the latest file is not listed: {kept}"
            assert _age(kept) == max(map(_age, records)), f"not the latest file of {source}: {kept}"

    def _check_remembered(self, listed: Mapping[str, Document]) -> None:
        rows = self.catalog()["objects"]
        known = {key.removeprefix("file#"): json.loads(row["document"]) for key, row in rows.items() if "document" in row}
        assert known == listed
        for key, row in rows.items():
            if key.startswith("file#"):
                is_gone = "document" not in row and "problem" not in row
                assert ("expires_at" in row) == is_gone, f"kept for ever, or forgotten while it is there: {row}"
        for file_id, record in listed.items():
            if record["url"] != f"s3://{ARCHIVE}/{data_key(file_id)}":
                naming = rows.get(f"url#{record['url']}", {})
                assert naming.get("id") == file_id, f"an odd key does not lead to its file: {record}"
                assert "expires_at" not in naming, f"where an odd key leads will be forgotten while it is there: {record}"

    def _searched(self, query: FileQuery) -> list[Document]:
        search = Search(self.world.database)
        found: list[Document] = []
        while True:
            page = search.page(query)
            found += page.documents
            if page.after is None:
                return found
            query = FileQuery(query.whats, query.where, query.work_id, query.start_ms, query.end_ms, after=page.after)


def canonical(value: Any) -> str:
    """A document as a text that compares."""
    return json.dumps(value, sort_keys=True)


def _rows_to_list(records: Iterable[Document]) -> dict[tuple[str, str], str]:
    rows = [row for record in records for row in listing_rows(FileRecord.from_document(record)).values()]
    return {(row["partition"], row["at"]): row["document"] for row in rows}


def _comparable(row: Mapping[str, Any]) -> Document:
    shown = {name: value for name, value in row.items() if name not in ("revision", "unsettled", "left")}
    return shown | ({"expires_at": True} if "expires_at" in row else {})


def _age(record: Document) -> tuple[int, int]:
    return record["metadata"]["start"], record["create_time"]

"""The archive in memory: files are pushed as by the datalake's client, notified as by S3, and requested over HTTP."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Any
from urllib.parse import parse_qs, unquote, urlencode, urlsplit

from chalicelib import composition
from chalicelib.ports import ABSENT, Database, ObjectStore, PutOptions, Run
from chalicelib.runlog.batch import Batch
from chalicelib.triggers.ingest import ingest
from tests.functional.gateway import Answer, call, installed
from tests.ingestion_harness import ARCHIVE, message, queued, s3_record
from tests.support.publisher import InMemoryPublisher
from tests.world import START_MS, World

FILES = "/v0/archive/files"
HOST = "archive.test"
BASE = f"https://{HOST}/api"
DAY_MS = 86_400_000
FROM_HERE = {"Host": HOST, "X-Forwarded-Proto": "https"}


def hash_of(body: bytes) -> str:
    """The datalake's hash."""
    return blake2b(body, digest_size=16).hexdigest()


@dataclass
class Site:
    """A deployed archive for tests."""

    world: World
    topic: InMemoryPublisher
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def document(self, body: bytes = b"hello\n", /, **fields: Any) -> dict[str, Any]:
        """A valid metadata document, with ``fields`` replaced."""
        return {
            "version": 0, "start": START_MS - 60_000, "end": START_MS, "path": "/var/log/syslog.1", "work_id": None,
            "where": "web-1", "what": "syslog", "id": f"{next(self.numbers):032x}", "hash": hash_of(body),
        } | fields  # fmt: skip

    def push(self, body: bytes = b"hello\n", /, key: str = "", **fields: Any) -> dict[str, Any]:
        """Store a file without a notification."""
        document = self.document(body, **fields)
        self.store(key or f"{document['id']}/data", body, json.dumps(document))
        return document

    def store(self, key: str, body: bytes, text: str | None) -> None:
        """Store an object with any metadata, also metadata that no client could send."""
        metadata = {} if text is None else {"datalake": text}
        if body:
            self.world.archive_store.put_repeated(key, body, len(body), metadata)
        else:
            self.world.archive_store.put(key, body, PutOptions(metadata))

    def file(self, body: bytes = b"hello\n", /, key: str = "", **fields: Any) -> dict[str, Any]:
        """Store a file and ingest it."""
        document = self.push(body, key=key, **fields)
        assert self.notify(key or f"{document['id']}/data") == []
        return document

    def notify(self, *keys: str, name: str = "ObjectCreated:Put") -> list[str]:
        """Send one message per key in one batch. Returns the ids of failed messages."""
        return self.receive(*(message(s3_record(key, name, ARCHIVE)) for key in keys))

    def receive(self, *bodies: str) -> list[str]:
        """Process one batch of messages. Returns the ids of failed messages."""
        answer = ingest(composition.ingester(composition.services()), queued(*bodies), 60_000)
        return [failed["itemIdentifier"] for failed in answer["batchItemFailures"]]

    @property
    def reports(self) -> list[dict[str, Any]]:
        return [json.loads(text) for text, _ in self.topic.messages]

    @property
    def report(self) -> dict[str, Any]:
        """The last report."""
        return self.reports[-1]

    def rows(self, table: str) -> list[dict[str, Any]]:
        return [dict(row) for row in self.world.database.rows(table)]

    def ask(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None, prefix: str = "/api") -> Answer:
        """Send a request. ``body`` is encoded as JSON unless it is a text."""
        text = body if body is None or isinstance(body, str | bytes) else json.dumps(body)
        return call(method, path, text, FROM_HERE | (headers or {}), prefix=prefix)

    def get(self, path: str, **options: Any) -> Answer:
        return self.ask("GET", path, **options)

    def list(self, **query: Any) -> Answer:
        """A page of files; default: of all times."""
        if "work_id" not in query and not {"start", "end"} & query.keys():
            query |= {"start": "0001-01-01", "end": "9999-12-31T23:59:59.999Z"}
        return self.get(f"{FILES}/?{urlencode(query)}")

    def follow(self, url: str) -> Answer:
        """Request an absolute address from a response."""
        assert url.startswith(f"{BASE}/"), url
        return self.get(url.removeprefix(BASE))

    def pages(self, **query: Any) -> list[list[dict[str, Any]]]:
        """All pages of a query."""
        answer, pages = self.list(**query), []
        while True:
            assert answer.status == 200, answer.body
            assert answer.json.keys() == {"records", "next"}
            pages.append(answer.json["records"])
            if answer.json["next"] is None:
                return pages
            answer = self.follow(answer.json["next"])

    def ids(self, **query: Any) -> list[str]:
        """The ids of all pages."""
        return [record["metadata"]["id"] for page in self.pages(**query) for record in page]

    def latest(self, what: str = "syslog", where: str = "web-1", query: str = "") -> Answer:
        return self.get(f"/v0/archive/latest/{what}/{where}{query}")

    def send(self, upload: dict[str, Any], body: bytes) -> None:
        """Perform a presigned upload. Raises PreconditionFailedError if it was done before."""
        how = upload["upload"]
        store = self.world.archive_store
        if how["method"] == "PUT":
            assert _signed(how["url"])["operation"] == "put"
            names = {name.lower(): value for name, value in how["headers"].items()}
            assert int(names["content-length"]) == len(body) and names["if-none-match"] == "*"
            metadata = {name.removeprefix("x-amz-meta-"): value for name, value in names.items() if name.startswith("x-amz-meta-")}
            store.put(_key(how["url"]), body, PutOptions(metadata), ABSENT)
            return
        etags, rest = [], body
        for part in how["parts"]:
            signed = _signed(part["url"])
            assert (signed["operation"], int(signed["number"]), int(signed["size"])) == ("part", part["number"], part["size"])
            etags.append(
                (part["number"], store.upload_part(_key(part["url"]), signed["upload"], part["number"], rest[: part["size"]]))
            )
            rest = rest[part["size"] :]
        assert not rest and _signed(how["complete_url"])["operation"] == "complete"
        store.complete_multipart(_key(how["complete_url"]), _signed(how["complete_url"])["upload"], etags)

    def write_run(self, run: Run, *texts: str, connector: str = "Host-1.example") -> None:
        """Append batches to a run's log, a minute apart."""
        for text in texts:
            entry = self.world.parts().writer.append(run, Batch.from_text(text, connector)).entry
            assert entry
            assert self.receive(message(s3_record(self.world.layout.segment(run, entry.sequence)))) == []
            self.world.clock.advance(60)

    def finish_run(self, run: Run) -> None:
        """Close a run and ingest its log."""
        parts = self.world.parts()
        parts.finalizer.close(run)
        assert self.receive(message(s3_record(self.world.layout.logs(run)))) == []


def described(document: dict[str, Any]) -> dict[str, Any]:
    """The metadata of a response: the stored document, with its times as ISO 8601 too."""
    return document | {f"{name}_iso": _iso(document.get(name)) for name in ("start", "end")}


def _iso(ms: int | None) -> str | None:
    if ms is None:
        return None
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _key(url: str) -> str:
    return unquote(urlsplit(url).path[1:])


def _signed(url: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}


@contextmanager
def deployed(
    archive_store: ObjectStore | None = None, database: Database | None = None, world: World | None = None
) -> Iterator[Site]:
    """Serve an archive in this process."""
    world, topic = world or World(), InMemoryPublisher()
    with installed(world, archive_store=archive_store, publisher=topic, database=database):
        yield Site(world, topic)


def is_refusal(answer: Answer, status: int, code: str | None = None) -> bool:
    """Whether a response is the error envelope; ``code`` is the archive's, or the status."""
    body = answer.json
    if answer.status != status or not isinstance(body, dict) or body.keys() - {"detail"} != {"code", "message"}:
        return False
    told = [text for name, text in body.items() if name != "code"]
    return body["code"] == (code or status) and all(isinstance(text, str) and text for text in told)

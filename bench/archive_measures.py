"""Ingestion, listings and the latest file, beside the algorithm of Planet's datalake on the same emulator, in turn."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any

import boto3

from bench.bench_world import ARCHIVE, Function, archive_tables, gateway_event, queue_event
from bench.measure import Measure
from bench.upstream import DAY_MS, Upstream
from chalicelib.catalog.files import FileRecord
from chalicelib.catalog.listing import directory_keys, listing_rows
from chalicelib.catalog.metadata import Metadata
from chalicelib.catalog.search import FileQuery, Search
from chalicelib.memory.database import InMemoryDatabase
from chalicelib.ports import Put

WHATS, WHERES, DAYS = 3, 5, 7
SIZES = (1000, 10_000)
INGESTED = 400
QUERIES = 40
BODY = b"2026-11-21 03:12:45 INFO nothing happened\n" * 100
FILES = "/v0/archive/files/"


def archive(function: Function) -> list[Measure]:
    """Files of 15 sources over a week, one after the other; 1,000 of them, then 10,000."""
    end_ms = int(time.time() * 1000)
    return [measure for size in SIZES for measure in _of_size(function, size, end_ms)]


def _of_size(function: Function, size: int, end_ms: int) -> list[Measure]:
    ours, theirs = archive_tables(f"ours-{size}"), archive_tables(f"theirs-{size}")
    topic = boto3.client("sns").create_topic(Name=f"bench-{size}")["TopicArn"]
    upstream = Upstream(theirs["files"], theirs["latest"], topic)
    metadata = _files(size, end_ms)
    with function.with_archive(ours, topic):
        measures = _ingestion(function, upstream, metadata, size)
        measures += _listings(function, upstream, size, end_ms)
    return measures


def _files(size: int, end_ms: int) -> list[dict[str, Any]]:
    step_ms = DAYS * DAY_MS // size
    sources = [(f"what-{what}", f"where-{where:02d}") for what in range(WHATS) for where in range(WHERES)]
    duration_ms = step_ms * len(sources)
    return [
        _document(number, *sources[number % len(sources)], end_ms - DAYS * DAY_MS + number * step_ms, duration_ms)
        for number in range(size)
    ]


def _document(number: int, what: str, where: str, start_ms: int, duration_ms: int) -> dict[str, Any]:
    return {
        "version": 0, "start": start_ms, "end": start_ms + duration_ms, "path": "/var/log/bench/current.log", "work_id": None,
        "where": where, "what": what, "id": blake2b(f"{start_ms} {number}".encode(), digest_size=16).hexdigest(), "hash": "0" * 32,
    }  # fmt: skip


def _ingestion(function: Function, upstream: Upstream, metadata: Sequence[dict[str, Any]], size: int) -> list[Measure]:
    """The last files in turn, by batches of ten; those before them only to be there."""
    s3 = boto3.client("s3")
    keys = [f"{document['id']}/data" for document in metadata]
    for key, document in zip(keys, metadata, strict=True):
        s3.put_object(Bucket=ARCHIVE, Key=key, Body=BODY, Metadata={"datalake": json.dumps(document)})
    batches = [keys[first : first + 10] for first in range(0, len(keys), 10)]
    measured = INGESTED // 10
    for batch in batches[:-measured]:
        _ingest_both(function, upstream, batch)
    before = function.requests.by_operation.copy()
    times = [_ingest_both(function, upstream, batch) for batch in batches[-measured:]]
    spent = function.requests.by_operation - before
    ours_s, theirs_s = (sum(column) for column in zip(*times, strict=True))
    ratio = theirs_s / ours_s
    told = f"{ratio:.1f} ({INGESTED / ours_s:.0f} over {INGESTED / theirs_s:.0f} a second)"
    requests = ", ".join(f"{spent[name] / INGESTED:.2f} {name}" for name in sorted(spent))
    return [
        Measure(f"files ingested a second over upstream's, {size:,} files", "at least 2", told, ratio >= 2),
        Measure(f"requests of an ingested file, {size:,} files", "told", f"{spent.total() / INGESTED:.2f} ({requests})", True),
    ]


def _ingest_both(function: Function, upstream: Upstream, batch: Sequence[str]) -> tuple[float, float]:
    started_s = time.perf_counter()
    answer = function.app.ingest(queue_event(ARCHIVE, batch), function.context)
    between_s = time.perf_counter()
    assert answer == {"batchItemFailures": []}, answer
    for key in batch:
        upstream.ingest(ARCHIVE, key)
    return between_s - started_s, time.perf_counter() - between_s


def _listings(function: Function, upstream: Upstream, size: int, end_ms: int) -> list[Measure]:
    what, where = "what-1", "where-03"
    today = end_ms // DAY_MS * DAY_MS
    measures = []
    for name, start_ms, until_ms in (
        ("one day", today - 3 * DAY_MS, today - 2 * DAY_MS - 1),
        ("one hour", today - 3 * DAY_MS + DAY_MS // 2, today - 3 * DAY_MS + DAY_MS // 2 + DAY_MS // 24),
        ("seven days", today - 6 * DAY_MS, today + DAY_MS - 1),
    ):
        query = {"what": what, "start": str(start_ms), "end": str(until_ms)}
        listed = lambda query=query: _get(function, FILES, query)  # noqa: E731
        theirs = lambda start=start_ms, until=until_ms: upstream.list_(start, until, what)  # noqa: E731
        assert len(json.loads(listed())["records"]) >= len(json.loads(theirs())["records"]) > 0
        measures.append(_compared(f"lists of {name} a second over upstream's, {size:,} files", listed, theirs))
    latest = lambda: _get(function, f"/v0/archive/latest/{what}/{where}", {})  # noqa: E731
    theirs_latest = lambda: upstream.latest(what, where)  # noqa: E731
    assert json.loads(latest())["url"] == json.loads(theirs_latest())["url"]
    measures.append(_compared(f"latest a second over upstream's, {size:,} files", latest, theirs_latest))
    return measures


def _get(function: Function, path: str, query: dict[str, str]) -> str:
    event = gateway_event("GET", path, None, {"Host": "bench", "X-Forwarded-Proto": "https"}, query)
    answer = function.answer(event)
    assert answer["statusCode"] == 200, answer
    return str(answer["body"])


def _compared(what: str, ours: Callable[[], object], theirs: Callable[[], object]) -> Measure:
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(QUERIES):
        for call, kept in zip((ours, theirs), times, strict=True):
            started_s = time.perf_counter()
            call()
            kept.append(time.perf_counter() - started_s)
    ours_s, theirs_s = (statistics.median(kept) for kept in times)
    ratio = theirs_s / ours_s
    told = (
        f"{ratio:.1f} ({1 / ours_s:.0f} over {1 / theirs_s:.0f} a second; p50 {ours_s * 1000:.1f} ms over {theirs_s * 1000:.1f} ms)"
    )
    return Measure(what, "at least 2", told, ratio >= 2)


def read_units_of_pages(_: Function) -> list[Measure]:
    """A page of a day, as DynamoDB bills what it reads: 4 KB a unit, strongly consistent."""
    measures = []
    for size in (10, 10_000):
        database = InMemoryDatabase()
        for document in _files_of_a_day(size):
            record = FileRecord(f"s3://archive/{document['id']}/data", 4200, document["end"], Metadata.model_validate(document))
            rows = listing_rows(record) | {key: {"partition": key.partition, "at": key.sort} for key in directory_keys(record)}
            database.put_many([Put(key, row) for key, row in rows.items()])
        database.read_bytes, database.read_rows = 0, 0
        database.calls.clear()
        day = 20_700 * DAY_MS
        page = Search(database).page(FileQuery(("what-0",), None, None, day, day + DAY_MS - 1))
        units = -(-database.read_bytes // 4096)
        told = (
            f"{units} units, {database.calls['query']} queries, {database.read_rows} rows read for {len(page.documents)} answered"
        )
        measures.append(Measure(f"read units of a page, a day of {size:,} files", "told", told, True))
    return measures


def _files_of_a_day(size: int) -> list[dict[str, Any]]:
    step_ms = DAY_MS // size
    return [
        _document(number, "what-0", f"where-{number % 10}", 20_700 * DAY_MS + number * step_ms, 60_000) for number in range(size)
    ]

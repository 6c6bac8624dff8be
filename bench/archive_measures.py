"""Ingestion, listings and the latest file, compared with the algorithm of Planet's datalake on the same emulator, alternating."""

from __future__ import annotations

import json
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from typing import Any

import boto3

from bench.bench_world import ARCHIVE, Function, archive_tables, gateway_event, queue_event
from bench.measure import Measure, reported
from bench.upstream import DAY_MS, Upstream
from chalicelib import composition
from chalicelib.catalog.files import FileRecord
from chalicelib.catalog.listing import directory_keys, listing_rows
from chalicelib.catalog.metadata import Metadata
from chalicelib.catalog.search import FileQuery, Search
from chalicelib.ports import Put
from tests.support.database import InMemoryDatabase

WHATS, WHERES, DAYS = 3, 5, 7
SIZES = (1000, 10_000)
INGESTED = 400
QUERIES = 40
BODY = b"2026-11-21 03:12:45 INFO nothing happened\n" * 100
FILES = "/v0/archive/files/"


def archive(function: Function, sizes: Sequence[int] = SIZES, ingested: int = INGESTED, queries: int = QUERIES) -> list[Measure]:
    """Files of 15 sources over a week, ingested in sequence; the last ``ingested`` of them are measured."""
    end_ms = int(time.time() * 1000)
    return [measure for size in sizes for measure in _of_size(function, size, end_ms, ingested, queries)]


def _of_size(function: Function, size: int, end_ms: int, ingested: int, queries: int) -> list[Measure]:
    ours, theirs = archive_tables(f"ours-{size}"), archive_tables(f"theirs-{size}")
    topic = boto3.client("sns").create_topic(Name=f"bench-{size}")["TopicArn"]
    upstream = Upstream(theirs["files"], theirs["latest"], topic)
    metadata = _files(size, end_ms)
    with function.with_archive(ours, topic):
        measures = _ingestion(function, upstream, metadata, ingested)
        measures += _listings(function, upstream, size, end_ms, queries)
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


def _ingestion(function: Function, upstream: Upstream, metadata: Sequence[dict[str, Any]], ingested: int) -> list[Measure]:
    """Measures the last files, alternating in batches of ten; the files before them only fill the catalog."""
    s3 = boto3.client("s3")
    keys = [f"{document['id']}/data" for document in metadata]
    for key, document in zip(keys, metadata, strict=True):
        s3.put_object(Bucket=ARCHIVE, Key=key, Body=BODY, Metadata={"datalake": json.dumps(document)})
    batches = [keys[first : first + 10] for first in range(0, len(keys), 10)]
    measured, size = ingested // 10, len(metadata)
    for batch in batches[:-measured]:
        _ingest_both(function, upstream, batch)
    before = function.requests.by_operation.copy()
    times = [_ingest_both(function, upstream, batch) for batch in batches[-measured:]]
    spent = function.requests.by_operation - before
    ours_s, theirs_s = (sum(column) for column in zip(*times, strict=True))
    ratio = theirs_s / ours_s
    figures = f"{ratio:.1f} ({ingested / ours_s:.0f} over {ingested / theirs_s:.0f} a second)"
    requests = ", ".join(f"{spent[name] / ingested:.2f} {name}" for name in sorted(spent))
    return [
        Measure(f"files ingested a second over upstream's, {size:,} files", "at least 2", figures, ratio >= 2),
        reported(f"requests of an ingested file, {size:,} files", f"{spent.total() / ingested:.2f} ({requests})"),
    ]


def _ingest_both(function: Function, upstream: Upstream, batch: Sequence[str]) -> tuple[float, float]:
    started_s = time.perf_counter()
    answer = function.app.ingest(queue_event(ARCHIVE, batch), function.context)
    between_s = time.perf_counter()
    assert answer == {"batchItemFailures": []}, answer
    for key in batch:
        upstream.ingest(ARCHIVE, key)
    return between_s - started_s, time.perf_counter() - between_s


def _listings(function: Function, upstream: Upstream, size: int, end_ms: int, queries: int) -> list[Measure]:
    """Times both through their complete entries (ours: the deployed function), and the processor time of the two queriers alone."""
    what, where = "what-1", "where-03"
    today = end_ms // DAY_MS * DAY_MS
    services = composition.services()
    measures = []
    for name, start_ms, until_ms in (
        ("one day", today - 3 * DAY_MS, today - 2 * DAY_MS - 1),
        ("one hour", today - 3 * DAY_MS + DAY_MS // 2, today - 3 * DAY_MS + DAY_MS // 2 + DAY_MS // 24),
        ("seven days", today - 6 * DAY_MS, today + DAY_MS - 1),
    ):
        query = {"what": what, "start": str(start_ms), "end": str(until_ms)}
        pair = _Pair(
            entry=partial(_get, function, FILES, query),
            querier=partial(services.search.page, FileQuery((what,), None, None, start_ms, until_ms)),
            upstream=partial(upstream.list_, start_ms, until_ms, what),
        )
        assert len(json.loads(pair.entry())["records"]) >= len(json.loads(pair.upstream())["records"]) > 0
        measures += _compared(f"lists of {name}, {size:,} files", pair, queries)
    latest = _Pair(
        entry=partial(_get, function, f"/v0/archive/latest/{what}/{where}", {}),
        querier=partial(services.latest.find, what, where, end_ms),
        upstream=partial(upstream.latest, what, where),
    )
    assert json.loads(latest.entry())["url"] == json.loads(latest.upstream())["url"]
    return measures + _compared(f"latest, {size:,} files", latest, queries)


def _get(function: Function, path: str, query: dict[str, str]) -> str:
    event = gateway_event("GET", path, None, {"Host": "bench", "X-Forwarded-Proto": "https"}, query)
    answer = function.answer(event)
    assert answer["statusCode"] == 200, answer
    return str(answer["body"])


@dataclass(frozen=True)
class _Pair:
    """Three ways to run the same query: our function's entry, our querier alone, and the datalake's querier."""

    entry: Callable[[], str]
    querier: Callable[[], object]
    upstream: Callable[[], str]


def _compared(what: str, pair: _Pair, queries: int) -> list[Measure]:
    wall, cpu = defaultdict(list), defaultdict(list)
    for _ in range(queries):
        for name in ("entry", "querier", "upstream"):
            started_s, started_cpu_s = time.perf_counter(), time.process_time()
            getattr(pair, name)()
            wall[name].append((time.perf_counter() - started_s) * 1000)
            cpu[name].append((time.process_time() - started_cpu_s) * 1000)
    ratio, figures = _ratio(wall["upstream"], wall["entry"])
    cpu_ratio, cpu_figures = _ratio(cpu["upstream"], cpu["querier"])
    return [
        Measure(f"{what}: rate of our function over the datalake's querier", "at least 2", figures, ratio >= 2),
        Measure(f"{what}: the same by processor time of the two queriers", "at least 2", cpu_figures, cpu_ratio >= 2),
    ]


def _ratio(theirs_ms: Sequence[float], ours_ms: Sequence[float]) -> tuple[float, str]:
    theirs, ours = statistics.median(theirs_ms), statistics.median(ours_ms)
    return theirs / ours, f"{theirs / ours:.1f} (p50 {ours:.1f} ms against {theirs:.1f} ms)"


def read_units_of_pages(_: Function, sizes: Sequence[int] = (10, 10_000)) -> list[Measure]:
    """Read units of a page of a day, as DynamoDB bills them: 4 KB a unit, strongly consistent."""
    measures = []
    for size in sizes:
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
        figures = (
            f"{units} units, {database.calls['query']} queries, {database.read_rows} rows read for {len(page.documents)} answered"
        )
        measures.append(reported(f"read units of a page, a day of {size:,} files", figures))
    return measures


def _files_of_a_day(size: int) -> list[dict[str, Any]]:
    step_ms = DAY_MS // size
    return [
        _document(number, "what-0", f"where-{number % 10}", 20_700 * DAY_MS + number * step_ms, 60_000) for number in range(size)
    ]

"""Ingestion, listings and the latest file, compared with the algorithm of Planet's datalake on the same emulator, alternating."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from hashlib import blake2b
from typing import Any

import boto3

from bench.bench_world import ARCHIVE, Function, archive_tables, gateway_event, queue_event
from bench.measure import Measure
from bench.upstream import DAY_MS, Upstream

WHATS, WHERES, DAYS = 3, 5, 7
SIZE = 10_000
INGESTED = 400
QUERIES = 40
BODY = b"2026-11-21 03:12:45 INFO nothing happened\n" * 100
FILES = "/v0/archive/files/"
_WHAT, _WHERE = "what-1", "where-03"


def archive(function: Function, size: int = SIZE, ingested: int = INGESTED, queries: int = QUERIES) -> list[Measure]:
    """Files of 15 sources over a week, ingested in sequence; the last ``ingested`` of them are measured."""
    end_ms = int(time.time() * 1000)
    ours, theirs = archive_tables("ours"), archive_tables("theirs")
    topic = boto3.client("sns").create_topic(Name="bench")["TopicArn"]
    upstream = Upstream(theirs["files"], theirs["latest"], topic)
    metadata = _files(size, end_ms)
    with function.with_archive(ours, topic):
        return [
            _ingestion(function, upstream, metadata, ingested),
            _day(function, upstream, size, end_ms, queries),
            _latest(function, upstream, size, queries),
        ]


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


def _ingestion(function: Function, upstream: Upstream, metadata: Sequence[dict[str, Any]], ingested: int) -> Measure:
    """Measures the last files, alternating in batches of ten; the files before them only fill the catalog."""
    s3 = boto3.client("s3")
    keys = [f"{document['id']}/data" for document in metadata]
    for key, document in zip(keys, metadata, strict=True):
        s3.put_object(Bucket=ARCHIVE, Key=key, Body=BODY, Metadata={"datalake": json.dumps(document)})
    batches = [keys[first : first + 10] for first in range(0, len(keys), 10)]
    measured = ingested // 10
    for batch in batches[:-measured]:
        _ingest_both(function, upstream, batch)
    times = [_ingest_both(function, upstream, batch) for batch in batches[-measured:]]
    ours_s, theirs_s = (sum(column) for column in zip(*times, strict=True))
    ratio = theirs_s / ours_s
    figures = f"{ratio:.1f} ({ingested / ours_s:.0f} over {ingested / theirs_s:.0f} a second)"
    return Measure(f"files ingested a second over upstream's, {len(metadata):,} files", "at least 2", figures, ratio >= 2)


def _ingest_both(function: Function, upstream: Upstream, batch: Sequence[str]) -> tuple[float, float]:
    started_s = time.perf_counter()
    answer = function.app.ingest(queue_event(ARCHIVE, batch), function.context)
    between_s = time.perf_counter()
    assert answer == {"batchItemFailures": []}, answer
    for key in batch:
        upstream.ingest(ARCHIVE, key)
    return between_s - started_s, time.perf_counter() - between_s


def _day(function: Function, upstream: Upstream, size: int, end_ms: int, queries: int) -> Measure:
    """Both through their complete entries; ours: the deployed function."""
    start_ms = (end_ms // DAY_MS - 3) * DAY_MS
    until_ms = start_ms + DAY_MS - 1
    ours = partial(_get, function, FILES, {"what": _WHAT, "start": str(start_ms), "end": str(until_ms)})
    theirs = partial(upstream.list_, start_ms, until_ms, _WHAT)
    assert len(json.loads(ours())["records"]) >= len(json.loads(theirs())["records"]) > 0
    return _compared(f"lists of one day, {size:,} files", ours, theirs, queries)


def _latest(function: Function, upstream: Upstream, size: int, queries: int) -> Measure:
    ours = partial(_get, function, f"/v0/archive/latest/{_WHAT}/{_WHERE}", {})
    theirs = partial(upstream.latest, _WHAT, _WHERE)
    assert json.loads(ours())["url"] == json.loads(theirs())["url"]
    return _compared(f"latest, {size:,} files", ours, theirs, queries)


def _get(function: Function, path: str, query: dict[str, str]) -> str:
    event = gateway_event("GET", path, None, {"Host": "bench", "X-Forwarded-Proto": "https"}, query)
    answer = function.answer(event)
    assert answer["statusCode"] == 200, answer
    return str(answer["body"])


def _compared(what: str, ours: Callable[[], str], theirs: Callable[[], str], queries: int) -> Measure:
    spent_ms: dict[Callable[[], str], list[float]] = {ours: [], theirs: []}
    for _ in range(queries):
        for query, times in spent_ms.items():
            started_s = time.perf_counter()
            query()
            times.append((time.perf_counter() - started_s) * 1000)
    ours_ms, theirs_ms = map(statistics.median, spent_ms.values())
    ratio = theirs_ms / ours_ms
    figures = f"{ratio:.1f} (p50 {ours_ms:.1f} ms against {theirs_ms:.1f} ms)"
    return Measure(f"{what}: rate of our function over the datalake's querier", "at least 2", figures, ratio >= 2)

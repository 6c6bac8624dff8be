"""Thousands of open runs, some with segments that are not compacted: on S3 and in the catalog, as appends and ingestion leave them."""

from __future__ import annotations

import time
from typing import Any

import boto3
import yaml

from chalicelib.aws.clients import make_client
from chalicelib.aws.dynamodb import Table
from chalicelib.aws.object_store import S3ObjectStore
from chalicelib.aws.run_catalog import DynamoDbRunCatalog
from chalicelib.aws.segment_index import DynamoDbSegmentIndex
from chalicelib.catalog.runs import shard_of
from chalicelib.coordination.store import in_parallel
from chalicelib.ports import PutOptions, Run, SegmentEntry
from chalicelib.runlog.artifact import artifact_metadata
from chalicelib.runlog.layout import Layout
from chalicelib.runlog.segment import metadata_of

NAME = "bench-schedules"
BUCKET, RUNS, SEGMENTS = NAME, f"{NAME}-runs", f"{NAME}-segments"
SEGMENTS_EACH = 3
BODY = b"2026-11-21 03:12:45 INFO  {metadata.Ingestion} processed table warehouse.public.orders rows=1048576 in 132 ms\n" * 40
_LINES = BODY.count(b"\n")
_KEEP_S, _IDLE_MS = 30 * 86_400, 5 * 60_000
_ROWS_AT_ONCE = 100


class Archive:
    """A bucket and tables as in the template. ``segment_counts``: total segments of each run."""

    def __init__(self, size: int) -> None:
        self.runs = [Run(f"svc.pipeline-{number % 50:02d}", f"run-{number:06d}") for number in range(size)]
        self.segment_counts = [SEGMENTS_EACH] * size
        database = make_client("dynamodb", region=None)
        boto3.client("s3").create_bucket(Bucket=BUCKET)
        resources = _resources()
        for name, resource in ((RUNS, "RunsTable"), (SEGMENTS, "SegmentsTable")):
            properties = resources[resource]["Properties"]
            names = ("AttributeDefinitions", "KeySchema", "GlobalSecondaryIndexes", "BillingMode")
            database.create_table(TableName=name, **{key: properties[key] for key in names if key in properties})
        self._rows = Table(database, RUNS)
        self._index = DynamoDbSegmentIndex(Table(database, SEGMENTS), _KEEP_S)
        self._store, self._layout = S3ObjectStore(make_client("s3", region=None), BUCKET), Layout()

    def fill(self) -> None:
        """Put all runs into the catalog, compacted and not due."""
        self._put_rows(range(len(self.runs)), now_ms() - _IDLE_MS, pending=0)

    def append(self, count: int) -> None:
        """Append some segments to each of the first runs, behind a partial.txt with the earlier ones."""
        at_ms = now_ms()
        in_parallel(lambda number: self._append(number, at_ms), range(count))
        self._put_rows(range(count), at_ms, pending=SEGMENTS_EACH)

    def check_compacted(self, count: int) -> None:
        """Check that the first runs are compacted and nothing is due. Raises AssertionError."""
        assert not any(row.is_due for row in DynamoDbRunCatalog(self._rows, _KEEP_S).active(now_ms() + 1))
        for number in (0, count // 2, count - 1):
            assert self._store.head(self._layout.partial(self.runs[number])).size == self.segment_counts[number] * len(BODY)

    def _append(self, number: int, at_ms: int) -> None:
        run, first = self.runs[number], self.segment_counts[number]
        if first == SEGMENTS_EACH:
            metadata = artifact_metadata(first * _LINES, first * len(BODY), first, 1)
            self._store.put(self._layout.partial(run), BODY * first, PutOptions(metadata))
        entries = [_entry(sequence, at_ms) for sequence in range(first, first + SEGMENTS_EACH)]
        for entry in entries:
            self._store.put(self._layout.segment(run, entry.sequence), BODY, PutOptions(metadata_of(entry)))
        self._index.put(run, entries)
        self.segment_counts[number] = first + SEGMENTS_EACH

    def _put_rows(self, numbers: range, at_ms: int, pending: int) -> None:
        rows = [
            _row(self.runs[number], self.segment_counts[number], self.segment_counts[number] - pending, at_ms) for number in numbers
        ]
        in_parallel(self._rows.put_all, [rows[first : first + _ROWS_AT_ONCE] for first in range(0, len(rows), _ROWS_AT_ONCE)])


def now_ms() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def _entry(sequence: int, at_ms: int) -> SegmentEntry:
    line, byte = sequence * _LINES, sequence * len(BODY)
    return SegmentEntry(
        sequence, "data", 1, line, byte, _LINES, len(BODY), "bench", base=sequence, digest="0" * 32, appended_ms=at_ms
    )


def _row(run: Run, segments: int, compacted: int, at_ms: int) -> dict[str, Any]:
    return {
        "fqn": run.fqn, "run_id": run.run_id, "activity_shard": shard_of(run), "started_ms": at_ms - 3_600_000, "last_append_ms": at_ms,
        "segments": segments, "lines": segments * _LINES, "bytes": segments * len(BODY), "epoch": 1, "seal": "",
        "compacted_segments": compacted, "compacted_bytes": compacted * len(BODY), "expires_at": at_ms // 1000 + _KEEP_S,
    }  # fmt: skip


def _resources() -> dict[str, Any]:
    from local import package

    package.ensure_packaged()
    resources: dict[str, Any] = yaml.safe_load(package.TEMPLATE.read_text())["Resources"]
    return resources

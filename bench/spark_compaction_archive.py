"""Thousands of sealed runs on a private emulator, whose bucket, tables and logs are known and can be restored."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from random import Random
from threading import local
from types import MappingProxyType
from typing import Any
from unittest.mock import patch
from urllib.parse import urlsplit

import yaml

from bench.bench_world import set_environment
from bench.workload import LINE
from chalicelib.aws.clients import make_client
from chalicelib.aws.dynamodb import Table
from chalicelib.aws.run_catalog import DynamoDbRunCatalog
from chalicelib.aws.segment_index import DynamoDbSegmentIndex, segment_rows
from chalicelib.catalog.runs import shard_of
from chalicelib.coordination.partition import create_table_request
from chalicelib.ports import Run, SegmentEntry
from chalicelib.runlog.layout import Layout
from chalicelib.runlog.segment import CLOSED, DATA, SEAL, metadata_of
from local.emulator import Emulator, free_port
from local.state import PROJECT

BUCKET = "bench-bulk"
WORK = "bench-bulk-work"
_KEEP_S = 30 * 86_400


def body_of(size: int, seed: int = 0) -> bytes:
    """Log lines of exactly this many bytes."""
    text = (b"%d " % seed + LINE.encode()) * (size // len(LINE.encode()) + 1)
    return text[: max(size - 1, 0)] + b"\n" if size else b""


@dataclass
class BenchRun:
    """A run: the bodies of its segments, and whether it is sealed."""

    run: Run
    bodies: Sequence[bytes]
    is_sealed: bool = True
    entries: list[SegmentEntry] = field(default_factory=list)

    def __post_init__(self) -> None:
        line = byte = 0
        at_ms = time.time_ns() // 1_000_000 - 60_000
        self.entries = []
        for number, body in enumerate(self.bodies):
            lines = body.count(b"\n")
            self.entries.append(SegmentEntry(number, DATA, 1, line, byte, lines, len(body), "s", number, "d", at_ms))
            line, byte = line + lines, byte + len(body)
        if self.is_sealed:
            self.entries.append(
                SegmentEntry(len(self.bodies), SEAL, 1, line, byte, 0, 0, "s", len(self.bodies), "", at_ms, reason=CLOSED)
            )

    @property
    def log(self) -> bytes:
        """The whole log."""
        return b"".join(self.bodies)


class BenchArchive:
    """A bucket and tables as in the template. Objects are put without boto3: the emulator accepts unsigned requests."""

    tables: Mapping[str, str] = MappingProxyType({"runs": "RunsTable", "segments": "SegmentsTable"})
    """Table names by role."""

    def __init__(self, endpoint_url: str) -> None:
        self.layout, self.bucket = Layout(), BUCKET
        self._address = urlsplit(endpoint_url).netloc
        self._mine, self._connections = local(), list[HTTPConnection]()
        self.s3, database = (
            make_client("s3", region=None, read_timeout_s=60),
            make_client("dynamodb", region=None, read_timeout_s=60),
        )
        self.s3.create_bucket(Bucket=BUCKET)
        found = resources()
        for name, resource in self.tables.items():
            properties = found[resource]["Properties"]
            wanted = ("AttributeDefinitions", "KeySchema", "GlobalSecondaryIndexes", "BillingMode")
            database.create_table(TableName=f"{BUCKET}-{name}", **{key: properties[key] for key in wanted if key in properties})
        database.create_table(**create_table_request(WORK, None))
        self.database = database
        self.rows = Table(database, f"{BUCKET}-runs")
        self.runs = DynamoDbRunCatalog(self.rows, _KEEP_S)
        self.segments = Table(database, f"{BUCKET}-segments")
        self.index = DynamoDbSegmentIndex(self.segments, _KEEP_S)
        os.environ.update(
            RUNLAKE_BUCKET_NAME=BUCKET,
            RUNLAKE_RUNS_TABLE=f"{BUCKET}-runs",
            RUNLAKE_SEGMENTS_TABLE=f"{BUCKET}-segments",
            RUNLAKE_SOURCE_COORDINATION=json.dumps(
                {"store": {"dynamodb": {"table_name": WORK, "region": os.environ["AWS_REGION"], "on_demand": True}}}
            ),
        )

    def close(self) -> None:
        """Close the connections."""
        for each in (self.s3, self.database, *self._connections):
            each.close()

    def fill(self, runs: Sequence[BenchRun], threads: int = 4) -> None:
        """Put the objects, and the rows that ingestion would write."""
        with ThreadPoolExecutor(threads) as pool:
            for _ in pool.map(self._put_run, runs):
                pass
        self.mark_due(runs)

    def mark_due(self, runs: Sequence[BenchRun]) -> None:
        """Undo all work on the runs: delete artifacts, and reset the rows."""
        keys = [key for each in runs for key in (self.layout.logs(each.run), self.layout.partial(each.run))]
        for first in range(0, len(keys), 1000):
            self.s3.delete_objects(Bucket=BUCKET, Delete={"Objects": [{"Key": key} for key in keys[first : first + 1000]]})
        self.rows.put_all([_row(each) for each in runs])

    def put(self, key: str, body: bytes, metadata: dict[str, str]) -> None:
        """Put one object."""
        status, text = self._request("PUT", key, body, {f"x-amz-meta-{name}": value for name, value in metadata.items()})
        assert status == 200, text

    def artifact(self, each: BenchRun) -> bytes | None:
        """logs.txt of a sealed run, partial.txt of an open one; None if missing."""
        return self.get((self.layout.logs if each.is_sealed else self.layout.partial)(each.run))

    def get(self, key: str) -> bytes | None:
        """Bytes of an object; None if missing."""
        status, body = self._request("GET", key)
        return body if status == 200 else None

    def delete_segment_rows(self, each: BenchRun) -> None:
        """Delete the catalog's rows of the run's segments."""
        rows = (row for entry in each.entries for row in segment_rows(each.run, entry, _KEEP_S))
        self.segments.delete_all({name: row[name] for name in ("run", "at")} for row in rows)
        assert self.index.last(each.run) is None

    def segment_rows_of(self, each: BenchRun) -> list[SegmentEntry]:
        """The catalog's entries of the run's segments."""
        rows: list[SegmentEntry] = []
        while page := self.index.rows_from(each.run, rows[-1].end_line if rows else 0, len(rows), 10_000):
            rows += page
        return rows

    def _put_run(self, each: BenchRun) -> None:
        for entry, body in zip(each.entries, [*each.bodies, b""], strict=False):
            self.put(self.layout.segment(each.run, entry.sequence), body, metadata_of(entry))
        self.index.put(each.run, each.entries)

    def _request(self, method: str, key: str, body: bytes = b"", headers: Mapping[str, str] | None = None) -> tuple[int, bytes]:
        """Sends a request over this thread's connection, which the emulator closes after idle time."""
        for _ in range(2):
            if not hasattr(self._mine, "connection"):
                self._mine.connection = HTTPConnection(self._address)
                self._connections.append(self._mine.connection)
            try:
                self._mine.connection.request(method, f"/{BUCKET}/{key}", body, headers or {})
                answer = self._mine.connection.getresponse()
                return answer.status, answer.read()
            except (HTTPException, OSError):
                self._mine.connection.close()
                del self._mine.connection
        raise ConnectionError(f"the emulator does not answer key={key}")


def uniform_runs(count: int, segments: int, size: int, *, fqns: int = 50) -> list[BenchRun]:
    """Equal runs, of ``fqns`` pipelines."""
    bodies = [body_of(size, number) for number in range(segments)]
    return [BenchRun(Run(f"svc.pipeline-{number % fqns:02d}", f"run-{number:06d}"), bodies) for number in range(count)]


def mixed_runs(count: int, random: Random, name: str) -> list[BenchRun]:
    """All kinds of runs: sealed and open, short and long, occasionally one that needs a multipart upload."""
    made = []
    for number in range(count):
        sizes = [random.choice((1, 300, 5000, 20_000)) for _ in range(random.randint(1, 12))]
        if number % 50 == 0:
            sizes += [6 * 1024 * 1024, 100, 3 * 1024 * 1024]
        bodies = [body_of(size, random.randrange(10**6)) for size in sizes]
        made.append(BenchRun(Run(f"svc.{name}-{number % 7}", f"run-{number:05d}"), bodies, is_sealed=random.random() < 0.7))
    return made


@contextmanager
def bench_archive() -> Iterator[tuple[BenchArchive, Emulator]]:
    """Runs a private emulator for the duration of the block, and sets this process's environment for it."""
    with patch.dict(os.environ), tempfile.TemporaryDirectory(prefix="runlake-bulk-") as folder:
        emulator = Emulator(free_port(), Path(folder) / "scratch", Path(folder) / "emulator.log")
        try:
            emulator.wait_until_healthy()
            set_environment(emulator.endpoint_url)
            with closing(BenchArchive(emulator.endpoint_url)) as archive:
                yield archive, emulator
        finally:
            emulator.stop()


def _row(each: BenchRun) -> dict[str, Any]:
    last = each.entries[-1]
    return {
        "fqn": each.run.fqn, "run_id": each.run.run_id, "activity_shard": shard_of(each.run), "segments": last.sequence + 1,
        "lines": last.end_line, "bytes": last.end_byte, "epoch": 1, "seal": last.reason, "started_ms": last.appended_ms,
        "last_append_ms": last.appended_ms, "expires_at": last.appended_ms // 1000 + _KEEP_S,
    }  # fmt: skip


class _Template(yaml.SafeLoader):
    """A YAML loader that ignores CloudFormation's tags."""


_Template.add_multi_constructor("!", lambda loader, suffix, node: None)


def resources() -> dict[str, Any]:
    """Resources of the template."""
    template: dict[str, Any] = yaml.load((PROJECT / "infra" / "template.yaml").read_text(), _Template)["Resources"]
    return template

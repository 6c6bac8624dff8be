"""Runs stored in a bucket object by object, so that a log's bytes are known without reading them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Protocol

from pyspark.sql.datasource import Filter

from bench.spark_bucket import BucketServer
from chalicelib.ports import RunEnd, SegmentEntry
from chalicelib.runlog.artifact import artifact_metadata
from chalicelib.runlog.segment import DATA, SEAL, landmarks_of, metadata_of
from glue_jobs.datasource.options import parse_options
from glue_jobs.datasource.schema import schema_of
from glue_jobs.datasource.source import PushdownReader

PREFIX = "pipeline-logs"
START_MS = 1_795_230_000_000  # 2026-11-21T03:00:00Z
MINUTE_MS = 60_000


@dataclass
class Bucket:
    """A bucket to fill."""

    server: BucketServer

    @property
    def options(self) -> dict[str, str]:
        return self.server.options

    def run(self, fqn: str = "svc.orders", run_id: str = "run-1", at_ms: int = START_MS) -> StoredRun:
        """A run without objects."""
        return StoredRun(self.server, fqn, run_id, at_ms)

    def rows(self, *filters: Filter, columns: str = "", **options: str) -> list[dict[str, Any]]:
        """Rows of the data source, read in this process without Spark. ``columns``: names; empty: all."""
        parsed = parse_options({**self.options, **options})
        reader = PushdownReader(parsed, tuple(columns.split() or schema_of(parsed.rows).names))
        reader.pushFilters(list(filters))
        return [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]

    def tasks(self, *filters: Filter, **options: str) -> list[Any]:
        """Tasks that the data source plans."""
        parsed = parse_options({**self.options, **options})
        reader = PushdownReader(parsed, tuple(schema_of(parsed.rows).names))
        reader.pushFilters(list(filters))
        parts: list[Any] = list(reader.partitions())
        return [part for part in parts if part.slices]


class Server(Protocol):
    """Stores objects of runs."""

    def put(self, key: str, body: bytes, metadata: Mapping[str, str] | None = None, modified_ms: int | None = None) -> None:
        """Store an object."""

    def delete(self, key: str) -> None:
        """Delete an object."""


@dataclass
class StoredRun:
    """One run; ``log``: its expected bytes."""

    server: Server
    fqn: str
    run_id: str
    at_ms: int
    base: str = ""
    entries: list[SegmentEntry] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    epoch: int = 1
    zone: str = ""

    def __post_init__(self) -> None:
        self.base = self.base or f"{PREFIX}/{self.fqn}/{self.run_id}/"

    @property
    def log(self) -> bytes:
        return b"".join(self.bodies)

    def append(self, *bodies: bytes, connector: str = "", every_ms: int = 1000) -> StoredRun:
        """Append a segment for each body."""
        for body in bodies:
            self._put(
                SegmentEntry(
                    len(self.entries),
                    DATA,
                    self.epoch,
                    *self._end(),
                    body.count(b"\n"),
                    len(body),
                    "s",
                    0,
                    "d",
                    self.at_ms,
                    connector,
                    landmarks=landmarks_of(body),
                    zone=self.zone,
                ),
                body,
            )
            self.at_ms += every_ms
        return self

    def lines(self, count: int, *, of: int = 40, first: int = 0, every_ms: int = 1000, seconds: int = 0) -> StoredRun:
        """Append lines of Python's logging, ``of`` in a segment, with their arrival times as stamps."""
        written: list[bytes] = []
        for number in range(first, first + count):
            stamp = datetime.fromtimestamp(self.at_ms // 1000 + seconds, UTC)
            written.append(f"{stamp:%Y-%m-%d %H:%M:%S},123 - svc.load - INFO - row {number}\n".encode())
            if len(written) == of:
                self.append(b"".join(written), every_ms=every_ms)
                written = []
        return self.append(b"".join(written)) if written else self

    def seal(self, reason: str = "closed", end: RunEnd | None = None) -> StoredRun:
        place = (len(self.entries), SEAL, self.epoch, *self._end())
        self._put(SegmentEntry(*place, 0, 0, "s", 0, "", self.at_ms, reason=reason, end=end, zone=self.zone), b"")
        return self

    def reopen(self) -> StoredRun:
        self.epoch += 1
        return self

    def compact(self, upto: int | None = None) -> StoredRun:
        """Write partial.txt of the segments below ``upto``."""
        self._artifact("partial.txt", len(self.entries) if upto is None else upto)
        return self

    def finalize(self, reason: str = "closed") -> StoredRun:
        """Write logs.txt, delete partial.txt."""
        self._artifact("logs.txt", len(self.entries), reason)
        self.server.delete(f"{self.base}partial.txt")
        return self

    def retire(self, below: int | None = None) -> StoredRun:
        """Delete segments except the last."""
        for number in range(len(self.entries) - 1 if below is None else below):
            self.server.delete(self.key(number))
        return self

    def key(self, number: int) -> str:
        return f"{self.base}segments/{number:010d}"

    def overwrite_segment(self, number: int, body: bytes | None = None, **changes: Any) -> None:
        """Store an invalid segment. ``metadata=None``: without metadata."""
        metadata = changes.pop("metadata", {})
        entry = replace(self.entries[number], **changes)
        stored = None if metadata is None else metadata_of(entry) | metadata
        self.server.put(self.key(number), self.bodies[number] if body is None else body, stored, entry.appended_ms)

    def _put(self, entry: SegmentEntry, body: bytes) -> None:
        self.entries.append(entry)
        self.bodies.append(body)
        self.server.put(self.key(entry.sequence), body, metadata_of(entry), entry.appended_ms)

    def _end(self) -> tuple[int, int]:
        return self.log.count(b"\n"), len(self.log)

    def _artifact(self, name: str, upto: int, reason: str = "") -> None:
        body = b"".join(self.bodies[:upto])
        end = self.entries[upto - 1].end if reason else None
        metadata = artifact_metadata(body.count(b"\n"), len(body), upto, self.epoch, reason, end, zone=self.zone)
        self.server.put(self.base + name, body, metadata, self.at_ms)


def raw_bytes(rows: Iterable[Any], run_id: str = "run-1") -> bytes:
    """Raw bytes of a run's rows, ordered by line."""
    wanted = [row for row in rows if row["run_id"] == run_id]
    return b"".join(bytes(row["raw"]) for row in sorted(wanted, key=lambda row: row["line"]))


def event_numbers(rows: Sequence[Any], run_id: str = "run-1") -> list[int]:
    """Numbers of a run's events, in order."""
    return sorted(row["line"] for row in rows if row["run_id"] == run_id)

"""Runs that start, grow, end and are reopened by a seed, and the expected rows of their dataset as plain lists."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from random import Random
from typing import NamedTuple

import duckdb

from bench.spark_bucket import BucketServer
from bench.stored_runs import START_MS, Bucket, StoredRun
from chalicelib.ingestion.run_files import slug
from glue_jobs.dataset import files

BUCKETS = 3
OPEN, CLOSED, ABANDONED = "open", "closed", "abandoned"
RAW = "coalesce(raw, encode(raw_head || message || chr(10)))"
"""The exact text of an event, in DuckDB."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FQNS = ("svc.orders", "svc.customers", "Warehouse.Load Tables", "svc.dbt")


class Row(NamedTuple):
    """The compared fields of a row. ``timestamp_us`` None: the event has no timestamp."""

    fqn: str
    run_id: str
    line: int
    timestamp_us: int | None
    raw: bytes
    date: date
    what_bucket: int


@dataclass
class ExpectedRun:
    """A run and the rows of its events so far. ``covered``: how many of them a job must have read."""

    stored: StoredRun
    arrived: date
    state: str = OPEN
    rows: list[Row] = field(default_factory=list)
    covered: int = 0


class World:
    """Changes a bucket. All times are those of its own clock, which advances with each change."""

    def __init__(self, server: BucketServer, seed: int, events: int = 40, *, live: bool = False) -> None:
        server.empty()
        self._bucket, self._random, self._events, self._live = Bucket(server), Random(seed), events, live
        self._now_ms = START_MS
        self.runs: list[ExpectedRun] = []

    def change(self, times: int = 6, *, reopening: bool = True) -> None:
        """Start, grow or end some runs; ``reopening``: reopen some abandoned ones."""
        for _ in range(times):
            self._now_ms += self._random.randrange(20_000, 600_000)
            chosen = self._random.choice(self.runs) if self.runs and self._random.random() < 0.7 else self._new()
            if chosen.state == OPEN:
                self._grow(chosen)
                if self._random.random() < 0.6:
                    self._end(chosen)
            elif chosen.state == ABANDONED and reopening and self._random.random() < 0.6:
                chosen.stored.reopen()
                chosen.state = OPEN
                self._grow(chosen)
            elif self._random.random() < 0.5:
                chosen.stored.at_ms = self._now_ms
                chosen.stored.finalize(chosen.state)
                chosen.stored.retire()

    def read(self) -> None:
        """Record that a job has read everything it must."""
        for run in self.runs:
            at_least = len(run.rows) - 1 if self._live else run.covered
            run.covered = len(run.rows) if run.state != OPEN else max(run.covered, at_least)

    @property
    def expected(self) -> Counter[Row]:
        """Every row that the dataset must contain."""
        return Counter(row for run in self.runs for row in run.rows[: run.covered])

    def _new(self) -> ExpectedRun:
        run = self._bucket.run(self._random.choice(_FQNS), f"run-{len(self.runs):04d}", self._now_ms)
        self.runs.append(ExpectedRun(run, _at(self._now_ms * 1000).date()))
        return self.runs[-1]

    def _grow(self, run: ExpectedRun) -> None:
        """Appends events of this day, or late ones of earlier days."""
        stored = run.stored
        moment_us = (self._now_ms - self._random.choice((0, 0, 86_400_000, 5 * 86_400_000))) * 1000
        body: list[bytes] = []
        for _ in range(self._random.randrange(1, self._events)):
            moment_us += self._random.randrange(0, 2_000_000)
            line = stored.log.count(b"\n") + sum(raw.count(b"\n") for raw in body)
            timestamp_us, raw = self._event(moment_us // 1000 * 1000, is_first=not run.rows)
            body.append(raw)
            day = _at(timestamp_us).date() if timestamp_us is not None else run.arrived
            run.rows.append(Row(stored.fqn, stored.run_id, line, timestamp_us, raw, day, bucket_of(stored.fqn)))
        stored.at_ms = self._now_ms
        lines = b"".join(body).splitlines(keepends=True)
        middle = self._random.randrange(len(lines) + 1)
        stored.append(*(b"".join(part) for part in (lines[:middle], lines[middle:]) if part))
        if self._random.random() < 0.3:
            stored.compact()

    def _event(self, timestamp_us: int, *, is_first: bool) -> tuple[int | None, bytes]:
        number = self._random.randrange(1_000_000)
        kind = self._random.random()
        if kind < 0.15 and not is_first:
            return None, b"copied part %d of the table\n" % number
        moment = _at(timestamp_us)
        head = f"{moment:%Y-%m-%d %H:%M:%S},{moment.microsecond // 1000:03d} - svc.load - "
        if kind < 0.3:
            trace = 'Traceback (most recent call last):\n  File "load.py", line 12, in load\nValueError: no row\n'
            return timestamp_us, f"{head}ERROR - failed at {number}\n{trace}".encode()
        return timestamp_us, f"{head}INFO - row {number}\n".encode()

    def _end(self, run: ExpectedRun) -> None:
        run.state = self._random.choice((CLOSED, ABANDONED))
        run.stored.seal(run.state)


def bucket_of(fqn: str) -> int:
    """The bucket of an FQN, as docs/dataset.md defines it."""
    return int(hashlib.md5(slug(fqn).encode()).hexdigest()[:4], 16) % BUCKETS


def rows_of(*addresses: str) -> Counter[Row]:
    """The rows of files, as DuckDB reads them."""
    if not addresses:
        return Counter()
    query = (
        f"select fqn, run_id, line, epoch_us(timestamp), {RAW}, date, what_bucket from read_parquet($1, hive_partitioning = true)"
    )
    with duckdb.connect() as connection:
        return Counter(Row(*row) for row in connection.execute(query, [list(addresses)]).fetchall())


def by_glob(destination: Path) -> Counter[Row]:
    """Rows for a reader of all files."""
    return rows_of(*map(str, sorted((destination / "data").rglob("*.parquet"))))


def by_ledger(destination: Path) -> Counter[Row]:
    """Rows for a reader of the ledger."""
    return rows_of(*(address.removeprefix("file://") for address in files(str(destination))))


def _at(us: int) -> datetime:
    return _EPOCH + timedelta(microseconds=us)

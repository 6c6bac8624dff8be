"""Test harness for pipelines that write files: a minimal framework that feeds a handler and commits its rows with a checkpoint, and
a reader of files that uses no Runlake code."""

from __future__ import annotations

import gzip
import json
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from chalicelib.pipelines.files.handler import RollingS3Handler
from chalicelib.pipelines.files.rows import EXPIRING, FileRow, FileRows
from chalicelib.pipelines.ports import HandlerContext
from chalicelib.ports import Clause, Key, Put, RowCondition
from tests.support.clock import ManualClock
from tests.support.database import InMemoryDatabase
from tests.support.object_store import InMemoryObjectStore

START_MS = 1_790_000_000_000 // 86_400_000 * 86_400_000 + 3_600_000
"""An hour into a day."""
CHECKPOINT = Key("pipeline_files", "#test", "checkpoint")


def record_of(
    number: int,
    text: str = "",
    time_ms: int | None = None,
    fqn: str = "svc.flow",
    program: str = "main",
    generation: str = "g1",
    level: int = logging.INFO,
    run_id: str = "run-1",
) -> logging.LogRecord:
    """An event as the framework would pass it: its number is its line."""
    namespace, _, app = fqn.partition(".")
    return logging.makeLogRecord({
        "name": f"logger.{program}", "levelno": level, "levelname": logging.getLevelName(level), "msg": text or f"event {number}",
        "runlake_fqn": fqn, "runlake_run_id": run_id, "runlake_line": number,
        "runlake_time_ms": START_MS + number if time_ms is None else time_ms,
        "runlake_generation": generation, "runlake_namespace": namespace, "runlake_app": app, "runlake_program": program,
    })  # fmt: skip


@dataclass
class FilesHarness:
    """A bucket, tables and a clock, for any number of processes."""

    clock: ManualClock = field(default_factory=lambda: ManualClock(START_MS))
    options: dict[str, Any] = field(default_factory=dict)
    warnings: list[tuple[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.store = InMemoryObjectStore(self.clock)
        self.database = InMemoryDatabase()

    def handler(
        self, store: Any = None, database: Any = None, fence: Callable[[], None] = lambda: None, **options: Any
    ) -> RollingS3Handler:
        """A handler of a new process."""
        made = RollingS3Handler(**({"base": "files", "format": "jsonl", "workers": 1} | self.options | options))
        made.use(HandlerContext(store or self.store, database or self.database, self.clock, "test", fence))
        return made

    def rows(self, base: str = "files") -> list[FileRow]:
        """Rows in their committed state."""
        return [row for row in FileRows(self.database).listed(base, "") if isinstance(row, FileRow)]

    def lines(self, base: str = "files") -> Counter[int]:
        """How often the rows name each event of JSON lines: read without any Runlake reader."""
        found: Counter[int] = Counter()
        for row in self.rows(base):
            if row.state != EXPIRING and row.contents.size:
                body = self.store.get(row.object_key).body[: row.contents.size]
                body = gzip.decompress(body) if row.object_key.endswith(".gz") else body
                numbers = [json.loads(line)["line"] for line in body.splitlines()]
                assert len(numbers) == row.contents.events
                found.update(numbers)
        return found

    def objects(self, prefix: str = "files/") -> list[str]:
        """The stored objects."""
        return [each.key for each in self.store.list(prefix).objects]


@dataclass
class Worker:
    """The framework: events in batches, a checkpoint after every few; starts at the last checkpoint."""

    site: FilesHarness
    handler: RollingS3Handler
    database: Any = None

    def position(self) -> int:
        """The number of the next event."""
        row = (self.database or self.site.database).get_many([CHECKPOINT]).get(CHECKPOINT)
        return int(row["next"]) if row else 0

    def commit(self, seen: int, following: int) -> None:
        """Flush, then all rows and the checkpoint in one transaction."""
        self.handler.flush()
        writes = list(self.handler.pending_writes())
        when: RowCondition = ((Clause(("next",), "=", seen),),) if seen else ((Clause(("at",), "absent"),),)
        row = {"partition": CHECKPOINT.partition, "at": CHECKPOINT.sort, "next": following}
        (self.database or self.site.database).transact([*writes, Put(CHECKPOINT, row, when)])
        self.handler.committed()

    def run(self, events: Sequence[logging.LogRecord], batch: int = 2, batches: int = 2) -> None:
        """Process all events from the checkpoint on, with a checkpoint after each batch of this many."""
        at = seen = self.position()
        while at < len(events):
            for _ in range(batches):
                for event in events[at : at + batch]:
                    self.handler.handle(event)
                at = min(at + batch, len(events))
                self.handler.flush()
            self.commit(seen, at)
            seen = at


def run_writer(site: FilesHarness, *numbers: int, **options: Any) -> RollingS3Handler:
    """A process that writes events and commits them."""
    handler = site.handler(**options)
    put(site, handler, *numbers)
    return handler


def put(site: FilesHarness, handler: RollingS3Handler, *numbers: int, **about: Any) -> None:
    """Write events with a process and commit them."""
    for number in numbers:
        handler.handle(record_of(number, **about))
    commit(site, handler)


def commit(site: FilesHarness, handler: RollingS3Handler) -> int:
    """A checkpoint of rows only. Returns their number."""
    handler.flush()
    writes = handler.pending_writes()
    if writes:
        site.database.transact(writes)
    handler.committed()
    return len(writes)

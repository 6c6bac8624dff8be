"""``python -m bench.pipeline_files``: events a second of the rolling handler over ``logging.FileHandler``, and its memory with many
applications.

The store is in memory, so this measures the handler itself: buffering, encoding and publishing, with a checkpoint each 10,000
events. Both handlers have the same formatter and records. Figures are processor time, which is independent of other load, of the
fastest of five alternating rounds.
"""

from __future__ import annotations

import gc
import logging
import statistics
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Sequence
from pathlib import Path

from chalicelib.pipelines.files.formats import FORMATS
from chalicelib.pipelines.files.handler import RollingS3Handler
from chalicelib.pipelines.ports import HandlerContext
from tests.support.clock import ManualClock
from tests.support.database import InMemoryDatabase
from tests.support.object_store import InMemoryObjectStore

EVENTS = 100_000
CHECKPOINT_EVENTS = 10_000
ROUNDS = 5
APPLICATIONS = 10_000
START_MS = 1_790_000_000_000
_LAYOUT = logging.Formatter("%(asctime)s %(levelname)s %(name)s - %(message)s")
_MIB = 1024 * 1024


def records(events: int, applications: int) -> list[logging.LogRecord]:
    """Records as the framework passes them."""
    return [
        logging.makeLogRecord({
            "name": "ingestion.source", "levelno": 20, "levelname": "INFO",
            "msg": f"processed table warehouse.public.orders_{number} rows=1048576 in 132 ms",
            "created": (START_MS + number) / 1000, "runlake_fqn": f"svc.flow{number % applications}", "runlake_run_id": "run-1",
            "runlake_line": number, "runlake_time_ms": START_MS + number, "runlake_generation": "g", "runlake_namespace": "svc",
            "runlake_app": f"flow{number % applications}", "runlake_program": "run",
        })
        for number in range(events)
    ]  # fmt: skip


def rolling(format_: str) -> tuple[RollingS3Handler, InMemoryDatabase]:
    """A handler over an empty bucket."""
    clock, database = ManualClock(START_MS), InMemoryDatabase()
    handler = RollingS3Handler("bench", format_)
    handler.use(HandlerContext(InMemoryObjectStore(clock), database, clock, "bench", lambda: None))
    if format_ == "text":
        handler.setFormatter(_LAYOUT)
    return handler, database


def commit(handler: RollingS3Handler, database: InMemoryDatabase) -> None:
    """Commit a checkpoint."""
    handler.flush()
    if writes := handler.pending_writes():
        database.transact(writes)
    handler.committed()


def plain_s(events: Sequence[logging.LogRecord]) -> float:
    """Seconds with ``logging.FileHandler``."""
    with tempfile.TemporaryDirectory() as folder:
        handler = logging.FileHandler(Path(folder) / "log")
        handler.setFormatter(_LAYOUT)
        started_s = time.process_time()
        for event in events:
            handler.handle(event)
        handler.flush()
        took_s = time.process_time() - started_s
        handler.close()
    return took_s


def rolling_s(events: Sequence[logging.LogRecord], format_: str) -> float:
    """Seconds with our handler."""
    handler, database = rolling(format_)
    started_s = time.process_time()
    for first in range(0, len(events), CHECKPOINT_EVENTS):
        for event in events[first : first + CHECKPOINT_EVENTS]:
            handler.handle(event)
        commit(handler, database)
    return time.process_time() - started_s


def memory(events_each: int) -> tuple[float, float]:
    """MiB of the handler with 10,000 applications: its peak between two checkpoints, and after them. The store's memory does not
    count: its objects are deleted by name."""
    handler, database = rolling("jsonl")
    batches = [records(APPLICATIONS, APPLICATIONS) for _ in range(events_each)]
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for batch in batches:
        for event in batch:
            handler.handle(event)
    peak = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    commit(handler, database)
    return peak / _MIB, len(handler._files)


def main() -> int:
    """Print a table. Exit code 1 if text is below 0.6 of ``FileHandler``."""
    events = records(EVENTS, 10)
    plain, ours = [], {format_: list[float]() for format_ in FORMATS}
    for _ in range(ROUNDS):
        plain.append(plain_s(events))
        for format_, times in ours.items():
            times.append(rolling_s(events, format_))
    print(f"logging.FileHandler: {EVENTS / min(plain):,.0f} events/s (median {EVENTS / statistics.median(plain):,.0f})")
    for format_, times in ours.items():
        share = min(plain) / min(times)
        middle = statistics.median(plain) / statistics.median(times)
        print(f"rolling {format_}: {EVENTS / min(times):,.0f} events/s, {share:.2f} of FileHandler (medians: {middle:.2f})")
    for each in (1, 10):
        held, kept = memory(each)
        print(f"{APPLICATIONS:,} applications, {each} events each: {held:.1f} MiB; {kept:,.0f} files known after the checkpoint")
    return 0 if min(plain) / min(ours["text"]) >= 0.6 else 1


if __name__ == "__main__":
    sys.exit(main())

"""Requests and bytes of reading a step's log in a large run, counted in memory.

``python -m bench.events [--run-mb 1024] [--step-mb 1]`` prints a JSON line for each distribution of the step's lines in the run.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from chalicelib.events.index import EventIndex
from chalicelib.events.indexing import EventIndexing
from chalicelib.events.sidecar import Sidecar, SidecarEntry
from chalicelib.events.snapshots import LogSnapshots
from chalicelib.events.step_log import StepLogs
from chalicelib.events.step_updates import StepUpdates
from chalicelib.events.tail import EventTails
from chalicelib.ports import Run, StoredObject
from chalicelib.runlog.artifact import artifact_metadata
from chalicelib.runlog.layout import Layout
from tests.support.clock import ManualClock
from tests.support.database import InMemoryDatabase
from tests.support.object_store import InMemoryObjectStore
from tests.support.segment_index import InMemorySegmentIndex

RUN = Run("bench.events", "run-1")
LINE = b"x" * 99 + b"\n"
MB = 1024 * 1024
BATCH_LINES = 1000
KIB = 1024
WAYS = {
    "contiguous": (MB, 0),
    "mixed, every fourth line another step's": (300, 100),
    "mixed, every second line another step's": (100, 100),
    "one line in eight": (100, 700),
    "one line in 150": (100, 14_900),
    "one line in 500": (100, 49_900),
    "runs of 16 KiB, 16 KiB of other steps between them": (16 * KIB, 16 * KIB),
    "runs of 16 KiB, 64 KiB of other steps between them": (16 * KIB, 64 * KIB),
    "in turn with another step's, 100 KB each": (100_000, 100_000),
}
"""Bytes of each run of the step's lines, and of the other lines between two runs."""


class _Counting(InMemoryObjectStore):
    """Counts the bytes of GET responses."""

    read_bytes = 0

    def get(self, key: str, start: int | None = None, end: int | None = None, *, if_match: str | None = None) -> StoredObject:
        response = super().get(key, start, end, if_match=if_match)
        self.read_bytes += len(response.body)
        return response


def step_sidecars(way: tuple[int, int], run_bytes: int, step_bytes: int) -> Iterator[Sidecar]:
    """Sidecars of a run in which a step of ``step_bytes`` at most starts in the middle, with its lines distributed in this way."""
    lines, remaining = run_bytes // len(LINE), step_bytes // len(LINE)
    own, others = (max(size // len(LINE), 0) for size in way)
    for first in range(0, lines, BATCH_LINES):
        events = []
        for line in range(first, min(first + BATCH_LINES, lines)):
            step = f"step-{first // BATCH_LINES // 10}"
            if line >= lines // 2 and remaining and (line - lines // 2) % (own + others) < own:
                step, remaining = "wanted", remaining - 1
            events.append(SidecarEntry(line, line * len(LINE), 1, len(LINE) - 1, line, id=line, step=step))
        size = len(events)
        yield Sidecar(first // BATCH_LINES, first, first * len(LINE), size, size * len(LINE), "w", "bench", 0, events)


def measure_step_reading(way: str, run_bytes: int, step_bytes: int) -> dict[str, Any]:
    """Requests and bytes of reading the step's log from beginning to end, for one distribution."""
    clock, layout = ManualClock(1_790_000_000_000), Layout()
    store, database, index_ = _Counting(clock), InMemoryDatabase(), InMemorySegmentIndex()
    index = EventIndex(database, clock, 86_400)
    indexing = EventIndexing(store, layout, index, StepUpdates(store, layout, index))
    number = 0
    for sidecar in step_sidecars(WAYS[way], run_bytes, step_bytes):
        # Ids of all events would be one range, read and written 10,000 times, which is not measured here.
        index.put(RUN, [replace(sidecar, writer="")])
        number += 1
    size = run_bytes // len(LINE) * len(LINE)
    metadata = artifact_metadata(size // len(LINE), size, number + 1, 1, "closed")
    store.put_repeated(layout.logs(RUN), LINE, size, metadata)
    clock.advance(3600)  # finalized some time ago
    snapshots = LogSnapshots(store, index_, layout)
    logs = StepLogs(snapshots, index, EventTails(snapshots, indexing, index, clock))
    store.calls.clear()
    database.calls.clear()
    database.read_bytes = store.read_bytes = 0
    started_s, answers, text_bytes, start = time.perf_counter(), 0, 0, 0
    while True:
        answer = logs.step_log(RUN, "wanted", start)
        answers, text_bytes, start = answers + 1, text_bytes + len(answer.text), answer.next
        if answer.complete:
            break
    requests = store.calls.total() + database.calls.total()
    return {
        "way": way,
        "run_mb": run_bytes // MB,
        "step_bytes": text_bytes,
        "answers": answers,
        "requests": requests,
        "s3_gets": store.calls["get"],
        "s3_bytes": store.read_bytes,
        "catalog_bytes": database.read_bytes,
        "seconds": round(time.perf_counter() - started_s, 3),
    }


def main() -> None:
    """Print the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run-mb", type=int, default=1024)
    parser.add_argument("--step-mb", type=float, default=1)
    parser.add_argument("--way", choices=WAYS)
    given = parser.parse_args()
    for way in WAYS:
        if given.way in (None, way):
            print(json.dumps(measure_step_reading(way, given.run_mb * MB, int(given.step_mb * MB))), flush=True)


if __name__ == "__main__":
    main()

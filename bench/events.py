"""Requests and bytes of reading a step's log in a large run, and of browsing a run of small batches, counted in memory.

``python -m bench.events [--run-mb 1024] [--step-mb 1]`` prints a JSON line for each distribution of the step's lines in the run.
``python -m bench.events --batches 10000`` prints one for each kind of page of an ended run, before and after its sidecars are bundled.
``--write`` stores both in docs/figures.json.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import replace
from io import StringIO
from typing import Any

from pydantic import SecretStr

from bench.figures import save
from bench.measure import Measure
from chalicelib import composition
from chalicelib.coordination import InMemoryPartitionStore, WorkSource
from chalicelib.deadline import Deadline
from chalicelib.events.bundling import SidecarBundler
from chalicelib.events.event import NewEvent
from chalicelib.events.event_view import EventFilter
from chalicelib.events.index import EventIndex
from chalicelib.events.indexing import EventIndexing
from chalicelib.events.sidecar import Sidecar, SidecarEntry
from chalicelib.events.snapshots import LogSnapshots
from chalicelib.events.step_log import StepLogs
from chalicelib.events.step_updates import StepUpdates
from chalicelib.events.tail import EventTails
from chalicelib.ports import Run, StoredObject
from chalicelib.runlog.artifact import artifact_metadata
from chalicelib.runlog.finalization import Finalizer
from chalicelib.runlog.layout import Layout
from chalicelib.runlog.log_end import list_all
from chalicelib.runlog.segment import CLOSED
from chalicelib.settings import Settings
from tests.support.clock import ManualClock
from tests.support.database import InMemoryDatabase
from tests.support.object_store import InMemoryObjectStore
from tests.support.run_catalog import InMemoryRunCatalog
from tests.support.segment_index import InMemorySegmentIndex

CODE = ("chalicelib/events", "chalicelib/runlog/log_snapshot.py", "chalicelib/runlog/reader.py")
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
    own, others = (size // len(LINE) for size in way)
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


def measure_browsing(batches: int) -> list[dict[str, Any]]:
    """Requests of pages of an ended run whose batches have one event each, every tenth of one step. Each page is read by a new process."""
    with redirect_stdout(StringIO()):  # the services print their metrics
        return list(_browsed(batches))


def _browsed(batches: int) -> Iterator[dict[str, Any]]:
    clock = ManualClock(1_790_000_000_000)
    store, database, index = _Counting(clock), InMemoryDatabase(), InMemorySegmentIndex()
    sources = InMemoryPartitionStore()
    runs, other = InMemoryRunCatalog(), InMemoryObjectStore(clock)
    ports = composition.Ports(store, other, index, runs, database, None, clock, lambda source: (sources, WorkSource(source)))
    settings = Settings(bucket_name="bucket", archive_bucket_name="archive", position_keys=SecretStr("0123456789abcdef"))
    services = composition.assemble(settings, ports)
    position: str | None = None
    for number in range(batches):
        event = NewEvent(message=f"event {number} of a small batch", step="tenth" if number % 10 == 0 else "other")
        position = services.events.log.append(RUN, [event], position=position).position
    services.writer.seal(RUN, CLOSED, services.writer.tails.find(RUN))
    finalizer = Finalizer(store, services.compactor, services.writer, clock)
    for _ in range(2):
        finalizer.compact_and_finalize(RUN, Deadline(clock))
        clock.advance(3600)
    for state in ("sidecars", "bundles"):
        if state == "bundles":
            SidecarBundler(store, services.layout, clock).bundle(RUN, Deadline(clock))
        objects = len(list(list_all(store, services.layout.events(RUN))))
        for page, step, limit in (("100 events", None, 100), ("1,000 events", None, 1000), ("100 events of a step", "tenth", 100)):
            store.calls.clear()
            database.calls.clear()
            store.read_bytes = pages = 0
            after: int | None = 0
            while after is not None:
                browser = composition.assemble(settings, ports).events.browser
                after = browser.page(RUN, EventFilter(step=step), after, limit).after
                pages += 1
            calls = {name: round(count / pages, 2) for name, count in sorted(store.calls.items())}
            size = store.read_bytes // pages
            yield {
                "state": state,
                "objects": objects,
                "page": page,
                "pages": pages,
                "s3_requests_a_page": calls,
                "s3_bytes_a_page": size,
            }


def rows_of_browsing(batches: int) -> Iterator[Measure]:
    """The rows of ``measure_browsing``."""
    for found in measure_browsing(batches):
        calls = found["s3_requests_a_page"]
        measured = f"{calls['get']:,} GETs and {calls['list']} LISTs, {found['s3_bytes_a_page'] / KIB:,.0f} KiB"
        what = f"a page of {found['page']}, run of {batches:,} batches of one event, in {found['objects']:,} {found['state']}"
        is_bundled = found["state"] == "bundles"
        is_reached = calls["get"] <= 2.2 if "step" not in found["page"] else calls["get"] <= 8
        goal = "one GET of events, but at borders of bundles" if is_bundled else ""
        yield Measure(what, goal, measured, is_reached if is_bundled else None)


def rows_of_steps(run_bytes: int, step_bytes: int) -> Iterator[Measure]:
    """The rows of ``measure_step_reading``."""
    for way, (own, _) in WAYS.items():
        found = measure_step_reading(way, run_bytes, step_bytes)
        ratio = found["s3_bytes"] / found["step_bytes"]
        measured = (
            f"{ratio:.2f} times its {found['step_bytes'] / MB:.2f} MiB, {found['s3_gets']} GETs in {found['answers']} responses"
        )
        is_reached = found["s3_bytes"] <= 2 * found["step_bytes"] + MB if own >= 16 * KIB else None
        yield Measure(f"the log of a step, {way}", "at most twice, and 1 MiB" if own >= 16 * KIB else "", measured, is_reached)


def main() -> None:
    """Print the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run-mb", type=int, default=1024)
    parser.add_argument("--step-mb", type=float, default=1)
    parser.add_argument("--way", choices=WAYS)
    parser.add_argument("--batches", type=int, default=0)
    parser.add_argument(
        "--write", action="store_true", help="store the rows in docs/figures.json; then run python -m docs.generate"
    )
    given = parser.parse_args()
    if given.write:
        save(list(rows_of_browsing(given.batches or 10_000)), "events", "pages_of_events", CODE)
        save(list(rows_of_steps(64 * MB, MB)), "events", "step_logs", CODE)
        return
    if given.batches:
        for row in measure_browsing(given.batches):
            print(json.dumps(row), flush=True)
        return
    for way in WAYS:
        if given.way in (None, way):
            print(json.dumps(measure_step_reading(way, given.run_mb * MB, int(given.step_mb * MB))), flush=True)


if __name__ == "__main__":
    main()

"""Requests and bytes of reading a step's log in a large run, and of browsing a run of small batches, counted in memory.

``python -m bench.events`` prints rows for pages of an ended run, before and after its sidecars are bundled, and for two distributions of a
step's lines in a run; ``--write`` stores them in docs/figures.json.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import replace
from io import StringIO
from typing import Any

from pydantic import SecretStr

from bench.figures import print_rows, save
from bench.measure import Measure, reported
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
_PUBLISHED = ("one line in 150", "runs of 16 KiB, 16 KiB of other steps between them")


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
    store.read_bytes = 0
    answers = text_bytes = start = 0
    while True:
        answer = logs.step_log(RUN, "wanted", start)
        answers, text_bytes, start = answers + 1, text_bytes + len(answer.text), answer.next
        if answer.complete:
            break
    return {"step_bytes": text_bytes, "answers": answers, "s3_gets": store.calls["get"], "s3_bytes": store.read_bytes}


def rows_of_browsing(batches: int) -> list[Measure]:
    """Requests of pages of an ended run whose batches have one event each. Each page is read by a new process."""
    with redirect_stdout(StringIO()):  # the services print their metrics
        return list(_browsed(batches))


def _browsed(batches: int) -> Iterator[Measure]:
    clock = ManualClock(1_790_000_000_000)
    store, database, index = _Counting(clock), InMemoryDatabase(), InMemorySegmentIndex()
    sources = InMemoryPartitionStore()
    runs, other = InMemoryRunCatalog(), InMemoryObjectStore(clock)
    ports = composition.Ports(store, other, index, runs, database, None, clock, lambda source: (sources, WorkSource(source)))
    settings = Settings(bucket_name="bucket", archive_bucket_name="archive", position_keys=SecretStr("0123456789abcdef"))
    services = composition.assemble(settings, ports)
    position: str | None = None
    for number in range(batches):
        event = NewEvent(message=f"event {number} of a small batch", step="load")
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
        store.calls.clear()
        store.read_bytes = pages = 0
        after: int | None = 0
        while after is not None:
            browser = composition.assemble(settings, ports).events.browser
            after = browser.page(RUN, EventFilter(), after, 100).after
            pages += 1
        gets, lists = (round(store.calls[name] / pages, 2) for name in ("get", "list"))
        what = f"a page of 100 events, run of {batches:,} batches of one event, in {objects:,} {state}"
        measured = f"{gets:,} GETs and {lists} LISTs, {store.read_bytes // pages / KIB:,.0f} KiB"
        if state == "bundles":
            yield Measure(what, "one GET of events, but at borders of bundles", measured, gets <= 2.2)
        else:
            yield reported(what, measured)


def rows_of_steps(run_bytes: int, step_bytes: int) -> Iterator[Measure]:
    """The log of a step, in the published distributions of its lines."""
    for way in _PUBLISHED:
        own, found = WAYS[way][0], measure_step_reading(way, run_bytes, step_bytes)
        ratio = found["s3_bytes"] / found["step_bytes"]
        measured = (
            f"{ratio:.2f} times its {found['step_bytes'] / MB:.2f} MiB, {found['s3_gets']} GETs in {found['answers']} responses"
        )
        is_reached = found["s3_bytes"] <= 2 * found["step_bytes"] + MB if own >= 16 * KIB else None
        yield Measure(f"the log of a step, {way}", "at most twice, and 1 MiB" if own >= 16 * KIB else "", measured, is_reached)


def main() -> int:
    """Exit code 1 if a goal was missed."""
    parser = argparse.ArgumentParser(prog="python -m bench.events", description=__doc__)
    parser.add_argument(
        "--write", action="store_true", help="store the rows in docs/figures.json; then run python -m docs.generate"
    )
    given = parser.parse_args()
    pages, steps = rows_of_browsing(10_000), list(rows_of_steps(64 * MB, MB))
    if given.write:
        save(pages, "events", "pages_of_events", CODE)
        save(steps, "events", "step_logs", CODE)
    return print_rows([*pages, *steps])


if __name__ == "__main__":
    sys.exit(main())

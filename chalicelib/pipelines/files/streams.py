"""The events of one file in order of time, however the file lies: in bounded memory, and in pieces."""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from chalicelib.errors import RangeNotSatisfiableError
from chalicelib.pipelines.files.formats import format_named
from chalicelib.pipelines.files.records import FileEvent
from chalicelib.pipelines.files.rows import FileRow
from chalicelib.ports import ObjectStore

CHUNK_BYTES = 1024 * 1024
MAX_DISORDERED = 100_000
"""So many events wait for earlier ones that may stand behind them; with more, some come out too late."""


def chunks_of(store: ObjectStore, key: str, size: int, chunk_bytes: int = CHUNK_BYTES) -> Iterator[bytes]:
    """The first ``size`` bytes of an object, a GET for each piece. What is behind them was written and never committed."""
    for start in range(0, size, chunk_bytes):
        end = min(start + chunk_bytes, size)
        body = store.get(key, start, end).body
        yield body
        if len(body) < end - start:
            raise RangeNotSatisfiableError(f"the object is shorter than its row says key={key} bytes={start + len(body)}")


def events_of(store: ObjectStore, row: FileRow) -> Iterator[FileEvent]:
    """A file's events as they stand. Raises DamagedLogError, ObjectNotFoundError, RangeNotSatisfiableError, InvalidConfigurationError
    (the format's library is not here), UnavailableError."""
    chunks = chunks_of(store, row.object_key, row.contents.size)
    return format_named(row.format).read(chunks, row.contents.from_ms)


def ordered(events: Iterator[FileEvent], disorder_ms: int) -> Iterator[FileEvent]:
    """Events that are out of order by no more than a time, in order. Memory: those of that time."""
    if not disorder_ms:
        yield from events
        return
    waiting: list[tuple[int, int, FileEvent]] = []
    latest = 0
    for number, event in enumerate(events):
        heapq.heappush(waiting, (event.time, number, event))
        latest = max(latest, event.time)
        while waiting and (waiting[0][0] < latest - disorder_ms or len(waiting) > MAX_DISORDERED):
            yield heapq.heappop(waiting)[2]
    while waiting:
        yield heapq.heappop(waiting)[2]

"""The events of one file in order of time, in any format: in bounded memory, and in chunks."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from itertools import chain

from chalicelib.errors import RangeNotSatisfiableError
from chalicelib.pipelines.files.formats import format_named
from chalicelib.pipelines.files.records import FileEvent
from chalicelib.pipelines.files.rows import FileRow
from chalicelib.ports import ObjectStore

CHUNK_BYTES = 1024 * 1024
MAX_DISORDERED = 100_000
"""The number of events that wait for earlier ones; with more, some are returned out of order."""


def chunks_of(store: ObjectStore, key: str, first: int, size: int) -> Iterator[bytes]:
    """Bytes [``first``, ``size``) of an object, a GET for each chunk. Bytes after them were never committed."""
    for start in range(first, size, CHUNK_BYTES):
        end = min(start + CHUNK_BYTES, size)
        body = store.get(key, start, end).body
        yield body
        if len(body) < end - start:
            raise RangeNotSatisfiableError(f"the object is shorter than its committed size key={key} bytes={start + len(body)}")


def events_of(store: ObjectStore, row: FileRow, from_ms: int = 0) -> Iterator[FileEvent]:
    """A file's events in file order; as few as possible of those before ``from_ms``.

    Raises DamagedLogError, ObjectNotFoundError, RangeNotSatisfiableError, InvalidConfigurationError (the format's library is not
    installed), UnavailableError."""
    format_ = format_named(row.format)
    time_ms, first = row.contents.start(from_ms) if format_.grows else (row.contents.from_ms, 0)
    chunks = chunks_of(store, row.object_key, first, row.contents.size)
    return format_.read(chain([format_.header], chunks) if first else chunks, time_ms)


def ordered(events: Iterator[FileEvent], disorder_ms: int) -> Iterator[FileEvent]:
    """Sort events that are out of order by at most ``disorder_ms``. Memory: the events of that time."""
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

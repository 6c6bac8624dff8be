"""The work of one task: reads its slices in order, and prefetches the objects of the next small ones."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from pyarrow import RecordBatch
from pyspark.sql.datasource import InputPartition

from chalicelib.errors import RangeNotSatisfiableError, StoreConditionError
from chalicelib.ports import ObjectStore
from chalicelib.read_ahead import ReadAhead
from chalicelib.runlog.layout import Layout
from glue_jobs.datasource.batches import batches_of
from glue_jobs.datasource.clients import THREADS
from glue_jobs.datasource.column_reading import can_read_columns, column_batches
from glue_jobs.datasource.content import AHEAD_BYTES, AHEAD_REQUESTS, CHUNK_BYTES, FIRST_BYTES, Chunk, Content
from glue_jobs.datasource.problems import Problem, Problems
from glue_jobs.datasource.reading import ReadSpec, Row, check, open_slice, rows_of
from glue_jobs.datasource.schema import EVENTS
from glue_jobs.datasource.slices import Slice

_Loading = tuple[Slice, Content, list[Future[Chunk | None]], int]


@dataclass
class Slices(InputPartition):
    """A task's work. ``problems``: found by the planner; the first task of a read with ``rows=problems`` returns them."""

    slices: tuple[Slice, ...]
    problems: tuple[Problem, ...] = ()


class Task:
    """Reads slices. Memory: 32 MiB of prefetched objects, one chunk of 8 MiB, and a batch."""

    def __init__(self, store: ObjectStore, spec: ReadSpec) -> None:
        self.problems = Problems(spec.options.is_strict)
        self._store, self._spec = store, spec
        self._layout = Layout(spec.options.prefix)

    def batches(self, slices: Sequence[Slice], columns: Sequence[str]) -> Iterator[RecordBatch]:
        """The events of slices, in order, with some columns."""
        return batches_of(self._events(slices, columns), columns, EVENTS)

    def _events(self, slices: Sequence[Slice], columns: Sequence[str]) -> Iterator[Row | RecordBatch]:
        with ReadAhead(THREADS) as threads:
            for part, content in self._loaded(slices, threads):
                opened = open_slice(content, part, self._spec)
                if opened is not None:
                    yield from column_batches(opened, columns) if can_read_columns(opened) else rows_of(opened)
        self.problems.end()

    def check(self, slices: Sequence[Slice]) -> Iterator[Problem]:
        """The problems of slices."""
        for part in slices:
            check(self._content(part), part)
            yield from self.problems.reported
            self.problems.reported.clear()

    def _content(self, part: Slice) -> Content:
        return Content(self._store, self._layout, part.run, part.base, part.pieces, self.problems, part.sidecars)

    def _loaded(self, slices: Sequence[Slice], threads: ReadAhead) -> Iterator[tuple[Slice, Content]]:
        """Slices with their content, which is prefetched for small ones."""
        ahead: deque[_Loading] = deque()
        waiting = iter(slices)
        while True:
            while (
                sum(loading[3] for loading in ahead) < AHEAD_BYTES
                and sum(len(loading[2]) + 1 for loading in ahead) < AHEAD_REQUESTS
            ):
                part = next(waiting, None)
                if part is None:
                    break
                ahead.append(self._start(part, threads))
            if not ahead:
                return
            part, content, futures, _ = ahead.popleft()
            self._finish(content, futures)
            yield part, content

    def _start(self, part: Slice, threads: ReadAhead) -> _Loading:
        content = self._content(part)
        first, end = part.first_byte, part.end.byte
        if self._spec.selection.to_us is not None or self._spec.selection.end_line is not None:
            end = min(end, first + FIRST_BYTES)  # the read may end early
        elif part.bytes > CHUNK_BYTES:
            return part, content, [], 0
        futures = [threads.submit(content.fetch, request) for request in content.requests(first, end)]
        futures += [threads.submit(content.sidecars.prefetch, number) for number in content.sidecars.likely(first, end)]
        return part, content, futures, end - first

    @staticmethod
    def _finish(content: Content, futures: Sequence[Future[Chunk | None]]) -> None:
        try:
            chunks = [future.result() for future in futures]
        except (StoreConditionError, RangeNotSatisfiableError):
            return  # an object is gone: Content locates the bytes again
        content.use_prefetched([chunk for chunk in chunks if chunk is not None])

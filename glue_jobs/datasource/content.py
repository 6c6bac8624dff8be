"""The bytes of one run's log from the objects that currently hold them, with their origin.

Reads follow the planned pieces. If one of their objects is gone or was replaced, the run is listed again and the same bytes are
read from their new object.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from itertools import chain, islice
from typing import NamedTuple

from chalicelib.catalog.runs import RUNNING, outcome_of_end
from chalicelib.errors import (
    DamagedLogError,
    ObjectNotFoundError,
    RangeNotSatisfiableError,
    StoreConditionError,
    StoreUnavailableError,
)
from chalicelib.ports import UNKNOWN, ObjectStore, Run, StoredObject
from chalicelib.read_ahead import ReadAhead
from chalicelib.runlog.layout import Layout
from chalicelib.runlog.segment import SEAL, end_of, entry_of
from chalicelib.runlog.zone import ZONE
from glue_jobs.datasource.clients import THREADS
from glue_jobs.datasource.listing import objects_of
from glue_jobs.datasource.log import ArtifactPiece, Literal, MissingSegments, Piece, Resolver, SegmentChain
from glue_jobs.datasource.objects import NO_SIDECARS, ListedSidecars
from glue_jobs.datasource.options import MIB
from glue_jobs.datasource.problems import GONE, METADATA, MISSING, Problems
from glue_jobs.datasource.sidecars import Sidecars

CHUNK_BYTES = 8 * MIB
FIRST_BYTES = 32 * 1024
"""Size of the first of growing chunks, for reads that may end early: enough to detect a format."""
AHEAD_BYTES, AHEAD_REQUESTS = 32 * MIB, 64
_TRIES = 5
_FIRST_EPOCH = 1


class Origin(NamedTuple):
    """The source of bytes; None: the object doesn't show it."""

    segment: int | None
    connector: str | None
    epoch: int | None


class Chunk(NamedTuple):
    """Bytes from ``start`` on. ``stored``: their first line and byte by the metadata of their segment."""

    start: int
    body: bytes
    origin: Origin
    stored: tuple[int, int] | None = None

    @property
    def end(self) -> int:
        """The byte after the last."""
        return self.start + len(self.body)


class Request(NamedTuple):
    """One GET: bytes [first, last) of an object, which begin at byte ``start`` of the log."""

    key: str
    etag: str | None
    first: int
    last: int
    start: int
    segment: int | None


class Content:
    """One run's log, read in any order. ``pieces`` may be a part of it: other bytes are located when they are read. ``sidecars``:
    see ``RunObjects``. ``zone``: the run's, known once bytes were read; empty: none was stated."""

    def __init__(
        self,
        store: ObjectStore,
        layout: Layout,
        run: Run,
        base: str,
        pieces: Sequence[Piece],
        problems: Problems,
        sidecars: ListedSidecars = NO_SIDECARS,
    ) -> None:
        self.run, self.problems, self.zone = run, problems, ""
        self._store, self._layout, self._base = store, layout, base
        self.sidecars = Sidecars(store, run, base, sidecars, pieces, problems)
        self._pieces = pieces
        self._prefetched: Sequence[Chunk] = ()
        self._outcome = ""

    def outcome(self, seal: int | None) -> str:
        """The run's outcome: from the seal with this number (a HEAD); None: from the ``logs.txt`` that was read."""
        if seal is None:
            return self._outcome or UNKNOWN
        try:
            info = self._store.head(f"{self._base}segments/{seal:010d}")
            entry = entry_of(seal, info.metadata, info.size)
        except (ObjectNotFoundError, DamagedLogError):
            return UNKNOWN
        return outcome_of_end(entry.reason, entry.end) if entry.kind == SEAL else RUNNING

    def requests(self, start: int, end: int, *, growing: bool = False) -> Iterator[Request | Literal | MissingSegments]:
        """Requests for bytes [start, end), up to the first gap of the pieces."""
        at, size = start, FIRST_BYTES if growing else CHUNK_BYTES
        for piece in self._from(start):
            if isinstance(piece, MissingSegments):
                if piece.start <= at and (start < piece.start or start == 0):
                    yield piece
                continue
            if at >= end or piece.start > at:
                return
            if isinstance(piece, Literal):
                yield piece
            elif isinstance(piece, ArtifactPiece):
                for first in _steps(at, min(end, piece.end), size, growing=growing):
                    last = min(end, piece.end, first + size)
                    yield Request(piece.key, piece.etag, first - piece.start, last - piece.start, first, None)
                    size = min(2 * size, CHUNK_BYTES) if growing else size
            else:
                yield from _of_chain(piece, at, end)
            at = min(piece.end, end)

    def use_prefetched(self, chunks: Sequence[Chunk]) -> None:
        """Consecutive chunks that later reads use instead of requests."""
        self._prefetched = chunks

    def read(self, start: int, end: int) -> bytes:
        """Bytes [start, end); fewer if the log is shorter."""
        return b"".join(chunk.body for chunk in self.chunks(start, end)) if start < end else b""

    def chunks(self, start: int, end: int, *, growing: bool = False) -> Generator[Chunk, None, None]:
        """Bytes [start, end) in order. ``growing``: start with small chunks, for reads that may end early."""
        at, tries = start, 0
        if self._prefetched and self._prefetched[0].start <= start < self._prefetched[-1].end:
            yield from _cut_chunks(self._prefetched, start, end)
            at = min(end, self._prefetched[-1].end)
        while at < end:
            try:
                for chunk in self._fetched(self.requests(at, end, growing=growing), 1 if growing else AHEAD_REQUESTS):
                    yield chunk
                    at, tries = chunk.end, 0
            except (StoreConditionError, RangeNotSatisfiableError) as error:
                tries += 1
                if tries > _TRIES:
                    raise StoreUnavailableError(
                        f"the run keeps changing run={self.run.fqn}/{self.run.run_id} last={error}"
                    ) from error
            if at < end and not self._look_anew(at):
                self.problems.report(self.run, GONE, self._base, f"planned bytes are in no object first={at} end={end}")
                return

    def fetch(self, request: Request | Literal | MissingSegments) -> Chunk | None:
        """The chunk of a request; None for missing segments."""
        if isinstance(request, Literal):
            return Chunk(request.start, request.body, Origin(None, None, None))
        if isinstance(request, MissingSegments):
            numbers = f"first={request.first} last={request.until - 1}"
            self.problems.report(self.run, MISSING, f"{self._base}segments/{request.first:010d}", f"segments are missing {numbers}")
            return None
        answer = self._store.get(request.key, request.first, request.last, if_match=request.etag)
        self.zone = answer.info.metadata.get(ZONE, self.zone)
        if len(answer.body) != request.last - request.first:
            raise RangeNotSatisfiableError(f"the object is shorter than it was key={request.key}")
        return self._of_artifact(request, answer) if request.segment is None else self._of_segment(request, answer)

    def _of_artifact(self, request: Request, answer: StoredObject) -> Chunk:
        metadata = answer.info.metadata
        said = metadata.get("total-bytes")
        if request.first == 0 and said is not None and said != str(answer.info.size):
            self.problems.report(
                self.run, METADATA, request.key, f"the object differs from its metadata size={answer.info.size} expected={said}"
            )
        if metadata.get("reason"):
            with suppress(ValueError):
                self._outcome = outcome_of_end(metadata["reason"], end_of(metadata))
        # An artifact has the epoch of its last line, so only the first epoch is certainly that of all lines.
        epoch = _FIRST_EPOCH if metadata.get("writer-epoch") == str(_FIRST_EPOCH) else None
        return Chunk(request.start, answer.body, Origin(None, None, epoch))

    def _of_segment(self, request: Request, answer: StoredObject) -> Chunk:
        assert request.segment is not None
        try:
            entry = entry_of(request.segment, answer.info.metadata, answer.info.size)
        except DamagedLogError as error:
            self.problems.report(self.run, METADATA, request.key, str(error))
            return Chunk(request.start, answer.body, Origin(request.segment, None, None))
        origin = Origin(request.segment, entry.connector or None, entry.epoch)
        return Chunk(request.start, answer.body, origin, (entry.line, entry.byte) if request.first == 0 else None)

    def _fetched(self, requests: Iterable[Request | Literal | MissingSegments], width: int) -> Iterator[Chunk]:
        """Chunks in order, some fetched ahead of the reader."""
        waiting = iter(requests)
        first = list(islice(waiting, min(width, 2)))
        if len(first) < 2:
            yield from filter(None, map(self.fetch, chain(first, waiting)))
            return
        with ReadAhead(THREADS) as threads:
            running: deque[tuple[Future[Chunk | None], int]] = deque()
            waiting = chain(first, waiting)
            while True:
                while len(running) < width and sum(size for _, size in running) < AHEAD_BYTES:
                    request = next(waiting, None)
                    if request is None:
                        break
                    size = request.last - request.first if isinstance(request, Request) else 0
                    running.append((threads.submit(self.fetch, request), size))
                if not running:
                    return
                chunk = running.popleft()[0].result()
                if chunk is not None:
                    yield chunk

    def _look_anew(self, at: int) -> bool:
        """Whether the run has this byte after another listing."""
        resolver = Resolver(self._store, self._layout, self.problems)
        try:
            self._pieces = resolver.log_of(objects_of(self._store, self._layout, self.run, self._base)).pieces
        except StoreConditionError:
            return True  # it changed between two requests: the next attempt lists it again
        return any(piece.start <= at < piece.end for piece in self._pieces)

    def _from(self, start: int) -> Sequence[Piece]:
        """The pieces from the one that has a byte."""
        for index, piece in enumerate(self._pieces):
            if piece.start <= start < piece.end or (start == 0 and isinstance(piece, MissingSegments)):
                return self._pieces[index:]
        return ()


def _of_chain(piece: SegmentChain, start: int, end: int) -> Iterator[Request]:
    for index in range(*piece.holding(start, end)):
        first, size = piece.starts[index], piece.sizes[index]
        key = f"{piece.base}segments/{piece.first + index:010d}"
        for at in range(max(start, first), min(end, first + size), CHUNK_BYTES):
            last = min(end, first + size, at + CHUNK_BYTES)
            yield Request(key, None, at - first, last - first, at, piece.first + index)


def _steps(start: int, end: int, size: int, *, growing: bool) -> Iterator[int]:
    """Starts of chunks, of a fixed or a doubling size."""
    while start < end:
        yield start
        start += size
        size = min(2 * size, CHUNK_BYTES) if growing else size


def _cut_chunks(chunks: Sequence[Chunk], start: int, end: int) -> Iterator[Chunk]:
    for chunk in chunks:
        first, last = max(start, chunk.start), min(end, chunk.end)
        if first < last:
            body = chunk.body[first - chunk.start : last - chunk.start]
            yield Chunk(first, body, chunk.origin, chunk.stored if first == chunk.start else None)

"""Assigns runs to tasks by bytes: many small runs to one task, one large run to many, never a task for each segment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

from chalicelib.errors import RangeNotSatisfiableError, StoreConditionError
from chalicelib.ports import ObjectStore, Run, SegmentEntry, SegmentIndex
from glue_jobs.datasource.clients import THREADS
from glue_jobs.datasource.log import ArtifactPiece, Log, Piece, SegmentChain, cut, objects_in
from glue_jobs.datasource.options import MIB
from glue_jobs.datasource.slices import BACK, BACK_BYTES, CUT, SAMPLE_BYTES, TAIL, TAIL_BYTES, Edge, Slice

OBJECT_BYTES = 32 * 1024
"""Cost of opening an object, as bytes: a GET takes about as long as reading this many."""
_LOOK_BEHIND_BYTES = 64 * 1024
_COUNT_BYTES = 8 * MIB
_STEPS = 4
_SAMPLE_SEGMENTS = 16


def sample_of(log: Log) -> int:
    """Size of a log's first bytes that needs few requests."""
    first = log.pieces[0] if log.pieces else None
    return min(SAMPLE_BYTES, sum(first.sizes[:_SAMPLE_SEGMENTS])) if isinstance(first, SegmentChain) else SAMPLE_BYTES


class LogSlicer:
    """Cuts logs into slices of about ``bytes_per_task``."""

    def __init__(self, store: ObjectStore, index: SegmentIndex | None, bytes_per_task: int) -> None:
        self._store, self._index, self._bytes = store, index, bytes_per_task

    def slices(
        self, log: Log, start: Edge, end: Edge, until: Edge | None = None, *, format: str = "", sample_bytes: int = SAMPLE_BYTES
    ) -> list[Slice]:
        """The slices of a log between two edges. A long part is cut between segments, or at bytes of an artifact whose line
        number is known.

        Line numbers in an artifact take a query or two of the catalog for each cut; without a catalog, one read of the artifact.
        """
        if start.byte > end.byte or (start.byte == end.byte and start.kind != TAIL):
            return []
        edges = [start, *self._cuts(log, start, end), end]
        return [self._slice(log, first, last, until or end, format, sample_bytes) for first, last in pairwise(edges)]

    def _slice(self, log: Log, start: Edge, end: Edge, until: Edge, format: str, sample_bytes: int) -> Slice:
        lead = start.byte
        if start.kind in (TAIL, BACK):
            lead = max(start.floor, start.byte - (TAIL_BYTES if start.kind == TAIL else BACK_BYTES))
        elif start.kind == CUT and start.line is not None:
            lead = max(start.byte - 1, 0)
        pieces = cut(log.pieces, lead, min(end.byte + (_LOOK_BEHIND_BYTES if end.kind == CUT else 0), log.end))
        sample = min(sample_bytes, until.byte)
        if lead > 0 and not format:
            known = {id(piece) for piece in pieces}
            pieces = tuple(piece for piece in cut(log.pieces, 0, sample) if id(piece) not in known) + pieces
        return Slice(
            log.run, log.base, start, end, until, pieces, log.reference_s, format, sample, log.sidecars, log.outcome, log.seal
        )

    def _cuts(self, log: Log, start: Edge, end: Edge) -> list[Edge]:
        cost = cost_of(log.pieces, start.byte, end.byte)
        count = cost // self._bytes + (cost % self._bytes > self._bytes // 2)
        if count < 2:
            return []
        cuts: list[Edge] = []
        for piece in log.pieces:
            inside = (max(piece.start, start.byte), min(piece.end, end.byte))
            if inside[0] >= inside[1]:
                continue
            if cuts or piece.start > start.byte:
                cuts += [Edge(piece.start, None, CUT)] if isinstance(piece, SegmentChain) else []
            if isinstance(piece, SegmentChain):
                cuts += self._cuts_of_chain(piece, *inside)
            elif isinstance(piece, ArtifactPiece):
                cuts += self._cuts_of_artifact(log, piece, start, *inside)
        return _thinned(log, cuts, start, end, self._bytes)

    def _cuts_of_chain(self, piece: SegmentChain, start: int, end: int) -> Iterator[Edge]:
        """A cut after every ``bytes_per_task``, with the cost of objects included."""
        gathered = 0
        for first, size in zip(piece.starts, piece.sizes, strict=True):
            if not size or first + size <= start:
                continue
            if first >= end:
                return
            if gathered and gathered + size + OBJECT_BYTES > self._bytes and first > start:
                yield Edge(first, None, CUT)
                gathered = 0
            gathered += size + OBJECT_BYTES

    def _cuts_of_artifact(self, log: Log, piece: ArtifactPiece, start: Edge, first: int, end: int) -> list[Edge]:
        count = (end - first) // self._bytes + ((end - first) % self._bytes > self._bytes // 2)
        targets = [first + (end - first) * number // count for number in range(1, count)]
        if not targets:
            return []
        if self._index is not None and (cuts := self._known_cuts(log, piece, targets)):
            return cuts
        if first == start.byte and start.line is not None and start.kind != CUT:
            lines = start.line
        elif first == 0:
            lines = 0
        else:
            return []
        try:
            return self._counted(piece, first, lines, targets)
        except (StoreConditionError, RangeNotSatisfiableError):
            return []  # the object was replaced: the task locates the bytes, uncut

    def _known_cuts(self, log: Log, piece: ArtifactPiece, targets: Sequence[int]) -> list[Edge]:
        """Cuts at segment rows near the target bytes, found by interpolation. At most four queries for each."""
        assert self._index is not None
        last = self._index.last(log.run)
        if last is None or last.end_byte < piece.end:
            return []
        cuts: list[Edge] = []
        for byte in targets:
            row = self._row_near(log.run, byte, last)
            if row is None:
                return []
            if (cuts[-1].byte if cuts else 0) < row.byte < piece.end:
                cuts.append(Edge(row.byte, row.line, CUT))
        return cuts

    def _row_near(self, run: Run, byte: int, last: SegmentEntry) -> SegmentEntry | None:
        assert self._index is not None
        low, high = (0, 0), (last.end_line, last.end_byte)
        row: SegmentEntry | None = None
        for _ in range(_STEPS):
            share = (byte - low[1]) / max(high[1] - low[1], 1)
            row = self._index.at_line(run, low[0] + int((high[0] - low[0]) * share))
            if row is None or row.byte <= byte < row.end_byte or abs(row.byte - byte) < self._bytes // 8:
                return row
            low, high = ((row.end_line, row.end_byte), high) if row.byte < byte else (low, (row.line, row.byte))
        return row

    def _counted(self, piece: ArtifactPiece, first: int, lines: int, targets: Sequence[int]) -> list[Edge]:
        """Cuts at the target bytes, with lines counted by one complete read. Memory: 8 MiB for each of 16 threads."""
        bounds = sorted({*range(first, targets[-1], _COUNT_BYTES), first, *targets})

        def count(part: tuple[int, int]) -> int:
            got = self._store.get(piece.key, part[0] - piece.start, part[1] - piece.start, if_match=piece.etag)
            return got.body.count(b"\n")

        cuts: list[Edge] = []
        with ThreadPoolExecutor(THREADS) as threads:
            parts = list(pairwise(bounds))
            for (_, end), ended in zip(parts, threads.map(count, parts), strict=True):
                lines += ended
                if end in targets:
                    cuts.append(Edge(end, lines, CUT))
        return cuts


def cost_of(pieces: Iterable[Piece], start: int, end: int) -> int:
    """Bytes to read, plus the cost of opening objects."""
    return end - start + objects_in(pieces, start, end) * OBJECT_BYTES


def _thinned(log: Log, edges: Sequence[Edge], start: Edge, end: Edge, most: int) -> list[Edge]:
    """Without cuts between slices that are together small enough for one."""
    cuts: list[Edge] = []
    for edge, following in pairwise([*edges, end]):
        before = cuts[-1].byte if cuts else start.byte
        if edge.byte <= before or edge.byte >= end.byte:
            continue
        if cost_of(log.pieces, before, following.byte) > most:
            cuts.append(edge)
    return cuts


def packed(slices: Iterable[Slice], bytes_per_task: int) -> Iterator[list[Slice]]:
    """Consecutive slices grouped into tasks."""
    gathered: list[Slice] = []
    size = 0
    for part in slices:
        cost = cost_of(part.pieces, part.start.byte, part.end.byte)
        if gathered and size + cost > bytes_per_task:
            yield gathered
            gathered, size = [], 0
        gathered.append(part)
        size += cost
    if gathered:
        yield gathered

"""A run's log as bytes [0, ``end``), and the objects that currently hold them.

The bytes are immutable, the objects are not: segments become partial.txt, which becomes logs.txt, and compacted segments are
deleted. So a read is planned in bytes; if an object is gone, the reader locates the same bytes again.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from chalicelib.catalog.runs import RUNNING
from chalicelib.errors import DamagedLogError, ObjectNotFoundError
from chalicelib.ports import ObjectStore, Run, SegmentEntry
from chalicelib.runlog.artifact import Artifact, artifact_of
from chalicelib.runlog.layout import Layout
from chalicelib.runlog.legacy import find_legacy
from chalicelib.runlog.segment import entry_of
from glue_jobs.datasource.objects import NO_SIDECARS, Listed, ListedSidecars, RunObjects, SegmentRange
from glue_jobs.datasource.options import FINALIZED, OPEN, SEALED
from glue_jobs.datasource.problems import METADATA, MISSING, Problems


@dataclass(frozen=True, slots=True)
class ArtifactPiece:
    """An object with bytes [``start``, ``end``) of the log: partial.txt or logs.txt. ``offset``: where they begin in it."""

    key: str
    etag: str
    start: int
    end: int
    offset: int = 0


class SegmentChain:
    """Consecutive segments from number ``first`` on, with bytes [``start``, ``end``) of the log."""

    __slots__ = ("_starts", "base", "end", "first", "sizes", "start")

    def __init__(self, base: str, first: int, start: int, sizes: array[int]) -> None:
        self.base, self.first, self.start, self.sizes = base, first, start, sizes
        self.end = start + sum(sizes)
        self._starts: array[int] | None = None

    @property
    def starts(self) -> array[int]:
        """The first byte of each segment in the log."""
        if self._starts is None:
            self._starts = array("q", accumulate(self.sizes[:-1], initial=self.start))
        return self._starts

    def holding(self, start: int, end: int) -> tuple[int, int]:
        """The segments that have bytes [start, end), by index [first, last)."""
        first = max(bisect_right(self.starts, start) - 1, 0)
        return first, max(bisect_left(self.starts, end), first)

    def part(self, first: int, last: int) -> SegmentChain:
        """The segments with index [first, last)."""
        return SegmentChain(self.base, self.first + first, self.starts[first], self.sizes[first:last])

    def __reduce__(self) -> tuple[type[SegmentChain], tuple[str, int, int, array[int]]]:
        return SegmentChain, (self.base, self.first, self.start, self.sizes)


@dataclass(frozen=True, slots=True)
class Literal:
    """Bytes without an object: the newline that OpenMetadata's logs lack."""

    start: int
    body: bytes

    @property
    def end(self) -> int:
        """The byte after the last, in the log."""
        return self.start + len(self.body)


@dataclass(frozen=True, slots=True)
class MissingSegments:
    """Missing segments. Byte positions do not count their bytes."""

    start: int
    first: int
    until: int

    @property
    def end(self) -> int:
        """The same as ``start``, as it has no bytes."""
        return self.start


Piece = ArtifactPiece | SegmentChain | Literal | MissingSegments


@dataclass(frozen=True, slots=True)
class Log:
    """``pieces`` in order, from byte 0. ``artifact``: metadata of the first one, if it was requested.

    ``status`` as in the catalog: open, sealed or finalized. ``reference_s``: about when it was written. ``sidecars``: see
    ``RunObjects``. ``outcome`` of the run, as in the catalog; empty: read it from the seal. ``seal``: the number of the seal;
    None: read it from ``logs.txt``.
    """

    run: Run
    base: str
    pieces: tuple[Piece, ...]
    status: str
    reference_s: int
    artifact: Artifact | None = None
    sidecars: ListedSidecars = NO_SIDECARS
    outcome: str = ""
    seal: int | None = None

    @property
    def end(self) -> int:
        """Bytes of the log."""
        return self.pieces[-1].end if self.pieces else 0


def cut(pieces: Sequence[Piece], start: int, end: int) -> tuple[Piece, ...]:
    """The pieces with bytes [start, end); chains are reduced to these bytes' segments."""
    return tuple(
        _cut(piece, start, end) for piece in pieces if piece.start < end and (piece.end > start or _is_hole_in(piece, start))
    )


def _is_hole_in(piece: Piece, start: int) -> bool:
    return isinstance(piece, MissingSegments) and piece.start >= start


def _cut(piece: Piece, start: int, end: int) -> Piece:
    if not isinstance(piece, SegmentChain):
        return piece
    first, last = piece.holding(start, end)
    return piece if (first, last) == (0, len(piece.sizes)) else piece.part(first, last)


def objects_in(pieces: Iterable[Piece], start: int, end: int) -> int:
    """The number of objects with bytes [start, end)."""
    count = 0
    for piece in pieces:
        if piece.start < end and piece.end > start:
            first, last = piece.holding(start, end) if isinstance(piece, SegmentChain) else (0, 1)
            count += last - first
    return count


class Resolver:
    """Locates the bytes of a run's log. Most runs need no request: the listing is enough.

    One HEAD for each artifact if segments with bytes exist as well. ``legacy``: whether OpenMetadata's own objects may hold the
    beginning of a run.
    """

    def __init__(self, store: ObjectStore, layout: Layout, problems: Problems, legacy: Callable[[Run], bool] | None = None) -> None:
        self._store, self._layout, self._problems = store, layout, problems
        self._legacy = legacy or (lambda run: layout.legacy_run_prefix(run) != layout.run_prefix(run))

    def needs_requests(self, objects: RunObjects) -> bool:
        """Whether the listing is not enough."""
        if objects.logs or objects.partial:
            return bool(objects.logs and objects.partial) or objects.has_bytes_in_segments
        return bool(objects.segment_ranges) and objects.segment_ranges[0].first == 0 and self._legacy(objects.run)

    def log_of(self, objects: RunObjects) -> Log:
        """Raises ObjectNotFoundError if an artifact was deleted meanwhile: list the run again."""
        base, artifact = self._beginning(objects)
        pieces = list(base)
        following = artifact.next_segment if artifact else objects.end if base else 0
        segment_ranges = [
            segment_range.tail(following) for segment_range in objects.segment_ranges if segment_range.end > following
        ]
        for segment_range in segment_ranges:
            self._append(pieces, objects, segment_range, following)
            following = segment_range.end
        is_whole = objects.logs is not None and not segment_ranges and (artifact is None or artifact.key == objects.logs.key)
        status = FINALIZED if is_whole else SEALED if objects.seems_ended else OPEN
        outcome = RUNNING if status == OPEN else ""
        seal = objects.end - 1 if status == SEALED and objects.segment_ranges else None
        return Log(
            objects.run, objects.base, tuple(pieces), status, objects.first_known_s, artifact, objects.sidecars, outcome, seal
        )

    def _beginning(self, objects: RunObjects) -> tuple[list[Piece], Artifact | None]:
        """The artifact as a piece, and its metadata if it was requested."""
        if not (objects.logs or objects.partial):
            return self._legacy_beginning(objects)
        if not self.needs_requests(objects):
            listed = objects.logs or objects.partial
            assert listed
            return [ArtifactPiece(listed.key, listed.etag, 0, listed.size)], None
        artifacts = [self._artifact(objects, listed) for listed in (objects.logs, objects.partial) if listed]
        artifact = max(artifacts, key=lambda each: (each.next_segment, each.bytes))
        return [ArtifactPiece(artifact.key, artifact.etag, 0, artifact.bytes)], artifact

    def _artifact(self, objects: RunObjects, listed: Listed) -> Artifact:
        info = self._store.head(listed.key)
        try:
            artifact = artifact_of(info)
        except (DamagedLogError, KeyError, ValueError) as error:
            self._problems.report(objects.run, METADATA, listed.key, f"invalid metadata of the object: {error}")
            return Artifact(info.key, info.etag, info.size, None, self._first_behind(objects, info.size), 0, "")
        return artifact

    def _first_behind(self, objects: RunObjects, size: int) -> int:
        """The first segment after an artifact of this size, if its metadata doesn't say it. A HEAD for each segment."""
        for segment_range in objects.segment_ranges:
            for number in range(segment_range.first, segment_range.end):
                entry = self._entry(objects, number)
                if entry and entry.byte >= size:
                    return number
        return objects.end

    def _legacy_beginning(self, objects: RunObjects) -> tuple[list[Piece], Artifact | None]:
        if not self.needs_requests(objects):
            return [], None
        entry = self._entry(objects, 0)
        if entry is None or entry.byte == 0:
            return [], None
        legacy = find_legacy(self._store, self._layout, objects.run)
        if legacy is None:
            self._problems.report(
                objects.run, MISSING, objects.segment_key(0), f"bytes before the first segment first_byte={entry.byte}"
            )
            return [], None
        pieces: list[Piece] = [ArtifactPiece(legacy.key, legacy.etag, 0, legacy.bytes)]
        if entry.byte == legacy.bytes + 1:
            pieces.append(Literal(legacy.bytes, b"\n"))
        return pieces, legacy

    def _append(self, pieces: list[Piece], objects: RunObjects, segment_range: SegmentRange, expected: int) -> None:
        at = pieces[-1].end if pieces else 0
        if segment_range.first > expected:
            pieces.append(MissingSegments(at, expected, segment_range.first))
        pieces.append(SegmentChain(objects.base, segment_range.first, at, segment_range.sizes))

    def _entry(self, objects: RunObjects, number: int) -> SegmentEntry | None:
        try:
            info = self._store.head(objects.segment_key(number))
            return entry_of(number, info.metadata, info.size)
        except (DamagedLogError, ObjectNotFoundError):
            return None

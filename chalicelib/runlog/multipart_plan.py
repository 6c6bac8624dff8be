"""Plans the concatenation of objects by multipart upload with the fewest uploaded bytes that S3 allows: pure arithmetic, no requests.

S3 copies parts server-side: every part but the last has 5 MiB to 5 GiB, there are at most 10,000 parts, and the source of a copied part is
larger than 5 MiB. Smaller sources are downloaded and uploaded in parts of 8 MiB.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

MIN_PART_BYTES = 5 * 1024 * 1024
MAX_COPY_BYTES = 512 * 1024 * 1024
"""Size of a copied part: far below S3's 5 GiB, so that parts are copied in parallel and a deadline is checked between them."""
MAX_COPY_PART_BYTES = 5 * 1024 * 1024 * 1024
"""S3's limit for a copied part; used for logs that are too large for parts of 512 MiB."""
GATHER_BYTES = 8 * 1024 * 1024
MAX_PARTS = 10_000


@dataclass(frozen=True, slots=True)
class SourceRange:
    """Bytes [start, end) of an object, or a literal. ``source_bytes``: size of the object; ``etag``: of the required version, else empty."""

    key: str
    start: int
    end: int
    source_bytes: int
    etag: str = ""
    literal: bytes = b""

    @property
    def size(self) -> int:
        """Bytes of this range."""
        return self.end - self.start

    def cut(self, size: int) -> tuple[SourceRange, SourceRange]:
        """The first ``size`` bytes, and the rest."""
        middle = self.start + size
        return (
            SourceRange(self.key, self.start, middle, self.source_bytes, self.etag, self.literal[:size]),
            SourceRange(self.key, middle, self.end, self.source_bytes, self.etag, self.literal[size:]),
        )


@dataclass(frozen=True, slots=True)
class UploadPart:
    """One part: ``copied`` server-side from a single range, or uploaded from one or more."""

    sources: tuple[SourceRange, ...]
    copied: bool

    @property
    def size(self) -> int:
        """Bytes of this part."""
        return sum(source.size for source in self.sources)


def plan_parts(sources: Sequence[SourceRange]) -> list[UploadPart]:
    """Parts whose concatenation equals that of the ranges. A single part that is not copied needs only a plain PUT.

    An uploaded part before a copied one is filled up to 5 MiB from the head of the copied range. If this makes more parts than S3 accepts, all
    sizes double until they fit: beyond 80 GB of small ranges, 10,000 ranges large enough to copy, or 5 TB to copy.
    """
    scale = 1
    while len(parts := _planned(sources, scale)) > MAX_PARTS:
        scale *= 2
    return parts


def _planned(sources: Sequence[SourceRange], scale: int) -> list[UploadPart]:
    gather_bytes, copy_above = GATHER_BYTES * scale, MIN_PART_BYTES * scale
    parts: list[UploadPart] = []
    gathered = _Gathered()
    for source in sources:
        rest = source
        if _is_copyable(rest, copy_above):
            rest = _fill(gathered, rest)
            if _is_copyable(rest, copy_above):
                parts.extend(gathered.taken())
                parts.extend(_copies(rest, min(MAX_COPY_BYTES * scale, MAX_COPY_PART_BYTES)))
                continue
        for piece in _pieces(gathered, rest, gather_bytes):
            gathered.add(piece)
            if gathered.size >= gather_bytes:
                parts.extend(gathered.taken())
    parts.extend(gathered.taken())
    return parts


@dataclass(slots=True)
class _Gathered:
    """The uploaded part under construction. Its size is stored, because a part may have 100,000 ranges and each needs the size."""

    sources: list[SourceRange] = field(default_factory=list)
    size: int = 0

    def add(self, source: SourceRange) -> None:
        self.sources.append(source)
        self.size += source.size

    def taken(self) -> list[UploadPart]:
        """Finish the part, if it is not empty, and start the next one."""
        parts = [UploadPart(tuple(self.sources), copied=False)] if self.sources else []
        self.sources, self.size = [], 0
        return parts


def _is_copyable(source: SourceRange, above: int) -> bool:
    return not source.literal and source.size > above


def _fill(gathered: _Gathered, source: SourceRange) -> SourceRange:
    """Move bytes from the head of a range to the gathered part until it has S3's minimum size; returns the rest of the range."""
    missing = MIN_PART_BYTES - gathered.size
    if not gathered.sources or missing <= 0:
        return source
    head, rest = source.cut(min(missing, source.size))
    gathered.add(head)
    return rest


def _pieces(gathered: _Gathered, source: SourceRange, gather_bytes: int) -> Iterator[SourceRange]:
    """Split a range where gathered parts end."""
    room = gather_bytes - gathered.size
    while source.size > room:
        piece, source = source.cut(room)
        yield piece
        room = gather_bytes
    if source.size:
        yield source


def _copies(source: SourceRange, most: int) -> Iterator[UploadPart]:
    while source.size > most:
        # The rest after this part must be large enough for a part, too.
        head, source = source.cut(most if source.size - most > MIN_PART_BYTES else most // 2)
        yield UploadPart((head,), copied=True)
    yield UploadPart((source,), copied=True)

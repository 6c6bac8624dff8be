"""How to make one object of many with as few bytes through the function as S3 allows: pure arithmetic, no requests.

S3 copies server-side by parts of a multipart upload: every part but the last has 5 MiB to 5 GiB, there are at most 10,000, and the
source of a copied part is larger than 5 MiB. What is smaller goes through the function: gathered into parts of 8 MiB.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

MIN_PART_BYTES = 5 * 1024 * 1024
MAX_COPY_BYTES = 512 * 1024 * 1024
"""A copied part: far below S3's 5 GiB, so that parts are copied beside each other and a deadline is met between them."""
MAX_COPY_PART_BYTES = 5 * 1024 * 1024 * 1024
"""S3's limit of a copied part, for logs that are too large for parts of 512 MiB."""
GATHER_BYTES = 8 * 1024 * 1024
MAX_PARTS = 10_000


@dataclass(frozen=True, slots=True)
class SourceRange:
    """Bytes [start, end) of an object, or a literal. ``source_bytes``: the whole object's size; ``etag`` where a version is meant."""

    key: str
    start: int
    end: int
    source_bytes: int
    etag: str = ""
    literal: bytes = b""

    @property
    def size(self) -> int:
        """Bytes of this span."""
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
    """One part: ``copied`` server-side from its one span, or uploaded from one or many."""

    sources: tuple[SourceRange, ...]
    copied: bool

    @property
    def size(self) -> int:
        """Bytes of this part."""
        return sum(source.size for source in self.sources)


def plan_parts(sources: Sequence[SourceRange]) -> list[UploadPart]:
    """Parts whose concatenation is the concatenation of the spans. One part that is not copied: a plain PUT will do.

    A gathered part that stands before a copied one is filled up to 5 MiB from the head of what would be copied. Where that gives more
    parts than S3 takes, all sizes double until they fit: beyond 80 GB of small spans, 10,000 spans worth a copy, or 5 TB to copy.
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
    """The part that is being gathered. Its size is kept: a part may have 100,000 spans, and each asks for it."""

    sources: list[SourceRange] = field(default_factory=list)
    size: int = 0

    def add(self, source: SourceRange) -> None:
        self.sources.append(source)
        self.size += source.size

    def taken(self) -> list[UploadPart]:
        """The part, if there is one; another one begins."""
        parts = [UploadPart(tuple(self.sources), copied=False)] if self.sources else []
        self.sources, self.size = [], 0
        return parts


def _is_copyable(source: SourceRange, above: int) -> bool:
    return not source.literal and source.size > above


def _fill(gathered: _Gathered, source: SourceRange) -> SourceRange:
    """Move as many bytes of a span to what is gathered as make it a whole part; the rest of the span."""
    missing = MIN_PART_BYTES - gathered.size
    if not gathered.sources or missing <= 0:
        return source
    head, rest = source.cut(min(missing, source.size))
    gathered.add(head)
    return rest


def _pieces(gathered: _Gathered, source: SourceRange, gather_bytes: int) -> Iterator[SourceRange]:
    """A span in pieces that end where gathered parts end."""
    room = gather_bytes - gathered.size
    while source.size > room:
        piece, source = source.cut(room)
        yield piece
        room = gather_bytes
    if source.size:
        yield source


def _copies(source: SourceRange, most: int) -> Iterator[UploadPart]:
    while source.size > most:
        # What remains after this part must itself be large enough to be a part.
        head, source = source.cut(most if source.size - most > MIN_PART_BYTES else most // 2)
        yield UploadPart((head,), copied=True)
    yield UploadPart((source,), copied=True)

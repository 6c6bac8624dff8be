"""Bytes that share their pieces: a log of gigabytes costs what its different pieces cost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Piece:
    """``pattern`` repeated without end, cut to [start, end)."""

    pattern: bytes
    start: int
    end: int

    @property
    def size(self) -> int:
        """Bytes of this piece."""
        return self.end - self.start

    def materialize(self) -> bytes:
        """The bytes themselves."""
        length = len(self.pattern)
        if self.end <= length:
            return self.pattern[self.start : self.end]
        first = self.start % length
        copies = (first + self.size) // length + 1
        return (self.pattern * copies)[first : first + self.size]


@dataclass(frozen=True, slots=True)
class Rope:
    """Pieces one behind the other."""

    pieces: tuple[Piece, ...]

    @classmethod
    def of(cls, body: bytes) -> Rope:
        """A rope of one piece."""
        return cls((Piece(body, 0, len(body)),) if body else ())

    @classmethod
    def repeated(cls, pattern: bytes, size: int) -> Rope:
        """``pattern`` again and again, ``size`` bytes in all."""
        return cls((Piece(pattern, 0, size),))

    @classmethod
    def joined(cls, ropes: list[Rope]) -> Rope:
        """Ropes one behind the other; no byte is copied."""
        return cls(tuple(piece for rope in ropes for piece in rope.pieces))

    @property
    def size(self) -> int:
        """Bytes of the rope."""
        return sum(piece.size for piece in self.pieces)

    def cut(self, start: int, end: int) -> Rope:
        """Bytes [start, end); no byte is copied."""
        return Rope(tuple(self._overlaps(start, end)))

    def materialize(self) -> bytes:
        """The bytes themselves."""
        return b"".join(piece.materialize() for piece in self.pieces)

    def _overlaps(self, start: int, end: int) -> Iterator[Piece]:
        at = 0
        for piece in self.pieces:
            first, last = max(start - at, 0), min(end - at, piece.size)
            if first < last:
                yield Piece(piece.pattern, piece.start + first, piece.start + last)
            at += piece.size

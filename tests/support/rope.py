"""Byte strings that share their pieces: a log of gigabytes needs only the memory of its distinct pieces."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Piece:
    """``pattern`` repeated infinitely, cut to [start, end)."""

    pattern: bytes
    start: int
    end: int

    @property
    def size(self) -> int:
        """Its size in bytes."""
        return self.end - self.start

    def materialize(self) -> bytes:
        """The bytes."""
        length = len(self.pattern)
        if self.end <= length:
            return self.pattern[self.start : self.end]
        first = self.start % length
        copies = (first + self.size) // length + 1
        return (self.pattern * copies)[first : first + self.size]


@dataclass(frozen=True, slots=True)
class Rope:
    """A concatenation of pieces."""

    pieces: tuple[Piece, ...]

    @classmethod
    def of(cls, body: bytes) -> Rope:
        """A rope of one piece."""
        return cls((Piece(body, 0, len(body)),) if body else ())

    @classmethod
    def repeated(cls, pattern: bytes, size: int) -> Rope:
        """``pattern`` repeated, cut to ``size`` bytes."""
        return cls((Piece(pattern, 0, size),))

    @classmethod
    def joined(cls, ropes: list[Rope]) -> Rope:
        """The concatenation of ropes, without copying bytes."""
        return cls(tuple(piece for rope in ropes for piece in rope.pieces))

    @property
    def size(self) -> int:
        """Its size in bytes."""
        return sum(piece.size for piece in self.pieces)

    def cut(self, start: int, end: int) -> Rope:
        """Bytes [start, end), without copying."""
        return Rope(tuple(self._overlaps(start, end)))

    def materialize(self) -> bytes:
        """The bytes."""
        return b"".join(piece.materialize() for piece in self.pieces)

    def _overlaps(self, start: int, end: int) -> Iterator[Piece]:
        at = 0
        for piece in self.pieces:
            first, last = max(start - at, 0), min(end - at, piece.size)
            if first < last:
                yield Piece(piece.pattern, piece.start + first, piece.start + last)
            at += piece.size

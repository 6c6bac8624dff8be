"""A log as a stream and as a temporary file, for log browsers."""

from __future__ import annotations

import io
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from chalicelib.errors import InvalidInputError

MAX_PIECE_BYTES = 5 * 1024 * 1024
"""Of one read from the end of a log."""
_LINE_BYTES = 128
"""Estimate for the first read."""


class ChunkReader(io.RawIOBase):
    """Chunks of bytes as a raw stream."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks, self._rest = chunks, memoryview(b"")

    def readable(self) -> bool:
        """Always true."""
        return True

    def readinto(self, buffer: Any, /) -> int:
        """Read up to the end of the current chunk."""
        while not self._rest:
            piece = next(self._chunks, None)
            if piece is None:
                return 0
            self._rest = memoryview(piece)
        target = memoryview(buffer).cast("B")
        size = min(len(target), len(self._rest))
        target[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size


def open_buffered(chunks: Iterator[bytes]) -> BinaryIO:
    """Chunks as a buffered binary file."""
    return io.BufferedReader(ChunkReader(chunks))


def write_temporary_file(source: BinaryIO) -> Path:
    """Copy a stream to a temporary file, which the caller removes."""
    with source, tempfile.NamedTemporaryFile("wb", suffix=".log", delete=False) as file:
        shutil.copyfileobj(source, file)
    return Path(file.name)


def last_lines(read: Callable[[int, int], bytes], end: int, maximum: int) -> list[str]:
    """The last ``maximum`` lines of a log of ``end`` bytes, without their newlines. ``read`` returns bytes [start, end), and is called
    backwards from the end with ranges that double, up to ``MAX_PIECE_BYTES``: with at most twice the bytes of the lines and ``_LINE_BYTES``
    for each. Raises InvalidInputError for a negative number."""
    if maximum < 0:
        raise InvalidInputError(f"the number of lines must not be negative lines={maximum}")
    pieces: list[bytes] = []
    at, newlines, size = end, 0, _LINE_BYTES * (maximum + 1)
    while maximum and at > 0 and newlines <= maximum:  # the first newline ends the line before the last ones
        start = max(0, at - min(size, MAX_PIECE_BYTES))
        pieces.append(read(start, at))
        at, newlines, size = start, newlines + pieces[-1].count(b"\n"), 2 * size
    body = b"".join(reversed(pieces))
    lines = body.removesuffix(b"\n").split(b"\n") if body else []
    return [line.decode(errors="replace") for line in lines[-maximum:]]

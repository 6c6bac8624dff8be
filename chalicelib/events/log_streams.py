"""A log as a stream and as a temporary file, for log browsers."""

from __future__ import annotations

import io
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO


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

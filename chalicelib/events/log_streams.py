"""What browsers of logs share: a log as a stream, and as a temporary file."""

from __future__ import annotations

import io
import shutil
import tempfile
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO


class ChunkReader(io.RawIOBase):
    """Pieces of bytes as a file to read."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks, self._rest = chunks, memoryview(b"")

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any, /) -> int:
        """As many bytes as there are of a piece."""
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
    """A file to read."""
    return io.BufferedReader(ChunkReader(chunks))


def write_temporary_file(source: BinaryIO) -> Path:
    """All of it as a file, the caller's to remove."""
    with source, tempfile.NamedTemporaryFile("wb", suffix=".log", delete=False) as file:
        shutil.copyfileobj(source, file)
    return Path(file.name)


def last_lines(source: BinaryIO, most: int) -> list[str]:
    """The last lines of a log, by reading all of it."""
    with source:
        return [line.decode(errors="replace").removesuffix("\n") for line in deque(source, most)]

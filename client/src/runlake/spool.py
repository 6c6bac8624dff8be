"""Bytes set aside on disk, oldest first: what does not fit into memory while the server is away or slow."""

from __future__ import annotations

import errno
import os
import shlex
import shutil
import uuid
from collections import deque
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

CHUNK_BYTES = 1024 * 1024
"""A chunk is read whole, so this is what the spool takes of memory."""


@dataclass(slots=True)
class Chunk:
    """A file of the spool, its bytes and its lines."""

    path: Path
    bytes: int = 0
    lines: int = 0


def check_is_own(root: Path) -> None:
    """Among everybody's temporary files somebody may have made it first, to read lines or to be sent a token. Raises PermissionError."""
    if root.is_symlink() or (root.exists() and os.lstat(root).st_uid != os.getuid()):
        raise PermissionError(errno.EPERM, "the spool's folder is somebody else's", str(root))


def drain_command(root: Path) -> str:
    """What ships the lines that wait below ``root``, whatever the settings of whoever types it are."""
    return f"runlake --spool-dir {shlex.quote(str(root.absolute()))} drain"


class Spool:
    """A queue of chunks in a folder of its own below ``root``, ``limit_bytes`` at most. Not safe for threads: its owner has the lock.

    The folder is made with the first byte and removed by ``remove``. Nothing is synced: it outlives the process, not the machine.
    """

    def __init__(self, root: Path, limit_bytes: int) -> None:
        self.folder = root / uuid.uuid4().hex
        self.limit_bytes = limit_bytes
        self.bytes = 0
        self._chunks: deque[Chunk] = deque()
        self._file: FileIO | None = None  # of the youngest chunk
        self._made = 0

    @property
    def is_empty(self) -> bool:
        """Whether all that was written has been discarded again."""
        return not self._chunks

    @property
    def lines(self) -> int:
        """Lines that wait here."""
        return sum(chunk.lines for chunk in self._chunks)

    def write(self, data: bytes) -> None:
        """Add to the end. Raises OSError; then the data may stand there in part, as when a disk is full."""
        if self._file is None or self._chunks[-1].bytes >= CHUNK_BYTES:
            self._begin()
        assert self._file is not None
        written = self._file.write(data)
        chunk = self._chunks[-1]
        chunk.bytes += len(data)
        chunk.lines += data.count(b"\n")
        self.bytes += len(data)
        if written != len(data):
            raise OSError(f"the disk is full path={chunk.path}")

    def oldest(self) -> Chunk | None:
        """The oldest chunk, closed for reading. It stays until it is discarded."""
        if not self._chunks:
            return None
        if len(self._chunks) == 1:
            self._end()
        return self._chunks[0]

    def discard(self, chunk: Chunk) -> None:
        """Remove the oldest chunk."""
        assert chunk is self._chunks[0]
        self._chunks.popleft()
        self.bytes -= chunk.bytes
        chunk.path.unlink(missing_ok=True)

    def persist(self, older: bytes) -> None:
        """Close the files and put older bytes in front of them, for another process to read. Raises OSError."""
        self._end()
        self._make_folder()
        if older:
            self._path(0).write_bytes(older)

    def remove(self) -> None:
        """Remove the folder and what is in it."""
        self._end()
        shutil.rmtree(self.folder, ignore_errors=True)

    def abandon(self) -> None:
        """Let go of the open file without a word: in a forked child it is the parent's."""
        if self._file is not None:
            self._file.close()  # unbuffered: there is nothing of the parent's in it to be written twice
            self._file = None

    def _begin(self) -> None:
        self._end()
        self._make_folder()
        self._made += 1
        path = self._path(self._made)
        self._file = open(path, "xb", buffering=0)  # noqa: SIM115 - it stays open as long as it is the youngest
        self._chunks.append(Chunk(path))

    def _make_folder(self) -> None:
        """Ours alone: logs hold what others must not read, and the root may stand among everybody's temporary files."""
        root = self.folder.parent
        if not root.exists():
            root.mkdir(parents=True, exist_ok=True, mode=0o700)
        check_is_own(root)
        self.folder.mkdir(exist_ok=True, mode=0o700)

    def _end(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:010d}.chunk"

"""A queue of bytes on disk, for those that do not fit into memory while the server is away or slow."""

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
"""A chunk is read at once, so this bounds the spool's memory."""


@dataclass(slots=True)
class Chunk:
    """A file of the spool, and its counts of bytes and lines."""

    path: Path
    bytes: int = 0
    lines: int = 0


def check_is_own(root: Path) -> None:
    """Raises PermissionError if another user owns the folder: among the temporary files they could have made it first, to read lines or to
    receive a token."""
    if root.is_symlink() or (root.exists() and os.lstat(root).st_uid != os.getuid()):
        raise PermissionError(errno.EPERM, "the spool's folder belongs to another user", str(root))


def drain_command(root: Path) -> str:
    """The command that ships the lines below ``root``, with any settings of the person who runs it."""
    return f"runlake --spool-dir {shlex.quote(str(root.absolute()))} drain"


class Spool:
    """A queue of chunks in a new folder below ``root``, ``limit_bytes`` at most. Not thread-safe: its owner has the lock.

    The first byte creates the folder, ``remove`` deletes it. No fsync: the bytes survive the process, not the machine.
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
        """Whether all chunks have been discarded."""
        return not self._chunks

    @property
    def lines(self) -> int:
        """Lines in all chunks."""
        return sum(chunk.lines for chunk in self._chunks)

    def write(self, data: bytes) -> None:
        """Append. Raises OSError, after which the data may be written in part, as when a disk is full."""
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
        """The oldest chunk, which is not written any more. It stays until it is discarded."""
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
        """Close the files and put older bytes before them, for another process to read. Raises OSError."""
        self._end()
        self._make_folder()
        if older:
            self._path(0).write_bytes(older)

    def remove(self) -> None:
        """Delete the folder with its files."""
        self._end()
        shutil.rmtree(self.folder, ignore_errors=True)

    def abandon(self) -> None:
        """Close the open file in a forked child: it is the parent's."""
        if self._file is not None:
            self._file.close()  # unbuffered: no bytes of the parent are written twice
            self._file = None

    def _begin(self) -> None:
        self._end()
        self._make_folder()
        self._made += 1
        path = self._path(self._made)
        self._file = open(path, "xb", buffering=0)  # noqa: SIM115 - open while it is the youngest
        self._chunks.append(Chunk(path))

    def _make_folder(self) -> None:
        """Readable by its owner only: logs may be confidential, and the root may be in a shared folder of temporary files."""
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

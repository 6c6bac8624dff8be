"""The folder in which a writer keeps what the archive has not acknowledged: it outlives any death of the process.

A folder has ``state``, which says how the bytes are to be stored (``SpoolState``), and chunks: the bytes in order, each file named by the
offset of its first byte and the number of its first line. **The disk is ahead of the network**: bytes are in a chunk before they are sent, and
the state has the position and the bounds of a batch before its request (decision 0056). A chunk is deleted after the state that follows its
acknowledgment is written.

The process that writes a folder, or ships it, holds a lock on its state, which ends with the process.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shlex
import shutil
import struct
import threading
import weakref
import zlib
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from runlake.errors import LeftoverError
from runlake.spoolstate import SpoolState

CHUNK_BYTES = 8 * 1024 * 1024
"""A chunk that has this size is followed by a new one, and synchronized with the disk."""
_SLOT_BYTES = 64 * 1024
"""Room of a state: names, command, exception and step at their limits take less."""
STATE_BYTES = 2 * _SLOT_BYTES
"""Of a folder's file of states."""
_HEAD = struct.Struct(">QII")  # number, length and checksum of a state
_STATE = "state"
_MAKING = "making-"
_OWN_NAME = re.compile(rf"({_MAKING})?[0-9a-f]{{16}}-[0-9a-f]{{32}}")
"""Of a folder of a handler, while it is created and afterwards."""


@dataclass
class Chunk:
    """A file of bytes: ``begin`` is the offset of the first one, ``first_line`` the number of the line that begins there."""

    path: Path
    begin: int
    first_line: int
    size: int = 0

    @property
    def end(self) -> int:
        """The offset after its last byte."""
        return self.begin + self.size


def check_is_own(root: Path) -> None:
    """Raises PermissionError if another user owns the folder: among the temporary files they could have made it first, to read lines or to
    receive a token."""
    if root.is_symlink() or (root.exists() and os.lstat(root).st_uid != os.getuid()):
        raise PermissionError(errno.EPERM, "the spool's folder belongs to another user", str(root))


def drain_command(root: Path) -> str:
    """The command that ships the lines below ``root``, with any settings of the person who runs it."""
    return f"runlake --spool-dir {shlex.quote(str(root.absolute()))} drain"


class StateFile:
    """The state of a folder, written in place: two slots in turn, so that a write that was interrupted leaves the other one, and a full disk has
    room for it. The lock is on this file, which a network file system locks too; it is released by ``close`` or the end of the process."""

    def __init__(self, path: Path, flags: int) -> None:
        with _forking:
            self._descriptor, self._number = os.open(path, flags, 0o600), 0
            _files.add(self)

    @classmethod
    def create(cls, path: Path) -> StateFile:
        """A new one, locked. Raises OSError."""
        made = cls(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        try:
            made.is_locked()
            os.pwrite(made._descriptor, bytes(STATE_BYTES), 0)
        except OSError:
            made.close()
            raise
        return made

    @classmethod
    def open(cls, path: Path) -> StateFile:
        """That of an existing folder. Raises OSError, PermissionError for a file of another user."""
        opened = cls(path, os.O_RDWR | os.O_NOFOLLOW)
        if os.fstat(opened._descriptor).st_uid != os.getuid():
            opened.close()
            raise PermissionError(errno.EPERM, "the folder belongs to another user", str(path))
        return opened

    def is_locked(self) -> bool:
        """Lock it; False if another process has."""
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    @property
    def is_linked(self) -> bool:
        """Whether it still has a name: not if another drain has deleted the folder meanwhile."""
        return os.fstat(self._descriptor).st_nlink > 0

    def write(self, text: bytes) -> None:
        """Replace the state. Raises OSError: then the previous one is in force."""
        head = _HEAD.pack(self._number + 1, len(text), zlib.crc32(text))
        data = head + text
        if len(data) > _SLOT_BYTES:
            raise OSError(errno.EFBIG, "the state of a run is too large")
        if os.pwrite(self._descriptor, data, (self._number + 1) % 2 * _SLOT_BYTES) != len(data):
            raise OSError(errno.ENOSPC, "the disk is full")
        self._number += 1

    def read(self) -> bytes:
        """The newest complete state. Raises LeftoverError if there is none, OSError."""
        found = b""
        for slot in range(2):
            data = os.pread(self._descriptor, _SLOT_BYTES, slot * _SLOT_BYTES)
            if len(data) < _HEAD.size:
                continue
            number, size, checksum = _HEAD.unpack_from(data)
            text = data[_HEAD.size : _HEAD.size + size]
            if number > self._number and size and zlib.crc32(text) == checksum:
                self._number, found = number, text
        if not found:
            raise LeftoverError("its state cannot be read")
        return found

    def close(self) -> None:
        """Close and unlock it."""
        descriptor, self._descriptor = self._descriptor, -1
        _close(descriptor)


class Spool:
    """The bytes of one writer on disk, and its state. Its owner has a lock for the bytes; ``record`` and ``ensure`` are thread-safe. ``root`` None:
    nothing is written. ``limit_bytes``: which the owner keeps ``waiting_bytes`` within. ``end``, ``end_line``: the offset and the line after the
    last byte on disk.

    The first ``write`` or ``ensure`` creates the folder. A disk that refuses raises OSError from ``write``, which is tried again later;
    ``record`` never raises: ``trouble`` is called once with the first error.
    """

    def __init__(
        self, root: Path | None, state: SpoolState, limit_bytes: int = 0, trouble: Callable[[OSError], object] = lambda error: None
    ) -> None:
        self.root, self.state, self.limit_bytes = root, state, limit_bytes
        self.count = state.delivery.count
        self.folder: Path | None = None
        self.end, self.end_line = state.begin, state.begin_line
        self._trouble, self._is_reported = trouble, False
        self._file: StateFile | None = None
        self._chunks: deque[Chunk] = deque()
        self._open: int | None = None  # the descriptor of the youngest chunk
        self._unsynced: deque[int] = deque()
        self._is_recorded = self._is_void = self._is_closed = False
        self._changing = threading.RLock()  # of the state: writers of bytes and of the state are different threads
        _open.add(self)

    @classmethod
    def of(cls, folder: Path, file: StateFile, state: SpoolState) -> Spool:
        """The spool of a folder whose writer is dead, with its lock. Raises LeftoverError, OSError."""
        opened = cls(folder.parent, state)
        opened.folder, opened._file, opened._is_recorded = folder, file, True
        for path in sorted(folder.glob("*.chunk")):
            begin, _, line = path.stem.partition("-")
            if not (begin.isdecimal() and line.isdecimal()):
                raise LeftoverError(f"a file has another name: {path.name}")
            opened._chunks.append(Chunk(path, int(begin), int(line), path.stat().st_size))
        if opened._chunks and (last := opened._chunks[-1]).end > state.begin:
            opened.end, opened.end_line = last.end, last.first_line + opened._lines_in(last)
        return opened

    @property
    def chunks(self) -> tuple[Chunk, ...]:
        """The files, oldest first."""
        return tuple(self._chunks)

    @property
    def waiting_bytes(self) -> int:
        """Bytes that are not acknowledged."""
        return self.end - max(self.state.begin, self._chunks[0].begin) if self._chunks else 0

    @property
    def is_on_disk(self) -> bool:
        """Whether another process could ship what is written: not if somebody deleted the folder."""
        return self._is_recorded and self._file is not None and self._file.is_linked

    def ensure(self) -> None:
        """Create the folder, with the state in it. Raises OSError."""
        with self._changing:
            if self._is_closed:
                raise OSError(errno.EBADF, "the spool is closed")
            if self.folder is None and self.root is not None:
                try:
                    self._create(self.root)
                except OSError as error:
                    self._report(error)
                    raise

    def record(self, **changes: Any) -> None:
        """Change the state, on disk too. If that fails in place, the folder's state is deleted: an old one would store lines twice."""
        with self._changing:
            self.state = replace(self.state, **changes)
            if self._file is None or self._is_void:
                return
            try:
                self._file.write(self.state.as_json())
            except OSError as error:
                self._report(error)
                self._is_recorded, self._is_void = False, True
                with suppress(OSError):
                    if self.folder is not None:
                        (self.folder / _STATE).unlink()

    def write(self, data: bytes | bytearray) -> int:
        """Append complete lines. Returns the number of bytes on disk; fewer than all if the disk refuses more. Raises OSError if it accepts none."""
        if self.root is None:
            raise OSError(errno.ENOENT, "there is no spool")
        self.ensure()
        try:
            return self._append(data)
        except OSError as error:
            self._report(error)
            raise

    def skip(self, offset: int, line: int) -> None:
        """Continue at this offset: what is before it was acknowledged without the disk."""
        if offset > self.end:
            self._roll()
            self.end, self.end_line = offset, line

    def read(self, offset: int, most: int) -> bytes:
        """At most so many bytes from this offset on, of one chunk; empty if they are not on disk. Raises OSError."""
        for chunk in self._chunks:
            if chunk.begin <= offset < chunk.end:
                with open(chunk.path, "rb", buffering=0) as file:
                    return os.pread(file.fileno(), min(most, chunk.end - offset), offset - chunk.begin)
        return b""

    def next_begin(self, offset: int) -> tuple[int, int] | None:
        """The offset and line at which the next chunk begins; None: there is none after this offset."""
        return next(((chunk.begin, chunk.first_line) for chunk in self._chunks if chunk.begin > offset), None)

    def discard(self, offset: int) -> None:
        """Delete the chunks before an offset that the state has. A file that cannot be deleted is not sent again."""
        while self._chunks and self._chunks[0].end <= offset:
            if len(self._chunks) == 1:
                self._close_youngest()
            with suppress(OSError):
                self._chunks[0].path.unlink(missing_ok=True)
            self._chunks.popleft()

    def cut_short(self) -> None:
        """Do not read the bytes after the last complete line, a hole at the end: the writer was killed within a write, or the disk
        was full."""
        while self._chunks:
            chunk = self._chunks[-1]
            kept = chunk.path.read_bytes().rfind(b"\n") + 1
            chunk.size = kept
            if kept:
                return
            self._chunks.pop()

    def synchronize(self) -> None:
        """Wait until full chunks are on the device. Call it without a lock that a logging call waits for."""
        while (descriptor := self._unsynced_next()) is not None:
            try:
                os.fsync(descriptor)
            except OSError as error:
                self._report(error)
            finally:
                _close(descriptor)

    def put_aside(self, data: bytes, **changes: Any) -> Spool:
        """A folder of its own for a batch that was refused. Raises OSError."""
        state = replace(
            self.state, begin=0, begin_line=0, batch_end=0, batch_lines=0, is_ended=False, close=False, run_end=None, **changes
        )
        aside = Spool(self.root, state)
        try:
            aside.ensure()
            aside.write(data)
        except OSError:
            aside.remove()
            raise
        finally:
            aside.close()
        return aside

    def close(self) -> None:
        """Release the folder for other processes, for good."""
        self._is_closed = True
        self._close_youngest()
        while (descriptor := self._unsynced_next()) is not None:
            _close(descriptor)
        if self._file is not None:
            self._file.close()
            self._file = None

    def remove(self) -> None:
        """Delete the folder. The state goes first: without it, no chunk is shipped a second time."""
        folder, self.folder = self.folder, None
        self._is_recorded = False
        if folder is not None:
            with suppress(OSError):
                (folder / _STATE).unlink(missing_ok=True)
            shutil.rmtree(folder, ignore_errors=True)
        self._chunks.clear()
        self.close()

    def _create(self, root: Path) -> None:
        """Readable by its owner only: logs may be confidential, and the root may be in a shared folder of temporary files. The folder gets its name
        when it has a state and a lock, so no drain sees less."""
        if not root.exists():
            root.mkdir(parents=True, exist_ok=True, mode=0o700)
        check_is_own(root)
        name = f"{self.state.group}-{os.urandom(16).hex()}"
        made = root / f"{_MAKING}{name}"
        made.mkdir(mode=0o700)
        file = None
        try:
            file = StateFile.create(made / _STATE)
            file.write(self.state.as_json())
            made.rename(root / name)
        except OSError:
            if file is not None:
                file.close()
            shutil.rmtree(made, ignore_errors=True)
            raise
        self.folder, self._file, self._is_recorded = root / name, file, True

    def _append(self, data: bytes | bytearray) -> int:
        if self._open is None or self._chunks[-1].size >= CHUNK_BYTES:
            self._roll()
            self._begin_chunk()
        assert self._open is not None
        written, chunk = 0, self._chunks[-1]
        try:
            with memoryview(data) as view:
                while written < len(data):
                    try:
                        written += os.write(self._open, view[written:])
                    except OSError:
                        if written:
                            break
                        raise
            lines = self._complete_lines(data, written)
            chunk.size += written
            self.end += written
            self.end_line += lines
        except BaseException:
            # That of a signal handler, after a write perhaps: the same bytes are written again, at the same place.
            os.lseek(self._open, chunk.size, os.SEEK_SET)
            raise
        return written

    def _complete_lines(self, data: bytes | bytearray, size: int) -> int:
        return self.count(data if size == len(data) else data[: data.rfind(b"\n", 0, size) + 1])

    def _lines_in(self, chunk: Chunk) -> int:
        data = chunk.path.read_bytes()
        return self._complete_lines(data, len(data))

    def _begin_chunk(self) -> None:
        assert self.folder is not None
        path = self.folder / f"{self.end:020d}-{self.end_line:015d}.chunk"
        chunk = Chunk(path, self.end, self.end_line)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)  # it may exist: a signal handler raised an exception here
        self._chunks += (chunk,)
        self._open = descriptor

    def _roll(self) -> None:
        if self._open is not None:
            self._unsynced.append(self._open)
            self._open = None

    def _unsynced_next(self) -> int | None:
        """A descriptor to synchronize and close, which no other thread has."""
        try:
            return self._unsynced.popleft()
        except IndexError:
            return None

    def _close_youngest(self) -> None:
        if self._open is not None:
            _close(self._open)
            self._open = None

    def _report(self, error: OSError) -> None:
        if not self._is_reported:
            self._is_reported = True
            self._trouble(error)


def folders_in(root: Path) -> list[Path]:
    """The folders of writers, oldest first, dead or not. Raises PermissionError if another user owns the root, OSError."""
    check_is_own(root)
    found = []
    for path in root.glob(f"*/{_STATE}"):
        with suppress(FileNotFoundError):  # another drain has shipped it
            if not path.parent.name.startswith(_MAKING):
                found.append((path.parent.stat().st_mtime, path.parent))
    return [folder for _, folder in sorted(found)]


def remove_unfinished(root: Path, age_s: float, now_s: float) -> None:
    """Delete folders whose creation was interrupted, or whose deletion was, that nobody has changed for ``age_s``. Others than a handler's are left
    alone: the root may be any folder of a person."""
    for folder in root.iterdir():
        if _OWN_NAME.fullmatch(folder.name):
            with suppress(OSError):
                is_unfinished = folder.name.startswith(_MAKING) or not (folder / _STATE).exists()
                if is_unfinished and folder.stat().st_mtime < now_s - age_s:
                    shutil.rmtree(folder, ignore_errors=True)


def claim(folder: Path) -> Spool | None:
    """The spool of a dead writer, locked; None if its writer lives, or another drain has locked or shipped it. Close it, or ``remove`` it.
    Raises LeftoverError, OSError."""
    try:
        file = StateFile.open(folder / _STATE)
    except FileNotFoundError:
        return None
    try:
        if file.is_locked() and file.is_linked:
            return Spool.of(folder, file, SpoolState.of_json(file.read()))
    except BaseException:
        file.close()
        raise
    file.close()
    return None


def _close(descriptor: int) -> None:
    with suppress(OSError):
        os.close(descriptor)


_open: weakref.WeakSet[Spool] = weakref.WeakSet()
_files: weakref.WeakSet[StateFile] = weakref.WeakSet()
_forking = threading.RLock()
"""Held by a fork, and while a thread opens a file that a child is to close."""


def _release_in_child() -> None:
    """A lock that a forked child inherits would outlive the process that the folder belongs to."""
    _forking.release()
    for file in list(_files):
        file.close()
    for spool in list(_open):
        spool.close()


os.register_at_fork(before=_forking.acquire, after_in_parent=_forking.release, after_in_child=_release_in_child)

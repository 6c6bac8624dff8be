"""The queue between an application and its shipper: bytes wait in memory, then on disk, and are dropped and counted if both are full.

Order: while anything is on disk, all new bytes go there too. So the bytes in memory are always older than those on disk, and those that
``take`` has returned are older than both.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path

from runlake.spool import Spool

_BLOCK_BYTES = 256 * 1024
_RESUME_PART = 8
"""After a drop, this fraction of the room must be free before bytes are accepted again: one gap, not thousands."""


def gap_line(lines: int) -> bytes:
    """The line that the archive has in place of dropped lines."""
    return b"[runlake] %d lines are missing here: they were dropped, the buffer was full\n" % lines


class Buffer:
    """A bounded queue of bytes from the application's threads to the shipper's.

    Memory: ``memory_bytes``, and one chunk of the spool while it is read. Disk: the spool's limit. ``put`` copies into memory, or writes to a
    file without an fsync; it blocks only with ``wait_s``. ``gap`` renders the line that states how many lines were dropped.
    """

    def __init__(self, memory_bytes: int, spool: Spool | None = None, gap: Callable[[int], bytes] = gap_line) -> None:
        self._gap = gap
        self._changed = threading.Condition()  # reentrant: a signal handler may log while its own thread is in here
        self._memory_bytes, self._spool = memory_bytes, spool
        self._blocks: deque[bytearray] = deque()
        self._in_memory = 0
        self._needed_bytes = 1
        self._flush_to_bytes = 0
        self._gap_lines = 0
        self._at_line_start = True
        self._skipping = False
        self._ended = False
        self.put_bytes = 0
        self.taken_bytes = 0
        self.dropped_lines = 0

    @property
    def pending_bytes(self) -> int:
        """Bytes that were put and not taken yet."""
        return self._in_memory + (self._spool.bytes if self._spool else 0)

    @property
    def pending_lines(self) -> int:
        """Lines that were put and not taken yet."""
        with self._changed:
            return sum(block.count(b"\n") for block in self._blocks) + (self._spool.lines if self._spool else 0)

    @property
    def spool_root(self) -> Path | None:
        """The folder below which ``persist`` writes the remaining bytes; None: there is no spool."""
        return self._spool.folder.parent if self._spool else None

    @property
    def is_drained(self) -> bool:
        """Whether the end was announced and nothing is left."""
        with self._changed:
            return self._ended and not self.pending_bytes

    def put(self, data: bytes, wait_s: float = 0.0) -> bool:
        """Add bytes; False if they were dropped for lack of room, and counted.

        With ``wait_s`` it blocks until there is room, as long as ``take`` makes progress, and at most so many seconds without; after a drop it
        does not block until there is room again. Thread-safe; the bytes of one call stay together.
        """
        with self._changed:
            if wait_s > 0 and not self._gap_lines:
                self._wait_for_room(len(data), wait_s)
            if self._ended or not self._has_room(len(data)):
                self._drop(data)
                return False
            if self._skipping:
                data = self._from_next_line(data)
            self._add(self._take_gap_line() + data)
            if self.pending_bytes >= self._needed_bytes:
                self._changed.notify_all()
            return True

    def take(self) -> bytes:
        """The oldest bytes, about a block of them; empty if there are none."""
        with self._changed:
            if self._blocks:
                block = self._blocks.popleft()
                self._in_memory -= len(block)
                return self._taken(bytes(block))
            chunk = self._spool.oldest() if self._spool else None
        if chunk is None or self._spool is None:
            return b""
        try:
            data = chunk.path.read_bytes()  # without the lock: no ``put`` waits for the disk
        except OSError:
            data = b""
        with self._changed:
            if not data:
                self._gap_lines += chunk.lines
                self.dropped_lines += chunk.lines
            self._spool.discard(chunk)
            return self._taken(data)

    def wait(self, needed_bytes: int, timeout_s: float | None) -> None:
        """Wait until so many bytes are pending, a flush was requested, the end was announced, or the time is over."""
        with self._changed:
            self._needed_bytes = needed_bytes
            self._changed.wait_for(self._is_due, timeout_s)
            self._needed_bytes = 1

    def request_flush(self) -> int:
        """Make ``wait`` return for the bytes that are pending now. Returns the count of bytes put so far."""
        with self._changed:
            self._flush_to_bytes = self.put_bytes
            self._changed.notify_all()
            return self.put_bytes

    def end(self) -> None:
        """Accept no more bytes. A gap that nothing followed gets its line now."""
        with self._changed:
            if not self._ended:
                if gap := self._take_gap_line():
                    self._append(gap)
                self._ended = True
                self._changed.notify_all()

    def persist(self, older: bytes) -> tuple[int, Spool | None]:
        """Write all remaining bytes to disk, ``older`` first, and return the number of lines on disk. The folder is made even if nothing is left.
        Without a spool, the lines are counted as dropped."""
        with self._changed:
            left = older + b"".join(self._blocks)
            lines = left.count(b"\n")
            self._blocks.clear()
            self._in_memory = 0
            if self._spool is None:
                self.dropped_lines += lines
                return 0, None
            self._spool.persist(left)
            return lines + self._spool.lines, self._spool

    def remove_spool(self) -> None:
        """Delete the spool's folder, once all of its bytes are shipped."""
        with self._changed:
            if self._spool:
                self._spool.remove()

    def abandon(self) -> None:
        """Close files in a forked child: the bytes in here are shipped by the parent."""
        if self._spool:
            self._spool.abandon()

    def _is_due(self) -> bool:
        pending = self.pending_bytes
        return self._ended or pending >= self._needed_bytes or (pending > 0 and self._flush_to_bytes > self.taken_bytes)

    def _taken(self, data: bytes) -> bytes:
        self.taken_bytes += len(data)
        self._changed.notify_all()
        return data

    def _wait_for_room(self, size: int, wait_s: float) -> None:
        while not self._has_room(size) and not self._ended:
            seen = self.taken_bytes
            if not self._changed.wait_for(lambda seen=seen: self._ended or self.taken_bytes != seen, wait_s):  # type: ignore[misc]
                return

    def _has_room(self, size: int) -> bool:
        spooled, limit = (self._spool.bytes, self._spool.limit_bytes) if self._spool else (0, 0)
        if self._gap_lines or self._skipping:
            return self.pending_bytes + size <= (self._memory_bytes + limit) * (_RESUME_PART - 1) // _RESUME_PART
        return self._fits_memory(size) or spooled + size <= limit

    def _fits_memory(self, size: int) -> bool:
        return (self._spool is None or self._spool.is_empty) and self._in_memory + size <= self._memory_bytes

    def _add(self, data: bytes) -> None:
        if not data:
            return
        if self._spool is None or self._fits_memory(len(data)):
            self._append(data)
            return
        try:
            self._spool.write(data)
        except OSError:
            self._drop(data)
            return
        self._count(data)

    def _append(self, data: bytes) -> None:
        if not self._blocks or len(self._blocks[-1]) >= _BLOCK_BYTES:
            self._blocks.append(bytearray())
        self._blocks[-1] += data
        self._in_memory += len(data)
        self._count(data)

    def _count(self, data: bytes) -> None:
        self.put_bytes += len(data)
        self._at_line_start = data.endswith(b"\n")

    def _drop(self, data: bytes) -> None:
        lines = max(data.count(b"\n"), 1)
        self._gap_lines += lines
        self.dropped_lines += lines
        self._skipping = not data.endswith(b"\n")

    def _take_gap_line(self) -> bytes:
        lines, self._gap_lines = self._gap_lines, 0
        if not lines:
            return b""
        return (b"" if self._at_line_start else b"\n") + self._gap(lines)

    def _from_next_line(self, data: bytes) -> bytes:
        """The bytes after the next newline: the rest of a line whose beginning was dropped is dropped too."""
        _, newline, rest = data.partition(b"\n")
        self._skipping = not newline
        return rest

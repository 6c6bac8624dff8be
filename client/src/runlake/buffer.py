"""The queue between an application and its shipper: complete lines wait in memory, then on disk, and are dropped and counted if both are full.

The oldest bytes are on disk, the newer ones in memory. All bytes get to the disk before they are sent, or ``SAVE_S`` after they were put. If the
disk refuses, they are sent from memory::

    acknowledged   sent, on disk   on disk   in memory   <- put
                ^ begin         ^ taken   ^ spool.end ^ end
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from runlake.batches import MAX_LINE_BYTES, first_lines
from runlake.spool import Spool

SAVE_S = 0.75
"""Age at which bytes in memory are written to disk: with the time until the thread runs, below a second."""
_DISK_PAUSE_S = 1.0
"""After an error of the disk, until it is tried again."""
_BLOCK_BYTES = 256 * 1024
_UNCOPIED_BYTES = 32 * 1024
"""Bytes of one call that become a block as they are."""
_RESUME_PART = 8
"""After a drop, this fraction of the memory must be free before bytes are accepted again: one gap, not thousands."""


def gap_line(lines: int) -> bytes:
    """The line that the archive has in place of dropped lines."""
    return b"[runlake] %d lines are missing here: they were dropped, the buffer was full\n" % lines


def hole_line(lines: int) -> bytes:
    """The line that the archive has in place of lines that a killed program had sent or was about to send: at most so many are missing."""
    return b"[runlake] lines may be missing here, %d at most: the program was killed, or its disk could not be read\n" % lines


def no_line(lines: int) -> bytes:
    """No line: of events, the ids show what is missing."""
    return b""


@dataclass(frozen=True)
class Batch:
    """Bytes ``begin`` to ``end`` of the stream, ``lines`` lines from number ``first_line`` on, of which ``notices`` state gaps. ``data``: what is
    sent for them; if ``is_hole``, the bytes cannot be read, and it is the notice of that, or empty."""

    begin: int
    end: int
    first_line: int
    lines: int
    data: bytes
    notices: int = 0
    is_hole: bool = False

    @property
    def end_line(self) -> int:
        """The number of the line after it."""
        return self.first_line + self.lines


@dataclass
class _Block:
    """Bytes in memory; the oldest was put at ``began_s``."""

    begin: int
    began_s: float
    data: bytearray | bytes


class Buffer:
    """A bounded queue of lines from the application's threads to the shipper's.

    Memory: ``memory_bytes``, and in addition a batch that was taken and a line that has no newline yet, ``MAX_LINE_BYTES`` at most. Disk: the
    limit of ``spool``. ``put`` copies into memory, and writes to a file, without an fsync, when the memory is full, or always with
    ``writes_through``; it waits for the archive only with ``wait_s``. ``gap`` renders the line that states how many lines were dropped;
    ``hole`` that of lines on disk that cannot be read.
    """

    def __init__(
        self,
        memory_bytes: int,
        spool: Spool,
        gap: Callable[[int], bytes] = gap_line,
        hole: Callable[[int], bytes] = hole_line,
        *,
        writes_through: bool = False,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.spool, self._count = spool, spool.count
        self._gap, self._hole, self._clock_s = gap, hole, clock_s
        # Reentrant: a signal handler may log while its own thread is in here. One that raises, as for Ctrl-C, may do so in ``Condition.__enter__``,
        # which then leaves it locked; the lock itself is entered at once.
        self._lock = threading.RLock()
        self._changed, self._unsaved = threading.Condition(self._lock), threading.Condition(self._lock)
        self._memory_bytes, self._writes_through = memory_bytes, writes_through
        self._blocks: deque[_Block] = deque()
        state = spool.state
        self._begin = self._taken = state.begin
        self._begin_line = self._taken_line = state.begin_line
        self._end = max(spool.end, state.batch_end)
        self._line = bytearray()  # without its newline
        self._disk_from_s = -1.0
        self._needed_bytes = 1
        self._flush_to = 0
        self._gap_lines = 0
        self._gaps: deque[int] = deque()  # offsets of the lines that state gaps, unless they are acknowledged
        self._is_ended = self._is_saver_stopped = self._is_inside = False
        self._of_handlers: deque[bytes] = deque()
        self.dropped_lines = state.dropped

    @classmethod
    def of(cls, spool: Spool, hole: Callable[[int], bytes]) -> Buffer:
        """What a dead writer left in ``spool``; it accepts no more bytes. Raises OSError."""
        spool.cut_short()
        made = cls(0, spool, hole=hole)
        made._is_ended = True
        return made

    @property
    def pending_bytes(self) -> int:
        """Bytes that were put and not taken yet."""
        return self._end - self._taken + len(self._line)

    @property
    def pending_lines(self) -> int:
        """Lines that were put and not acknowledged yet."""
        with self._lock:
            in_memory = sum(self._count(block.data) for block in self._blocks)
            on_disk = max(self.spool.end_line - self._begin_line, 0)
            return on_disk + in_memory - len(self._gaps) + bool(self._line)

    @property
    def begin(self) -> int:
        """Offset of the first byte that is not acknowledged."""
        return self._begin

    @property
    def is_ended(self) -> bool:
        """Whether the end was announced."""
        return self._is_ended

    @property
    def is_drained(self) -> bool:
        """Whether the end was announced and all is taken."""
        with self._lock:
            return self._is_ended and not self.pending_bytes

    @property
    def spool_root(self) -> Path | None:
        """The folder below which remaining bytes are kept; None: there is no spool."""
        return self.spool.root

    def put(self, data: bytes, wait_s: float = 0.0) -> bool:
        """Add bytes; False if they were dropped for lack of room, and counted.

        With ``wait_s`` it blocks until there is room, as long as batches are taken, and at most so many seconds without; after a drop it
        does not block until there is room again. Thread-safe; the bytes of one call stay together.
        """
        with self._lock:
            if self._is_inside:
                self._of_handlers.append(data)
                return True
            if wait_s > 0 and not self._gap_lines:
                self._wait_for_room(len(data), wait_s)
            self._is_inside = True  # as ``_inside``, which takes longer than ``_put``
            try:
                return self._put(data)
            finally:
                self._is_inside = False
                if self._of_handlers:
                    self._put_of_handlers()

    def wait_for_room(self, size: int, wait_s: float) -> None:
        """Block until there is room for so many bytes, as ``put`` does."""
        with self._lock:
            if not self._gap_lines and not self._is_inside:
                self._wait_for_room(size, wait_s)

    def take(self, batch_bytes: int, fit: Callable[[bytes], bytes] = lambda data: data) -> Batch | None:
        """The next batch: complete lines, ``batch_bytes`` at most or one longer line, of which ``fit`` returns the start that one request takes. A
        batch that may have been sent before has the same bounds. None: there is nothing."""
        with self._lock, self._inside():
            is_saved = self._save()
            if self._taken >= self._end:
                return None
            state, taken = self.spool.state, self._taken
            is_repeat = taken == state.begin and state.batch_end > taken
            if is_repeat:
                data = self._peek(taken, state.batch_end - taken)
                data = data if len(data) == state.batch_end - taken else b""
            else:
                # What is on disk and what is not are never in one batch: whoever resumes could not repeat it.
                on_disk = self.spool.end if not is_saved and taken < self.spool.end else None
                data = fit(self._lines_from(taken, batch_bytes, on_disk))
            batch = self._batch(data) if data else self._hole_at(taken, is_repeat=is_repeat)
            self._taken, self._taken_line = batch.end, batch.end_line
            self._changed.notify_all()
            return batch

    def acknowledge(self, batch: Batch) -> None:
        """Forget a batch that is stored or refused, after the state says so."""
        with self._lock, self._inside():
            self._begin, self._begin_line = batch.end, batch.end_line
            while self._blocks and self._blocks[0].begin + len(self._blocks[0].data) <= self._begin:
                self._blocks.popleft()
            if self._blocks:
                self._trim(self._begin - self._blocks[0].begin)
            while self._gaps and self._gaps[0] < self._begin:
                self._gaps.popleft()
            self.spool.discard(self._begin)
            self._changed.notify_all()

    def wait(self, needed_bytes: int, timeout_s: float | None) -> None:
        """Wait until so many bytes are pending, a flush was requested, the end was announced, or the time is over."""
        with self._lock:
            self._needed_bytes = needed_bytes
            self._changed.wait_for(self._is_due, timeout_s)
            self._needed_bytes = 1

    def request_flush(self) -> int:
        """Make ``wait`` return for the bytes that are pending now. Returns the offset after them."""
        with self._lock:
            self._flush_to = self._end
            self._changed.notify_all()
            return self._end

    def end(self) -> None:
        """Accept no more bytes, and write all to disk. A gap that nothing followed gets its line now."""
        with self._lock, self._inside():
            if not self._is_ended:
                line, self._line = bytes(self._line) + b"\n" if self._line else b"", bytearray()
                if line:
                    self._append(line)
                self._append_gap_line()
                self._is_ended = True
                self._disk_from_s = -1.0
                self._save()
                self._changed.notify_all()

    def settle(self) -> int:
        """The number of lines that are not acknowledged and wait on disk. Those in memory only are counted as dropped."""
        with self._lock, self._inside():
            self._save()
            waiting = self.pending_lines
            if not self.spool.is_on_disk:
                kept = 0
            elif self._blocks:
                kept = max(self.spool.end_line - self._begin_line - sum(at < self.spool.end for at in self._gaps), 0)
            else:
                kept = waiting
            self.dropped_lines += waiting - kept
            self._blocks.clear()
            return kept

    def save_while_open(self) -> None:
        """Write bytes to disk at an age of ``SAVE_S``, until ``stop_saving``. The loop of a thread."""
        while True:
            with self._lock:
                self._unsaved.wait(self._save_in_s())
                if self._is_saver_stopped:
                    return
                if self._blocks and self._clock_s() >= self._blocks[0].began_s + SAVE_S:
                    with self._inside():
                        self._save()
                    self._changed.notify_all()
            self.spool.synchronize()

    def stop_saving(self) -> None:
        """End the loop of ``save_while_open``."""
        with self._lock:
            self._is_saver_stopped = True
            self._unsaved.notify_all()

    @contextmanager
    def _inside(self) -> Iterator[None]:
        """A change that a signal handler of the same thread must not interrupt: what it logs follows after the change."""
        self._is_inside = True
        try:
            yield
        finally:
            self._is_inside = False
            self._put_of_handlers()

    def _put_of_handlers(self) -> None:
        while self._of_handlers:
            self.put(self._of_handlers.popleft())

    def _put(self, data: bytes) -> bool:
        if self._line or not data.endswith(b"\n"):
            data = self._complete(data)
            if not data:
                return True
        if self._is_ended or not self._make_room(len(data)):
            self._drop(self._count(data))
            return False
        self._append_gap_line()
        self._append(data)
        if self._writes_through:
            self._save()
        if self._end - self._taken >= self._needed_bytes:
            self._changed.notify_all()
        return True

    def _save_in_s(self) -> float | None:
        if not self._blocks or self.spool.root is None:
            return None
        now_s = self._clock_s()
        return max(self._blocks[0].began_s + SAVE_S - now_s, self._disk_from_s - now_s, 0.001)

    def _is_due(self) -> bool:
        pending = self._end - self._taken
        return self._is_ended or pending >= self._needed_bytes or (pending > 0 and self._flush_to > self._taken)

    def _complete(self, data: bytes) -> bytes:
        """The complete lines; the last one waits for its newline. A line that no request can carry is ended early."""
        lines, newline, unfinished = data.rpartition(b"\n")
        complete = bytes(self._line) + lines + newline if newline else b""
        if newline:
            self._line = bytearray()
        self._line += unfinished
        while len(self._line) >= MAX_LINE_BYTES:
            complete += bytes(self._line[: MAX_LINE_BYTES - 1]) + b"\n"
            del self._line[: MAX_LINE_BYTES - 1]
        return complete

    def _wait_for_room(self, size: int, wait_s: float) -> None:
        while not self._is_ended:
            with self._inside():
                if self._make_room(size):
                    return
            seen = self._moved
            if not self._changed.wait_for(lambda seen=seen: self._is_ended or self._moved != seen, wait_s):  # type: ignore[misc]
                return

    @property
    def _moved(self) -> tuple[int, int, int]:
        """How far the bytes are taken, acknowledged, and written to disk, where a disk may have recovered."""
        return self._taken, self._begin, self.spool.end

    def _make_room(self, size: int) -> bool:
        limit = self._memory_bytes * (_RESUME_PART - 1) // _RESUME_PART if self._gap_lines else self._memory_bytes
        if self._in_memory + size <= limit:
            return True
        return (self._save() and self.spool.waiting_bytes + size <= self.spool.limit_bytes) or self._in_memory + size <= limit

    @property
    def _in_memory(self) -> int:
        """Bytes in memory that are not taken."""
        return self._end - max(self._taken, self._blocks[0].begin) if self._blocks else 0

    def _save(self) -> bool:
        """Write all bytes in memory to disk, the oldest first. False if some stay in memory."""
        if not self._blocks:
            return True
        if self.spool.root is None or self._clock_s() < self._disk_from_s:
            return False
        self.spool.skip(self._begin, self._begin_line)
        while self._blocks:
            block = self._blocks[0]
            self._trim(self.spool.end - block.begin)  # a signal handler raised an exception after the writing
            if self.spool.waiting_bytes + len(block.data) > self.spool.limit_bytes:
                return False
            try:
                written = self.spool.write(block.data)
            except OSError:
                self._disk_from_s = self._clock_s() + _DISK_PAUSE_S
                return False
            if written < len(block.data):
                self._disk_from_s = self._clock_s() + _DISK_PAUSE_S
                self._trim(written)
                return False
            self._blocks.popleft()
        return True

    def _trim(self, size: int) -> None:
        """Remove bytes from the front of the oldest block."""
        if size > 0:
            block = self._blocks[0]
            block.data = block.data[size:]
            block.begin += size

    def _lines_from(self, offset: int, batch_bytes: int, end: int | None) -> bytes:
        """Complete lines; empty if the disk has no bytes there."""
        data = self._peek(offset, batch_bytes if end is None else min(batch_bytes, end - offset))
        size = first_lines(data, batch_bytes)
        if not size and data:
            data = self._peek(offset, MAX_LINE_BYTES + 1)
            size = first_lines(data, batch_bytes) or len(data)
        return data[:size]

    def _peek(self, offset: int, size: int) -> bytes:
        """At most so many bytes, from the disk and then from memory; fewer where the disk has a hole."""
        found = bytearray()
        while len(found) < size and offset + len(found) < self.spool.end:
            try:
                piece = self.spool.read(offset + len(found), size - len(found))
            except OSError:
                piece = b""
            if not piece:
                return bytes(found)
            found += piece
        for block in self._blocks:
            at = offset + len(found) - block.begin
            if len(found) >= size:
                break
            if 0 <= at < len(block.data):
                found += block.data[at : at + size - len(found)]
        return bytes(found)

    def _batch(self, data: bytes) -> Batch:
        end = self._taken + len(data)
        return Batch(self._taken, end, self._taken_line, self._count(data), data, sum(self._taken <= at < end for at in self._gaps))

    def _hole_at(self, offset: int, *, is_repeat: bool) -> Batch:
        """The batch that states that bytes are missing: up to the next ones, or all that may have been sent."""
        state = self.spool.state
        following = self.spool.next_begin(offset)
        if following is not None and (not is_repeat or following[0] >= state.batch_end):
            end, lines = following[0], following[1] - self._taken_line
        elif is_repeat:
            end, lines = state.batch_end, state.batch_lines
        elif self.spool.end > offset:  # a part of the last line may be in memory
            end, lines = self.spool.end, max(self.spool.end_line - self._taken_line, 1)
        else:
            end, lines = self._end, 1
        lines = max(lines, 0)
        self.dropped_lines += lines
        return Batch(offset, end, self._taken_line, lines, self._hole(lines) if lines else b"", is_hole=True)

    def _append(self, data: bytes) -> None:
        # No call is between bytes and their end: an exception of a signal handler is raised after a call.
        end, youngest = self._end + len(data), self._blocks[-1].data if self._blocks else b""
        if isinstance(youngest, bytearray) and len(youngest) < _BLOCK_BYTES and len(data) < _UNCOPIED_BYTES:
            youngest += data
            self._end = end
        else:
            block = _Block(self._end, self._clock_s(), data if len(data) >= _UNCOPIED_BYTES else bytearray(data))
            self._blocks += (block,)
            self._end = end
            if len(self._blocks) == 1:
                self._unsaved.notify()

    def _drop(self, lines: int) -> None:
        self._gap_lines += lines
        self.dropped_lines += lines

    def _append_gap_line(self) -> None:
        lines, self._gap_lines = self._gap_lines, 0
        if lines:
            self._gaps.append(self._end)
            self._append(self._gap(lines))

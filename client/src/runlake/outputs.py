"""The outputs of a command: each copied to its destination byte for byte, all archived as one log of complete lines."""

from __future__ import annotations

import fcntl
import os
import selectors
import sys
import termios
from collections.abc import Callable, Iterator, Sequence
from typing import IO

from runlake.batches import MAX_LINE_BYTES
from runlake.masking import StreamMask

_READ_BYTES = 256 * 1024
_LONGEST_LINE_BYTES = MAX_LINE_BYTES - 1  # with the newline that ends it early, one request carries it


class Output:
    """One output of a command: the descriptor ``source`` is read, ``destination`` gets the bytes at once and unchanged.

    ``put`` and ``end`` return its part of the log: masked, in complete lines. A line waits for its newline, since the archive stores complete
    lines only; a line longer than ``line_bytes`` is returned in pieces of that length. Memory: one line, and the longest form of a secret.
    """

    def __init__(self, source: int, destination: IO[bytes] | None, mask: StreamMask, line_bytes: int = _LONGEST_LINE_BYTES) -> None:
        self.source = source
        self._destination, self._mask, self._line_bytes = destination, mask, line_bytes
        self._line = bytearray()

    def put(self, data: bytes) -> list[bytes]:
        """Copy bytes that were read. If the destination is closed, as by ``| head``, the command and the archive continue."""
        if self._destination is not None:
            try:
                self._destination.write(data)
                self._destination.flush()
            except OSError:
                self._destination = None
        return self._pieces(self._mask.put(data))

    def end(self) -> list[bytes]:
        """What was not returned yet, with a last line without its newline."""
        pieces = self._pieces(self._mask.end())
        line, self._line = bytes(self._line), bytearray()
        return [*pieces, line] if line else pieces

    def _pieces(self, data: bytes) -> list[bytes]:
        """Complete lines as one piece, then full pieces of a line that is too long; an unfinished line stays in ``_line``."""
        end = data.rfind(b"\n") + 1
        pieces = []
        if end:
            pieces = [b"".join((self._line, memoryview(data)[:end])) if self._line or end < len(data) else data]
            self._line = bytearray()
        self._line += data[end:] if end else data
        while len(self._line) > self._line_bytes:
            pieces.append(bytes(self._line[: self._line_bytes]))
            del self._line[: self._line_bytes]
        return pieces


class MergedLog:
    """The log of several outputs, in the order in which they are read: no line of one is split by another.

    ``write`` gets its bytes: what was read at once, and a line at most. If an output leaves a line unfinished, because it is too long or
    the output has ended, and another output continues, a newline ends the line. Nothing else is added.
    """

    def __init__(self, write: Callable[[bytes], None]) -> None:
        self._write = write
        self._unfinished: Output | None = None

    def add(self, output: Output, pieces: Sequence[bytes]) -> None:
        """Add pieces of an output."""
        for piece in pieces:
            if self._unfinished not in (None, output):
                self._write(b"\n")
            self._write(piece)
            self._unfinished = None if piece.endswith(b"\n") else output

    def end(self) -> None:
        """End the last line, so that further text starts a new one."""
        if self._unfinished is not None:
            self._write(b"\n")


def archive_outputs(outputs: Sequence[Output], write: Callable[[bytes], None], stopped: int) -> None:
    """Copy and archive all outputs until each is closed by the last process that has it open, or until the descriptor ``stopped`` is readable;
    what was written before is read. Closes the outputs.

    Outputs are read as they become readable, so a silent one does not delay the others; while ``write`` blocks, all of them wait.
    """
    log = MergedLog(write)
    still_open = list(outputs)
    with selectors.DefaultSelector() as selector:
        selector.register(stopped, selectors.EVENT_READ)
        for output in outputs:
            selector.register(output.source, selectors.EVENT_READ, output)
        while still_open:
            ready = [key.data for key, _ in selector.select()]
            if None in ready:
                break
            for output in ready:
                if data := os.read(output.source, _READ_BYTES):
                    log.add(output, output.put(data))
                else:
                    selector.unregister(output.source)
                    still_open.remove(output)
                    log.add(output, output.end())
    for output in still_open:
        for data in _written(output.source):
            log.add(output, output.put(data))
        log.add(output, output.end())
    for output in outputs:
        os.close(output.source)
    log.end()


def _written(source: int) -> Iterator[bytes]:
    """What a pipe contains now. Its writers may add more for as long as they live."""
    left_bytes = int.from_bytes(fcntl.ioctl(source, termios.FIONREAD, bytes(4)), sys.byteorder)
    while left_bytes > 0:
        data = os.read(source, min(left_bytes, _READ_BYTES))
        left_bytes -= len(data)
        yield data

"""Cuts a log, given in pieces of any size, into blocks of complete lines, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator

HEAD_BYTES, TAIL_BYTES = 12_288, 4_096
"""Of a longer line, only this much of its last state is read."""
LINE_BYTES = HEAD_BYTES + TAIL_BYTES
_PIECE_BYTES = 262_144


class BoundedLines:
    """Holds the bytes of the last, incomplete line: at most ``LINE_BYTES``."""

    def __init__(self, rest: bytes = b"", has_gap: bool = False) -> None:
        self.rest, self.has_gap = rest, has_gap

    def blocks(self, data: bytes) -> Iterator[bytes]:
        """The lines that the next bytes complete, in blocks that end with a newline. The blocks depend on the cuts, their lines do not."""
        for at in range(0, len(data), _PIECE_BYTES):
            piece = data[at : at + _PIECE_BYTES]
            end = piece.find(b"\n") if self.has_gap or len(self.rest) + len(piece) > LINE_BYTES else piece.rfind(b"\n")
            if end < 0:
                self._extend(piece)
                continue
            self._extend(piece[:end])
            yield self.rest + b"\n"
            last = piece.rfind(b"\n")
            if last > end:
                yield _shortened(piece[end + 1 : last + 1])
            self.rest, self.has_gap = b"", False
            self._extend(piece[last + 1 :])

    def _extend(self, piece: bytes) -> None:
        self.rest += piece
        if self.has_gap or len(self.rest) > LINE_BYTES:
            self.rest, self.has_gap = _cut(self.rest), True


def _shortened(block: bytes) -> bytes:
    """The block with its long lines cut."""
    start = 0
    while start + LINE_BYTES < len(block):
        end = block.rfind(b"\n", start, start + LINE_BYTES + 1)
        if end < 0:
            return b"\n".join(line if len(line) <= LINE_BYTES else _cut(line) for line in block.split(b"\n"))
        start = end + 1
    return block


def _cut(line: bytes) -> bytes:
    """The last state of a long line that is overwritten after carriage returns, as by a progress bar; of a long state, its head and tail."""
    line = line[line.rfind(b"\r", 0, len(line.rstrip(b"\r \t"))) + 1 :]
    return line if len(line) <= LINE_BYTES else line[:HEAD_BYTES] + line[-TAIL_BYTES:]

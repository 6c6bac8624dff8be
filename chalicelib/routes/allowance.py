"""Limits on the expansion of one request: bytes from gzip, values from JSON. Counted down over all parts of a body, before they are parsed."""

from __future__ import annotations

import re
import zlib
from typing import Any

from chalicelib.errors import BatchTooLargeError, InvalidBatchError
from chalicelib.routes.budgets import Budget, Growth

GZIP_MAGIC = b"\x1f\x8b"
_PIECE_BYTES = 64 * 1024
"""Input of one call of zlib, which copies the bytes after a member's end."""
_OUTPUT_BYTES = 1024 * 1024
_OTHERS = bytes(set(range(256)) - set(b'",[{\n'))
_STRING, _STRING_OF_LINE = re.compile(rb'"[^"]*+"?'), re.compile(rb'"[^"\n]*+"?')
"""Without escaped quotes. An unterminated string ends where a parser stops as well: at the end of the text, or of the line."""


class Allowance:
    """The limits of one request, from the bytes received and the budget of its operation. ``limit_bytes``: limit of the installation."""

    def __init__(self, budget: Budget, received_bytes: int, limit_bytes: int) -> None:
        self._bytes_left = min(budget.expanded_bytes.of(received_bytes), limit_bytes)
        self._values_left = budget.values.of(received_bytes)
        self._members_left = self._members = budget.members
        self.items = budget.items.of(received_bytes)
        self.fields = budget.fields.of(received_bytes)
        self.streams = budget.streams
        self._shared_bytes_left = self._shared_bytes = budget.shared_bytes.of(received_bytes)

    @property
    def values(self) -> int:
        """Remaining values."""
        return self._values_left

    def gunzip(self, packed: bytes) -> bytes:
        """Decompress gzip with one or more members, up to the remaining bytes. Raises InvalidBatchError, BatchTooLargeError."""
        unpacked = bytearray()
        view, at = memoryview(packed), 0
        while at < len(packed):
            self._members_left -= 1
            if self._members_left < 0:
                raise BatchTooLargeError(f"gzip body has too many members limit={self._members}")
            at = self._member(view, at, unpacked)
            while at < len(packed) and packed[at] == 0:
                at += 1
        self._bytes_left -= len(unpacked)
        return bytes(unpacked)

    def spend(self, size_bytes: int) -> None:
        """Count bytes that the gateway decompressed. Raises BatchTooLargeError."""
        if size_bytes > self._bytes_left:
            raise BatchTooLargeError(f"body expands too far limit={self._bytes_left}")
        self._bytes_left -= size_bytes

    def share(self, shared_bytes: int) -> None:
        """Count the bytes that one item shares with other items of the body. Raises BatchTooLargeError."""
        self._shared_bytes_left -= shared_bytes
        if self._shared_bytes_left < 0:
            raise BatchTooLargeError(f"shared data is too large, counted in each item limit={self._shared_bytes}")

    def check_values(self, content: str | bytes) -> None:
        """Count the values of JSON text (document or lines), at least as many as a parser creates. Raises BatchTooLargeError."""
        raw = content.encode(errors="replace") if isinstance(content, str) else content
        count = _count(raw)
        if count > self._values_left:
            # A parser of documents accepts strings across lines, a parser of lines does not: the larger count bounds both.
            marks = raw.replace(b"\\\\", b"").replace(b'\\"', b"").translate(None, _OTHERS)
            count = 1 + max(_marks_outside(marks, _STRING, b""), _marks_outside(marks, _STRING_OF_LINE, b"\n"))
        if count > self._values_left:
            raise BatchTooLargeError(f"body has too many values limit={self._values_left}")
        self._values_left -= count

    def _member(self, packed: memoryview, at: int, unpacked: bytearray) -> int:
        """Decompress the member that begins at ``at``. Returns the offset of its end."""
        member = zlib.decompressobj(wbits=31)
        piece: bytes | memoryview = b""
        while not member.eof:
            if not piece:
                piece = packed[at : at + _PIECE_BYTES]
                at += len(piece)
            room = self._bytes_left - len(unpacked) + 1
            output = _inflated(member, piece, min(room, _OUTPUT_BYTES))
            unpacked += output
            if len(unpacked) > self._bytes_left:
                raise BatchTooLargeError(f"gzip body expands too far limit={self._bytes_left}")
            piece = member.unconsumed_tail
            if not output and not piece and at >= len(packed) and not member.eof:
                raise InvalidBatchError("gzip body ends too early")
        return at - len(member.unused_data)


def gunzip(packed: bytes, limit_bytes: int) -> bytes:
    """Decompress gzip, in memory bounded by a limit. Raises InvalidBatchError, BatchTooLargeError."""
    return Allowance(Budget(expanded_bytes=Growth(limit_bytes, 0, limit_bytes)), len(packed), limit_bytes).gunzip(packed)


def _inflated(member: Any, packed: bytes | memoryview, limit_bytes: int) -> bytes:
    try:
        output: bytes = member.decompress(packed, limit_bytes)
        return output
    except zlib.error as error:
        raise InvalidBatchError(f"gzip body is broken reason={str(error)!r}") from error


def _count(content: bytes) -> int:
    return 1 + sum(map(content.count, (b",", b"[", b"{")))


def _marks_outside(marks: bytes, string: re.Pattern[bytes], end: bytes) -> int:
    """The commas and brackets outside of strings. ``end``: ends a string besides its quote. In pieces: all texts between strings at once take
    20 times their bytes."""
    count, begun = 0, b""
    for at in range(0, len(marks), _PIECE_BYTES):
        piece = begun + marks[at : at + _PIECE_BYTES]
        outside = string.sub(b"", piece)
        count += len(outside) - outside.count(b"\n")
        tail = piece[piece.rfind(end) + 1 :] if end else piece
        begun = b'"' if tail.count(b'"') % 2 else b""
    return count

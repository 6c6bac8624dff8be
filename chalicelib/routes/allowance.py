"""What one request may unfold into: bytes out of gzip, values out of JSON. Counted down over all parts of a body, before they are parsed."""

from __future__ import annotations

import re
import zlib
from typing import Any

from chalicelib.errors import BatchTooLargeError, InvalidBatchError
from chalicelib.routes.budgets import Budget, Growth

GZIP_MAGIC = b"\x1f\x8b"
_PIECE_BYTES = 64 * 1024
"""Input of one call of zlib: it copies what stands behind a member's end."""
_OUTPUT_BYTES = 1024 * 1024
_STRING_OF_LINE = re.compile(r'"[^"\\\n]*+(?:\\[^\n][^"\\\n]*+)*+(?:"|\\?(?=\n|\Z))')
_STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
"""One that does not end hides what follows it: there a parser stops as well. Matched once, so never in quadratic time."""


class Allowance:
    """Of one request, by the bytes that were received and the budget of its operation. ``limit_bytes``: of the installation."""

    def __init__(self, budget: Budget, received_bytes: int, limit_bytes: int) -> None:
        self._bytes_left = min(budget.expanded_bytes.of(received_bytes), limit_bytes)
        self._values_left = budget.values.of(received_bytes)
        self._members_left = self._members = budget.members
        self.items = budget.items.of(received_bytes)
        self.streams = budget.streams
        self._shared_bytes_left = self._shared_bytes = budget.shared_bytes.of(received_bytes)

    @property
    def values(self) -> int:
        """Values that are left."""
        return self._values_left

    def gunzip(self, packed: bytes) -> bytes:
        """Unpack gzip, of several members too. Decodes no more than is left. Raises InvalidBatchError, BatchTooLargeError."""
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
        """Count bytes that came unpacked. Raises BatchTooLargeError."""
        if size_bytes > self._bytes_left:
            raise BatchTooLargeError(f"body expands too far limit={self._bytes_left}")
        self._bytes_left -= size_bytes

    def share(self, shared_bytes: int) -> None:
        """Count what one item shares with others of the body. Raises BatchTooLargeError."""
        self._shared_bytes_left -= shared_bytes
        if self._shared_bytes_left < 0:
            raise BatchTooLargeError(f"items share too much, counted in each limit={self._shared_bytes}")

    def check_values(self, content: str | bytes) -> None:
        """Count the values of JSON text: never fewer than a parser makes of it, document or lines. Raises BatchTooLargeError."""
        count = _count(content)
        if count > self._values_left:
            text = content if isinstance(content, str) else content.decode(errors="replace")
            # A string may cross lines for a parser of documents, never for one of lines: the larger count holds for both.
            count = max(_count(_STRING.sub("", text)), _count(_STRING_OF_LINE.sub("", text)))
        if count > self._values_left:
            raise BatchTooLargeError(f"body has too many values limit={self._values_left}")
        self._values_left -= count

    def _member(self, packed: memoryview, at: int, unpacked: bytearray) -> int:
        """Unpack the member that begins at ``at``; where it ends."""
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
    """Unpack gzip in memory bounded by a limit. Raises InvalidBatchError, BatchTooLargeError."""
    return Allowance(Budget(expanded_bytes=Growth(limit_bytes, 0, limit_bytes)), len(packed), limit_bytes).gunzip(packed)


def _inflated(member: Any, packed: bytes | memoryview, limit_bytes: int) -> bytes:
    try:
        output: bytes = member.decompress(packed, limit_bytes)
        return output
    except zlib.error as error:
        raise InvalidBatchError(f"gzip body is broken reason={str(error)!r}") from error


def _count(content: str | bytes) -> int:
    if isinstance(content, bytes):
        return 1 + sum(map(content.count, (b",", b"[", b"{")))
    return 1 + sum(map(content.count, (",", "[", "{")))

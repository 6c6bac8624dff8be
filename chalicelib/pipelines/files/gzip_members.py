"""Gzip files that grow: each append is a member of its own, so each prefix that ends with a member is a gzip file."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator

from chalicelib.errors import DamagedLogError

PIECE_BYTES = 1024 * 1024
"""At most this much is expanded at once."""
MAX_LINE_BYTES = 256 * 1024 * 1024
"""A longer line is damage: a reader holds one line, and a few KB can expand to any length."""
SLICE_BYTES = 16 * 1024
"""At most this much is given to zlib at once: it copies the bytes after a member's end, once for each member."""
_GZIP = 31
_LEVEL = 6


def member(data: bytes) -> bytes:
    """A gzip member without a time, so that the same events are the same bytes; nothing for nothing."""
    return gzip.compress(data, _LEVEL, mtime=0) if data else b""


def expanded(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """The content of all members, in pieces of at most ``PIECE_BYTES``. Memory: a chunk and a piece. Raises DamagedLogError for
    anything but complete members, and for lines of more than ``MAX_LINE_BYTES``."""
    inflate = None
    line_bytes = 0
    for rest in (chunk[at : at + SLICE_BYTES] for chunk in chunks for at in range(0, len(chunk), SLICE_BYTES)):
        while rest or (inflate and inflate.unconsumed_tail):
            if inflate is None:
                inflate = zlib.decompressobj(_GZIP)
            try:
                piece = inflate.decompress(inflate.unconsumed_tail + rest, PIECE_BYTES)
            except zlib.error as error:
                raise DamagedLogError(f"not gzip error={error}") from error
            rest = b""
            end = piece.rfind(b"\n")
            line_bytes = line_bytes + len(piece) if end < 0 else len(piece) - end - 1
            if line_bytes > MAX_LINE_BYTES:
                raise DamagedLogError(f"a line is too long limit={MAX_LINE_BYTES}")
            yield piece
            if inflate.eof:
                rest, inflate = inflate.unused_data, None
    if inflate is not None:
        raise DamagedLogError("a gzip member is truncated")

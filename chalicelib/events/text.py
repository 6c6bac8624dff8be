"""Pieces of a log's bytes as an answer has them: whole lines as far as there are any, no more than travels."""

from __future__ import annotations

from chalicelib.response_size import fits_content

ANSWER_BYTES = 1024 * 1024
"""What one answer reads of a log."""


def cut(data: bytes, max_lines: int | None = None, *, more: bool) -> bytes:
    """The beginning of a log's bytes that is answered: up to its last newline (``more``: there are bytes behind it), at most so many
    lines, and no more than fits an answer. A line that is longer than that comes in parts, cut between letters."""
    if max_lines is not None:
        data, more = _lines(data, max_lines, more)
    if more:
        data = _cut_at_boundary(data)
    while not fits_content(decode_text(data)):
        data = _cut_at_boundary(data[: len(data) // 2])
    return data


def decode_text(data: bytes) -> str:
    """Bytes as text: what is no UTF-8 becomes U+FFFD."""
    return data.decode(errors="replace")


def _lines(data: bytes, most: int, more: bool) -> tuple[bytes, bool]:
    end = 0
    for _ in range(most):
        found = data.find(b"\n", end)
        if found < 0:
            return data, more
        end = found + 1
    return data[:end], more or end < len(data)


def _cut_at_boundary(data: bytes) -> bytes:
    end = data.rfind(b"\n") + 1
    if end:
        return data[:end]
    for back in range(1, min(4, len(data) - 1)):
        if data[-back] & 0xC0 == 0xC0:  # the first byte of a letter that may go on behind the end
            return data[:-back]
        if data[-back] < 0x80:
            break
    return data

"""Cuts bytes of a log for a response: complete lines if possible, within the size limit of responses."""

from __future__ import annotations

from chalicelib.response_size import fits_content

ANSWER_BYTES = 1024 * 1024
"""Bytes of a log that one response reads."""


def cut(data: bytes, max_lines: int | None = None, *, more: bool) -> bytes:
    """The first bytes of ``data`` for a response: up to the last newline (``more``: bytes follow), at most ``max_lines`` lines, and
    within the size limit. A longer line is returned in parts, cut between characters."""
    if max_lines is not None:
        data, more = _lines(data, max_lines, more)
    if more:
        data = _cut_at_boundary(data)
    while not fits_content(decode_text(data)):
        data = _cut_at_boundary(data[: len(data) // 2])
    return data


def decode_text(data: bytes) -> str:
    """Bytes as text; invalid UTF-8 becomes U+FFFD."""
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
        if data[-back] & 0xC0 == 0xC0:  # the first byte of a character that may continue after the end
            return data[:-back]
        if data[-back] < 0x80:
            break
    return data

"""Splitting a stream of bytes into batches."""

from __future__ import annotations

MAX_LINE_BYTES = 4 * 1024 * 1024
"""Of one request, for bytes that do not compress: API Gateway and Lambda accept 4.5 MB. The archive accepts 6 MiB of lines however well they
compress. A longer line is cut."""


def first_lines(data: bytes, batch_bytes: int) -> int:
    """The size of the first batch of ``data``: complete lines, ``batch_bytes`` at most, or one longer line; 0 if there is no newline."""
    return data.rfind(b"\n", 0, batch_bytes) + 1 or data.find(b"\n") + 1

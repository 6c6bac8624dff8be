"""Splitting a stream of bytes into batches."""

from __future__ import annotations

MAX_LINE_BYTES = 4 * 1024 * 1024
"""Of one request, for bytes that do not compress: API Gateway and Lambda accept 4.5 MB. A longer line is cut."""


def cut(waiting: bytearray, batch_bytes: int, *, final: bool) -> bytes:
    """Remove the next batch from the front of ``waiting`` and return it; empty if no complete line is there yet.

    A batch has complete lines, ``batch_bytes`` at most or one longer line. A line longer than ``MAX_LINE_BYTES`` is cut there. With ``final``,
    a last line without its newline is returned too.
    """
    end = waiting.rfind(b"\n", 0, batch_bytes) + 1
    if not end:
        end = waiting.find(b"\n", 0, MAX_LINE_BYTES) + 1
    if not end and (final or len(waiting) >= MAX_LINE_BYTES):
        end = min(len(waiting), MAX_LINE_BYTES)
    batch = bytes(waiting[:end])
    del waiting[:end]
    return batch


def lines_of(batch: bytes) -> int:
    """How many lines the archive counts in a batch: the last one needs no newline."""
    return batch.count(b"\n") + (bool(batch) and not batch.endswith(b"\n"))

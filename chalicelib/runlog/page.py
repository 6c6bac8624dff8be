"""Takes a page of lines from a stream of bytes, so that it fits a response."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from chalicelib.response_size import CONTENT_BYTES, fits_content, text_bytes
from chalicelib.runlog.line_index import MAX_BEFORE_BYTES, LineOffset

RAW_BYTES = 3 * 1024 * 1024
"""Bytes read for a page: leaves room for double escaping."""


@dataclass(frozen=True, slots=True)
class TakenLines:
    """Lines without their newlines; ``skipped_bytes`` precede the first one. ``cut``: the only line is the beginning of a line that is longer
    than a page."""

    lines: list[bytes]
    skipped_bytes: int
    cut: bool = False

    def offset_after(self, start: LineOffset, line: int, count: int) -> LineOffset:
        """The offset after the first ``count`` lines of a page that began at ``line`` and was read from ``start``."""
        size = sum(map(len, self.lines[:count])) + count
        per_line = size / count if count else start.bytes_per_line
        if not self.lines:
            return start
        before = b"".join(taken + b"\n" for taken in self.lines[max(0, count - MAX_BEFORE_BYTES) : count])
        return LineOffset(line + count, start.byte + self.skipped_bytes + size, per_line, before[-MAX_BEFORE_BYTES:])


def take_lines(chunks: Iterator[bytes], skip: int, limit: int) -> TakenLines:
    """Skip ``skip`` lines, then take up to ``limit``; fewer if they fill a page. A line longer than a page is returned alone, and cut."""
    lines: list[bytes] = []
    rest, skipped_bytes, taken_bytes = b"", 0, 0
    for chunk in chunks:
        pieces = (rest + chunk).split(b"\n")
        rest = pieces.pop()
        skipped, fresh = pieces[:skip], pieces[skip : skip + limit - len(lines)]
        skip -= len(skipped)
        skipped_bytes += sum(map(len, skipped)) + len(skipped)
        for line in fresh:
            if lines and taken_bytes + len(line) > RAW_BYTES:
                return TakenLines(lines, skipped_bytes)
            lines.append(line)
            taken_bytes += len(line)
        if len(lines) >= limit or (not skip and taken_bytes + len(rest) >= RAW_BYTES):
            break
    if not lines and not skip and rest:
        return TakenLines([rest], skipped_bytes, cut=True)
    return TakenLines(lines, skipped_bytes)


def fit(lines: list[bytes]) -> tuple[str, int, bool]:
    """The lines that fit ``CONTENT_BYTES``, joined; their count; whether the only one was cut."""
    taken, logs = len(lines), _joined(lines)
    while not fits_content(logs):
        excess = text_bytes(logs) / CONTENT_BYTES
        if taken <= 1:
            return _cut(logs, excess), taken, True
        taken = max(1, int(taken / excess * 0.9))
        logs = _joined(lines[:taken])
    return logs, taken, False


def _cut(line: str, excess: float) -> str:
    while excess > 1:
        line = line[: int(len(line) / excess * 0.9)]
        excess = text_bytes(line) / CONTENT_BYTES
    return line


def _joined(lines: list[bytes]) -> str:
    return b"\n".join(lines).decode(errors="replace")

"""Cutting a page of lines out of a stream of bytes, so that it fits an answer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from chalicelib.response_size import CONTENT_BYTES, fits_content, text_bytes
from chalicelib.runlog.line_index import MAX_BEFORE_BYTES, LineOffset

RAW_BYTES = 3 * 1024 * 1024
"""What is read for a page: leaves room for what is escaped twice."""


@dataclass(frozen=True, slots=True)
class TakenLines:
    """Lines without their newlines; ``skipped_bytes`` stood before the first of them. ``cut``: the only one is the beginning of a line
    that is longer than a page."""

    lines: list[bytes]
    skipped_bytes: int
    cut: bool = False

    def offset_after(self, start: LineOffset, line: int, count: int) -> LineOffset:
        """The place behind the first ``count`` lines of a page that began at ``line``, read from ``start``."""
        size = sum(map(len, self.lines[:count])) + count
        per_line = size / count if count else start.bytes_per_line
        if not self.lines:
            return start
        before = b"".join(taken + b"\n" for taken in self.lines[max(0, count - MAX_BEFORE_BYTES) : count])
        return LineOffset(line + count, start.byte + self.skipped_bytes + size, per_line, before[-MAX_BEFORE_BYTES:])


def take_lines(chunks: Iterator[bytes], skip: int, limit: int) -> TakenLines:
    """Up to ``limit`` lines after ``skip`` of them; fewer when they fill a page. A line longer than a page comes alone, and cut."""
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
    """As many lines as ``CONTENT_BYTES`` allow, how many, and whether the only one had to be cut."""
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

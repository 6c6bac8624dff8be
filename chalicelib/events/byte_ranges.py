"""Byte ranges of a log, and the plan of the requests that read them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

MAX_READ_RATIO = 1.9
"""Bytes read may exceed the requested bytes by this factor to save requests."""
FINE_BYTES = 8 * 1024
"""Ranges that are shorter on average are fine: half of the shortest ones for which the factor holds, since a response cuts its first and
its last range."""
FINE_GAP_BYTES = 64 * 1024
"""Between fine ranges a smaller gap is read whatever the factor: a request for each range would cost far more time."""


@dataclass(frozen=True, slots=True)
class ByteRange:
    """``bytes`` bytes from ``byte`` on, which are ``lines`` complete lines from ``line`` on, newlines included."""

    byte: int
    bytes: int
    line: int
    lines: int

    @property
    def end_byte(self) -> int:
        """The first byte after the range."""
        return self.byte + self.bytes

    @property
    def end_line(self) -> int:
        """The first line after the range."""
        return self.line + self.lines


def merge_adjacent(ranges: Iterable[ByteRange]) -> list[ByteRange]:
    """Ranges in the log's order, with adjacent ones merged."""
    result: list[ByteRange] = []
    for each in ranges:
        if result and result[-1].end_byte == each.byte:
            last = result[-1]
            result[-1] = ByteRange(last.byte, last.bytes + each.bytes, last.line, last.lines + each.lines)
        else:
            result.append(each)
    return result


def plan_reads(ranges: Sequence[ByteRange]) -> list[tuple[int, int]]:
    """Ranges [start, end) that cover the given ranges, in order, in few requests.

    Gaps are read, the smallest first, while the total stays below ``MAX_READ_RATIO`` times the requested bytes; between fine ranges all gaps
    up to ``FINE_GAP_BYTES``.
    """
    if not ranges:
        return []
    gaps = [after.byte - before.end_byte for before, after in itertools.pairwise(ranges)]
    requested = sum(each.bytes for each in ranges)
    gap_bytes = FINE_GAP_BYTES if requested < FINE_BYTES * len(ranges) else 0
    read, over = requested, set()
    for gap, at in sorted((gap, at) for at, gap in enumerate(gaps)):
        if gap > gap_bytes and read + gap > requested * MAX_READ_RATIO:
            break
        read += gap
        over.add(at)
    result = [(ranges[0].byte, ranges[0].end_byte)]
    for at, each in enumerate(ranges[1:]):
        if at in over:
            result[-1] = (result[-1][0], each.end_byte)
        else:
            result.append((each.byte, each.end_byte))
    return result


def encode_ranges(ranges: Sequence[ByteRange]) -> str:
    """Ranges as text, each relative to the one before: ``gap bytes:bytes:gap lines:lines`` in hex, joined by commas."""
    result: list[str] = []
    byte = line = 0
    for each in ranges:
        result.append(f"{each.byte - byte:x}:{each.bytes:x}:{each.line - line:x}:{each.lines:x}")
        byte, line = each.end_byte, each.end_line
    return ",".join(result)


def decode_ranges(text: str) -> tuple[ByteRange, ...]:
    """The inverse of ``encode_ranges``."""
    result: list[ByteRange] = []
    byte = line = 0
    for each in text.split(",") if text else ():
        skipped_bytes, size, skipped_lines, lines = (int(number, 16) for number in each.split(":"))
        result.append(ByteRange(byte + skipped_bytes, size, line + skipped_lines, lines))
        byte, line = result[-1].end_byte, result[-1].end_line
    return tuple(result)

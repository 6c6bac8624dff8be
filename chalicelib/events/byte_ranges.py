"""Bytes of the log that belong together, and in which reads to get them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

MERGE_GAP_BYTES = 16 * 1024
"""What lies between two ranges and is less than this is read with them: it costs less than a request."""
MAX_READ_RATIO = 1.4
"""So many times the bytes that are requested may be read to save requests."""


@dataclass(frozen=True, slots=True)
class ByteRange:
    """``bytes`` bytes from ``byte`` on, ``lines`` lines from ``line`` on: whole lines, newlines and all."""

    byte: int
    bytes: int
    line: int
    lines: int

    @property
    def end_byte(self) -> int:
        """The byte behind it."""
        return self.byte + self.bytes

    @property
    def end_line(self) -> int:
        """The line behind it."""
        return self.line + self.lines


def merge_adjacent(ranges: Iterable[ByteRange]) -> list[ByteRange]:
    """Spans in the log's order, neighbours as one."""
    result: list[ByteRange] = []
    for each in ranges:
        if result and result[-1].end_byte == each.byte:
            last = result[-1]
            result[-1] = ByteRange(last.byte, last.bytes + each.bytes, last.line, last.lines + each.lines)
        else:
            result.append(each)
    return result


def plan_reads(ranges: Sequence[ByteRange]) -> list[tuple[int, int]]:
    """Ranges [start, end) that have all of these ranges, in order: few, and not much more than the ranges are.

    Small gaps are read over, and larger ones, the smallest first, as long as all of it stays below ``MOST_READ`` of what is requested.
    """
    if not ranges:
        return []
    gaps = [after.byte - before.end_byte for before, after in itertools.pairwise(ranges)]
    requested = sum(each.bytes for each in ranges)
    read, over = requested, set()
    for gap, at in sorted((gap, at) for at, gap in enumerate(gaps)):
        if gap > MERGE_GAP_BYTES and read + gap > requested * MAX_READ_RATIO:
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
    """Spans as text, relative to the one before: ``bytes between:bytes:lines between:lines`` in hex, joined by commas."""
    result: list[str] = []
    byte = line = 0
    for each in ranges:
        result.append(f"{each.byte - byte:x}:{each.bytes:x}:{each.line - line:x}:{each.lines:x}")
        byte, line = each.end_byte, each.end_line
    return ",".join(result)


def decode_ranges(text: str) -> tuple[ByteRange, ...]:
    """The inverse of ``packed``."""
    result: list[ByteRange] = []
    byte = line = 0
    for each in text.split(",") if text else ():
        skipped_bytes, size, skipped_lines, lines = (int(number, 16) for number in each.split(":"))
        result.append(ByteRange(byte + skipped_bytes, size, line + skipped_lines, lines))
        byte, line = result[-1].end_byte, result[-1].end_line
    return tuple(result)

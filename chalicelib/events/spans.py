"""Bytes of the log that belong together, and in which reads to get them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

ALWAYS_MERGED_BYTES = 16 * 1024
"""What lies between two spans and is less than this is read with them: it costs less than a request."""
MOST_READ = 1.4
"""So many times the bytes that are wanted may be read to save requests."""


@dataclass(frozen=True, slots=True)
class Span:
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


def joined(spans: Iterable[Span]) -> list[Span]:
    """Spans in the log's order, neighbours as one."""
    found: list[Span] = []
    for each in spans:
        if found and found[-1].end_byte == each.byte:
            last = found[-1]
            found[-1] = Span(last.byte, last.bytes + each.bytes, last.line, last.lines + each.lines)
        else:
            found.append(each)
    return found


def reads(spans: Sequence[Span]) -> list[tuple[int, int]]:
    """Ranges [start, end) that have all of these spans, in order: few, and not much more than the spans are.

    Small gaps are read over, and larger ones, the smallest first, as long as all of it stays below ``MOST_READ`` of what is wanted.
    """
    if not spans:
        return []
    gaps = [after.byte - before.end_byte for before, after in itertools.pairwise(spans)]
    wanted = sum(each.bytes for each in spans)
    read, over = wanted, set()
    for gap, at in sorted((gap, at) for at, gap in enumerate(gaps)):
        if gap > ALWAYS_MERGED_BYTES and read + gap > wanted * MOST_READ:
            break
        read += gap
        over.add(at)
    found = [(spans[0].byte, spans[0].end_byte)]
    for at, each in enumerate(spans[1:]):
        if at in over:
            found[-1] = (found[-1][0], each.end_byte)
        else:
            found.append((each.byte, each.end_byte))
    return found


def packed(spans: Sequence[Span]) -> str:
    """Spans as text, relative to the one before: ``bytes between:bytes:lines between:lines`` in hex, joined by commas."""
    found: list[str] = []
    byte = line = 0
    for each in spans:
        found.append(f"{each.byte - byte:x}:{each.bytes:x}:{each.line - line:x}:{each.lines:x}")
        byte, line = each.end_byte, each.end_line
    return ",".join(found)


def unpacked(text: str) -> tuple[Span, ...]:
    """The inverse of ``packed``."""
    found: list[Span] = []
    byte = line = 0
    for each in text.split(",") if text else ():
        skipped_bytes, size, skipped_lines, lines = (int(number, 16) for number in each.split(":"))
        found.append(Span(byte + skipped_bytes, size, line + skipped_lines, lines))
        byte, line = found[-1].end_byte, found[-1].end_line
    return tuple(found)

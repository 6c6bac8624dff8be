"""Masking a batch: what any shape finds is replaced, everything else stays byte for byte, and so does the number of lines."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO

from chalicelib.masking.shapes import NAMES, Finder
from chalicelib.masking.text import Text

_NEWLINE = b"\n"


@dataclass(frozen=True, slots=True)
class Masked:
    """``body`` is the very same object when there was nothing to mask; ``counts`` are secrets by the name of their shape."""

    body: bytes
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Found:
    """A part of a batch that is masked, under the name of one shape."""

    start: int
    end: int
    shape: str


def mask(body: bytes, finders: Sequence[tuple[str, Finder]], read: Callable[[bytes], Text] = Text) -> Masked:
    """Time and memory grow with the body's length, whatever stands in it; ``read`` is for tests that count."""
    counts: Counter[str] = Counter()
    masked, at = BytesIO(), 0
    for found in secrets(read(body), finders):
        if body[found.start : found.end] in _MARKERS:
            continue  # it was masked before it came
        masked.write(memoryview(body)[at : found.start])
        masked.write(_replacement(body[found.start : found.end], marker(found.shape)))
        counts[found.shape] += 1
        at = found.end
    if not counts:
        return Masked(body, {})
    masked.write(memoryview(body)[at:])
    return Masked(masked.getvalue(), dict(counts))


def secrets(text: Text, finders: Sequence[tuple[str, Finder]]) -> Iterator[Found]:
    """What the finders find, in order; parts that overlap are one, named by the one that begins first."""
    current: Found | None = None
    for start, order, end in heapq.merge(*(_ranked(text, name, find) for name, find in finders)):
        if current and start < current.end:
            current = Found(current.start, max(current.end, end), current.shape)
        else:
            if current:
                yield current
            current = Found(start, end, NAMES[order])
    if current:
        yield current


def _ranked(text: Text, name: str, find: Finder) -> Iterator[tuple[int, int, int]]:
    order = NAMES.index(name)
    return ((start, order, end) for start, end in find(text))


def marker(shape: str) -> bytes:
    """What stands in place of a secret."""
    return f"***{shape}***".encode()


_MARKERS = frozenset(map(marker, NAMES))


def _replacement(secret: bytes, by: bytes) -> bytes:
    """The marker, once a line: lines are neither lost nor joined. A carriage return stays too."""
    return _NEWLINE.join(_masked_line(line, by) for line in secret.split(_NEWLINE))


def _masked_line(line: bytes, by: bytes) -> bytes:
    return (by if line.strip() else b"") + (b"\r" if line.endswith(b"\r") else b"")

"""Masking a batch: what any shape finds is replaced, everything else stays byte for byte, and so does the number of lines."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from typing import NamedTuple

from chalicelib.masking.shapes import MARKERS, NAMES, Finder
from chalicelib.masking.text import Text

_NEWLINE = b"\n"
_MARKED = frozenset(MARKERS.values())


class Edit(NamedTuple):
    """Bytes [start, end) of a batch became ``length`` others."""

    start: int
    end: int
    length: int


@dataclass(frozen=True, slots=True)
class Masked:
    """``body`` is the very same object when there was nothing to mask; ``counts`` are secrets by the name of their shape, ``edits`` where
    they stood, in order."""

    body: bytes
    counts: Mapping[str, int]
    edits: tuple[Edit, ...] = field(default=(), compare=False)


class Found(NamedTuple):
    """A part of a batch that is masked, under the name of one shape."""

    start: int
    end: int
    shape: str


def mask(body: bytes, finders: Sequence[tuple[str, Finder]], read: Callable[[bytes], Text] = Text) -> Masked:
    """Time and memory grow with the body's length, whatever stands in it; ``read`` is for tests that count."""
    counts: Counter[str] = Counter()
    masked, view, at, edits = BytesIO(), memoryview(body), 0, list[Edit]()
    for start, end, shape in secrets(read(body), finders):
        secret = body[start:end]
        if secret in _MARKED:
            continue  # it was masked before it came
        masked.write(view[at:start])
        edits.append(Edit(start, end, masked.write(_replacement(secret, MARKERS[shape]))))
        counts[shape] += 1
        at = end
    if not counts:
        return Masked(body, {})
    masked.write(view[at:])
    return Masked(masked.getvalue(), dict(counts), tuple(edits))


def secrets(text: Text, finders: Sequence[tuple[str, Finder]]) -> Iterator[Found]:
    """What the finders find, in order; parts that overlap are one, named by the one that begins first."""
    first, last, order = 0, 0, -1
    for start, its_order, end in heapq.merge(*(_ranked(text, name, find) for name, find in finders)):
        if order >= 0 and start < last:
            last = max(last, end)
            continue
        if order >= 0:
            yield Found(first, last, NAMES[order])
        first, last, order = start, end, its_order
    if order >= 0:
        yield Found(first, last, NAMES[order])


def _ranked(text: Text, name: str, find: Finder) -> Iterator[tuple[int, int, int]]:
    order = NAMES.index(name)
    return ((start, order, end) for start, end in find(text))


def _replacement(secret: bytes, by: bytes) -> bytes:
    """The marker, once a line: lines are neither lost nor joined. A carriage return stays too."""
    if _NEWLINE not in secret:
        return by
    return _NEWLINE.join(_masked_line(line, by) for line in secret.split(_NEWLINE))


def _masked_line(line: bytes, by: bytes) -> bytes:
    return (by if line.strip() else b"") + (b"\r" if line.endswith(b"\r") else b"")

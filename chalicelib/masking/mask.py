"""Masks a batch: replaces the findings of all shapes. All other bytes and the number of lines stay unchanged."""

from __future__ import annotations

import heapq
import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from itertools import chain
from typing import NamedTuple, overload

from chalicelib.masking.replacements import by_lines
from chalicelib.masking.shapes import CONFIGURED_ORDER, MARKERS, Finders, shape_of
from chalicelib.masking.text import Text

_NEWLINE, _STARS = b"\n", b"***"
_NUMBER = re.compile(rb"-?\d++(?:\.\d++)?(?:[eE][+-]?\d++)?")
_QUOTED_NAME = re.compile(rb"(\\{0,3}[\"'])[ \t]{0,8}[:,][ \t]{0,8}\Z")
_NAME_BYTES = 24
_MOST_PARTS = 4096
"""Joined at once."""
_MARKED = frozenset(MARKERS.values())
_ORDERED_MARKERS = tuple(MARKERS.values())


class Edit(NamedTuple):
    """Bytes [start, end) of a batch were replaced by ``length`` bytes."""

    start: int
    end: int
    length: int


class Edits(Sequence[Edit]):
    """Edits in 12 bytes each: a small compressed body may have hundreds of thousands."""

    __slots__ = ("_numbers",)

    def __init__(self, edits: Iterable[Edit] | array[int] = ()) -> None:
        self._numbers = edits if isinstance(edits, array) else array("I", chain.from_iterable(edits))

    def __len__(self) -> int:
        return len(self._numbers) // 3

    @overload
    def __getitem__(self, at: int) -> Edit: ...

    @overload
    def __getitem__(self, at: slice) -> list[Edit]: ...

    def __getitem__(self, at: int | slice) -> Edit | list[Edit]:
        if isinstance(at, slice):
            return [self[each] for each in range(*at.indices(len(self)))]
        start = 3 * range(len(self))[at]
        return Edit(*self._numbers[start : start + 3])


@dataclass(frozen=True, slots=True)
class Masked:
    """``body`` is the original object if nothing was masked. ``counts``: number of secrets by shape. ``edits``: their places, in
    order."""

    body: bytes
    counts: Mapping[str, int]
    edits: Sequence[Edit] = field(default=(), compare=False)


def mask(body: bytes, finders: Finders, read: Callable[[bytes], Text] = Text, *, has_edits: bool = True) -> Masked:
    """Time and memory are linear in the body's length, for any content. ``read`` is for tests that count reads. ``has_edits``: whether the
    edits are needed, which take up to twice the body's bytes."""
    counts, numbers = [0] * len(MARKERS), array("I")
    masked, parts, at = BytesIO(), list[bytes](), 0
    for start, order, end in secrets(read(body), finders):
        if body.startswith(_STARS, start) and body[start:end] in _MARKED:
            continue  # a marker already, for example from the client
        marker = _ORDERED_MARKERS[order]
        if _NUMBER.fullmatch(body, start, end):
            quote = _quote_of(body, start)
            marker = quote + marker + quote
        if body.find(_NEWLINE, start, end) >= 0:
            marker = by_lines(body[start:end], marker)
        parts += body[at:start], marker
        if has_edits:
            numbers.extend((start, end, len(marker)))
        if len(parts) > _MOST_PARTS:
            masked.write(b"".join(parts))
            parts.clear()
        counts[order] += 1
        at = end
    if not at:
        return Masked(body, {})
    masked.write(b"".join(parts))
    masked.write(memoryview(body)[at:])
    return Masked(masked.getvalue(), _by_shape(counts), Edits(numbers))


def _quote_of(body: bytes, start: int) -> bytes:
    """The quotes that a number in JSON gets when it is masked: those of its name, or of the text before it in a list."""
    name = _QUOTED_NAME.search(body[max(start - _NAME_BYTES, 0) : start])
    return name[1] if name else b""


def _by_shape(counts: Sequence[int]) -> dict[str, int]:
    by_shape = Counter[str]()
    for name, count in zip(MARKERS, counts, strict=True):
        by_shape[shape_of(name)] += count
    return dict(+by_shape)


def secrets(text: Text, finders: Finders) -> Iterator[tuple[int, int, int]]:
    """(start, order of the name, end) of each finding, in order. Overlapping findings are merged; the one that begins first gives the
    name."""
    first, last, order = 0, 0, -1
    for start, its_order, end in _ranked(text, finders):
        if start < last:
            if end > last:
                last = end
            continue
        if order >= 0:
            yield first, order, last
        first, last, order = start, end, its_order
    if order >= 0:
        yield first, order, last


def _ranked(text: Text, finders: Finders) -> Iterable[tuple[int, int, int]]:
    """(start, order of the name, end) of every finding, sorted."""
    found = finders.scan(text)
    values = ((start, CONFIGURED_ORDER, end) for start, end in finders.values(text)) if finders.values else iter(())
    first = next(values, None)
    return heapq.merge(found, chain((first,), values)) if first else found  # a merge takes time for each finding

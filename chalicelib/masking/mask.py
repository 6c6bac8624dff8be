"""Masks a batch: replaces the findings of all shapes. All other bytes and the number of lines stay unchanged."""

from __future__ import annotations

import heapq
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from itertools import chain
from typing import NamedTuple, overload

from chalicelib.masking.shapes import MARKERS, NAMES, SecretFinder
from chalicelib.masking.text import Text

_NEWLINE = b"\n"
_MARKED = frozenset(MARKERS.values())
_ORDER = {name: number for number, name in enumerate(NAMES)}
_SORTED_BYTES = 4096
"""Up to this length, sorting the findings is faster than merging them; in longer texts it would hold all of them in memory."""


class Edit(NamedTuple):
    """Bytes [start, end) of a batch were replaced by ``length`` bytes."""

    start: int
    end: int
    length: int


class Edits(Sequence[Edit]):
    """Edits in 12 bytes each: a small compressed body may have hundreds of thousands."""

    __slots__ = ("_numbers",)

    def __init__(self, edits: Iterable[Edit] = ()) -> None:
        self._numbers = array("I", chain.from_iterable(edits))

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

    def append(self, edit: Edit) -> None:
        """The edit must be after all others."""
        self._numbers.extend(edit)


@dataclass(frozen=True, slots=True)
class Masked:
    """``body`` is the original object if nothing was masked. ``counts``: number of secrets by shape. ``edits``: their places, in
    order."""

    body: bytes
    counts: Mapping[str, int]
    edits: Sequence[Edit] = field(default=(), compare=False)


class Finding(NamedTuple):
    """A range of a batch that is masked, with the name of its shape."""

    start: int
    end: int
    shape: str


def mask(
    body: bytes, finders: Sequence[tuple[str, SecretFinder]], read: Callable[[bytes], Text] = Text, *, has_edits: bool = True
) -> Masked:
    """Time and memory are linear in the body's length, for any content. ``read`` is for tests that count reads. ``has_edits``: whether the
    edits are needed, which take up to twice the body's bytes."""
    counts: Counter[str] = Counter()
    masked, view, at, edits = BytesIO(), memoryview(body), 0, Edits()
    for start, end, shape in secrets(read(body), finders):
        secret = body[start:end]
        if secret in _MARKED:
            continue  # a marker already, for example from the client
        masked.write(view[at:start])
        length = masked.write(_replacement(secret, MARKERS[shape]))
        if has_edits:
            edits.append(Edit(start, end, length))
        counts[shape] += 1
        at = end
    if not counts:
        return Masked(body, {})
    masked.write(view[at:])
    return Masked(masked.getvalue(), dict(counts), edits)


def secrets(text: Text, finders: Sequence[tuple[str, SecretFinder]]) -> Iterator[Finding]:
    """The findings in order. Overlapping findings are merged; the one that begins first gives the name."""
    first, last, order = 0, 0, -1
    for start, its_order, end in _ranked(text, finders):
        if order >= 0 and start < last:
            last = max(last, end)
            continue
        if order >= 0:
            yield Finding(first, last, NAMES[order])
        first, last, order = start, end, its_order
    if order >= 0:
        yield Finding(first, last, NAMES[order])


def _ranked(text: Text, finders: Sequence[tuple[str, SecretFinder]]) -> Iterable[tuple[int, int, int]]:
    """(start, order of the shape, end) of every finding, sorted."""
    if len(text) <= _SORTED_BYTES:
        likely = [each for each in finders if text.has(each[1].anchor)]
        return sorted([(start, _ORDER[name], end) for name, find in likely for start, end in find(text)])
    return heapq.merge(*(_ranked_by_one(text, _ORDER[name], find) for name, find in finders))


def _ranked_by_one(text: Text, order: int, find: SecretFinder) -> Iterator[tuple[int, int, int]]:
    return ((start, order, end) for start, end in find(text))


def _replacement(secret: bytes, by: bytes) -> bytes:
    """The marker on each line of the secret, so that lines are neither lost nor joined. Blank lines and carriage returns stay."""
    if _NEWLINE not in secret:
        return by
    return _NEWLINE.join(_masked_line(line, by) for line in secret.split(_NEWLINE))


def _masked_line(line: bytes, by: bytes) -> bytes:
    return by + (b"\r" if line.endswith(b"\r") else b"") if line.strip() else line

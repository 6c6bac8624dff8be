"""Sets of ids as ranges, for the visible ids of a writer. Order and repetition of the input do not matter."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Range = tuple[int, int]
"""First and last id, both included."""
_MANY_RANGES = 1_000


def merged(*parts: Iterable[Range]) -> list[Range]:
    """The ranges of all parts, sorted and disjoint, with adjacent ones merged."""
    found: list[Range] = []
    for low, high in sorted(each for part in parts for each in part):
        if found and low <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], high))
        else:
            found.append((low, high))
    return found


def of_ids(ids: Iterable[int]) -> list[Range]:
    """Ids as ranges."""
    return merged((each, each) for each in ids)


def add_id(ranges: list[Range], number: int) -> None:
    """Add an id to ranges, which need not be merged afterwards. Memory: ascending ids extend the last range, and every ``_MANY_RANGES``
    ranges are merged."""
    if ranges and ranges[-1][1] + 1 == number:
        ranges[-1] = (ranges[-1][0], number)
    else:
        ranges.append((number, number))
        if len(ranges) % _MANY_RANGES == 0:
            ranges[:] = merged(ranges)


def missing(ranges: Sequence[Range], count: int) -> list[Range]:
    """The ids from 0 to ``count`` - 1 that are in none of the merged ranges."""
    found: list[Range] = []
    at = 0
    for low, high in ranges:
        if at < min(low, count):
            found.append((at, min(low, count) - 1))
        at = max(at, high + 1)
    if at < count:
        found.append((at, count - 1))
    return found


def size(ranges: Iterable[Range]) -> int:
    """The number of ids in merged ranges."""
    return sum(high - low + 1 for low, high in ranges)

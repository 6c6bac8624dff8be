"""Ids as ranges: which of a writer's events are visible, in any order, told any number of times."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Range = tuple[int, int]
"""From an id to an id, both included."""


def merged(*parts: Iterable[Range]) -> list[Range]:
    """Ranges of all parts, in order, none touching the next."""
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


def missing(ranges: Sequence[Range], count: int) -> list[Range]:
    """What of the ids 0 to ``count`` - 1 is in none of the ranges, which are merged."""
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
    """How many ids there are in merged ranges."""
    return sum(high - low + 1 for low, high in ranges)

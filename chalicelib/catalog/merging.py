"""A run's row put right while ingestion and the schedules move it.

Each of them moves one group of attributes, and moves it forward only. So what moved since the row was read is right, as far as it goes;
what did not move is what S3 says. Each group is compared and written by itself: a row whose segments move with every append can
still have its other groups put right.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chalicelib.catalog.runs import END_ATTRIBUTES

Item = Mapping[str, Any]

SEGMENTS = ("segments", "lines", "bytes", "epoch", "seal", *END_ATTRIBUTES, "last_append_ms", "expires_at", "activity_shard")
COMPACTED = ("compacted_segments", "compacted_bytes")
FINAL = ("final_segments", "final_lines", "final_bytes")
GROUPS = (SEGMENTS, COMPACTED, FINAL)
"""Attributes that are written together. The first of each tells how far the group has come."""
_ABSENT = object()


def merge_forward(item: Item, seen: Item | None, now: Item | None) -> dict[str, Any]:
    """What a row should be: ``item``, as S3 said after the row was ``seen``, and what has moved beyond that by ``now``."""
    seen, now, merged = seen or {}, now or {}, dict(item)
    for group in GROUPS:
        if _moved(group[0], seen, now) and _number(now, group[0]) > _number(item, group[0]):
            _take(group, now, merged)
    if _moved("activity_shard", seen, now) and _number(now, "segments") == _number(item, "segments"):
        _take(("activity_shard",), now, merged)  # a schedule has let go of the run
    if "start" not in item and _moved("start", seen, now):
        _take(("start",), now, merged)
    if _moved("alive_ms", seen, now):
        _take(("alive_ms",), now, merged)
    if _moved("started_ms", seen, now) and 0 < _number(now, "started_ms") < _number(item, "started_ms"):
        _take(("started_ms",), now, merged)
    return merged


def names_to_change(now: Item, merged: Item) -> list[str]:
    """The attributes that have to be written together so that the row becomes what it should be: of each group that differs, all."""
    different = {name for name in {*now, *merged} if now.get(name, _ABSENT) != merged.get(name, _ABSENT)}
    for group in GROUPS:
        if different & set(group):
            different |= set(group)
    return sorted(different)


def is_ahead(now: Item, merged: Item) -> bool:
    """Whether a group has come further than it should have: every write of ingestion, or of a schedule, was refused until now."""
    return any(_number(now, group[0]) > _number(merged, group[0]) for group in GROUPS)


def _moved(name: str, seen: Item, now: Item) -> bool:
    return bool(seen.get(name, _ABSENT) != now.get(name, _ABSENT))


def _number(item: Item, name: str) -> int:
    """A damaged value counts as none."""
    value = item.get(name)
    return value if type(value) is int else -1


def _take(names: tuple[str, ...], source: Item, target: dict[str, Any]) -> None:
    for name in names:
        target.pop(name, None)
        if name in source:
            target[name] = source[name]

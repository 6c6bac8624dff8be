"""Merge a rebuilt row of a run with the current one, which ingestion and the schedules may update at the same time.

Each of them updates one group of attributes, and only forward. So a group that has advanced since the row was read keeps its
current values; any other takes the values from S3. Groups are compared and written independently: a row whose segments advance with
every append can still have its other groups repaired.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chalicelib.catalog.runs import LAST_ATTRIBUTES

Item = Mapping[str, Any]

SEGMENTS = ("segments", "lines", "bytes", "epoch", "seal", *LAST_ATTRIBUTES, "last_append_ms", "expires_at", "activity_shard")
COMPACTED = ("compacted_segments", "compacted_bytes")
FINAL = ("final_segments", "final_lines", "final_bytes")
EXPLANATION = ("explained_segments", "explanation")
GROUPS = (SEGMENTS, COMPACTED, FINAL)
"""Attributes that are written together. The first of each group is its progress."""
_ABSENT = object()


def merge_forward(item: Item, seen: Item | None, now: Item | None) -> dict[str, Any]:
    """The target row: ``item``, built from S3 after the row was read as ``seen``, with the groups that have advanced further in
    ``now``."""
    seen, now, merged = seen or {}, now or {}, dict(item)
    for group in GROUPS:
        if _moved(group[0], seen, now) and _number(now, group[0]) > _number(item, group[0]):
            _take(group, now, merged)
    if _moved("activity_shard", seen, now) and _number(now, "segments") == _number(item, "segments"):
        _take(("activity_shard",), now, merged)  # a schedule has finished with the run
    if "start" not in item and _moved("start", seen, now):
        _take(("start",), now, merged)
    if _moved("alive_ms", seen, now):
        _take(("alive_ms",), now, merged)
    if _moved("started_ms", seen, now) and 0 < _number(now, "started_ms") < _number(item, "started_ms"):
        _take(("started_ms",), now, merged)
    if 0 < _number(now, "explained_segments") <= _number(merged, "final_segments") and isinstance(now.get("explanation"), str):
        _take(EXPLANATION, now, merged)  # not on S3: made by reading the log; of an earlier end until the schedule replaces it
    return merged


def names_to_change(now: Item, merged: Item) -> list[str]:
    """The attributes to write together: all attributes of each group that differs."""
    different = {name for name in {*now, *merged} if now.get(name, _ABSENT) != merged.get(name, _ABSENT)}
    for group in GROUPS:
        if different & set(group):
            different |= set(group)
    return sorted(different)


def is_ahead(now: Item, merged: Item) -> bool:
    """Whether a group is further ahead than it should be, so that every write of ingestion or of a schedule was rejected."""
    return any(_number(now, group[0]) > _number(merged, group[0]) for group in GROUPS)


def _moved(name: str, seen: Item, now: Item) -> bool:
    return bool(seen.get(name, _ABSENT) != now.get(name, _ABSENT))


def _number(item: Item, name: str) -> int:
    """An integer attribute; -1 if it is missing or damaged."""
    value = item.get(name)
    return value if type(value) is int else -1


def _take(names: tuple[str, ...], source: Item, target: dict[str, Any]) -> None:
    for name in names:
        target.pop(name, None)
        if name in source:
            target[name] = source[name]

"""Fields by path: ``log.level`` is the field of that name, or ``level`` in ``log``. Agents send both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MISSING = object()


def at(value: Any, path: str) -> Any:
    """The value at a path, or MISSING. Longer names win: a field named ``log.level`` before ``level`` in ``log``."""
    if not isinstance(value, Mapping):
        return MISSING
    if path in value:
        return value[path]
    head, dot, _ = path.rpartition(".")
    while dot:
        if head in value and (found := at(value[head], path[len(head) + 1 :])) is not MISSING:
            return found
        head, dot, _ = head.rpartition(".")
    return MISSING

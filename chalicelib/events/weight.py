"""How much a JSON value is, for limits of memory and work: counted without making text of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

VALUE_BYTES = 64
"""Of each value beside its text: about what Python holds for it, and as much work as so many bytes of text."""


def weight(value: Any) -> int:
    """Bytes of all texts and names in a value, and ``VALUE_BYTES`` for each value."""
    if isinstance(value, str):
        return VALUE_BYTES + (len(value) if value.isascii() else len(value.encode(errors="replace")))
    if isinstance(value, Mapping):
        return VALUE_BYTES + sum(len(name) + weight(each) for name, each in value.items())
    if isinstance(value, list | tuple):
        return VALUE_BYTES + sum(map(weight, value))
    return VALUE_BYTES

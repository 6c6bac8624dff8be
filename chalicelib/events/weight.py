"""The size of a JSON value for limits of memory and work, computed without encoding it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

VALUE_BYTES = 64
"""Per value in addition to its text: about its memory in Python, and as much work as that many bytes of text."""


def weight(value: Any) -> int:
    """Bytes of all texts and names in a value, and ``VALUE_BYTES`` for each value."""
    if isinstance(value, str):
        return VALUE_BYTES + (len(value) if value.isascii() else len(value.encode(errors="replace")))
    if isinstance(value, Mapping):
        return VALUE_BYTES + sum(len(name) + weight(each) for name, each in value.items())
    if isinstance(value, list | tuple):
        return VALUE_BYTES + sum(map(weight, value))
    return VALUE_BYTES

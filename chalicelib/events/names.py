"""Names that writers and steps may have."""

from __future__ import annotations

import re

from chalicelib.errors import InvalidEventError

MAX_NAME_CHARS = 200
MAX_NAME_BYTES = 600
"""Percent-encoded, as keys and rows have them."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")


def checked_name(what: str, name: str) -> str:
    """A writer's or a step's name. Raises InvalidEventError."""
    if not name or len(name) > MAX_NAME_CHARS or _CONTROL.search(name) or _encoded_bytes(name) > MAX_NAME_BYTES:
        raise InvalidEventError(f"a {what} is named by 1 to {MAX_NAME_CHARS} printable characters {what}={name[:80]!r}")
    return name


def _encoded_bytes(name: str) -> int:
    """No letter takes more than three times its bytes."""
    return sum(1 if letter.isascii() and letter.isalnum() else 3 * len(letter.encode()) for letter in name)

"""Names of writers and steps."""

from __future__ import annotations

import re

from chalicelib.errors import InvalidEventError
from chalicelib.runlog.layout import UNPRINTABLE

MAX_NAME_CHARS = 200
MAX_NAME_BYTES = 600
"""Percent-encoded, as in keys and rows."""
_SURROGATE = re.compile(r"[\ud800-\udfff]")


def checked_name(what: str, name: str) -> str:
    """The name of a writer or step. Raises InvalidEventError."""
    checked_label(what, name)
    if not name or len(name) > MAX_NAME_CHARS or _SURROGATE.search(name) or _encoded_bytes(name) > MAX_NAME_BYTES:
        raise InvalidEventError(f"a {what} is named by 1 to {MAX_NAME_CHARS} printable characters length={len(name)}")
    return name


def checked_label(what: str, label: str) -> str:
    """A text that is displayed like a name but not used in keys. Raises InvalidEventError."""
    if UNPRINTABLE.search(label):
        raise InvalidEventError(f"control or invisible character in {what} name length={len(label)}")
    return label


def _encoded_bytes(name: str) -> int:
    """Percent-encoding takes at most three times the bytes of a character."""
    return sum(1 if letter.isascii() and letter.isalnum() else 3 * len(letter.encode()) for letter in name)

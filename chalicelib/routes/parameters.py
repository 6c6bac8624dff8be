"""Query parameters that are taken as they are meant, or refused: of what people and programs of ours ask for. Those of OpenMetadata's
protocol are lenient: see ``queries``."""

from __future__ import annotations

import re
from collections.abc import Mapping

from chalicelib.errors import InvalidInputError

_EXCERPT_CHARS = 40
_TRUTHS = {"true": True, "false": False}


def integer_parameter(query: Mapping[str, str], name: str, default: int, least: int, most: int) -> int:
    """Raises InvalidInputError."""
    text = query.get(name) or str(default)
    if not re.fullmatch("[0-9]{1,15}", text, re.ASCII) or not least <= int(text) <= most:
        raise InvalidInputError(f"{name} is a whole number from {least} to {most} {name}={text[:_EXCERPT_CHARS]!r}")
    return int(text)


def boolean_parameter(query: Mapping[str, str], name: str) -> bool:
    """False unless it says so. Raises InvalidInputError."""
    text = query.get(name) or "false"
    if text.lower() not in _TRUTHS:
        raise InvalidInputError(f"{name} is true or false {name}={text[:_EXCERPT_CHARS]!r}")
    return _TRUTHS[text.lower()]

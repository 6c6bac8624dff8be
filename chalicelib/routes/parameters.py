"""Strict query parameters: invalid values are rejected. The parameters of OpenMetadata's protocol are lenient instead: see ``queries``."""

from __future__ import annotations

import re
from collections.abc import Mapping

from chalicelib.catalog.timestamps import parse_time_ms
from chalicelib.errors import InvalidInputError

_EXCERPT_CHARS = 40
_MAX_TIME_CHARS = 100
_DATE = re.compile(r"[0-9]{4}-", re.ASCII)
_TRUTHS = {"true": True, "false": False}


def integer_parameter(query: Mapping[str, str], name: str, default: int, least: int, most: int) -> int:
    """An integer parameter within bounds. Raises InvalidInputError."""
    text = query.get(name) or str(default)
    if not re.fullmatch("[0-9]{1,15}", text, re.ASCII) or not least <= int(text) <= most:
        raise InvalidInputError(f"{name} must be an integer from {least} to {most} {name}={text[:_EXCERPT_CHARS]!r}")
    return int(text)


def boolean_parameter(query: Mapping[str, str], name: str) -> bool:
    """A boolean parameter, false by default. Raises InvalidInputError."""
    text = query.get(name) or "false"
    if text.lower() not in _TRUTHS:
        raise InvalidInputError(f"{name} must be true or false {name}={text[:_EXCERPT_CHARS]!r}")
    return _TRUTHS[text.lower()]


def time_parameter(query: Mapping[str, str], name: str, default: int, most: int) -> int:
    """A time in ms since the epoch, from ISO 8601 or such a number. Raises InvalidInputError."""
    text = query.get(name) or str(default)
    try:
        result = parse_time_ms(text, 0) if _DATE.match(text) else integer_parameter(query, name, default, 0, most)
    except InvalidInputError:
        result = -1
    if result < 0:
        raise InvalidInputError(
            f"{name} must be a time from 1970 on, ISO 8601 or milliseconds since the epoch {name}={text[:_MAX_TIME_CHARS]!r}"
        )
    return result

"""Texts and JSON values that can be stored: no lone surrogates, which UTF-8 cannot encode, and bounded nesting."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, JsonValue

from chalicelib.events.depth import MAX_DEPTH

_SURROGATE = re.compile("[\ud800-\udfff]")
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def well_formed_text(text: str) -> str:
    """The text with lone surrogates replaced by U+FFFD, and surrogate pairs by their character."""
    if text.isascii() or not _SURROGATE.search(text):
        return text
    return _SURROGATE.sub("\ufffd", _PAIR.sub(_joined, text))


def well_formed(value: Any, depth: int = 0) -> Any:
    """A JSON value without lone surrogates, also in names of objects. Raises ValueError if it exceeds ``MAX_DEPTH``; a ``depth``
    below 0 allows that many more levels, for those around a value."""
    if isinstance(value, str):
        return well_formed_text(value)
    if not isinstance(value, dict | list | tuple):
        return value
    if depth >= MAX_DEPTH:
        raise ValueError(f"nested too deeply limit={MAX_DEPTH}")
    if isinstance(value, dict):
        return {
            well_formed_text(name) if isinstance(name, str) else name: well_formed(each, depth + 1) for name, each in value.items()
        }
    return [well_formed(each, depth + 1) for each in value]


def _joined(pair: re.Match[str]) -> str:
    return pair[0].encode("utf-16", "surrogatepass").decode("utf-16")


WellFormedText = Annotated[str, AfterValidator(well_formed_text)]
WellFormedJson = Annotated[JsonValue, BeforeValidator(well_formed)]

"""A JSON body that an operation keeps as it came: read by one function, so that what is checked for secrets is what its view reads."""

from __future__ import annotations

import json
from typing import Any


def parse_document(raw: bytes | str) -> Any:
    """The document in a body: UTF-8 and nothing else, without a byte order mark. ``json.loads`` of bytes would guess among five encodings.
    Raises ValueError."""
    text = raw if isinstance(raw, str) else raw.decode()
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error

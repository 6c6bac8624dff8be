"""JSON bodies that an operation stores unmasked. Secret checks and views share one parser, so both see the same document."""

from __future__ import annotations

import json
from typing import Any


def parse_document(raw: bytes | str) -> Any:
    """The document in a body of UTF-8 without a byte order mark. ``json.loads`` of bytes would guess among five encodings. Raises
    ValueError."""
    text = raw if isinstance(raw, str) else raw.decode()
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error

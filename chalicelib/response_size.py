"""How much of Lambda's response a body takes: there it is a JSON string, and most bodies are JSON themselves.

Lambda takes 6 MiB with the headers. Whatever lists something ends its page before ``PAGE_BYTES``, so that the rest of a response, such as a
cursor and the frame of its items, always has room.
"""

from __future__ import annotations

import json
from typing import Any

RESPONSE_BYTES = 5 * 1024 * 1024
"""The body of a response."""
PAGE_BYTES = 4 * 1024 * 1024
"""The items of a page, or the lines."""
_LONGEST_ESCAPE_BYTES = 12
"""Of one character: a pair of surrogates."""


def envelope_bytes(body: str) -> int:
    """Of a body."""
    return len(json.dumps(body))


def document_bytes(document: Any) -> int:
    """Of a document that a JSON body holds. At least what it takes there, with the comma behind it."""
    return envelope_bytes(json.dumps(document, ensure_ascii=False))


def fits_response(body: str) -> bool:
    """Whether a body may be returned."""
    return len(body) * _LONGEST_ESCAPE_BYTES <= RESPONSE_BYTES or envelope_bytes(body) <= RESPONSE_BYTES


def fits_page(document: Any) -> bool:
    """Whether items, or the lines as one text, fit a page."""
    if isinstance(document, str) and len(document) * _LONGEST_ESCAPE_BYTES <= PAGE_BYTES:
        return True
    return document_bytes(document) <= PAGE_BYTES

"""How much of Lambda's response a body takes: there it is a JSON string, and most bodies are JSON themselves.

Lambda takes 6 MiB with the headers. What stands around the content of a response, such as a cursor, always has room.
"""

from __future__ import annotations

import json
from typing import Any

RESPONSE_BYTES = 5 * 1024 * 1024
"""The body of a response."""
PAGE_BYTES = 4 * 1024 * 1024
"""A list of items ends its page with the one that reaches this."""
CONTENT_BYTES = RESPONSE_BYTES - 64 * 1024
"""Lines of a log, and lists that are measured as a whole."""
_SEPARATORS = "\x85\u2028\u2029"
"""Escaped in an event stream, but not in JSON: a byte more for each."""
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


def text_bytes(text: str) -> int:
    """Of a text that a JSON body or an event stream holds."""
    return document_bytes(text) + sum(map(text.count, _SEPARATORS))


def fits_content(document: Any) -> bool:
    """Whether a list, or lines as one text, fit a response with what stands around them."""
    if not isinstance(document, str):
        return document_bytes(document) <= CONTENT_BYTES
    return len(document) * _LONGEST_ESCAPE_BYTES <= CONTENT_BYTES or text_bytes(document) <= CONTENT_BYTES

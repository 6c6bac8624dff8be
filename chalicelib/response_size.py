"""The size of a body in Lambda's response, where it is a JSON string; most bodies are JSON themselves.

Lambda's limit is 6 MiB with the headers. Fields around the content of a response, such as a cursor, always have room.
"""

from __future__ import annotations

import json
from typing import Any

RESPONSE_BYTES = 5 * 1024 * 1024
"""Limit of the body of a response."""
PAGE_BYTES = 4 * 1024 * 1024
"""A page of a list ends with the item that reaches this size."""
CONTENT_BYTES = RESPONSE_BYTES - 64 * 1024
"""Limit of the lines of a log, and of a list that is measured as one document."""
_SEPARATORS = "\x85\u2028\u2029"
"""Escaped in an event stream, but not in JSON: one more byte each."""
_LONGEST_ESCAPE_BYTES = 12
"""Longest escape of one character: a surrogate pair."""


def envelope_bytes(body: str) -> int:
    """Size of a body as a JSON string."""
    return len(json.dumps(body))


def document_bytes(document: Any) -> int:
    """Size of a document within a JSON body, as an upper bound that includes a comma."""
    return envelope_bytes(json.dumps(document, ensure_ascii=False))


def fits_response(body: str) -> bool:
    """Whether a body is within the limit of a response."""
    return len(body) * _LONGEST_ESCAPE_BYTES <= RESPONSE_BYTES or envelope_bytes(body) <= RESPONSE_BYTES


def text_bytes(text: str) -> int:
    """Size of a text within a JSON body or an event stream."""
    return document_bytes(text) + sum(map(text.count, _SEPARATORS))


def fits_content(document: Any) -> bool:
    """Whether a list, or lines as one text, fit a response with its other fields."""
    if not isinstance(document, str):
        return document_bytes(document) <= CONTENT_BYTES
    return len(document) * _LONGEST_ESCAPE_BYTES <= CONTENT_BYTES or text_bytes(document) <= CONTENT_BYTES

# Copied from chalicelib/masking/base64_forms.py by docs.generate.
"""Base64 text that contains a secret. It depends on the offset of the secret in a group of three bytes, so there are three variants. The first
and last character may also encode bits of adjacent text: they are not part of the searched text, and are masked with it.

Without expressions: the client imports this also where ``re`` lacks the quantifiers of the finders.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import NamedTuple

FEWEST_LETTERS = 4
"""Of base64 that is searched for; any value of four bytes has this many."""
_URL_SAFE = bytes.maketrans(b"+/", b"-_")
_DROPPED_BEFORE = (0, 2, 3)
"""Number of leading base64 characters that encode bits of preceding bytes, by the number of such bytes in the group."""
_DROPPED_AFTER = (0, 3, 2)
"""Number of trailing characters that encode bits of following bytes, padding included, by the number of the secret's bytes in the last
group."""
_BASE64 = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_")
_MOST_PADDING = 2


class EncodedForm(NamedTuple):
    """``text`` is searched for; ``before`` and ``after`` (0 or 1) count adjacent base64 characters that encode bits of the secret."""

    text: bytes
    before: int = 0
    after: int = 0


def forms_in_base64(value: bytes) -> Iterator[EncodedForm]:
    """The variants in both alphabets."""
    for shift in range(3):
        encoded, left = base64.b64encode(bytes(shift) + value), (shift + len(value)) % 3
        text = encoded[_DROPPED_BEFORE[shift] : len(encoded) - _DROPPED_AFTER[left]]
        for each in {text, text.translate(_URL_SAFE)} if len(text) >= FEWEST_LETTERS else ():
            yield EncodedForm(each, min(shift, 1), min(left, 1))


def with_adjacent(body: bytes, first: int, last: int, before: int, after: int) -> tuple[int, int]:
    """Extends a match by base64 characters that it shares with adjacent text, and by the padding."""
    if before and first and body[first - 1] in _BASE64:
        first -= 1
    if after and last < len(body) and body[last] in _BASE64:
        last += 1
        padding = body[last : last + _MOST_PADDING]
        last += len(padding) - len(padding.lstrip(b"="))
    return first, last

"""The forms of a secret that are searched for, in a text and in its readings without escapes (``escapes``).

A reading covers everything that writers escape, in any way: JSON, XML, URLs, shells, quoted strings. Forms cover what changes otherwise:
doubled quotes, blanks as ``+``, base64.

Base64 text depends on the offset of the secret in a group of three bytes, so there are three variants. The first and last character may
also encode bits of adjacent text: they are not part of the searched text, and are masked with it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from html import escape
from itertools import product
from typing import NamedTuple
from urllib.parse import quote

from chalicelib.masking.escapes import unescaped

_URL_SAFE = bytes.maketrans(b"+/", b"-_")
_DROPPED_BEFORE = (0, 2, 3)
"""Number of leading base64 characters that encode bits of preceding bytes, by the number of such bytes in the group."""
_DROPPED_AFTER = (0, 3, 2)
"""Number of trailing characters that encode bits of following bytes, padding included, by the number of the secret's bytes in the last
group."""
_FEWEST_LETTERS = 4
"""In base64 characters, and in bytes of a value without its escapes; any value of four bytes has this many in base64."""
_APOSTROPHES = (b"'", b"''", b"'''", b"'\"'\"'")
"""Alone, in SQL and YAML, and of shells: ``'\\''`` without its backslash, and in double quotes."""


class EncodedForm(NamedTuple):
    """``text`` is searched for; ``before`` and ``after`` (0 or 1) count adjacent base64 characters that encode bits of the secret."""

    text: bytes
    before: int = 0
    after: int = 0


def encoded_forms(value: bytes) -> frozenset[EncodedForm]:
    """All forms of a UTF-8 secret."""
    text = value.decode(errors="replace")
    in_json = {json.dumps(text, ensure_ascii=is_ascii)[1:-1].encode() for is_ascii in (True, False)}
    plain = {value, *_read(value, text)}
    in_base64 = {form for each in {value, *in_json} for form in _in_base64(each)}
    return frozenset({*(EncodedForm(each) for each in plain), *in_base64})


def _read(value: bytes, text: str) -> Iterator[bytes]:
    """The value without its escapes, with changed quotes and blanks; if it is too short then, in the commonest escapes only."""
    read = unescaped(value)
    if len(read) < _FEWEST_LETTERS:
        escaped = (json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1], quote(text, safe=""), escape(text))
        yield from (each.encode() for each in escaped)
        return
    for each in {read, unescaped(value.replace(b"\\", b""))}:  # ``\\n`` whose letter is escaped, too
        first, inner, last = each[:1], each[1:-1], each[-1:]  # a quote at an end may be next to that of the text
        for apostrophe, quotes, blank in product(_APOSTROPHES, (b'"', b'""'), (b" ", b"+")):
            yield first + inner.replace(b'"', quotes).replace(b"'", apostrophe).replace(b" ", blank) + last


def _in_base64(value: bytes) -> Iterator[EncodedForm]:
    for shift in range(3):
        encoded, left = base64.b64encode(bytes(shift) + value), (shift + len(value)) % 3
        text = encoded[_DROPPED_BEFORE[shift] : len(encoded) - _DROPPED_AFTER[left]]
        for each in {text, text.translate(_URL_SAFE)} if len(text) >= _FEWEST_LETTERS else ():
            yield EncodedForm(each, min(shift, 1), min(left, 1))

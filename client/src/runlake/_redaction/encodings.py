# Copied from chalicelib/masking/encodings.py by docs.generate.
"""The forms of a secret that are searched for, in a text and in its readings without escapes (``escapes``).

A reading covers everything that writers escape, in any way: JSON, XML, URLs, shells, quoted strings. Forms cover what changes otherwise:
doubled quotes, blanks as ``+``, base64 (``base64_forms``).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from html import escape
from itertools import product
from urllib.parse import quote

from runlake._redaction.base64_forms import FEWEST_LETTERS, EncodedForm, forms_in_base64
from runlake._redaction.escapes import unescaped

_APOSTROPHES = (b"'", b"''", b"'''", b"'\"'\"'")
"""Alone, in SQL and YAML, and of shells: ``'\\''`` without its backslash, and in double quotes."""


def encoded_forms(value: bytes) -> frozenset[EncodedForm]:
    """All forms of a UTF-8 secret."""
    text = value.decode(errors="replace")
    in_json = {json.dumps(text, ensure_ascii=is_ascii)[1:-1].encode() for is_ascii in (True, False)}
    plain = {value, *_read(value, text)}
    in_base64 = {form for each in {value, *in_json} for form in forms_in_base64(each)}
    return frozenset({*(EncodedForm(each) for each in plain), *in_base64})


def _read(value: bytes, text: str) -> Iterator[bytes]:
    """The value without its escapes, with changed quotes and blanks; if it is too short then, in the commonest escapes only."""
    read = unescaped(value)
    if len(read) < FEWEST_LETTERS:
        escaped = (json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1], quote(text, safe=""), escape(text))
        yield from (each.encode() for each in escaped)
        return
    for each in {read, unescaped(value.replace(b"\\", b""))}:  # ``\\n`` whose letter is escaped, too
        first, inner, last = each[:1], each[1:-1], each[-1:]  # a quote at an end may be next to that of the text
        for apostrophe, quotes, blank in product(_APOSTROPHES, (b'"', b'""'), (b" ", b"+")):
            yield first + inner.replace(b'"', quotes).replace(b"'", apostrophe).replace(b" ", blank) + last

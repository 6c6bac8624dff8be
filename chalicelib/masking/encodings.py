"""The forms of a secret in a log: unchanged, percent-encoded, escaped as in JSON or in Python's quoted strings, and base64.

Base64 text depends on the offset of the secret in a group of three bytes, so there are three variants. The first and last character may
also encode bits of adjacent text: they are not part of the searched text, and are masked with it.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import quote

_SAFE = ("", "/", "*", "!'()*", ";,/?:@&=+$!'()*#")
"""Characters that encoders leave unchanged besides letters, digits and ``_.-~``: RFC 3986, Python, HTML forms, encodeURIComponent,
encodeURI."""
_ESCAPE = re.compile(r"%[0-9A-F]{2}")
_URL_SAFE = bytes.maketrans(b"+/", b"-_")
_DROPPED_BEFORE = (0, 2, 3)
"""Number of leading base64 characters that encode bits of preceding bytes, by the number of such bytes in the group."""
_DROPPED_AFTER = (0, 3, 2)
"""Number of trailing characters that encode bits of following bytes, padding included, by the number of the secret's bytes in the last
group."""
_FEWEST_LETTERS = 4
"""In base64 characters; any value of four bytes has this many."""


class EncodedForm(NamedTuple):
    """``text`` is searched for; ``before`` and ``after`` (0 or 1) count adjacent base64 characters that encode bits of the secret."""

    text: bytes
    before: int = 0
    after: int = 0


def encoded_forms(value: bytes) -> frozenset[EncodedForm]:
    """All forms of a UTF-8 secret. If it has only letters and digits: itself and three in base64."""
    text = value.decode(errors="replace")
    plain = {value, *_escaped(text), *_percent_encoded(text)}
    return frozenset({*(EncodedForm(each) for each in plain), *_in_base64(value)})


def _escaped(text: str) -> Iterator[bytes]:
    for is_ascii in (True, False):
        yield json.dumps(text, ensure_ascii=is_ascii)[1:-1].encode()
    parts = text.split("'")
    for written in (repr, ascii, _repr_of_bytes):
        for apostrophe in ("'", "\\'"):  # escaped or not, depending on the text around the secret
            yield apostrophe.join(written(part)[1:-1] for part in parts).encode()


def _repr_of_bytes(text: str) -> str:
    return repr(text.encode())[1:]


def _percent_encoded(text: str) -> Iterator[bytes]:
    for safe in _SAFE:
        upper = quote(text, safe=safe)
        for encoded in {upper, _ESCAPE.sub(lambda escape: escape[0].lower(), upper), upper.replace("~", "%7E")}:
            yield encoded.encode()
            yield encoded.replace("%20", "+").encode()


def _in_base64(value: bytes) -> Iterator[EncodedForm]:
    for shift in range(3):
        encoded, left = base64.b64encode(bytes(shift) + value), (shift + len(value)) % 3
        text = encoded[_DROPPED_BEFORE[shift] : len(encoded) - _DROPPED_AFTER[left]]
        for each in {text, text.translate(_URL_SAFE)} if len(text) >= _FEWEST_LETTERS else ():
            yield EncodedForm(each, min(shift, 1), min(left, 1))

"""The ways in which a secret stands in a log: as it is, percent-encoded, escaped in JSON or as Python writes it in quotes, and in base64.

In base64 the letters of a secret depend on where in a group of three bytes it begins, so there are three of them. At its ends it may
share a letter with what stands beside it: such a letter is no part of what is looked for, and is masked with it.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import quote

_SAFE = ("", "/", "*", "!'()*", ";,/?:@&=+$!'()*#")
"""What encoders leave as it is beside letters, digits and ``_.-~``: RFC 3986, Python, HTML forms, encodeURIComponent, encodeURI."""
_ESCAPE = re.compile(r"%[0-9A-F]{2}")
_URL_SAFE = bytes.maketrans(b"+/", b"-_")
_DROPPED_BEFORE = (0, 2, 3)
"""Letters of base64 that bytes in front of the secret have a part in, by how many stand in its group."""
_DROPPED_BEHIND = (0, 3, 2)
"""The same behind it, padding included, by how many of its bytes stand in the last group."""
_FEWEST_LETTERS = 4
"""Of base64; any value of four bytes has them."""


class Form(NamedTuple):
    """``text`` is looked for; ``before`` and ``behind`` are letters of base64 beside it that have a part of the secret: 0 or 1."""

    text: bytes
    before: int = 0
    behind: int = 0


def forms(value: bytes) -> frozenset[Form]:
    """All forms of a secret of UTF-8. Of plain letters and digits: itself and three of base64."""
    text = value.decode(errors="replace")
    plain = {value, *_escaped(text), *_percent_encoded(text)}
    return frozenset({*(Form(each) for each in plain), *_in_base64(value)})


def _escaped(text: str) -> Iterator[bytes]:
    for is_ascii in (True, False):
        yield json.dumps(text, ensure_ascii=is_ascii)[1:-1].encode()
    parts = text.split("'")
    for written in (repr, ascii, _repr_of_bytes):
        for apostrophe in ("'", "\\'"):  # which of them depends on what stands beside the secret
            yield apostrophe.join(written(part)[1:-1] for part in parts).encode()


def _repr_of_bytes(text: str) -> str:
    return repr(text.encode())[1:]


def _percent_encoded(text: str) -> Iterator[bytes]:
    for safe in _SAFE:
        upper = quote(text, safe=safe)
        for encoded in {upper, _ESCAPE.sub(lambda found: found[0].lower(), upper), upper.replace("~", "%7E")}:
            yield encoded.encode()
            yield encoded.replace("%20", "+").encode()


def _in_base64(value: bytes) -> Iterator[Form]:
    for shift in range(3):
        encoded, left = base64.b64encode(bytes(shift) + value), (shift + len(value)) % 3
        text = encoded[_DROPPED_BEFORE[shift] : len(encoded) - _DROPPED_BEHIND[left]]
        for each in {text, text.translate(_URL_SAFE)} if len(text) >= _FEWEST_LETTERS else ():
            yield Form(each, min(shift, 1), min(left, 1))

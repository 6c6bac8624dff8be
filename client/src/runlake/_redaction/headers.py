# Copied from chalicelib/masking/headers.py by docs.generate.
"""Cookies, and signatures of addresses that grant access: ``Cookie: session=…``, ``X-Amz-Signature=…``, ``&sig=…``."""

from __future__ import annotations

import re

from runlake._redaction.text import Span, Text, run_pattern

_COOKIE = b"cookie"
_QUOTE = rb"\\{0,3}+[\"']"
# In a header, a variable, a pair (["Cookie", "a=…"]), or an object ({"name": "Cookie", "value": "a=…"}).
_AFTER_COOKIE = re.compile(
    rb"(?:(?:"
    + _QUOTE
    + rb")?[ \t]{0,8}+[:=]|"
    + _QUOTE
    + rb",(?:[ \t]{0,8}+"
    + _QUOTE
    + rb"[Vv]alue"
    + _QUOTE
    + rb"[ \t]{0,8}+:)?)"
    rb"[ \t]{0,8}+(?:" + _QUOTE + rb")?(?=[A-Za-z0-9_.!#$%&*+^|~-]{1,64}+=)"
)
_NAME = re.compile(rb"[ \t]{0,8}+[A-Za-z0-9_.!#$%&*+^|~-]{1,64}+=")
_NAME_BYTES = 100
_COOKIE_VALUE = run_pattern(rb"^\s;\"'\\")
_SIGNATURE = run_pattern(rb"A-Za-z0-9%+/_=-")
_SIGNATURE_LETTERS = 20
_PARTS_OF_A_URL = (b"?", b"&", b";", b",", b"-", b" ", b"\t")


def cookies(text: Text, at: int, _: int, spans: list[Span]) -> int:
    """The values of a ``Cookie`` header, and the first of ``Set-Cookie``, whose others are attributes."""
    head = text.match(_AFTER_COOKIE, at + len(_COOKIE), _NAME_BYTES)
    if not head:
        return at + len(_COOKIE)
    end, is_set = head.end(), text.before(at, 4) == b"set-"
    while name := text.match(_NAME, end, _NAME_BYTES):
        start, end = name.end(), text.run(_COOKIE_VALUE, name.end())
        if start < end:
            spans.append((start, end))
        if is_set or text.body[end : end + 1] != b";":
            break
        end += 1
    return end


def signatures(text: Text, at: int, _: int, spans: list[Span]) -> int:
    """The signature of a presigned address or of a request, of 20 characters or more."""
    start = text.body.find(b"=", at) + 1
    end = text.run(_SIGNATURE, start)
    if end - start >= _SIGNATURE_LETTERS and text.before(at, 1) in _PARTS_OF_A_URL:
        spans.append((start, end))
    return end

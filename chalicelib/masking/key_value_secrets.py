"""``password=…``, ``"token": "…"``, ``--secret …``: values whose names mark them as secret.

The end of a name decides: ``db_password`` and ``accessToken`` are secret, ``token_count`` is not. A quoted value ends at the same quote
or at the end of its line; an unquoted one ends at white space, a quote or the start of the next pair (``a=1&b=2``, ``a=1,b=2``).
"""

from __future__ import annotations

import re

from chalicelib.masking.text import BASE64, Span, Text

WORDS = (b"password", b"passwd", b"passphrase", b"_pass", b"pwd", b"secret", b"token", b"key")
_WHOSE_KEY = (b"api", b"access", b"account", b"private", b"secret", b"shared", b"signing", b"encryption")
_LONGEST_WHOSE = 12
_HEAD_BYTES = 80
# The text between the word and the value. Each part is bounded, and none can match text that the next part needs.
_HEAD = re.compile(
    rb"(?:[_-]?(?:access[_-]?)?(?:key|value|string|text))?\d{0,2}+"
    rb"(?:\\{0,3}+[\"'])?"
    rb"(?:[ \t]{0,8}+(?:=>|:=|[=:])[ \t]{0,8}+|(?P<gap>[ \t]{1,8}+))"
    rb"(?:(?:bearer|basic|token)[ \t]{1,8}+(?=[^\s\"'\\]))?"
    rb"(?P<quote>\\{0,3}+[\"'])?"
)
_NAME_LETTERS = 64
_AWS_SECRET_LETTERS = 40
_BARE = re.compile(rb"(?:[^\s\"',;&]++|[,;&](?![A-Za-z_][A-Za-z0-9_.-]{0,63}+[=:]))*+")
_QUOTED = {
    b'"': re.compile(rb"(?:[^\"\\\n]++|\\[^\n])*+"),
    b"'": re.compile(rb"(?:[^'\\\n]++|\\[^\n])*+"),
}
_QUOTED_IN_QUOTES = re.compile(rb"(?:[^\\\n]++|\\(?![\\\"']))*+")
_CLOSING = b")]},;&.\\"
_OPENING = b"{[("


def passwords(word: bytes, text: Text, at: int, _: int, spans: list[Span]) -> int:
    """Values whose name ends in ``word``, one of ``WORDS``."""
    start, end = _value(text, word, at)
    if start < end and not (word == b"pwd" and text.body.startswith(b"/", start)):  # PWD=/home/me
        spans.append((start, end))
    return end


def aws_secret_keys(text: Text, at: int, _: int, spans: list[Span]) -> int:
    """Values of 40 characters named ``aws_secret_access_key``, ``SecretAccessKey`` or ``secret_key``."""
    start, end = _value(text, b"secret", at)
    if end - start == _AWS_SECRET_LETTERS and b"key" in text.lowered[at:start] and text.run(BASE64, start, end - start) == end:
        spans.append((start, end))
    return end


def _value(text: Text, word: bytes, at: int) -> Span:
    """The span of the value after the word at ``at``; empty if there is none. The next search begins at its end."""
    behind = at + len(word)
    if word == b"key" and not _is_secret_key(text, at):
        return behind, behind
    head = text.match_any_case(_HEAD, behind, _HEAD_BYTES)
    if head is None:
        return behind, behind
    start, (gap, quote) = head.end(), head.groups()
    if gap and (not _is_option(text, at) or text.body.startswith(b"-", start)):  # a hyphen: the next option
        return behind, behind
    if not quote:
        return _bare(text, start)
    return start, text.run(_QUOTED.get(quote, _QUOTED_IN_QUOTES), start)


def _bare(text: Text, start: int) -> Span:
    end = text.run(_BARE, start)
    value = text.body[start:end].rstrip(_CLOSING)
    return (start, start + len(value)) if value.strip(_OPENING) else (end, end)


def _is_secret_key(text: Text, at: int) -> bool:
    """Whether the word ``key`` belongs to a name such as ``api_key``, not ``monkey``."""
    return text.before(at, _LONGEST_WHOSE).rstrip(b"_-. ").endswith(_WHOSE_KEY)


def _is_option(text: Text, at: int) -> bool:
    """Whether the name is an option such as ``--db-password``."""
    name = text.before(at, _NAME_LETTERS)
    return name[len(name.rstrip(b"abcdefghijklmnopqrstuvwxyz0123456789_.-")) :].startswith(b"--")

# Copied from chalicelib/masking/credentials.py by docs.generate.
"""Credentials that are recognized by their format: AWS keys, JSON web tokens, ``Bearer``, ``Authorization``, passwords in URLs."""

from __future__ import annotations

import re
from base64 import b64decode

from runlake._redaction.key_value_secrets import is_example
from runlake._redaction.text import BASE64, BASE64_URL, Span, Text, run_pattern

_SECRET_LETTERS = 40
_ACCESS_KEY = re.compile(rb"(?:AKIA|ASIA|ABIA|ACCA)(?!([A-Z])\1{9})[A-Z0-9]{16}(?![A-Za-z0-9])")
_ACCESS_KEY_BYTES = 21  # with the byte behind it
_BETWEEN = run_pattern(rb" \t,:;|\"'")
_MOST_BETWEEN = 8
_LETTER = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789")
_LETTER_OF_A_TOKEN = _LETTER | frozenset(b"_-")

_HEADER_LETTERS, _PAYLOAD_LETTERS = 10, 2
_MORE_PARTS = 3  # a signature; of an encrypted one two more

_TOKEN = run_pattern(rb"A-Za-z0-9._~+/=-")
_BEARER_LETTERS = 16
_BLANKS = run_pattern(rb" \t")
_MOST_BLANKS = 8
_HEAD_BYTES = 80
_QUOTE = rb"\\{0,3}+[\"']"
_SCHEME = rb"[A-Za-z0-9](?:[A-Za-z0-9]|-(?!-)){0,31}+[ \t]{1,8}+"
_AFTER_AUTHORIZATION = re.compile(
    rb"(?:"
    + _QUOTE
    + rb",[ \t]{0,8}+"
    + _QUOTE
    + rb"[Vv]alue"
    + _QUOTE
    + rb"[ \t]{0,8}+:[ \t]{0,8}+"
    + _QUOTE
    + rb"|"
    + _QUOTE
    + rb",[ \t]{0,8}+[bru]?"
    + _QUOTE
    + rb"(?="
    + _SCHEME
    + rb")|"
    + _QUOTE
    + rb"[ \t]{0,8}+[:=][ \t]{0,8}+[bru]?"
    + _QUOTE
    + rb"|[ \t]{0,8}+[:=][ \t]{0,8}+(?:[bru]?"
    + _QUOTE
    + rb")?)"
    rb"(?:" + _SCHEME + rb")?(?=[^\s\"'])"
)
_CREDENTIALS = run_pattern(rb"^\s\"'\\")

_AFTER_AUTH = re.compile(rb"\\{0,3}+\"[ \t]{0,8}+:[ \t]{0,8}+\\{0,3}+\"")
_PAIR = re.compile(rb"[ \t]{0,8}+[bru]?[\"'][^\s\"']{1,64}+[\"'],[ \t]{0,8}+[bru]?[\"'](?P<password>[^\n\"']{1,128}+)")
_USER_AND = re.compile(
    rb"(?:" + _QUOTE + rb")?[ \t]{0,8}+[:=][ \t]{0,8}+(?:" + _QUOTE + rb")?"
    rb"[A-Za-z0-9][^\s\"':]{0,64}+:(?!//)(?P<password>[^\s\"'\\,;]{1,128}+)"
)
_USER_BYTES = 240
_PADDING = run_pattern(rb"=")
_MOST_ENCODED = 4096

_USER = run_pattern(rb"^\s/?#\"'<>:@")
_MOST_USER = 255
_HTTP = (b"http", b"https")
_TOKEN_LETTERS = 20
_DIGIT = re.compile(rb"\d")
_AUTHORITY, _BEYOND = run_pattern(rb"^\s/?#\"'<>"), run_pattern(rb"^\s\"'<>@")
_MOST_BEYOND = 64
_PORT = re.compile(rb"\d{1,5}+(?:[/?#\s\"'<>,]|$)")


def access_key_ids(text: Text, at: int, _: int, spans: list[Span]) -> int:
    """AWS access key ids: one of four kinds, and 16 capital letters and digits."""
    if end := _access_key_end(text, at):
        spans.append((at, end))
    return at + 4


def secrets_after_access_keys(text: Text, at: int, _: int, spans: list[Span]) -> int:
    """AWS secret keys: 40 characters after an access key id, as in ``AKIA…,wJalr…``."""
    if id_end := _access_key_end(text, at):
        start = text.run(_BETWEEN, id_end, _MOST_BETWEEN)
        end = text.run(BASE64, start, _SECRET_LETTERS + 1)
        if start > id_end and end - start == _SECRET_LETTERS:
            spans.append((start, end))
    return at + 4


def _access_key_end(text: Text, at: int) -> int:
    if _is_in(text, at - 1, _LETTER):
        return 0
    key = text.match(_ACCESS_KEY, at, _ACCESS_KEY_BYTES)
    return key.end() if key else 0


def json_web_tokens(text: Text, at: int, _: int, spans: list[Span]) -> int:
    """Header, payload and further parts, base64url separated by dots. The encoded header, a JSON object, begins with ``eyJ``."""
    if _is_in(text, at - 1, _LETTER_OF_A_TOKEN):
        return at + 3
    end = text.run(BASE64_URL, at)
    if end - at >= _HEADER_LETTERS and (token_end := _parts(text, end)):
        spans.append((at, token_end))
        return token_end
    return end


def _parts(text: Text, header: int) -> int:
    """The end of a token whose header ends at ``header``; 0 if it is no token."""
    payload = text.run(BASE64_URL, header + 1)
    if not _is_in(text, header, b".") or payload - header <= _PAYLOAD_LETTERS or not _is_in(text, payload, b"."):
        return 0
    end = payload
    for _ in range(_MORE_PARTS):
        if not _is_in(text, end, b"."):
            break
        end = text.run(BASE64_URL, end + 1)
    return end


def bearer_tokens(text: Text, at: int, _: int, spans: list[Span]) -> int:
    """16 characters or more after the word ``Bearer``."""
    start = text.run(_BLANKS, at + 6, _MOST_BLANKS)
    end = text.run(_TOKEN, start) if start > at + 6 else start
    if end - start < _BEARER_LETTERS:
        return start
    spans.append((start, end))
    return end


def authorizations(text: Text, at: int, _: int, spans: list[Span]) -> int:
    """The credentials after the scheme of an ``Authorization`` header."""
    head = text.match(_AFTER_AUTHORIZATION, at + 13, _HEAD_BYTES)
    if not head:
        return at + 13
    end = text.run(_CREDENTIALS, head.end())
    if end > head.end() and not is_example(text.body[head.end() : end]):
        spans.append((head.end(), end))
    return end


def registry_credentials(text: Text, at: int, _: int, spans: list[Span]) -> int:
    """``"auth": "…"`` of a registry: a user and a password in base64."""
    behind = text.body.find(b"auth", at) + 4
    head = text.match(_AFTER_AUTH, behind, _HEAD_BYTES)
    if not head:
        return behind
    end = text.run(BASE64, head.end(), _MOST_ENCODED)
    encoded = text.body[head.end() : end]
    if b":" in b64decode(encoded + b"A" * (-len(encoded) % 4)):
        spans.append((head.end(), text.run(_PADDING, end, 2)))
    return end


def passwords_of_users(name: bytes, text: Text, at: int, _: int, spans: list[Span]) -> int:
    """``auth=("user", "…")`` and ``BASIC_AUTH=user:…``."""
    behind = at + len(name)
    user = text.match(_PAIR if name.endswith(b"(") else _USER_AND, behind, _USER_BYTES)
    if not user:
        return behind
    start, end = user.span("password")
    if not is_example(text.body[start:end]):
        spans.append((start, end))
    return end


def passwords_in_urls(text: Text, at: int, _: int, spans: list[Span]) -> int:
    """``postgresql://user:THIS@host`` and ``https://TOKEN@host``. A password with an unescaped slash ends at the next ``@``; a possible port is
    no password."""
    start = at + 3
    end = text.run(_USER, start, _MOST_USER)
    after = text.body[end : end + 2]
    if after[:1] == b":":
        if after != b":/":
            start, end = _password_in_url(text, end + 1)
            if start < end:
                spans.append((start, end))
    elif after[:1] == b"@" and end - start >= _TOKEN_LETTERS and text.before(at, 5).endswith(_HTTP):
        user = text.body[start:end]
        if not user.isalpha() and not user.isdigit() and _DIGIT.search(user):
            spans.append((start, end))
    return end - 1  # the colon may be the next one's


def _password_in_url(text: Text, start: int) -> Span:
    """The span of the password that may begin at ``start``; empty if there is none."""
    end = text.run(_AUTHORITY, start)
    at = text.body.rfind(b"@", start, end)
    if at >= 0:
        return start, at
    if end == start or text.match(_PORT, start, 6) or text.find(b"@", end, end + _MOST_BEYOND + 1) < 0:
        return end, end
    beyond = text.run(_BEYOND, end, _MOST_BEYOND)
    return (start, beyond) if _is_in(text, beyond, b"@") else (end, end)


def _is_in(text: Text, at: int, of: frozenset[int] | bytes) -> bool:
    return 0 <= at < len(text) and text.body[at] in of

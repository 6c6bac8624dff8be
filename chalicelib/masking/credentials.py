"""Credentials that are recognized by their format: AWS keys, JSON web tokens, ``Bearer``, ``Authorization``, passwords in URLs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from chalicelib.masking.text import BASE64, BASE64_URL, Span, Text, run_pattern

ACCESS_KEY_KINDS = (b"AKIA", b"ASIA", b"ABIA", b"ACCA")
_ACCESS_KEY_LETTERS, _SECRET_LETTERS = 20, 40
_CAPITALS, _BETWEEN = run_pattern(rb"A-Z0-9"), run_pattern(rb" \t,:;|\"'")
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
_AFTER_AUTHORIZATION = re.compile(
    rb"(?:\\{0,3}+[\"'])?[ \t]{0,8}+[:=][ \t]{0,8}+(?:\\{0,3}+[\"'])?(?:[A-Za-z0-9-]{1,32}+[ \t]{1,8}+)?(?=[^\s\"'])"
)
_CREDENTIALS = run_pattern(rb"^\s\"'\\")

_USER = run_pattern(rb"^\s/?#\"'<>:@")
_MOST_USER = 255
_AUTHORITY, _BEYOND = run_pattern(rb"^\s/?#\"'<>"), run_pattern(rb"^\s\"'<>@")
_MOST_BEYOND = 64
_PORT = re.compile(rb"\d{1,5}+(?:[/?#\s\"'<>,]|$)")


def access_key_ids(text: Text, kind: bytes) -> Iterator[Span]:
    """AWS access key ids with the prefix ``kind``: 20 capital letters and digits."""
    at = text.find(kind, 0)
    while at >= 0:
        end = text.run(_CAPITALS, at, _ACCESS_KEY_LETTERS)
        if end - at == _ACCESS_KEY_LETTERS and not _is_in(text, end, _LETTER) and not _is_in(text, at - 1, _LETTER):
            yield at, end
        at = text.find(kind, at + len(kind))


def secrets_after_access_keys(text: Text, kind: bytes) -> Iterator[Span]:
    """AWS secret keys: 40 characters after an access key id, as in ``AKIA…,wJalr…``."""
    for _, id_end in access_key_ids(text, kind):
        start = text.run(_BETWEEN, id_end, _MOST_BETWEEN)
        end = text.run(BASE64, start, _SECRET_LETTERS + 1)
        if start > id_end and end - start == _SECRET_LETTERS:
            yield start, end


def json_web_tokens(text: Text) -> Iterator[Span]:
    """Header, payload and further parts, base64url separated by dots. The encoded header, a JSON object, begins with ``eyJ``."""
    at = text.find(b"eyJ", 0)
    while at >= 0:
        end = at + 3
        if not _is_in(text, at - 1, _LETTER_OF_A_TOKEN):
            end = text.run(BASE64_URL, at)
            if end - at >= _HEADER_LETTERS and (token_end := _parts(text, end)):
                yield at, token_end
                end = token_end
        at = text.find(b"eyJ", end)


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


def bearer_tokens(text: Text) -> Iterator[Span]:
    """16 characters or more after the word ``Bearer``."""
    at = text.find_any_case(b"bearer", 0)
    while at >= 0:
        start = text.run(_BLANKS, at + 6, _MOST_BLANKS)
        end = text.run(_TOKEN, start) if start > at + 6 else start
        if end - start >= _BEARER_LETTERS:
            yield start, end
            start = end
        at = text.find_any_case(b"bearer", start)


def authorizations(text: Text) -> Iterator[Span]:
    """The credentials after the scheme of an ``Authorization`` header."""
    at = text.find_any_case(b"authorization", 0)
    while at >= 0:
        end = at + 13
        if head := text.match(_AFTER_AUTHORIZATION, end, _HEAD_BYTES):
            end = text.run(_CREDENTIALS, head.end())
            if end > head.end():
                yield head.end(), end
        at = text.find_any_case(b"authorization", end)


def passwords_in_urls(text: Text) -> Iterator[Span]:
    """``postgresql://user:THIS@host``. A password with an unescaped slash ends at the next ``@``; a possible port is no password."""
    at = text.find(b"://", 0)
    while at >= 0:
        end = text.run(_USER, at + 3, _MOST_USER)
        if text.body[end : end + 1] == b":":
            start, end = _password_in_url(text, end + 1)
            if start < end:
                yield start, end
        at = text.find(b"://", end - 1)  # the colon may be the next one's


def _password_in_url(text: Text, start: int) -> Span:
    """The span of the password that may begin at ``start``; empty if there is none."""
    end = text.run(_AUTHORITY, start)
    at = text.body.rfind(b"@", start, end)
    if at >= 0:
        return start, at
    if end == start or text.match(_PORT, start, 6):
        return end, end
    beyond = text.run(_BEYOND, end, _MOST_BEYOND)
    return (start, beyond) if _is_in(text, beyond, b"@") else (end, end)


def _is_in(text: Text, at: int, of: frozenset[int] | bytes) -> bool:
    return 0 <= at < len(text) and text.body[at] in of

"""Registry of the known shapes of secrets. If two findings begin at the same byte, the shape that is first here gives the name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache, partial
from itertools import chain
from typing import NamedTuple

from chalicelib.masking.scan import Anchor, Find, Scan
from chalicelib.masking.token_formats import FORMATS
from chalicelib.masking.values import ValueFinder

CONFIGURED, VENDOR_TOKEN = "configured-value", "vendor-token"
SHAPES = (
    "private-key",
    "aws-secret-key",
    "aws-access-key-id",
    VENDOR_TOKEN,
    "jwt",
    "bearer-token",
    "connection-string",
    "cookie",
    "signature",
    "password",
)
TOKENS = tuple(dict.fromkeys(each.name for each in FORMATS))
"""The parts of ``vendor-token``: a marker names the vendor whose secret has to be changed."""
NAMES = (*SHAPES, CONFIGURED)
_RANKED = tuple(chain.from_iterable(TOKENS if name == VENDOR_TOKEN else (name,) for name in NAMES))
MARKERS: Mapping[str, bytes] = {name: f"***{name}***".encode() for name in _RANKED}
"""The replacement for secrets of each shape, and for tokens of each vendor, in the order of findings."""


CONFIGURED_ORDER = _RANKED.index(CONFIGURED)


class Finders(NamedTuple):
    """What is looked for in a text: shapes, and configured values."""

    scan: Scan
    values: ValueFinder | tuple[()] = ()


def shape_of(name: str) -> str:
    """The shape that a marker belongs to."""
    return VENDOR_TOKEN if name in TOKENS else name


def finders(names: Iterable[str], values: Sequence[bytes] | ValueFinder = ()) -> Finders:
    """Finders of some shapes or vendors' tokens, and of configured values."""
    selected = frozenset(names)
    return Finders(_scan(selected), values if isinstance(values, ValueFinder) else values_finder(values) if values else ())


@lru_cache(maxsize=16)
def _scan(names: frozenset[str]) -> Scan:
    return Scan(each for each in _anchors() if each.name in names or shape_of(each.name) in names)


@cache
def compared() -> Scan:
    """Finds what this version or the one before may mask, by any rule: for comparison only."""
    from chalicelib.masking.previous import finders_of_previous

    return Scan([*_anchors(), *(Anchor(name, 0, words, find) for name, words, find in finders_of_previous())])


@cache
def _anchors() -> tuple[Anchor, ...]:
    return tuple(Anchor(name, _RANKED.index(name), words, find) for name, words, find in _finders())


def _finders() -> Iterator[tuple[str, tuple[bytes, ...], Find]]:
    """Imported on first use: many expressions are compiled."""
    from chalicelib.masking.commands import COMMANDS, IDENTIFIED, ORACLE_URLS, command_passwords, identified_by, oracle_passwords
    from chalicelib.masking.credentials import (
        ACCESS_KEY_KINDS,
        access_key_ids,
        authorizations,
        bearer_tokens,
        json_web_tokens,
        passwords_in_urls,
        secrets_after_access_keys,
    )
    from chalicelib.masking.headers import COOKIE, SIGNATURES, cookies, signatures
    from chalicelib.masking.key_value_secrets import KEYS, WORDS, aws_secret_keys, passwords
    from chalicelib.masking.private_keys import PEM_MARKERS, PUTTY, private_keys, putty_keys
    from chalicelib.masking.token_formats import finders_of_tokens

    yield "private-key", PEM_MARKERS, private_keys
    yield "private-key", PUTTY, putty_keys
    yield "aws-secret-key", (b"secret",), aws_secret_keys
    yield "aws-secret-key", ACCESS_KEY_KINDS, secrets_after_access_keys
    yield "aws-access-key-id", ACCESS_KEY_KINDS, access_key_ids
    yield from ((name, (literal,), find) for name, literal, find in finders_of_tokens())
    yield "jwt", (b"eyj",), json_web_tokens
    yield "bearer-token", (b"bearer",), bearer_tokens
    yield "bearer-token", (b"authorization",), authorizations
    yield "connection-string", (b"://",), passwords_in_urls
    yield "cookie", COOKIE, cookies
    yield "signature", SIGNATURES, signatures
    yield from (("password", (word,), partial(passwords, word)) for word in (*WORDS, *KEYS))
    yield from (("password", (command,), partial(command_passwords, command=command)) for command in COMMANDS)
    yield "password", ORACLE_URLS, oracle_passwords
    yield "password", IDENTIFIED, identified_by


def values_finder(values: Sequence[bytes]) -> ValueFinder:
    """Builds the finder of configured values, which is reused for many batches."""
    return ValueFinder(values, tuple(MARKERS.values()))

# Copied from chalicelib/masking/shapes.py by docs.generate.
"""Registry of the known shapes of secrets. If two findings begin at the same byte, the shape that is first here gives the name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache, partial
from itertools import chain
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple

from runlake._redaction import words
from runlake._redaction.scan import Anchor, Deferred, Find, Scan
from runlake._redaction.token_formats import FORMATS, finders_of_tokens

if TYPE_CHECKING:
    from runlake._redaction.values import ValueFinder

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


def names_of(names: Iterable[str]) -> frozenset[str]:
    """The names of markers, of shapes and of tokens."""
    return frozenset(chain.from_iterable(TOKENS if name == VENDOR_TOKEN else (name,) for name in names))


def finders(names: Iterable[str], values: Sequence[bytes] | ValueFinder = ()) -> Finders:
    """Finders of some shapes or vendors' tokens, and of configured values."""
    return Finders(_scan(names_of(names)), (values_finder(values) if values else ()) if isinstance(values, Sequence) else values)


@lru_cache(maxsize=16)
def _scan(names: frozenset[str]) -> Scan:
    return Scan(each for each in _anchors() if each.name in names)


@cache
def compared() -> Scan:
    """Finds what this version or the one before may mask, by any rule: for comparison only."""
    from runlake._redaction.previous import finders_of_previous

    return Scan([*_anchors(), *(Anchor(name, 0, words, find, name != VENDOR_TOKEN) for name, words, find in finders_of_previous())])


@cache
def _anchors() -> tuple[Anchor, ...]:
    return tuple(
        Anchor(name, _RANKED.index(name), words, find, any_case)
        for any_case, some in ((True, _finders()), (False, _exact_finders()))
        for name, words, find in some
    )


def _commands() -> ModuleType:
    from runlake._redaction import commands

    return commands


def _credentials() -> ModuleType:
    from runlake._redaction import credentials

    return credentials


def _headers() -> ModuleType:
    from runlake._redaction import headers

    return headers


def _pairs() -> ModuleType:
    from runlake._redaction import key_value_secrets

    return key_value_secrets


def _pem() -> ModuleType:
    from runlake._redaction import private_keys

    return private_keys


def _deferred(module: Callable[[], ModuleType], name: str, *first: bytes) -> Deferred:
    """A finder of a module. ``first``: arguments before the text."""
    return Deferred(lambda: partial(getattr(module(), name), *first) if first else getattr(module(), name))


def _exact_finders() -> Iterator[tuple[str, tuple[bytes, ...], Find]]:
    yield "aws-secret-key", words.ACCESS_KEY_KINDS, _deferred(_credentials, "secrets_after_access_keys")
    yield "aws-access-key-id", words.ACCESS_KEY_KINDS, _deferred(_credentials, "access_key_ids")
    yield from ((name, (literal,), find) for name, literal, find in finders_of_tokens())
    yield "jwt", (words.JWT,), _deferred(_credentials, "json_web_tokens")


def _finders() -> Iterator[tuple[str, tuple[bytes, ...], Find]]:
    yield "private-key", words.PEM, _deferred(_pem, "private_keys")
    yield "private-key", words.PUTTY, _deferred(_pem, "putty_keys")
    yield "private-key", words.MASKED_KEY, _deferred(_pem, "keys_between_markers")
    for word in words.AWS_KEYS:
        yield "aws-secret-key", (word,), _deferred(_pairs, "aws_secret_keys", word)
    yield "bearer-token", (b"bearer",), _deferred(_credentials, "bearer_tokens")
    yield "bearer-token", (b"authorization",), _deferred(_credentials, "authorizations")
    yield "connection-string", (b"://",), _deferred(_credentials, "passwords_in_urls")
    yield "cookie", (b"cookie",), _deferred(_headers, "cookies")
    yield "signature", words.SIGNATURES, _deferred(_headers, "signatures")
    for word in (*words.WORDS, *words.KEYS):
        yield "password", (word,), _deferred(_pairs, "passwords", word)
    for command in words.COMMANDS:
        yield "password", (command,), _deferred(_commands, "command_passwords", command)
    yield "password", words.REGISTRIES, _deferred(_credentials, "registry_credentials")
    yield "password", (b"jdbc:oracle:",), _deferred(_commands, "oracle_passwords")
    yield "password", (b"identified",), _deferred(_commands, "identified_by")
    yield "password", (b"set password",), _deferred(_commands, "set_passwords")
    for name in words.USERS:
        yield "password", (name,), _deferred(_credentials, "passwords_of_users", name)


def values_finder(values: Sequence[bytes]) -> ValueFinder:
    """Builds the finder of configured values, which is reused for many batches. Imports its expressions."""
    from runlake._redaction.values import ValueFinder

    return ValueFinder(values, tuple(MARKERS.values()))

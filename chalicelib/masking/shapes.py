"""Registry of the known shapes of secrets. If two findings begin at the same byte, the shape that is first here gives the name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache, partial
from itertools import chain
from types import ModuleType
from typing import NamedTuple

from chalicelib.masking import words
from chalicelib.masking.scan import Anchor, Find, Scan
from chalicelib.masking.text import Span, Text
from chalicelib.masking.token_formats import FORMATS, finders_of_tokens
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


def names_of(names: Iterable[str]) -> frozenset[str]:
    """The names of markers, of shapes and of tokens."""
    return frozenset(chain.from_iterable(TOKENS if name == VENDOR_TOKEN else (name,) for name in names))


def finders(names: Iterable[str], values: Sequence[bytes] | ValueFinder = ()) -> Finders:
    """Finders of some shapes or vendors' tokens, and of configured values."""
    return Finders(_scan(names_of(names)), values if isinstance(values, ValueFinder) else values_finder(values) if values else ())


@lru_cache(maxsize=16)
def _scan(names: frozenset[str]) -> Scan:
    return Scan(each for each in _anchors() if each.name in names)


@cache
def compared() -> Scan:
    """Finds what this version or the one before may mask, by any rule: for comparison only."""
    from chalicelib.masking.previous import finders_of_previous

    return Scan([*_anchors(), *(Anchor(name, 0, words, find) for name, words, find in finders_of_previous())])


@cache
def _anchors() -> tuple[Anchor, ...]:
    return tuple(Anchor(name, _RANKED.index(name), words, find) for name, words, find in _finders())


def _commands() -> ModuleType:
    from chalicelib.masking import commands

    return commands


def _credentials() -> ModuleType:
    from chalicelib.masking import credentials

    return credentials


def _headers() -> ModuleType:
    from chalicelib.masking import headers

    return headers


def _pairs() -> ModuleType:
    from chalicelib.masking import key_value_secrets

    return key_value_secrets


def _pem() -> ModuleType:
    from chalicelib.masking import private_keys

    return private_keys


class _Deferred:
    """A finder of a module that is imported at its first word, since many expressions are compiled. ``first``: arguments before the text."""

    def __init__(self, module: Callable[[], ModuleType], name: str, *first: bytes) -> None:
        self._module, self._name, self._first = module, name, first
        self._find: Find | None = None

    def __call__(self, text: Text, at: int, reached: int, spans: list[Span]) -> int:
        find = self._find or self._loaded()
        return find(text, at, reached, spans)

    def _loaded(self) -> Find:
        find: Callable[..., int] = getattr(self._module(), self._name)
        self._find = partial(find, *self._first) if self._first else find
        return self._find


def _finders() -> Iterator[tuple[str, tuple[bytes, ...], Find]]:
    yield "private-key", words.PEM, _Deferred(_pem, "private_keys")
    yield "private-key", words.PUTTY, _Deferred(_pem, "putty_keys")
    yield "private-key", words.MASKED_KEY, _Deferred(_pem, "keys_between_markers")
    yield "aws-secret-key", (b"secret",), _Deferred(_pairs, "aws_secret_keys")
    yield "aws-secret-key", words.ACCESS_KEY_KINDS, _Deferred(_credentials, "secrets_after_access_keys")
    yield "aws-access-key-id", words.ACCESS_KEY_KINDS, _Deferred(_credentials, "access_key_ids")
    yield from ((name, (literal,), find) for name, literal, find in finders_of_tokens())
    yield "jwt", (b"eyj",), _Deferred(_credentials, "json_web_tokens")
    yield "bearer-token", (b"bearer",), _Deferred(_credentials, "bearer_tokens")
    yield "bearer-token", (b"authorization",), _Deferred(_credentials, "authorizations")
    yield "connection-string", (b"://",), _Deferred(_credentials, "passwords_in_urls")
    yield "cookie", (b"cookie",), _Deferred(_headers, "cookies")
    yield "signature", words.SIGNATURES, _Deferred(_headers, "signatures")
    for word in (*words.WORDS, *words.KEYS):
        yield "password", (word,), _Deferred(_pairs, "passwords", word)
    for command in words.COMMANDS:
        yield "password", (command,), _Deferred(_commands, "command_passwords", command)
    yield "password", words.REGISTRIES, _Deferred(_credentials, "registry_credentials")
    yield "password", (b"jdbc:oracle:",), _Deferred(_commands, "oracle_passwords")
    yield "password", (b"identified",), _Deferred(_commands, "identified_by")


def values_finder(values: Sequence[bytes]) -> ValueFinder:
    """Builds the finder of configured values, which is reused for many batches."""
    return ValueFinder(values, tuple(MARKERS.values()))

"""Registry of the known shapes of secrets. If two findings begin at the same byte, the shape that is first here gives the name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from chalicelib.masking.credentials import (
    ACCESS_KEY_KINDS,
    access_key_ids,
    authorizations,
    bearer_tokens,
    json_web_tokens,
    passwords_in_urls,
    secrets_after_access_keys,
)
from chalicelib.masking.key_value_secrets import WORDS, aws_secret_keys, passwords
from chalicelib.masking.private_keys import private_keys
from chalicelib.masking.text import Span, Text
from chalicelib.masking.values import ValueFinder


class SecretFinder(Protocol):
    """Yields spans of secrets in order, without duplicates. Reads each byte a bounded number of times, for any input. ``anchor``: a
    lowercase text without which there is no secret; empty if there is no such text."""

    @property
    def anchor(self) -> bytes: ...

    def __call__(self, text: Text) -> Iterator[Span]: ...


@dataclass(frozen=True, slots=True)
class ShapeFinder:
    """A finder of one shape."""

    anchor: bytes
    find: Callable[[Text], Iterator[Span]]

    def __call__(self, text: Text) -> Iterator[Span]:
        return self.find(text)


CONFIGURED = "configured-value"

SHAPES: Mapping[str, tuple[SecretFinder, ...]] = {
    "private-key": (ShapeFinder(b"-----", private_keys),),
    "aws-secret-key": (
        ShapeFinder(b"secret", aws_secret_keys),
        *(ShapeFinder(kind.lower(), partial(secrets_after_access_keys, kind=kind)) for kind in ACCESS_KEY_KINDS),
    ),
    "aws-access-key-id": tuple(ShapeFinder(kind.lower(), partial(access_key_ids, kind=kind)) for kind in ACCESS_KEY_KINDS),
    "jwt": (ShapeFinder(b"eyj", json_web_tokens),),
    "bearer-token": (ShapeFinder(b"bearer", bearer_tokens), ShapeFinder(b"authorization", authorizations)),
    "connection-string": (ShapeFinder(b"://", passwords_in_urls),),
    "password": tuple(ShapeFinder(word, partial(passwords, word=word)) for word in WORDS),
}
NAMES = (*SHAPES, CONFIGURED)
MARKERS: Mapping[str, bytes] = {name: f"***{name}***".encode() for name in NAMES}
"""The replacement for secrets of each shape."""


def finders(shapes: Sequence[str], values: Sequence[bytes] | ValueFinder = ()) -> tuple[tuple[str, SecretFinder], ...]:
    """(shape, finder) for the given shapes and one for all configured values, in the order of ``NAMES``."""
    named = [(name, each) for name in SHAPES if name in shapes for each in SHAPES[name]]
    if not values:
        return tuple(named)
    return (*named, (CONFIGURED, values if isinstance(values, ValueFinder) else values_finder(values)))


def values_finder(values: Sequence[bytes]) -> ValueFinder:
    """Builds the finder of configured values, which is reused for many batches."""
    return ValueFinder(values, tuple(MARKERS.values()))

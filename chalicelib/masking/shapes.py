"""The shapes of secrets that are known, by name. Of two that begin at the same place the earlier one here gives its name."""

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
    secrets_behind_access_keys,
)
from chalicelib.masking.pairs import WORDS, aws_secret_keys, passwords
from chalicelib.masking.private_keys import private_keys
from chalicelib.masking.text import Span, Text
from chalicelib.masking.values import Values


class Finder(Protocol):
    """Places of secrets, in their order, none twice. Reads each byte a bounded number of times, whatever the bytes are. ``anchor``: a text
    without these small letters has none; empty: any text may."""

    @property
    def anchor(self) -> bytes: ...

    def __call__(self, text: Text) -> Iterator[Span]: ...


@dataclass(frozen=True, slots=True)
class Shape:
    """A finder of one shape."""

    anchor: bytes
    find: Callable[[Text], Iterator[Span]]

    def __call__(self, text: Text) -> Iterator[Span]:
        return self.find(text)


CONFIGURED = "configured-value"

SHAPES: Mapping[str, tuple[Finder, ...]] = {
    "private-key": (Shape(b"-----", private_keys),),
    "aws-secret-key": (
        Shape(b"secret", aws_secret_keys),
        *(Shape(kind.lower(), partial(secrets_behind_access_keys, kind=kind)) for kind in ACCESS_KEY_KINDS),
    ),
    "aws-access-key-id": tuple(Shape(kind.lower(), partial(access_key_ids, kind=kind)) for kind in ACCESS_KEY_KINDS),
    "jwt": (Shape(b"eyj", json_web_tokens),),
    "bearer-token": (Shape(b"bearer", bearer_tokens), Shape(b"authorization", authorizations)),
    "connection-string": (Shape(b"://", passwords_in_urls),),
    "password": tuple(Shape(word, partial(passwords, word=word)) for word in WORDS),
}
NAMES = (*SHAPES, CONFIGURED)
MARKERS: Mapping[str, bytes] = {name: f"***{name}***".encode() for name in NAMES}
"""What stands in place of a secret."""


def finders(shapes: Sequence[str], values: Sequence[bytes] | Values = ()) -> tuple[tuple[str, Finder], ...]:
    """The finders of shapes, and one of all configured values, each with its shape's name, in the order of names."""
    named = [(name, each) for name in SHAPES if name in shapes for each in SHAPES[name]]
    if not values:
        return tuple(named)
    return (*named, (CONFIGURED, values if isinstance(values, Values) else values_finder(values)))


def values_finder(values: Sequence[bytes]) -> Values:
    """The finder of configured values: made once for many batches."""
    return Values(values, tuple(MARKERS.values()))

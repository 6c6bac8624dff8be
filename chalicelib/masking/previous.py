"""What the version before this one masked and this one does not (decision 0059).

A batch that the version before masked, and whose response was lost, is repeated to this one: its segment is found only if this version knows
that its size may differ. So a release that masks less puts a finder of the difference here, or of more than it; the next release removes it.
Nothing is masked by these finders.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from chalicelib.masking.key_value_secrets import value_start
from chalicelib.masking.scan import Find
from chalicelib.masking.text import Span, Text
from chalicelib.masking.token_formats import FORMATS as _FORMATS
from chalicelib.masking.token_formats import TokenFormat, finders_of_tokens
from chalicelib.masking.words import KEYS, WORDS

_NARROWED = ("infracost", "slack", "sourcegraph")
FORMATS: tuple[TokenFormat, ...] = (
    *(TokenFormat("authress", literal, r"A-Za-z0-9_\-.=", 60) for literal in ("sc_", "ext_", "scauth_", "authress_")),
    *(each._replace(fewest=min(each.fewest, 40), most=0, distinct=0) for each in _FORMATS if each.vendor in _NARROWED),
    TokenFormat("aws", "AKIA", "A-Z0-9", 16, distinct=0),
)
"""Rows of the table of tokens as they were."""


def finders_of_previous() -> Iterator[tuple[str, tuple[bytes, ...], Find]]:
    """(name of a shape, words, finder)."""
    yield from (("vendor-token", (literal,), find) for _, literal, find in finders_of_tokens(FORMATS))
    yield from (("password", (word,), partial(_named_values, word)) for word in (*WORDS, *KEYS))
    yield "bearer-token", (b"authorization",), partial(_named_values, b"authorization")


def _named_values(word: bytes, text: Text, at: int, _: int, spans: list[Span]) -> int:
    """Any value after a name that ends in the word, also one that is an example or an id."""
    start = value_start(text, at, at + len(word))
    if start >= 0:
        spans.append((start, start + 1))
    return max(start, at + len(word))

"""Annotations of an event's text: links, colours, folds.

The text is complete without them, and a reader ignores kinds that it does not know. ``position`` and ``length`` count characters of the
message. The viewer knows the kinds below; a note can be any JSON.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Annotation:
    """``note``: any JSON, attached at ``position``, in characters of the message."""

    position: int
    note: Any


def link(position: int, length: int, href: str) -> Annotation:
    """Link these characters to an http or https address; readers follow no other scheme."""
    return Annotation(position, {"kind": "link", "length": length, "href": href})


def colour(position: int, length: int, name: str) -> Annotation:
    """Colour these characters: black, red, green, yellow, blue, magenta, cyan or white, or ``#rrggbb``."""
    return Annotation(position, {"kind": "colour", "length": length, "colour": name})


def fold(position: int = 0, length: int | None = None) -> Annotation:
    """Let a reader fold the lines from here below the first one: to the message's end, or for ``length`` characters."""
    return Annotation(position, {"kind": "fold"} | ({} if length is None else {"length": length}))

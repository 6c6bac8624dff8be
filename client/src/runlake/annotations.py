"""Notes beside the text of an event: links, colours, folds. What a reader does not know it leaves out; the text is whole without them.

``position`` and ``length`` count characters of the message. These are the notes that the viewer knows; any JSON is a note.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Annotation:
    """``note``: any JSON, about what is at ``position``, in characters of the message."""

    position: int
    note: Any


def link(position: int, length: int, href: str) -> Annotation:
    """These characters lead to an address, of http or https: a reader follows no other."""
    return Annotation(position, {"kind": "link", "length": length, "href": href})


def colour(position: int, length: int, name: str) -> Annotation:
    """These characters in a colour: black, red, green, yellow, blue, magenta, cyan or white, or ``#rrggbb``."""
    return Annotation(position, {"kind": "colour", "length": length, "colour": name})


def fold(position: int = 0, length: int | None = None) -> Annotation:
    """The lines from here on may be folded below their first: to the message's end, or so many characters."""
    return Annotation(position, {"kind": "fold"} | ({} if length is None else {"length": length}))

"""Bytes to lines, and a line's bytes to text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

INDENTATION = frozenset({b"", b" ", b"\t", b"\r"})
"""How a line begins that goes on with what stood before it: empty, indented, or a progress bar's next state."""
_COLOURS = re.compile(r"\x1b\[[0-9;?]*+[ -/]*+[@-~]")
_CARRIAGE_RETURN = 13


def numbered(chunks: Iterable[bytes], first_line: int = 0) -> Iterator[tuple[int, bytes]]:
    """The lines of a log that comes in pieces of any size, with their numbers and without their newlines.

    Lines end at ``\\n`` only. What follows the last one is a line if there is anything. Holds one chunk and one line.
    """
    number = first_line
    begun: list[bytes] = []
    for chunk in chunks:
        first, *others = chunk.split(b"\n")
        begun.append(first)
        if others:
            yield number, b"".join(begun)
            yield from enumerate(others[:-1], number + 1)
            number += len(others)
            begun = others[-1:]
    if any(begun):
        yield number, b"".join(begun)


def text_of(raw: bytes) -> str:
    """A line as text: never an error, without the carriage return at its end and without a terminal's colours. What is no UTF-8
    becomes U+FFFD."""
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        text = raw.decode(errors="replace")
    if raw and raw[-1] == _CARRIAGE_RETURN:
        text = text[:-1]
    return _COLOURS.sub("", text) if "\x1b" in text else text

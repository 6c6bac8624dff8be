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


class LinesAhead:
    """Numbered lines that are taken up to a line, which is not taken."""

    def __init__(self, lines: Iterator[tuple[int, bytes]]) -> None:
        self._lines = lines
        self._next: tuple[int, bytes] | None = None

    @property
    def number(self) -> int | None:
        """The number of the next line; None: there is none."""
        return self._next[0] if self.has_more() and self._next else None

    def has_more(self) -> bool:
        """Whether there is another line."""
        if self._next is None:
            self._next = next(self._lines, None)
        return self._next is not None

    def skip(self, line: int) -> None:
        """Leave out what is before a line: of an event in whose middle somebody began."""
        for _ in self.until(line):
            pass

    def until(self, line: int | None) -> Iterator[tuple[int, bytes]]:
        """The lines before a line; None: all."""
        while self.has_more():
            assert self._next is not None
            if line is not None and self._next[0] >= line:
                return
            found, self._next = self._next, None
            yield found


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

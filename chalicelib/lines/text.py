"""Splits bytes into lines, and decodes lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

INDENTATION = frozenset({b"", b" ", b"\t", b"\r"})
"""First bytes of lines that continue the line before: empty, indented, or the next state of a progress bar."""
_ESCAPES = (
    r"\x1b(?:\[8mha:[\w+/=]*+\x1b\[0m"  # a note that Jenkins conceals
    r"|\[[0-?]*+[ -/]*+[@-~]?"  # CSI: colors, cursor
    r"|[]PX^_][^\x07\x1b\r\n]*+(?:\x07|\x1b\\)"  # OSC, DCS, SOS, PM, APC: titles, links, marks
    r"|(?: [FGLMN]|[!-/]{1,2}+[0-~])"  # character sets
    r"|[0-~])?+"
)
"""Control sequences of ECMA-48 and xterm. A string without its end loses only its introducer, since it may have swallowed a record."""
_ESCAPES_IN_TEXT, _ESCAPES_IN_BYTES = re.compile(_ESCAPES, re.ASCII), re.compile(_ESCAPES.encode())
_CARRIAGE_RETURN = 13
MAX_STATES = 64
"""States of a line that are searched for a record which a program wrote over a progress bar."""


def number_lines(chunks: Iterable[bytes], first_line: int = 0) -> Iterator[tuple[int, bytes]]:
    r"""The lines of a log, given in chunks of any size, as (number, line without newline).

    Lines end at ``\n`` only. Text after the last newline is a line unless it is empty. Holds one chunk and one line in memory.
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


class LineCursor:
    """Numbered lines, consumed up to a given line."""

    def __init__(self, lines: Iterator[tuple[int, bytes]]) -> None:
        self._lines = lines
        self._next: tuple[int, bytes] | None = None

    @property
    def number(self) -> int | None:
        """The number of the next line; None at the end."""
        return self._next[0] if self.has_more() and self._next else None

    def has_more(self) -> bool:
        """Whether there is another line."""
        if self._next is None:
            self._next = next(self._lines, None)
        return self._next is not None

    def skip(self, line: int) -> None:
        """Skips the lines before ``line``, for a start in the middle of an event."""
        for _ in self.until(line):
            pass

    def until(self, line: int | None) -> Iterator[tuple[int, bytes]]:
        """Yields the lines before ``line``; None: all."""
        while self.has_more():
            assert self._next is not None
            if line is not None and self._next[0] >= line:
                return
            found, self._next = self._next, None
            yield found


def decode_line(raw: bytes) -> str:
    """A line as text, without a trailing carriage return and control sequences. Invalid UTF-8 becomes U+FFFD; never raises."""
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        text = raw.decode(errors="replace")
    if raw and raw[-1] == _CARRIAGE_RETURN:
        text = text[:-1]
    return _ESCAPES_IN_TEXT.sub("", text) if "\x1b" in text else text


def certainly_continues(raw: bytes) -> bool:
    """Whether a line continues the line before without being parsed: it is indented, and no later state of it can be a record."""
    return raw[:1] in INDENTATION and raw.find(b"\r", 0, len(raw) - 1) < 0


def later_states(text: str) -> Iterator[str]:
    """What replaces the text of a line when it is printed, after carriage returns: the last states first, without the first one."""
    end = len(text)
    for _ in range(MAX_STATES):
        if (at := text.rfind("\r", 0, end)) < 0:
            return
        if state := text[at + 1 : end]:
            yield state
        end = at


def without_escapes(text: str) -> str:
    """A text without the control sequences of terminals, and without the escape character."""
    return _ESCAPES_IN_TEXT.sub("", text) if "\x1b" in text else text


def without_escape_bytes(raw: bytes) -> bytes:
    """Bytes without the control sequences of terminals, and without the escape character."""
    return _ESCAPES_IN_BYTES.sub(b"", raw)

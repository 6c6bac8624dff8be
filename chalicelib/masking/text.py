"""What finders read a batch with. Every way to read goes through here, so that a test can count the bytes that are looked at."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol

Letters = re.Pattern[bytes]
"""A run: possessive, and nothing in it can be matched in two ways, so a step looks at a byte once."""
Span = tuple[int, int]


class Automaton(Protocol):
    """Many words that are looked for at once. Reads a text once, whatever the words are."""

    def find_matches_as_indexes(self, haystack: bytes, overlapping: bool = False) -> Sequence[tuple[int, int, int]]:
        """(number of a word, start, end), in order of their ends."""


def letters(of: bytes) -> Letters:
    """A run of the letters of a class, such as ``A-Z0-9``."""
    return re.compile(b"[" + of + b"]*+")


class Text:
    """The bytes of a batch. Every method reads no further than what it returns, and a window that its caller names."""

    __slots__ = ("body", "lowered")

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.lowered = body.lower()

    def __len__(self) -> int:
        return len(self.body)

    def has(self, word: bytes) -> bool:
        """Whether a word of small letters stands anywhere, however it is written."""
        return word in self.lowered

    def find(self, word: bytes, start: int, end: int | None = None) -> int:
        """Where a word stands, in these very letters; -1: nowhere."""
        return self.body.find(word, start, end)

    def find_any_case(self, word: bytes, start: int, end: int | None = None) -> int:
        """Where a word of small letters stands, however it is written; -1: nowhere."""
        return self.lowered.find(word, start, end)

    def occurrences(self, of: Automaton, start: int, end: int) -> list[tuple[int, int, int]]:
        """Where any of many words stands between two places: (its number, start, end), those that overlap too."""
        found = of.find_matches_as_indexes(self.body[start:end], overlapping=True)
        return [(number, first + start, last + start) for number, first, last in found]

    def run(self, of: Letters, start: int, most: int | None = None) -> int:
        """The end of a run that begins here."""
        found = of.match(self.body, start, len(self.body) if most is None else start + most)
        return found.end() if found else start

    def match(self, pattern: re.Pattern[bytes], start: int, most: int) -> re.Match[bytes] | None:
        """A small pattern here, which sees at most so many bytes."""
        return pattern.match(self.body, start, start + most)

    def before(self, at: int, most: int) -> bytes:
        """The bytes in front of a place, in small letters."""
        return self.lowered[max(at - most, 0) : at]


BASE64 = letters(rb"A-Za-z0-9/+")
BASE64_URL = letters(rb"A-Za-z0-9_-")

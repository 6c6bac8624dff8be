# Copied from chalicelib/masking/text.py by docs.generate.
"""Read access of finders to a batch. All reads go through ``Text``, so that a test can count the bytes."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from typing import Protocol

RunPattern = re.Pattern[bytes]
"""Matches a run of characters: possessive and unambiguous, so each byte is read once."""
Span = tuple[int, int]


class Automaton(Protocol):
    """Searches for many words at once. Reads a text once, for any words."""

    def find_matches_as_indexes(self, haystack: bytes, overlapping: bool = False) -> Sequence[tuple[int, int, int]]:
        """(index of a word, start, end), ordered by end."""


def run_pattern(of: bytes) -> RunPattern:
    """A pattern for a run of characters of a class, such as ``A-Z0-9``."""
    return re.compile(b"[" + of + b"]*+")


def occurrences(body: bytes, of: Automaton, start: int, end: int) -> list[tuple[int, int, int]]:
    """(index of a word, start, end) of all occurrences in [start, end), overlapping ones included."""
    found = of.find_matches_as_indexes(body[start:end], overlapping=True)
    return [(number, first + start, last + start) for number, first, last in found]


class Text:
    """The bytes of a batch. No method reads beyond its result and the window that its caller names."""

    __slots__ = ("body", "lowered")

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.lowered = body.lower()

    def __len__(self) -> int:
        return len(self.body)

    def find(self, word: bytes, start: int, end: int | None = None) -> int:
        """The position of a word, case-sensitive; -1 if there is none."""
        return self.body.find(word, start, end)

    def find_any_case(self, word: bytes, start: int, end: int | None = None) -> int:
        """The position of a lowercase word, in any case; -1 if there is none."""
        return self.lowered.find(word, start, end)

    def occurrences(self, of: Automaton, start: int, end: int) -> list[tuple[int, int, int]]:
        """(index of a word, start, end) of all occurrences in [start, end), overlapping ones included."""
        return occurrences(self.body, of, start, end)

    def words(self, of: Automaton, start: int, end: int) -> Sequence[tuple[int, int, int]]:
        """(index of a word, its start and end, counted from ``start``) of lowercase words, in any case."""
        return of.find_matches_as_indexes(self.lowered[start:end], overlapping=True)

    def run(self, of: RunPattern, start: int, max_bytes: int = sys.maxsize >> 1) -> int:
        """The end of the run that begins at ``start``."""
        found = of.match(self.body, start, start + max_bytes)
        return found.end() if found else start

    def run_back(self, letters: bytes, at: int, max_bytes: int) -> int:
        """The start of the run that ends at ``at``."""
        return at - max_bytes + len(self.body[max(at - max_bytes, 0) : at].rstrip(letters)) + max(max_bytes - at, 0)

    def match(self, pattern: re.Pattern[bytes], start: int, max_bytes: int) -> re.Match[bytes] | None:
        """Matches a small pattern at ``start``, which sees at most ``max_bytes``."""
        return pattern.match(self.body, start, start + max_bytes)

    def matches(self, pattern: re.Pattern[bytes], start: int, end: int) -> Iterator[re.Match[bytes]]:
        """All matches of a small pattern in [start, end)."""
        return pattern.finditer(self.body, start, end)

    def match_any_case(self, pattern: re.Pattern[bytes], start: int, max_bytes: int) -> re.Match[bytes] | None:
        """The same of a pattern in lowercase."""
        return pattern.match(self.lowered, start, start + max_bytes)

    def before(self, at: int, max_bytes: int) -> bytes:
        """The lowercase bytes before a position."""
        return self.lowered[max(at - max_bytes, 0) : at]


BASE64 = run_pattern(rb"A-Za-z0-9/+")
BASE64_URL = run_pattern(rb"A-Za-z0-9_-")

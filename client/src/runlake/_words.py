"""The automaton that finds words: of ``ahocorasick_rs`` where it is installed, otherwise a search for each word."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

try:
    from ahocorasick_rs import BytesAhoCorasick, Implementation

    HAS_AUTOMATON = True
except ImportError:
    HAS_AUTOMATON = False

    class Implementation(Enum):  # type: ignore[no-redef]
        """Of no effect here."""

        DFA = "dfa"
        ContiguousNFA = "contiguous nfa"

    class BytesAhoCorasick:  # type: ignore[no-redef]
        """The part of ``ahocorasick_rs`` that masking uses. Time: one ``find`` for each word."""

        def __init__(self, patterns: Sequence[bytes], implementation: Implementation | None = None) -> None:
            self._words = [*patterns]

        def find_matches_as_indexes(self, haystack: bytes, overlapping: bool = False) -> list[tuple[int, int, int]]:
            """(number of a word, start, end) of all occurrences, ordered by end."""
            found = []
            for number, word in enumerate(self._words):
                at = haystack.find(word)
                while at >= 0:
                    found.append((number, at, at + len(word)))
                    at = haystack.find(word, at + 1)
            return sorted(found, key=lambda each: each[2])


__all__ = ["HAS_AUTOMATON", "BytesAhoCorasick", "Implementation"]

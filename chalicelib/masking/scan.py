"""One pass over a batch for the words of all shapes (Aho-Corasick); only at a word does a finder read on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from chalicelib.masking.text import Automaton, Span, Text

Find = Callable[[Text, int, int, list[Span]], int]
"""``find(text, at, reached, spans)`` appends the secrets that belong to the word at ``at``, and returns where the search of its words goes on:
words before that position are skipped. ``reached``: what the call before returned. Reads each byte a bounded number of times, for any input."""

WINDOW_BYTES = 1 << 16
"""Searched at once; the words of one window are in memory."""
REACH_BACK_BYTES = 256
"""A secret begins at most this far before its word, or within the first window."""


class Anchor(NamedTuple):
    """Words in lowercase, found in any case, and what to do at each of them. ``name``: of the marker. ``order``: among findings that begin
    at the same byte, the lowest gives the name."""

    name: str
    order: int
    words: tuple[bytes, ...]
    find: Find


class Scan:
    """Finds the secrets of some anchors: (start, order, end), sorted. The cost depends on the text, hardly on the number of words."""

    def __init__(self, anchors: Iterable[Anchor]) -> None:
        actions: dict[bytes, list[tuple[int, int, Find]]] = {}
        slots = 0
        for slot, anchor in enumerate(anchors):
            slots = slot + 1
            for word in anchor.words:
                actions.setdefault(word, []).append((slot, anchor.order, anchor.find))
        self._actions, self._slots = [*actions.values()], slots
        self._automaton = words_automaton([*actions]) if actions else None
        self._longest = max(map(len, actions), default=1)

    def __call__(self, text: Text) -> Iterator[tuple[int, int, int]]:
        """Memory is bounded by what one window holds."""
        if self._automaton is None:
            return
        reached, matches = [0] * self._slots, list[tuple[int, int, int]]()
        for start in range(0, len(text), WINDOW_BYTES):
            end = start + WINDOW_BYTES
            self._search(text, self._automaton, start, end, reached, matches)
            if end < len(text):
                matches.sort()
                complete = [each for each in matches if each[0] < end - REACH_BACK_BYTES]
                yield from complete
                del matches[: len(complete)]
        matches.sort()
        yield from matches

    def _search(
        self, text: Text, automaton: Automaton, start: int, end: int, reached: list[int], matches: list[tuple[int, int, int]]
    ) -> None:
        actions, spans, size = self._actions, list[Span](), end - start
        for number, place, _ in text.words(automaton, start, end + self._longest - 1):
            if place >= size:
                continue  # of the next window
            first = start + place
            for slot, order, find in actions[number]:
                if first < reached[slot]:
                    continue
                reached[slot] = find(text, first, reached[slot], spans)
                while spans:
                    begin, stop = spans.pop()
                    matches.append((begin, order, stop))


def words_automaton(words: Sequence[bytes]) -> Automaton:
    """A table with a row for each state: its time does not depend on the words."""
    from ahocorasick_rs import BytesAhoCorasick, Implementation

    return BytesAhoCorasick(words, implementation=Implementation.DFA)

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
    """Words, in lowercase if they are found in any case, and what to do at each of them. ``name``: of the marker. ``order``: among findings
    that begin at the same byte, the lowest gives the name."""

    name: str
    order: int
    words: tuple[bytes, ...]
    find: Find
    any_case: bool = True


_Action = tuple[int, int, Find, bytes]
"""The number of an anchor, its order, what it does, and the word, if its case counts."""


class Deferred:
    """A finder that is made when its first word is met: some import modules with many expressions."""

    def __init__(self, make: Callable[[], Find]) -> None:
        self.make = make

    def __call__(self, text: Text, at: int, reached: int, spans: list[Span]) -> int:
        """Makes the finder for this call."""
        return self.make()(text, at, reached, spans)


class Scan:
    """Finds the secrets of some anchors: (start, order, end), sorted. The cost depends on the text, hardly on the number of words."""

    def __init__(self, anchors: Iterable[Anchor]) -> None:
        actions: dict[bytes, list[_Action]] = {}
        slots = 0
        for slot, anchor in enumerate(anchors):
            slots = slot + 1
            for word in anchor.words:
                actions.setdefault(word.lower(), []).append((slot, anchor.order, anchor.find, b"" if anchor.any_case else word))
        self._actions, self._slots = [*actions.values()], slots
        self._ready: list[list[_Action] | None] = [None] * len(actions)
        """The actions of each word without deferred finders, from the first time that the word is met."""
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
        ready, body, spans, size = self._ready, text.body, list[Span](), end - start
        for number, place, _ in text.words(automaton, start, end + self._longest - 1):
            if place >= size:
                continue  # of the next window
            first = start + place
            for slot, order, find, word in ready[number] or self._prepare(number):
                if first < reached[slot] or (word and not body.startswith(word, first)):
                    continue
                reached[slot] = find(text, first, reached[slot], spans)
                while spans:
                    begin, stop = spans.pop()
                    matches.append((begin, order, stop))

    def _prepare(self, number: int) -> list[_Action]:
        actions = self._ready[number] = [
            (slot, order, find.make() if isinstance(find, Deferred) else find, word)
            for slot, order, find, word in self._actions[number]
        ]
        return actions


def words_automaton(words: Sequence[bytes]) -> Automaton:
    """A table with a row for each state: its time does not depend on the words."""
    from ahocorasick_rs import BytesAhoCorasick, Implementation

    return BytesAhoCorasick(words, implementation=Implementation.DFA)

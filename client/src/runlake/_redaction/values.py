# Copied from chalicelib/masking/values.py by docs.generate.
"""Finder of configured values: all forms of all values in one pass over the text (Aho-Corasick), and one over each of its readings
without escapes.

Matches may overlap, and all of them are masked, so no part of a value stays. A form that shorter forms cover wherever it occurs is not
searched for. The remaining forms have at most 2 (1 + log2 of the longest form) matches per byte, for any number of values: the longest
shorter form at the start of a match and the longest at its end do not touch, or they would cover it, so one of them is less than half as
long. Therefore the cost depends on the text alone.
"""

from __future__ import annotations

import heapq
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import NamedTuple

from runlake._redaction.base64_forms import with_adjacent
from runlake._redaction.encodings import encoded_forms
from runlake._redaction.escapes import Reading, readings
from runlake._redaction.replacements import united
from runlake._redaction.text import Automaton, Span, Text, occurrences

WINDOW_BYTES = 1 << 16
"""Searched at once; the matches of one window are in memory."""
_LARGE_BYTES = 1 << 15
_LAST_BACKSLASHES = re.compile(rb"(?:\\\\|\\(?![\"'])|%(?:25)*5[cC]|&(?:amp;)*(?:#92|#[xX]5[cC]|bsol);)*+")
"""At the end of a value. The last of an odd number before a quote belongs to the quote."""
_Find = Callable[[Automaton, int, int], list[tuple[int, int, int]]]


class _Adjacent(NamedTuple):
    """Number of adjacent base64 characters that are masked with a form."""

    before: int
    after: int


_ALONE = _Adjacent(0, 0)


class ValueFinder:
    """Finds configured values. ``markers``: replacements of secrets that are masked already; text within one is not a value.

    Built once for many batches: building takes time and memory linear in the length of the values. Holds the values in memory.
    """

    anchor = b""

    def __init__(self, values: Iterable[bytes], markers: Sequence[bytes] = ()) -> None:
        values = list(values)
        self._has_outer_backslash = any(b"\\" in (value[:1], value[-1:]) for value in values)
        """A reading has no backslashes, and its places none at the end."""
        adjacent = _uncovered({form for value in values for form in encoded_forms(value)})
        self._adjacent = list(adjacent.values())
        self._automaton = _automaton([*adjacent, *markers]) if adjacent else None
        self._longest = max(map(len, adjacent), default=0)
        self._longest_marker = max(map(len, markers), default=1)

    def __call__(self, text: Text) -> Iterator[Span]:
        """Spans in order, which may overlap."""
        if self._automaton is None:
            return iter(())
        plain = self._spans(text.body, text.occurrences)
        others = readings(text.body)
        if not others:
            return plain
        return heapq.merge(plain, *(self._escaped(text.body, each) for each in others))

    def _escaped(self, body: bytes, reading: Reading) -> Iterator[Span]:
        """Spans in order that a reading has and the text has not."""
        found = self._spans(reading.body, partial(occurrences, reading.body))
        for first, last, has_escapes in reading.in_source(found):
            if self._has_outer_backslash:
                end = _LAST_BACKSLASHES.match(body, last)
                yield first, end.end() if end else last
            elif has_escapes:
                yield first, last

    def _spans(self, body: bytes, find: _Find) -> Iterator[Span]:
        """Spans in order; those of one window do not overlap."""
        assert self._automaton
        for start in range(0, len(body), WINDOW_BYTES):
            yield from self._in_window(body, find, self._automaton, start, min(start + WINDOW_BYTES, len(body)))

    def _in_window(self, body: bytes, find: _Find, automaton: Automaton, start: int, end: int) -> list[Span]:
        """Spans that begin in [start, end), overlapping ones united. A marker may begin earlier."""
        reach = max(self._longest, self._longest_marker) - 1
        adjacent, count = self._adjacent, len(self._adjacent)
        spans: list[Span] = []
        masked: list[Span] = []
        for number, first, last in find(automaton, max(start - reach, 0), end + reach):
            if number >= count:
                masked.append((first, last))
            elif start <= first < end:
                if adjacent[number] != _ALONE:
                    first, last = with_adjacent(body, first, last, *adjacent[number])
                spans.append((first, last))
        if masked:
            spans = [each for span in spans if (each := _beyond(span, masked))]
        return united(spans)


def _beyond(span: Span, masked: Sequence[Span]) -> Span | None:
    """None if the span lies within a marker; a span that overlaps a marker is extended to include it. Markers are sorted."""
    first, last = span
    for start, end in masked[max(bisect_right(masked, (first, first)) - 2, 0) :]:
        if start >= last:
            break
        if end <= first:
            continue
        if start <= first and last <= end:
            return None
        first, last = min(first, start), max(last, end)
    return first, last


def _uncovered(every: Iterable[tuple[bytes, int, int]]) -> dict[bytes, _Adjacent]:
    """The forms that shorter forms do not cover. They take over the adjacent characters of the forms that they cover."""
    selected: dict[bytes, _Adjacent] = {}
    merged: dict[bytes, _Adjacent] = {}
    for text, before, after in every:
        known = merged.get(text, _Adjacent(0, 0))
        merged[text] = _Adjacent(max(known.before, before), max(known.after, after))
    by_length = sorted(merged, key=lambda text: (len(text), text))
    for _, some in groupby(by_length, key=lambda text: len(text).bit_length()):
        _select([(text, merged[text]) for text in some], selected)
    return selected


def _select(some: Sequence[tuple[bytes, _Adjacent]], selected: dict[bytes, _Adjacent]) -> None:
    """Adds the uncovered of ``some`` to ``selected``. The forms have similar lengths, shortest first; each is compared with the much
    shorter ones, then with the rest of ``some``."""
    left = some
    if selected:
        names = list(selected)
        shorter = _automaton(names)
        left = [each for each in some if not _is_covered(each, names, shorter, selected)]
    names = [*selected, *(text for text, _ in left)]
    among = _automaton(names)
    for text, adjacent in left:
        if not _is_covered((text, adjacent), names, among, selected):
            selected[text] = adjacent


def _is_covered(
    form: tuple[bytes, _Adjacent], names: Sequence[bytes], automaton: Automaton, selected: dict[bytes, _Adjacent]
) -> bool:
    """Whether selected forms cover this form; if so, those at its ends take over its adjacent characters."""
    text, adjacent = form
    matches = [(first, last, names[number]) for number, first, last in automaton.find_matches_as_indexes(text, overlapping=True)]
    matches = [each for each in matches if each[2] in selected]
    reach = 0
    for first, last, _ in sorted(matches):
        if first > reach:
            return False
        reach = max(reach, last)
    if reach < len(text):
        return False
    for first, last, name in matches:
        mine = selected[name]
        before, after = adjacent.before if first == 0 else 0, adjacent.after if last == len(text) else 0
        selected[name] = _Adjacent(max(mine.before, before), max(mine.after, after))
    return True


def _automaton(words: Sequence[bytes]) -> Automaton:
    """Imported on first use: rules without values do not load the package. Long values are in the form that takes least memory."""
    from runlake._words import BytesAhoCorasick, Implementation

    return BytesAhoCorasick(words, implementation=Implementation.ContiguousNFA if sum(map(len, words)) > _LARGE_BYTES else None)

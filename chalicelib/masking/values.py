"""Finder of configured values: all forms of all values in one pass over the text (Aho-Corasick).

Matches may overlap, and all of them are masked, so no part of a value stays. A form that shorter forms cover wherever it occurs is not
searched for. The remaining forms have at most 2 (1 + log2 of the longest form) matches per byte, for any number of values: the longest
shorter form at the start of a match and the longest at its end do not touch, or they would cover it, so one of them is less than half as
long. Therefore the cost depends on the text alone.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from chalicelib.masking.encodings import encoded_forms
from chalicelib.masking.text import Automaton, Span, Text

WINDOW_BYTES = 1 << 16
"""Searched at once; the matches of one window are in memory."""
_BASE64 = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_")
_MOST_PADDING = 2


class _Adjacent(NamedTuple):
    """Number of adjacent base64 characters that are masked with a form."""

    before: int
    after: int


class ValueFinder:
    """Finds configured values. ``markers``: replacements of secrets that are masked already; text within one is not a value.

    Built once for many batches: building takes time and memory linear in the length of the values. Holds the values in memory.
    """

    anchor = b""

    def __init__(self, values: Iterable[bytes], markers: Sequence[bytes] = ()) -> None:
        adjacent = _uncovered({form for value in values for form in encoded_forms(value)})
        self._adjacent = list(adjacent.values())
        self._automaton = _automaton([*adjacent, *markers]) if adjacent else None
        self._longest = max(map(len, adjacent), default=0)
        self._longest_marker = max(map(len, markers), default=1)

    def __call__(self, text: Text) -> Iterator[Span]:
        """Spans in order; those of one window do not overlap."""
        if self._automaton is None:
            return
        for start in range(0, len(text), WINDOW_BYTES):
            yield from _united(self._in_window(text, self._automaton, start, min(start + WINDOW_BYTES, len(text))))

    def _in_window(self, text: Text, automaton: Automaton, start: int, end: int) -> list[Span]:
        """Spans that begin in [start, end). A marker may begin earlier."""
        reach = max(self._longest, self._longest_marker) - 1
        matches = text.occurrences(automaton, max(start - reach, 0), end + reach)
        masked = [(first, last) for number, first, last in matches if number >= len(self._adjacent)]
        spans = [
            self._with_adjacent(text, number, first, last)
            for number, first, last in matches
            if number < len(self._adjacent) and start <= first < end
        ]
        return [each for span in spans if (each := _beyond(span, masked))] if masked else spans

    def _with_adjacent(self, text: Text, number: int, first: int, last: int) -> Span:
        """Extends a match by base64 characters that it shares with adjacent text, and by the padding."""
        before, after = self._adjacent[number]
        body = text.body
        if before and first and body[first - 1] in _BASE64:
            first -= 1
        if after and last < len(body) and body[last] in _BASE64:
            last += 1
            padding = body[last : last + _MOST_PADDING]
            last += len(padding) - len(padding.lstrip(b"="))
        return first, last


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


def _united(spans: list[Span]) -> Iterator[Span]:
    """Merges overlapping spans."""
    spans.sort()
    last: Span | None = None
    for first, end in spans:
        if last and first < last[1]:
            last = last[0], max(last[1], end)
            continue
        if last:
            yield last
        last = first, end
    if last:
        yield last


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
    """Imported on first use: rules without values do not load the package."""
    from ahocorasick_rs import BytesAhoCorasick

    return BytesAhoCorasick(words)

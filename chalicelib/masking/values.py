"""Values that are known: all of them, in all their forms, found in one pass over the text (Aho-Corasick).

Finds may overlap, and each is masked whole: nothing of any value stays. A form that shorter forms cover wherever it occurs is not searched
for. The others are found at most 2 (1 + log2 of the longest form) times a byte, however many values there are: the longest shorter form at a
find's beginning and the longest at its end do not touch, or they would cover it, so one of them is less than half as long. So the cost grows
with the text alone.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from chalicelib.masking.forms import forms
from chalicelib.masking.text import Automaton, Span, Text

WINDOW_BYTES = 1 << 16
"""What is searched at once: what is found in a window is in memory."""
_BASE64 = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_")
_MOST_PADDING = 2


class _Beside(NamedTuple):
    """Letters of base64 that are masked beside a form."""

    before: int
    behind: int


class Values:
    """A finder of values. ``markers``: what stands in place of secrets that were masked before; nothing within one is a value.

    Made once for many batches: time and memory of making it grow with the values' length. Holds the values.
    """

    anchor = b""

    def __init__(self, values: Iterable[bytes], markers: Sequence[bytes] = ()) -> None:
        beside = _uncovered({form for value in values for form in forms(value)})
        self._beside = list(beside.values())
        self._automaton = _automaton([*beside, *markers]) if beside else None
        self._longest = max(map(len, beside), default=0)
        self._longest_marker = max(map(len, markers), default=1)

    def __call__(self, text: Text) -> Iterator[Span]:
        """Where they stand, in order; none overlaps another of its window."""
        if self._automaton is None:
            return
        for start in range(0, len(text), WINDOW_BYTES):
            yield from _united(self._in_window(text, self._automaton, start, min(start + WINDOW_BYTES, len(text))))

    def _in_window(self, text: Text, automaton: Automaton, start: int, end: int) -> list[Span]:
        """Of those that begin in [start, end). A marker may begin before it."""
        reach = max(self._longest, self._longest_marker) - 1
        found = text.occurrences(automaton, max(start - reach, 0), end + reach)
        masked = [(first, last) for number, first, last in found if number >= len(self._beside)]
        spans = [
            self._whole(text, number, first, last)
            for number, first, last in found
            if number < len(self._beside) and start <= first < end
        ]
        return [each for span in spans if (each := _beyond(span, masked))] if masked else spans

    def _whole(self, text: Text, number: int, first: int, last: int) -> Span:
        """What was found, with the letters of base64 that it shares with what stands beside it, and the padding."""
        before, behind = self._beside[number]
        body = text.body
        if before and first and body[first - 1] in _BASE64:
            first -= 1
        if behind and last < len(body) and body[last] in _BASE64:
            last += 1
            padding = body[last : last + _MOST_PADDING]
            last += len(padding) - len(padding.lstrip(b"="))
        return first, last


def _beyond(span: Span, masked: Sequence[Span]) -> Span | None:
    """Nothing of what lies within a marker; what lies across one takes it whole. Markers come in order."""
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
    """Spans that overlap are one."""
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


def _uncovered(every: Iterable[tuple[bytes, int, int]]) -> dict[bytes, _Beside]:
    """The forms that shorter ones do not cover, which take over what is masked beside those that they cover."""
    kept: dict[bytes, _Beside] = {}
    wanted: dict[bytes, _Beside] = {}
    for text, before, behind in every:
        known = wanted.get(text, _Beside(0, 0))
        wanted[text] = _Beside(max(known.before, before), max(known.behind, behind))
    by_length = sorted(wanted, key=lambda text: (len(text), text))
    for _, some in groupby(by_length, key=lambda text: len(text).bit_length()):
        _keep([(text, wanted[text]) for text in some], kept)
    return kept


def _keep(some: Sequence[tuple[bytes, _Beside]], kept: dict[bytes, _Beside]) -> None:
    """Forms of about one length, shortest first: first compared with all that are shorter by far, then with one another."""
    left = some
    if kept:
        names = list(kept)
        shorter = _automaton(names)
        left = [each for each in some if not _cover(each, names, shorter, kept)]
    names = [*kept, *(text for text, _ in left)]
    among = _automaton(names)
    for text, beside in left:
        if not _cover((text, beside), names, among, kept):
            kept[text] = beside


def _cover(form: tuple[bytes, _Beside], names: Sequence[bytes], automaton: Automaton, kept: dict[bytes, _Beside]) -> bool:
    """Whether forms that are kept cover this one; if so those at its ends are given what is masked beside it."""
    text, beside = form
    found = [(first, last, names[number]) for number, first, last in automaton.find_matches_as_indexes(text, overlapping=True)]
    found = [each for each in found if each[2] in kept]
    reach = 0
    for first, last, _ in sorted(found):
        if first > reach:
            return False
        reach = max(reach, last)
    if reach < len(text):
        return False
    for first, last, name in found:
        mine = kept[name]
        before, behind = beside.before if first == 0 else 0, beside.behind if last == len(text) else 0
        kept[name] = _Beside(max(mine.before, before), max(mine.behind, behind))
    return True


def _automaton(words: Sequence[bytes]) -> Automaton:
    """Imported here: only who masks values pays for it."""
    from ahocorasick_rs import BytesAhoCorasick

    return BytesAhoCorasick(words)

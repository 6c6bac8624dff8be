"""Which format a run's log has, from a sample of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby, islice

from chalicelib.lines.clock import Clock
from chalicelib.lines.formats import FORMATS, PLAIN, Format
from chalicelib.lines.text import INDENTATION, text_of

SAMPLE_LINES = 1000
"""So many of a sample's first lines are looked at."""
_NEARLY = 0.75
_UNSURE_SHARE = 0.25


def choose(sample: Iterable[bytes]) -> Format:
    """The format that knows most lines of a sample; PLAIN if none knows any. The same lines give the same format.

    Of several that know nearly as many (three quarters) the first of FORMATS is taken. One that says little of a line must know a
    multiple (``odds``) of what better ones know, an unsure one a quarter of all lines. Indented lines don't count. Looks at 1,000
    lines at most.
    """
    texts = [text_of(raw) for raw in islice(sample, SAMPLE_LINES) if raw[:1] not in INDENTATION]
    known = _known(texts)
    eligible = {each: count for each, count in known.items() if count and (each.sure or count >= _UNSURE_SHARE * len(texts))}
    chosen, most = PLAIN, 0
    for odds, group in groupby(sorted(eligible, key=lambda each: each.odds), key=lambda each: each.odds):
        contest = list(group)
        best = max(eligible[each] for each in contest)
        if best > odds * most or not most:
            chosen = next(each for each in contest if eligible[each] >= _NEARLY * best)
        most = max(most, best)
    return chosen


def _known(texts: Sequence[str]) -> Mapping[Format, int]:
    """How many of the texts each format knows, in the order of FORMATS."""
    by_first: dict[str, list[str]] = {}
    for text in texts:
        by_first.setdefault(text[:1], []).append(text)
    clock = Clock()
    counts: dict[Format, int] = {}
    for each in FORMATS:
        parse = each.bind(clock)
        fitting = (text for first in each.sign.first for text in by_first.get(first, ())) if each.sign.first else texts
        counts[each] = sum(parse(text) is not None for text in fitting)
    return counts

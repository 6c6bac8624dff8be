"""Detects the format of a run's log from a sample of its lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import groupby, islice

from chalicelib.lines.formats import FORMATS, PLAIN, LinePrefix, LogFormat
from chalicelib.lines.text import INDENTATION, decode_line
from chalicelib.lines.timestamps import TimestampParser

SAMPLE_LINES = 1000
"""Only this many first lines of a sample are parsed."""
_NEARLY = 0.75
_UNSURE_SHARE = 0.25


def detect_format(sample: Iterable[bytes]) -> LogFormat:
    """The format that parses most lines of a sample; PLAIN if none parses any. Deterministic: the same lines give the same format.

    Of formats that parse nearly as many lines (three quarters), the first of FORMATS is chosen. A format that extracts fewer columns must
    parse ``odds`` times as many lines as those that extract more; an ambiguous one must parse a quarter of all lines. Indented lines do
    not count. Reads at most 1,000 lines.
    """
    texts = [decode_line(raw) for raw in islice(sample, SAMPLE_LINES) if raw[:1] not in INDENTATION]
    known = count_parsed(texts)
    eligible = {each: count for each, count in known.items() if count and (each.unambiguous or count >= _UNSURE_SHARE * len(texts))}
    chosen, most = PLAIN, 0
    for odds, group in groupby(sorted(eligible, key=lambda each: each.odds), key=lambda each: each.odds):
        contest = list(group)
        best = max(eligible[each] for each in contest)
        if best > odds * most or not most:
            chosen = next(each for each in contest if eligible[each] >= _NEARLY * best)
        most = max(most, best)
    return chosen


def count_parsed(texts: Sequence[str]) -> Mapping[LogFormat, int]:
    """The number of texts that each format parses, in the order of FORMATS."""
    by_first: dict[str, list[str]] = {}
    for text in texts:
        by_first.setdefault(text[:1], []).append(text)

    @cache
    def fitting(prefix: LinePrefix) -> Mapping[str | None, Sequence[str]]:
        """The texts that a prefix without its ``then`` permits, by the character that ``then`` is about."""
        begun = [text for first in prefix.first for text in by_first.get(first, ())] if prefix.first else texts
        if not prefix.look:
            return {None: begun}
        look = re.compile(prefix.look, re.ASCII)
        by_next: dict[str | None, list[str]] = {}
        for text in begun:
            if (seen := look.match(text)) is not None:
                by_next.setdefault(seen["next"] if "next" in look.groupindex else None, []).append(text)
        return by_next

    time_parser = TimestampParser()
    counts: dict[LogFormat, int] = {}
    for each in FORMATS:
        parse, then = each.bind(time_parser), each.prefix.then
        by_next = fitting(replace(each.prefix, then="")).items()
        counts[each] = sum(
            parse(text) is not None for next_, begun in by_next if not then or (next_ and next_ in then) for text in begun
        )
    return counts

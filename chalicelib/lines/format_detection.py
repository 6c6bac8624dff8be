"""Detects the format of a run's log from a sample of its lines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby, islice

from chalicelib.lines.formats import FORMATS, PLAIN, LogFormat
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
    known = _known(texts)
    eligible = {each: count for each, count in known.items() if count and (each.unambiguous or count >= _UNSURE_SHARE * len(texts))}
    chosen, most = PLAIN, 0
    for odds, group in groupby(sorted(eligible, key=lambda each: each.odds), key=lambda each: each.odds):
        contest = list(group)
        best = max(eligible[each] for each in contest)
        if best > odds * most or not most:
            chosen = next(each for each in contest if eligible[each] >= _NEARLY * best)
        most = max(most, best)
    return chosen


def _known(texts: Sequence[str]) -> Mapping[LogFormat, int]:
    """The number of texts that each format parses, in the order of FORMATS, up to one that is certainly chosen."""
    by_first: dict[str, list[str]] = {}
    for text in texts:
        by_first.setdefault(text[:1], []).append(text)
    time_parser = TimestampParser()
    counts: dict[LogFormat, int] = {}
    for each in FORMATS:
        parse = each.bind(time_parser)
        fitting = (text for first in each.prefix.first for text in by_first.get(first, ())) if each.prefix.first else texts
        counts[each] = sum(parse(text) is not None for text in fitting)
        if _is_certain(each, counts, len(texts)):
            break
    return counts


def _is_certain(last: LogFormat, counts: Mapping[LogFormat, int], texts: int) -> bool:
    """Whether ``last`` is chosen whatever the formats behind it parse: nearly all texts are its own, and no format before it parses nearly as
    many. Those with greater odds would need more texts than there are."""
    count = counts[last]
    others = (other for each, other in counts.items() if each.odds == 1 and each is not last)
    return last.odds == 1 and 0 < _NEARLY * texts <= count and all(other < _NEARLY * count for other in others)

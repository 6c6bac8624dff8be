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


class FormatSample:
    """The first lines of a log, as counts only: it can grow with the log, in a few hundred bytes. ``lines``: all lines that were added."""

    __slots__ = ("_counts", "_texts", "lines")

    def __init__(self) -> None:
        self.lines = self._texts = 0
        self._counts: dict[LogFormat, int] = {}

    def add(self, lines: Iterable[bytes]) -> None:
        """Add the next lines of the log."""
        texts = []
        for raw in lines:
            self.lines += 1
            if raw[:1] not in INDENTATION:
                texts.append(decode_line(raw))
        self._texts += len(texts)
        for each, count in _known(texts).items():
            if count:
                self._counts[each] = self._counts.get(each, 0) + count

    def format(self) -> LogFormat:
        """See ``detect_format``."""
        known = {each: self._counts[each] for each in FORMATS if each in self._counts}
        eligible = {each: count for each, count in known.items() if each.unambiguous or count >= _UNSURE_SHARE * self._texts}
        chosen, most = PLAIN, 0
        for odds, group in groupby(sorted(eligible, key=lambda each: each.odds), key=lambda each: each.odds):
            contest = list(group)
            best = max(eligible[each] for each in contest)
            if best > odds * most or not most:
                chosen = next(each for each in contest if eligible[each] >= _NEARLY * best)
            most = max(most, best)
        return chosen


def detect_format(sample: Iterable[bytes]) -> LogFormat:
    """The format that parses most lines of a sample; PLAIN if none parses any. Deterministic: the same lines give the same format.

    Of formats that parse nearly as many lines (three quarters), the first of FORMATS is chosen. A format that extracts fewer columns must
    parse ``odds`` times as many lines as those that extract more; an ambiguous one must parse a quarter of all lines. Indented lines do
    not count. Reads at most 1,000 lines.
    """
    first = FormatSample()
    first.add(islice(sample, SAMPLE_LINES))
    return first.format()


def _known(texts: Sequence[str]) -> Mapping[LogFormat, int]:
    """The number of texts that each format parses, in the order of FORMATS."""
    by_first: dict[str, list[str]] = {}
    for text in texts:
        by_first.setdefault(text[:1], []).append(text)
    time_parser = TimestampParser()
    counts: dict[LogFormat, int] = {}
    for each in FORMATS:
        parse = each.bind(time_parser)
        fitting = (text for first in each.prefix.first for text in by_first.get(first, ())) if each.prefix.first else texts
        counts[each] = sum(parse(text) is not None for text in fitting)
    return counts

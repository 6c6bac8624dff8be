"""Detects the format of a run's log from a sample of its lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import groupby, islice

from chalicelib.lines.formats import FORMATS, PLAIN, LogFormat
from chalicelib.lines.text import INDENTATION, decode_line
from chalicelib.lines.timestamps import ReadTimestamp, TimestampFormat, TimestampParser, rewritten

SAMPLE_LINES = 1000
"""Only this many first lines of a sample are parsed."""
_NEARLY = 0.75
_UNSURE_SHARE = 0.25
_BY_ODDS = sorted(FORMATS, key=lambda each: each.odds)
"""The formats with the least ``odds`` first, then in the order of FORMATS."""
_TIMED = frozenset(each for each in FORMATS if each.layout is None or each.layout.stamp is not None)
"""The formats with a time."""


class _UntimedParser(TimestampParser):
    """Skips the times of layouts, which are most of the work: whether a line matches does not depend on them."""

    def reader(self, stamp: TimestampFormat) -> ReadTimestamp:
        return lambda second, fraction, zone: None


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
        for each, count in parsed_counts(texts).items():
            self._counts[each] = self._counts.get(each, 0) + count

    def format(self) -> LogFormat:
        """See ``detect_format``."""
        return _chosen({each: self._counts[each] for each in _BY_ODDS if each in self._counts}, self._texts)


def detect_format(sample: Iterable[bytes]) -> LogFormat:
    """The format that parses most lines of a sample; PLAIN if none parses any. Deterministic: the same lines give the same format.

    Of formats that parse nearly as many lines (three quarters), the first of FORMATS is chosen. A format that extracts fewer columns must
    parse ``odds`` times as many lines as those that extract more; an ambiguous one must parse a quarter of all lines. Indented lines do
    not count. Reads at most 1,000 lines.
    """
    texts = [decode_line(raw) for raw in islice(sample, SAMPLE_LINES) if raw[:1] not in INDENTATION]
    known: dict[LogFormat, Sequence[str]] = {}
    for each, parsed in _parsed(texts):
        count, left = len(parsed), len(texts) - (len(parsed) if each in _TIMED else 0)
        if (
            each.odds == 1
            and 0 < _NEARLY * len(texts) <= count
            and all(len(other) + left < _NEARLY * count for other in known.values())
        ):
            return each  # no other format can parse so many lines that it would be chosen, with those in other notations
        known[each] = parsed
    return _chosen(_counts(texts, known), len(texts))


def _chosen(known: Mapping[LogFormat, int], texts: int) -> LogFormat:
    """The format that is chosen by the number of texts that each parses, of so many."""
    eligible = {each: count for each, count in known.items() if each.unambiguous or count >= _UNSURE_SHARE * texts}
    chosen, most = PLAIN, 0
    for odds, group in groupby(eligible, key=lambda each: each.odds):
        contest = list(group)
        best = max(eligible[each] for each in contest)
        if best > odds * most or not most:
            chosen = next(each for each in contest if eligible[each] >= _NEARLY * best)
        most = max(most, best)
    return chosen


def parsed_counts(texts: Sequence[str]) -> Mapping[LogFormat, int]:
    """The number of texts that each format parses: formats with the least ``odds`` first, then in the order of FORMATS; without those that
    parse none. Texts that no format with a time parses count for those that parse them with their time in ISO's notation."""
    return _counts(texts, dict(_parsed(texts)))


def _counts(texts: Sequence[str], parsed: Mapping[LogFormat, Sequence[str]]) -> Mapping[LogFormat, int]:
    timed = frozenset(text for each in _TIMED for text in parsed[each])
    others = [other for text in texts if text not in timed and (other := rewritten(text)) is not None]
    counts = {each: len(own) for each, own in parsed.items()}
    for each, again in _parsed(others) if others else ():
        counts[each] += len(again) if each in _TIMED else 0
    return {each: count for each, count in counts.items() if count}


def _parsed(texts: Sequence[str]) -> Iterator[tuple[LogFormat, Sequence[str]]]:
    """The texts that each format parses as they are, in the order of ``_BY_ODDS``."""
    by_first: dict[str, list[str]] = {}
    for text in texts:
        by_first.setdefault(text[:1], []).append(text)

    @cache
    def fitting(first: str, look: str) -> Mapping[str | None, Sequence[str]]:
        """The texts that a prefix permits, by the character that its ``then`` is about."""
        begun = [text for character in first for text in by_first.get(character, ())] if first else texts
        if not look or not begun:
            return {None: begun}
        pattern = re.compile(look, re.ASCII)
        by_next: dict[str | None, list[str]] = {}
        for text in begun:
            if (seen := pattern.match(text)) is not None:
                by_next.setdefault(seen["next"] if "next" in pattern.groupindex else None, []).append(text)
        return by_next

    time_parser = _UntimedParser()
    for each in _BY_ODDS:
        then, by_next = each.prefix.then, fitting(each.prefix.first, each.prefix.look)
        fit = [text for next_, begun in by_next.items() if not then or (next_ and next_ in then) for text in begun]
        parse = each.bind(time_parser) if fit else None
        yield each, [text for text in fit if parse and parse(text) is not None]

"""Matches the texts that programs printed, within the records of a container's runtime.

Such a text has the columns of the first of all formats that parses it. A log's formats are detected in its blocks; a match counts if no format
that comes before can parse the text. Texts that begin like no line of a format have none. All others are left to the row parser.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chalicelib.lines.fields import LOGFMT_LOOK, parse_logfmt_with
from chalicelib.lines.format_detection import detect_format
from chalicelib.lines.formats import CONTAINER, FORMATS, NEXT, PLAIN, LogFormat, NoZone
from chalicelib.lines.layout import LineLayout
from chalicelib.lines.notations import BEGINS_TIME
from chalicelib.lines.timestamps import NO_ZONE, TimestampParser
from glue_jobs.columnar.blocks import Bools, Ints, LineBlock, bytes_among, spans
from glue_jobs.columnar.matching import (
    NO_LEVEL,
    NO_MATCHES,
    BoundMatcher,
    LineMatcher,
    LineMatches,
    joined_matches,
    taken,
    texts_from,
)
from glue_jobs.columnar.patterns import UntranslatableError, translated

PrintedTexts = Callable[[pa.StringArray], LineMatches]
"""The matching ones of some texts, by their places, with messages of their own. Those that state no time with a zone have none."""
_MAX_FORMATS, _NEW_FORMATS, _FEW_LINES, _SAMPLE_LINES = 8, 4, 8, 64
"""Formats that are kept for a log, that a block can add; texts that are too few to look for one, and that are looked at."""
_BY_PRECEDENCE = sorted(FORMATS, key=lambda each: not each.unambiguous)
_DIGITS, _CAPITALS = bytes_among(b"0123456789"), bytes_among(bytes(range(ord("A"), ord("Z") + 1)))
_BRACKET, _ORDER_MARK = ord("["), 0xEF


class _Sign(NamedTuple):
    """What every line of a format is like: the bytes with which it begins, and patterns, of which one matches."""

    first: Bools
    patterns: Sequence[str]


_REWRITTEN = _Sign(
    bytes_among("".join(BEGINS_TIME).encode()),
    (r"^[^\n]*[0-9][:.][0-9]{2}[:.][0-9]{2}", r"^[^\n]*[0-9]{6}[ T-][0-9]{6}", r"^\[?[0-9]{10}"),
)
"""Every text with a time in another notation (``chalicelib.lines.notations``), and many others."""
_CONTAINER = _Sign(_DIGITS, translated(CONTAINER).patterns)


@dataclass(frozen=True, slots=True)
class _Known:
    """A format of the log, and the signs of those that come before it."""

    format: LogFormat
    first: Bools
    matches: BoundMatcher
    rivals: Sequence[_Sign]


class PrintedMatcher:
    """Matches the lines of a runtime whose message is the text that a program printed."""

    def __init__(self, outer: LineMatcher, matcher_of: Callable[[LogFormat], LineMatcher | None]) -> None:
        self._outer, self._matcher_of = outer, matcher_of
        self.first = outer.first

    def bound(self, time_parser: TimestampParser) -> BoundMatcher:
        """See ``LineMatcher``."""
        return partial(self._matches, self._outer.bound(time_parser), printed_texts(self._matcher_of))

    def _matches(self, outer: BoundMatcher, printed: PrintedTexts, block: LineBlock, candidates: Ints) -> LineMatches:
        found = outer(block, candidates)
        return with_printed(found, spans(block.data, found.message, block.ends[found.lines]), printed)


def with_printed(outer: LineMatches, texts: pa.StringArray, printed: PrintedTexts) -> LineMatches:
    """Records of a runtime with the columns of their texts, which have the runtime's time if they state none."""
    found = printed(texts)
    outer = taken(outer, found.lines)
    found = replace(found, lines=outer.lines, us=np.where(found.has_time, found.us, outer.us), message=outer.message)
    return taken(replace(found, has_time=outer.has_time), np.flatnonzero(outer.has_time))


def printed_texts(matcher_of: Callable[[LogFormat], LineMatcher | None]) -> PrintedTexts:
    """The matcher for the texts of one log, which remembers its formats."""
    return partial(_matches, matcher_of, [])


def _matches(matcher_of: Callable[[LogFormat], LineMatcher | None], known: list[_Known], texts: pa.StringArray) -> LineMatches:
    if not len(texts):
        return NO_MATCHES
    block = LineBlock.of_texts(texts)
    left = np.arange(len(block))
    left = left[~_are_any(block, left, [_CONTAINER]) & (block.octets[block.starts] != _ORDER_MARK)]
    matched: list[LineMatches] = []
    for each in known:
        left = _by_format(each, block, left, matched)
    is_other = _are_any(block, left, _all_signs())
    matched.append(_plain(block, left[~is_other]))
    left = left[is_other]
    for _ in range(_NEW_FORMATS):
        if len(left) < _FEW_LINES or len(known) == _MAX_FORMATS:
            break
        format = detect_format(block.line(line) for line in left[:_SAMPLE_LINES].tolist())
        if format is PLAIN or any(each.format is format for each in known) or (matcher := matcher_of(format)) is None:
            break
        new = _Known(format, matcher.first, matcher.bound(TimestampParser(NoZone())), tuple(_rivals(format)))
        known.append(new)
        left = _by_format(new, block, left, matched)
    return joined_matches(matched)


def _by_format(known: _Known, block: LineBlock, lines: Ints, matched: list[LineMatches]) -> Ints:
    """Adds the columns of texts in a format to ``matched``; returns the texts that do not match it."""
    found = known.matches(block, lines[known.first[block.octets[block.starts[lines]]]])
    if not len(found.lines):
        return lines
    is_own = ~_are_any(block, found.lines, known.rivals)
    is_own[_may_have_other_time(known.format, block, found)] = False
    own = taken(found, np.flatnonzero(is_own))
    if own.messages is None:
        own = replace(own, messages=spans(block.data, own.message, block.ends[own.lines]))
    matched.append(own)
    others: Ints = np.setdiff1d(lines, found.lines, assume_unique=True)
    return others


def _may_have_other_time(format: LogFormat, block: LineBlock, matches: LineMatches) -> Ints:
    """The matches without a time that may have one in another notation behind their level."""
    at = block.starts[matches.lines]
    is_bracketed = (block.octets[at] == _BRACKET) & (format.layout is None or format.layout.stamp is None)
    untimed = np.flatnonzero(~matches.has_time & (matches.level != NO_LEVEL) & (is_bracketed | _CAPITALS[block.octets[at + 1]]))
    others: Ints = untimed[_are_any(block, matches.lines[untimed], [_REWRITTEN])]
    return others


def _plain(block: LineBlock, lines: Ints) -> LineMatches:
    count = len(lines)
    messages = spans(block.data, block.starts[lines], block.ends[lines])
    return LineMatches(
        *(lines, np.zeros(count, np.int64), np.zeros(count, np.bool_), np.full(count, NO_LEVEL, np.int8)),
        *(pa.nulls(count, pa.string()), block.starts[lines], messages),
    )


def _are_any(block: LineBlock, lines: Ints, signs: Sequence[_Sign]) -> Bools:
    """Whether lines have any of these signs."""
    first_bytes = block.octets[block.starts[lines]]
    are_any = np.zeros(len(lines), np.bool_)
    for first, patterns in signs:
        for pattern in patterns:
            if len(places := np.flatnonzero(first[first_bytes] & ~are_any)):
                texts = texts_from(block, lines[places], block.starts[lines[places]])
                are_any[places] = np.asarray(pc.match_substring_regex(texts, pattern))
    return are_any


@cache
def _all_signs() -> Sequence[_Sign]:
    """Of the lines of all formats."""
    firsts: dict[str, str] = {}
    for each in FORMATS:
        look = _look(each) if each.prefix.first or each.layout is None else each.layout.pattern.replace(NO_ZONE, "")
        firsts[look] = firsts.get(look, "") + each.prefix.first
    return (_REWRITTEN, *(_Sign(_table(first), translated(look).patterns) for look, first in firsts.items()))


def _rivals(format: LogFormat) -> Iterator[_Sign]:
    """The signs of the formats that come before this one, and of texts that are rewritten before an ambiguous one."""
    own = format.prefix
    for each in _BY_PRECEDENCE[: _BY_PRECEDENCE.index(format)]:
        its = each.prefix
        is_other = own.first and its.first and set(own.first).isdisjoint(its.first)
        if not is_other and not (own.look == its.look and own.then and its.then and set(own.then).isdisjoint(its.then)):
            yield _Sign(_table(its.first), tuple(_patterns_of(each)))
    if not format.unambiguous:
        yield _REWRITTEN


def _patterns_of(format: LogFormat) -> Sequence[str]:
    with suppress(UntranslatableError):
        return tuple(text for each in _layouts_of(format) for text in translated(each.pattern.replace(NO_ZONE, "")).patterns)
    look, then = _look(format), format.prefix.then
    return translated(look.replace(NEXT, f"[{re.escape(then)}]") if then else look).patterns


def _look(format: LogFormat) -> str:
    return LOGFMT_LOOK if format.bind is parse_logfmt_with else format.prefix.look


def _layouts_of(format: LogFormat) -> Iterator[LineLayout]:
    layout = format.layout
    if layout is None:
        raise UntranslatableError("a format without a layout")
    while layout is not None:
        yield layout
        layout = layout.otherwise


def _table(characters: str) -> Bools:
    return bytes_among(characters.encode()) if characters else np.ones(256, np.bool_)

"""The matcher of each format."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import cache

from chalicelib.lines.formats import FORMATS, LogFormat, parse_json_with
from chalicelib.lines.layout import LineLayout
from chalicelib.lines.layouts import OPTIONAL_PRIORITY, PRIORITY_AND_VERSION
from chalicelib.lines.timestamps import NO_ZONE, Places, TimestampFormat
from glue_jobs.columnar.json_lines import JsonMatcher
from glue_jobs.columnar.matching import FirstMatcher, FixedMatcher, Head, LevelMatcher, LineMatcher, PatternMatcher, RestMatcher
from glue_jobs.columnar.patterns import UntranslatableError, fixed_places, translated

_SPLIT = (OPTIONAL_PRIORITY, PRIORITY_AND_VERSION)
"""What precedes times and has no fixed length, but can be matched without them."""


@cache
def matcher_of(format: LogFormat) -> LineMatcher | None:
    """The matcher of a format; None: only the row parser reads it."""
    if format.bind is parse_json_with:
        return JsonMatcher()
    if format.layout is None:
        return None
    try:
        own = _of_layout(format.layout)
        if format.rest is None:
            return own
        rest = _of_layout(format.rest)
        return FirstMatcher(own, RestMatcher(rest, tuple(_looks_of_others(format, rest))))
    except UntranslatableError:
        return None


def _of_layout(layout: LineLayout) -> LineMatcher:
    if layout.refine is not None:
        raise UntranslatableError("a layout that refines its lines one by one")
    matcher = _of_heads(layout)
    if layout.message_levels:
        levels = tuple((pattern, level) for text, level in layout.message_levels for pattern in translated(text).patterns)
        matcher = LevelMatcher(matcher, levels)
    return matcher if layout.otherwise is None else FirstMatcher(matcher, _of_layout(layout.otherwise))


def _of_heads(layout: LineLayout) -> LineMatcher:
    if layout.around is not None and layout.stamp is not None and (layout.stamp.placed or layout.stamp.sized):
        before, tail = layout.around
        with suppress(UntranslatableError):
            is_split = before in _SPLIT
            outside = fixed_places("" if is_split else before)
            heads = [Head(outside, fixed_places(pattern), digits) for pattern, digits in _forms(layout.stamp)]
            beginning = (translated(before), translated(before + layout.stamp.pattern).first) if is_split else None
            return FixedMatcher(heads, layout, translated(tail.replace(NO_ZONE, "")), beginning)
    stamp, is_guarded, tail = layout.pattern.partition(NO_ZONE)
    return PatternMatcher(layout, translated(f"(?P<stamp>{stamp}){tail}" if is_guarded else stamp))


def _forms(stamp: TimestampFormat) -> Iterator[tuple[str, Places | None]]:
    yield from stamp.placed
    for pattern in stamp.sized:
        yield pattern, None


def _looks_of_others(format: LogFormat, rest: LineMatcher) -> Iterator[str]:
    """The patterns with which the lines of all formats begin that come before the rest of this one. Raises UntranslatableError."""
    fitting = {
        each.prefix.look
        for each in FORMATS
        if each.unambiguous and each is not format and any(rest.first[ord(character)] for character in each.prefix.first)
    }
    for look in fitting:
        yield from translated(look).patterns

"""The matcher of each format."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial

from chalicelib.lines.formats import FORMATS, LogFormat, parse_json_with, with_printed
from chalicelib.lines.layout import LineLayout
from chalicelib.lines.layouts import OPTIONAL_PRIORITY, PRIORITY_AND_VERSION
from chalicelib.lines.timestamps import NO_ZONE, Places, TimestampFormat
from glue_jobs.columnar.json_lines import JsonMatcher
from glue_jobs.columnar.matching import (
    FirstMatcher,
    FixedMatcher,
    Head,
    LevelMatcher,
    LineMatcher,
    PatternMatcher,
    Priority,
    RestMatcher,
)
from glue_jobs.columnar.patterns import UntranslatableError, fixed_places, translated
from glue_jobs.columnar.printed import PrintedMatcher, printed_texts

_PRIORITIES: Mapping[str, Callable[[Mapping[str, str]], Priority]] = {
    OPTIONAL_PRIORITY: partial(Priority, is_optional=True),
    PRIORITY_AND_VERSION: partial(Priority, behind=b"1 "),
}
"""What precedes times and has no fixed length, but can be read without them."""


@cache
def matcher_of(format: LogFormat) -> LineMatcher | None:
    """The matcher of a format; None: only the row parser reads it."""
    own = _own_matcher(format)
    if own is None or format.rest is None:
        return own
    try:
        rest = _of_layout(format.rest)
        return FirstMatcher(own, RestMatcher(rest, tuple(_looks_of_others(format, rest))))
    except UntranslatableError:
        return None


@cache
def _own_matcher(format: LogFormat) -> LineMatcher | None:
    """The matcher of a format without its rest."""
    if format.bind is parse_json_with:
        return JsonMatcher(partial(printed_texts, _printed_matcher))
    if format.layout is None:
        return None
    try:
        if format.layout.refine is with_printed:
            return PrintedMatcher(_of_layout(replace(format.layout, refine=None)), _printed_matcher)
        return _of_layout(format.layout)
    except UntranslatableError:
        return None


def _printed_matcher(format: LogFormat) -> LineMatcher | None:
    """The matcher of a text within a record: there, records are text."""
    return JsonMatcher() if format.bind is parse_json_with else _own_matcher(format)


def _of_layout(layout: LineLayout) -> LineMatcher:
    if layout.refine is not None:
        raise UntranslatableError("a layout that refines its lines one by one")
    layouts = tuple(_with_same_head(layout))
    try:
        matcher = _fixed(layouts)
    except UntranslatableError:
        layouts, matcher = layouts[:1], _patterned(layout)
    if layout.message_levels:
        levels = tuple((pattern, level) for text, level in layout.message_levels for pattern in translated(text).patterns)
        matcher = LevelMatcher(matcher, levels)
    rest = layouts[-1].otherwise
    return matcher if rest is None else FirstMatcher(matcher, _of_layout(rest))


def _with_same_head(layout: LineLayout) -> Iterator[LineLayout]:
    """A layout, and those for lines that it does not match as long as they differ in their tails only."""
    other: LineLayout | None = layout
    while other is not None and _head_of(other) == _head_of(layout):
        yield other
        other = other.otherwise


def _head_of(layout: LineLayout) -> tuple[object, ...]:
    return layout.around and layout.around[0], layout.stamp, layout.refine, layout.message_levels, layout.levels


def _fixed(layouts: Sequence[LineLayout]) -> LineMatcher:
    """The matcher of layouts with the same head. Raises UntranslatableError."""
    layout = layouts[0]
    if layout.around is None or layout.stamp is None or not (layout.stamp.placed or layout.stamp.sized):
        raise UntranslatableError("times without a fixed length")
    before = layout.around[0]
    priority = _PRIORITIES.get(before)
    outside = fixed_places("" if priority else before)
    heads = [Head(outside, fixed_places(pattern), digits) for pattern, digits in _forms(layout.stamp)]
    tails = [(each, translated(each.around[1].replace(NO_ZONE, ""))) for each in layouts if each.around is not None]
    first = translated(before + layout.stamp.pattern).first
    return FixedMatcher(heads, layout.stamp, tails, priority(layout.levels or {}) if priority else None, first)


def _patterned(layout: LineLayout) -> LineMatcher:
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

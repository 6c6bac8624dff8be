"""Layouts of text lines: a regular expression for the head of a line, and the columns that its groups fill.

Expressions match at the start of a line. Every repetition ends before the next one can begin, so a line takes at most a few passes over
its head.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

from chalicelib.lines.levels import LEVELS
from chalicelib.lines.parsed import ParsedLine, new_parsed_line
from chalicelib.lines.timestamps import FRACTION, ZONE, TimestampFormat, TimestampParser

LineParser = Callable[[str], ParsedLine | None]
"""Parses a line's text; None if it has another layout."""

MessageLevels = tuple[tuple[str, str], ...]
"""Patterns without groups, and the level of messages that begin with them: the first one that matches counts."""

HEAD_CHARS = 10_000
_GROUPS = ("second", "fraction", "zone", "level", "logger")


@dataclass(frozen=True, slots=True)
class LineLayout:
    """Optional groups of ``pattern``: second, fraction, zone, level, logger. The message begins at the end of the match.

    A line with a level that is not in ``levels`` has another layout, and so has one whose message matches none of ``message_levels``. ``refine``
    changes or rejects the result, whatever its time. ``otherwise``: a layout for the lines that this one does not match. Only the
    first 10,000 characters are matched, which bounds the work for lines of any length.

    ``sign``: a text that every line that matches contains: finding it is faster than a match that fails.
    ``around``: the parts of ``pattern`` before and after a timestamp with an optional fraction and zone; None: it has other parts.
    """

    pattern: str
    stamp: TimestampFormat | None = None
    levels: Mapping[str, str] | None = None
    refine: Callable[[ParsedLine], ParsedLine | None] | None = None
    around: tuple[str, str] | None = None
    message_levels: MessageLevels = ()
    otherwise: LineLayout | None = None
    sign: str = ""

    def parse_with(self, time_parser: TimestampParser) -> LineParser:
        """The parser for one log."""
        parse = self._parse(_compiled(self.pattern), time_parser)
        if self.message_levels:
            parse = _refined(parse, _with_level(self.message_levels))
        if self.refine is not None:
            parse = _refined(parse, self.refine)
        if self.sign:
            parse = _signed(parse, self.sign)
        return parse if self.otherwise is None else _first_of(parse, self.otherwise.parse_with(time_parser))

    def _parse(self, pattern: re.Pattern[str], time_parser: TimestampParser) -> LineParser:
        match = pattern.match
        second_, fraction_, zone_, level_, logger_ = (pattern.groupindex[group] for group in _GROUPS)
        read = time_parser.reader(self.stamp) if self.stamp else _unread
        level_of = (LEVELS if self.levels is None else self.levels).get

        def parse(text: str) -> ParsedLine | None:
            match_ = match(text, 0, HEAD_CHARS)
            if match_ is None:
                return None
            second, fraction, zone, level, logger = match_.group(second_, fraction_, zone_, level_, logger_)
            if level is not None and (level := level_of(level)) is None:
                return None
            return new_parsed_line((read(second, fraction, zone), level, logger, text[match_.end() :]))

        return parse


def _refined(parse: LineParser, refine: Callable[[ParsedLine], ParsedLine | None]) -> LineParser:
    def refined(text: str) -> ParsedLine | None:
        parsed = parse(text)
        return None if parsed is None else refine(parsed)

    return refined


def _signed(parse: LineParser, sign: str) -> LineParser:
    return lambda text: parse(text) if sign in text else None


def _with_level(levels: MessageLevels) -> Callable[[ParsedLine], ParsedLine | None]:
    match = re.compile("|".join(f"({pattern})" for pattern, _ in levels), re.ASCII).match

    def refine(parsed: ParsedLine) -> ParsedLine | None:
        found = match(parsed.message, 0, HEAD_CHARS)
        return None if found is None or found.lastindex is None else parsed._replace(level=levels[found.lastindex - 1][1])

    return refine


def _first_of(one: LineParser, other: LineParser) -> LineParser:
    def parse(text: str) -> ParsedLine | None:
        parsed = one(text)
        return other(text) if parsed is None else parsed

    return parse


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Compiled on first use, once per process. Missing groups are added so that they never match."""
    match_ = re.compile(pattern, re.ASCII)
    missing = [group for group in _GROUPS if group not in match_.groupindex]
    return re.compile(pattern + "".join(f"(?P<{group}>(?!))?" for group in missing), re.ASCII)


def _unread(second: str, fraction: str | None, zone: str | None) -> None:
    """For layouts without a timestamp."""


def timestamped(
    stamp: TimestampFormat,
    tail: str,
    *,
    before: str = "",
    levels: Mapping[str, str] | None = None,
    refine: Callable[[ParsedLine], ParsedLine | None] | None = None,
    message_levels: MessageLevels = (),
    otherwise: LineLayout | None = None,
    sign: str = "",
) -> LineLayout:
    """A layout with a timestamp, an optional fraction and zone, and ``tail`` after it."""
    pattern = f"{before}(?P<second>{stamp.pattern}){FRACTION}{ZONE}{tail}"
    return LineLayout(pattern, stamp, levels, refine, (before, tail), message_levels, otherwise, sign)

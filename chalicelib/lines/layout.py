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

HEAD_CHARS = 10_000
_GROUPS = ("second", "fraction", "zone", "level", "logger")


@dataclass(frozen=True, slots=True)
class LineLayout:
    """Optional groups of ``pattern``: second, fraction, zone, level, logger. The message begins at the end of the match.

    A line with a level that is not in ``levels`` has another layout. ``refine`` changes or rejects the result, whatever its time. Only the
    first 10,000 characters are matched, which bounds the work for lines of any length.

    ``around``: the parts of ``pattern`` before and after a timestamp with an optional fraction and zone; None: it has other parts.
    """

    pattern: str
    stamp: TimestampFormat | None = None
    levels: Mapping[str, str] | None = None
    refine: Callable[[ParsedLine], ParsedLine | None] | None = None
    around: tuple[str, str] | None = None

    def parse_with(self, time_parser: TimestampParser) -> LineParser:
        """The parser for one log."""
        pattern = _compiled(self.pattern)
        parse = self._parse(pattern, time_parser)
        refine = self.refine
        if refine is None:
            return parse

        def refined(text: str) -> ParsedLine | None:
            parsed = parse(text)
            return None if parsed is None else refine(parsed)

        return refined

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
) -> LineLayout:
    """A layout with a timestamp, an optional fraction and zone, and ``tail`` after it."""
    return LineLayout(f"{before}(?P<second>{stamp.pattern}){FRACTION}{ZONE}{tail}", stamp, levels, refine, (before, tail))

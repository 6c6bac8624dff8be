"""A layout: how a line of text begins, as a regular expression, and what it then says.

The expressions are matched at a line's start, and every repetition in them ends before the next can begin, so that no line takes more
than a few passes over its head.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

from chalicelib.lines.clock import FRACTION, ZONE, Clock, Stamp
from chalicelib.lines.levels import LEVELS
from chalicelib.lines.parsed import Parsed, parsed_of

Parse = Callable[[str], Parsed | None]
"""A line to what it says; None: this is none of ours."""

HEAD_CHARS = 10_000
_GROUPS = ("second", "fraction", "zone", "level", "logger")


@dataclass(frozen=True, slots=True)
class Layout:
    """Groups of ``pattern``: second, fraction, zone, level, logger, each of them if there is one. The message begins where it ends.

    A level that ``levels`` doesn't know makes it another line. ``refine`` has the last word on what was found. Only the first 10,000
    characters of a line can be its head: the work on one line is bounded, however long it is.
    """

    pattern: str
    stamp: Stamp | None = None
    levels: Mapping[str, str] | None = None
    refine: Callable[[Parsed], Parsed | None] | None = None

    def parse_with(self, clock: Clock) -> Parse:
        """This layout with a clock: what parses one log."""
        pattern = _compiled(self.pattern)
        parse = self._parse(pattern, clock)
        refine = self.refine
        if refine is None:
            return parse

        def refined(text: str) -> Parsed | None:
            parsed = parse(text)
            return None if parsed is None else refine(parsed)

        return refined

    def _parse(self, pattern: re.Pattern[str], clock: Clock) -> Parse:
        match = pattern.match
        second_, fraction_, zone_, level_, logger_ = (pattern.groupindex[group] for group in _GROUPS)
        read = clock.reader(self.stamp) if self.stamp else _unread
        level_of = (LEVELS if self.levels is None else self.levels).get

        def parse(text: str) -> Parsed | None:
            found = match(text, 0, HEAD_CHARS)
            if found is None:
                return None
            second, fraction, zone, level, logger = found.group(second_, fraction_, zone_, level_, logger_)
            if level is not None and (level := level_of(level)) is None:
                return None
            return parsed_of((read(second, fraction, zone), level, logger, text[found.end() :]))

        return parse


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """With all groups: one that is missing never matches anything. Once in a process, and only if it is asked for."""
    found = re.compile(pattern, re.ASCII)
    missing = [group for group in _GROUPS if group not in found.groupindex]
    return re.compile(pattern + "".join(f"(?P<{group}>(?!))?" for group in missing), re.ASCII)


def _unread(second: str, fraction: str | None, zone: str | None) -> None:
    """A layout without a stamp."""


def after(
    stamp: Stamp,
    tail: str,
    *,
    before: str = "",
    levels: Mapping[str, str] | None = None,
    refine: Callable[[Parsed], Parsed | None] | None = None,
) -> Layout:
    """A layout around a stamp, with a fraction and a zone where it has them. ``tail`` is what follows it."""
    return Layout(f"{before}(?P<second>{stamp.pattern}){FRACTION}{ZONE}{tail}", stamp, levels, refine)

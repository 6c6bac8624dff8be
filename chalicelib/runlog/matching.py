"""What is looked for in lines: a text, or a pattern; and in which lines of a block it is.

A text is looked for in the bytes, which takes a time linear in them. A pattern is run line by line by the library ``regex``, which gives
up when it is told to: no pattern can hang a function. What it would expand to while it is compiled is counted beforehand, since
``((a?){1000}b?){1000}`` is a gigabyte of it; so patterns are those of Python's own ``re``, which ``regex`` takes too.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from typing import Any, Protocol

from chalicelib.deadline import Deadline
from chalicelib.errors import InvalidInputError

MAX_PATTERN_CHARS = 500
MAX_REPEATS = 1000
MAX_EXPANDED = 5000
"""What a pattern may expand to when repeats are written out, in letters."""
LINE_S = 0.25
"""For a pattern in one line. ``regex`` counts CPU time."""
PATTERN_CHARS = 64 * 1024
"""Of a line, for a pattern: what is behind is not looked at."""
_REPEAT = re.compile(r"\{([0-9]*)(,?)([0-9]*)\}")
_FUZZY = re.compile(r"\{[0-9\s<=+,]*[idse][0-9\s<=+,:}idse]")
_REFUSED = re.compile(r"\(\?(#|[a-zA-Z]*[xL])")


class TimeUpError(Exception):
    """The request's time is over. ``at``: where in the block the first line begins that was not looked at."""

    def __init__(self, at: int) -> None:
        super().__init__(at)
        self.at = at


class SlowPatternError(Exception):
    """The pattern takes too long. ``at``: where in the block the line begins."""

    def __init__(self, at: int) -> None:
        super().__init__(at)
        self.at = at


class Matcher(Protocol):
    """What is looked for."""

    def lines(self, block: bytes, deadline: Deadline) -> Iterator[tuple[int, int]]:
        """(start, end) of each line of a block of whole lines that has it, ascending. Raises TimeUpError, SlowPatternError."""

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Where it is in a line, in letters, from left to right."""


def matcher_of(query: str, *, is_pattern: bool, ignore_case: bool) -> Matcher:
    """Raises InvalidInputError: nothing, too much, what no line can have, or no pattern."""
    if not query or len(query) > MAX_PATTERN_CHARS:
        raise InvalidInputError(f"what is looked for is a text of 1 to {MAX_PATTERN_CHARS} letters length={len(query)}")
    if is_pattern:
        return PatternMatcher(query, ignore_case=ignore_case)
    if "\n" in query:
        raise InvalidInputError("what is looked for is within a line: it has no newline")
    try:
        return TextMatcher(query, ignore_case=ignore_case)
    except UnicodeEncodeError as error:
        raise InvalidInputError("what is looked for is not valid unicode") from error


class TextMatcher:
    """Looks for a text. Of letters beyond ASCII whose case does not matter, line by line."""

    def __init__(self, query: str, *, ignore_case: bool) -> None:
        needle = query.encode()
        self._lowers, self._by_line = ignore_case, ignore_case and not query.isascii()
        self._needle = needle.lower() if ignore_case else needle
        self._pattern = re.compile(re.escape(query), re.IGNORECASE if ignore_case else 0)

    def lines(self, block: bytes, deadline: Deadline) -> Iterator[tuple[int, int]]:
        """See ``Matcher``."""
        return self._one_by_one(block) if self._by_line else self._in_bytes(block.lower() if self._lowers else block)

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """See ``Matcher``."""
        return (found.span() for found in self._pattern.finditer(text))

    def _in_bytes(self, block: bytes) -> Iterator[tuple[int, int]]:
        found = block.find(self._needle)
        while found >= 0:
            end = block.index(b"\n", found)
            yield block.rfind(b"\n", 0, found) + 1, end
            found = block.find(self._needle, end + 1)

    def _one_by_one(self, block: bytes) -> Iterator[tuple[int, int]]:
        for start, end in each_line(block):
            if self._pattern.search(block[start:end].decode(errors="replace")):
                yield start, end


class PatternMatcher:
    """Looks for a pattern, in the beginning of each line. Raises InvalidInputError of one that is none, or would be too large."""

    def __init__(self, pattern: str, *, ignore_case: bool) -> None:
        _check(pattern)
        import regex  # seldom needed, and not quick to import

        self._looks = False
        try:
            self._pattern: Any = regex.compile(pattern, regex.IGNORECASE if ignore_case else 0)
        except (regex.error, ValueError, OverflowError, RecursionError) as error:
            raise InvalidInputError(f"not a pattern: {error}") from error

    def lines(self, block: bytes, deadline: Deadline) -> Iterator[tuple[int, int]]:
        """See ``Matcher``. The first line of all is looked at however late it is."""
        for start, end in each_line(block):
            if self._looks and deadline.remaining_s() <= 0:
                raise TimeUpError(start)
            self._looks = True
            text = block[start : min(end, start + 4 * PATTERN_CHARS)].decode(errors="replace")[:PATTERN_CHARS]
            try:
                if self._pattern.search(text, timeout=LINE_S):
                    yield start, end
            except TimeoutError as error:
                raise SlowPatternError(start) from error

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """See ``Matcher``. None more where that would take too long."""
        try:
            for found in self._pattern.finditer(text[:PATTERN_CHARS], timeout=LINE_S):
                yield found.span()
        except TimeoutError:
            return


def each_line(block: bytes) -> Iterator[tuple[int, int]]:
    """(start, end) of each line of a block of whole lines."""
    start = 0
    while (end := block.find(b"\n", start)) >= 0:
        yield start, end
        start = end + 1


def _check(pattern: str) -> None:
    if _FUZZY.search(pattern) or _REFUSED.search(pattern):
        raise InvalidInputError("patterns are those of Python's re, without comments, the flags L and x: write a brace as \\{")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise InvalidInputError(f"not a pattern: {error}") from error
    if _expanded(pattern) > MAX_EXPANDED:
        raise InvalidInputError(
            f"the pattern repeats too much: written out it is at most {MAX_EXPANDED} letters, a repeat at most {MAX_REPEATS}"
        )


def _expanded(pattern: str) -> int:
    """How long a pattern is with its repeats written out. It is one of ``re``, so brackets are closed."""
    sums, last, at = [0], 0, 0
    while at < len(pattern):
        if repeat := _REPEAT.match(pattern, at):
            times = _times(repeat)
            sums[-1] += last * (times - 1)
            last, at = last * times, repeat.end()
            continue
        letter = pattern[at]
        if letter == "(":
            sums.append(1)
        elif letter == ")":
            last = sums.pop()
            sums[-1] += last
        else:
            last = 1
            sums[-1] += 1
        at = _behind_class(pattern, at) if letter == "[" else at + (2 if letter == "\\" else 1)
    return sums[0]


def _times(repeat: re.Match[str]) -> int:
    least, comma, most = repeat.groups()
    counts = [int(each) for each in (least, most) if each]
    if not counts and not comma:
        return 1  # an empty pair of braces is only itself
    times = max([1, *counts])
    return times if times <= MAX_REPEATS else MAX_EXPANDED + 1


def _behind_class(pattern: str, at: int) -> int:
    """The place behind a class: a bracket right at its beginning is of it."""
    at += 2 if pattern[at + 1 : at + 2] == "^" else 1
    first = at
    while pattern[at] != "]" or at == first:
        at += 2 if pattern[at] == "\\" else 1
    return at + 1

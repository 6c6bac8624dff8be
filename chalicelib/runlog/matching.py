"""Matchers for the lines of a block: a text or a regular expression.

A text is searched in the bytes, in linear time. A pattern is matched line by line with the library ``regex``, which supports a timeout: no
pattern can block a function. Its expanded size is computed before it is compiled, because ``((a?){1000}b?){1000}`` would take a gigabyte;
therefore a pattern must be valid for Python's ``re``, whose syntax ``regex`` accepts too.
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
"""Maximum length of a pattern with its repeats expanded, in characters."""
LINE_S = 0.25
"""Timeout of a pattern per line. ``regex`` counts CPU time."""
PATTERN_CHARS = 64 * 1024
"""Prefix of a line in which a pattern is searched."""
_REPEAT = re.compile(r"\{([0-9]*)(,?)([0-9]*)\}")
_FUZZY = re.compile(r"\{[0-9\s<=+,]*[idse][0-9\s<=+,:}idse]")
_REFUSED = re.compile(r"\(\?(#|[a-zA-Z]*[xL])")


class TimeUpError(Exception):
    """The request's time is over. ``at``: offset in the block of the first line that was not searched."""

    def __init__(self, at: int) -> None:
        super().__init__(at)
        self.at = at


class SlowPatternError(Exception):
    """The pattern timed out. ``at``: offset in the block of the line."""

    def __init__(self, at: int) -> None:
        super().__init__(at)
        self.at = at


class Matcher(Protocol):
    """Finds matching lines in a block, and matches in a line."""

    def lines(self, block: bytes, deadline: Deadline) -> Iterator[tuple[int, int]]:
        """(start, end) of each matching line in a block of complete lines, ascending. Raises TimeUpError, SlowPatternError."""

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """(start, end) of each match in a line, in characters, from left to right."""


def matcher_of(query: str, *, is_pattern: bool, ignore_case: bool, invert: bool = False) -> Matcher:
    """With ``invert``, the lines without a match match, and have no spans. Raises InvalidInputError if the query is empty, too long, contains a
    newline, or is an invalid pattern."""
    if not query or len(query) > MAX_PATTERN_CHARS:
        raise InvalidInputError(f"the search text must have 1 to {MAX_PATTERN_CHARS} characters length={len(query)}")
    if is_pattern:
        return PatternMatcher(query, ignore_case=ignore_case, invert=invert)
    if "\n" in query:
        raise InvalidInputError("the search text must not contain a newline")
    try:
        return TextMatcher(query, ignore_case=ignore_case, invert=invert)
    except UnicodeEncodeError as error:
        raise InvalidInputError("the search text is not valid unicode") from error


class TextMatcher:
    """Searches a text. Line by line if it ignores the case of non-ASCII characters, or is inverted."""

    def __init__(self, query: str, *, ignore_case: bool, invert: bool = False) -> None:
        needle = query.encode()
        self._folds = ignore_case and not query.isascii()
        self._lowers, self._is_inverted = ignore_case and not self._folds, invert
        self._needle = needle.lower() if ignore_case else needle
        self._pattern = re.compile(re.escape(query), re.IGNORECASE if ignore_case else 0)

    def lines(self, block: bytes, deadline: Deadline) -> Iterator[tuple[int, int]]:
        """See ``Matcher``."""
        by_line = self._folds or self._is_inverted
        searched = block.lower() if self._lowers else block
        return self._one_by_one(searched) if by_line else self._in_bytes(searched)

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """See ``Matcher``."""
        return iter(()) if self._is_inverted else (found.span() for found in self._pattern.finditer(text))

    def _in_bytes(self, block: bytes) -> Iterator[tuple[int, int]]:
        found = block.find(self._needle)
        while found >= 0:
            end = block.index(b"\n", found)
            yield block.rfind(b"\n", 0, found) + 1, end
            found = block.find(self._needle, end + 1)

    def _one_by_one(self, block: bytes) -> Iterator[tuple[int, int]]:
        for start, end in each_line(block):
            if self._is_in(block, start, end) != self._is_inverted:
                yield start, end

    def _is_in(self, block: bytes, start: int, end: int) -> bool:
        if self._folds:
            return bool(self._pattern.search(block[start:end].decode(errors="replace")))
        return block.find(self._needle, start, end) >= 0


class PatternMatcher:
    """Searches a pattern in the first ``PATTERN_CHARS`` of each line. Raises InvalidInputError if it is invalid, or too large."""

    def __init__(self, pattern: str, *, ignore_case: bool, invert: bool = False) -> None:
        _check(pattern)
        import regex  # rarely needed, and slow to import

        self._looks, self._is_inverted = False, invert
        try:
            self._pattern: Any = regex.compile(pattern, regex.IGNORECASE if ignore_case else 0)
        except (regex.error, ValueError, OverflowError, RecursionError) as error:
            raise InvalidInputError(f"invalid pattern: {error}") from error

    def lines(self, block: bytes, deadline: Deadline) -> Iterator[tuple[int, int]]:
        """See ``Matcher``. The very first line is searched even after the deadline."""
        for start, end in each_line(block):
            if self._looks and deadline.remaining_s() <= 0:
                raise TimeUpError(start)
            self._looks = True
            text = block[start : min(end, start + 4 * PATTERN_CHARS)].decode(errors="replace")[:PATTERN_CHARS]
            try:
                if bool(self._pattern.search(text, timeout=LINE_S)) != self._is_inverted:
                    yield start, end
            except TimeoutError as error:
                raise SlowPatternError(start) from error

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """See ``Matcher``. Ends at a timeout."""
        if self._is_inverted:
            return
        try:
            for found in self._pattern.finditer(text[:PATTERN_CHARS], timeout=LINE_S):
                yield found.span()
        except TimeoutError:
            return


def each_line(block: bytes) -> Iterator[tuple[int, int]]:
    """(start, end) of each line in a block of complete lines."""
    start = 0
    while (end := block.find(b"\n", start)) >= 0:
        yield start, end
        start = end + 1


def _check(pattern: str) -> None:
    if _FUZZY.search(pattern) or _REFUSED.search(pattern):
        raise InvalidInputError(
            "patterns use the syntax of Python's re, without comments and the flags L and x: escape a literal brace as \\{"
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise InvalidInputError(f"invalid pattern: {error}") from error
    if _expanded(pattern) > MAX_EXPANDED:
        raise InvalidInputError(
            f"the pattern is too large: at most {MAX_EXPANDED} characters with repeats expanded, and {MAX_REPEATS} repetitions"
        )


def _expanded(pattern: str) -> int:
    """Length of a pattern with its repeats expanded. ``re`` has compiled it, so brackets are balanced."""
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
        return 1  # an empty pair of braces is literal
    times = max([1, *counts])
    return times if times <= MAX_REPEATS else MAX_EXPANDED + 1


def _behind_class(pattern: str, at: int) -> int:
    """The index after a character class; a closing bracket right at its beginning belongs to it."""
    at += 2 if pattern[at + 1 : at + 2] == "^" else 1
    first = at
    while pattern[at] != "]" or at == first:
        at += 2 if pattern[at] == "\\" else 1
    return at + 1

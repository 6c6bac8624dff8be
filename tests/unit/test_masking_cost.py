"""No line makes masking slow: finders read a number of bytes that is at most a multiple of the batch's size, for any repeated pattern."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import product
from re import _parser  # type: ignore[attr-defined]

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chalicelib.masking import commands, credentials, escapes, headers, key_value_secrets, private_keys, words
from chalicelib.masking.mask import mask
from chalicelib.masking.shapes import SHAPES, finders
from chalicelib.masking.text import Automaton, RunPattern, Text
from tests.sampling import examples

ALL = finders(SHAPES, [b"hush-hush", b"aaaaaaaaab"])
MOST_A_BYTE = 80
"""Reads per byte, on average: a word can stand at every fourth, and its finder looks at 120 bytes after it and 64 before."""
SMALL, LARGE = 1_200, 12_000

ANCHORS = [
    "password", "passwd", "_pass", "pwd", "secret", "token", "api_key", "key", "AKIA", "ASIA", "eyJ", "bearer ", "authorization: ", "://",
    "://a:", "://:", "-----BEGIN ", "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "-----",
    "token:[", '"token":{"a":', "<token>", '("token","', "curl -u a:b", "mysql -p", "cookie: a=", "&sig=", "identified by ", "jdbc:oracle:thin:a/b@",
    "private-lines: 1\n", "name=token value=", "glpat-gldt-", "ver:1-hint:", "Q~", "A" * 22, "hooks.slack.com/services/",
]  # fmt: skip
FILLS = [
    "", " ", "=", ":", "='", '="', '=\\"', "=\\", ": ", "\\", "\\\\", '"', "'", "a", "A", "A1B2", ".", "..", ".eyJ", "@", "/", "&", "&a", ",a",
    ",a=", ";", ")", "{", "\n", "\r\n", "\t", "        ", "--", "-", "_", "é", "\0", "hush-", "aaaaaaaa", "AKIAIOSFODNN7EXAMPLE,",
]  # fmt: skip


class Counted(Text):
    """Counts the bytes read: those that a search passes, those of a run, the window of a small pattern."""

    __slots__ = ("looks",)

    def __init__(self, body: bytes) -> None:
        super().__init__(body)
        self.looks = 0

    def find(self, word: bytes, start: int, end: int | None = None) -> int:
        return self._searched(super().find(word, start, end), word, start, end)

    def find_any_case(self, word: bytes, start: int, end: int | None = None) -> int:
        return self._searched(super().find_any_case(word, start, end), word, start, end)

    def run(self, of: RunPattern, start: int, max_bytes: int = LARGE) -> int:
        end = super().run(of, start, max_bytes)
        self.looks += end - start + 1
        return end

    def match(self, pattern: re.Pattern[bytes], start: int, max_bytes: int) -> re.Match[bytes] | None:
        self.looks += min(max_bytes, len(self) - start)
        return super().match(pattern, start, max_bytes)

    def run_back(self, letters: bytes, at: int, max_bytes: int) -> int:
        start = super().run_back(letters, at, max_bytes)
        self.looks += at - start + 1
        return start

    def match_any_case(self, pattern: re.Pattern[bytes], start: int, max_bytes: int) -> re.Match[bytes] | None:
        self.looks += min(max_bytes, len(self) - start)
        return super().match_any_case(pattern, start, max_bytes)

    def matches(self, pattern: re.Pattern[bytes], start: int, end: int) -> Iterator[re.Match[bytes]]:
        self.looks += end - start
        return super().matches(pattern, start, end)

    def before(self, at: int, max_bytes: int) -> bytes:
        self.looks += max_bytes
        return super().before(at, max_bytes)

    def occurrences(self, of: Automaton, start: int, end: int) -> list[tuple[int, int, int]]:
        found = super().occurrences(of, start, end)
        self.looks += min(end, len(self)) - start + len(found)
        return found

    def words(self, of: Automaton, start: int, end: int) -> Sequence[tuple[int, int, int]]:
        found = super().words(of, start, end)
        self.looks += min(end, len(self)) - start + len(found)
        return found

    def _searched(self, found: int, word: bytes, start: int, end: int | None) -> int:
        stop = min(len(self) if end is None else end, len(self))
        self.looks += found + len(word) - start if found >= 0 else max(stop - start, 0)
        return found


def looks(body: bytes) -> int:
    read: list[Counted] = []

    def reader(raw: bytes) -> Counted:
        read.append(Counted(raw))
        return read[0]

    mask(body, ALL, reader)
    return read[0].looks


def most(size: int) -> int:
    """Upper bound of reads for a batch of this size, plus a constant for its end."""
    return MOST_A_BYTE * size + 20_000


def line_of(unit: str, size: int) -> bytes:
    raw = unit.encode()
    return raw * (size // len(raw) + 1)


@pytest.mark.sampled(default=4)
@pytest.mark.parametrize("anchor", ANCHORS)
def test_repeated_patterns_take_linear_time(anchor: str) -> None:
    for fill in FILLS:
        small, large = line_of(anchor + fill, SMALL), line_of(anchor + fill, LARGE)
        assert looks(large) <= most(len(large)), fill
        assert looks(large) <= 11 * looks(small) + 20_000, fill


@pytest.mark.parametrize("anchor", ANCHORS)
def test_long_tail_after_a_word_takes_linear_time(anchor: str) -> None:
    for fill, again in product([fill for fill in FILLS if fill], ["", anchor]):
        line = anchor.encode() + line_of(fill, LARGE // 2) + again.encode() + line_of(fill, LARGE // 2)
        assert looks(line) <= most(len(line)), (fill, again)


@pytest.mark.behavior("Masking takes linear time for any line.")
@settings(max_examples=examples(300))
@given(st.lists(st.sampled_from([each for each in ANCHORS + FILLS if each]), min_size=1, max_size=5))
def test_any_repeated_unit_takes_linear_time(unit: list[str]) -> None:
    line = line_of("".join(unit), SMALL)
    assert looks(line) <= most(len(line))


def test_the_count_can_fail() -> None:
    """A finder that reads to the end of the line at each word is caught."""

    def careless(text: Text) -> object:
        at = text.find(b"token", 0)
        while at >= 0:
            text.run(re.compile(rb"[^\n]*+"), at)
            at = text.find(b"token", at + 5)
        return iter(())

    body = line_of("token=", LARGE)
    read = Counted(body)
    list(careless(read))  # type: ignore[call-overload]
    assert read.looks > most(len(body))


RUNS = [
    value
    for module in (commands, credentials, escapes, headers, key_value_secrets, private_keys)
    for value in vars(module).values()
    if isinstance(value, re.Pattern)
]
RUNS += [
    *key_value_secrets._QUOTED.values(),
    *escapes._ENDS_OF_LINES,
    *map(commands._option, words.COMMANDS),
    key_value_secrets.example(),
]


@pytest.mark.parametrize("pattern", RUNS, ids=lambda pattern: pattern.pattern.decode())
def test_no_expression_can_backtrack(pattern: re.Pattern[bytes]) -> None:
    """Each repetition is possessive or at most as long as a window, so the counted reads are the real ones."""
    assert [most for most in repeats(_parser.parse(pattern.pattern, pattern.flags)) if most > 64] == []


def repeats(tree: object) -> Iterator[int]:
    """The maximum of each repetition that can backtrack."""
    for each in tree if isinstance(tree, list | tuple | _parser.SubPattern) else ():
        if isinstance(each, tuple) and each[0] in (_parser.MAX_REPEAT, _parser.MIN_REPEAT):
            yield each[1][1]
        yield from repeats(each)

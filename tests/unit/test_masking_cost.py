"""No line makes masking slow: the bytes that finders look at are counted, for whatever repeats, and stay below a multiple of the batch."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product
from re import _parser  # type: ignore[attr-defined]

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chalicelib.masking import credentials, pairs
from chalicelib.masking.mask import mask
from chalicelib.masking.shapes import SHAPES, finders
from chalicelib.masking.text import Automaton, Letters, Text
from tests.sampling import examples

ALL = finders(tuple(SHAPES), [b"hush-hush", b"aaaaaaaaab"])
PASSES = 2 * len(ALL)
"""Each finder reads the batch at least once, to find where its words stand; a short batch is asked first whether it has them at all."""
MOST_A_BYTE = 4
"""Looks at a byte beside its own pass that a finder may take on average: what it reads around its words."""
SMALL, LARGE = 1_200, 12_000

ANCHORS = [
    "password", "passwd", "_pass", "pwd", "secret", "token", "api_key", "key", "AKIA", "ASIA", "eyJ", "bearer ", "authorization: ", "://",
    "://a:", "://:", "-----BEGIN ", "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "-----",
]  # fmt: skip
FILLS = [
    "", " ", "=", ":", "='", '="', '=\\"', "=\\", ": ", "\\", "\\\\", '"', "'", "a", "A", "A1B2", ".", "..", ".eyJ", "@", "/", "&", "&a", ",a",
    ",a=", ";", ")", "{", "\n", "\r\n", "\t", "        ", "--", "-", "_", "é", "\0", "hush-", "aaaaaaaa", "AKIAIOSFODNN7EXAMPLE,",
]  # fmt: skip


class Counted(Text):
    """Counts the bytes that are looked at: those a search passes over, those a run takes, the whole window of a small pattern."""

    __slots__ = ("looks",)

    def __init__(self, body: bytes) -> None:
        super().__init__(body)
        self.looks = 0

    def has(self, word: bytes) -> bool:
        self.looks += len(self) if word else 0
        return super().has(word)

    def find(self, word: bytes, start: int, end: int | None = None) -> int:
        return self._searched(super().find(word, start, end), word, start, end)

    def find_any_case(self, word: bytes, start: int, end: int | None = None) -> int:
        return self._searched(super().find_any_case(word, start, end), word, start, end)

    def run(self, of: Letters, start: int, most: int | None = None) -> int:
        end = super().run(of, start, most)
        self.looks += end - start + 1
        return end

    def match(self, pattern: re.Pattern[bytes], start: int, most: int) -> re.Match[bytes] | None:
        self.looks += min(most, len(self) - start)
        return super().match(pattern, start, most)

    def before(self, at: int, most: int) -> bytes:
        self.looks += most
        return super().before(at, most)

    def occurrences(self, of: Automaton, start: int, end: int) -> list[tuple[int, int, int]]:
        found = super().occurrences(of, start, end)
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
    """What a batch of a size may take: see above, and a little for its end."""
    return PASSES * size + len(ALL) * MOST_A_BYTE * size + 20_000


def line_of(unit: str, size: int) -> bytes:
    raw = unit.encode()
    return raw * (size // len(raw) + 1)


@pytest.mark.sampled(default=8)
@pytest.mark.parametrize("anchor", ANCHORS)
def test_whatever_repeats_costs_as_its_length(anchor: str) -> None:
    for fill in FILLS:
        small, large = line_of(anchor + fill, SMALL), line_of(anchor + fill, LARGE)
        assert looks(large) <= most(len(large)), fill
        assert looks(large) <= 11 * looks(small) + 20_000, fill


@pytest.mark.parametrize("anchor", ANCHORS)
def test_a_long_tail_behind_a_word_costs_as_its_length(anchor: str) -> None:
    for fill, again in product([fill for fill in FILLS if fill], ["", anchor]):
        line = anchor.encode() + line_of(fill, LARGE // 2) + again.encode() + line_of(fill, LARGE // 2)
        assert looks(line) <= most(len(line)), (fill, again)


@settings(max_examples=examples(300))
@given(st.lists(st.sampled_from([each for each in ANCHORS + FILLS if each]), min_size=1, max_size=5))
def test_any_unit_that_repeats_costs_as_its_length(unit: list[str]) -> None:
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


RUNS = [value for module in (credentials, pairs) for value in vars(module).values() if isinstance(value, re.Pattern)]
RUNS += list(pairs._QUOTED.values())


@pytest.mark.parametrize("pattern", RUNS, ids=lambda pattern: pattern.pattern.decode())
def test_no_expression_can_backtrack(pattern: re.Pattern[bytes]) -> None:
    """Each repetition is possessive, or no longer than what a window holds: what is counted above is what is done."""
    assert [most for most in repeats(_parser.parse(pattern.pattern, pattern.flags)) if most > 64] == []


def repeats(tree: object) -> Iterator[int]:
    """How often anything may be repeated that could be given back again."""
    for each in tree if isinstance(tree, list | tuple | _parser.SubPattern) else ():
        if isinstance(each, tuple) and each[0] in (_parser.MAX_REPEAT, _parser.MIN_REPEAT):
            yield each[1][1]
        yield from repeats(each)

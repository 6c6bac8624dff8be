"""Finds the lines of a block that may belong to a failure: a few searches for words instead of reading each line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

TRACE, LINK, CAUSE, EXIT, WORD = 1, 2, 4, 8, 16
"""What a word begins: a Python traceback, the connection of two, a Java cause, the report of an exit code, or none of these."""
_WORDS: Mapping[bytes, int] = {
    b"traceback (most recent call last": TRACE,
    b"above exception": LINK,
    **dict.fromkeys((b"caused by:", b"[cause]: "), CAUSE),
    **dict.fromkeys((b"exit", b"return code", b"non-zero", b"*** ", b"build stopped"), EXIT),
    **dict.fromkeys((b", level 1", b"e       assert", b"not ok ", b"_test.go:"), WORD),
    **dict.fromkeys(
        b"error,exception,fatal,fail,critical,severe,panic,denied,refused,not found,no such,killed,cannot,could not,unable,timed out"
        b",exceeded,abort,invalid,missing,no space,not exist,terminate,err!,segmentation,violat,what went wrong"
        b",rejected,undefined,conflict,can't,expect(,not set".split(b","),
        WORD,
    ),
}
FRAME = re.compile(rb"\tat [\w$.<>/@ +-]{1,400}[(]|(?:(?<=\n)|\A) {3,4}at (?:[^\n]{1,400}(?:\(|:[0-9])|async )")
"""A frame of a stack trace of Java or JavaScript."""
_FRAME_SIGNS = (b"\tat ", b"\n    at ", b"\n   at ")


def find_marks(block: bytes) -> dict[int, int]:
    """The kinds of words in a line, by the line's start."""
    marks: dict[int, int] = {}
    lowered = block.lower()
    find, before = lowered.find, lowered.rfind
    for word, kind in _WORDS.items():
        at = find(word)
        while at >= 0:
            start = before(b"\n", 0, at) + 1
            marks[start] = marks.get(start, 0) | kind
            at = find(word, find(b"\n", at))
    return marks


class FrameSearch:
    """Finds the next frame of a stack trace in a block. ``start``: of the line of the frame found last; ``indent``: the length
    of what precedes the frame in it."""

    def __init__(self, block: bytes) -> None:
        self._block = block
        self._next = [-1] * len(_FRAME_SIGNS)
        self.start, self.indent = -1, 0

    def find(self, at: int) -> int:
        """The start of the first line with a frame from a line's start on; the block's length if there is none."""
        if self.start < at:
            place = min(self._find(number, sign, at) for number, sign in enumerate(_FRAME_SIGNS))
            self.start = self._block.rfind(b"\n", 0, place) + 1 if place < len(self._block) else place
            self.indent = place - self.start
        return self.start

    def _find(self, number: int, sign: bytes, at: int) -> int:
        if self._next[number] < at:
            self._next[number] = next(self._places(sign, at), len(self._block))
        return self._next[number]

    def _places(self, sign: bytes, at: int) -> Iterator[int]:
        """Where frames with this indentation begin, from a line's start on."""
        block, lead = self._block, sign.startswith(b"\n")
        if lead and not at and block.startswith(sign[1:]) and FRAME.match(block):
            yield 0
        place = block.find(sign, max(at - lead, 0))
        while place >= 0:
            if FRAME.match(block, place + lead):
                yield place + lead
            place = block.find(sign, place + len(sign))

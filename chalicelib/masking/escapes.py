r"""Texts without their escapes, and where each of their parts stands in the text: ``a%26b``, ``a\u0026b`` and ``a&amp;b`` are ``a&b``.

A text is read in steps. Each replaces the escapes of one kind, however often they were escaped by the same kind (``%2526``, ``\\\\u0026``,
``&amp;amp;``), and removes other backslashes. A value that is read in the same way is equal to what any writer makes of it, since an
escape that belongs to the value itself is replaced in both. The steps are repeated for escapes of different kinds within each other. The
last step joins lines of base64.

All patterns are linear, and nothing is done for a kind whose sign does not occur.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from html.entities import html5
from typing import NamedTuple

from chalicelib.masking.text import Span

_ROUNDS = 3
"""Kinds of escapes within each other that are read."""
_REMEMBERED, _LONGEST_REMEMBERED_BYTES = 4096, 16
_HEXADECIMAL = "[0-9a-fA-F]"


class _Meanings(dict[bytes, bytes]):
    """The meanings of escapes by their text. Remembers the first short ones."""

    def __init__(self, meaning: Callable[[bytes], bytes]) -> None:
        super().__init__()
        self._meaning = meaning

    def __missing__(self, escape: bytes) -> bytes:
        meaning = self._meaning(escape)
        if len(escape) <= _LONGEST_REMEMBERED_BYTES and len(self) < _REMEMBERED:
            self[escape] = meaning
        return meaning

    def of(self, escape: re.Match[bytes]) -> bytes:
        return self[escape[0]]


class _Kind(NamedTuple):
    """``read`` replaces the escapes of a text. ``escapes`` finds all of them, ``meanings`` has their replacements."""

    sign: bytes
    read: Callable[[bytes], bytes]
    escapes: re.Pattern[bytes]
    meanings: _Meanings


def _pattern(text: str, **parts: str) -> re.Pattern[bytes]:
    """A pattern whose capitals stand for other patterns; ``H`` for a hexadecimal digit."""
    for name, part in {**parts, "H": _HEXADECIMAL}.items():
        text = text.replace(name, part)
    return re.compile(text.encode(), re.DOTALL)


def _character(code: int) -> bytes:
    return chr(code).encode(errors="surrogatepass") if code <= 0x10FFFF else b""


# Percent

_PERCENT = _pattern("%(?:25(?=BYTE))*+BYTE", BYTE="(?:HH|uHHHH)")


def _of_percent(escape: bytes) -> bytes:
    return _character(int(escape[-4:], 16)) if escape[-5:-4] == b"u" else bytes.fromhex(escape[-2:].decode())


# Backslashes

_PARTS = {
    "RUN": r"\\(?<!\\\\)",  # its first
    "MORE": r"(?:\\|CODED)*+",
    "ESCAPED": r"(u[dD][89abAB]HH\\++u[dD][c-fC-F]HH|uHHHH|UH{8}|u\{H{1,6}+\}"
    r"|x[cdCD]HXCONT|x[eE]HXCONTXCONT|x[fF][0-4]XCONTXCONTXCONT|xHH"
    r"|3[0-3][0-7]OCONT|3[45][0-7]OCONTOCONT|36[0-4]OCONTOCONTOCONT|[0-3][0-7][0-7]|[ntrbf])",
    "XCONT": r"(?:\\++x[89abAB]H)",
    "OCONT": r"(?:\\++2[0-7][0-7])",
    "CODED": "(?:u005[cC]|x5[cC])",
}
_BACKSLASHES = _pattern("RUNMOREESCAPED?", **_PARTS)
_MEANINGFUL_BACKSLASHES = _pattern(r"RUN(?:MOREESCAPED|\\*+CODEDMORE)", **_PARTS)
"""Those that are more than backslashes."""
_CONTROLS = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"b": b"\b", b"f": b"\f"}


def _of_backslashes(escape: bytes) -> bytes:
    read = _BACKSLASHES.fullmatch(escape)
    text = read[1] if read else None
    if not text:
        return b""
    if text in _CONTROLS:
        return _CONTROLS[text]
    numbers = [each.strip(b"uUx{}") for each in text.split(b"\\") if each]
    codes = [int(each, 16 if text[0] in b"uUx" else 8) for each in numbers]
    if len(codes) == 2 and text[0] in b"uU":
        return _character(0x10000 + (codes[0] - 0xD800 << 10) + codes[1] - 0xDC00)
    meaning = bytes(codes) if len(codes) > 1 else _character(codes[0])
    return meaning.replace(b"\\", b"")


_MEANINGS_OF_BACKSLASHES = _Meanings(_of_backslashes)


def _without_backslashes(text: bytes) -> bytes:
    for often, meaning in (b'\\"', b'"'), (b"\\n", b"\n"):
        text = text.replace(often, meaning)  # without a call for each
    return _MEANINGFUL_BACKSLASHES.sub(_MEANINGS_OF_BACKSLASHES.of, text).translate(None, b"\\")


# Entities

_ENTITY = _pattern("&(?:amp;(?=NAME))*+NAME", NAME="(?:#[0-9]{1,7}+;|#[xX]H{1,6}+;|[A-Za-z][A-Za-z0-9]{1,31}+;)")


def _of_entity(escape: bytes) -> bytes:
    *_, name, _last = escape[1:].split(b";")
    if not name.startswith(b"#"):
        return html5.get(name.decode() + ";", f"&{name.decode()};").encode()
    return _character(int(name[2:], 16) if name[1:2] in b"xX" else int(name[1:]))


# Lines of base64

_LINE = "[A-Za-z0-9+/_-]"
_ENDS_OF_LINES = [
    _pattern(end + "(?<=LINE{8}END)(?<=LINE{64}END)[ \t]{0,64}+(?=LINE|=)", LINE=_LINE, END=end) for end in (r"\n", r"\r\n")
]
"""Encoders break lines after 64 characters (PEM) or 76 (MIME). Most ends of lines have a blank among the 8 characters before them."""


def _kind(sign: bytes, escapes: re.Pattern[bytes], meaning: Callable[[bytes], bytes]) -> _Kind:
    meanings = _Meanings(meaning)
    return _Kind(sign, partial(escapes.sub, meanings.of), escapes, meanings)


_ESCAPES = (
    _kind(b"%", _PERCENT, _of_percent),
    _Kind(b"\\", _without_backslashes, _BACKSLASHES, _MEANINGS_OF_BACKSLASHES),
    _kind(b"&", _ENTITY, _of_entity),
)
_SIGNS = (*(each.sign for each in _ESCAPES), b"\n")
_LINES = tuple(_kind(sign, end, lambda _: b"") for sign, end in zip((b"\n", b"\r"), _ENDS_OF_LINES, strict=True))


_Place = tuple[int, int, Span]
"""A span of a text, and where it stands in the reading."""
_FAR = 1 << 62


class Reading:
    """A text without its escapes. Memory: each step's text."""

    def __init__(self, source: bytes, steps: tuple[tuple[_Kind, bytes], ...], body: bytes) -> None:
        self._source, self._steps, self.body = source, steps, body

    def in_source(self, spans: Iterator[Span]) -> Iterator[tuple[int, int, bool]]:
        """Where spans of the reading stand in its source, and whether they have escapes there. Spans are sorted and do not overlap. A
        backslash before a letter or digit is no escape."""
        source, body = self._source, self.body
        places: Iterator[_Place] = ((first, last, (first, last)) for first, last in spans)
        for kind, text in reversed(self._steps):
            places = _in_text(places, kind, text)
        for start, end, (first, last) in places:
            plain = end - (last - first)
            yield start, end, source[plain:end] != body[first:last] or (start < plain and not body[first : first + 1].isalnum())

    def read(self, kinds: tuple[_Kind, ...]) -> Reading:
        """A further step for each kind that occurs."""
        reading = self
        for kind in kinds:
            if kind.sign in reading.body:
                body = kind.read(reading.body)
                if body != reading.body:
                    reading = Reading(self._source, (*reading._steps, (kind, reading.body)), body)
        return reading


def _in_text(places: Iterator[_Place], kind: _Kind, text: bytes) -> Iterator[_Place]:
    """Maps spans of a text without escapes to the text with them, in one pass. The escapes of both ends belong to a span, also
    backslashes before it."""
    escapes = _escapes_of(kind, text)
    removed = done = 0
    read_first, read_last, start, end = next(escapes)
    for first, last, read in places:
        while read_last < first or (read_last == first and read_first < first):
            removed = end - read_last
            read_first, read_last, start, end = next(escapes)
        begin = start if read_first <= first else first + removed
        while read_last < last:
            removed = end - read_last
            read_first, read_last, start, end = next(escapes)
        until = end if read_first < last else last + removed
        yield max(begin, done), until, read
        done = until


def _escapes_of(kind: _Kind, text: bytes) -> Iterator[tuple[int, int, int, int]]:
    """Where the meaning of each escape begins and ends in the text without escapes, and the escape in the text; then one far behind."""
    meanings, removed = kind.meanings, 0
    for escape in kind.escapes.finditer(text):
        start, end = escape.span()
        first = start - removed
        last = first + len(meanings[escape[0]])
        removed = end - last
        yield first, last, start, end
    yield _FAR, _FAR, _FAR, _FAR


def readings(text: bytes) -> list[Reading]:
    """The text without its escapes, and that with lines of base64 joined; only those that differ from the text."""
    if not any(sign in text for sign in _SIGNS):
        return []
    reading = unescaped = Reading(text, (), text)
    for _ in range(_ROUNDS):
        before, unescaped = unescaped, unescaped.read(_ESCAPES)
        if unescaped is before:
            break
    joined = unescaped.read(_LINES)
    return [each for each, previous in ((unescaped, reading), (joined, unescaped)) if each is not previous]


def unescaped(text: bytes) -> bytes:
    """The text without its escapes."""
    reading = Reading(text, (), text)
    for _ in range(_ROUNDS):
        reading = reading.read(_ESCAPES)
    return reading.body

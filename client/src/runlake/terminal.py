"""Sanitizing text for a terminal: ``sanitize`` processes every string before it is printed.

A log, a name or an error message may contain sequences that make a terminal type, rename, clear, hide or reorder. Only colours and styles
from a closed set pass, written by this module, and none that could make text unreadable: concealed, with a background, or in a shade that
may be the terminal's background.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

UNPRINTABLE = "\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\U000e0000-\U000e007f\ud800-\udfff"
"""Controls except the tab, bidirectional controls, line separators, byte order marks, tags and lone surrogates, as a class of ``re``."""
REPLACEMENT = "\ufffd"
RESET = "\x1b[0m"
MAX_LINE_CHARS = 1024 * 1024
_UNPRINTABLE = re.compile(f"[{UNPRINTABLE}]")
_UNPRINTABLE_OR_TAB = re.compile(f"[\t{UNPRINTABLE}]")
_ESCAPE = re.compile(r"\x1b\[[0-?]{0,64}[ -/]{0,8}[@-~]")
_STYLE = re.compile(r"\x1b\[([0-9;:]{0,64})m")
_STYLES = {1: "1", 3: "3", 4: "4"}
_HUES = (*range(31, 37), *range(91, 97))
_MIN_SATURATION = 48  # of 255: greyer colours become the terminal's default
_CUBE_LEVELS = (0, 95, 135, 175, 215, 255)


def sanitize(text: str, *, styles: bool = False) -> str:
    """One line of text without control characters: each is replaced by U+FFFD.

    A tab stays. With ``styles`` bold, italic, underlined and the six hues stay too, as new sequences that end with the text; other styles and
    shades become the terminal's default. Linear in the text.
    """
    if not styles:
        return _UNPRINTABLE.sub(REPLACEMENT, text)
    shown, current = [], ""
    for piece, style in _styled(text):
        if piece:
            if style != current:
                shown.append(_sequence(style))
                current = style
            shown.append(_UNPRINTABLE.sub(REPLACEMENT, piece))
    return "".join(shown) + (RESET if current else "")


def without_styles(text: str) -> str:
    """A line without sequences of style, for terminals without colours. Not yet sanitized."""
    return _STYLE.sub("", text)


def label(text: str, most_chars: int = 1024) -> str:
    """A name, a table cell or a word of a message: sanitized, without tabs, and cut at ``most_chars``."""
    shown = _UNPRINTABLE_OR_TAB.sub(REPLACEMENT, text[: most_chars + 1])
    return shown if len(shown) <= most_chars else shown[: most_chars - 1] + "…"


def json_text(text: str) -> str:
    """JSON with unprintable characters of its strings escaped: a parser reads the same value."""
    return _UNPRINTABLE.sub(lambda match: _escaped(match[0]), text)


def last_state(line: str, earlier: int = 0) -> str:
    """The last state of a line that was overwritten, as by a progress bar, and the number of earlier states.

    A trailing carriage return, as of CRLF text, does not count, and neither does a state that only clears the line. ``earlier``: states that are
    not in ``line``.
    """
    if "\r" in line:
        overwritten, line = from_last_state(line)
        earlier, line = earlier + overwritten, line.partition("\r")[0]
    return f"[{earlier} overwritten] {line}" if earlier else line


def from_last_state(line: str) -> tuple[int, str]:
    """The number of states before the last one with text, and the line from that one on."""
    states = line.split("\r")
    texts = [at for at, state in enumerate(states) if _ESCAPE.sub("", state).strip()]
    return (len(texts) - 1, "\r".join(states[texts[-1] :])) if texts else (0, "")


def _styled(text: str) -> Iterator[tuple[str, str]]:
    """Pieces of text between sequences of style, each with the parameters of its style."""
    style, at = _Style(), 0
    for found in _STYLE.finditer(text):
        yield text[at : found.start()], style.parameters
        style.apply([int(each[:4] or 0) for each in re.split("[;:]", found[1])])
        at = found.end()
    yield text[at:], style.parameters


class _Style:
    """Bold, italic, underlined, and a hue or none."""

    def __init__(self) -> None:
        self._on: set[int] = set()
        self._hue = 0

    @property
    def parameters(self) -> str:
        return ";".join([_STYLES[code] for code in sorted(self._on)] + ([str(self._hue)] if self._hue else []))

    def apply(self, codes: list[int]) -> None:
        while codes:
            code = codes.pop(0)
            if code == 0:
                self._on.clear()
                self._hue = 0
            elif code in _STYLES:
                self._on.add(code)
            elif code in (22, 23, 24):
                self._on.discard({22: 1}.get(code, code - 20))
            elif code in (38, 48):
                hue = _extended(codes)
                self._hue = hue if code == 38 else self._hue
            elif code == 39 or 30 <= code <= 37 or 90 <= code <= 97:
                self._hue = code if code in _HUES else 0


def _extended(codes: list[int]) -> int:
    """The hue nearest to a colour of 256 (``5;n``) or of all (``2;r;g;b``), 0 for a grey; removes its codes."""
    kind = codes.pop(0) if codes else 0
    if kind == 5 and codes:
        index = codes.pop(0)
        if index < 16:
            hue = index + 30 if index < 8 else index + 82
            return hue if hue in _HUES else 0
        if index < 232:
            return _nearest(*(_CUBE_LEVELS[(index - 16) // step % 6] for step in (36, 6, 1)))
        return 0
    if kind == 2 and len(codes) >= 3:
        return _nearest(codes.pop(0), codes.pop(0), codes.pop(0))
    codes.clear()
    return 0


def _nearest(red: int, green: int, blue: int) -> int:
    low, high = min(red, green, blue), max(red, green, blue)
    if high - low < _MIN_SATURATION:
        return 0
    middle = (low + high) / 2
    return 30 + (red > middle) + 2 * (green > middle) + 4 * (blue > middle)


def _sequence(parameters: str) -> str:
    return RESET + (f"\x1b[{parameters}m" if parameters else "")


def _escaped(char: str) -> str:
    code = ord(char)
    if code < 0x10000:
        return f"\\u{code:04x}"
    return f"\\u{0xD800 + (code - 0x10000 >> 10):04x}\\u{0xDC00 + (code - 0x10000 & 0x3FF):04x}"

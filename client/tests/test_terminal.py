"""Sanitized text on a terminal: no control characters, no hidden text, only the client's own sequences."""

from __future__ import annotations

import json
import re
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from chalicelib.runlog import layout
from runlake.terminal import UNPRINTABLE, json_text, label, last_state, sanitize, without_styles

OURS = re.compile(r"\x1b\[(?:0|[134](?:;[134])*(?:;(?:3|9)[1-6])?|(?:3|9)[1-6])m")
FRAGMENTS = [
    "\x1b",
    "\x1b[",
    "\x1b[31m",
    "\x1b[8m",
    "\x1b[38;5;",
    "\x1b[0m",
    "m",
    ";",
    ":",
    "[",
    "]",
    "8;;",
    "\x07",
    "\x9b",
    "\u202e",
    "\r",
    "\n",
]
TEXTS = st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=3) | st.characters(categories=["Cs", "Cc", "Cf"])).map("".join)


def is_printable(text: str) -> bool:
    """By Unicode's properties of each character, not by the client's class."""
    hidden = {"Cc", "Cs", "Zl", "Zp"}
    bidirectional = {"ALM", "LRM", "RLM", "LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
    return all(
        char == "\t"
        or (
            unicodedata.category(char) not in hidden
            and unicodedata.bidirectional(char) not in bidirectional
            and char not in "\u061c\u200e\u200f\ufeff"
            and not 0xE0000 <= ord(char) < 0xE0080
        )
        for char in text
    )


@given(TEXTS)
@example("\x1b[" + "1;" * 5000 + "m")
@example("\x1b[31mred\x1b[0mplain")
def test_any_text_becomes_printable(text: str) -> None:
    assert is_printable(sanitize(text)) and is_printable(label(text)) and "\t" not in label(text)
    assert len(sanitize(text)) == len(text)
    styled = sanitize(text, styles=True)
    assert is_printable(OURS.sub("", styled))
    assert [found[0] for found in OURS.finditer(styled)][-1:] in ([], ["\x1b[0m"]), "no style goes on behind the text"


@given(st.text(st.characters(exclude_categories=["Cc", "Cf", "Cs", "Zl", "Zp"])))
def test_printable_text_is_unchanged(text: str) -> None:
    assert sanitize(text) == sanitize(text, styles=True) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m\tplain", "\x1b[0m\x1b[31mred\x1b[0m\tplain"),
        ("\x1b[1;4;96mx", "\x1b[0m\x1b[1;4;96mx\x1b[0m"),
        ("\x1b[1m\x1b[22mx", "x"),
        ("\x1b[3;4m\x1b[23;24mx", "x"),
        ("\x1b[8mhidden\x1b[28m", "hidden"),
        ("\x1b[30;40mhidden\x1b[0m", "hidden"),
        ("\x1b[31;41mhidden", "\x1b[0m\x1b[31mhidden\x1b[0m"),
        ("\x1b[7;5mx", "x"),
        ("\x1b[37mx\x1b[97my\x1b[90mz", "xyz"),
        ("\x1b[31mx\x1b[39my", "\x1b[0m\x1b[31mx\x1b[0my"),
        ("\x1b[38;5;9mx", "\x1b[0m\x1b[91mx\x1b[0m"),
        ("\x1b[38;5;16mx\x1b[38;5;240my", "xy"),
        ("\x1b[38;5;21mx", "\x1b[0m\x1b[34mx\x1b[0m"),
        ("\x1b[38;2;250;200;10mx", "\x1b[0m\x1b[33mx\x1b[0m"),
        ("\x1b[38;2;1;1;1mx", "x"),
        ("\x1b[48;5;1;31mx", "\x1b[0m\x1b[31mx\x1b[0m"),
        ("\x1b[38;2;31mx", "x"),
        ("\x1b[38mx", "x"),
        ("\x1b[31", "\ufffd[31"),
        ("\x1b]0;title\x07\x1b[2J\x9b1m\u202e", "\ufffd]0;title\ufffd\ufffd[2J\ufffd1m\ufffd"),
    ],
)
def test_styles_are_rewritten_and_hidden_text_is_visible(text: str, shown: str) -> None:
    assert sanitize(text, styles=True) == shown


def test_joiners_of_scripts_and_emoji_stay() -> None:
    assert sanitize("می\u200cخواهم 👩\u200d🚀") == "می\u200cخواهم 👩\u200d🚀"


@given(st.recursive(st.text() | st.none() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
@example("\x7f\x9b\u202e\U000e0041")
def test_json_keeps_its_value_and_is_printable(value: object) -> None:
    text = json_text(json.dumps(value, ensure_ascii=False))
    assert is_printable(text) and json.loads(text) == value


def test_lone_surrogate_in_json_is_escaped() -> None:
    assert json_text(json.dumps("\ud800", ensure_ascii=False)) == r'"\ud800"'


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("plain", "plain"),
        ("windows\r", "windows"),
        ("\r10 %\r 50 %\r100 %", "[2 overwritten] 100 %"),
        ("100 %\r  \r", "100 %"),
        ("hidden\rshown", "[1 overwritten] shown"),
        ("10 %\r20 %\r\x1b[2K\r", "[1 overwritten] 20 %"),
        ("\r\r", ""),
    ],
)
def test_overwritten_line_shows_last_state_and_count(line: str, shown: str) -> None:
    assert last_state(line) == shown


def test_long_name_is_cut_and_longest_run_id_is_not() -> None:
    assert label("x" * 1024) == "x" * 1024
    assert label("x" * 10**6) == "x" * 1023 + "…"


def test_styles_are_removed_without_colours() -> None:
    assert without_styles("\x1b[1;31ma\x1b[mb") == "ab"


def test_client_and_server_agree_on_unprintable_characters() -> None:
    ours = re.compile(f"[\t\n{UNPRINTABLE}]")
    surrogates = range(0xD800, 0xE000)  # no name that arrives over HTTP has any
    different = [
        code
        for code in range(0x110000)
        if code not in surrogates and bool(ours.match(chr(code))) != bool(layout.UNPRINTABLE.match(chr(code)))
    ]
    assert different == []

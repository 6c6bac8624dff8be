"""Control sequences of terminals are removed from texts, and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from chalicelib.lines.text import decode_line, without_escape_bytes, without_escapes

SEQUENCES = [
    *("\x1b[0m", "\x1b[1;31m", "\x1b[38:2::1:2:3m", "\x1b[?25l", "\x1b[>4;1m", "\x1b[2K", "\x1b[1 q", "\x1b[m"),
    *("\x1b(B", "\x1b)0", "\x1b%G", "\x1b#8", "\x1b F", "\x1b$)C", "\x1b7", "\x1b8", "\x1b=", "\x1b>", "\x1bM", "\x1bc", "\x1b"),
    *("\x1b]0;load@web1\x07", "\x1b]8;;http://example.com/a;b\x1b\\", "\x1b]1337;CurrentDir=/srv\x07", "\x1b]52;c;QQ==\x1b\\"),
    *("\x1bPq#0;2;0;0;0\x1b\\", "\x1b_bk;t=1763694765123\x07", "\x1b^private\x1b\\", "\x1bXstart\x1b\\"),
    *("\x1b[8mha:////4Jx+/w==\x1b[0m", "\x1b[31"),
]


@pytest.mark.parametrize("sequence", SEQUENCES)
def test_control_sequence_is_removed(sequence: str) -> None:
    between = "" if sequence in ("\x1b", "\x1b[31") else "é no rows"
    assert without_escapes(f"a{sequence}{between}") == decode_line(f"a{sequence}{between}".encode()) == f"a{between}"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("\x1b]0;ERROR: gone", "0;ERROR: gone"), ("\x1bPERROR: gone\x1b[0m", "ERROR: gone"), ("\x1b]0;a\nERROR: gone\x07", "0;a\nERROR: gone\x07"),
        ("\x1b\x1b[1mERROR", "ERROR"), ("\x1b[8mconcealed\x1b[0m", "concealed"), ("\x1bé", "é"), ("[31m no escape", "[31m no escape"),
    ],
)  # fmt: skip
def test_text_behind_an_unended_sequence_stays(text: str, left: str) -> None:
    assert without_escapes(text) == left


@given(st.lists(st.sampled_from([*SEQUENCES, "ERROR", "é", " ", "\x07", "\\", "m", "0;1"])).map("".join) | st.text())
@example("\x1b\x1b[1m[1m")
def test_no_escape_is_left_in_texts_and_bytes(text: str) -> None:
    left = without_escapes(text)
    assert "\x1b" not in left and (left == text or "\x1b" in text)
    assert without_escape_bytes(text.encode()).decode() == left

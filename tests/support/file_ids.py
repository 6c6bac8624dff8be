"""Ids of files that upstream's clients may choose, and texts that are no ids."""

from __future__ import annotations

from hypothesis import strategies as st

MAX_BYTES = 512
HOSTILE = (
    "foo", "foo ", " foo", " ", "~", "~~", "foo~", "foo\u00a0", "é", "e\u0301", "語", "😀", "\ud7ff", "\ue000", "\ufffd", "\uffff", "\U00010000",
    "\U0010ffff", "\U0010ffff" * 128, "a" * 512, "z" * 511 + "~", "é" * 256, "#", "$", "a#b", ":", "a:b", "web-1:foo", "%", "%2F", "%252F", "%2e",
    "+", "a+b", "?", "a?b=c", "&", "\\", "..\\x", '"', "'", "<b>", "*", "null", "...", "-", ".hidden", "data", "metadata", "file#foo", "\u202e",
    "\u2028", "\ufeff", "0" * 31, "0" * 33, "F" * 32, "0123456789abcdef" * 2,
)  # fmt: skip
"""Each is a segment of a path."""
MANY_SEGMENTS = ("/", "a/b", "a/data", "foo/data", "/foo", "foo/", "//", "../foo", "a/../b", "a/..", "uploads/1", "é/~", "a/" * 256)
DOTS = (".", "..")
NO_IDS = (
    "", "\0", "\n", "a\n", "a\tb", "\x1f", "\x7f", "\x80", "a\x9f", "a" * 513, "é" * 257, "\U0010ffff" * 128 + "a", None, 5, 1.5, True, [], {}, ["a"],
)  # fmt: skip

_LETTERS = st.characters(exclude_categories=["Cc", "Cs"])
_NEAR = st.sampled_from(" !#$~aé\ud7ff\ue000\uffff\U00010000\U0010ffff")
"""Few characters at the edges of encodings, so that ids begin alike."""
FILE_IDS = st.one_of(
    st.sampled_from(HOSTILE + MANY_SEGMENTS + DOTS),
    st.text(_NEAR, min_size=1, max_size=4),
    st.text(_LETTERS, min_size=1, max_size=140).map(lambda text: text.encode()[:MAX_BYTES].decode(errors="ignore")),
    st.text("0123456789abcdef", min_size=32, max_size=32),
)


def is_one_segment(file_id: str) -> bool:
    """Whether the object of a file with this id has the key ``{id}/data``."""
    return "/" not in file_id and file_id not in DOTS

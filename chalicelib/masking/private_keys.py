"""Private keys in PEM: from BEGIN to END, or the half of a key that a batch contains.

Batches share no state, so a key that is split over two batches is found by the marker in each half: from BEGIN to the end of the batch,
and from the start of a batch to END. At most 16 KiB are masked for one marker, the length of the longest keys, so a mere mention of a
marker cannot hide the rest of a log.
"""

from __future__ import annotations

import re

from chalicelib.masking.text import BASE64, Span, Text, run_pattern
from chalicelib.masking.words import MASKED_KEY, PEM, PUTTY

LONGEST_KEY_BYTES = 16 * 1024
(_BEGIN, _END), _HYPHENS = PEM, b"-----"
_MOST_LABEL = 60
_PUTTY_HEAD = re.compile(rb"[ \t]{0,8}+\d{1,4}+\r?\n")
_PUTTY_LINES = re.compile(rb"(?:[A-Za-z0-9+/=]++(?:\r?\n|\Z))*+")
_LINE_END = run_pattern(rb"\r\n")
_KEY_LINES = re.compile(rb"(?:[A-Za-z0-9+/=]++\r?\n)*+")
_FEWEST_LETTERS = 32
_ATTACHED = re.compile(rb"[A-Za-z0-9_.-]*+")
"""What follows a marker without a blank: otherwise a token there would be one only after the marker is masked."""
_LABELS = (b"private key", b"private key block")


def private_keys(text: Text, at: int, reached: int, spans: list[Span]) -> int:
    """Blocks with their markers, which may span lines. A block without END ends with the batch or after 16 KiB; one without BEGIN begins
    with the batch."""
    if not text.lowered.startswith(_BEGIN, at):
        stray = 0 if at < reached or at >= LONGEST_KEY_BYTES else _marker_end(text, at + len(_END))
        if stray:
            spans.append((0, stray))
        return stray or reached
    if not _marker_end(text, at + len(_BEGIN)):
        return reached
    most = min(at + LONGEST_KEY_BYTES, len(text))
    end = _end_marker(text, at, most) or most
    spans.append((at, end))
    return end


def putty_keys(text: Text, at: int, _: int, spans: list[Span]) -> int:
    """The lines after ``Private-Lines: 14`` of a key of PuTTY."""
    head = text.match(_PUTTY_HEAD, at + len(PUTTY[0]), _MOST_LABEL)
    if not head:
        return at + len(PUTTY[0])
    end = text.run(_PUTTY_LINES, head.end(), LONGEST_KEY_BYTES)
    if end > head.end():
        spans.append((head.end(), end))
    return end


def keys_between_markers(text: Text, at: int, _: int, spans: list[Span]) -> int:
    """The lines between two markers, of a key whose writer masked each line alone: only its first and its last line."""
    behind = at + len(MASKED_KEY[0])
    head = text.run(_LINE_END, behind, 2)
    end = text.run(_KEY_LINES, head, LONGEST_KEY_BYTES)
    if (
        head + _FEWEST_LETTERS < end
        and text.run(BASE64, head, _FEWEST_LETTERS) == head + _FEWEST_LETTERS
        and text.body.startswith(MASKED_KEY[0], end)
    ):
        spans.append((head, end))
    return max(end, behind)


def _end_marker(text: Text, start: int, end: int) -> int:
    """The end of the first END marker that begins in [start, end); it may end shortly after ``end``. 0: none."""
    at = text.find_any_case(_END, start, end)
    while at >= 0:
        behind = at + len(_END)
        if stop := _marker_end(text, behind):
            return stop
        at = text.find_any_case(_END, behind, end)
    return 0


def _marker_end(text: Text, behind: int) -> int:
    """The end of the marker of a private key, whose label begins at ``behind``; 0 if it is another one."""
    close = text.find_any_case(_HYPHENS, behind, behind + _MOST_LABEL)
    if close < 0 or not text.lowered[behind:close].endswith(_LABELS):
        return 0
    return text.run(_ATTACHED, close + len(_HYPHENS), LONGEST_KEY_BYTES)

"""Private keys in PEM: from BEGIN to END, or the half of a key that a batch contains.

Batches share no state, so a key that is split over two batches is found by the marker in each half: from BEGIN to the end of the batch,
and from the start of a batch to END. At most 16 KiB are masked for one marker, the length of the longest keys, so a mere mention of a
marker cannot hide the rest of a log.
"""

from __future__ import annotations

from collections.abc import Iterator

from chalicelib.masking.text import Span, Text

LONGEST_KEY_BYTES = 16 * 1024
_BEGIN, _END, _HYPHENS = b"-----begin ", b"-----end ", b"-----"
_MOST_LABEL = 60
_LABELS = (b"private key", b"private key block")


def private_keys(text: Text) -> Iterator[Span]:
    """Blocks with their markers, which may span lines. A block without END ends with the batch or after 16 KiB."""
    begin, _ = _marker(text, _BEGIN, 0, len(text))
    _, stray = _marker(text, _END, 0, min(LONGEST_KEY_BYTES, len(text) if begin < 0 else begin))
    if stray >= 0:
        yield 0, stray
    while begin >= 0:
        most = min(begin + LONGEST_KEY_BYTES, len(text))
        _, end = _marker(text, _END, begin, most)
        end = end if end >= 0 else most
        yield begin, end
        begin, _ = _marker(text, _BEGIN, end, len(text))


def _marker(text: Text, word: bytes, start: int, end: int) -> Span:
    """The first marker of a private key that begins in [start, end); it may end shortly after ``end``. (-1, -1): none."""
    at = text.find_any_case(word, start, end)
    while at >= 0:
        behind = at + len(word)
        close = text.find_any_case(_HYPHENS, behind, behind + _MOST_LABEL)
        if close >= 0 and text.lowered[behind:close].endswith(_LABELS):
            return at, close + len(_HYPHENS)
        at = text.find_any_case(word, behind, end)
    return -1, -1

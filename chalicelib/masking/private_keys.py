"""Private keys in PEM: from BEGIN to END, and whichever half of one a batch has.

No state goes from one batch to the next, so a key that is split over batches is found by the half that has a marker: from BEGIN to the
end of the batch, and from the start of a batch to END. No key is longer than 16 KiB, and neither is what is masked on one marker's word:
a marker that is only mentioned cannot hide the rest of a log.
"""

from __future__ import annotations

from collections.abc import Iterator

from chalicelib.masking.text import Span, Text

LONGEST_KEY_BYTES = 16 * 1024
_BEGIN, _END, _HYPHENS = b"-----begin ", b"-----end ", b"-----"
_MOST_LABEL = 60
_LABELS = (b"private key", b"private key block")


def private_keys(text: Text) -> Iterator[Span]:
    """Blocks, with their markers. They may reach over lines; one without its other marker ends with the batch, or after 16 KiB."""
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
    """The first marker of a private key, which may end a little behind ``end``; (-1, -1): none."""
    at = text.find_any_case(word, start, end)
    while at >= 0:
        behind = at + len(word)
        close = text.find_any_case(_HYPHENS, behind, behind + _MOST_LABEL)
        if close >= 0 and text.lowered[behind:close].endswith(_LABELS):
            return at, close + len(_HYPHENS)
        at = text.find_any_case(word, behind, end)
    return -1, -1

"""Maps positions of a text to the masked text, so that annotations keep their place."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from chalicelib.masking.mask import Edit


class OffsetMap:
    """Built from a body's edits; both count bytes of UTF-8. A position within a secret maps to the start of its replacement."""

    def __init__(self, edits: Sequence[Edit]) -> None:
        self._edits = edits
        self._starts = [edit.start for edit in edits]
        self._shifts = [0, *accumulate(edit.length - (edit.end - edit.start) for edit in edits)]

    def map_positions(self, positions: Sequence[int], text: str, stored: bytes, byte: int = 0, stored_byte: int = 0) -> list[int]:
        """Maps positions in characters of ``text``, which begins at ``byte`` of the body, to characters of ``stored``, which begins at
        ``stored_byte`` of the masked body. One pass over both texts for any number of positions."""
        if not self._edits:
            return list(positions)
        places: dict[int, int] = {}
        at = at_byte = stored_at = stored_at_byte = 0
        for position in sorted(set(positions)):
            at_byte += len(text[at:position].encode(errors="replace"))
            at = position
            reached = max(min(self._shifted(byte + at_byte) - stored_byte, len(stored)), stored_at_byte)
            stored_at += len(stored[stored_at_byte:reached].decode(errors="ignore"))
            stored_at_byte = reached
            places[position] = stored_at
        return [places[position] for position in positions]

    def _shifted(self, byte: int) -> int:
        before = bisect_right(self._starts, byte)
        if before and byte < self._edits[before - 1].end:
            before -= 1
            byte = self._starts[before]
        return byte + self._shifts[before]

"""What is replaced, and by what. Without expressions: the client imports this also where ``re`` lacks the quantifiers of the finders."""

from __future__ import annotations

_NEWLINE = b"\n"


def united(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Merges overlapping spans. Sorts the list."""
    spans.sort()
    merged: list[tuple[int, int]] = []
    end = 0
    for span in spans:
        if span[0] < end:
            if span[1] > end:
                end = span[1]
                merged[-1] = merged[-1][0], end
        else:
            merged.append(span)
            end = span[1]
    return merged


def by_lines(secret: bytes, marker: bytes) -> bytes:
    """The marker on each line of the secret, so that lines are neither lost nor joined. Blank lines and carriage returns stay."""
    return _NEWLINE.join(_masked_line(line, marker) for line in secret.split(_NEWLINE))


def _masked_line(line: bytes, marker: bytes) -> bytes:
    return marker + (b"\r" if line.endswith(b"\r") else b"") if line.strip() else line

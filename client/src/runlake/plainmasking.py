"""Masking below Python 3.11, whose ``re`` lacks the possessive quantifiers of the archive's finders: values that are given, in the forms that
writers commonly use, and texts under secret names in data. What else looks like a secret is left to the archive, which masks all lines."""

from __future__ import annotations

import json
import re
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Any, NamedTuple
from urllib.parse import quote, quote_plus

from runlake._redaction.base64_forms import forms_in_base64, with_adjacent
from runlake._redaction.replacements import by_lines, united
from runlake._redaction.words import AWS_KEYS, KEYS, WORDS
from runlake._words import BytesAhoCorasick

_NAMES = tuple(word.decode() for word in (*WORDS, *KEYS, *AWS_KEYS))
_NAMED = "***password***"


class Masked(NamedTuple):
    """As that of the archive's masking: ``edits`` are (start, end, length of the mark), in order."""

    body: bytes
    counts: Mapping[str, int] = {}
    edits: Sequence[tuple[int, int, int]] = ()


def finder(values: Iterable[bytes], mark: bytes) -> Callable[[bytes], Masked]:
    """Masks these UTF-8 values by ``mark``, overlapping ones as one. Time: linear in the text for each form of each value."""
    forms = sorted({form for value in values for form in _forms(value)})
    if not forms:
        return Masked
    automaton = BytesAhoCorasick([mark, *(text for text, _, _ in forms)])
    adjacent = [(0, 0), *((before, after) for _, before, after in forms)]

    def masked(body: bytes) -> Masked:
        found = automaton.find_matches_as_indexes(body, overlapping=True)
        marks = [(start, end) for number, start, end in found if number == 0]
        spans = [with_adjacent(body, start, end, *adjacent[number]) for number, start, end in found if number]
        parts, edits, at = [], [], 0
        for start, end in united([span for span in spans if not _is_within(span, marks)]):
            by = by_lines(body[start:end], mark)
            parts += [body[at:start], by]
            edits.append((start, end, len(by)))
            at = end
        return Masked(b"".join([*parts, body[at:]]), {"configured-value": len(edits)}, edits) if edits else Masked(body)

    return masked


def mask_json(value: Any, mask: Callable[[str], str], *, names: bool, is_secret: bool = False) -> Any:
    """A JSON value with its texts, numbers and names masked, by ``names`` also texts under secret names. A number that changes becomes a text."""
    if isinstance(value, Mapping):
        return {
            mask(name): mask_json(each, mask, names=names, is_secret=names and _is_secret(name)) for name, each in value.items()
        }
    if isinstance(value, list):
        return [mask_json(each, mask, names=names, is_secret=is_secret) for each in value]
    if isinstance(value, str):
        return _NAMED if value and is_secret else mask(value)
    plain = "" if value is None or isinstance(value, bool) else json.dumps(value)
    masked = mask(plain)
    return value if masked == plain else masked


def _is_secret(name: str) -> bool:
    return name.lower() == "pass" or name.lower().endswith(_NAMES)


def _forms(value: bytes) -> Iterator[tuple[bytes, int, int]]:
    """Texts to search for, each with the numbers of adjacent base64 characters that encode bits of the value too."""
    text = value.decode(errors="replace")
    in_json = {json.dumps(text, ensure_ascii=is_ascii)[1:-1] for is_ascii in (True, False)}
    in_urls = {quote(text, safe=safe) for safe in ("", "/")} | {quote_plus(text)}
    lowered = {re.sub("%[0-9A-F]{2}", lambda code: code[0].lower(), each) for each in in_urls}
    quoted = {repr(text)[1:-1], escape(text), text.replace("'", "'\\''"), text.replace("'", "''"), text.replace('"', '""')}
    again = {json.dumps(each)[1:-1] for each in in_json}
    for each in {value, *(form.encode(errors="replace") for form in in_json | in_urls | lowered | quoted | again)}:
        yield each, 0, 0
    for each in {value, *(form.encode() for form in in_json)}:
        yield from forms_in_base64(each)


def _is_within(span: tuple[int, int], marks: Sequence[tuple[int, int]]) -> bool:
    at = bisect_right(marks, (span[0], sys.maxsize)) - 1
    return at >= 0 and span[1] <= marks[at][1]

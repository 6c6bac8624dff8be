"""Masking of secrets by value, before anything leaves the process, in the encodings in which values travel.

A form is the value itself; URL-encoded, as browsers, forms and Python do it; in base64, alone or within a longer value
(``user:password``), in both alphabets; as in a JSON string; and each longer line of a value of several lines. Each match of any form is
masked, and overlapping matches as one: so the longest wins, and no part of it is left next to a shorter one.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, AnyStr
from urllib.parse import quote, quote_plus

MARK = "***secret***"
"""The replacement of a secret."""

_MARK = MARK.encode()
_DEEPEST = 20
_LINE_LETTERS = 8
_BASE64_LETTERS = 8
"""Shorter lines, and fewer letters of base64, would mostly match text that is not secret."""
_NOT_QUOTED = ("", "/", "!'()*", "*")
"""Characters that URL encoders do not quote, in addition to letters, digits and ``-._~``; they differ."""
_ENCODED = re.compile(r"%[0-9A-F]{2}")
_HEAD_LETTERS = 4
Span = tuple[int, int]


class Mask:
    """Masks these values anywhere in a text. Empty values are ignored. Thread-safe.

    Time: one ``str.find`` over the text for each distinct beginning of a form; tens of secrets cost microseconds a line.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        """Raises ValueError for a value with a lone surrogate, which no environment or file can contain."""
        forms = {form for secret in secrets for form in forms_of(secret)}
        self._forms = sorted(forms, key=len, reverse=True)
        self._bytes = by_head(self._forms)
        self._text = by_head([form.decode("utf-8", "surrogateescape") for form in self._forms])

    def __bool__(self) -> bool:
        return bool(self._forms)

    def bytes(self, data: bytes) -> bytes:
        """Bytes masked, of one line or more; a secret must not continue after their end."""
        return _replaced(data, spans_of(data, self._bytes), _MARK) if self._bytes else data

    def text(self, text: str) -> str:
        """Text masked, like ``bytes``."""
        return self.with_positions(text)[0]

    def with_positions(self, text: str) -> tuple[str, Callable[[int], int]]:
        """The masked text, and a function from a position of the text to one of the masked text: inside a secret, the mark's beginning."""
        spans = spans_of(text, self._text) if self._text else []
        return _replaced(text, spans, MARK), lambda position: _moved(position, spans)

    def json(self, value: Any, depth: int = 0) -> Any:
        """A value as JSON with its strings masked, names of objects too. Values that are not JSON, or nested too deep, become their ``repr``."""
        if value is None or isinstance(value, (bool, int)) or (isinstance(value, float) and math.isfinite(value)):
            return value
        if isinstance(value, Mapping) and depth < _DEEPEST:
            return {self.text(str(name)): self.json(each, depth + 1) for name, each in value.items()}
        if isinstance(value, (list, tuple)) and depth < _DEEPEST:
            return [self.json(each, depth + 1) for each in value]
        return self.text(value if isinstance(value, str) else repr(value))

    def stream(self) -> StreamMask:
        """For bytes that come in pieces, split anywhere."""
        return StreamMask(self._forms)


class StreamMask:
    """Masks a stream: bytes that may begin a secret wait for the next piece. Memory: the longest form. Not thread-safe."""

    def __init__(self, forms: Sequence[bytes]) -> None:
        self._forms, self._heads = forms, by_head(forms)
        self._by_letter: dict[int, list[bytes]] = defaultdict(list)
        for form in forms:
            self._by_letter[form[0]].append(form)
        self._pending = b""
        self._emitted_mark_bytes = 0  # pending bytes whose mark was emitted already

    def put(self, piece: bytes) -> bytes:
        """Add a piece, and return the masked bytes that no later piece can change."""
        if not self._forms:
            return piece
        data = self._pending + piece
        return self._emit(data, self._begun(data))

    def end(self) -> bytes:
        """The remaining bytes, masked: no later piece can complete a secret."""
        return self._emit(self._pending, len(self._pending))

    def _begun(self, data: bytes) -> int:
        """Where a secret may begin that continues after the end of ``data``; the length of ``data`` if none."""
        longest = len(self._forms[0])
        for at in range(max(0, len(data) - longest + 1), len(data)):
            rest = data[at:]
            if any(len(form) > len(rest) and form.startswith(rest) for form in self._by_letter.get(data[at], ())):
                return at
        return len(data)

    def _emit(self, data: bytes, end: int) -> bytes:
        """``data`` up to ``end``, masked; the rest is pending. A secret that extends beyond the end is a mark now, and nothing later."""
        self._pending = data[end:]
        if not end:
            return b""
        emitted = [(0, self._emitted_mark_bytes)] if self._emitted_mark_bytes else []
        spans = [span for span in _merged([*emitted, *spans_of(data, self._heads)]) if span[0] < end]
        self._emitted_mark_bytes = max([0, *(stop - end for _, stop in spans)])
        masked = _replaced(data[:end], [(begin, min(stop, end)) for begin, stop in spans], _MARK)
        return masked.removeprefix(_MARK) if emitted else masked


def forms_of(secret: str) -> set[bytes]:
    """The UTF-8 encoded forms of a value. Raises ValueError for a lone surrogate."""
    encoded = secret.encode("utf-8", "surrogateescape")
    lines = (line.strip() for line in encoded.splitlines())
    values = {encoded, encoded.strip(), *(line for line in lines if len(line) >= _LINE_LETTERS)}
    return {form for value in values if value for form in (value, *_of_url(value), *_of_base64(value), *_of_json(value))}


def by_head(forms: Iterable[AnyStr]) -> list[tuple[AnyStr, list[AnyStr]]]:
    """Forms grouped by their first letters: most forms of a secret share them, and a text without them has none of these forms."""
    heads: dict[AnyStr, list[AnyStr]] = defaultdict(list)
    for form in forms:
        heads[form[:_HEAD_LETTERS]].append(form)
    return list(heads.items())


def spans_of(text: AnyStr, heads: Iterable[tuple[AnyStr, list[AnyStr]]]) -> list[Span]:
    """The matches of all forms, overlapping ones merged."""
    found = (form for head, forms in heads if head in text for form in forms)
    return _merged(span for form in found for span in _places(text, form))


def _places(text: AnyStr, form: AnyStr) -> Iterator[Span]:
    at = text.find(form)
    while at >= 0:
        yield at, at + len(form)
        at = text.find(form, at + 1)


def _merged(spans: Iterable[Span]) -> list[Span]:
    merged: list[Span] = []
    for begin, end in sorted(spans):
        if merged and begin < merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((begin, end))
    return merged


def _replaced(text: AnyStr, spans: Sequence[Span], mark: AnyStr) -> AnyStr:
    if not spans:
        return text
    ends = [0, *(end for _, end in spans)]
    begins = [*(begin for begin, _ in spans), len(text)]
    return mark.join(text[end:begin] for end, begin in zip(ends, begins, strict=True))


def _moved(position: int, spans: Sequence[Span]) -> int:
    shift = 0
    for begin, end in spans:
        if position <= begin:
            break
        if position < end:
            return begin + shift
        shift += len(MARK) - (end - begin)
    return position + shift


def _of_url(value: bytes) -> Iterator[bytes]:
    for safe in _NOT_QUOTED:
        for encode in (quote, quote_plus):
            encoded = encode(value, safe=safe)
            yield encoded.encode()
            yield _ENCODED.sub(lambda match: match[0].lower(), encoded).encode()


def _of_base64(value: bytes) -> Iterator[bytes]:
    """The complete encoding, and its letters that do not depend on the bytes before and after the value."""
    yield from (base64.b64encode(value), base64.urlsafe_b64encode(value))
    for before in range(3):
        encoded = base64.b64encode(bytes(before) + value)
        inner = encoded[(before * 8 + 5) // 6 : (before + len(value)) * 8 // 6]
        if len(inner) >= _BASE64_LETTERS:
            yield from (inner, inner.translate(bytes.maketrans(b"+/", b"-_")))


def _of_json(value: bytes) -> Iterator[bytes]:
    text = value.decode("utf-8", "surrogateescape")
    yield json.dumps(text, ensure_ascii=False)[1:-1].encode("utf-8", "surrogateescape")
    yield json.dumps(text)[1:-1].encode()

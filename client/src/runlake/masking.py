"""Secrets that are known by their value: masked before anything leaves the process, in the forms in which values travel.

A form is the value itself; URL-encoded, as browsers, forms and Python do it; in base64, alone or inside of something longer
(``user:password``), in both alphabets; as in a JSON string; and each longer line of a value of many lines. Every place that any
form takes is masked, places that overlap as one: so the longest wins, and nothing of it is left beside a shorter one.
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
"""What stands in place of a secret."""

_MARK = MARK.encode()
_DEEPEST = 20
_LINE_LETTERS = 8
_BASE64_LETTERS = 8
"""What a short line or a few letters of base64 would hit is mostly no secret."""
_NOT_QUOTED = ("", "/", "!'()*", "*")
"""What the ways to encode for a URL leave as it is, beside letters and ``-._~``."""
_ENCODED = re.compile(r"%[0-9A-F]{2}")
_HEAD_LETTERS = 4
Span = tuple[int, int]


class Mask:
    """Masks these values wherever they stand. Empty ones are none. Safe for threads.

    Time: the text's length for each beginning of a form, at the speed of ``str.find``; tens of secrets cost microseconds a line.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        """Raises ValueError for what no environment or file can hold (a lone surrogate)."""
        forms = {form for secret in secrets for form in forms_of(secret)}
        self._forms = sorted(forms, key=len, reverse=True)
        self._bytes = by_head(self._forms)
        self._text = by_head([form.decode("utf-8", "surrogateescape") for form in self._forms])

    def __bool__(self) -> bool:
        return bool(self._forms)

    def bytes(self, data: bytes) -> bytes:
        """Bytes that are whole in themselves: a line, or some."""
        return _replaced(data, spans_of(data, self._bytes), _MARK) if self._bytes else data

    def text(self, text: str) -> str:
        """The same of text."""
        return self.with_positions(text)[0]

    def with_positions(self, text: str) -> tuple[str, Callable[[int], int]]:
        """The text masked, and where a position of it is then: what was inside a secret is at the mark's beginning."""
        spans = spans_of(text, self._text) if self._text else []
        return _replaced(text, spans, MARK), lambda position: _moved(position, spans)

    def json(self, value: Any, depth: int = 0) -> Any:
        """A value as JSON with its strings masked, names of objects too. What is no JSON, or too deep for any reader, is its ``repr``."""
        if value is None or isinstance(value, (bool, int)) or (isinstance(value, float) and math.isfinite(value)):
            return value
        if isinstance(value, Mapping) and depth < _DEEPEST:
            return {self.text(str(name)): self.json(each, depth + 1) for name, each in value.items()}
        if isinstance(value, (list, tuple)) and depth < _DEEPEST:
            return [self.json(each, depth + 1) for each in value]
        return self.text(value if isinstance(value, str) else repr(value))

    def stream(self) -> StreamMask:
        """For bytes that come in pieces, cut anywhere."""
        return StreamMask(self._forms)


class StreamMask:
    """Masks a stream: what may be the beginning of a secret waits for the next piece. Memory: the longest form. Not for threads."""

    def __init__(self, forms: Sequence[bytes]) -> None:
        self._forms, self._heads = forms, by_head(forms)
        self._by_letter: dict[int, list[bytes]] = defaultdict(list)
        for form in forms:
            self._by_letter[form[0]].append(form)
        self._pending = b""
        self._emitted_mark_bytes = 0  # so many bytes of what is held belong to a mark that was given out already

    def put(self, piece: bytes) -> bytes:
        """What is certain so far."""
        if not self._forms:
            return piece
        data = self._pending + piece
        return self._emit(data, self._begun(data))

    def end(self) -> bytes:
        """The rest: nothing follows that could complete a secret."""
        return self._emit(self._pending, len(self._pending))

    def _begun(self, data: bytes) -> int:
        """Where the first secret begins that the end of ``data`` cuts, if one does."""
        longest = len(self._forms[0])
        for at in range(max(0, len(data) - longest + 1), len(data)):
            rest = data[at:]
            if any(len(form) > len(rest) and form.startswith(rest) for form in self._by_letter.get(data[at], ())):
                return at
        return len(data)

    def _emit(self, data: bytes, end: int) -> bytes:
        """``data`` as far as ``end``, masked; the rest is held. A secret that reaches over the end is a mark now, and nothing later."""
        self._pending = data[end:]
        if not end:
            return b""
        emitted = [(0, self._emitted_mark_bytes)] if self._emitted_mark_bytes else []
        spans = [span for span in _merged([*emitted, *spans_of(data, self._heads)]) if span[0] < end]
        self._emitted_mark_bytes = max([0, *(stop - end for _, stop in spans)])
        masked = _replaced(data[:end], [(begin, min(stop, end)) for begin, stop in spans], _MARK)
        return masked.removeprefix(_MARK) if emitted else masked


def forms_of(secret: str) -> set[bytes]:
    """The forms in which a value may be met, UTF-8. Raises ValueError for a lone surrogate."""
    encoded = secret.encode("utf-8", "surrogateescape")
    lines = (line.strip() for line in encoded.splitlines())
    values = {encoded, encoded.strip(), *(line for line in lines if len(line) >= _LINE_LETTERS)}
    return {form for value in values if value for form in (value, *_of_url(value), *_of_base64(value), *_of_json(value))}


def by_head(forms: Iterable[AnyStr]) -> list[tuple[AnyStr, list[AnyStr]]]:
    """Forms by how they begin: most forms of a secret begin alike, and a text has none of those whose beginning it lacks."""
    heads: dict[AnyStr, list[AnyStr]] = defaultdict(list)
    for form in forms:
        heads[form[:_HEAD_LETTERS]].append(form)
    return list(heads.items())


def spans_of(text: AnyStr, heads: Iterable[tuple[AnyStr, list[AnyStr]]]) -> list[Span]:
    """The places of any of the forms, those that overlap as one."""
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
    """As a whole, and without the letters that depend on what stands before it and behind."""
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

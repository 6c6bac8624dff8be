"""Secrets outside a batch's lines: texts and names by themselves, and JSON values together with the name that stands before them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from chalicelib.masking.mask import Masked
from chalicelib.masking.private_keys import LONGEST_KEY_BYTES

Mask = Callable[[bytes], Masked]
"""Masks a text by the rules of one pipeline: ``partial(masker.mask, fqn)``."""
_REMEMBERED_TEXTS, _LONGEST_REMEMBERED_BYTES = 10_000, 256
"""Short texts that repeat are masked once: a small packed body holds many values, few of them distinct."""
_FIRST_PIECE_BYTES, _LONGEST_PIECE_BYTES = 1024, LONGEST_KEY_BYTES
"""A piece is no longer than what is searched for the end of a private key: what is found in a text alone is found among others."""
LONGEST_LABEL_CHARS = 64
"""Of a name and the quotes around it, so many letters stand in front of each value. What makes a value secret is the end of a name."""
_BETWEEN = ": "
_json = json.JSONEncoder(ensure_ascii=False).encode


class _Label(NamedTuple):
    """What values of a name are looked at behind: its end. ``inside``: what its values become where a secret that begins in the name goes on
    beyond it (``x pwd='…``)."""

    text: str = ""
    bytes: int = 0
    inside: Masked | None = None


_UNNAMED = _Label()


class FieldMask:
    """Masks the fields of documents. ``counts``: the secrets that were masked so far, by shape.

    A value is looked at by itself and as ``"name": value``, since a name may say that its value is secret. The items of a list have the list's
    name. Names of objects are masked like texts; names that become equal are numbered. A number that holds a secret becomes a text.

    Work grows with what is masked: a long name is looked at once, and its last ``LONGEST_LABEL_CHARS`` again with each item of its list.
    """

    def __init__(self, mask: Mask) -> None:
        self._mask, self._mask_once = mask, lru_cache(_REMEMBERED_TEXTS)(mask)
        self.counts: Counter[str] = Counter()

    def concerns(self, values: Iterable[object]) -> bool:
        """Whether any of the values may hold a secret: a single look at all of them, for batches that mostly hold none. Counts nothing."""
        return any(self._mask(piece).counts for piece in _pieces(_texts(list(values), "")))

    def text(self, text: str) -> str:
        """A text by itself."""
        masked = self._masked(text)
        if masked.counts:
            self.counts.update(masked.counts)
        return masked.body.decode(errors="replace") if masked.counts else text

    def value(self, value: object, name: str | None = None) -> object:
        """A JSON value of this name, the same value where it holds no secret."""
        return self._value(value, _UNNAMED if name is None else self._label(name))

    def _value(self, value: object, label: _Label) -> object:
        if isinstance(value, Mapping):
            return self.masked_object(value, self.value)
        if isinstance(value, list | tuple):
            return [self._value(each, label) for each in value]
        if isinstance(value, str):
            return self._named(self.text(value), label)
        return value if value is None or isinstance(value, bool) else self._named(value, label)

    def masked_object(self, fields: Mapping[str, object], mask_value: Callable[[object, str], object]) -> dict[str, object]:
        """An object whose values are masked in a way of the caller's, with their names."""
        masked: dict[str, object] = {}
        numbers: dict[str, int] = {}
        for name, each in fields.items():
            masked[_unused(self.text(name), masked, numbers)] = mask_value(each, name)
        return masked

    def _label(self, name: str) -> _Label:
        whole = _json(name) + _BETWEEN
        text = _end_of(whole)
        return _Label(text, _size(text), None if text == whole else self._inside(whole))

    def _inside(self, whole: str) -> Masked | None:
        """A long name, if a secret begins in it and goes on behind its closing quote: so it takes the beginning of any value."""
        masked, size = self._masked(whole), _size(whole)
        last = masked.edits[-1] if masked.counts else None
        return masked if last and last.end == size and last.start <= size - len('"' + _BETWEEN) else None

    def _named(self, value: object, label: _Label) -> object:
        """A value that its name makes a secret is replaced whole."""
        masked = label.inside or self._masked(label.text + _json(value))
        if not masked.counts or masked.edits[-1].end <= label.bytes:
            return value
        for shape, count in masked.counts.items():
            self.counts[shape] += count
        return _last_replacement(masked)

    def _masked(self, text: str) -> Masked:
        body = text.encode(errors="replace")
        return self._mask_once(body) if len(body) <= _LONGEST_REMEMBERED_BYTES else self._mask(body)


def _pieces(texts: Iterable[str]) -> Iterator[bytes]:
    """The texts as lines, each piece of them twice as large as the one before, up to a limit: where many are secret, only the first few are
    looked at. A text that is longer than the limit is a piece of its own."""
    piece, limit = bytearray(), _FIRST_PIECE_BYTES
    for text in texts:
        line = text.encode(errors="replace")
        if piece and len(piece) + len(line) >= limit:
            yield bytes(piece)
            piece, limit = bytearray(), min(2 * limit, _LONGEST_PIECE_BYTES)
        piece += line + b"\n"
    if piece:
        yield bytes(piece)


def _texts(value: object, label: str) -> Iterator[str]:
    """All that ``FieldMask.value`` looks at, a line or more for each."""
    if isinstance(value, Mapping):
        for name, each in value.items():
            yield name
            whole = _json(name) + _BETWEEN
            end = _end_of(whole)
            if end != whole:
                yield whole
            yield from _texts(each, end)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _texts(each, label)
    elif isinstance(value, str):
        yield value
        yield label + _json(value)
    elif value is not None and not isinstance(value, bool):
        yield label + _json(value)


def _end_of(label: str) -> str:
    """A label, or its end where it is long."""
    return label if len(label) <= LONGEST_LABEL_CHARS else label[-LONGEST_LABEL_CHARS:]


def _size(text: str) -> int:
    return len(text.encode(errors="replace"))


def _last_replacement(masked: Masked) -> str:
    *others, last = masked.edits
    start = last.start + sum(edit.length - (edit.end - edit.start) for edit in others)
    return masked.body[start : start + last.length].decode(errors="replace")


def _unused(name: str, taken: Mapping[str, object], numbers: dict[str, int]) -> str:
    """``name``, or it with the first number that makes it unused. ``numbers``: the last one of each name, or equal names take quadratic time."""
    unused, number = name, numbers.get(name, 1)
    while unused in taken:
        number += 1
        unused = f"{name}-{number}"
    numbers[name] = number
    return unused

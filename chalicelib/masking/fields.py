"""Secrets outside a batch's lines: texts and names by themselves, and JSON values together with the name that stands before them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache

from chalicelib.masking.mask import Masked

Mask = Callable[[bytes], Masked]
"""Masks a text by the rules of one pipeline: ``partial(masker.mask, fqn)``."""
_REMEMBERED_TEXTS, _LONGEST_REMEMBERED_BYTES = 10_000, 256
"""Short texts that repeat are masked once: a small packed body holds many values, few of them distinct."""
_FIRST_PIECE_CHARS, _LARGEST_PIECE_CHARS = 1024, 1024 * 1024
_json = json.JSONEncoder(ensure_ascii=False).encode


class FieldMask:
    """Masks the fields of documents. ``counts``: the secrets that were masked so far, by shape.

    A value is looked at by itself and as ``"name": value``, since a name may say that its value is secret. The items of a list have the list's
    name. Names of objects are masked like texts; names that become equal are numbered. A number that holds a secret becomes a text.
    """

    def __init__(self, mask: Mask) -> None:
        self._mask, self._mask_once = mask, lru_cache(_REMEMBERED_TEXTS)(mask)
        self.counts: Counter[str] = Counter()

    def concerns(self, values: Iterable[object]) -> bool:
        """Whether any of the values may hold a secret: a single look at all of them, for batches that mostly hold none. Counts nothing."""
        return any(self._mask(piece).counts for piece in _pieces(_texts(list(values))))

    def text(self, text: str) -> str:
        """A text by itself."""
        masked = self._masked(text)
        if masked.counts:
            self.counts.update(masked.counts)
        return masked.body.decode(errors="replace") if masked.counts else text

    def value(self, value: object, name: str | None = None) -> object:
        """A JSON value of this name, the same value where it holds no secret."""
        if isinstance(value, Mapping):
            return self.masked_object(value, self.value)
        if isinstance(value, list | tuple):
            return [self.value(each, name) for each in value]
        if isinstance(value, str):
            return self._named(self.text(value), name)
        return value if value is None or isinstance(value, bool) else self._named(value, name)

    def masked_object(self, fields: Mapping[str, object], mask_value: Callable[[object, str], object]) -> dict[str, object]:
        """An object whose values are masked in a way of the caller's, with their names."""
        masked: dict[str, object] = {}
        numbers: dict[str, int] = {}
        for name, each in fields.items():
            masked[_unused(self.text(name), masked, numbers)] = mask_value(each, name)
        return masked

    def _named(self, value: object, name: str | None) -> object:
        """A value that its name makes a secret is replaced whole."""
        pair = _pair(name, value)
        masked = self._masked(pair)
        if not masked.counts:
            return value
        value_starts = len(pair.encode(errors="replace")) - len(_json(value).encode(errors="replace"))
        edits = [edit for edit in masked.edits if edit.end > value_starts]
        if not edits:
            return value
        self.counts.update(masked.counts)
        start = edits[-1].start + sum(edit.length - (edit.end - edit.start) for edit in masked.edits[:-1])
        return masked.body[start : start + edits[-1].length].decode(errors="replace")

    def _masked(self, text: str) -> Masked:
        body = text.encode(errors="replace")
        return self._mask_once(body) if len(body) <= _LONGEST_REMEMBERED_BYTES else self._mask(body)


def _pieces(texts: Iterable[str]) -> Iterator[bytes]:
    """The texts as lines, each piece of them twice as large as the one before: where many are secret, only the first few are looked at.
    In memory is one piece, of 1 MiB or a text."""
    piece: list[str] = []
    chars, limit = 0, _FIRST_PIECE_CHARS
    for text in texts:
        piece.append(text)
        chars += len(text)
        if chars >= limit:
            yield "\n".join(piece).encode(errors="replace")
            piece, chars, limit = [], 0, min(2 * limit, _LARGEST_PIECE_CHARS)
    if piece:
        yield "\n".join(piece).encode(errors="replace")


def _texts(value: object, name: str | None = None) -> Iterator[str]:
    """All that ``FieldMask.value`` looks at, a line or more for each."""
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield key
            yield from _texts(each, key)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _texts(each, name)
    elif isinstance(value, str):
        yield value
        if name is not None:
            yield _pair(name, value)
    elif value is not None and not isinstance(value, bool):
        yield _pair(name, value)


def _pair(name: str | None, value: object) -> str:
    return _json(value) if name is None else f"{_json(name)}: {_json(value)}"


def _unused(name: str, taken: Mapping[str, object], numbers: dict[str, int]) -> str:
    """``name``, or it with the first number that makes it unused. ``numbers``: the last one of each name, or equal names take quadratic time."""
    unused, number = name, numbers.get(name, 1)
    while unused in taken:
        number += 1
        unused = f"{name}-{number}"
    numbers[name] = number
    return unused

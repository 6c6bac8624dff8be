"""Masks secrets in fields outside of log lines: single texts, names, and JSON values, each together with its name."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from chalicelib.masking.mask import Masked
from chalicelib.masking.private_keys import LONGEST_KEY_BYTES
from chalicelib.masking.words import may_name_secrets

Mask = Callable[[bytes], Masked]
"""Masks a text by the rules of one pipeline: ``partial(masker.mask, fqn)``."""
_REMEMBERED_TEXTS, _LONGEST_REMEMBERED_BYTES = 10_000, 256
"""Repeated short texts are masked once: a small compressed body can hold many values, few of them distinct."""
_FIRST_PIECE_BYTES, _LONGEST_PIECE_BYTES = 1024, LONGEST_KEY_BYTES
"""A piece is not longer than the window in which the end of a private key is searched, so joining texts hides no secret of a single
text."""
LONGEST_LABEL_CHARS = 64
"""This many characters of a quoted name precede each value when it is masked. The end of a name makes its value secret."""
_MOST_TOGETHER, _LONGEST_TOGETHER_CHARS = 256, 4096
"""Items of a list that are masked together."""
_BETWEEN = ": "
_PROBE = '"0a1b2c3d"'
_VALUES, _NAME_KEYS = ("value", "Value"), ("name", "key", "Name", "Key")
_json = json.JSONEncoder(ensure_ascii=False).encode


class _Label(NamedTuple):
    """The end of a name, which precedes each of its values when they are masked. ``inside``: the replacement of the values if a secret
    begins in the name and extends beyond it (``x pwd='…``)."""

    text: str = ""
    bytes: int = 0
    inside: Masked | None = None


_UNNAMED = _Label()


class FieldMask:
    """Masks the fields of documents. ``counts``: number of masked secrets by shape.

    A value is masked alone and as ``"name": value``, since its name may mark it as secret. The items of a list have the list's name, and the texts
    of a short list are masked together; all in an object that a name marks as secret is secret. ``{"name": "password", "value": …}`` names its value.
    Names of objects are masked like texts; names that become equal are numbered. A number that contains a secret becomes a text.

    The cost is linear in the masked text: a long name is scanned once, and its last ``LONGEST_LABEL_CHARS`` with each item of its list.
    """

    def __init__(self, mask: Mask) -> None:
        self._mask, self._mask_once = mask, lru_cache(_REMEMBERED_TEXTS)(mask)
        self.counts: Counter[str] = Counter()

    def has_secrets(self, values: Iterable[object]) -> bool:
        """Whether any value may contain a secret, in one scan of all of them, since most batches have none. Does not count."""
        return any(self._mask(piece).counts for piece in _pieces(self._texts(list(values), "", "")))

    def _texts(self, value: object, label: str, secret: str) -> Iterator[str]:
        """Every text that ``value`` masks, one or more lines for each."""
        if isinstance(value, Mapping):
            stated, secret = _stated_name(value), label if self._is_secret(label) else secret
            for name, each in value.items():
                yield name
                full_label = _json(_name_of(name, stated)) + _BETWEEN
                end = _end_of(full_label)
                if end != full_label:
                    yield full_label
                yield from self._texts(each, end, secret)
        elif isinstance(value, list | tuple):
            if _may_name_each_other(value):
                yield _json(_scalars(value))
            for each in value:
                yield from self._texts(each, label, secret)
        elif value is not None and not isinstance(value, bool):
            if isinstance(value, str):
                yield value
            yield label + _json(value)
            if secret:
                yield secret + _json(value)

    def text(self, text: str) -> str:
        """Masks a text that has no name."""
        masked = self._masked(text)
        if masked.counts:
            self.counts.update(masked.counts)
        return masked.body.decode(errors="replace") if masked.counts else text

    def value(self, value: object, name: str | None = None) -> object:
        """Masks a JSON value that has this name; returns the same object if it contains no secret."""
        return self._value(value, _UNNAMED if name is None else self._label(name))

    def _value(self, value: object, label: _Label, secret: _Label | None = None) -> object:
        """``secret``: a name of an object around the value, if it marks the object as secret."""
        if isinstance(value, Mapping):
            stated, secret = _stated_name(value), label if self._is_secret(label.text) else secret
            return self.masked_object(value, lambda each, name: self._value(each, self._label(_name_of(name, stated)), secret))
        if isinstance(value, list | tuple):
            return self._together([self._value(each, label, secret) for each in value])
        if value is None or isinstance(value, bool):
            return value
        masked = self.text(value) if isinstance(value, str) else value
        named = self._named(masked, secret) if secret else masked
        return self._named(masked, label) if named is masked else named

    def _together(self, items: list[object]) -> list[object]:
        """Masks items by the items before them, such as ``["--password", "…"]``. One that changes is replaced by the text around its marker, or
        completely if a secret is not within a text."""
        masked = self._masked(_json(_scalars(items))) if _may_name_each_other(items) else None
        if not masked or not masked.counts:
            return items
        self.counts.update(masked.counts)
        try:
            changed = json.loads(masked.body)
        except ValueError:
            changed = []
        if len(changed) != len(items):
            changed = [masked.body.decode(errors="replace")] * len(items)
        return [each if isinstance(each, Mapping | list) else new for each, new in zip(items, changed, strict=True)]

    def _is_secret(self, label: str) -> bool:
        """Whether a name marks its values as secret."""
        if not may_name_secrets(label):
            return False
        masked = self._masked(label + _PROBE)
        return bool(masked.counts) and masked.edits[-1].end > _size(label)

    def masked_object(self, fields: Mapping[str, object], mask_value: Callable[[object, str], object]) -> dict[str, object]:
        """Masks the names of an object, and its values by ``mask_value(value, name)``."""
        masked: dict[str, object] = {}
        numbers: dict[str, int] = {}
        for name, each in fields.items():
            masked[_unused(self.text(name), masked, numbers)] = mask_value(each, name)
        return masked

    def _label(self, name: str) -> _Label:
        full_label = _json(name) + _BETWEEN
        text = _end_of(full_label)
        return _Label(text, _size(text), None if text == full_label else self._inside(full_label))

    def _inside(self, full_label: str) -> Masked | None:
        """The masked label of a long name, if a secret begins in the name and extends beyond its closing quote, into any value."""
        masked, size = self._masked(full_label), _size(full_label)
        last = masked.edits[-1] if masked.counts else None
        return masked if last and last.end == size and last.start <= size - len('"' + _BETWEEN) else None

    def _named(self, value: object, label: _Label) -> object:
        """A value that its name marks as secret is replaced completely."""
        masked = label.inside or self._masked(label.text + _json(value))
        if not masked.counts or masked.edits[-1].end <= label.bytes:
            return value
        for shape, count in masked.counts.items():
            self.counts[shape] += count
        return _last_replacement(masked)

    def _masked(self, text: str) -> Masked:
        body = text.encode(errors="replace")
        return self._mask_once(body) if len(body) <= _LONGEST_REMEMBERED_BYTES else self._mask(body)


def _may_name_each_other(items: Sequence[object]) -> bool:
    """Whether a list is as short as a command or a header, and has a text before its last item."""
    texts = [each for each in items[:_MOST_TOGETHER] if isinstance(each, str)]
    return len(texts) > 1 and len(items) <= _MOST_TOGETHER and sum(map(len, texts)) <= _LONGEST_TOGETHER_CHARS


def _scalars(items: Sequence[object]) -> list[object]:
    return [None if isinstance(each, Mapping | list | tuple) else each for each in items]


def _pieces(texts: Iterable[str]) -> Iterator[bytes]:
    """The texts as lines, in pieces that double in size up to a limit: if many texts are secret, only the first few are scanned. A
    text longer than the limit is its own piece."""
    piece, limit = bytearray(), _FIRST_PIECE_BYTES
    for text in texts:
        line = text.encode(errors="replace")
        if piece and len(piece) + len(line) >= limit:
            yield bytes(piece)
            piece, limit = bytearray(), min(2 * limit, _LONGEST_PIECE_BYTES)
        piece += line + b"\n"
    if piece:
        yield bytes(piece)


def _stated_name(value: Mapping[str, object]) -> str | None:
    """The name that an object states for its ``value``."""
    return (
        next((name for key in _NAME_KEYS if isinstance(name := value.get(key), str)), None)
        if any(each in value for each in _VALUES)
        else None
    )


def _name_of(name: str, stated: str | None) -> str:
    return stated if stated is not None and name in _VALUES else name


def _end_of(label: str) -> str:
    """The label, or its end if it is too long."""
    return label if len(label) <= LONGEST_LABEL_CHARS else label[-LONGEST_LABEL_CHARS:]


def _size(text: str) -> int:
    return len(text.encode(errors="replace"))


def _last_replacement(masked: Masked) -> str:
    *others, last = masked.edits
    start = last.start + sum(edit.length - (edit.end - edit.start) for edit in others)
    return masked.body[start : start + last.length].decode(errors="replace").strip('"')


def _unused(name: str, taken: Mapping[str, object], numbers: dict[str, int]) -> str:
    """``name``, or ``name-N`` with the next number that makes it unused. ``numbers``: the last number for each name; without it, equal
    names take quadratic time."""
    unused, number = name, numbers.get(name, 1)
    while unused in taken:
        number += 1
        unused = f"{name}-{number}"
    numbers[name] = number
    return unused

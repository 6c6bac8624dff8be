"""Masking of secrets before anything leaves the process, or is written to disk, by the archive's own finders (``_redaction``).

Values that are given are found however a writer spells them. Unless it is switched off, secrets are also found by their shape: values whose
names mark them as secret, keys, passwords in URLs, and tokens by their vendors' formats, the last only with ``ahocorasick_rs``. The archive
recognizes the marks, and masks again by its own rules. Below Python 3.11 less is found (``plainmasking``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from runlake._python import HAS_ATOMIC_GROUPS

if TYPE_CHECKING:
    from runlake._redaction.mask import Masked

MARK = "***configured-value***"
"""The replacement of a value that was given. Secrets of a shape have its name."""

_DEEPEST = 20
_LINE_LETTERS = 8
"""Shorter lines of a value would mostly match text that is not secret."""
_VENDOR_TOKEN = "vendor-token"
_LONGEST_PENDING_BYTES, _OVERLAP_BYTES = 128 * 1024, 16 * 1024
"""Of a line without an end: it is masked in parts, each with the end of the part before."""
_Bytes = bytes  # a method of a class has this name
_BEGIN, _END = b"-----BEGIN ", b"-----END "
_is_reported = False


class Mask:
    """Masks these values anywhere in a text, and by ``shapes`` what looks like a secret. Empty values are ignored. Thread-safe.

    Time: linear in the text. The finders are built when they are used first.
    """

    def __init__(self, secrets: Iterable[str] = (), *, shapes: bool = True) -> None:
        """Raises ValueError for a value with a lone surrogate, which no environment or file can contain."""
        self._values = sorted({value for secret in secrets for value in _values_of(secret)})
        self._shapes = shapes
        self._find: Callable[[bytes], Masked] | None = None

    def __bool__(self) -> bool:
        return self._shapes or bool(self._values)

    def missing(self) -> str:
        """What is not masked without an optional package, once for each process; empty: nothing."""
        global _is_reported
        if _is_reported or not self._shapes:
            return ""
        from runlake._words import HAS_AUTOMATON

        _is_reported = True
        if not HAS_ATOMIC_GROUPS:
            return "passwords, keys and tokens in lines are masked by the archive alone, unless they are given: by the client from Python 3.11 on"
        return (
            ""
            if HAS_AUTOMATON
            else "tokens of vendors' formats in lines are masked by the archive alone: by the client too after pip install ahocorasick-rs"
        )

    def bytes(self, data: bytes) -> bytes:
        """Bytes masked, of one line or more; a secret must not continue after their end. The number of lines stays."""
        return self.masked(data).body if self else data

    def masked(self, data: _Bytes) -> Masked:
        """Bytes masked, with the places of secrets."""
        return self._finder()(data)

    def build(self) -> None:
        """Build the finders, and import what they need for most texts. Raises ImportError."""
        if self:
            self._finder()

    def prepare(self) -> None:
        """Import and build what any text needs. Call it before a fork: a process that is forked while another thread imports a module waits for
        the lock of that module forever."""
        if not HAS_ATOMIC_GROUPS:
            self._finder()
            return
        import importlib
        import pkgutil

        from runlake import _redaction

        for module in pkgutil.iter_modules(_redaction.__path__, f"{_redaction.__name__}."):
            importlib.import_module(module.name)

    def _finder(self) -> Callable[[_Bytes], Masked]:
        if self._find is None:
            self._find = _finder(self._values, self._shapes)
        return self._find

    def text(self, text: str) -> str:
        """Text masked, like ``bytes``."""
        return self.with_positions(text)[0]

    def with_positions(self, text: str) -> tuple[str, Callable[[int], int]]:
        """The masked text, and a function from a position of the text to one of the masked text: inside a secret, the mark's beginning."""
        if not self:
            return text, int
        raw, errors = _encoded(text)
        masked = self.masked(raw)
        if not masked.counts:
            return text, int

        def moved(position: int) -> int:
            at, shift = len(text[:position].encode("utf-8", errors)), 0
            for start, end, length in masked.edits:
                if at <= start:
                    break
                if at < end:
                    at = start
                    break
                shift += length - (end - start)
            return len(masked.body[: at + shift].decode("utf-8", errors))

        return masked.body.decode("utf-8", errors), moved

    def json(self, value: Any) -> Any:
        """A value as JSON with its strings masked, names of objects too, and values by their names. Values that are not JSON, or nested too
        deep, become their ``repr``."""
        plain = _as_json(value)
        if not self:
            return plain
        if not HAS_ATOMIC_GROUPS:
            from runlake.plainmasking import mask_json

            return mask_json(plain, self.text, names=self._shapes)
        from runlake._redaction.fields import FieldMask

        return FieldMask(self.masked).value(plain)

    def stream(self) -> StreamMask:
        """For bytes that come in pieces, split anywhere."""
        return StreamMask(self.masked if self else None)


class StreamMask:
    """Masks a stream: an unfinished line waits for the next piece, and a private key goes on in it. Memory: a part of such a line. Not
    thread-safe."""

    def __init__(self, masked: Callable[[bytes], Masked] | None) -> None:
        self._masked = masked
        self._pending = bytearray()
        self._key, self._key_bytes = b"", 0
        """The first line of a private key whose end has not come, and how much of it has."""

    def put(self, piece: bytes) -> bytes:
        """Add a piece, and return the masked bytes that no later piece can change."""
        if self._masked is None:
            return piece
        end = piece.rfind(b"\n") + 1
        self._pending += piece
        if end:
            return self._emit(self._masked, len(self._pending) - len(piece) + end)
        if len(self._pending) <= _LONGEST_PENDING_BYTES:
            return b""
        return self._emit(self._masked, len(self._pending) - _OVERLAP_BYTES)

    def end(self) -> bytes:
        """The remaining bytes, masked: no later piece can complete a secret."""
        return self._emit(self._masked, len(self._pending)) if self._masked and self._pending else b""

    def _emit(self, mask: Callable[[bytes], Masked], end: int) -> bytes:
        """The masked bytes up to ``end``, or to the beginning of a secret that is there; the rest is pending."""
        unfinished, key = self._pending[end - 1 : end] != b"\n", self._key
        text = key + bytes(self._pending if unfinished else self._pending[:end])
        end += len(key)
        masked = mask(text)
        shift, secret = 0, b""
        for first, last, length in masked.edits:
            if first >= end:
                break
            if last > end:
                end = first or last
                if first:
                    break
            shift += length - (last - first)
            secret = text[first:last] if last == end else b""
        self._key = _open_key(secret)
        self._key_bytes = self._key_bytes + len(secret) if key and self._key else len(secret)
        if self._key_bytes > _OVERLAP_BYTES:
            self._key = b""
        del self._pending[: end - len(key)]
        body = masked.body[: end + shift]
        return body[body.find(b"\n") + 1 :] if key else body


def _open_key(secret: _Bytes) -> _Bytes:
    """The first line of a private key that a masked text begins and does not end; empty if there is none."""
    marks = secret.upper()
    begin = marks.rfind(_BEGIN)
    head = marks[begin:].splitlines()[0].rstrip() if marks.rfind(_END) < begin else b""
    return head + b"\n" if head.endswith(b"-----") else b""


def _values_of(secret: str) -> Iterator[bytes]:
    encoded = secret.encode("utf-8", "surrogateescape").strip()
    lines = (line.strip() for line in encoded.splitlines())
    yield from filter(None, {encoded, *(line for line in lines if len(line) >= _LINE_LETTERS)})


def _finder(values: list[bytes], has_shapes: bool) -> Callable[[bytes], Any]:
    if not HAS_ATOMIC_GROUPS:
        from runlake import plainmasking

        return plainmasking.finder(values, MARK.encode())
    from runlake._redaction.mask import mask
    from runlake._redaction.shapes import SHAPES, finders
    from runlake._words import HAS_AUTOMATON

    names = [name for name in SHAPES if HAS_AUTOMATON or name != _VENDOR_TOKEN] if has_shapes else []
    return partial(mask, finders=finders(tuple(names), values))


def _encoded(text: str) -> tuple[bytes, str]:
    """UTF-8, and how to decode it: texts of the operating system have its bytes as surrogates, others any."""
    try:
        return text.encode("utf-8", "surrogateescape"), "surrogateescape"
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass"), "surrogatepass"


def _as_json(value: Any, depth: int = 0) -> Any:
    if value is None or isinstance(value, (bool, int)) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, Mapping) and depth < _DEEPEST:
        return {str(name): _as_json(each, depth + 1) for name, each in value.items()}
    if isinstance(value, (list, tuple)) and depth < _DEEPEST:
        return [_as_json(each, depth + 1) for each in value]
    return value if isinstance(value, str) else repr(value)

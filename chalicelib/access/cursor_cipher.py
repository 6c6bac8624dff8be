"""Encrypts cursors so that they reveal nothing to their bearers.

A page for a principal that may not read everything can end at an item that it may not read, and a plain cursor would reveal the name of
that item.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from hashlib import blake2b
from hmac import compare_digest
from typing import TYPE_CHECKING

from chalicelib.errors import InvalidCursorError

if TYPE_CHECKING:
    from cryptography.fernet import MultiFernet

_MARK = "~"
_PERSON = b"runlake-cursors"
_PAD = b"\xff"
"""A byte that UTF-8 does not contain."""
_CLASS_BYTES = 1024
"""Plain cursors are padded to a multiple of it. No name of a pipeline is longer, so the length of a cursor does not reveal that of a name."""


class CursorCipher:
    """``keys``: secrets; the first one encrypts, all of them decrypt."""

    def __init__(self, keys: Sequence[str]) -> None:
        self._keys = tuple(keys)

    def encrypt(self, cursor: str, *bound_to: str) -> str:
        """Encrypts a cursor to URL-safe characters, about 1400 of them for each KiB. Decryption requires the same ``bound_to``."""
        return _MARK + self._fernet().encrypt(_binding(bound_to) + _padded(cursor.encode())).decode()

    def is_encrypted(self, cursor: str) -> bool:
        """Whether a cursor has the mark of encrypted cursors."""
        return cursor.startswith(_MARK)

    def decrypt(self, cursor: str, *bound_to: str) -> str:
        """The plain cursor. Raises InvalidCursorError if it was not encrypted, has an unknown key, or is bound to another principal or
        query."""
        from cryptography.fernet import InvalidToken

        try:
            content = self._fernet().decrypt(cursor.removeprefix(_MARK)) if self.is_encrypted(cursor) else b""
            binding = _binding(bound_to)
            if not compare_digest(content[: len(binding)], binding):
                raise ValueError("bound to another principal or query")
            return content[len(binding) :].rstrip(_PAD).decode()
        except (InvalidToken, ValueError) as error:
            raise InvalidCursorError(
                "invalid cursor, or the cursor of another query: omit it to start from the first page"
            ) from error

    def _fernet(self) -> MultiFernet:
        from cryptography.fernet import Fernet, MultiFernet  # rarely needed, and slow to import

        derived = (blake2b(key.encode(), digest_size=32, person=_PERSON).digest() for key in self._keys)
        return MultiFernet([Fernet(urlsafe_b64encode(key)) for key in derived])


def _padded(plain: bytes) -> bytes:
    return plain.ljust(-(-len(plain) // _CLASS_BYTES) * _CLASS_BYTES, _PAD)


def _binding(bound_to: Sequence[str]) -> bytes:
    return blake2b(json.dumps(bound_to).encode(), digest_size=16, person=_PERSON).digest()

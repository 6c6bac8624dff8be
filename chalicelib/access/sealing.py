"""Cursors that say nothing to those who carry them.

A page of a principal that may not read everything can end with something that it may not read, whose name the cursor would tell.
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


class Sealer:
    """``keys``: secrets; the first seals, all open."""

    def __init__(self, keys: Sequence[str]) -> None:
        self._keys = tuple(keys)

    def sealed(self, cursor: str, *bound_to: str) -> str:
        """A text of URL-safe letters, which is opened with the same ``bound_to`` and no other."""
        return _MARK + self._fernet().encrypt(_binding(bound_to) + cursor.encode()).decode()

    def is_sealed(self, cursor: str) -> bool:
        """Whether a cursor looks as if it were sealed."""
        return cursor.startswith(_MARK)

    def opened(self, cursor: str, *bound_to: str) -> str:
        """What was sealed. Raises InvalidCursorError: it was not, not here, or for another principal or query."""
        from cryptography.fernet import InvalidToken

        try:
            content = self._fernet().decrypt(cursor.removeprefix(_MARK)) if self.is_sealed(cursor) else b""
            binding = _binding(bound_to)
            if not compare_digest(content[: len(binding)], binding):
                raise ValueError("bound to something else")
            return content[len(binding) :].decode()
        except (InvalidToken, ValueError) as error:
            raise InvalidCursorError("the cursor was not made here, or for another query: leave it out to begin anew") from error

    def _fernet(self) -> MultiFernet:
        from cryptography.fernet import Fernet, MultiFernet  # seldom needed, and slow to import

        derived = (blake2b(key.encode(), digest_size=32, person=_PERSON).digest() for key in self._keys)
        return MultiFernet([Fernet(urlsafe_b64encode(key)) for key in derived])


def _binding(bound_to: Sequence[str]) -> bytes:
    return blake2b(json.dumps(bound_to).encode(), digest_size=16, person=_PERSON).digest()

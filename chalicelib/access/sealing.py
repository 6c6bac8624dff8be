"""Cursors that say nothing to those who carry them.

A page of a principal that may not read everything can end with something that it may not read, whose name the cursor would tell.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Sequence
from hashlib import blake2b
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

    def sealed(self, cursor: str) -> str:
        """A text of URL-safe letters."""
        return _MARK + self._fernet().encrypt(cursor.encode()).decode()

    def opened(self, cursor: str) -> str:
        """What was sealed; a cursor that never was stays as it is. Raises InvalidCursorError."""
        if not cursor.startswith(_MARK):
            return cursor
        from cryptography.fernet import InvalidToken

        try:
            return self._fernet().decrypt(cursor.removeprefix(_MARK)).decode()
        except (InvalidToken, ValueError) as error:
            raise InvalidCursorError("the cursor was not made here: leave it out to begin anew") from error

    def _fernet(self) -> MultiFernet:
        from cryptography.fernet import Fernet, MultiFernet  # seldom needed, and slow to import

        derived = (blake2b(key.encode(), digest_size=32, person=_PERSON).digest() for key in self._keys)
        return MultiFernet([Fernet(urlsafe_b64encode(key)) for key in derived])

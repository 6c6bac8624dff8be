"""Cursors of lists that leave out what a principal may not see: sealed for it and for its query, since a place tells names.

Whoever may see every name gets plain cursors, and may send them; from anybody else a plain cursor would be a probe for hidden names.
"""

from __future__ import annotations

from chalicelib import composition
from chalicelib.access.grants import Scope
from chalicelib.routes import gate


def encrypt_cursor(cursor: str, scopes: tuple[Scope, ...], *query: str) -> str:
    """A cursor as the principal gets it. ``query``: the list and its parameters, which each page repeats."""
    principal = gate.principal()
    if principal.may_all(*scopes):
        return cursor
    return composition.services().cursor_cipher.encrypt(cursor, principal.name, *query)


def decrypt_cursor(cursor: str, scopes: tuple[Scope, ...], *query: str) -> str:
    """The inverse; "" stays "". Raises InvalidCursorError."""
    principal, cipher = gate.principal(), composition.services().cursor_cipher
    if not cursor or (principal.may_all(*scopes) and not cipher.is_encrypted(cursor)):
        return cursor
    return cipher.decrypt(cursor, principal.name, *query)

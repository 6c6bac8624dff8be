"""Cursors of lists that omit names a principal may not see: encrypted for principal and query, since a cursor contains a name.

A principal that may see every name gets plain cursors, and may send them; from another one a plain cursor could probe for hidden names.
"""

from __future__ import annotations

from chalicelib import composition
from chalicelib.access.grants import Scope
from chalicelib.routes import gate


def encrypt_cursor(cursor: str, scopes: tuple[Scope, ...], *query: str) -> str:
    """Encrypt a cursor for the principal. ``query``: the list and its parameters, which each page repeats."""
    principal = gate.principal()
    if principal.may_all(*scopes):
        return cursor
    return composition.services().cursor_cipher.encrypt(cursor, principal.name, *query)


def decrypt_cursor(cursor: str, scopes: tuple[Scope, ...], *query: str) -> str:
    """The inverse of ``encrypt_cursor``; "" stays "". Raises InvalidCursorError."""
    principal, cipher = gate.principal(), composition.services().cursor_cipher
    if not cursor or (principal.may_all(*scopes) and not cipher.is_encrypted(cursor)):
        return cursor
    return cipher.decrypt(cursor, principal.name, *query)

"""Parses the token of an ``Authorization`` header.

``Bearer TOKEN``; or ``Basic`` with any user and the token as password, for clients that only support credentials in a URL or in a
``.netrc``, such as the datalake's.
"""

from __future__ import annotations

import base64
import binascii

from chalicelib.errors import UnauthenticatedError

MAX_HEADER_CHARS = 12_000
"""A gateway accepts 10,240 bytes of headers; longer headers are rejected unparsed."""

_SPACE = " \t"
"""No other characters that ``str.strip`` removes: rules of a web ACL that count by the header squeeze fewer."""


def token_of(authorization: str) -> str:
    """The token of the header. Raises UnauthenticatedError."""
    if len(authorization) > MAX_HEADER_CHARS:
        raise UnauthenticatedError("the credentials are too long")
    scheme, _, rest = authorization.strip(_SPACE).partition(" ")
    match scheme.lower():
        case "bearer":
            token = rest.strip(_SPACE)
        case "basic":
            token = _password(rest.strip(_SPACE))
        case "":
            raise UnauthenticatedError("no credentials: send Authorization: Bearer and a token")
        case _:
            raise UnauthenticatedError("unsupported credentials: send Authorization: Bearer and a token")
    if not token or not token.isascii() or " " in token:
        raise UnauthenticatedError("no token: send Authorization: Bearer and a token")
    return token


def _password(text: str) -> str:
    try:
        decoded = base64.b64decode(text, validate=True).decode("ascii")
    except (binascii.Error, ValueError) as error:
        raise UnauthenticatedError("the Basic credentials are not base64 of user:token") from error
    return decoded.partition(":")[2]

"""Tokens (JWT, RFC 7519): whether one holds, and what it claims.

Nothing of a token is believed before its signature is: its header says which key to try, and no address of keys in it is followed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jwt

from chalicelib.access.keys import ALGORITHMS, Keys
from chalicelib.errors import UnauthenticatedError

MAX_TOKEN_CHARS = 8192
MAX_SUBJECT_CHARS = 512
_MALFORMED = (ValueError, TypeError, OverflowError, RecursionError, AttributeError)
"""What libraries raise of input that nobody thought of."""
_REASONS: tuple[tuple[type[jwt.PyJWTError], str], ...] = (
    (jwt.ExpiredSignatureError, "the token has expired: get another one"),
    (jwt.ImmatureSignatureError, "the token is not valid yet"),
    (jwt.InvalidAudienceError, "the token is for another audience"),
    (jwt.InvalidIssuerError, "the token is of another issuer"),
    (jwt.MissingRequiredClaimError, "the token lacks a claim: it needs exp, iss and sub, and aud if an audience is set"),
    (jwt.InvalidSignatureError, "the token's signature is wrong"),
)


class Tokens:
    """``audiences``: the token is for one of them; none: for whomever. ``leeway_s``: how far clocks may be apart."""

    def __init__(self, keys: Keys, issuer: str, audiences: Sequence[str], leeway_s: int) -> None:
        self._keys, self._issuer, self._audiences, self._leeway_s = keys, issuer, list(audiences), leeway_s

    def claims(self, token: str) -> dict[str, Any]:
        """What a token claims, if it holds. Raises UnauthenticatedError, IdentityUnavailableError."""
        if len(token) > MAX_TOKEN_CHARS:
            raise UnauthenticatedError(f"the token is too long limit={MAX_TOKEN_CHARS}")
        try:
            return self._checked(token)
        except jwt.PyJWTError as error:
            raise UnauthenticatedError(_reason(error)) from error
        except _MALFORMED as error:
            raise UnauthenticatedError("the token is malformed") from error

    def _checked(self, token: str) -> dict[str, Any]:
        header = jwt.get_unverified_header(token)
        algorithm = header.get("alg")
        if algorithm not in ALGORITHMS:
            raise UnauthenticatedError("the token is signed in a way that is not accepted")
        claims: dict[str, Any] = jwt.decode(
            token,
            self._keys.find(header.get("kid"), algorithm),
            algorithms=[algorithm],
            issuer=self._issuer,
            audience=self._audiences or None,
            leeway=self._leeway_s,
            options={
                "require": ["exp", "iss", "sub", *(["aud"] if self._audiences else [])],
                "verify_aud": bool(self._audiences),
                "enforce_minimum_key_length": True,
            },
        )
        if not 0 < len(claims["sub"]) <= MAX_SUBJECT_CHARS:
            raise UnauthenticatedError("the token's sub is empty or too long")
        return claims


def _reason(error: jwt.PyJWTError) -> str:
    return next((reason for kind, reason in _REASONS if isinstance(error, kind)), "the token is malformed")

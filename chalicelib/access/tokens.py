"""Verifies tokens (JWT, RFC 7519) and returns their claims.

No part of a token is trusted before its signature is verified: the header only selects a key, and URLs of keys in it are ignored.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jwt
from jwt import PyJWK

from chalicelib.access.keys import ALGORITHMS, IssuerKeys
from chalicelib.errors import UnauthenticatedError

MAX_TOKEN_CHARS = 8192
MAX_SUBJECT_CHARS = 512
MAX_CACHED_TOKENS = 64
"""Verified tokens that a process caches: a connector sends the same token with each request."""
_ACCESS, _ACCESS_TYPE = "access", "at+jwt"
_OF_ID_TOKENS = frozenset({"at_hash", "c_hash"})
_MALFORMED = (ValueError, TypeError, OverflowError, RecursionError, AttributeError)
"""Exceptions of libraries for unexpected input."""
_REASONS: tuple[tuple[type[jwt.PyJWTError], str], ...] = (
    (jwt.ExpiredSignatureError, "the token has expired: get another one"),
    (jwt.ImmatureSignatureError, "the token is not valid yet"),
    (jwt.InvalidAudienceError, "the token is for another audience, or for none"),
    (jwt.InvalidIssuerError, "the token is from another issuer"),
    (
        jwt.MissingRequiredClaimError,
        "the token lacks a claim: it needs exp, iss and sub, iat if lifetimes are limited",
    ),
    (jwt.InvalidSignatureError, "the token's signature is wrong"),
)


def unverified_issuer(token: str) -> str:
    """``iss`` of a token, to select the keys that verify the token. Raises UnauthenticatedError."""
    _check_size(token)
    try:
        issuer = jwt.decode(token, options={"verify_signature": False}).get("iss")
    except (jwt.PyJWTError, *_MALFORMED) as error:
        raise UnauthenticatedError("the token is malformed") from error
    return issuer if isinstance(issuer, str) else ""


def _check_size(token: str) -> None:
    if len(token) > MAX_TOKEN_CHARS:
        raise UnauthenticatedError(f"the token is too long limit={MAX_TOKEN_CHARS}")


class _Verified(NamedTuple):
    """A token whose signature and claims were verified with ``key``. Stays valid until it expires or the key is withdrawn."""

    key: PyJWK
    key_id: str | None
    algorithm: str
    claims: dict[str, Any]


class TokenVerifier:
    """``audiences``: one of them must be the token's ``aud``, or for an access token of Cognito, which has none, its ``client_id``; empty: any
    audience. ``leeway_s``: tolerated clock skew. ``max_lifetime_s``: maximum time from ``iat`` to ``exp``; 0: unlimited."""

    def __init__(self, keys: IssuerKeys, issuer: str, audiences: Sequence[str], leeway_s: int, max_lifetime_s: int = 0) -> None:
        self._keys, self._issuer, self._audiences, self._leeway_s = keys, issuer, list(audiences), leeway_s
        self._max_lifetime_s = max_lifetime_s
        self._verified: dict[str, _Verified] = {}

    def verify(self, token: str) -> dict[str, Any]:
        """The claims of a valid token. Raises UnauthenticatedError, IdentityUnavailableError."""
        _check_size(token)
        try:
            return self._cached(token) or self._decode(token)
        except jwt.PyJWTError as error:
            raise UnauthenticatedError(_reason(error)) from error
        except _MALFORMED as error:
            raise UnauthenticatedError("the token is malformed") from error

    def _cached(self, token: str) -> dict[str, Any] | None:
        """The claims of a cached token, if its issuer still lists the same key and it has not expired."""
        verified = self._verified.get(token)
        if verified is None or int(verified.claims["exp"]) <= time.time() - self._leeway_s:
            return None
        if self._keys.find(verified.key_id, verified.algorithm) is not verified.key:
            return None
        return verified.claims

    def _decode(self, token: str) -> dict[str, Any]:
        header = jwt.get_unverified_header(token)
        algorithm = header.get("alg")
        if algorithm not in ALGORITHMS:
            raise UnauthenticatedError("the token's signing algorithm is not accepted")
        key = self._keys.find(header.get("kid"), algorithm)
        claims: dict[str, Any] = jwt.decode(
            token,
            key,
            algorithms=[algorithm],
            issuer=self._issuer,
            leeway=self._leeway_s,
            options={
                "require": ["exp", "iss", "sub", *(["iat"] if self._max_lifetime_s else [])],
                "verify_aud": False,
                "enforce_minimum_key_length": True,
            },
        )
        _check_kind(header, claims)
        self._check_audience(claims)
        if not 0 < len(claims["sub"]) <= MAX_SUBJECT_CHARS:
            raise UnauthenticatedError("the token's sub is empty or too long")
        if self._max_lifetime_s and int(claims["exp"]) - int(claims["iat"]) > self._max_lifetime_s:
            raise UnauthenticatedError(f"the token is valid for too long limit_s={self._max_lifetime_s}")
        if len(self._verified) >= MAX_CACHED_TOKENS:
            self._verified.clear()
        self._verified[token] = _Verified(key, header.get("kid"), algorithm, claims)
        return claims

    def _check_audience(self, claims: dict[str, Any]) -> None:
        if not self._audiences:
            return
        named = claims.get("aud" if "aud" in claims or "token_use" not in claims else "client_id")
        listed = named if isinstance(named, list) else [named]
        if not all(isinstance(each, str) for each in listed) or not set(listed) & set(self._audiences):
            raise jwt.InvalidAudienceError


def _check_kind(header: Mapping[str, Any], claims: Mapping[str, Any]) -> None:
    """Refuse tokens that an issuer signs for other purposes, such as to tell an application who somebody is, or that somebody logged out. ``typ``
    names such a purpose by ``…+jwt`` (RFC 8725, 3.11); ``token_use`` is Cognito's."""
    kind = str(header.get("typ", "")).lower().removeprefix("application/")
    is_of_another = kind.endswith("+jwt") and kind != _ACCESS_TYPE
    if is_of_another or claims.get("token_use", _ACCESS) != _ACCESS or _OF_ID_TOKENS & claims.keys():
        raise UnauthenticatedError("the token is not an access token: send the access token of the same login")


def _reason(error: jwt.PyJWTError) -> str:
    return next((reason for kind, reason in _REASONS if isinstance(error, kind)), "the token is malformed")

"""The issuer's public keys (JWKS, RFC 7517) by key id.

Keys that are symmetric, of unknown types or not for signatures are ignored: a token that names one has an unknown key.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from jwt import PyJWK, PyJWTError

from chalicelib.access.stale_if_error_cache import StaleIfErrorCache
from chalicelib.errors import IdentityUnavailableError, UnauthenticatedError, UnavailableError
from chalicelib.ports import Clock

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Accepted signing algorithms: asymmetric ones only. Neither ``none`` nor HMAC, for which the public key would serve as the secret."""
MAX_KEYS = 100
_KINDS = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}


class IssuerKeys:
    """``download`` returns the issuer's document, and raises UnavailableError."""

    def __init__(self, download: Callable[[], bytes], clock: Clock, on_failure: Callable[[UnavailableError], None]) -> None:
        self._cache = StaleIfErrorCache(lambda: _parsed(download()), clock, "the issuer's keys", on_failure)
        self._usable_keys: dict[tuple[str | None, str], tuple[Mapping[str, Any], PyJWK]] = {}

    def find(self, key_id: str | None, algorithm: str) -> PyJWK:
        """The key for a token's header. An unknown key causes one read of the document, which finds new keys. Returns the same object
        until the document is read again. Raises UnauthenticatedError, IdentityUnavailableError."""
        key = _chosen(self._cache.get(), key_id) or _chosen(self._cache.refresh(), key_id)
        if key is None:
            raise UnauthenticatedError("the token is signed with a key that its issuer does not list")
        if key.get("alg", algorithm) != algorithm or key["kty"] != _KINDS.get(algorithm[:2]):
            raise UnauthenticatedError("the token's signing algorithm does not match its key")
        return self._usable(key_id, algorithm, key)

    def _usable(self, key_id: str | None, algorithm: str, key: Mapping[str, Any]) -> PyJWK:
        source, made = self._usable_keys.get((key_id, algorithm), (None, None))
        if made is None or source is not key:
            try:
                made = PyJWK(dict(key), algorithm)
            except PyJWTError as error:
                raise UnauthenticatedError("the token is signed with a key that cannot be used") from error
            self._usable_keys[key_id, algorithm] = (key, made)
        return made


def _chosen(keys: Mapping[str | None, Mapping[str, Any]], key_id: str | None) -> Mapping[str, Any] | None:
    """The key with this id; a token without an id means the only key, if there is just one."""
    if key_id is None and len(keys) == 1:
        return next(iter(keys.values()))
    return keys.get(key_id)


def _parsed(body: bytes) -> dict[str | None, Mapping[str, Any]]:
    """Raises IdentityUnavailableError for an invalid document, so that the keys of the last valid one stay in use."""
    try:
        listed = json.loads(body)["keys"]
        usable = {key.get("kid"): key for key in listed[:MAX_KEYS] if _is_usable(key)}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise IdentityUnavailableError(f"the issuer's response is not a set of keys bytes={len(body)}") from error
    if not usable:
        raise IdentityUnavailableError(f"the issuer's response has no usable signing key bytes={len(body)}")
    return usable


def _is_usable(key: Mapping[str, Any]) -> bool:
    return (
        key.get("kty") in _KINDS.values()
        and key.get("use", "sig") == "sig"
        and key.get("alg", ALGORITHMS[0]) in ALGORITHMS
        and isinstance(key.get("kid"), str | None)
    )

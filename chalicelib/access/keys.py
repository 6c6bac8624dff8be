"""The issuer's public keys (JWKS, RFC 7517), by their ids.

Keys that are not for signatures, symmetric ones, and kinds that are not known are left out: a token that names one is of an unknown key.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from jwt import PyJWK, PyJWTError

from chalicelib.access.kept import Kept
from chalicelib.errors import IdentityUnavailableError, UnauthenticatedError, UnavailableError
from chalicelib.ports import Clock

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""How a token may be signed: asymmetric, all of them. Neither ``none`` nor HMAC, whose secret would be the public key."""
MAX_KEYS = 100
_KINDS = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}


class Keys:
    """``download`` answers the issuer's document, and raises UnavailableError."""

    def __init__(self, download: Callable[[], bytes], clock: Clock, on_failure: Callable[[UnavailableError], None]) -> None:
        self._kept = Kept(lambda: _parsed(download()), clock, "the issuer's keys", on_failure)
        self._made: dict[tuple[str | None, str], tuple[Mapping[str, Any], PyJWK]] = {}

    def find(self, key_id: str | None, algorithm: str) -> PyJWK:
        """The key of a token's header. One that is not known is asked for once, which is how a new key is learned of. The same object is
        returned until the document is read anew. Raises UnauthenticatedError, IdentityUnavailableError."""
        key = _chosen(self._kept.get(), key_id) or _chosen(self._kept.get_newer(), key_id)
        if key is None:
            raise UnauthenticatedError("the token is signed with a key that its issuer does not list")
        if key.get("alg", algorithm) != algorithm or key["kty"] != _KINDS.get(algorithm[:2]):
            raise UnauthenticatedError("the token is signed in another way than its key is for")
        return self._usable(key_id, algorithm, key)

    def _usable(self, key_id: str | None, algorithm: str, key: Mapping[str, Any]) -> PyJWK:
        source, made = self._made.get((key_id, algorithm), (None, None))
        if made is None or source is not key:
            try:
                made = PyJWK(dict(key), algorithm)
            except PyJWTError as error:
                raise UnauthenticatedError("the token is signed with a key that cannot be used") from error
            self._made[key_id, algorithm] = (key, made)
        return made


def _chosen(keys: Mapping[str | None, Mapping[str, Any]], key_id: str | None) -> Mapping[str, Any] | None:
    """By its id; a token without one means the only key that there is."""
    if key_id is None and len(keys) == 1:
        return next(iter(keys.values()))
    return keys.get(key_id)


def _parsed(body: bytes) -> dict[str | None, Mapping[str, Any]]:
    """Raises IdentityUnavailableError: a document that is none must not put the keys out of use that are known."""
    try:
        listed = json.loads(body)["keys"]
        found = {key.get("kid"): key for key in listed[:MAX_KEYS] if _is_usable(key)}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise IdentityUnavailableError(f"the issuer's answer is no set of keys bytes={len(body)}") from error
    if not found:
        raise IdentityUnavailableError(f"the issuer's answer has no key that tokens can be signed with bytes={len(body)}")
    return found


def _is_usable(key: Mapping[str, Any]) -> bool:
    return (
        key.get("kty") in _KINDS.values()
        and key.get("use", "sig") == "sig"
        and key.get("alg", ALGORITHMS[0]) in ALGORITHMS
        and isinstance(key.get("kid"), str | None)
    )

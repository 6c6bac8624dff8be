"""A token issuer for tests: generated keys, their public halves as a JWKS document, tokens with any claims."""

from __future__ import annotations

import base64
import json
import time
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from bench.issuer import serve_document as served_document

ISSUER = "https://issuer.test/"
AUDIENCE = "runlake"
JWT = {"auth": "jwt", "jwt_issuer": ISSUER, "jwt_audience": AUDIENCE, "jwt_jwks_url": "https://issuer.test/keys"}
"""Settings of an API that trusts this issuer."""
EVERYTHING = {
    "logs_write": ["*"],
    "logs_read": ["*"],
    "logs_delete": ["*"],
    "archive_write": ["*"],
    "archive_read": ["*"],
    "admin": ["*"],
}
"""Arguments of ``Issuer.granted`` for all permissions."""
_TO_JWK = {"RS": RSAAlgorithm, "PS": RSAAlgorithm, "ES": ECAlgorithm, "Ed": OKPAlgorithm}


def private_key(algorithm: str) -> Any:
    """A key for an algorithm."""
    if algorithm.startswith("Ed"):
        return ed25519.Ed25519PrivateKey.generate()
    if algorithm.startswith("ES"):
        curves: dict[str, ec.EllipticCurve] = {"ES256": ec.SECP256R1(), "ES384": ec.SECP384R1(), "ES512": ec.SECP521R1()}
        return ec.generate_private_key(curves[algorithm])
    return rsa.generate_private_key(65537, 2048)


@dataclass
class Issuer:
    """``reads`` counts reads of the document; ``failure``, if set, is raised by a read."""

    algorithm: str = "ES256"
    keys: dict[str, Any] = field(default_factory=dict)
    reads: int = 0
    failure: Exception | None = None

    def __post_init__(self) -> None:
        if not self.keys:
            self.add("key-1")

    def add(self, key_id: str) -> None:
        """Add a key. Tokens are signed with the last one."""
        self.keys[key_id] = private_key(self.algorithm)

    def jwks(self) -> dict[str, Any]:
        """The public keys."""
        return {"keys": [self.jwk(key_id) for key_id in self.keys]}

    def jwk(self, key_id: str) -> dict[str, Any]:
        """One public key."""
        written = _TO_JWK[self.algorithm[:2]].to_jwk(self.keys[key_id].public_key(), as_dict=True)
        return {**written, "kid": key_id, "use": "sig", "alg": self.algorithm}

    def read(self) -> bytes:
        """The document, as the API reads it."""
        self.reads += 1
        if self.failure:
            raise self.failure
        return json.dumps(self.jwks()).encode()

    def token(self, sub: str = "somebody", *, header: dict[str, Any] | None = None, key_id: str = "", **claims: Any) -> str:
        """A token; ``claims`` replace its claims, None removes one."""
        key_id, now_s = key_id or list(self.keys)[-1], int(time.time())
        said = {"iss": ISSUER, "aud": AUDIENCE, "sub": sub, "iat": now_s, "exp": now_s + 600} | claims
        payload = {name: value for name, value in said.items() if value is not None}
        return jwt.encode(payload, self.keys[key_id], self.algorithm, headers={"kid": key_id} | (header or {}))

    def granted(self, sub: str = "somebody", valid_s: int = 600, **scopes: list[str]) -> str:
        """A token with grants; ``logs_read=["*"]`` is ``logs:read``."""
        return self.token(
            sub, exp=int(time.time()) + valid_s, runlake={name.replace("_", ":"): names for name, names in scopes.items()}
        )


def bearer(token: str) -> dict[str, str]:
    """Authorization header with the token."""
    return {"Authorization": f"Bearer {token}"}


def basic(token: str, user: str = "anybody") -> dict[str, str]:
    """Authorization header of a client that supports only user and password."""
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{token}".encode()).decode()}


def serve_document(issuer: Issuer) -> AbstractContextManager[str]:
    """URL of the document on this machine."""
    return served_document(issuer.read)

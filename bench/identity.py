"""Cost of token verification: processor time of a first verification by algorithm, and of a cached token."""

from __future__ import annotations

import json
import time
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from bench.bench_world import Function
from bench.measure import Measure, cpu_s, reported
from chalicelib.access.keys import IssuerKeys
from chalicelib.access.tokens import TokenVerifier
from tests.support.clock import ManualClock

_ISSUER = "https://issuer.bench/"


def identity(_: Function, tokens: int = 300) -> list[Measure]:
    """Different tokens of one key, each verified twice; the mean."""
    spent = {"RS256": _spent(tokens, "RS256"), "ES256": _spent(tokens, "ES256")}
    first = "; ".join(f"{name} {times[0]:.3f} ms" for name, times in spent.items())
    again = "; ".join(f"{name} {times[1]:.3f} ms" for name, times in spent.items())
    return [
        reported("processor time to verify a token for the first time", first),
        reported("the same for a token that the process has verified before", again),
    ]


def _spent(count: int, algorithm: str) -> tuple[float, float]:
    private, public = _key(algorithm)
    document = json.dumps({"keys": [public | {"kid": "k", "use": "sig", "alg": algorithm}]}).encode()
    verifier = TokenVerifier(IssuerKeys(lambda: document, ManualClock(0), lambda error: None), _ISSUER, [], 0)
    now_s = int(time.time())
    first = again = 0.0
    for number in range(count):
        claims = {"iss": _ISSUER, "sub": f"subject-{number}", "iat": now_s, "exp": now_s + 3600}
        token = jwt.encode(claims, private, algorithm, headers={"kid": "k"})
        first += cpu_s(lambda token=token: verifier.verify(token))  # type: ignore[misc]
        again += cpu_s(lambda token=token: verifier.verify(token))  # type: ignore[misc]
    return first / count * 1000, again / count * 1000


def _key(algorithm: str) -> tuple[Any, dict[str, Any]]:
    if algorithm == "RS256":
        private_rsa = rsa.generate_private_key(65537, 2048)
        return private_rsa, RSAAlgorithm.to_jwk(private_rsa.public_key(), as_dict=True)
    private_ec = ec.generate_private_key(ec.SECP256R1())
    return private_ec, ECAlgorithm.to_jwk(private_ec.public_key(), as_dict=True)

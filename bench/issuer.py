"""A token issuer for measurements: generated keys, a local JWKS document, and a token with all permissions."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

_ISSUER, _AUDIENCE, _KEY_ID = "https://issuer.bench/", "runlake", "bench"
_SCOPES = ("logs:write", "logs:read", "logs:delete", "archive:write", "archive:read", "admin")
_VALID_S = 6 * 3600


@dataclass(frozen=True)
class Identity:
    """``settings``: environment of a function that accepts ``token``, an RS256 token like those of most issuers."""

    settings: dict[str, str]
    token: str


@contextmanager
def issuer() -> Iterator[Identity]:
    """Runs an issuer for the duration of the block."""
    key = rsa.generate_private_key(65537, 2048)
    public = RSAAlgorithm.to_jwk(key.public_key(), as_dict=True) | {"kid": _KEY_ID, "use": "sig", "alg": "RS256"}
    document = json.dumps({"keys": [public]}).encode()
    with serve_document(lambda: document) as url:
        now_s = int(time.time())
        claims = {"iss": _ISSUER, "aud": _AUDIENCE, "sub": "bench", "iat": now_s, "exp": now_s + _VALID_S}
        token = jwt.encode(claims | {"runlake": {scope: ["*"] for scope in _SCOPES}}, key, "RS256", headers={"kid": _KEY_ID})
        names = {"AUTH": "jwt", "JWT_ISSUER": _ISSUER, "JWT_AUDIENCE": _AUDIENCE, "JWT_JWKS_URL": url}
        yield Identity({f"RUNLAKE_{name}": value for name, value in names.items()}, token)


@contextmanager
def serve_document(read: Callable[[], bytes]) -> Iterator[str]:
    """URL of a local document, which each request reads again."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = read()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing is printed."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/keys"
        finally:
            server.shutdown()
            thread.join()
